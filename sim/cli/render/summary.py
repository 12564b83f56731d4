"""A run as tables, as `sim run` and `sim show` print it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import click

from sim.cli.render.model_costs import print_models
from sim.cli.render.table import number, print_pairs, print_table
from sim.kernel.duration import to_text
from sim.world.service import rows_of

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40
"""The length of a sparkline in characters."""


def print_summary(fields: Mapping[str, Any]) -> None:
    """Print a run.

    Args:
        fields: the result of `RunResult.to_json()`; unknown fields can be missing.
    """
    print_pairs(_pairs(fields))
    metrics = dict(fields.get("metrics") or {})
    metrics.pop("time", None)
    if metrics:
        click.echo()
        rows = [(name, s[0], s[-1], min(s), max(s), sparkline(s)) for name, s in metrics.items() if s]
        print_table(("metric", "first", "last", "min", "max", ""), rows)
    if observations := fields.get("observations"):
        click.echo()
        columns = ("n", "mean", "deviation", "median", "p95", "maximum")
        print_table(
            ("observation", "n", "mean", "sd", "median", "p95", "max"),
            [(name, *(d[column] for column in columns)) for name, d in observations.items()],
        )
    if services := list(rows_of(fields.get("services"))):
        click.echo()
        print_table(("service", "", "value"), services)
    if models := fields.get("models"):
        click.echo()
        print_models(models)


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Return a series as block characters, scaled from its minimum to its maximum. Long series are averaged."""
    cuts = [len(values) * step // width for step in range(width + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)] if len(values) > width else list(values)
    low, span = min(means), max(means) - min(means)
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round((value - low) / span * top) if span else 0] for value in means)


def duration(seconds: float) -> str:
    """Return simulated seconds as text such as 1h30m, to the millisecond."""
    return to_text(round(seconds * 1000) * 1_000_000)


def _pairs(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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
    if fields.get("hash"):
        yield "hash", fields["hash"][:16]


def _status(fields: Mapping[str, Any]) -> str:
    if fields.get("stopped_by"):
        return f"{fields['status']}, stopped by {fields['stopped_by']}"
    return str(fields["status"])


def _pace(fields: Mapping[str, Any]) -> str:
    simulated, wall = fields["sim_seconds"], fields.get("wall_seconds")
    if not wall:
        return duration(simulated)
    return f"{duration(simulated)} in {wall:.2f} s ({number(round(simulated / wall))} x real time)"


def _service(service: Mapping[str, Any]) -> str:
    """Return the duration of the model calls in service time, which is not simulated time."""
    makespan, waited, path = (duration(service[name]) for name in ("makespan", "waiting", "critical_path"))
    flight = f"{service['in_flight_mean']:.2f} calls in flight; agents waited {waited} each"
    return f"{makespan} of service time ({service['sync']}), {flight}; critical path {path}"


def _counts(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "agents", _parts(fields["agents"], fields["states"])
    rate = fields["iterations"] / fields["wall_seconds"] if fields.get("wall_seconds") else 0
    per_second = f" ({number(round(rate))} per second)" if rate else ""
    yield "iterations", f"{number(fields['iterations'])}{per_second}"
    yield "actions", _parts(fields["actions"], fields["kinds"])
    yield "refused", _parts(sum(fields["refused"].values()), fields["refused"])
    for name, label in (("errors", "errors"), ("messages", "messages"), ("wakeups", "wake-ups")):
        yield label, number(fields[name])
    for name in ("unmatched", "deadlock"):
        if fields.get(name):
            yield name, number(fields[name]) if name == "unmatched" else fields[name].removeprefix("deadlock: ")
    if fields.get("overruns"):
        yield "late ticks", number(fields["overruns"])


def _parts(total: int, parts: Mapping[str, int]) -> str:
    some = ", ".join(f"{number(count)} {name}" for name, count in parts.items() if count)
    return f"{number(total)}: {some}" if some else number(total)
