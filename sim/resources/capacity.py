"""The two things to wait for at a rate tracker: capacity (`Capacity`) and a level (`Watch`). See `admission` for
the order.
"""

import math
import types
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from sim.errors import Cancelled, UsageError
from sim.kernel import Actor, Kernel, Source, Timer
from sim.kernel.waits import NOTHING
from sim.resources.windows import Need, Reservation

if TYPE_CHECKING:
    from sim.resources.admission import Admission


LAST = 1
"""The priority of what comes after all of a round in which actors run who have waited."""


class ResourceCounts:
    """Counts of one resource, see `RateStatistics`."""

    __slots__ = ("granted", "overspent", "refused", "waited")

    def __init__(self) -> None:
        self.granted = self.refused = self.waited = self.overspent = 0


class Capacity:
    """A wait for capacity, for `first_of`; `await wait.done()` waits for it alone.

    Its value is a `Reservation` with `keep`, else None: then the units are free for the actor in the step in
    which it wakes. Who stops waiting without being cancelled must call `leave`, so that those behind it are
    looked at.
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
        """Whether its actor still waits for it."""
        return self.actor is not None and self.actor.token == self.token

    @types.coroutine
    def done(self) -> Generator[Any, Any, Reservation | None]:
        """Wait, and return the value."""
        value = self.take()
        if value is NOTHING:
            try:
                value = yield self
            except (Exception, Cancelled):
                self.leave()
                raise
        return value  # type: ignore[no-any-return]

    def take(self) -> Any:
        """Return the value if there is room and nobody who came before is blocked on what is needed."""
        self.actor = None
        self.needs = self._line.needs(self.agent_id, self.costs)
        self._line.refuse_impossible(self)
        if not self._line.fits(self):
            return NOTHING
        return self._line.take(self.agent_id, self.costs, self.needs) if self.keep else None

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the line."""
        self.actor = actor
        self.token = actor.token
        self._line.join(self)

    def undo(self, value: Any) -> None:
        """Give back what was handed over to an actor that will not see it."""
        reservation = value or self._promise
        if reservation is not None and reservation.open:
            self._line.give_back(reservation)

    def leave(self) -> None:
        """Wait no longer: those behind may go on."""
        if self.actor is not None:
            self.actor = None
            self._line.changed(window for window, _ in self.needs)

    def hand_over(self, reservation: Reservation) -> None:
        """Wake the actor: the units are its own.

        The source is the actor itself, not the tracker, whose counter also counts what others wait for: agents that
        share no limit must leave no trace in each other's record.
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


class Watch:
    """Calls back once, when an agent has at least `threshold` units of a resource left."""

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
        self.timer: Timer | None = None  # set once the level is reached

    def cancel(self) -> None:
        """Make sure that the callback never runs; once it has run, this does nothing."""
        if self.timer is not None:
            self.timer.cancel()
        else:
            self._line.forget(self)

    def tell(self, kernel: Kernel, source: Source) -> None:
        """Have the callback run at this instant, in a step of its own, after those who have waited.

        Args:
            kernel: whose instant it is.
            source: on whose behalf, if the watch has no source of its own.
        """
        self.due = None
        source = self._source or source
        self.timer = Timer(kernel, source, self._callback)
        kernel.schedule(0, source, self.timer, 0, LAST)
