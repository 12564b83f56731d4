"""What came out of a run: its metrics, what they are, and the distributions of what agents observed."""

from array import array
from collections import Counter
from typing import Final

from sim.agents.outcomes import OF_SURVEYS, Measurement
from sim.events.coerce import figure
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.runner import Distribution
from sim.scenario import Scenario
from sim.scenario.outcome_names import outcomes_of
from sim.world.events import Observed

_STEPS: Final = 24
"""The number of bars of a histogram."""


class Outcome(Section):
    """Collects observations. The samples of metrics are curves of the view."""

    title = "Outcome"
    place = 10
    topics = ("observation",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._observed: dict[str, array[float]] = {}

    def add(self, event: Event, data: Data) -> None:
        """Add an observation of an agent."""
        value = figure(data.value) if isinstance(data, Observed) else None
        if isinstance(data, Observed) and value is not None:
            self._observed.setdefault(data.name, array("d")).append(value)

    def to_json(self) -> Json:
        """Return what each metric is, with the outcomes that are about it, and the distributions of observations."""
        scenario = self.folds.scenario
        values, uses = {} if scenario is None else scenario.metrics.values, uses_of(scenario)
        return {
            "about": {name: {"is": one.text, "uses": uses.get((name, 0), [])} for name, one in values.items()},
            "observations": [{"name": name, **spread(numbers)} for name, numbers in sorted(self._observed.items())],
        }


def uses_of(scenario: Scenario | None) -> dict[tuple[str, int], list[str]]:
    """Return the outcomes that a scenario names, as text.

    They are by the metric that they are about, and 0; or by the survey, and the place of the question.
    """
    uses: dict[tuple[str, int], dict[str, None]] = {}
    for name, one in ({} if scenario is None else outcomes_of(scenario)).items():
        label = f"{one.label or name} ({one.unit})" if one.unit else one.label or name
        for call in Measurement.parse(one.value).calls:
            number = int(call.options.get("question", 1)) if call.function in OF_SURVEYS else 0
            for what in (call.what,) if call.condition is None else call.condition.names:
                uses.setdefault((what, number), {})[f"{label}: {one.value}"] = None
    return {key: [*texts] for key, texts in uses.items()}


def spread(values: "array[float]") -> dict[str, Json]:
    """Return the distribution of numbers, with the bars of a histogram from minimum to maximum."""
    distribution = Distribution.of(values)
    low, high = distribution.minimum, distribution.maximum
    width = high / 2 - low / 2  # halves, because the difference of very large numbers is no float
    steps = Counter(
        min(_STEPS - 1, int((value / 2 - low / 2) / width * _STEPS)) if width > 0 else 0 for value in values
    )
    return {
        "n": distribution.n,
        "mean": distribution.mean,
        "deviation": distribution.deviation,
        "minimum": low,
        "median": distribution.median,
        "p95": distribution.p95,
        "maximum": high,
        "bars": [steps[step] for step in range(_STEPS)],
    }
