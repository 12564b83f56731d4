"""Calls of language models with their tokens, costs and durations."""

from array import array
from collections import Counter

from sim.events.coerce import figure, whole
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.inspect.viewer.sections.outcome import spread
from sim.llm.events import ModelAttempted, ModelCalled
from sim.resources import MICRO


class Models(Section):
    """Adds up model calls by model and over time.

    Attributes:
        total: the number of calls.
        micro: what they cost.
    """

    title = "Language models"
    place = 60
    topics = ("model.call", "model.attempt")

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.total = self.micro = 0
        self._models: dict[str, Counter[str]] = {}
        self._seconds: dict[str, array[float]] = {}
        self._calls = folds.bins.zeros()
        self._micro = folds.bins.zeros()
        self._tries: Counter[str] = Counter()
        self._by_use: Counter[str] = Counter()

    def add(self, event: Event, data: Data) -> None:
        """Count a call that has ended, or one attempt of a call."""
        if isinstance(data, ModelAttempted):
            self._tries[data.outcome] += 1
        if not isinstance(data, ModelCalled):
            return
        name = f"{data.provider}:{data.model}"
        micro = whole(data.cost_micro)
        tally = self._models.setdefault(name, Counter())
        tally["failed" if data.error else "calls"] += 1
        for key in ("attempts", "input_tokens", "output_tokens", "cached_tokens", "cost_micro"):
            number = getattr(data, key)
            if figure(number) is not None:  # else it is unknown, which is not 0
                tally[key] += whole(number)
        self._seconds.setdefault(name, array("d")).append(data.seconds)
        part = self.folds.part
        self._calls[part] += 1
        self._micro[part] += micro
        self._by_use[data.use] += 1
        self.total += 1
        self.micro += micro

    def to_json(self) -> Json:
        """Return all calls, with the ceiling and the estimate of the run; None if there were none."""
        if not self._models:
            return None
        summary = (self.folds.stored.info.summary or {}).get("models") or {}
        spent, total = [], 0
        for micro in self._micro:
            total += micro
            spent.append(total / MICRO)
        ceiling = summary.get("ceiling_micro")
        expected = (summary.get("expected") or {}).get("total", {}).get("cost_micro")
        return {
            "models": [
                {
                    "name": name,
                    **tally,
                    "cost": _dollars(tally.get("cost_micro")),
                    "seconds": spread(self._seconds[name]),
                }
                for name, tally in sorted(self._models.items())
            ],
            "calls": self._calls,
            "spent": spent,
            "tries": dict(self._tries.most_common()),
            "uses": dict(self._by_use.most_common(20)),
            "ceiling": _dollars(ceiling),
            "expected": _dollars(expected),
        }


def _dollars(micro: int | None) -> float | None:
    return None if micro is None else micro / MICRO
