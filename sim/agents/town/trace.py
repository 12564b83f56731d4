"""What the people of a town do, step by step: where they stand and which model calls they make.

A trace fixes the workload, so that ways of running it can be compared: each plays the same calls. Steps are counted
from midnight. The calls of one agent in one step are a chain: each is made when the one before has been answered.
"""

from array import array
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import attrs

DAY_STEPS = 8640
"""Steps of 10 s in a day."""


class TraceCall(NamedTuple):  # not a frozen class: a trace has hundreds of thousands, and this takes half as long
    """One call of a model, by its tokens."""

    input_tokens: int
    output_tokens: int


@attrs.frozen
class Path:
    """Where an agent stands at the start of each step, and at the end of the last."""

    x: "array[int]"
    y: "array[int]"


@attrs.frozen
class Trace:
    """The part of every agent over a window of a day.

    Distances are Chebyshev's (the larger of those along x and y): what an agent of Generative Agents sees is a square.

    Args:
        width: cells along x.
        height: cells along y.
        first_step: the step at which it begins, from midnight.
        steps: how many there are.
        agents: their names; what follows is in the same order.
        positions: where they are.
        calls: for each agent, what it calls in which step, from midnight; steps without calls are not there.
        step_s: seconds of a step.
        radius: cells that an agent sees.
        speed: cells that an agent can walk in a step.
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
        """The number of each agent by its name."""
        return {name: number for number, name in enumerate(self.agents)}

    @property
    def last_step(self) -> int:
        """The step at which it has ended."""
        return self.first_step + self.steps

    def at(self, agent: int, step: int) -> tuple[int, int]:
        """Return where the agent of that number is when a step begins."""
        path, index = self.positions[agent], step - self.first_step
        return path.x[index], path.y[index]

    def all_calls(self) -> Iterator[TraceCall]:
        """Yield every call, agent by agent."""
        for chains in self.calls:
            for chain in chains.values():
                yield from chain

    def calls_by_hour(self) -> dict[int, int]:
        """Return how many calls are made in each hour of the day that the trace touches."""
        hour = 3600 // self.step_s
        result = dict.fromkeys(range(self.first_step // hour, (self.last_step - 1) // hour + 1), 0)
        for chains in self.calls:
            for step, chain in chains.items():
                result[step // hour] += len(chain)
        return result

    def token_means(self) -> tuple[float, float]:
        """Return the mean tokens of input and of output of a call."""
        count = inputs = outputs = 0
        for call in self.all_calls():
            count += 1
            inputs += call.input_tokens
            outputs += call.output_tokens
        return (inputs / count, outputs / count) if count else (0.0, 0.0)

    def dependencies(self, every: int = 1) -> float:
        """Return how many agents, itself included, are so near an agent that they step together: a mean over time.

        Near is within sight and one step (`radius + speed`): whoever is, can be seen after one move.

        Args:
            every: looks at each such step only.
        """
        looked, found = 0, 0
        for step in range(self.first_step, self.last_step, every):
            looked += len(self.agents)
            found += len(self.agents) + 2 * sum(1 for _ in self.pairs(step, self.radius + self.speed))
        return found / looked if looked else 0.0

    def pairs(self, step: int, distance: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of agents, as numbers, that are at most so far apart when a step begins."""
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
