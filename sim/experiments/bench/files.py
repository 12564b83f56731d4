"""The files that follow from the results of a bench: a page, and all measurements as JSON and CSV."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import attrs

from sim.experiments.bench.page import render
from sim.experiments.bench.rows import Bench, BenchRow, bench_of
from sim.experiments.points import Point
from sim.experiments.trial import Trial
from sim.kernel.codec import Json, JsonObject
from sim.record.export import csv_cell

PAGE, DATA, TABLE = "bench.html", "bench.json", "bench.csv"


def bench_files(bench: Bench) -> dict[str, bytes]:
    """Return the page and the data by name."""
    texts = {DATA: json.dumps(to_json(bench)), TABLE: to_csv(bench), PAGE: render(bench)}
    return {name: text.encode() for name, text in texts.items()}


def to_json(bench: Bench) -> dict[str, Json]:
    """Return all data of a bench, JSON-like."""
    plan, about = bench.plan, bench_of(bench.plan)
    return {
        "id": plan.id,
        "scenario": {"name": plan.name, "description": about.description, "sha256": plan.sha256},
        "sessions": list(bench.sessions),
        "settings": {
            "modes": list(about.modes),
            "seeds": list(bench.seeds),
            "set": list(plan.overrides),
            "until": plan.until,
            "models": list(plan.models),
            "allow": list(plan.allow),
            "points": [dict(point) for point in bench.points],
        },
        "complete": bench.complete,
        "trials": [attrs.asdict(trial) | {"point": dict(bench.points[trial.point])} for trial in bench.trials],
        "rows": [_row(row, bench.points[row.point]) for row in bench.rows],
        "noise": [
            {"point": dict(point), "distance": noise} for point, noise in zip(bench.points, bench.noise, strict=True)
        ],
    }


def _row(row: BenchRow, point: Point) -> dict[str, Json]:
    values = attrs.asdict(row)
    for name in ("concurrency", "singles"):  # the trials contain them
        del values[name]
    for outcome in values["outcomes"].values():
        del outcome["singles"]
    return values | {"point": dict(point)}


def to_csv(bench: Bench) -> str:
    """Return the measurements as CSV, with one line per run, and columns for varied values and outcomes.

    Text that a spreadsheet would interpret as a formula gets a ' in front. None is an empty cell, as in `sim export`.
    """
    keys = list(bench.points[0])
    left_out = ("point", "concurrency", "outcomes", "own")
    names = [field.name for field in attrs.fields(Trial) if field.name not in left_out]
    outcomes = list(dict.fromkeys(name for trial in bench.trials for name in trial.outcomes))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(map(csv_cell, [*keys, *names, *outcomes]))
    for trial in bench.trials:
        values = _values(trial, bench.points[trial.point], names, outcomes)
        writer.writerow(map(csv_cell, values))
    return text.getvalue()


def _values(trial: Trial, point: Point, names: list[str], outcomes: list[str]) -> Iterator[Any]:
    values: JsonObject = attrs.asdict(trial, recurse=False)
    yield from point.values()
    yield from (values[name] for name in names)
    yield from (trial.outcomes.get(name) for name in outcomes)
