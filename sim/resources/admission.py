"""Waiting for capacity: first come, first served, with a wake-up at the exact time, and no cost without waiting actors.

A waiting actor is in the queue of each window that it needs. It is blocked on a window that has less room than it
needs. It then blocks all later actors that need the same window; actors that do not need this window can overtake.

Each window therefore has at most one relevant time: when the first actor that is blocked on it will fit
(`Window.due`). The tracker has one timer, for the earliest of these times. A window is examined when this time is
reached, when units are given back, when its limit changes, or when an actor that was blocked on it stops waiting. No
other event can admit an actor.

Units are consumed at the moment of admission, not when the actor runs, so that no other actor can take them in between.
If an actor waits without taking, its units are given back immediately before its own step. The entry for this has the
same source as the step and the preceding counter, so that no other entry can be between the two.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from sim.base.errors import LimitError
from sim.kernel import Kernel, Source, Timer
from sim.resources.capacity import LAST, Capacity, CapacityWatch, ResourceCounts
from sim.resources.windows import QUEUE_PURGE, Need, Reservation, Window, time_until

_FIRST = -1  # the priority of the timer: waiting actors precede the other actors of the same instant

_Cursor = tuple[int, int, Capacity, int, Window, Iterator[tuple[Capacity, int]]]
"""(arrival, tie breaker, the wait to examine, its need, the window, the rest of the window's queue)."""


class Admission:
    """The actors that wait for capacity of one tracker.

    Args:
        kernel: the kernel of the actors.
        source: the source on whose behalf the timer runs.
        needs: a function that returns the windows for an agent and costs (units by resource).
        tally: a function that returns the counts of a resource.
    """

    def __init__(
        self,
        kernel: Kernel,
        source: Source,
        needs: Callable[[str, dict[str, int]], tuple[Need, ...]],
        tally: Callable[[str], ResourceCounts],
    ) -> None:
        self.kernel = kernel
        self.needs = needs
        self._tally = tally
        self._source = source
        self._arrivals = 0
        self._pushes = 0
        self._dues: list[tuple[int, int, Window | CapacityWatch]] = []
        self._timer: Timer | None = None
        self._armed: int | None = None

    # -- arrivals and departures

    def join(self, wait: Capacity) -> None:
        """Add a wait that does not fit now at the end."""
        self._arrivals += 1
        wait.arrival = self._arrivals
        for resource in wait.costs:
            self._tally(resource).waited += 1
        self._register(wait)
        self.changed(window for window, _ in wait.needs)

    def watch(self, watch: CapacityWatch) -> None:
        """Start to observe a level."""
        self._arrivals += 1
        watch.arrival = self._arrivals
        self._register_watch(watch)
        self._look(watch)
        self._set_timer()

    def forget(self, watch: CapacityWatch) -> None:
        """Stop to observe a level."""
        watch.due = None
        for window, _ in watch.needs:
            if window.watches:
                window.watches.pop(watch.arrival, None)
        self._set_timer()

    def give_back(self, reservation: Reservation, keep: int = 0) -> None:
        """Close a reservation, and admit the actors that fit now."""
        self.changed(reservation.give_back(self.kernel.now, keep))

    def start_over(self, windows: Iterable[Window], change: Callable[[], None]) -> None:
        """Change limits, and examine again all waits for one of `windows`."""
        waits: dict[int, Capacity] = {}
        watches: dict[int, CapacityWatch] = {}
        for window in windows:
            waits.update((wait.arrival, wait) for wait, _ in window.queue or () if wait.waiting)
            watches.update(window.watches or {})
            window.queue, window.watches, window.largest = None, None, 0
            self._set_due(window, None)
        change()
        for _, wait in sorted(waits.items()):
            wait.needs = self.needs(wait.agent_id, wait.costs)
            self._register(wait)
        for _, wait in sorted(waits.items()):
            if not wait.needs:
                self._let_through(wait)
        touched = {window: None for wait in waits.values() for window, _ in wait.needs}
        for window in touched:
            window.due = self.kernel.now  # forces an examination, independent of the old limit
        self.changed(touched)
        for _, watch in sorted(watches.items()):
            self._register_watch(watch)
            self._look(watch)
        self._set_timer()

    def refuse_impossible(self, wait: Capacity) -> None:
        """Raise an error if the amount can never fit.

        Raises:
            LimitError: if it exceeds the limit of a window.
        """
        error = self._impossible(wait)
        if error is not None:
            raise error

    def fits(self, wait: Capacity) -> bool:
        """Return whether there is room, and no earlier wait is blocked on a window that `wait` needs."""
        now = self.kernel.now
        return all(need <= window.room(now) and not self._before(window, wait) for window, need in wait.needs)

    def take(self, agent_id: str, costs: dict[str, int], needs: tuple[Need, ...]) -> Reservation:
        """Consume units. The caller guarantees that there is capacity."""
        reservation = self._grant(agent_id, costs, needs)
        self.changed(window for window, _ in needs)
        return reservation

    def _grant(self, agent_id: str, costs: dict[str, int], needs: tuple[Need, ...]) -> Reservation:
        for resource in costs:
            self._tally(resource).granted += 1
        return Reservation(agent_id, costs, needs, self.kernel.now)

    # -- admission

    def changed(self, windows: Iterable[Window]) -> None:
        """Admit the actors that fit after a change of `windows`, and set the timer for the next one."""
        touched = {window: None for window in windows if window.queue or window.watches}
        if not touched:
            return
        self._let_in(touched)
        for window in touched:
            for watch in list((window.watches or {}).values()):
                self._look(watch)
        self._set_timer()

    def _let_in(self, touched: dict[Window, None]) -> None:
        """Examine the queues of all `touched` windows together, in order of arrival."""
        cursors, now, promised = list[_Cursor](), self.kernel.now, list[Window]()
        for window in touched:
            if window.due is not None or window.room(now) < window.largest:  # else no wait is blocked on this window
                self._advance(cursors, window, iter(window.queue or ()))
        while cursors:
            _, _, wait, need, window, rest = heappop(cursors)
            if wait.waiting and need <= window.limit and need > window.room(now):
                continue  # all later waits in this queue are blocked too
            if not wait.waiting:  # it was admitted, or refused, at another of its windows
                pass
            elif need > window.limit:
                self._refuse(wait)
                for other, _ in wait.needs:
                    self._advance(cursors, other, iter(other.queue or ()))
                    touched[other] = None
            elif self.fits(wait):
                self._let_through(wait)
                promised += [] if wait.keep else [other for other, _ in wait.needs]
                touched.update((other, None) for other, _ in wait.needs)
            self._advance(cursors, window, rest)
        for window in touched:
            self._note_due(window)
        if promised:  # after the steps of the actors, units that they did not consume are free for others
            after = Timer(self.kernel, self._source, lambda: self.changed(promised))
            self.kernel.schedule(0, self._source, after, 0, LAST)

    def _advance(self, cursors: list[_Cursor], window: Window, queue: Iterator[tuple[Capacity, int]]) -> None:
        """Move to the next wait in the queue of `window` that is still active."""
        for wait, need in queue:
            if wait.waiting:
                self._pushes += 1
                heappush(cursors, (wait.arrival, self._pushes, wait, need, window, queue))
                return

    def _note_due(self, window: Window) -> None:
        """Find the first wait that is blocked on `window`, and set the time at which it will fit."""
        queue, now, due = window.queue, self.kernel.now, None
        while queue and not queue[0][0].waiting:
            queue.popleft()
        room = window.room(now)
        if not queue:
            window.queue, window.largest = None, 0
        elif room < window.largest:
            need = next((need for wait, need in queue if need > room and wait.waiting), 0)
            delay = window.delay(need, now)
            due = now + delay if delay else None
        self._set_due(window, due)

    def _let_through(self, wait: Capacity) -> None:
        if wait.keep:
            wait.hand_over(self._grant(wait.agent_id, wait.costs, wait.needs))
        else:
            wait.hand_over(Reservation(wait.agent_id, wait.costs, wait.needs, self.kernel.now))

    def _before(self, window: Window, wait: Capacity) -> bool:
        """Return whether a wait that arrived before `wait` is blocked on `window`."""
        room = window.room(self.kernel.now)
        if window.largest <= room:
            return False
        for other, need in window.queue or ():
            if other is wait:
                return False
            if need > room and other.waiting:
                return True
        return False

    def _refuse(self, wait: Capacity) -> None:
        """Raise an error in an actor whose amount can never fit after a change of a limit."""
        error = self._impossible(wait)
        if error is not None and wait.actor is not None:
            self.kernel.throw(wait.actor, error)

    def _impossible(self, wait: Capacity) -> LimitError | None:
        for window, need in wait.needs:
            if need > window.limit:
                kind = next(name for name, amount in wait.costs.items() if amount == need)
                return LimitError(
                    kind, need, window.limit, wait.agent_id, hint="ask for less at once, or raise the limit"
                )
        return None

    # -- registrations

    def _register(self, wait: Capacity) -> None:
        for window, need in wait.needs:
            if window.queue is None:
                window.queue = deque()
            elif len(window.queue) >= window.purge_at:
                window.queue = deque(item for item in window.queue if item[0].waiting)
                window.purge_at = max(QUEUE_PURGE, 2 * len(window.queue))
            window.queue.append((wait, need))
            window.largest = max(window.largest, need)

    def _register_watch(self, watch: CapacityWatch) -> None:
        watch.needs = self.needs(watch.agent_id, {watch.resource: watch.threshold})
        for window, _ in watch.needs:
            if window.watches is None:
                window.watches = {}
            window.watches[watch.arrival] = watch

    def _look(self, watch: CapacityWatch) -> None:
        """Notify a watch whose level is reached, or set the time at which it will be if nothing is consumed."""
        span = time_until(watch.needs, self.kernel.now)
        if span == 0:
            self.forget(watch)
            watch.tell(self.kernel, self._source)
        else:
            self._set_due(watch, None if span is None else self.kernel.now + span)

    # -- time

    def _set_due(self, window: Window | CapacityWatch, due: int | None) -> None:
        if due != window.due:
            window.due = due
            if due is not None:
                self._pushes += 1  # a tie breaker between equal times, because windows cannot be compared
                heappush(self._dues, (due, self._pushes, window))

    def _set_timer(self) -> None:
        dues = self._dues
        while dues and dues[0][2].due != dues[0][0]:
            heappop(dues)
        first = dues[0][0] if dues else None
        if first == self._armed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed, self._timer = first, None
        if first is not None:
            self._timer = Timer(self.kernel, self._source, self._ring)
            self.kernel.schedule(first - self.kernel.now, self._source, self._timer, 0, _FIRST)

    def _ring(self) -> None:
        """Examine what is due: first waits, then watches."""
        self._armed = self._timer = None
        dues, now = self._dues, self.kernel.now
        windows, watches = list[Window](), list[CapacityWatch]()
        while dues and dues[0][0] <= now:
            due, _, target = heappop(dues)
            if target.due != due:
                continue
            if isinstance(target, Window):
                windows.append(target)
            else:
                watches.append(target)
                target.due = None
        self.changed(windows)
        for watch in watches:
            if watch.timer is None:
                self._look(watch)
        self._set_timer()
