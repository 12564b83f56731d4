"""The functions of world expressions, which `metrics` and `stop` use."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sim.actors import AgentLoopManager, AgentState
from sim.expressions import PURE_FUNCTIONS, ExpressionError
from sim.kernel import to_seconds
from sim.world import World
from sim.world.calendar import calendar_functions

PI = math.pi


class MetricFunctions:
    """Counts and sums over a world. Sums use `fsum`, because the built-in `sum` changed its rounding in Python 3.12.

    Args:
        world: the world.
        manager: the manager of its loops, for `in_state`.
    """

    def __init__(self, world: World, manager: AgentLoopManager) -> None:
        self._world = world
        self._manager = manager
        names = (
            "count", "total", "mean", "in_state", "balance", "usage", "level", "queue", "published", "exists",
            "observed", "mean_of", "quantile", "gini", "quantile_of", "service", "stock", "clusters",
        )  # fmt: skip
        own: dict[str, Callable[..., object]] = {name: getattr(self, name) for name in names}
        own |= calendar_functions(world)
        self.functions: Mapping[str, Callable[..., object]] = {**PURE_FUNCTIONS, **own}

    def names(self) -> Mapping[str, object]:
        """Return the names of world expressions."""
        return {"now": to_seconds(self._world.kernel.now), "pi": PI}

    def count(self, group: str, key: str | None = None, value: Any = None) -> int:
        """Number of agents of a group that have not stopped; with a key, of all its agents whose variable has the
        value.
        """
        if key is None:
            return len(self._world.group(group))
        return sum(1 for state in self._states(group) if state.get(key) == value)

    def total(self, group: str, key: str) -> float:
        """The sum of a state variable over a group."""
        return math.fsum(self._numbers(group, key))

    def mean(self, group: str, key: str) -> float | None:
        """The mean of a state variable over a group; None if no agent has a value."""
        return _mean(self._numbers(group, key))

    def service(self, name: str, number: str) -> float | None:
        """A number of a service, such as `service('conversations', 'messages')`; None if it has none of this name."""
        service = self._world.services.get(name)
        found = None if service is None else service.metrics().get(number)
        return None if found is None else float(found)

    def quantile(self, group: str, key: str, share: float) -> float | None:
        """The quantile of a state variable over a group; None if no agent has a value."""
        return _quantile(self._numbers(group, key), share)

    def gini(self, group: str, key: str) -> float | None:
        """The Gini coefficient of a state variable over a group; 0 if all values are equal, None if there are none."""
        numbers = sorted(self._numbers(group, key))
        if numbers and numbers[0] < 0:
            raise ExpressionError(f"gini needs numbers of at least 0, and {key} of {group} has {numbers[0]:g}")
        total, size = math.fsum(numbers), len(numbers)
        if not size:
            return None
        if not total:
            return 0.0
        return math.fsum((2 * rank - size - 1) * value for rank, value in enumerate(numbers, 1)) / (size * total)

    def clusters(self, group: str, key: str, gap: float, least: int = 1) -> int:
        """The number of clusters of a state variable: numbers are in one cluster if no two neighbours in their order
        are more than `gap` apart. Clusters of fewer than `least` agents do not count.
        """
        numbers = sorted(self._numbers(group, key))
        ends = [n for n in range(1, len(numbers)) if numbers[n] - numbers[n - 1] > gap]
        sizes = [end - start for start, end in zip([0, *ends], [*ends, len(numbers)], strict=True)]
        return sum(size >= least for size in sizes if size)

    def stock(self, place: str | None = None) -> float:
        """How much there is to gather at a place, or at all places together."""
        stocks = self._world.stocks
        if stocks is None:
            return 0.0
        return stocks.total() if place is None else stocks.level(place)

    def in_state(self, state: str) -> int:
        """Number of loops in a state, for instance `sleeping`."""
        if state not in list(AgentState):
            raise ExpressionError(f"there is no agent state {state!r}", hint=f"one of {', '.join(AgentState)}")
        return self._manager.states()[state]

    def balance(self, account: str) -> float:
        """The balance of an account, in units."""
        return self._world.balance(account)

    def usage(self, resource: str) -> float:
        """Use of a rate limit by all agents together within its window."""
        return self._world.rate_tracker.total_usage(resource)

    def level(self, pool: str) -> float:
        """Free slots, amount or number of items of a pool."""
        return self._world.pools[pool].level

    def queue(self, pool: str) -> int:
        """Number of requests that wait for a pool."""
        return self._world.pools[pool].queue

    def published(self, pattern: str) -> int:
        """Number of published events whose topic matches a pattern."""
        return self._world.event_bus.published(pattern)

    def exists(self, artifact: str) -> bool:
        """Whether the artifact exists."""
        return self._world.artifacts.get(artifact) is not None

    def observed(self, name: str) -> int:
        """Number of observations of a value."""
        return len(self._world.observations.get(name, ()))

    def mean_of(self, name: str) -> float | None:
        """The mean of the observed values; None before the first."""
        return _mean(self._world.observations.get(name, ()))

    def quantile_of(self, name: str, share: float) -> float | None:
        """The quantile of the observed values; None before the first."""
        return _quantile(self._world.observations.get(name, ()), share)

    def _states(self, group: str) -> list[dict[str, Any]]:
        return [agent.state for agent in self._world.members(group)]

    def _numbers(self, group: str, key: str) -> list[float]:
        """Return the values of a state variable. An agent that does not have it, or has null, has no value."""
        found = (state.get(key) for state in self._states(group))
        numbers = [number for number in found if number is not None]
        for number in numbers:
            if not isinstance(number, int | float):
                raise ExpressionError(f"{key} of {group} is not a number but {number!r}")
        return numbers


def _mean(numbers: Sequence[float]) -> float | None:
    return math.fsum(numbers) / len(numbers) if numbers else None


def _quantile(values: Iterable[float], share: Any) -> float | None:
    """Return a quantile, interpolated between the two nearest values (type 7 of Hyndman and Fan, as in NumPy)."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ExpressionError(f"the share of a quantile is a number from 0 to 1, not {share!r}")
    numbers = sorted(values)
    if not numbers:
        return None
    below = math.floor(share * (len(numbers) - 1))
    above = min(below + 1, len(numbers) - 1)
    return numbers[below] + (numbers[above] - numbers[below]) * (share * (len(numbers) - 1) - below)
