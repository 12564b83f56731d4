"""Compares two runs: their settings, their first difference, and their outcomes."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import Any, TypeGuard

import attrs

from sim.base.pages import Table, tag
from sim.base.text import plain
from sim.events.coerce import mapping
from sim.kernel import to_seconds
from sim.kernel.codec import Json, JsonObject, encode
from sim.kernel.rows import RecordedEvent
from sim.record import RunInfo, StoredRun
from sim.record.first_difference import FirstDifference, first_difference, first_value

_HASH = re.compile("[0-9a-f]{64}")

Fields = JsonObject

FIGURES = (
    "sim_seconds", "events", "agents", "iterations", "actions", "wakeups", "errors", "messages", "overruns",
)  # fmt: skip
"""Key figures of a run."""

_OUTCOME = {
    "id", "uid", "path", "status", "problem", "epoch", "schema", "started_at", "ended_at", "sim_ns", "sim_seconds",
    "events", "hash", "digest", "summary",
}  # fmt: skip
"""Fields of the run's row that describe its outcome; all others are settings."""


@attrs.frozen
class Pair:
    """One value of both runs; None where a run does not have it."""

    left: Any
    right: Any

    @property
    def difference(self) -> float | None:
        """Right minus left; None if one of them is not a number."""
        if _is_number(self.left) and _is_number(self.right):
            return self.right - self.left
        return None

    @property
    def relative(self) -> float | None:
        """The difference as a share of the left value, None if that is 0."""
        if self.difference is None or not self.left:
            return None
        return self.difference / abs(float(self.left))

    def to_json(self) -> dict[str, Json]:
        """Return the pair as a JSON-like mapping."""
        return {name: getattr(self, name) for name in ("left", "right", "difference", "relative")}


Pairs = dict[str, Pair]


@attrs.frozen
class DigestPart:
    """A part of the final digest that differs.

    Attributes:
        entries: number of its entries.
        differ: number of entries that differ, including those that only one run has.
        path: the first value that differs.
        values: that value as JSON, shortened.
    """

    entries: Pair
    differ: int
    path: str
    values: Pair


@attrs.frozen(repr=False)
class Comparison:
    """The comparison of two runs.

    Attributes:
        runs: the names of their folders.
        settings: settings that differ.
        difference: the first event that differs; None if all are equal.
        equal_events: number of equal events at the beginning.
        after: events of each run from the first difference on.
        outcomes: status, stop condition, error and hash.
        figures: see `FIGURES`.
        kinds: successful actions by kind.
        refused: refused actions by kind.
        states: loops by their state at the end.
        metrics: last and mean value by metric.
        observations: number, mean and deviation by observation.
        standardized: difference of the means by observation, in standard deviations; None if it is not defined.
        topics: number of events by topic, where it differs.
        digest: parts of the final digest that differ; None if a run has no digest.
    """

    runs: tuple[str, str]
    settings: Pairs
    difference: FirstDifference | None
    equal_events: int
    after: tuple[list[RecordedEvent], list[RecordedEvent]]
    outcomes: Pairs
    figures: Pairs
    kinds: Pairs
    refused: Pairs
    states: Pairs
    metrics: Mapping[str, Pairs]
    observations: Mapping[str, Pairs]
    standardized: Mapping[str, float | None]
    topics: Pairs
    digest: Mapping[str, DigestPart] | None

    @property
    def equal(self) -> bool | None:
        """Whether both runs are equal; None if one of them has no end."""
        hash = self.outcomes["hash"]
        if self.difference is not None:
            return False
        return None if hash.left is None or hash.right is None else hash.left == hash.right

    def verdict(self) -> Iterator[str]:
        """Yield sentences of plain text that say whether the runs are equal, and where they part."""
        events = f"all events are equal ({self.equal_events:,})"
        if self.difference is not None:
            yield f"equal events before the first difference: {self.equal_events:,}"
            yield plain(self.difference.sentence())
        elif self.equal:
            yield f"the runs are equal: {events}, and so is the final state"
        elif self.digest is None:
            yield f"{events}; a run that did not end has no final state to compare"
        else:
            yield f"{events}, but not {'the final state' if self.digest else 'the requests of effects'}"

    def _table(self) -> Table:
        """Return the settings and outcomes that differ, and key figures, side by side."""
        pairs = {**self.settings, **self.outcomes, **self.figures}
        pairs |= {f"{name} ({figure})": pair for name, part in self.metrics.items() for figure, pair in part.items()}
        rows = [
            (name, _short(pair.left), _short(pair.right), pair.difference)
            for name, pair in pairs.items()
            if pair.left != pair.right
        ]
        return Table(("", *self.runs, "difference"), rows)

    def __repr__(self) -> str:
        return "\n".join([f"{' and '.join(map(plain, self.runs))}:", *self.verdict(), self._table().text()])

    def _repr_html_(self) -> str:
        return tag("div", [tag("p", sentence) for sentence in self.verdict()], self._table().html())


@attrs.frozen
class _Reading:
    """The events of a run: their number by topic, the time of the last one, and some of them."""

    topics: Counter[str]
    end_ns: int
    kept: list[RecordedEvent]


def compare(left: StoredRun, right: StoredRun, limit: int | None) -> Comparison:
    """Compare two runs.

    Args:
        left: one run.
        right: the other run; differences are right minus left.
        limit: how many events of each run to keep after the first difference; None keeps all.
    """
    difference = first_difference(left.events(), right.events())
    number = None if difference is None else difference.number
    ours, theirs = (_read(run, number, limit) for run in (left, right))
    one, other = _fields(left.info, ours), _fields(right.info, theirs)
    observations = _nested(mapping(one.get("observations")), mapping(other.get("observations")), dict)
    counts = {
        name: _used(_counts(_object(one.get(name)), _object(other.get(name))))
        for name in ("kinds", "refused", "states")
    }
    return Comparison(
        runs=(left.info.id, right.info.id),
        settings=_differing(_pairs(_settings(left.info), _settings(right.info))),
        difference=difference,
        equal_events=ours.topics.total() if number is None else number - 1,
        after=(ours.kept, theirs.kept),
        outcomes=_outcomes(one, other),
        figures=_used({name: Pair(one.get(name), other.get(name)) for name in FIGURES}),
        **counts,
        metrics=_nested(_metrics(one), _metrics(other), _series),
        observations={n: {k: p[k] for k in ("n", "mean", "deviation")} for n, p in observations.items()},
        standardized={name: _standardized(pairs) for name, pairs in observations.items()},
        topics=_differing(_counts(ours.topics, theirs.topics)),
        digest=_parts(left.info.digest, right.info.digest),
    )


def _read(run: StoredRun, number: int | None, limit: int | None) -> _Reading:
    """Read all events; keep those from event `number` on, at most `limit`."""
    topics: Counter[str] = Counter()
    kept: list[RecordedEvent] = []
    end = 0
    for row in run.rows():
        topics[row.topic] += 1
        end = row.time_ns
        if number is not None and row.id >= number and (limit is None or row.id < number + limit):
            kept.append(row.whole())
    return _Reading(topics, end, kept)


def _fields(info: RunInfo, reading: _Reading) -> dict[str, Json]:
    """Return the outcome of a run; a run without an end lasted until its last event."""
    reached = to_seconds(reading.end_ns) if info.sim_seconds is None else info.sim_seconds
    outcome = {"status": info.status, "hash": info.hash, "events": reading.topics.total(), "sim_seconds": reached}
    return {**(info.summary or {}), **outcome}


def _settings(info: RunInfo) -> dict[str, Json]:
    settings: dict[str, Json] = {}
    for field in attrs.fields(RunInfo):
        if field.name in _OUTCOME:
            continue
        value = getattr(info, field.name)
        if isinstance(value, Mapping):
            settings |= {f"{field.name}.{key}": part for key, part in value.items()}
        else:
            settings[field.name] = value
    return settings


def _object(value: Json) -> Fields | None:
    return value if isinstance(value, Mapping) else None


def _outcomes(left: Fields, right: Fields) -> Pairs:
    words = ("stopped_by", "error", "commonest_error")
    endings = _used({name: Pair(left.get(name), right.get(name)) for name in words})
    return {name: Pair(left[name], right[name]) for name in ("status", "hash")} | endings


def _pairs(left: Fields | None, right: Fields | None) -> Pairs:
    left, right = left or {}, right or {}
    return {name: Pair(left.get(name), right.get(name)) for name in {**left, **right}}


def _counts(left: Fields | None, right: Fields | None) -> Pairs:
    """Pair counts by name. A missing name counts as 0, unless the run has no counts at all."""
    ours, theirs = (None if side is None else 0 for side in (left, right))
    left, right = left or {}, right or {}
    return {name: Pair(left.get(name, ours), right.get(name, theirs)) for name in {**left, **right}}


def _differing(pairs: Pairs) -> Pairs:
    return {name: pair for name, pair in pairs.items() if pair.left != pair.right}


def _used(pairs: Pairs) -> Pairs:
    """Remove values that are zero or unknown in both runs."""
    return {name: pair for name, pair in pairs.items() if pair.left or pair.right}


def _nested(left: Fields, right: Fields, figures: Callable[[Any], Fields]) -> dict[str, Pairs]:
    return {name: _pairs(*(figures(side.get(name, ())) for side in (left, right))) for name in {**left, **right}}


def _metrics(fields: Fields) -> dict[str, Json]:
    """Return the series of the metrics, without the times of the samples."""
    return {name: series for name, series in mapping(fields.get("metrics")).items() if name != "time"}


def _series(values: Any) -> dict[str, float | None]:
    numbers = [value for value in values if _is_number(value)]
    if not numbers:
        return {}
    return {"last": values[-1] if _is_number(values[-1]) else None, "mean": fmean(numbers)}


def _standardized(pairs: Pairs) -> float | None:
    """Return the difference of the means in pooled standard deviations (Cohen's d), None if it is not defined.

    Source: J. Cohen, Statistical Power Analysis for the Behavioral Sciences, 2nd edition, 1988, section 2.5.
    """
    mean = pairs["mean"].difference
    (n, others), (deviation, other) = ((pairs[name].left, pairs[name].right) for name in ("n", "deviation"))
    if mean is None or not n or not others or n + others < 3:
        return None
    # The deviation of a single value is not defined, and has no weight.
    spread = sum((count - 1) * (one or 0.0) ** 2 for count, one in ((n, deviation), (others, other)))
    pooled = math.sqrt(spread / (n + others - 2))
    return mean / pooled if pooled else None


def _parts(left: Fields | None, right: Fields | None) -> dict[str, DigestPart] | None:
    if not left or not right:
        return None
    parts = {name: _part(left.get(name, {}), right.get(name, {})) for name in sorted({**left, **right})}
    return {name: part for name, part in parts.items() if part is not None}


def _part(left: Any, right: Any) -> DigestPart | None:
    first = first_value(left, right)
    if first is None:
        return None
    one, other = _entries(left), _entries(right)
    both = one.keys() & other.keys()
    differ = len(one.keys() ^ other.keys()) + sum(first_value(one[key], other[key]) is not None for key in both)
    return DigestPart(Pair(len(one), len(other)), differ, first.path, Pair(*first.texts()))


def _entries(value: Any) -> Fields:
    return value if isinstance(value, Mapping) else {"": value}


def _short(value: Any) -> Any:
    """Return a value for a table: a number, or text of which a beginning is enough to recognise it."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value if isinstance(value, str) else encode(value).decode()
    return text[:16] if _HASH.fullmatch(text) else text


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)
