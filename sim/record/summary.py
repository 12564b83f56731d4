"""What matters most about a run, as text, as HTML and as a chart: for the command line and for notebooks."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from sim.base.errors import UsageError
from sim.base.text import number, plain
from sim.kernel.codec import Json, JsonObject
from sim.kernel.duration import seconds_text
from sim.kernel.levels import LACKS, level_of
from sim.record.files import versions
from sim.record.reader import RunInfo
from sim.record.zip_archives import archive_of

if TYPE_CHECKING:
    from sim.base.pages import Chart

Fields = Mapping[str, Any]
Metrics = Mapping[str, Sequence[Any]]
"""The samples of metrics by name, and as `time` their times in simulated seconds; None stands for no value."""

_UNREAD: Final = {"unread": ("no rule", "dropped", "failed"), "waiting": ("waiting",)}
"""The lines about messages that were not read, and for which reasons."""

_MOST_EDITED = 5  # edited events that are named
_SHOWN = 3  # kinds of unread messages that are named


def fields_of(info: RunInfo) -> JsonObject:
    """Return the fields of a run on record, with the names of `RunResult.to_json()`."""
    return {
        **(info.summary or {}),
        "run": str(archive_of(info.path) or info.path),
        "scenario": info.name,
        "mode": info.mode,
        "seed": info.seed,
        "backend": info.backend,
        "status": info.status,
        "events": info.events,
        "hash": info.hash,
        "sim_seconds": info.sim_seconds,
        "started_at": info.started_at,
        "recording": level_of(info.options),
        "options": info.options,
        "versions": info.versions,
        "lost": info.lost,
    }


def without_folder(info: RunInfo, text: str) -> str:
    """Return a text for a page that is shared: the name of the run stands for its folder on this machine."""
    places = {info.path, info.path.absolute(), info.path.resolve(), archive_of(info.path) or info.path}
    for path in sorted(map(str, places), key=len, reverse=True):  # a relative path can be a part of an absolute one
        text = text.replace(path, info.id)
    return text


def sentence(fields: Fields) -> str:
    """Return a run in one sentence of plain text, without anything that differs between two equal runs."""
    phrases = [f"{fields['scenario']} (seed {fields['seed']}): {_status(fields)}"]
    if fields.get("sim_seconds") is not None:
        phrases.append(f"{seconds_text(fields['sim_seconds'])} simulated")
    phrases += [f"{number(fields[name])} {name}" for name in ("agents", "events") if fields.get(name) is not None]
    if fields.get("hash"):
        phrases.append(f"hash {fields['hash'][:16]}")
    return plain(", ".join(phrases))


def metrics_of(metrics: Metrics) -> Metrics:
    """Return the metrics that have samples, without the times."""
    return {name: values for name, values in metrics.items() if name != "time" and values}


def ends_of(values: Sequence[float | None]) -> tuple[float | None, float | None, float | None, float | None]:
    """Return the first, the last, the least and the largest value of a metric; None stands for no value. NaN is neither
    the least nor the largest.
    """
    numbers = [value for value in values if value is not None and not isnan(value)]
    return values[0], values[-1], min(numbers, default=None), max(numbers, default=None)


def gaps_of(metrics: Metrics) -> dict[str, int]:
    """Return how many samples of each metric have no value, of those metrics that have such samples."""
    gaps = {name: sum(value is None for value in values) for name, values in metrics_of(metrics).items()}
    return {name: count for name, count in gaps.items() if count}


def html(rows: Iterable[tuple[str, str]], metrics: Metrics | None = None) -> str:
    """Return names and their values as HTML, and a table of metrics below. Text is not trusted."""
    from sim.base.pages import Table, tag  # a run on the command line needs no page

    samples = metrics_of(metrics or {})
    metric_rows = [(name, *ends_of(values)) for name, values in samples.items()]
    below = Table(("metric", "first", "last", "min", "max"), metric_rows).html() if metric_rows else None
    return tag("div", Table((), list(rows)).html(), below)


def plot(scenario: str, metrics: Metrics, chosen: Sequence[str]) -> "Chart":
    """Return a chart of metrics.

    Args:
        scenario: the name of the scenario.
        metrics: the samples.
        chosen: the names of metrics to show; empty: all.

    Raises:
        UsageError: if there is no metric of a name, or none at all.
    """
    from sim.base.pages import line_chart

    samples = metrics_of(metrics)
    if not samples:
        raise UsageError("the run has no metrics to plot", hint="add `metrics` to the scenario")
    for name in chosen:
        if name not in samples:
            close = difflib.get_close_matches(name, samples, 1)
            hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(samples)}"
            raise UsageError(f"the run has no metric {name!r}", hint=hint)
    shown = {name: samples[name] for name in chosen or samples}
    return line_chart(f"{scenario}: {', '.join(shown)}", metrics["time"], shown)


def pairs(fields: Fields) -> Iterator[tuple[str, str]]:
    """Yield names and values, both as text. Text is not trusted.

    Args:
        fields: those of `RunResult.to_json()`; unknown fields can be missing.
    """
    if fields.get("run"):
        yield "run", fields["run"]
    kind = f"{fields['mode']} mode, seed {fields['seed']}, {fields['backend']}"
    yield "scenario", f"{fields['scenario']} ({kind})"
    yield "status", _status(fields)
    if fields.get("error"):
        yield "error", fields["error"]
    if fields.get("sim_seconds") is not None:
        yield "simulated", _pace(fields)
    if fields.get("states") is not None:
        yield from _counts(fields)
    if service := fields.get("service"):
        yield "makespan", _service(service)
    if fields.get("events") is not None:
        yield "events", number(fields["events"])
    if lacks := LACKS.get(fields.get("recording", "all")):
        yield "record", lacks
    if fields.get("hash"):
        yield "hash", fields["hash"][:16]
    yield from edited(fields.get("options", {}))
    if packages := _packages(fields):
        yield "packages", ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))


def edited(options: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield which events of its run a branch leaves out, and which it replaces, as pairs of a name and a text."""
    edits = options.get("edits")
    entries = [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []
    for name, replaced in (("left out", False), ("replaced", True)):
        texts = [_edit(edit) for edit in entries if bool(edit.get("replaced")) is replaced]
        more = [f"and {len(texts) - _MOST_EDITED} more"] if len(texts) > _MOST_EDITED else []
        if texts:
            yield name, "; ".join([*texts[:_MOST_EDITED], *more])


def _edit(edit: JsonObject) -> str:
    to, time_ns = edit.get("to"), edit.get("time_ns")
    at = f" at {seconds_text(time_ns / 1e9)}" if isinstance(time_ns, int) else ""
    return f"event {edit.get('event')}, {edit.get('topic') or 'a message'}{'' if to is None else f' to {to}'}{at}"


def _packages(fields: Fields) -> dict[str, Json]:
    """Return the versions of the packages that a run used, by name."""
    named, recorded = fields.get("options", {}).get("packages"), fields.get("versions", {})
    used = dict(named) if isinstance(named, dict) else {}
    return used | {name: version for name, version in recorded.items() if name not in versions()}


def _status(fields: Fields) -> str:
    if fields.get("stopped_by"):
        return f"{fields['status']}, stopped by {fields['stopped_by']}"
    return str(fields["status"])


def _pace(fields: Fields) -> str:
    simulated, wall = fields["sim_seconds"], fields.get("wall_seconds")
    if not wall:
        return seconds_text(simulated)
    return f"{seconds_text(simulated)} in {wall:.2f} s ({number(round(simulated / wall))} x real time)"


def _service(service: Fields) -> str:
    """Return the duration of the model calls in service time, which is not simulated time."""
    makespan, waited, path = (seconds_text(service[name]) for name in ("makespan", "waiting", "critical_path"))
    flight = f"{service['in_flight_mean']:.2f} calls in flight; agents waited {waited} each"
    return f"{makespan} of service time ({service['sync']}), {flight}; critical path {path}"


def _counts(fields: Fields) -> Iterator[tuple[str, str]]:
    yield "agents", _parts(fields["agents"], fields["states"])
    rate = fields["iterations"] / fields["wall_seconds"] if fields.get("wall_seconds") else 0
    per_second = f" ({number(round(rate))} per second)" if rate else ""
    yield "iterations", f"{number(fields['iterations'])}{per_second}"
    yield "actions", _parts(fields["actions"], fields["kinds"])
    yield "refused", _parts(sum(fields["refused"].values()), fields["refused"])
    for name, label in (("errors", "errors"), ("messages", "messages"), ("wakeups", "wake-ups")):
        yield label, number(fields[name])
    for label, reasons in _UNREAD.items():
        if rows := [row for row in fields.get("unread") or () if row["why"] in reasons]:
            yield label, _unread(rows)
    if fields.get("dropped"):
        yield "lost", f"{_messages(fields['dropped'])}, dropped from full mailboxes"
    if fields.get("under_way"):
        yield "under way", f"{_messages(fields['under_way'])}, not arrived when the run ended"
    if fields.get("deadlock"):
        yield "deadlock", fields["deadlock"].removeprefix("deadlock: ")
    if fields.get("overruns"):
        yield "late ticks", number(fields["overruns"])
    for one in fields.get("warnings") or ():
        yield "warning", str(one["text"])


def _unread(rows: Sequence[Fields]) -> str:
    """Return how many messages were not read, and of which topics by which agents."""
    shown = [f"{number(row['count'])} {row['topic'] or 'without topic'} to {row['agent']}" for row in rows[:_SHOWN]]
    more = [f"{len(rows) - _SHOWN} more kinds"] if len(rows) > _SHOWN else []
    return f"{_messages(sum(row['count'] for row in rows))}: {', '.join([*shown, *more])}"


def _messages(count: int) -> str:
    return f"{number(count)} message{'s' * (count != 1)}"


def unread_advice(fields: Fields) -> list[tuple[str, str]]:
    """Return a sentence for each kind of message that no rule can read, and what to write, for the most frequent."""
    advice = []
    for row in [row for row in fields.get("unread") or () if row["why"] == "no rule"][:_SHOWN]:
        topic, agent, one = row["topic"], row["agent"], row["count"] == 1
        about = f"the topic {topic!r}" if topic else "no topic"
        condition = "message is not None" + (f" and message.topic == {topic!r}" if topic else "")
        what = f"{_messages(row['count'])} with {about} to {agent} {'was' if one else 'were'} not read"
        rule = f"{{when: {json.dumps(condition)}, do: noop}}"
        advice.append(
            (
                f"{what}: no rule of {agent} applies to {'it' if one else 'them'}",
                f"add a rule that reads such messages, such as {rule}, or set unmatched: drop for {agent}",
            )
        )
    return advice


def _parts(total: int, parts: Mapping[str, int]) -> str:
    some = ", ".join(f"{number(count)} {name}" for name, count in parts.items() if count)
    return f"{number(total)}: {some}" if some else number(total)
