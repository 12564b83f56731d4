"""The files of a bench: a folder with all measurements as JSON and CSV, and a page."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.experiments.bench.page import render
from sim.experiments.bench.plan import TrialPlan
from sim.experiments.bench.rows import Bench, Row
from sim.experiments.folder import new_folder
from sim.experiments.points import Point
from sim.experiments.trial import Trial
from sim.record.drafts import replace_files
from sim.record.export import csv_cell
from sim.record.files import DATABASE, failure, private_file

PAGE, DATA, TABLE = "bench.html", "bench.json", "bench.csv"
_OWN = (PAGE, DATA, TABLE, DATABASE)
TRIALS = "trials.jsonl"
"""The trials as they come, one a line; at the end `bench.json` has them."""
FOLDER = Path("bench")
"""The default parent folder of benches."""


def make_folder(name: str, given: Path | None) -> Path:
    """Return a folder for a bench: the given one, or the next free `bench/<name>-<number>`.

    Raises:
        UsageError: if the given folder contains a bench or a run.
        RunError: if the folder cannot be created.
    """
    taken = None if given is None else next((file for file in _OWN if (given / file).exists()), None)
    if taken is not None:
        raise UsageError(f"{given} already contains {taken}", hint="choose another folder with --out")
    return new_folder(FOLDER, name, given)


def append(trial: Trial, plan: TrialPlan, folder: Path) -> None:
    """Write a trial as soon as it is done, so that a bench that is killed loses only those under way.

    Raises:
        RunError: if the file cannot be written.
    """
    path = folder / TRIALS
    try:
        if not path.exists():
            private_file(path, b"")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_trial(trial, plan)) + "\n")
    except OSError as error:
        raise failure(path, error) from error


def _trial(trial: Trial, plan: TrialPlan) -> dict[str, Any]:
    return attrs.asdict(trial) | {"point": dict(plan.points[trial.point])}


def write(bench: Bench, folder: Path) -> None:
    """Write the page and the data, readable by their owner only.

    Raises:
        RunError: if a file cannot be written.
    """
    texts = {DATA: json.dumps(to_json(bench)), TABLE: to_csv(bench), PAGE: render(bench)}
    try:
        replace_files(folder, {name: text.encode() for name, text in texts.items()})
    except OSError as error:
        raise failure(folder / DATA, error) from error
    (folder / TRIALS).unlink(missing_ok=True)


def to_json(bench: Bench) -> dict[str, Any]:
    """Return all data of a bench, JSON-like."""
    plan = bench.plan
    return {
        "scenario": {"name": plan.scenario.name, "description": plan.scenario.description, "file": str(plan.file)},
        **bench.about,
        "settings": {
            "modes": [mode.name for mode in plan.modes], "seeds": list(plan.seeds), "set": list(plan.overrides),
            "allow": list(plan.allow), "points": [dict(point) for point in plan.points],
        },
        "complete": bench.complete,
        "trials": [_trial(trial, plan) for trial in bench.trials],
        "rows": [_row(row, plan.points[row.point]) for row in bench.rows],
        "noise": [
            {"point": dict(point), "distance": noise} for point, noise in zip(plan.points, bench.noise, strict=True)
        ],
    }  # fmt: skip


def _row(row: Row, point: Point) -> dict[str, Any]:
    told = attrs.asdict(row)
    del told["concurrency"]  # the trials contain it
    return told | {"point": dict(point)}


def to_csv(bench: Bench) -> str:
    """Return the measurements as CSV, with one line per run, and columns for varied values and outcomes.

    Text that a spreadsheet would interpret as a formula gets a ' in front. None is an empty cell, as in `sim export`.
    """
    keys = list(bench.plan.points[0])
    left_out = ("point", "concurrency", "outcomes", "own")
    names = [field.name for field in attrs.fields(Trial) if field.name not in left_out]
    outcomes = list(dict.fromkeys(name for trial in bench.trials for name in trial.outcomes))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(map(csv_cell, [*keys, *names, *outcomes]))
    for trial in bench.trials:
        values = _values(trial, bench.plan.points[trial.point], names, outcomes)
        writer.writerow(map(csv_cell, values))
    return text.getvalue()


def _values(trial: Trial, point: Point, names: list[str], outcomes: list[str]) -> Iterator[Any]:
    told: Mapping[str, Any] = attrs.asdict(trial, recurse=False)
    yield from point.values()
    yield from (told[name] for name in names)
    yield from (trial.outcomes.get(name) for name in outcomes)
