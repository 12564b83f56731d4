"""Calls of language models with their costs and durations; and the effects of a run."""

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sim.events.coerce import figure, whole
from sim.inspect.report.bins import Bins
from sim.inspect.report.topics import spread
from sim.record import StoredRun
from sim.resources import MICRO

_LATEST = 100
"""The most failed effects that are listed."""


class ModelCalls:
    """Adds up model calls by model and over time."""

    def __init__(self, bins: Bins) -> None:
        self._models: dict[str, Counter[str]] = {}
        self._seconds: dict[str, array[float]] = {}
        self._calls = bins.zeros()
        self._micro = bins.zeros()
        self._tries: Counter[str] = Counter()
        self._by_use: Counter[str] = Counter()

    def call(self, part: int, data: Mapping[str, Any]) -> None:
        """Count a call that has ended."""
        name = f"{data.get('provider')}:{data.get('model')}"
        micro = whole(data.get("cost_micro"))
        tally = self._models.setdefault(name, Counter())
        tally["failed" if data.get("error") else "calls"] += 1
        for key in ("attempts", "input_tokens", "output_tokens", "cached_tokens", "cost_micro"):
            tally[key] += whole(data.get(key))
        self._seconds.setdefault(name, array("d")).append(figure(data.get("seconds")) or 0.0)
        self._calls[part] += 1
        self._micro[part] += micro
        self._by_use[str(data.get("use"))] += 1

    def attempt(self, data: Mapping[str, Any]) -> None:
        """Count one attempt of a call."""
        self._tries[str(data.get("outcome"))] += 1

    def to_json(self, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return all calls, JSON-like; None if there were none.

        Args:
            summary: the summary of models at the end of the run, for the ceiling and the estimate.
        """
        if not self._models:
            return None
        spent, total = [], 0
        for micro in self._micro:
            total += micro
            spent.append(total / MICRO)
        ceiling = summary.get("ceiling_micro")
        expected = (summary.get("expected") or {}).get("total", {}).get("cost_micro")
        return {
            "models": [
                {"name": name, **tally, "cost": tally["cost_micro"] / MICRO, "seconds": spread(self._seconds[name])}
                for name, tally in sorted(self._models.items())
            ],
            "calls": self._calls,
            "spent": spent,
            "tries": dict(self._tries.most_common()),
            "uses": dict(self._by_use.most_common(20)),
            "ceiling": None if ceiling is None else ceiling / MICRO,
            "expected": None if expected is None else expected / MICRO,
        }


def effects(stored: StoredRun) -> dict[str, Any] | None:
    """Return the effects by kind and outcome, and the latest failed ones; None if there were none."""
    kinds = stored.query(
        "SELECT kind, latency, safety, outcome, count(*), sum(attempts), avg(seconds), max(seconds) FROM calls"
        " GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC LIMIT 200"
    )
    if not kinds:
        return None
    columns = ("kind", "latency", "safety", "outcome", "count", "attempts", "mean", "longest")
    wrong = stored.query(
        "SELECT id, time, agent, kind, outcome, substr(result, 1, 300) FROM calls WHERE outcome <> 'ok'"
        " ORDER BY id DESC LIMIT ?",
        (_LATEST,),
    )
    return {
        "kinds": [dict(zip(columns, row, strict=True)) for row in kinds],
        "wrong": [dict(zip(("id", "time", "agent", "kind", "outcome", "result"), row, strict=True)) for row in wrong],
    }
