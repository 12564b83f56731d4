"""Builds the variables of places, and their rules."""

import math
from typing import Any

import attrs

from sim.agents import Toolbox
from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError, Functions, Names
from sim.kernel.codec import Json
from sim.kernel.rng import Draws
from sim.scenario import place_schema
from sim.scenario.values import ValueTemplate
from sim.world import World
from sim.world.place_variables import Compute, PlaceRule, PlaceVariables


@attrs.define
class _Subject:
    """The place for which an expression is evaluated, with its draws."""

    agent_id: str
    rng: Draws


def make_variables(world: World, places: place_schema.Places | None, toolbox: Toolbox) -> PlaceVariables | None:
    """Return the variables of the places of a scenario, or None.

    Args:
        world: the world, with its places.
        places: the places of the scenario.
        toolbox: the functions of expressions.

    Raises:
        UsageError: if a value at the start cannot be evaluated.
    """
    if places is None or not places.variables or world.places is None:
        return None
    constants: dict[str, Names] = {}
    for index, node in enumerate(world.places.nodes):
        constants[node] = {"place": node, "index": index, "pi": math.pi}
        if places.grid is not None:
            constants[node] = {**constants[node], **dict(zip("xy", map(int, node.split(",")), strict=True))}
    values: dict[str, dict[str, Json]] = {name: {} for name in places.variables}
    for node, names in constants.items():
        names_so_far = {**names, "now": world.now}
        for name, template in places.variables.items():
            subject = _Subject(node, world.draws(f"place {node}", "variable", name))
            try:
                functions = PURE_FUNCTIONS if template.constant else toolbox.used_by(subject)
                names_so_far[name] = values[name][node] = template.evaluate(names_so_far, functions)
            except ExpressionError as error:
                raise UsageError(f"places.variables.{name}: {error} (at {node})", hint=error.hint) from error
    rules = tuple(_rule(world, rule, toolbox) for rule in places.rules)
    return PlaceVariables(world.kernel, values, constants, rules, places.every)


def _rule(world: World, rule: place_schema.PlaceRule, toolbox: Toolbox) -> PlaceRule:
    always = rule.when.text in ("true", "True")
    when = None if always else _compute(world, rule.when, toolbox)
    return PlaceRule(when, {name: _compute(world, value, toolbox) for name, value in rule.set.items()})


def _compute(world: World, value: Expression | ValueTemplate, toolbox: Toolbox) -> Compute:
    """Return a function that evaluates an expression for a place. Only one that may draw gets draws."""
    if value.functions <= PURE_FUNCTIONS.keys():
        return lambda place, names: value.evaluate(names, PURE_FUNCTIONS)
    key = value.text if isinstance(value, Expression) else str(value.raw)

    def compute(place: str, names: Names) -> Any:
        functions: Functions = toolbox.used_by(
            _Subject(place, world.draws(f"place {place}", "rule", key).moment(world.kernel.now))
        )
        return value.evaluate(names, functions)

    return compute
