"""Merging what shards report: final states, and the figures of a result."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sim.base.errors import RunError
from sim.kernel.codec import Json, JsonObject
from sim.runner.result import Distribution
from sim.runner.runner import commonest
from sim.runner.shards.model_figures import merge_fault_warnings, merge_models

_MISSING: Final = object()

_SUMS: Final = ("iterations", "actions", "wakeups", "errors", "unmatched", "dropped", "messages", "under_way")
_TABLES: Final = ("refused", "states", "kinds")


def merge_states(first: JsonObject, states: Sequence[JsonObject]) -> JsonObject:
    """Return the final state of a world of which each shard has changed its own part.

    Args:
        first: the state at the start, with the time of the end.
        states: those of the shards, each with its own agents only.

    Raises:
        RunError: if two shards have changed the same part to different values.
    """
    own: list[Any] = [state.get("agents", {}) for state in states]
    agents = _merged({}, own, "agents")
    others = [{key: part for key, part in state.items() if key != "agents"} for state in states]
    rest = _merged({key: part for key, part in first.items() if key != "agents"}, others, "")
    return {**rest, "agents": agents} if "agents" in first else rest


def _merged(first: Any, states: Sequence[Any], path: str) -> Any:
    """Return a part of the state, or `_MISSING` if it was deleted.

    Args:
        first: the part at the start.
        states: those of the shards.
        path: where it is, for errors.
    """
    changed = [state for state in states if state != first]
    if not changed:
        return first
    if len(changed) == 1:
        return changed[0]
    if all(isinstance(state, dict) for state in changed):
        start: dict[str, Json] = first if isinstance(first, dict) else {}
        parts = {
            key: _merged(
                start.get(key, _MISSING), [state.get(key, _MISSING) for state in changed], f"{path}.{key}".lstrip(".")
            )
            for key in sorted({*start, *(key for state in changed for key in state)})
        }
        return {key: part for key, part in parts.items() if part is not _MISSING}
    if any(state != changed[0] for state in changed[1:]):
        raise RunError(
            f"two shards have changed {path} to different values",
            hint="run it in one process, and report it: islands should have refused this",
        )
    return changed[0]


def merge_summaries(first: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a run.

    Args:
        first: those of the coordinator, whose agents did nothing.
        parts: those of the shards.
    """
    merged = dict(first)
    for key in _SUMS:
        merged[key] = sum(part[key] for part in parts)
    for key in _TABLES:
        table: dict[str, int] = {}
        for part in parts:
            for name, count in part[key].items():
                table[name] = table.get(name, 0) + count
        merged[key] = table if key == "states" else dict(sorted(table.items()))
    errors: dict[str, tuple[int, str]] = {}
    values: dict[str, array[float]] = {}
    for part in parts:
        for text, (count, agent) in part["errors_by_text"].items():
            before, who = errors.get(text, (0, agent))
            errors[text] = (before + count, who)
        for name, numbers in part["observations"].items():
            values.setdefault(name, array("d")).extend(numbers)
    merged["commonest_error"] = commonest(errors)
    merged["observations"] = {name: Distribution.of(numbers) for name, numbers in sorted(values.items())}
    unread: dict[tuple[str, str, str], int] = {}
    for part in parts:
        for row in part["unread"]:  # by entry, whose agents can be on several shards
            kind = (row["agent"], row["topic"], row["why"])
            unread[kind] = unread.get(kind, 0) + row["count"]
    merged["unread"] = [
        {"agent": agent, "topic": topic, "count": count, "why": why}
        for (agent, topic, why), count in sorted(unread.items(), key=lambda item: (-item[1], item[0]))
    ]
    warnings = [one for part in (first, *parts) for one in part["warnings"]]
    distinct = [one for place, one in enumerate(warnings) if one not in warnings[:place]]
    merged["warnings"] = merge_fault_warnings(distinct, [part["first_rule_fault"] for part in parts])
    merged["models"] = merge_models(first["models"], [part["models"] for part in parts])
    return merged
