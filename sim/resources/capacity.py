"""The waits of a rate tracker: for capacity (`Capacity`) and for a level (`CapacityWatch`); see `admission`."""

import math
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from sim.base.errors import UsageError
from sim.kernel import Actor, Kernel, Source, Timer
from sim.kernel.coroutines import coroutine
from sim.kernel.waits import NOTHING, taken
from sim.resources.windows import Need, Reservation

if TYPE_CHECKING:
    from sim.resources.admission import Admission


LAST = 1
"""The priority of entries that run after the woken actors of a round."""


class ResourceCounts:
    """Counts of one resource. See `RateStatistics`."""

    __slots__ = ("granted", "overspent", "refused", "waited")

    def __init__(self) -> None:
        self.granted = self.refused = self.waited = self.overspent = 0


class Capacity:
    """A wait for capacity. Pass it to `first_of`, or use `await wait.done()`.

    With `keep`, its value is a `Reservation`. Otherwise its value is None, and the units are free for the actor in the
    step in which it wakes. Code that stops to wait for another reason than cancellation must call `leave`, so that the
    waits behind it are examined.
    """

    __slots__ = ("_line", "_promise", "actor", "agent_id", "arrival", "costs", "keep", "needs", "token")

    def __init__(self, line: "Admission", agent_id: str, costs: dict[str, int], keep: bool) -> None:
        self._line = line
        self._promise: Reservation | None = None
        self.agent_id = agent_id
        self.costs = costs
        self.keep = keep
        self.needs: tuple[Need, ...] = ()
        self.arrival = 0
        self.actor: Actor | None = None
        self.token = -1

    @property
    def waiting(self) -> bool:
        """Whether its actor still waits."""
        return self.actor is not None and self.actor.token == self.token

    @coroutine
    def done(self) -> Generator[Any, Any, Reservation | None]:
        """Wait, and return the value."""
        return (yield from taken(self))  # type: ignore[no-any-return]

    def take(self) -> Any:
        """Return the value if there is room and no earlier wait is blocked on a window that this one needs."""
        self.actor = None
        self.needs = self._line.needs(self.agent_id, self.costs)
        self._line.refuse_impossible(self)
        if not self._line.fits(self):
            return NOTHING
        self._line.kernel.acting()  # it refuses a call from outside before anything changes
        return self._line.take(self.agent_id, self.costs, self.needs) if self.keep else None

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queues of all windows that it needs."""
        self.actor = actor
        self.token = actor.token
        self._line.join(self)

    def undo(self, value: Any) -> None:
        """Give back units that were handed over to an actor but not received by it."""
        reservation = value or self._promise
        if reservation is not None and reservation.open:
            self._line.give_back(reservation)

    def leave(self) -> None:
        """Stop to wait, and examine the waits behind this one."""
        if self.actor is not None:
            self.actor = None
            self._line.changed(window for window, _ in self.needs)

    def hand_over(self, reservation: Reservation) -> None:
        """Wake the actor, and hand the units over to it.

        The source of the wake-up is the actor, not the tracker. The counter of the tracker depends on all waiting
        agents, and agents that share no limit must not affect each other's record.
        """
        kernel, actor = self._line.kernel, self.actor
        assert actor is not None
        if self.keep:
            kernel.wake(actor, reservation, self, actor)
        else:
            self._promise = reservation
            kernel.call_at(kernel.now, self._redeem, actor)
            kernel.wake(actor, None, self, actor)

    def _redeem(self) -> None:
        if self._promise is not None and self._promise.open:
            self._promise.give_back(self._line.kernel.now)


class CapacityWatch:
    """Calls a function once, when an agent has at least `threshold` units of a resource left."""

    __slots__ = (
        "_callback", "_line", "_source", "agent_id", "arrival", "due", "needs", "resource", "threshold", "timer",
    )  # fmt: skip

    def __init__(
        self,
        line: "Admission",
        agent_id: str,
        resource: str,
        threshold: float,
        callback: Callable[[], None],
        source: Source | None,
    ) -> None:
        if not math.isfinite(threshold):
            raise UsageError(f"a threshold must be finite, not {threshold}")
        self._line = line
        self._callback = callback
        self._source = source
        self.agent_id = agent_id
        self.resource = resource
        self.threshold = max(0, math.ceil(threshold))  # windows hold whole units
        self.needs: tuple[Need, ...] = ()
        self.arrival = 0
        self.due: int | None = None
        self.timer: Timer | None = None  # set when the level is reached

    def cancel(self) -> None:
        """Cancel the callback. After it has run, this is a no-op."""
        if self.timer is not None:
            self.timer.cancel()
        else:
            self._line.forget(self)

    def tell(self, kernel: Kernel, source: Source) -> None:
        """Schedule the callback at this instant, in a separate step after the actors that waited for capacity.

        Args:
            kernel: the kernel.
            source: the source of the step, if the watch has no source of its own.
        """
        self.due = None
        source = self._source or source
        self.timer = Timer(kernel, source, self._callback)
        kernel.schedule(0, source, self.timer, 0, LAST)
