"""The folder of an experiment: its results, its plan, a table and a page."""

import csv
import io
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from sim.errors import UsageError
from sim.experiments.arms import check_past
from sim.experiments.experiment import PointEstimates
from sim.experiments.page import render
from sim.experiments.plan import Plan, check_scenario
from sim.experiments.results import FILE, Results
from sim.kernel.codec import encode
from sim.store.export import csv_cell
from sim.store.files import failure, private_file, slug

FOLDER: Final = Path("experiments")
"""The default parent folder of experiments."""

PLAN, TABLE, PAGE = "plan.json", "results.csv", "results.html"


def begin(plan: Plan, out: Path | None = None) -> Results:
    """Return the results of a new experiment.

    Args:
        plan: the plan.
        out: its folder; None: the next free `experiments/NAME-NUMBER`.

    Raises:
        UsageError: if the folder has an experiment, or the plan of one, already.
        RunError: if the folder cannot be created or written. No part of the experiment is left in it.
    """
    for name in (FILE, PLAN):
        if out is not None and (out / name).exists():
            raise UsageError(f"{out} already contains {name}", hint="choose another folder")
    folder = new_folder(FOLDER, slug(plan.name), out)
    results = Results(folder, plan)
    try:
        private_file(folder / PLAN, encode(plan.to_json()) + b"\n")
    except OSError as error:
        results.remove()
        if not isinstance(error, FileExistsError):
            (folder / PLAN).unlink(missing_ok=True)
        raise failure(folder / PLAN, error) from error
    return results


def go_on(folder: Path, *, allow_change: bool = False) -> Results:
    """Return the results of an experiment that was stopped.

    Args:
        folder: the folder.
        allow_change: whether the run of arms may have been recorded by other code, and its scenario be another one.

    Raises:
        UsageError: if there are none, or the scenario or the run has changed.
    """
    results = Results(folder)
    try:
        if results.plan.past is None or not allow_change:
            check_scenario(results.plan, Path(results.plan.file))
        check_past(results.plan, allow_change=allow_change)
    except BaseException:
        results.close()
        raise
    return results


def new_folder(parent: Path, name: str, given: Path | None) -> Path:
    """Return a folder for results: the given one, or the next free `PARENT/NAME-NUMBER`.

    Raises:
        RunError: if it cannot be created.
    """
    try:
        if given is not None:
            given.mkdir(mode=0o700, parents=True, exist_ok=True)
            return given
        parent.mkdir(exist_ok=True)
        for number in count(1):
            folder = parent / f"{name}-{number}"
            if not folder.exists():
                folder.mkdir(mode=0o700)
                return folder
    except OSError as error:
        raise failure(given or parent, error) from error
    raise AssertionError("numbers do not end")


def write(results: Results, estimates: Sequence[PointEstimates]) -> Path:
    """Write the table and the page, and return the path of the page.

    Raises:
        RunError: if a file cannot be written.
    """
    results.finish()
    columns, lines = results.rows()
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(map(csv_cell, columns))
    writer.writerows([list(map(csv_cell, line)) for line in lines])
    for name, content in ((TABLE, text.getvalue()), (PAGE, render(results, estimates))):
        path = results.folder / name
        try:
            path.unlink(missing_ok=True)  # of an earlier part of the experiment
            private_file(path, content.encode())
        except OSError as error:
            raise failure(path, error) from error
    return results.folder / PAGE
