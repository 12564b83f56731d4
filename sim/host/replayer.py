"""Makes a run again from its record: the same steps, with what came from outside put back at its places."""

from sim.errors import DivergenceError, RunError
from sim.host.time_slicer import TimeSlicer
from sim.kernel.duration import to_text
from sim.kernel.effects import EffectHandle
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.ports import Arrival, History


class Replayer:
    """Makes again what is on record.

    Args:
        kernel: of the run.
        history: what is on record.
        slicer: runs the kernel.
    """

    def __init__(self, kernel: Kernel, history: History, slicer: TimeSlicer) -> None:
        self._kernel = kernel
        self._history = history
        self._slicer = slicer
        self._begun: set[EffectHandle] = set()  # before the history was over; never iterated over

    @property
    def over(self) -> bool:
        """Whether all that is on record has been made again."""
        return self._history.over

    def in_doubt(self, handle: EffectHandle) -> bool:
        """Whether an effect was begun, must not be done again without asking, and has no outcome on record."""
        return handle in self._begun and self._history.in_doubt(handle)

    def late(self) -> Arrival | None:
        """Return what came from outside next; after the history is over, outcomes that are on record all the same."""
        return self._history.next_arrival()

    def some(self, until: int) -> Pause:
        """Make again some steps.

        Returns `BUDGET` if there is more to do, else why the run ended while it was made again: `LIMIT` if it came to
        `until`, or `HALTED`.

        Raises:
            DivergenceError, RunError: if it cannot be made again as it was.
        """
        history, end = self._history, min(until, self._history.until_ns)
        arrival = history.next_arrival()
        if arrival is not None and arrival.time_ns < end:
            return self._up_to(arrival)
        pause = self._slicer.run(end)
        if pause is Pause.HALTED:
            return pause
        if history.over or pause is Pause.BUDGET:
            return Pause.BUDGET
        _check(pause)
        due = self._kernel.next_time()
        if due is not None and due < end:
            return Pause.BUDGET  # an effect began, for which a live run would have paused
        if end < history.until_ns:
            self._kernel.advance_to(until)
            return Pause.LIMIT
        self._kernel.advance_to(end - 1)
        history.reached()
        return Pause.BUDGET

    def _up_to(self, arrival: Arrival) -> Pause:
        """Run up to the place of what came from outside next, and put it there."""
        pause = self._slicer.run_through(arrival.time_ns)
        here = (self._kernel.now, self._kernel.delta) == (arrival.time_ns, arrival.delta)
        if pause is not None and not (pause is Pause.BLOCKED and here):  # within an instant only for effects in doubt
            _check(pause)
            return Pause.HALTED if pause is Pause.HALTED else Pause.BUDGET
        if self._kernel.delta != arrival.delta:
            raise DivergenceError(
                f"{arrival.described} is on record at {to_text(arrival.time_ns)} in round {arrival.delta}, "
                f"but that instant has {self._kernel.delta} rounds now"
            )
        self.bring_in(arrival)
        return Pause.BUDGET

    def bring_in(self, arrival: Arrival) -> None:
        """Apply again what is on record at one place: what came in together is applied before any of it runs."""
        history, known = self._history, arrival
        while (known.time_ns, known.delta) == (arrival.time_ns, arrival.delta):
            self._apply(known)
            history.arrived()  # only now: the history may be over with it, and what is recorded then is new
            following = history.next_arrival()
            if following is None:
                return
            known = following

    def _apply(self, arrival: Arrival) -> None:
        """Apply again an input, or the outcome of a measured effect."""
        effects = self._kernel.effects
        if arrival.effect is None:
            if arrival.kind not in self._kernel.inputs:
                raise RunError(
                    f"the input {arrival.kind!r} is on record, and nothing says what it does",
                    hint="the program that made the run knows it: make it again from there",
                )
            self._kernel.apply(arrival.kind, arrival.data)
        elif (handle := effects.in_flight.get(arrival.effect)) is not None and arrival.outcome is not None:
            effects.record(handle, arrival.outcome)
            effects.post(handle, arrival.outcome)
        elif not self._history.over:
            raise DivergenceError(f"{arrival.described} is on record, but that effect was not begun now")

    def start(self, handle: EffectHandle) -> bool:
        """Give an effect its outcome, or leave it to its arrival, if that is on record; return whether it is."""
        history = self._history
        if history.over:
            return False
        self._begun.add(handle)
        known, outcome = history.answer(handle)
        if outcome is not None:
            self._kernel.effects.record(handle, outcome)
            self._kernel.effects.post(handle, outcome)
        history.started()  # only now: this may have been the last thing on record
        return known


def _check(pause: Pause) -> None:
    """Refuse to wait for an outcome that is not on record."""
    if pause is Pause.BLOCKED:
        raise RunError("the record ends too early: an effect that was begun has no outcome on record")
