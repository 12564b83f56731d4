"""The trace of a town: the positions and the model calls of its residents, step by step.

A trace fixes the workload, so that policies can be compared on the same calls. Steps are counted from midnight. The
calls of one agent in one step are a chain: each call starts after the previous one is answered.
"""

from array import array
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import attrs

from sim.kernel import NS

STEP_NS = 10 * NS
"""Simulated time of a step, in which a resident walks one cell, as in the released code of Generative Agents."""

DAY_STEPS = 8640
"""Steps in a day."""

DAY_NS = DAY_STEPS * STEP_NS


class TraceCall(NamedTuple):  # a named tuple is created twice as fast as a frozen class, and a trace has very many
    """One model call: the numbers of its tokens."""

    input_tokens: int
    output_tokens: int


@attrs.frozen
class Path:
    """The positions of an agent at the start of each step and at the end of the last step: `steps` + 1 items."""

    x: "array[int]"
    y: "array[int]"


@attrs.frozen
class TownTrace:
    """The parts of all agents in a window of a day.

    Distances are Chebyshev distances, because an agent of Generative Agents perceives a square.

    Args:
        width: number of cells along x.
        height: number of cells along y.
        first_step: first step of the window, counted from midnight.
        steps: number of steps in the window.
        agents: names of the agents; `positions` and `calls` have the same order.
        positions: path of each agent.
        calls: for each agent, step → its calls; steps are counted from midnight, and steps without calls are absent.
        step_s: duration of a step, in seconds of world time.
        radius: perception radius of an agent, in cells.
        speed: maximum distance that an agent walks in a step, in cells.
    """

    width: int
    height: int
    first_step: int
    steps: int
    agents: tuple[str, ...]
    positions: tuple[Path, ...]
    calls: tuple[Mapping[int, tuple[TraceCall, ...]], ...]
    step_s: int = 10
    radius: int = 4
    speed: int = 1

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The zero-based index of each agent, by name."""
        return {name: number for number, name in enumerate(self.agents)}

    @property
    def last_step(self) -> int:
        """The first step after the window."""
        return self.first_step + self.steps

    def at(self, agent: int, step: int) -> tuple[int, int]:
        """Return the position of the agent with this index at the beginning of a step."""
        path, index = self.positions[agent], step - self.first_step
        return path.x[index], path.y[index]

    def all_calls(self) -> Iterator[TraceCall]:
        """Yield every call, agent by agent."""
        for chains in self.calls:
            for chain in chains.values():
                yield from chain

    def calls_by_hour(self) -> dict[int, int]:
        """Return the number of calls in each hour of the day that overlaps the window."""
        hour = 3600 // self.step_s
        result = dict.fromkeys(range(self.first_step // hour, (self.last_step - 1) // hour + 1), 0)
        for chains in self.calls:
            for step, chain in chains.items():
                result[step // hour] += len(chain)
        return result

    def token_means(self) -> tuple[float, float]:
        """Return the mean numbers of input tokens and of output tokens per call."""
        count = inputs = outputs = 0
        for call in self.all_calls():
            count += 1
            inputs += call.input_tokens
            outputs += call.output_tokens
        return (inputs / count, outputs / count) if count else (0.0, 0.0)

    def dependencies(self, every: int = 1) -> float:
        """Return the mean number of agents within `radius + speed` of an agent, including itself.

        These are the agents that an agent can see after one move.

        Args:
            every: sampling interval, in steps.
        """
        looked, near = 0, 0
        for step in range(self.first_step, self.last_step, every):
            looked += len(self.agents)
            near += len(self.agents) + 2 * sum(1 for _ in self.pairs(step, self.radius + self.speed))
        return near / looked if looked else 0.0

    def pairs(self, step: int, distance: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of agents, as indexes, whose distance at the beginning of a step is at most `distance`."""
        index = step - self.first_step
        cells: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for agent, path in enumerate(self.positions):
            x, y = path.x[index], path.y[index]
            column, row = x // distance, y // distance
            for i in (column - 1, column, column + 1):
                for j in (row - 1, row, row + 1):
                    for other, other_x, other_y in cells.get((i, j), ()):
                        if abs(x - other_x) <= distance and abs(y - other_y) <= distance:
                            yield other, agent
            cells.setdefault((column, row), []).append((agent, x, y))
