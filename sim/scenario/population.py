"""The agents that a table describes: a row an agent."""

import math
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate
from typing import Any, Final

import attrs

from sim.kernel.codec import JsonObject
from sim.kernel.rng import Draws

_LEAST: Final = sys.float_info.min  # for the logarithm of a draw of 0

MAX_AGENTS: Final = 1_000_000
"""The most agents of a scenario. A sleeping agent takes 2.7 KB, so that these take about 2.7 GB: what many machines
have, and more than a mistake in a file should take."""

MOST_DIGITS: Final = len(str(MAX_AGENTS))
"""The most digits of the number of an agent."""


@attrs.frozen
class AgentRow:
    """One agent of a table. What is None, or missing in `state`, is as the entry has it.

    Attributes:
        name: the name of the agent.
        state: its state variables.
        place, group, persona: its first place, its group, and who it is.
        balance, start: its initial money, and the delay before its first iteration.
    """

    name: str
    state: JsonObject
    place: Any = None
    group: str | None = None
    persona: str = ""
    balance: Any = None
    start: Any = None


@attrs.frozen
class Population:
    """The agents of an entry, from the rows of a table.

    Attributes:
        names: the name of each row; None: agents are numbered.
        states: by state variable, the value in each row.
        others: by `place`, `group`, `persona`, `balance`, `start`, the value in each row.
        rows: the number of rows.
        sample: how many rows are drawn; None: each row is an agent.
        weights: the weight of each row; None: all are equal.
        replace: whether a row can be drawn several times.
    """

    entry: str
    names: tuple[str, ...] | None
    states: Mapping[str, tuple[Any, ...]]
    others: Mapping[str, tuple[Any, ...]]
    rows: int
    sample: int | None = None
    weights: tuple[float, ...] | None = None
    replace: bool = False

    @property
    def size(self) -> int:
        """The number of agents."""
        return self.rows if self.sample is None else self.sample

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names of its agents; of a sample of rows with names, those that they can have."""
        return self.names if self.names is not None else tuple(map(self._numbered, range(self.size)))

    @property
    def groups(self) -> frozenset[str]:
        """The groups of rows that have one of their own."""
        return frozenset(group for group in self.others.get("group", ()) if group is not None)

    def agents(self, draws: Draws) -> Iterator[AgentRow]:
        """Yield the rows of the agents, in the order of the table.

        Args:
            draws: the draws of the sample.
        """
        for number, row in enumerate(range(self.rows) if self.sample is None else self._drawn(draws)):
            others = {key: cells[row] for key, cells in self.others.items()}
            yield AgentRow(
                name=self._numbered(number) if self.names is None else self.names[row],
                state={key: cells[row] for key, cells in self.states.items() if cells[row] is not None},
                persona=others.pop("persona", None) or "",
                **others,
            )

    def _numbered(self, number: int) -> str:
        return f"{self.entry}-{number + 1}"

    def _drawn(self, draws: Draws) -> Sequence[int]:
        """Return the rows of the sample, in order.

        Without replacement and with weights, the rows with the largest u ** (1 / weight) are taken (Efraimidis and
        Spirakis, "Weighted random sampling with a reservoir", 2006), by its logarithm, as small weights would make all
        of them 0; without weights, those with the largest u.
        """
        assert self.sample is not None, "called for a sample"
        weights = self.weights
        if self.replace:
            if weights is None:
                return sorted(draws.below(self.rows) for _ in range(self.sample))
            sums = list(accumulate(weights))
            last = max(row for row, weight in enumerate(weights) if weight)
            return sorted(min(last, bisect_right(sums, draws.random() * sums[-1])) for _ in range(self.sample))
        keys = [draws.random() for _ in range(self.rows)]
        if weights is not None:
            most = max(weights)
            keys = [
                math.log(key or _LEAST) / (weight / most) if weight / most else -math.inf
                for key, weight in zip(keys, weights, strict=True)
            ]
        return sorted(nlargest(self.sample, range(self.rows), keys.__getitem__))
