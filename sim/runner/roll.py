"""The roll of a synchronised run: who is at which step, who waits at its gate, and who is away."""

from heapq import heappop, heappush

from sim.runner.seat import Phase, Seat


class Roll:
    """Counts who has something to do at which step.

    Attributes:
        away: whom the world's own time wakes.
    """

    def __init__(self) -> None:
        self.away: dict[Seat, None] = {}
        self._stirred: dict[Seat, None] = {}  # whose loop has changed since `stirred` was asked
        self._present: dict[int, int] = {}  # by step: how many are ready or busy in it
        self._gated: dict[int, list[tuple[int, Seat]]] = {}  # by step: heap of who has decided on something shared
        self._waiting: dict[int, list[Seat]] = {}  # by step: who waits until all have come to it

    def seat(self, seat: Seat, step: int, phase: Phase) -> None:
        """An agent is ready for a step, or busy in it."""
        self.away.pop(seat, None)
        seat.step = step
        seat.phase = phase
        self._present[step] = self._present.get(step, 0) + 1

    def unseat(self, seat: Seat) -> None:
        """An agent has no more to do in its step."""
        left = self._present[seat.step] - 1
        if left:
            self._present[seat.step] = left
        else:
            del self._present[seat.step]

    def goes_away(self, seat: Seat) -> None:
        """An agent that was unseated is woken by the world's own time."""
        seat.phase = Phase.AWAY
        self.away[seat] = self._stirred[seat] = None  # it may have changed before

    def stirs(self, seat: Seat) -> None:
        """Something has changed about an agent's loop."""
        self._stirred[seat] = None

    def stirred(self) -> list[Seat]:
        """Return those away of whom something has changed, in order; each once."""
        found = in_order([seat for seat in self._stirred if seat in self.away])
        self._stirred.clear()
        return found

    def goes_out(self, seat: Seat) -> None:
        """An agent does no more steps."""
        if seat.phase is Phase.READY:
            self.unseat(seat)
        self.away.pop(seat, None)
        seat.phase = Phase.OUT

    def to_gate(self, seat: Seat) -> None:
        """An agent has decided on something that all share."""
        self.unseat(seat)
        seat.phase = Phase.GATE
        heappush(self._gated.setdefault(seat.step, []), (seat.number, seat))

    def next_at_gate(self, step: int) -> Seat | None:
        """Return who acts next in a step, None if somebody has not decided yet or nobody is left."""
        gated = self._gated.get(step)
        if gated is None or step in self._present:
            return None
        _, seat = heappop(gated)
        if not gated:
            del self._gated[step]
        return seat

    def wait_for_all(self, seat: Seat) -> None:
        """An agent waits until all have come to its step."""
        self._waiting.setdefault(seat.step, []).append(seat)

    def all_at(self, step: int) -> list[Seat]:
        """All have come to a step: return who has waited for that, in order."""
        steps = sorted(earlier for earlier in self._waiting if earlier <= step)
        return [seat for earlier in steps for seat in in_order(self._waiting.pop(earlier))]

    def lowest(self) -> int | None:
        """Return the earliest step that somebody has to do."""
        return min((min(steps) for steps in (self._present, self._gated) if steps), default=None)


def in_order(seats: list[Seat]) -> list[Seat]:
    """Return seats in the order of their agents."""
    return sorted(seats, key=lambda seat: seat.number)
