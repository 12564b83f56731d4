"""The seats of a synchronised run: where each agent stands in its own time, and the rules for who may go on."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Literal

from sim.actors import AgentLoop
from sim.world.space import Space, Track

Sync = Literal["sequential", "barrier", "causal", "causal-radius", "free"]


class Phase(Enum):
    """What an agent is doing."""

    READY = auto()  # wants to begin its step
    BUSY = auto()  # in its step: it runs, or is being served
    GATE = auto()  # has decided on something shared, and waits until all that is earlier has happened
    COUPLED = auto()  # through, but its step counts only when those that it is coupled to are through too
    AWAY = auto()  # asleep, paused or in a line: the world's own time wakes it
    OUT = auto()  # stopped, or at the end of the run


class Seat:
    """One agent in a synchronised run.

    Attributes:
        loop: the agent's loop.
        number: its place in the order.
        step: the step that it does, or wants to do next.
        phase: what it is doing.
        track: what it shows in space, if it is there.
        path: seconds of service on the longest chain of dependencies that led to its present state.
        watchers: who waits until it has got on.
        since: service time, in nanoseconds, since which it has been ready, or through with its crew not.
        waited: nanoseconds of service time that it could have gone on and was not allowed to.
        crew: those that it steps together with.
        admitted: whether it may do now what all share: it was let through the gate.
    """

    __slots__ = (
        "_paths", "admitted", "crew", "delta", "loop", "number", "path", "phase", "serving", "since", "step", "time_ns",
        "track", "waited", "watchers",
    )  # fmt: skip

    def __init__(self, loop: AgentLoop, number: int, track: Track | None) -> None:
        self.loop = loop
        self.number = number
        self.track = track
        self.step = 0
        self.time_ns = self.delta = 0  # its own time, while it is busy
        self.phase = Phase.AWAY
        self.path = 0.0
        self._paths: list[tuple[int, float]] = []  # (step, path when it was through), where it changed
        self.watchers: list[Seat] = []
        self.since = 0
        self.waited = 0
        self.serving = False
        self.admitted = False
        self.crew: list[Seat] = []

    @property
    def agent_id(self) -> str:
        """The agent's name."""
        return self.loop.agent_id

    def path_before(self, step: int) -> float:
        """Return the longest chain that led to what it shows at the beginning of `step`."""
        index = bisect_left(self._paths, (step, -math.inf)) - 1
        return self._paths[index][1] if index >= 0 else 0.0

    def note_path(self) -> None:
        """Keep the length of the chain that led to the end of this step."""
        if not self._paths or self._paths[-1][1] != self.path:
            self._paths.append((self.step, self.path))

    def forget_paths(self, step: int) -> None:
        """Drop what only steps before `step` could ask for."""
        del self._paths[: max(0, bisect_left(self._paths, (step, -math.inf)) - 1)]


LOW: Literal["low"] = "low"
"""What an agent waits for that must not begin before everybody has come as far."""

Verdict = Seat | Literal["low"] | None
"""Whom, or what, a seat has to wait for; None if it may begin."""


class Rule(ABC):
    """Who may begin its step.

    Args:
        seats: all seats, by agent.
        space: where the agents are, if there is one.
        low: returns the earliest step that somebody still has to do.
    """

    strict = True  # whether an agent that looks at what is not known yet is a fault

    def __init__(self, seats: Mapping[str, Seat], space: Space | None, low: Callable[[], int]) -> None:
        self._seats = seats
        self._space = space
        self._low = low

    @abstractmethod
    def verdict(self, seat: Seat) -> Verdict:
        """Return whom a seat that is ready has to wait for."""

    def crew(self, seat: Seat) -> Sequence[Seat]:
        """Return who begins together with a seat of which `verdict` has just said that it may, itself included."""
        return (seat,)

    def _shared(self, seat: Seat) -> Verdict:
        """Let one that reads what all share wait until all that is earlier has happened."""
        return LOW if seat.loop.agent.reach == "shared" and self._low() < seat.step else None


class Barrier(Rule):
    """Nobody begins a step before all have done the one before: the tick mode's own rule."""

    def verdict(self, seat: Seat) -> Verdict:
        """Wait for the slowest."""
        return LOW if self._low() < seat.step else None


class Sequential(Rule):
    """A barrier, and only one agent at a time, in their order."""

    def __init__(self, seats: Mapping[str, Seat], space: Space | None, low: Callable[[], int]) -> None:
        super().__init__(seats, space, low)
        self._order = list(seats.values())
        self._step = -1
        self._passed: dict[int, int] = {}  # who has nothing to do in this step → before whom to look further

    def verdict(self, seat: Seat) -> Verdict:
        """Wait for the slowest, and for the nearest of those that stand before in the order."""
        if self._low() < seat.step:
            return LOW
        if self._step != seat.step or seat.number in self._passed:  # it has woken within the step
            self._step, self._passed = seat.step, {}
        number, passed = seat.number - 1, list[int]()
        while number >= 0 and not self._stands(self._order[number]):
            passed.append(number)
            number = self._passed.get(number, number - 1)
        self._passed.update(dict.fromkeys(passed, number))
        return self._order[number] if number >= 0 else None

    def _stands(self, other: Seat) -> bool:
        return other.step == self._step and other.phase in (Phase.READY, Phase.BUSY)


class Free(Rule):
    """Nobody waits for what is near: each sees what others have shown so far. Causality is not kept in space."""

    strict = False

    def verdict(self, seat: Seat) -> Verdict:
        """Go on, unless it reads what all share."""
        return self._shared(seat)


class Causal(Rule):
    """An agent waits for those that may have come into its sight by its step, and for those it depends on.

    What is shown is kept by step, so nobody waits for one that is ahead, and those in sight of each other need not
    step together.
    """

    def verdict(self, seat: Seat) -> Verdict:
        """Wait for the first of whom too little is known."""
        track, space, step = seat.track, self._space, seat.step
        if track is None or space is None or seat.loop.agent.reach == "shared":
            return self._shared(seat)
        here, may_meet = track.at(step).position, space.reach.may_meet
        for other in space.neighbours(track, step):
            known = other.known
            if known < step and may_meet(step - known, here, other.at(known).position):
                return self._seats[other.agent_id]
        for name in track.partners:
            if space.tracks[name].known < step:
                return self._seats[name]
        return None


class CausalRadius(Rule):
    """The rule of AI Metropolis (Xie et al., 2024).

    Agents at the same step within perception + speed of each other are coupled and step together. One waits for a
    slower one while their distance is at most (difference of steps + 1) · speed + perception.
    """

    def __init__(self, seats: Mapping[str, Seat], space: Space | None, low: Callable[[], int]) -> None:
        super().__init__(seats, space, low)
        self._crew: Sequence[Seat] = ()  # of whom the latest verdict spoke
        self._held: dict[Seat, tuple[int, Seat, Seat]] = {}  # whose crew waits → its step, the member held up, by whom

    def verdict(self, seat: Seat) -> Verdict:
        """Wait for the first slower one that may interfere with any of those it is coupled to."""
        if seat.loop.agent.reach == "shared":
            self._crew = (seat,)
            return self._shared(seat)
        step, member, slower = self._held.pop(seat, (-1, seat, seat))
        if step == seat.step == member.step and member.phase is Phase.READY and self._holds_up(member, slower):
            self._held[seat] = step, member, slower
            return slower
        self._crew = self._coupled_to(seat)
        for member in self._crew:
            verdict = self._shared(member) or self._slower(member)
            if isinstance(verdict, Seat):
                self._held.update(dict.fromkeys(self._crew, (seat.step, member, verdict)))
            if verdict is not None:
                return verdict
        return None

    def crew(self, seat: Seat) -> Sequence[Seat]:
        """Return all that the seat is coupled to, over any number of others."""
        return self._crew

    def _coupled_to(self, seat: Seat) -> Sequence[Seat]:
        if seat.track is None or self._space is None:
            return (seat,)
        found = {seat.agent_id: seat}
        ahead = [seat]
        while ahead:
            for other in self._coupled(ahead.pop()):
                if other.agent_id not in found:
                    found[other.agent_id] = other
                    ahead.append(other)
        return sorted(found.values(), key=lambda member: member.number)

    def _coupled(self, seat: Seat) -> list[Seat]:
        step, space, track = seat.step, self._space, seat.track
        assert space is not None, "asked before"
        assert track is not None, "asked before"
        reach, here = space.reach, track.at(step).position
        near = (self._seats[other.agent_id] for other in space.neighbours(track, step))
        return [
            other
            for other in near
            if other.step == step
            and other.phase is Phase.READY
            and other.track is not None
            and reach.near(1, here, other.track.at(step).position)
        ]

    def _slower(self, seat: Seat) -> Seat | None:
        if self._space is None or seat.track is None:
            return None
        slower = (self._seats[other.agent_id] for other in self._space.neighbours(seat.track, seat.step))
        return next((other for other in slower if self._holds_up(seat, other)), None)

    def _holds_up(self, seat: Seat, other: Seat) -> bool:
        """Whether another one is so far behind that it may come near by the step of a seat."""
        space, track, theirs = self._space, seat.track, other.track
        if space is None or track is None or theirs is None:
            return False
        behind = seat.step - theirs.known  # by which time even one that has stopped, or sleeps, stands where it stood
        return behind > 0 and space.reach.near(
            behind + 1, track.at(seat.step).position, theirs.at(theirs.known).position
        )


class Oracle(Rule):
    """An agent waits only for those that it will really see: the best that any rule could do.

    Args:
        seats, space, low: as for any rule.
        seen: (agent, step) → whom it sees, from an earlier run.
    """

    def __init__(
        self,
        seats: Mapping[str, Seat],
        space: Space | None,
        low: Callable[[], int],
        seen: Mapping[tuple[str, int], Sequence[str]],
    ) -> None:
        super().__init__(seats, space, low)
        self._seen = seen

    def verdict(self, seat: Seat) -> Verdict:
        """Wait for the first of those it will see that is not as far yet."""
        if self._space is None or seat.loop.agent.reach == "shared":
            return self._shared(seat)
        for name in self._seen.get((seat.agent_id, seat.step), ()):
            if self._space.tracks[name].known < seat.step:
                return self._seats[name]
        return None


RULES: Mapping[str, type[Rule]] = {
    "sequential": Sequential, "barrier": Barrier, "causal": Causal, "causal-radius": CausalRadius, "free": Free,
}  # fmt: skip
