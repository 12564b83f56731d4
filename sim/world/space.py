"""Space: where agents are and what they show, step by step, so that nobody sees what has not happened yet for him.

In a round an agent sees the others as they were when the round began; what it does then is seen from the next round on.
So what an agent shows is kept by step (multi-version). An agent that has run ahead therefore disturbs nobody behind it,
and an agent behind disturbs one ahead only if it may have come into its sight by then. That bound, from how far agents
see and how fast they move, is what conservative synchronisation lives from (Chandy and Misra, 1979; for towns of
agents with language models: AI Metropolis, Xie et al., 2024).
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from sim.errors import CausalityError, UsageError

Position = Any
"""A pair of coordinates in a plane, or the name of a place in a graph."""

Metric = Callable[[Position, Position], float]
_ROUNDING = 1e-9  # from 1.3 to 1.2 it is a little more than 0.1

_LONG, _SHORT = 64, 6  # steps for which a list of neighbours is good: one to choose from, and one to go through


class Sighting(NamedTuple):
    """What one agent sees of another."""

    agent: str
    position: Position
    doing: str


class PositionHistory:
    """What one agent has shown, by step.

    Attributes:
        number: its place in the order of arrival.
        first: the step of the first version that is kept.
        versions: what it showed at the beginning of each step from then on.
        known: the last step at whose beginning it is known what it shows; later ones depend on what it does.
        gone: the step from which on it is no longer there, or None.
    """

    __slots__ = (
        "agent_id", "far", "far_until", "first", "gone", "known", "near", "near_until", "number", "partners",
        "versions",
    )  # fmt: skip

    def __init__(self, agent_id: str, number: int, step: int, shown: Sighting, partners: tuple[str, ...]) -> None:
        self.agent_id = agent_id
        self.number = number
        self.first = self.known = step
        self.versions = [shown]
        self.gone: int | None = None
        self.partners = partners  # whom it looks at wherever they are
        self.near: list[PositionHistory] = []  # see `Space.neighbours`
        self.far: list[PositionHistory] = []
        self.near_until = self.far_until = -1  # up to which step these lists are good

    def at(self, step: int) -> Sighting:
        """Return what it showed at the beginning of `step`, or the latest that is known."""
        index = step - self.first
        return self.versions[index] if index < len(self.versions) else self.versions[-1]

    def show(self, step: int, shown: Sighting) -> None:
        """Take what it shows from the beginning of `step` on."""
        missing = step - self.first - len(self.versions)
        if missing > 0:
            self.versions.extend([self.versions[-1]] * missing)
        self.versions[step - self.first :] = [shown]


@attrs.frozen
class Reach:
    """How far agents see and go.

    Args:
        metric: the distance between two positions, as one sees it.
        perception: how far one sees.
        speed: how far one goes in a step at most.
        walk: the distance as one walks it, where that is longer; None: the same.
    """

    metric: Metric
    perception: float
    speed: float
    walk: Metric | None = None

    def may_meet(self, steps: int, here: Position, there: Position) -> bool:
        """Whether one who was `there` may have come into the sight of one who is `here`, `steps` steps later."""
        if (
            self.walk is manhattan and self.metric is chebyshev
        ):  # what is seen is a square, and one walks around corners
            far, across = abs(here[0] - there[0]) - self.perception, abs(here[1] - there[1]) - self.perception
            return (far if far > 0 else 0) + (across if across > 0 else 0) <= steps * (self.speed + 2 * _ROUNDING)
        return self.near(steps, here, there)

    def near(self, steps: int, here: Position, there: Position) -> bool:
        """Whether two are within sight and `steps` steps of each other, as distances are seen."""
        return self.metric(here, there) <= self.perception + steps * (self.speed + 2 * _ROUNDING)

    def goes(self, start: Position, end: Position) -> bool:
        """Whether one can go from one position to another in a step."""
        return start == end or (self.walk or self.metric)(start, end) <= self.speed + _ROUNDING


class Space:
    """Who is where, and what each shows.

    Args:
        reach: how far agents see and go.
        inside: whether a position is one of this space.
        step: returns the step that it is for who acts now.

    Attributes:
        reach: how far agents see and go.
        on_look: called with (who looks, step, whom it saw); for who studies dependencies.
        strict: whether to raise when somebody looks where another one may be of whom it is not known yet.
        truth: whom an agent sees at a step, where that is known beforehand: (agent, step) → agents.
    """

    def __init__(self, reach: Reach, inside: Callable[[Position], bool], step: Callable[[], int]) -> None:
        self.reach = reach
        self.on_look: Callable[[str, int, Sequence[Sighting]], object] | None = None
        self.strict = False
        self.truth: Mapping[tuple[str, int], Sequence[str]] | None = None
        self._inside = inside
        self._step = step
        self._histories: dict[str, PositionHistory] = {}
        self._looked = False  # whether anybody has neighbours chosen

    @property
    def histories(self) -> Mapping[str, PositionHistory]:
        """What each agent has shown."""
        return self._histories

    def enter(self, agent_id: str, position: Position, doing: str = "", partners: tuple[str, ...] = ()) -> None:
        """Let an agent appear, at the beginning of the present step.

        Args:
            agent_id: who.
            position: where.
            doing: what it shows.
            partners: others that it may look at wherever they are.

        Raises:
            UsageError: if the position lies outside, or the agent is there already.
        """
        if agent_id in self._histories:
            raise UsageError(f"{agent_id} is in the space already")
        position = self._checked(position)
        shown = Sighting(agent_id, position, doing)
        self._histories[agent_id] = PositionHistory(agent_id, len(self._histories), self._step(), shown, partners)
        if self._looked:  # who was chosen from before does not know this one
            for history in self._histories.values():
                history.near_until = history.far_until = -1
            self._looked = False

    def leave(self, agent_id: str) -> None:
        """Let an agent disappear from the next step on."""
        history = self._histories.get(agent_id)
        if history is not None and history.gone is None:
            history.gone = self._step() + 1

    def where(self, agent_id: str) -> Position:
        """Return where an agent stands for itself, now."""
        return self._history(agent_id).at(self._step()).position

    def near(self, agent_id: str, radius: float | None = None) -> tuple[Sighting, ...]:
        """Return whom an agent sees around it, in order of arrival, as they were when this step began.

        Args:
            agent_id: who looks.
            radius: how far; by default as far as it can.

        Raises:
            UsageError: if that is farther than one can see.
            CausalityError: if somebody may be there of whom it is not known yet: a fault of who let the agent run.
        """
        reach, me, step = self.reach, self._history(agent_id), self._step()
        radius = reach.perception if radius is None else radius
        if not 0 <= radius <= reach.perception:
            raise UsageError(f"{agent_id} wants to look {radius:g} far, and one sees {reach.perception:g} far")
        here = me.at(step).position
        if self.truth is not None:
            names = dict.fromkeys(self.truth.get((agent_id, step), ()))  # it may have looked several times
            others = sorted((self._histories[name] for name in names), key=lambda history: history.number)
        else:
            others = self.neighbours(me, step)
        seen = []
        for other in others:
            if other.gone is not None and other.gone <= step:
                continue
            if self.strict and other.known < step and reach.may_meet(step - other.known, here, other.at(step).position):
                raise CausalityError(
                    f"{agent_id} looks around at step {step}, and {other.agent_id}, of whom nothing is known after step"
                    f" {other.known}, may be there"
                )
            shown = other.at(step)
            if reach.metric(here, shown.position) <= radius:
                seen.append(shown)
        if self.on_look is not None:
            self.on_look(agent_id, step, seen)
        return tuple(seen)

    def look(self, agent_id: str, partner: str) -> Sighting | None:
        """Return what a partner shows, wherever it is; None if it is gone.

        Raises:
            UsageError: if the agent has not declared that it depends on this one.
            CausalityError: as `near`.
        """
        me, step = self._history(agent_id), self._step()
        if partner not in me.partners:
            raise UsageError(
                f"{agent_id} looks at {partner}, which it does not depend on", hint="declare it in `partners`"
            )
        other = self._history(partner)
        if self.strict and other.known < step:
            raise CausalityError(f"{agent_id} looks at {partner} at step {step}, known up to {other.known}")
        if other.gone is not None and other.gone <= step:
            return None
        if self.on_look is not None:
            self.on_look(agent_id, step, [other.at(step)])
        return other.at(step)

    def show(self, agent_id: str, position: Position, doing: str) -> None:
        """Go somewhere, and show something, from the next step on.

        Raises:
            UsageError: if that is outside, or farther than one can go in a step.
        """
        history, step = self._history(agent_id), self._step()
        position = self._checked(position)
        here = history.at(step).position
        if not self.reach.goes(here, position):
            raise UsageError(
                f"{agent_id} cannot go from {here} to {position} in one step: it goes {self.reach.speed:g} at most"
            )
        history.show(step + 1, Sighting(agent_id, position, doing))

    def forget_before(self, step: int) -> None:
        """Drop what was shown before `step`: nobody will look at it any more."""
        for history in self._histories.values():
            old = min(step - history.first, len(history.versions) - 1)
            if old > 0:
                del history.versions[:old]
                history.first += old

    def neighbours(self, me: PositionHistory, step: int) -> list[PositionHistory]:
        """Return all who may come into the sight of `me`, or hold it up, at `step` and some steps after; others cannot.

        Who is farther than this at step s, cannot be near some steps later: both move at most `speed` a step.
        """
        if step > me.near_until:
            self._looked = True
            if step > me.far_until:
                me.far, me.far_until = self._within(me, step, self._histories.values(), _LONG), step + _LONG - 1
            me.near, me.near_until = self._within(me, step, me.far, _SHORT), min(step + _SHORT - 1, me.far_until)
        return me.near

    def _within(
        self, me: PositionHistory, step: int, others: Iterable[PositionHistory], life: int
    ) -> list[PositionHistory]:
        """Return those of `others` that may matter to `me` in the next `life` steps."""
        reach = self.reach
        here, metric, speed = me.at(step).position, reach.metric, reach.speed
        margin = reach.perception + 2 * speed * (life + 1)
        return [
            other
            for other in others
            if other is not me and metric(here, other.at(step).position) <= margin + max(0, step - other.known) * speed
        ]

    def state(self) -> Mapping[str, Any]:
        """Return what everybody shows, for the hash of the run."""
        return {
            name: [shown.position, shown.doing, history.gone is None]
            for name, history in sorted(self._histories.items())
            for shown in [history.versions[-1]]
        }

    def _checked(self, position: Position) -> Position:
        if isinstance(position, list):
            position = tuple(position)
        if not self._inside(position):
            raise UsageError(f"{str(position)[:80]} is no position of this space")
        return position

    def _history(self, agent_id: str) -> PositionHistory:
        history = self._histories.get(agent_id)
        if history is None:
            raise UsageError(f"{agent_id} is not in the space", hint="give it a `position`")
        return history


def euclid(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the straight distance of two points."""
    return math.hypot(a[0] - b[0], a[1] - b[1])


def chebyshev(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return how many steps a king takes from one cell of a board to another."""
    return max(abs(a[0] - b[0]), abs(a[1] - b[1]))


def manhattan(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return how many steps one takes from one cell of a board to another who goes along rows and columns."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def within(width: float, height: float) -> Callable[[Position], bool]:
    """Return what says whether a position lies on a plane of this size, from (0, 0) on."""

    def inside(position: Position) -> bool:
        if not isinstance(position, tuple) or len(position) != 2:
            return False
        if any(isinstance(part, bool) or not isinstance(part, int | float) for part in position):
            return False
        return bool(0 <= position[0] < width and 0 <= position[1] < height)

    return inside


class Hops:
    """The distance of two places of a graph: how many edges lie between them at least; infinite if none lead there.

    Args:
        edges: by place, those that are one edge away.
    """

    def __init__(self, edges: Mapping[str, Iterable[str]]) -> None:
        self._edges = edges
        self._found: dict[str, dict[str, int]] = {}

    def __call__(self, start: str, end: str) -> float:
        """Return the distance."""
        found = self._found.get(start)
        if found is None:
            found = self._found[start] = {start: 0}
            ahead = deque([start])
            while ahead:
                here = ahead.popleft()
                for place in self._edges[here]:
                    if place not in found:
                        found[place] = found[here] + 1
                        ahead.append(place)
        return found.get(end, math.inf)
