"""The rules of a checked scenario as the rules of agents."""

from collections.abc import Mapping
from typing import Any

from sim.actors.wake import Written
from sim.agents import PolicyAction, PolicyRule
from sim.base.expressions import Expression, Functions, Names
from sim.kernel.codec import Json, JsonObject
from sim.scenario import schema
from sim.scenario.actions import Do
from sim.scenario.scopes import WHERE_NAMES
from sim.scenario.sleep import SleepSpec
from sim.scenario.values import ValueTemplate


def to_rules(entry: schema.Agent) -> tuple[PolicyRule, ...]:
    """Return the rules of an entry of `agents`."""
    return tuple(map(_rule, entry.rules))


def _rule(rule: schema.Rule) -> PolicyRule:
    always = rule.when.text in ("true", "True")
    actions = tuple(_action(do, rule.reason or "") for do in rule.do)
    return PolicyRule(None if always else rule.when, actions, rule.set, rule.record, rule.let)


def _action(do: Do, reason: str) -> PolicyAction:
    arguments: Mapping[str, Any] = do.arguments if do.sleep is None else {"condition": SleepValue(do.sleep)}
    return PolicyAction(do.kind, arguments, reason)


class SleepValue:
    """The `sleep` of a scenario as the argument `condition` of the action."""

    def __init__(self, spec: SleepSpec) -> None:
        self._parts = {key: _part(value) for key, value in spec.values.items()}
        filters = [value for value in self._parts.values() if isinstance(value, Expression)]
        self._outer = tuple(sorted({name for one in filters for name in one.names - WHERE_NAMES}))
        inner = [part for value in self._parts.values() for part in (value if isinstance(value, tuple) else (value,))]
        evaluated = [part for part in inner if isinstance(part, ValueTemplate | SleepValue)]
        self.constant: bool = not self._outer and all(part.constant for part in evaluated)
        self.names: frozenset[str] = frozenset((*(name for part in evaluated for name in part.names), *self._outer))
        self._written = Written(self._evaluated({}, {})) if self.constant else None

    @property
    def parts(self) -> JsonObject | None:
        """The mapping that the action takes, with values in it; None if it is always the same, or if it has names of
        the agent for a filter.
        """
        if self._outer or self.constant:
            return None
        return {key: value.text if isinstance(value, Expression) else value for key, value in self._parts.items()}

    def evaluate(self, names: Names, functions: Functions) -> dict[str, Json]:
        """Return the condition as the mapping that the action takes."""
        return self._evaluated(names, functions) if self._written is None else self._written

    def _evaluated(self, names: Names, functions: Functions) -> dict[str, Json]:
        result: dict[str, Json] = {}
        for key, value in self._parts.items():
            if isinstance(value, tuple):
                result[key] = [part.evaluate(names, functions) for part in value]
            elif isinstance(value, Expression):
                result[key] = value.text
                if self._outer:  # their values when the agent falls asleep
                    result["given"] = {name: names[name] for name in self._outer}
            else:
                result[key] = value.evaluate(names, functions) if isinstance(value, ValueTemplate) else value
        return result


def _part(value: Any) -> Any:
    return tuple(SleepValue(part) for part in value) if isinstance(value, tuple) else value
