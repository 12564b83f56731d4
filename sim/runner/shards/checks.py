"""Checks before a run on shards: what it needs, and what shards cannot do."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression
from sim.runner.options import RunOptions
from sim.runner.shards.coordinator import FUNCTIONS
from sim.runner.spec import Spec
from sim.scenario import Scenario
from sim.world.islands import Islands

_HINT = "run it without --shards"


def check_shards(spec: Spec, options: RunOptions, shards: int) -> None:
    """Check that a run can be divided, before anything is written.

    Raises:
        UsageError: if the scenario has no islands, or there are fewer of them than shards, or a part of the run cannot
            be divided; the message names it.
    """
    scenario = spec.simulation.scenario
    if "islands" not in scenario.sections:
        raise UsageError("--shards needs a scenario with islands", hint="add `islands:`, see docs/islands.md")
    islands = len(Islands.of(spec.simulation.world).names)
    if shards.__class__ is not int or not 1 <= shards <= islands:
        raise UsageError(
            f"the number of shards is from 1 to {islands}, the number of islands, not {shards!r:.60}",
            hint="an island is in one process; divide islands to have more",
        )
    for what in _excluded(spec, scenario, options):
        raise UsageError(f"a run on shards cannot have {what}", hint=_HINT)
    wanted_of(scenario)


def _excluded(spec: Spec, scenario: Scenario, options: RunOptions) -> Iterator[str]:
    """Yield what excludes shards, in words."""
    places, recording, source = scenario.places, scenario.recording, scenario.source
    whole = (
        (
            scenario.until is None and options.until is None,
            "`until: null`",
        ),
        (spec.mode != "autonomous", "tick mode"),
        (spec.speed is not None, "the wall clock"),
        (options.max_wall is not None, "--max-wall"),
        (recording.level != "all", f"`recording.level: {recording.level}`"),
        (options.recording not in (None, "all"), f"the option recording={options.recording}"),
        (bool(recording.state), "`recording.state`"),
        (options.access is not None and bool(options.access.batching), "calls in batches"),
        (scenario.execution.ties == "shuffled", "`execution.ties: shuffled`"),
        (places is not None and bool(places.variables), "`places.variables`"),
        (any(event.at == "end" for event in scenario.events), "events with `at: end`"),
        (source is None, "a Scenario object without its text; give its file"),
        (
            source is not None and len(source.overrides) != len(options.overrides),
            "a Scenario object that was loaded with changes; give its file, and `overrides`",
        ),
    )
    yield from (what for excluded, what in whole if excluded)
    for entry in scenario.agents:
        for rule in entry.rules:
            for do in rule.do:
                if do.kind in ("spawn", "stop"):
                    yield f"the action {do.kind} (agents.{entry.name}): agents must be there from start to end"


def wanted_of(scenario: Scenario) -> Mapping[str, list[str]]:
    """Return the state variables that metrics and the stop condition read, by group or agent.

    Raises:
        UsageError: if an expression calls a function that shards cannot gather, or computes what it reads.
    """
    expressions = {f"metrics.values.{name}": one for name, one in scenario.metrics.values.items()}
    if scenario.stop is not None:
        expressions["stop.when"] = scenario.stop.when
    wanted: dict[str, list[str]] = {}
    for where, expression in expressions.items():
        unknown = sorted(expression.functions - {*FUNCTIONS, *PURE_FUNCTIONS})
        if unknown:
            raise UsageError(
                f"{where} calls {unknown[0]}(), and metrics of a run on shards can call {', '.join(FUNCTIONS)}",
                hint=_HINT,
            )
        for group, key in _read_by(where, expression):
            keys = wanted.setdefault(group, [])
            if key is not None and key not in keys:
                keys.append(key)
    return wanted


def _read_by(where: str, expression: Expression) -> Iterator[tuple[str, str | None]]:
    for call in ast.walk(expression.tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS:
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            who: Any = call.args[0] if call.args else named.get("group", named.get("agent"))
            key: Any = call.args[1] if len(call.args) > 1 else named.get("key")
            texts = [part.value if isinstance(part, ast.Constant) else part for part in (who, key)]
            if not isinstance(texts[0], str) or not isinstance(texts[1], str | None):
                raise UsageError(f"{where}: on shards, {call.func.id}() needs names that are not computed", hint=_HINT)
            yield texts[0], texts[1]
