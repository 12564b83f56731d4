"""Replays a run from its record: the same steps, with each recorded arrival at its place."""

from sim.base.errors import DivergenceError, RunError
from sim.host.time_slicer import TimeSlicer
from sim.kernel.duration import to_text
from sim.kernel.effects import EffectHandle
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.ports import Arrival, History


class Replayer:
    """Replays the record of a run.

    Args:
        kernel: the kernel of the run.
        history: the record.
        slicer: the object that runs the kernel in slices.

    Attributes:
        slicer: that object.
    """

    def __init__(self, kernel: Kernel, history: History, slicer: TimeSlicer) -> None:
        self._kernel = kernel
        self._history = history
        self.slicer = slicer
        self._begun: set[EffectHandle] = set()  # effects that started during the replay; never iterated over

    @property
    def over(self) -> bool:
        """Whether the replay is over."""
        return self._history.over

    def is_held(self, handle: EffectHandle) -> bool:
        """Return whether an effect that started during the replay is held. The caller knows that it has no outcome."""
        return handle in self._begun and self._history.is_held(handle)

    def late(self) -> Arrival | None:
        """Return the next arrival on record. There may be outcomes on record after the end of the replay."""
        return self._history.next_arrival()

    def some(self, until: int) -> Pause:
        """Replay some steps.

        Returns:
            `BUDGET` if there is more to do. `LIMIT` if the run reached `until` during the replay, `HALTED` if it was
            halted.

        Raises:
            DivergenceError: if the replay differs from the record.
            RunError: if the record is incomplete, or an input on record is unknown.
        """
        history, end = self._history, min(until, self._history.until_ns)
        arrival = history.next_arrival()
        if arrival is not None and arrival.time_ns < end:
            return self._up_to(arrival)
        pause = self.slicer.run(end)
        if pause is Pause.HALTED:
            return pause
        if history.over or pause is Pause.BUDGET:
            return Pause.BUDGET
        _check(pause)
        due = self._kernel.next_time()
        if due is not None and due < end:
            return Pause.BUDGET  # an effect has started, which paused the kernel as in a live run
        if end < history.until_ns:
            self._kernel.advance_to(until)
            return Pause.LIMIT
        self._kernel.advance_to(end - 1)
        history.reached()
        return Pause.BUDGET

    def _up_to(self, arrival: Arrival) -> Pause:
        """Run up to the place of the next arrival, and apply it."""
        pause = self.slicer.run_through(arrival.time_ns)
        here = (self._kernel.now, self._kernel.delta) == (arrival.time_ns, arrival.delta)
        if pause is not None and not (pause is Pause.BLOCKED and here):  # BLOCKED here: there were effects in doubt
            _check(pause)
            return Pause.HALTED if pause is Pause.HALTED else Pause.BUDGET
        if self._kernel.delta != arrival.delta:
            raise DivergenceError(
                f"{arrival.described} is on record at {to_text(arrival.time_ns)} in round {arrival.delta}, "
                f"but that instant has {self._kernel.delta} rounds in the replay"
            )
        self.bring_in(arrival)
        return Pause.BUDGET

    def bring_in(self, arrival: Arrival) -> None:
        """Apply all arrivals that are on record at the same place, before any step that they cause."""
        history, current = self._history, arrival
        while (current.time_ns, current.delta) == (arrival.time_ns, arrival.delta):
            self._apply(current)
            history.arrived()  # after `_apply`, because it may end the replay, and rows recorded then count as new
            following = history.next_arrival()
            if following is None:
                return
            current = following

    def _apply(self, arrival: Arrival) -> None:
        """Apply an input, or the outcome of an effect with measured latency."""
        effects = self._kernel.effects
        if arrival.effect is None:
            if arrival.kind not in self._kernel.inputs:
                raise RunError(
                    f"the input {arrival.kind!r} is on record, but this program has no handler for it",
                    hint="replay the run in the program that made it",
                )
            self._kernel.apply(arrival.kind, arrival.data)
        elif (handle := effects.in_flight.get(arrival.effect)) is not None and arrival.outcome is not None:
            effects.record(handle, arrival.outcome)
            effects.post(handle, arrival.outcome)
        elif not self._history.over:
            raise DivergenceError(f"{arrival.described} is on record, but that effect did not start in the replay")

    def start(self, handle: EffectHandle) -> bool:
        """Return whether the outcome of an effect is on record. If its time of delivery is fixed, set the outcome."""
        history = self._history
        if history.over:
            return False
        self._begun.add(handle)
        on_record, outcome = history.answer(handle)
        if outcome is not None:
            self._kernel.effects.record(handle, outcome)
            self._kernel.effects.post(handle, outcome)
        history.started()  # after the outcome is set, because this call may end the replay
        return on_record


def _check(pause: Pause) -> None:
    """Raise an error if the kernel waits for an outcome that is not on record."""
    if pause is Pause.BLOCKED:
        raise RunError("the record is incomplete: an effect was started, but its outcome is not on record")
