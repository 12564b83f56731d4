"""The functions of world expressions, which `metrics` and `stop` use."""

import ast
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from sim.actors import AgentLoopManager, AgentState
from sim.base.errors import RunError, UsageError
from sim.base.expressions import (
    PURE_FUNCTIONS,
    Expression,
    ExpressionError,
    Functions,
    Names,
    Refers,
    did_you_mean,
    functions_at,
    rule_function,
)
from sim.base.text import of_error
from sim.kernel import to_seconds
from sim.kernel.codec import Json, encode
from sim.resources import MICRO
from sim.world import Warned, World
from sim.world.calendar import calendar_functions
from sim.world.place_variables import total

PI = math.pi

Measured = TypeVar("Measured", bound=Callable[..., Any])

METRICS: Final[dict[str, Callable[..., Any]]] = {}
"""The functions of programs that metrics can call, by name; see `metric`."""


def metric(function: Measured) -> Measured:
    """Let metrics and the stop condition of scenarios call a function of the world by its name.

    The function gets the `sim.World` of the run, and the arguments of the call after it: with `@sim.metric` on
    `def rich(world, least)`, a metric can be `rich(100)`. It returns a number, a truth value, or None for no value. It
    must not change the world, and depends on the world and its arguments alone; otherwise a replay differs.

    Args:
        function: the function; one of the same name replaces it, as when a cell of a notebook is executed again.

    Raises:
        UsageError: if its name is that of a function of `sim`.
    """
    name = function.__name__
    if name in functions_at("world", "any"):
        raise UsageError(f"metrics have a function {name!r} already", hint="give yours another name")
    METRICS[name] = function
    return function


class MetricFunctions:
    """Counts and sums over a world. Sums use `fsum`, because the built-in `sum` changed its rounding in Python 3.12.

    Args:
        world: the world.
        manager: the manager of its loops, for `in_state`.
    """

    def __init__(self, world: World, manager: AgentLoopManager) -> None:
        self._world = world
        self._manager = manager
        names = [name for name in functions_at("world") if hasattr(self, name)]
        own: dict[str, Callable[..., object]] = {name: getattr(self, name) for name in names}
        own |= calendar_functions(world)
        own |= {name: _of_program(name, function, world) for name, function in METRICS.items()}
        self.functions: Functions = {**PURE_FUNCTIONS, **own}

    def names(self) -> Names:
        """Return the names of world expressions."""
        return {"now": to_seconds(self._world.kernel.now), "pi": PI}

    def value_of(self, name: str, expression: Expression, *, lenient: bool = False) -> float | None:
        """Return the value of a metric, which may have none (`lenient`), or of the stop condition, which must have one.

        Args:
            name: its name, for errors.
            expression: the expression.
            lenient: whether None is a value.

        Raises:
            RunError: if it cannot be evaluated, or is no number.
        """
        try:
            value = expression.evaluate(self.names(), self.functions, lenient=lenient)
        except ExpressionError as error:
            raise RunError(f"{name} cannot be evaluated: {error}", hint=error.hint) from error
        if value is None and lenient:
            return None
        if value is None:
            raise RunError(
                f"{name}: {expression.text!r} has no value (null), so it neither holds nor does not",
                hint="compare it, for example with `is not None`",
            )
        if not isinstance(value, bool | int | float):
            raise RunError(f"{name} must be a number or a truth value, not {value!r}")
        return value

    @rule_function(place="world")
    def count(
        self,
        group: Annotated[str, Refers("group")],
        key: Annotated[str | None, Refers("state")] = None,
        value: Any = None,
    ) -> int:
        """Return number of agents of a group that have not stopped; with a key and a value, number of agents whose
        state variable has the value, including stopped agents.
        """
        if key is None:
            return len(self._world.group(group))
        return sum(1 for one in self._values(group, key) if one == value)

    @rule_function(place="world")
    def total(self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")]) -> float:
        """Return the sum of a state variable over a group."""
        return math.fsum(self._numbers(group, key))

    @rule_function(place="world")
    def mean(self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")]) -> float | None:
        """Return the mean of a state variable over the agents of a group that have a value; of none, null."""
        return _mean(self._numbers(group, key))

    @rule_function(place="world")
    def distinct_values(self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")]) -> int:
        """Return number of different values of a state variable in a group; null is none."""
        return len({_comparable(value) for value in self._values(group, key) if value is not None})

    @rule_function(place="world")
    def regions(self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")]) -> int:
        """Return number of regions: sets of places that edges connect, whose agents of a group have equal values of a
        state variable. Agents without a place or a value belong to none.
        """
        return len(self._regions(group, key))

    @rule_function(place="world")
    def largest_region(self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")]) -> int:
        """Return number of agents in the largest of the regions, see `regions`."""
        return max(self._regions(group, key), default=0)

    @rule_function(place="world")
    def agents(self, group: Annotated[str, Refers("group")]) -> list[str]:
        """Return the living agents of a group, for sums such as `sum(state_of(a, 'x') ** 2 for a in agents('ant'))`."""
        return self._world.group(group)

    @rule_function(place="world")
    def state_of(
        self, agent: Annotated[str, Refers("agent")], key: Annotated[str, Refers("state")], default: Any = None
    ) -> Any:
        """Return the value of a state variable of an agent; the default, or null, if there is none."""
        other = self._world.agents.get(agent)
        return default if other is None else other.state.get(key, default)

    @rule_function(place="world")
    def group_of(self, agent: Annotated[str, Refers("agent")]) -> str | None:
        """Return the group of an agent, or null if there is no such agent."""
        other = self._world.agents.get(agent)
        return None if other is None else other.group

    @rule_function(place="world")
    def place_of(self, agent: Annotated[str, Refers("agent")]) -> str | None:
        """Return the place of an agent, or null if it has none."""
        return self._world.places.where(agent) if self._world.places else None

    @rule_function(place="world")
    def service(self, name: str, number: str) -> float | None:
        """Return a number of a service, such as `service('conversations', 'messages')`, or null; the summary of a run
        lists the services and their numbers.
        """
        service = self._world.services.get(name)
        value = None if service is None else service.metrics().get(_key(number))
        return None if value is None else float(value)

    @rule_function(place="world")
    def quantile(
        self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")], share: float
    ) -> float | None:
        """Return the quantile of a state variable over a group at a share from 0 to 1; of no values, null."""
        return _quantile(self._numbers(group, key), share)

    @rule_function(place="world")
    def gini(self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")]) -> float | None:
        """Return the Gini coefficient of a state variable over a group; 0 if all values are equal, null if there are
        none.
        """
        numbers = sorted(self._numbers(group, key))
        if numbers and numbers[0] < 0:
            raise ExpressionError(f"gini needs numbers of at least 0, and {key} of {group} has {numbers[0]:g}")
        total, size = math.fsum(numbers), len(numbers)
        if not size:
            return None
        if not total:
            return 0.0
        return math.fsum((2 * rank - size - 1) * value for rank, value in enumerate(numbers, 1)) / (size * total)

    @rule_function(place="world")
    def clusters(
        self, group: Annotated[str, Refers("group")], key: Annotated[str, Refers("state")], gap: float, least: int = 1
    ) -> int:
        """Return number of clusters of a state variable: sorted, its values are in one cluster as long as none is more
        than `gap` above the one before. Clusters of fewer than `least` (1) agents are not counted.
        """
        numbers = sorted(self._numbers(group, key))
        ends = [n for n in range(1, len(numbers)) if numbers[n] - numbers[n - 1] > gap]
        sizes = [end - start for start, end in zip([0, *ends], [*ends, len(numbers)], strict=True)]
        return sum(size >= least for size in sizes if size)

    @rule_function(place="world", needs=("stock",))
    def stock(self, place: Annotated[str | None, Refers("place")] = None) -> float:
        """Return how much there is to gather at a place; without a place, at all together."""
        stocks = self._world.stocks
        if stocks is None:
            return 0.0
        return stocks.total() if place is None else stocks.level(place)

    @rule_function(place="world")
    def variable(self, name: Annotated[str, Refers("variable")], place: Annotated[str, Refers("place")]) -> Any:
        """Return a variable of a place."""
        variables, places = self._world.variables, self._world.places
        node = None if places is None else places.named(place)
        return None if variables is None or node is None else variables.get(name, node)

    @rule_function(place="world")
    def places_with(self, name: Annotated[str, Refers("variable")], value: Any) -> int:
        """Return number of places whose variable has a value."""
        variables = self._world.variables
        return 0 if variables is None else sum(1 for one in variables.all(name) if one == value)

    @rule_function(place="world")
    def total_of_places(self, name: Annotated[str, Refers("variable")]) -> float:
        """Return the sum of a variable over all places."""
        return 0.0 if self._world.variables is None else total(self._world.variables.all(name))

    @rule_function(place="world")
    def mean_of_places(self, name: Annotated[str, Refers("variable")]) -> float | None:
        """Return the mean of a variable over the places that have a number; of none, null."""
        values = () if self._world.variables is None else self._world.variables.all(name)
        return _mean([value for value in values if isinstance(value, int | float)])

    @rule_function(place="world")
    def in_state(self, state: str) -> int:
        """Return number of agents that are `starting`, `running`, `sleeping`, `paused`, `stopping` or `stopped`."""
        if state not in list(AgentState):
            raise ExpressionError(f"there is no agent state {state!r}", hint=f"one of {', '.join(AgentState)}")
        return self._manager.states()[state]

    @rule_function(place="world")
    def balance(self, account: Annotated[str, Refers("account")]) -> float:
        """Return the money of an account or agent."""
        return self._world.balance(account)

    @rule_function(place="world")
    def money(self) -> float:
        """Return the money of all accounts and agents together."""
        return self._world.ledger.total / MICRO

    @rule_function(place="world")
    def usage(self, resource: Annotated[str, Refers("resource")]) -> float:
        """Return use of a limit by all agents together within its window."""
        return self._world.rate_tracker.total_usage(resource)

    @rule_function(place="world")
    def level(self, pool: Annotated[str, Refers("pool")]) -> float:
        """Return free slots, amount or number of items of a pool."""
        return self._world.pools[pool].level

    @rule_function(place="world")
    def queue(self, pool: Annotated[str, Refers("pool")]) -> int:
        """Return the number of agents that wait at a pool."""
        return self._world.pools[pool].queue

    @rule_function(place="world")
    def published(self, pattern: str) -> int:
        """Return number of events published so far whose topic matches a pattern."""
        return self._world.event_bus.published(pattern)

    @rule_function(place="world")
    def exists(self, artifact: Annotated[str, Refers("artifact")]) -> bool:
        """Return whether the artifact exists."""
        return self._world.artifacts.get(artifact) is not None

    @rule_function(place="world")
    def observed(self, name: Annotated[str, Refers("record")]) -> int:
        """Return number of values that rules recorded under a name."""
        return len(self._world.observations.get(name, ()))

    @rule_function(place="world")
    def mean_of(self, name: Annotated[str, Refers("record")]) -> float | None:
        """Return the mean of the recorded values, null before the first."""
        return _mean(self._world.observations.get(name, ()))

    @rule_function(place="world")
    def quantile_of(self, name: Annotated[str, Refers("record")], share: float) -> float | None:
        """Return the quantile of the recorded values at a share from 0 to 1, null before the first."""
        return _quantile(self._world.observations.get(name, ()), share)

    def _regions(self, group: str, key: str) -> list[int]:
        """Return the number of agents in each region."""
        places = self._world.places
        members: dict[tuple[str, bytes], int] = {}  # place and value → agents
        for agent in self._world.members(group):
            here, value = None if places is None else places.where(agent.agent_id), agent.state.get(key)
            if here is not None and value is not None:
                cell = (here, _comparable(value))
                members[cell] = members.get(cell, 0) + 1
        sizes = []
        while members and places is not None:
            (first, value), size = members.popitem()
            ahead = [first]
            while ahead:
                for other in places.adjacent(ahead.pop()):
                    count = members.pop((other, value), 0)
                    if count:
                        size += count
                        ahead.append(other)
            sizes.append(size)
        return sizes

    def _values(self, group: str, key: str) -> Sequence[Json]:
        """Return the values of a state variable, in any order; None of an agent that does not have it."""
        return [agent.state.get(key) for agent in self._world.members(group)]

    def _numbers(self, group: str, key: str) -> list[float]:
        """Return the values of a state variable. An agent that does not have it, or has null, has no value."""
        values = self._values(group, key)
        numbers: list[float] = [value for value in values if isinstance(value, int | float)]
        if len(numbers) < len(values):
            wrong = [repr(value) for value in values if not isinstance(value, int | float | None)]
            if wrong:  # the first one in an order that does not depend on that of the agents
                raise ExpressionError(f"{key} of {group} is not a number but {min(wrong)}")
        return numbers


def _of_program(name: str, function: Callable[..., Any], world: World) -> Callable[..., Any]:
    """Return a function of a program for expressions: it gets the world, and its errors name it."""

    def call(*arguments: Any, **named: Any) -> Any:
        try:
            value = function(world, *arguments, **named)
        except Exception as error:  # the function may raise anything
            raise ExpressionError(f"{name}() failed: {of_error(error)}") from error
        return value.item() if hasattr(value, "item") else value  # a number of numpy

    return call


def without_numbers(
    world: World, values: Mapping[str, Expression], samples: Mapping[str, Sequence[float | None]]
) -> Iterator[Warned]:
    """Yield metrics that never had a value, since they name a service or one of its numbers that does not exist.

    Args:
        world: the world at the end of a run.
        values: the metrics.
        samples: by metric, its values in the run.
    """
    for metric, expression in values.items():
        if metric in samples and all(value is None for value in samples[metric]):
            for name, number in _numbers_of(expression):
                yield from _missing_number(world, metric, name, number)


def _missing_number(world: World, metric: str, name: str, number: str) -> Iterator[Warned]:
    """Yield a warning if there is no such service, or if it has no such number."""
    service = world.services.get(name)
    if service is None:
        wanted, names = name, sorted(one.name for one in world.services.values() if one.metrics())
        missing = f"there is no service {name!r}"
    else:
        wanted, names = _key(number), sorted(service.metrics())
        missing = f"{name!r} has no number {number!r}"
    if names and wanted not in names:
        hint = did_you_mean(wanted, names) or f"there are {', '.join(names)}"
        yield Warned(f"the metric {metric} has no value: {missing}", hint)


def _numbers_of(expression: Expression) -> Iterator[tuple[str, str]]:
    """Yield the service and the number of each call of `service` with literal names."""
    for node in ast.walk(expression.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "service":
            names = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if len(names) == 2 == len(node.args):
                yield names[0], names[1]


def _comparable(value: Any) -> bytes:
    """Return what equal values have in common; whole numbers and numbers are compared as numbers."""
    return encode(int(value) if value.__class__ is float and value.is_integer() else value)


def _key(number: str) -> str:
    """Return the key of a number, which the summary of a run shows with blanks for `_`."""
    return number.replace(" ", "_")


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
