"""Space: the positions and visible activities of agents, by step, so that no agent sees the future.

In a step, an agent sees the others as they were at the beginning of the step. What it does is visible from the next
step on. So the space keeps one version of each agent per step (multi-versioning). An agent that has run ahead
therefore cannot affect agents behind it. An agent behind can affect one ahead only if it can have come within its
perception radius by then. This bound follows from perception radius and speed. It is the lookahead of conservative
synchronisation (Chandy and Misra, 1979; for towns of agents with language models: AI Metropolis, Xie et al., 2024).

Here a step is the number of a tick (simulated time divided by the period), not a step of the kernel.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from sim.base.errors import CausalityError, UsageError
from sim.kernel.codec import JsonObject
from sim.kernel.ports import ANYONE, Guard

Position = Any
"""A pair of coordinates in a plane, or the name of a place in a graph."""

Metric = Callable[[Position, Position], float]
_ROUNDING = 1e-9  # tolerance for rounding errors of floats: 1.3 - 1.2 is a little more than 0.1

_LONG, _SHORT = 64, 6  # for how many steps the lists `far` (candidates) and `near` (taken from `far`) are valid


class Sighting(NamedTuple):
    """The visible state of an agent: its name, position and activity."""

    agent: str
    position: Position
    doing: str


class PositionHistory:
    """The visible states of one agent, by step.

    Attributes:
        number: zero-based index in the order of arrival.
        first: the step of the first version that is kept.
        versions: the visible state at the beginning of each step, from step `first` on.
        final: the last step for whose beginning the visible state is final; later ones depend on the agent's actions.
        gone: the first step in which the agent is no longer in the space, or None.
    """

    __slots__ = (
        "agent_id", "far", "far_until", "final", "first", "gone", "near", "near_until", "number", "partners",
        "versions",
    )  # fmt: skip

    def __init__(self, agent_id: str, number: int, step: int, shown: Sighting, partners: tuple[str, ...]) -> None:
        self.agent_id = agent_id
        self.number = number
        self.first = self.final = step
        self.versions = [shown]
        self.gone: int | None = None
        self.partners = partners  # agents that it can look at from any distance
        self.near: list[PositionHistory] = []  # see `Space.neighbours`
        self.far: list[PositionHistory] = []
        self.near_until = self.far_until = -1  # the last step for which these lists are valid

    def at(self, step: int) -> Sighting:
        """Return the visible state at the beginning of `step`, or the latest one before."""
        index = step - self.first
        return self.versions[index] if index < len(self.versions) else self.versions[-1]

    def show(self, step: int, shown: Sighting) -> None:
        """Set the visible state from the beginning of `step` on."""
        missing = step - self.first - len(self.versions)
        if missing > 0:
            self.versions.extend([self.versions[-1]] * missing)
        self.versions[step - self.first :] = [shown]


@attrs.frozen
class Reach:
    """The perception radius and the speed of agents.

    Args:
        metric: the distance between two positions, for perception.
        perception: the perception radius.
        speed: the maximum distance that an agent moves in one step.
        walk: the distance between two positions for movement, at least as large as `metric`; None: `metric`.
    """

    metric: Metric
    perception: float
    speed: float
    walk: Metric | None = None

    def may_meet(self, steps: int, here: Position, there: Position) -> bool:
        """Return whether an agent that was `there` can be perceived from `here` after `steps` steps."""
        if (
            self.walk is manhattan and self.metric is chebyshev
        ):  # perception covers a square, and movement follows rows and columns, so the bound is tighter
            far, across = abs(here[0] - there[0]) - self.perception, abs(here[1] - there[1]) - self.perception
            return (far if far > 0 else 0) + (across if across > 0 else 0) <= steps * (self.speed + 2 * _ROUNDING)
        return self.near(steps, here, there)

    def near(self, steps: int, here: Position, there: Position) -> bool:
        """Return whether two positions are within the perception radius plus `steps` steps, by `metric`."""
        return self.metric(here, there) <= self.perception + steps * (self.speed + 2 * _ROUNDING)

    def goes(self, start: Position, end: Position) -> bool:
        """Return whether an agent can move from `start` to `end` in one step."""
        return start == end or (self.walk or self.metric)(start, end) <= self.speed + _ROUNDING


class Space:
    """The positions and visible activities of all agents.

    Args:
        reach: the perception radius and the speed of agents.
        inside: returns whether a position is in this space.
        step: returns the current step of the agent that acts now.

    Attributes:
        reach: the perception radius and the speed of agents.
        on_look: called with (agent that looks, step, what it saw), for analyses of dependencies; or None.
        strict: whether to raise `CausalityError` if an agent looks where another agent can be whose state at that step
            is not known yet.
        truth: (agent, step) → agents that it sees, if this is known in advance; None: computed from positions.
        gate: who may change it.
    """

    def __init__(self, reach: Reach, inside: Callable[[Position], bool], step: Callable[[], int]) -> None:
        self.reach = reach
        self.gate: Guard = ANYONE
        self.on_look: Callable[[str, int, Sequence[Sighting]], object] | None = None
        self.strict = False
        self.truth: Mapping[tuple[str, int], Sequence[str]] | None = None
        self._inside = inside
        self._step = step
        self._histories: dict[str, PositionHistory] = {}
        self._looked = False  # whether any list of neighbours was computed

    @property
    def histories(self) -> Mapping[str, PositionHistory]:
        """The history of each agent, by id."""
        return self._histories

    def enter(self, agent_id: str, position: Position, doing: str = "", partners: tuple[str, ...] = ()) -> None:
        """Add an agent, at the beginning of the present step.

        Args:
            agent_id: the id of the agent.
            position: its position.
            doing: its visible activity.
            partners: the ids of agents that it can look at from any distance.

        Raises:
            UsageError: if the position is outside of the space, or the agent is already in it.
        """
        if self.gate.current is None:
            self.gate.acting()  # it refuses a call from outside before anything changes
        if agent_id in self._histories:
            raise UsageError(f"{agent_id} is in the space already")
        position = self._checked(position)
        shown = Sighting(agent_id, position, doing)
        self._histories[agent_id] = PositionHistory(agent_id, len(self._histories), self._step(), shown, partners)
        if self._looked:  # existing lists of neighbours do not contain the new agent
            for history in self._histories.values():
                history.near_until = history.far_until = -1
            self._looked = False

    def leave(self, agent_id: str) -> None:
        """Remove an agent from the next step on."""
        if self.gate.current is None:
            self.gate.acting()  # it refuses a call from outside before anything changes
        history = self._histories.get(agent_id)
        if history is not None and history.gone is None:
            history.gone = self._step() + 1

    def where(self, agent_id: str) -> Position:
        """Return the position of an agent at the step of the agent that acts now."""
        return self._history(agent_id).at(self._step()).position

    def near(self, agent_id: str, radius: float | None = None) -> tuple[Sighting, ...]:
        """Return the agents that an agent sees, in order of arrival, as they were at the beginning of this step.

        Args:
            agent_id: the agent that looks.
            radius: the maximum distance; by default the perception radius.

        Raises:
            UsageError: if the radius is negative or exceeds the perception radius.
            CausalityError: if an agent can be in sight whose state at this step is not known yet. Then the
                synchronisation policy let this agent run too early.
        """
        reach, me, step = self.reach, self._history(agent_id), self._step()
        radius = reach.perception if radius is None else radius
        if not 0 <= radius <= reach.perception:
            raise UsageError(f"{agent_id} wants to look {radius:g} far, and one sees {reach.perception:g} far")
        here = me.at(step).position
        if self.truth is not None:
            names = dict.fromkeys(self.truth.get((agent_id, step), ()))  # an agent can look several times in one step
            others = sorted((self._histories[name] for name in names), key=lambda history: history.number)
        else:
            others = self.neighbours(me, step)
        seen = []
        for other in others:
            if other.gone is not None and other.gone <= step:
                continue
            if self.strict and other.final < step and reach.may_meet(step - other.final, here, other.at(step).position):
                raise CausalityError(
                    f"{agent_id} looks at step {step}, but {other.agent_id} may be in sight: its position is known"
                    f" up to step {other.final} only"
                )
            shown = other.at(step)
            if reach.metric(here, shown.position) <= radius:
                seen.append(shown)
        if self.on_look is not None:
            self.on_look(agent_id, step, seen)
        return tuple(seen)

    def look(self, agent_id: str, partner: str) -> Sighting | None:
        """Return the visible state of a partner, at any distance; None if it has left the space.

        Raises:
            UsageError: if the agent has not declared this partner.
            CausalityError: if the state of the partner at this step is not known yet.
        """
        me, step = self._history(agent_id), self._step()
        if partner not in me.partners:
            raise UsageError(
                f"{agent_id} looks at {partner}, which it does not depend on", hint="declare it in `partners`"
            )
        other = self._history(partner)
        if self.strict and other.final < step:
            raise CausalityError(f"{agent_id} looks at {partner} at step {step}, known up to {other.final}")
        if other.gone is not None and other.gone <= step:
            return None
        if self.on_look is not None:
            self.on_look(agent_id, step, [other.at(step)])
        return other.at(step)

    def show(self, agent_id: str, position: Position, doing: str) -> None:
        """Set the position and the visible activity of an agent, from the next step on.

        Raises:
            UsageError: if the position is outside of the space, or cannot be reached in one step.
        """
        if self.gate.current is None:
            self.gate.acting()  # it refuses a call from outside before anything changes
        history, step = self._history(agent_id), self._step()
        position = self._checked(position)
        here = history.at(step).position
        if not self.reach.goes(here, position):
            raise UsageError(
                f"{agent_id} cannot go from {here} to {position} in one step: it goes {self.reach.speed:g} at most"
            )
        history.show(step + 1, Sighting(agent_id, position, doing))

    def forget_before(self, step: int) -> None:
        """Delete all versions before `step`, which no agent can look at any more."""
        for history in self._histories.values():
            old = min(step - history.first, len(history.versions) - 1)
            if old > 0:
                del history.versions[:old]
                history.first += old

    def neighbours(self, me: PositionHistory, step: int) -> list[PositionHistory]:
        """Return all agents that can be in sight of `me`, or block it, at `step`.

        The result is cached for some steps: each agent moves at most `speed` per step, so an agent that is far away
        now cannot be in sight within these steps.
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
        """Return those of `others` that can be in sight of `me`, or block it, in the next `life` steps."""
        reach = self.reach
        here, metric, speed = me.at(step).position, reach.metric, reach.speed
        margin = reach.perception + 2 * speed * (life + 1)
        return [
            other
            for other in others
            if other is not me and metric(here, other.at(step).position) <= margin + max(0, step - other.final) * speed
        ]

    def state(self) -> JsonObject:
        """Return the latest visible state of all agents, for the hash of the run."""
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
    """Return the Euclidean distance of two points."""
    return math.hypot(a[0] - b[0], a[1] - b[1])


def chebyshev(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the Chebyshev distance of two points: the larger of the differences in x and y."""
    return max(abs(a[0] - b[0]), abs(a[1] - b[1]))


def manhattan(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the Manhattan distance of two points: the sum of the differences in x and y."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def within(width: float, height: float) -> Callable[[Position], bool]:
    """Return a predicate on positions: whether one is in the rectangle from (0, 0) to (width, height), exclusive."""

    def inside(position: Position) -> bool:
        if not isinstance(position, tuple) or len(position) != 2:
            return False
        if any(isinstance(part, bool) or not isinstance(part, int | float) for part in position):
            return False
        return bool(0 <= position[0] < width and 0 <= position[1] < height)

    return inside


class HopDistance:
    """The distance of two places in a graph: the number of edges on a shortest path; infinite if there is none.

    Args:
        edges: place → the places one edge away.
    """

    def __init__(self, edges: Mapping[str, Iterable[str]]) -> None:
        self._edges = edges
        self._distances: dict[str, dict[str, int]] = {}

    def __call__(self, start: str, end: str) -> float:
        """Return the distance from `start` to `end`."""
        distances = self._distances.get(start)
        if distances is None:
            distances = self._distances[start] = {start: 0}
            ahead = deque([start])
            while ahead:
                here = ahead.popleft()
                for place in self._edges[here]:
                    if place not in distances:
                        distances[place] = distances[here] + 1
                        ahead.append(place)
        return distances.get(end, math.inf)
