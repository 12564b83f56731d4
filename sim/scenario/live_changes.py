"""Changes during a run: which parameters are live, and the check of new values before they are applied.

A parameter is live if it may change during a run. All others shape its start and cannot change.
`sim.scenario.assembly` applies changes to a world.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from sim.base.errors import Problem, ScenarioError, UsageError
from sim.base.expressions import Expression, ExpressionError, did_you_mean
from sim.scenario.fields import plain
from sim.scenario.overrides import Override, apply_overrides
from sim.scenario.schema import Agent, Scenario
from sim.scenario.scopes import Context
from sim.scenario.symbols import Symbols, items
from sim.scenario.units import shown
from sim.scenario.values import ValueTemplate, compile_value
from sim.scenario.yaml_tree import Map

_WHOLE: Final = ("limits", "costs", "events", "interventions", "stop")
_LATENCY: Final = "models.latency"
_OF_AGENTS: Final = ("state.KEY", "rules", "limits", "permission")
_OF_LOOPS: Final = (
    "min_loop_delay", "max_loop_delay", "resource_check_interval", "max_consecutive_errors", "cool_down", "unmatched",
    "heartbeat_timeout",
)  # fmt: skip

LIVE: Final = (
    *_WHOLE,
    _LATENCY,
    *(f"agents.NAME.{key}" for key in _OF_AGENTS),
    *(f"agents.NAME.loop.{key}" for key in _OF_LOOPS),
)
"""The live parameters. A branch at a time above 0 may change them, in addition to `until` and the seed."""

_PATTERNS: Final = tuple(tuple(pattern.split(".")) for pattern in LIVE)
_SAID: Final = "; ".join(
    (
        ", ".join((*_WHOLE, _LATENCY)),
        f"of agents.NAME: {', '.join(_OF_AGENTS)}",
        f"of agents.NAME.loop: {', '.join(_OF_LOOPS)}",
    )
)


@attrs.frozen
class StateChange:
    """A new value of a state variable.

    Attributes:
        override: what was asked for.
        name: the entry, group or agent whose variable it is.
        single: whether it is one agent.
        entries: the entries of these agents.
        key: the variable.
        value: the value, evaluated for each agent.
        later: whether agents that are created later begin with it.
    """

    override: Override
    name: str
    single: bool
    entries: tuple[str, ...]
    key: str
    value: ValueTemplate
    later: bool


@attrs.frozen
class Changes:
    """Checked changes of live parameters.

    Attributes:
        states: the new values of state variables.
        others: all other changes, which are applied to the scenario as a whole.
    """

    states: tuple[StateChange, ...] = ()
    others: tuple[Override, ...] = ()


def read_changes(scenario: Scenario, overrides: Iterable[Override], when: str = "during a run") -> Changes:
    """Check changes of live parameters, as far as this is possible without a world.

    Args:
        scenario: the scenario of the run.
        overrides: the changes.
        when: when they are made, for errors.

    Raises:
        UsageError: if a parameter is not live, or there is no such agent or state variable.
    """
    states: list[StateChange] = []
    others: list[Override] = []
    for override in overrides:
        _check_live(override, when)
        if override.path[0] == "agents" and override.path[2] == "state":
            states += _read_states(scenario, override)
        else:
            others.append(override)
    return Changes(tuple(states), tuple(others))


def merged(before: Sequence[Override], others: Iterable[Override]) -> tuple[Override, ...]:
    """Return the changes in order; a later change of a value replaces earlier ones of it, and of parts of it."""
    merged = list(before)
    for override in others:
        merged = [one for one in merged if one.path[: len(override.path)] != override.path]
        merged.append(override)
    return tuple(merged)


def is_live(path: tuple[str, ...]) -> bool:
    """Return whether the parameter at a path, or what it is a part of, may change during a run."""
    return any(_matches(pattern, path) for pattern in _PATTERNS)


def _check_live(override: Override, when: str) -> None:
    path = override.path
    if is_live(path) or _is_whole_state(path):
        return
    _check_known(override)
    hint = f"live are {_SAID}"
    if when.startswith("at "):
        named = path[0] in ("until", "seed")
        hint = f"a branch has --{path[0]}" if named else f"branch at 0s, or change what is live: {_SAID}"
    message = f"{override.key} shapes a run from its start, so it cannot change {when}"
    if override.mark is None or not override.within.startswith("interventions"):
        raise UsageError(message, hint=hint)
    raise ScenarioError([override.mark.problem(f"{override.within}{message}", hint)])


def _check_known(override: Override) -> None:
    """Check that a key which is not live is a key of scenarios at all."""
    path = override.path
    keys: Iterable[str] = Scenario.known_keys()
    wrong = path[0]
    if wrong == "agents" and len(path) > 2:
        keys, wrong = Agent.model_fields, path[2]
    if wrong not in keys:
        raise override.error(f"there is no {wrong!r:.80}", did_you_mean(wrong, keys))


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(path) >= len(pattern) and all(
        part and wanted in (part, "NAME", "KEY") for wanted, part in zip(pattern, path, strict=False)
    )


def _is_whole_state(path: tuple[str, ...]) -> bool:
    return len(path) == 3 and path[0] == "agents" and path[2] == "state"


# -- state variables


def _read_states(scenario: Scenario, override: Override) -> Iterator[StateChange]:
    _, whose, _, *keys = override.path
    if len(keys) > 1:
        raise override.error("a state variable is set as a whole", f"set {'.'.join(override.path[:4])}")
    if keys:
        yield _read_state(scenario, override, whose, keys[0], override.value)
        return
    if not isinstance(override.value, dict):
        raise override.error(f"expected a mapping from state variables to values, found {shown(override.value)}")
    for key, value in override.value.items():
        yield _read_state(scenario, override, whose, key, value)


def check_state_variables(scenario: Scenario, overrides: Iterable[Override]) -> None:
    """Check that overrides set no state variable that no agent has, which would change nothing.

    Raises:
        UsageError: if one does.
    """
    for override in overrides:
        if len(override.path) > 3 and (override.path[0], override.path[2]) == ("agents", "state"):
            _whose_state(scenario, override, override.path[1], override.path[3])


def _whose_state(
    scenario: Scenario, override: Override, whose: str, key: str
) -> tuple[str, tuple[str, ...], frozenset[str]]:
    """Return the name of an agent, entry or group, its entries, and the state variables that they declare.

    Raises:
        UsageError: if there are no such agents, or they have no such variable.
    """
    symbols = symbols_of(scenario)
    name = whose
    if whose not in symbols.entries and whose.isdecimal() and int(whose) < len(scenario.agents):
        name = scenario.agents[int(whose)].name
    try:
        entries = symbols.entries_of(name)
    except UsageError as error:
        raise override.error(str(error), error.hint) from None
    declared = frozenset[str]().union(*(symbols.states[entry] for entry in entries))
    if key not in declared and all(symbols.kinds[entry] == "policy" for entry in entries):
        hint = did_you_mean(key, declared) or (f"it has: {', '.join(sorted(declared))}" if declared else None)
        raise override.error(f"{name} has no state variable {key[:60]!r}", hint)
    return name, entries, declared


def _read_state(scenario: Scenario, override: Override, whose: str, key: str, value: Any) -> StateChange:
    symbols = symbols_of(scenario)
    name, entries, declared = _whose_state(scenario, override, whose, key)
    context = Context(symbols, declared)
    try:
        template = compile_value(plain(value), lambda expression: context.check("intervention", expression))
    except ExpressionError as error:
        raise override.error(str(error), error.hint) from None
    single = symbols.is_single(name)
    later = not single and key in declared and all(_is_for_start(symbols, one) for one in template.expressions)
    return StateChange(
        override=override, name=name, single=single, entries=entries, key=key, value=template, later=later
    )


def _is_for_start(symbols: Symbols, expression: Expression) -> bool:
    """Return whether an expression can be evaluated for an agent that is about to be created."""
    try:
        Context(symbols).check("start", expression)
    except ExpressionError:
        return False
    return True


def symbols_of(scenario: Scenario) -> Symbols:
    """Return the names that a scenario declares.

    Raises:
        UsageError: if it was not loaded from a file or text.
    """
    symbols: Symbols | None = None if scenario.source is None else scenario.source.symbols
    if symbols is None:
        raise UsageError("a scenario that was not loaded from a file has no live parameters", hint="use sim.load")
    return symbols


# -- interventions


Validate = Callable[[Map], tuple[Scenario | None, list[Problem]]]


def check_interventions(tree: Map, scenario: Scenario, validate: Validate) -> Iterator[Problem]:
    """Yield what is wrong with the values that interventions set.

    They are checked in the order of the file, each with those before it.

    Args:
        tree: the tree of the scenario file.
        scenario: its scenario, which is valid in all other respects.
        validate: validates a changed tree.
    """
    batch: list[Override] = []
    changed: Map | None = None
    for number, raw in enumerate(items(tree, "interventions")):
        values = raw.get("set")
        for override in _overrides_of(number, values) if isinstance(values, Map) else ():
            try:
                changes = read_changes(scenario, [override])
                if override.path[0] == "interventions":
                    raise override.error("an intervention cannot change interventions")
                if changes.others and scenario.interventions[number].selects:
                    raise override.error("agents and where select agents, and this is no state of agents")
                if any(_overlap(override.path, earlier.path) for earlier in batch):
                    changed = changed or copy.deepcopy(tree)
                    yield from _validated(changed, batch, validate)
                    batch = []
                batch += changes.others
            except ScenarioError as error:
                yield from error.problems
            except UsageError as error:  # of a value that `--set` gives
                assert override.mark is not None, "values of a tree have positions"
                yield override.mark.problem(str(error), error.hint)
    if batch:
        yield from _validated(changed or copy.deepcopy(tree), batch, validate)


def _validated(tree: Map, batch: Iterable[Override], validate: Validate) -> Iterator[Problem]:
    """Change a tree, and yield the problems that it has then."""
    for override in batch:
        try:
            apply_overrides(tree, [override])
        except ScenarioError as error:
            yield from error.problems
    yield from validate(tree)[1]


def _overrides_of(number: int, values: Map) -> Iterator[Override]:
    for key, value in values.items():
        yield Override.of(key, value, values.values_at[key], f"interventions[{number}].set.")


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether one path leads to the other, or both to the same value."""
    return all(left == right for left, right in zip(one, other, strict=False))
