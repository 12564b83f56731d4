"""Makes a run again from its record: the same steps, with what came from outside put back at its places."""

from sim.errors import DivergenceError, RunError
from sim.kernel.duration import to_text
from sim.kernel.effects import Ticket
from sim.kernel.ports import Arrival, Past
from sim.kernel.scheduler import Kernel
from sim.kernel.stepper import Stepper
from sim.kernel.targets import Pause


class Remake:
    """Makes again what is on record.

    Args:
        kernel: of the run.
        past: what is on record.
        stepper: runs the kernel.
    """

    def __init__(self, kernel: Kernel, past: Past, stepper: Stepper) -> None:
        self._kernel = kernel
        self._past = past
        self._stepper = stepper
        self._begun: set[Ticket] = set()  # before the past was over; never iterated over

    @property
    def over(self) -> bool:
        """Whether all that is on record has been made again."""
        return self._past.over

    def in_doubt(self, ticket: Ticket) -> bool:
        """Whether an effect was begun, must not be done again without asking, and has no outcome on record."""
        return ticket in self._begun and self._past.in_doubt(ticket)

    def late(self) -> Arrival | None:
        """Return what came from outside next; after the past is over, outcomes that are on record all the same."""
        return self._past.next_arrival()

    def some(self, until: int) -> Pause:
        """Make again some steps.

        Returns `BUDGET` if there is more to do, else why the run ended while it was made again: `LIMIT` if it came to
        `until`, or `HALTED`.

        Raises:
            DivergenceError, RunError: if it cannot be made again as it was.
        """
        past, end = self._past, min(until, self._past.until_ns)
        arrival = past.next_arrival()
        if arrival is not None and arrival.time_ns < end:
            return self._up_to(arrival)
        pause = self._stepper.run(end)
        if pause is Pause.HALTED:
            return pause
        if past.over or pause is Pause.BUDGET:
            return Pause.BUDGET
        _check(pause)
        due = self._kernel.next_time()
        if due is not None and due < end:
            return Pause.BUDGET  # an effect began, for which a live run would have paused
        if end < past.until_ns:
            self._kernel.advance_to(until)
            return Pause.LIMIT
        self._kernel.advance_to(end - 1)
        past.reached()
        return Pause.BUDGET

    def _up_to(self, arrival: Arrival) -> Pause:
        """Run up to the place of what came from outside next, and put it there."""
        pause = self._stepper.run_through(arrival.time_ns)
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
        past, known = self._past, arrival
        while (known.time_ns, known.delta) == (arrival.time_ns, arrival.delta):
            self._apply(known)
            past.arrived()  # only now: the past may be over with it, and what is recorded then is new
            following = past.next_arrival()
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
        elif (ticket := effects.in_flight.get(arrival.effect)) is not None and arrival.outcome is not None:
            effects.record(ticket, arrival.outcome)
            effects.post(ticket, arrival.outcome)
        elif not self._past.over:
            raise DivergenceError(f"{arrival.described} is on record, but that effect was not begun now")

    def start(self, ticket: Ticket) -> bool:
        """Give an effect its outcome, or leave it to its arrival, if that is on record; return whether it is."""
        past = self._past
        if past.over:
            return False
        self._begun.add(ticket)
        known, outcome = past.answer(ticket)
        if outcome is not None:
            self._kernel.effects.record(ticket, outcome)
            self._kernel.effects.post(ticket, outcome)
        past.started()  # only now: this may have been the last thing on record
        return known


def _check(pause: Pause) -> None:
    """Refuse to wait for an outcome that is not on record."""
    if pause is Pause.BLOCKED:
        raise RunError("the record ends too early: an effect that was begun has no outcome on record")
