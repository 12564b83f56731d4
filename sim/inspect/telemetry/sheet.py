"""The values of one scrape, with labels that are sanitised and bounded in number.

Names of groups, topics, resources and models come from scenarios, agents and endpoints, which are not trusted. The
exposition format escapes quotes, backslashes and line ends. It does not escape control characters and marks that
reorder text, which would reach the terminal of a person who reads `/metrics`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from sim.base.text import plain
from sim.inspect.telemetry.catalog import CATALOG, FEW, VALUES, Metric

OTHER: Final = "other"
"""The label value that stands for all values beyond the maximum number."""

_LONGEST = 100  # maximum length of a label value, in characters

Row = tuple[str, ...]


def harmless(text: str) -> str:
    """Return a safe label value: control characters and marks that reorder text are escaped; long text is cut."""
    return plain(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


class Labels:
    """The label values so far. The first values keep their own series, so a series never changes its name."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, str], dict[str, str]] = {}

    def value(self, metric: str, label: str, raw: str) -> str:
        """Return the label value for `raw`: a safe form of it, or `OTHER` if the label has too many values."""
        forms = self._forms.setdefault((metric, label), {})
        value = forms.get(raw)
        if value is None:
            if len(forms) >= VALUES.get(label, FEW):
                return OTHER
            value = forms[raw] = harmless(raw)
        return value


class Sheet:
    """The values of one scrape.

    Args:
        labels: the label values of all scrapes so far.
        peaks: the highest value of each counter so far. A counter that is read during the run can briefly be lower
            than before. Prometheus would treat that as a reset, and count the next value as an increase.
    """

    def __init__(self, labels: Labels, peaks: dict[tuple[str, Row], float]) -> None:
        self._labels = labels
        self._peaks = peaks
        self._rows: dict[str, dict[Row, float]] = {}
        self._histograms: dict[str, dict[Row, tuple[Sequence[float], list[int], float]]] = {}

    def add(self, short: str, value: float, *labels: str) -> None:
        """Add to a series; raw label values that share one label value are summed.

        Args:
            short: the short name of the metric in the catalog.
            value: the value to add.
            labels: the raw label values.
        """
        row = self._row(CATALOG[short], labels)
        rows = self._rows.setdefault(short, {})
        rows[row] = rows.get(row, 0) + value

    def most(self, short: str, value: float, *labels: str) -> None:
        """Like `add`, but take the maximum over raw label values that share one label value."""
        row = self._row(CATALOG[short], labels)
        rows = self._rows.setdefault(short, {})
        rows[row] = max(rows.get(row, value), value)

    def histogram(self, short: str, bounds: Sequence[float], counts: Sequence[int], total: float, *labels: str) -> None:
        """Add a histogram.

        Args:
            short: the short name of the metric in the catalog.
            bounds: the upper bounds of all buckets except the last.
            counts: the count of each bucket, not cumulative.
            total: the sum of all values.
            labels: the raw label values.
        """
        row = self._row(CATALOG[short], labels)
        rows = self._histograms.setdefault(short, {})
        before = rows.get(row, (bounds, [0] * len(counts), 0.0))
        summed = [a + b for a, b in zip(before[1], counts, strict=True)]
        rows[row] = (bounds, summed, before[2] + total)

    def families(self) -> Iterator[Family]:
        """Yield all metrics in the form that the client library encodes."""
        for short, rows in self._rows.items():
            metric = CATALOG[short]
            family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
            for row, value in rows.items():
                if metric.kind == "counter":
                    value = self._peaks[short, row] = max(value, self._peaks.get((short, row), value))
                family.add_metric(row, value)
            yield family
        for short, histogram in self._histograms.items():
            yield self._histogram_family(CATALOG[short], histogram)

    def _histogram_family(
        self, metric: Metric, rows: Mapping[Row, tuple[Sequence[float], list[int], float]]
    ) -> HistogramMetricFamily:
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for row, (bounds, counts, total) in rows.items():
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
