"""The figures of language models over all shards."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

import attrs

from sim.kernel.codec import Json, JsonObject
from sim.llm.service import Models, fault_warning

_OF_ALL: Final = frozenset({"ceiling_micro", "ceiling_tokens", "expected"})
"""What is the same on all shards; everything else but lists of names is a sum."""


class RuleFault(TypedDict):
    """The first fault of a scripted rule on a shard.

    Attributes:
        at: when it was, in simulated nanoseconds.
        count: the number of faults on this shard.
        text, hint: those of the error.
    """

    at: int
    count: int
    text: str
    hint: str | None


def merge_models(first: JsonObject, parts: Sequence[JsonObject]) -> dict[str, Json]:
    """Return the summary of the models of a run.

    Args:
        first: that of the coordinator, whose agents call no model; it has the estimate, if there is one.
        parts: those of the shards, as `Models.summary` returns them; an empty one is of a shard without calls.
    """
    called = [part for part in parts if part]
    if not called:
        return dict(first)
    same = {key: value for key, value in (first or called[0]).items() if key in _OF_ALL}
    added: dict[str, Json] = _sum([{key: part[key] for key in part if key not in _OF_ALL} for part in called])
    return {**added, **same}


def _sum(parts: Sequence[Any]) -> Any:
    """Return the sum of numbers, the union of lists of names, or these by key."""
    if isinstance(parts[0], Mapping):
        keys = sorted({key for part in parts for key in part})
        return {key: _sum([part[key] for part in parts if key in part]) for key in keys}
    if isinstance(parts[0], list):
        return sorted({name for part in parts for name in part})
    return sum(parts)


def first_fault_of(models: Models | None) -> RuleFault | None:
    """Return the first fault of a scripted rule, as a shard reports it; None: there was none."""
    if models is None or models.counts.first_rule_fault is None:
        return None
    fault, counts = models.counts.first_rule_fault, models.counts
    return {"at": counts.first_fault_ns, "count": counts.rule_faults, "text": str(fault), "hint": fault.hint}


def merge_fault_warnings(warnings: Sequence[JsonObject], faults: Sequence[RuleFault | None]) -> list[JsonObject]:
    """Return warnings with one of scripted rules in place of those of each shard.

    Args:
        warnings: the warnings of all shards.
        faults: what `first_fault_of` returned on each.
    """
    reported = [fault for fault in faults if fault is not None]
    own = [_warning(fault, fault["count"]) for fault in reported]
    others = [one for one in warnings if one not in own]
    if not reported:
        return others
    first = min(reported, key=lambda fault: fault["at"])
    return [*others, _warning(first, sum(fault["count"] for fault in reported))]


def _warning(fault: RuleFault, count: int) -> JsonObject:
    return attrs.asdict(fault_warning(count, fault["text"], fault["hint"]))
