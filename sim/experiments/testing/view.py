"""What the checks of properties see of a run: values of expressions, agents, and the time."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sim.base.expressions import Expression
from sim.kernel import to_seconds
from sim.runner.runner import RunController
from sim.world import World
from sim.world.dispatcher import PendingAction
from sim.world.world import Inhabitant


class PropertyView:
    """Reads a run. It changes nothing.

    Args:
        runner: the run.

    Attributes:
        world: its world.
        functions: the functions of expressions over the world.
        changed_outside: whether the state of agents was changed from outside at this instant, by an intervention.
    """

    def __init__(self, runner: RunController) -> None:
        self._runner = runner
        self.changed_outside = False
        self.world: World = runner.simulation.world
        self._metric_functions = runner.simulation.metric_functions
        self.functions = self._metric_functions.functions

    @property
    def now_ns(self) -> int:
        """The simulated time in nanoseconds."""
        return self.world.kernel.now

    def value(self, expression: Expression) -> Any:
        """Return the value of an expression over the world; None if it has no value.

        Raises:
            ExpressionError: if it cannot be evaluated.
        """
        return expression.evaluate(self._metric_functions.names(), self.functions, lenient=True)

    def value_for(self, expression: Expression, agent: Inhabitant) -> Any:
        """Return the value of an expression about an agent; None if it has no value.

        Raises:
            ExpressionError: if it cannot be evaluated.
        """
        return expression.evaluate(AgentNames(self.world, agent), self.functions, lenient=True)

    def members(self, group: str) -> list[Inhabitant]:
        """Return the agents of a group, with those that have stopped."""
        return self.world.members(group)

    def waiting(self) -> Iterator[tuple[str, PendingAction]]:
        """Yield the agents that wait in an action, with the action."""
        yield from self.world.pending.items()

    def entry_of(self, agent: str) -> str:
        """Return the entry of an agent; empty if it has none."""
        inhabitant = self.world.agents.get(agent)
        return "" if inhabitant is None else str(getattr(inhabitant, "entry", ""))


_COMPUTED: Final[Mapping[str, Callable[[World, Any], Any]]] = {
    "now": lambda world, agent: to_seconds(world.kernel.now),
    "me": lambda world, agent: agent.agent_id,
    "index": lambda world, agent: getattr(agent, "index", 0),
    "group": lambda world, agent: agent.group,
    "pi": lambda world, agent: math.pi,
    "place": lambda world, agent: None if world.places is None else world.places.where(agent.agent_id),
    "balance": lambda world, agent: world.balance(agent.agent_id),
}


class AgentNames(dict[str, Any]):
    """The names of an expression about an agent: its state, and what is computed at its first use."""

    def __init__(self, world: World, agent: Inhabitant) -> None:
        super().__init__(agent.state)
        self._world = world
        self._agent = agent

    def __missing__(self, name: str) -> Any:
        value = self[name] = _COMPUTED[name](self._world, self._agent)
        return value
