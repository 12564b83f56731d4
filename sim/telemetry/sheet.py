"""The values of one scrape, and what keeps them harmless: labels without control characters, bounded in number.

Names of groups, topics, resources and models come from scenarios, agents and endpoints, which are not trusted. The
exposition format escapes quotes, backslashes and line ends; it passes on control characters, and marks that reorder
text, which would reach the terminal of whoever looks at `/metrics`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from sim.telemetry.catalog import CATALOG, FEW, VALUES, Metric
from sim.text import plain

OTHER: Final = "other"
"""The value that labels share beyond the most that there may be."""

_LONGEST = 100  # signs of a label's value

Row = tuple[str, ...]


def harmless(text: str) -> str:
    """Return text for a label: control characters and marks that reorder text are spelled out, long ones are cut."""
    return plain(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


class Labels:
    """The values of labels that were seen so far. The first ones are kept, so that a series never changes its name."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, str]] = {}

    def value(self, metric: str, label: str, raw: str) -> str:
        """Return the value of a metric's label that stands for `raw`."""
        known = self._known.setdefault((metric, label), {})
        value = known.get(raw)
        if value is None:
            if len(known) >= VALUES.get(label, FEW):
                return OTHER
            value = known[raw] = harmless(raw)
        return value


class Sheet:
    """What one scrape has read.

    Args:
        labels: of this scrape and those before.
        peaks: the highest values of counters so far. A counter that is read while the run goes on may look lower than
            before, for a moment; Prometheus would take that for a restart, and the next value for new events.
    """

    def __init__(self, labels: Labels, peaks: dict[tuple[str, Row], float]) -> None:
        self._labels = labels
        self._peaks = peaks
        self._rows: dict[str, dict[Row, float]] = {}
        self._histograms: dict[str, dict[Row, tuple[Sequence[float], list[int], float]]] = {}

    def add(self, short: str, value: float, *labels: str) -> None:
        """Add to a value; raw values that stand under one label are summed up.

        Args:
            short: of the catalog.
            value: what is added.
            labels: their raw values.
        """
        row = self._row(CATALOG[short], labels)
        rows = self._rows.setdefault(short, {})
        rows[row] = rows.get(row, 0) + value

    def most(self, short: str, value: float, *labels: str) -> None:
        """As `add`, but of raw values that stand under one label the highest counts."""
        row = self._row(CATALOG[short], labels)
        rows = self._rows.setdefault(short, {})
        rows[row] = max(rows.get(row, value), value)

    def histogram(self, short: str, bounds: Sequence[float], counts: Sequence[int], total: float, *labels: str) -> None:
        """Add a histogram.

        Args:
            short: of the catalog.
            bounds: upper ones, of all buckets but the last.
            counts: of each bucket alone.
            total: the sum of all values.
            labels: their raw values.
        """
        row = self._row(CATALOG[short], labels)
        found = self._histograms.setdefault(short, {})
        before = found.get(row, (bounds, [0] * len(counts), 0.0))
        summed = [a + b for a, b in zip(before[1], counts, strict=True)]
        found[row] = (bounds, summed, before[2] + total)

    def families(self) -> Iterator[Family]:
        """Yield everything in the form that the client library exposes."""
        for short, rows in self._rows.items():
            metric = CATALOG[short]
            family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
            for row, value in rows.items():
                if metric.kind == "counter":
                    value = self._peaks[short, row] = max(value, self._peaks.get((short, row), value))
                family.add_metric(row, value)
            yield family
        for short, found in self._histograms.items():
            yield self._histogram_family(CATALOG[short], found)

    def _histogram_family(
        self, metric: Metric, found: Mapping[Row, tuple[Sequence[float], list[int], float]]
    ) -> HistogramMetricFamily:
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for row, (bounds, counts, total) in found.items():
            count, buckets = 0, []
            for bound, number in zip([*map(str, bounds), "+Inf"], counts, strict=True):
                count += number
                buckets.append((bound, float(count)))
            family.add_metric(row, buckets, total)
        return family

    def _row(self, metric: Metric, raw: tuple[str, ...]) -> Row:
        pairs = zip(metric.labels, raw, strict=True)
        return tuple(self._labels.value(metric.name, label, value) for label, value in pairs)


_FAMILIES: Final[Mapping[str, type[CounterMetricFamily] | type[GaugeMetricFamily]]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}
