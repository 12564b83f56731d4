"""The expressions of standard operating procedures, and the names that they can use.

- `now`, `me`: the simulated time in seconds; the employee;
- `item`: what a watcher or a trigger has found: the data of an event, an item of an artifact, a pool, or a task;
- `task`, `data`, `results`: the task; what it was made from; the results of its steps so far, by name of the step;
- `stats`: numbers about the work of the employee; see `Sops.stats`.

They can also call the functions of rules, for the employee.
"""

from typing import Any

from sim.agents.toolbox import Toolbox, ToolboxAgent
from sim.base.expressions import PURE_FUNCTIONS, Expression
from sim.kernel.codec import JsonObject
from sim.world import World


class Evaluator:
    """Evaluates expressions for employees.

    Args:
        world: their world.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._toolbox = Toolbox(world)

    def value(self, value: Any, user: ToolboxAgent, **names: Any) -> Any:
        """Return a value: of an expression, of a template, or the value itself if it is neither.

        Args:
            value: a setting of the type `WorkCondition` or `WorkValue`.
            user: the employee.
            names: the names that have a value; the others are null.

        Raises:
            ExpressionError: if it cannot be evaluated.
        """
        if not isinstance(value, Expression) and not hasattr(value, "evaluate"):
            return value
        all_names = {**_NOTHING, "now": self._world.now, "me": user.agent_id, **names}
        return value.evaluate(all_names, self._toolbox.used_by(user))

    def passes(self, where: Expression, names: JsonObject) -> bool:
        """Return whether an event passes a filter.

        Raises:
            ExpressionError: if the filter cannot be evaluated for it.
        """
        return bool(where.evaluate(names, PURE_FUNCTIONS))

    def text(self, value: Any, user: ToolboxAgent, **names: Any) -> str:
        """Return a value as a text; see `value`."""
        evaluated = self.value(value, user, **names)
        return evaluated if isinstance(evaluated, str) else str(evaluated)


_NOTHING: JsonObject = dict.fromkeys(("item", "task", "data", "results", "stats"))
