"""The folder of an experiment: its results, its plan, a table and a page."""

import csv
import errno
import hashlib
import io
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

import attrs

from sim.base.crashpoints import reach
from sim.base.errors import RunError, UsageError
from sim.base.pages import document
from sim.experiments.arms import check_past
from sim.experiments.bench import files as bench
from sim.experiments.bench.rows import read
from sim.experiments.experiment import PointEstimates, missing
from sim.experiments.fit_page import fit_sections
from sim.experiments.fitting import first_candidates
from sim.experiments.page import page_style, render
from sim.experiments.plan import Plan, check_scenario
from sim.experiments.results import FILE, Results, create_results, is_half_made
from sim.kernel.codec import encode
from sim.record.drafts import draft_folder, replace_files, sync_folder
from sim.record.export import csv_cell
from sim.record.files import failure, private_file, slug
from sim.runner.fingerprint import code_hashes

FOLDER: Final = Path("experiments")
"""The default parent folder of sweeps and arms."""

BENCHES: Final = Path("bench")
"""That of benches."""

PLAN, TABLE, PAGE = "plan.json", "results.csv", "results.html"


def begin(plan: Plan, out: Path | None = None) -> Results:
    """Return the results of a new experiment.

    All files are made in a draft, so that a process that is killed leaves either a whole experiment without trials,
    which can be resumed, or none.

    Args:
        plan: the plan.
        out: its folder; None: the next free `experiments/NAME-NUMBER`, or `bench/NAME-NUMBER`.

    Raises:
        UsageError: if the folder has an experiment, or the plan of one, already.
        RunError: if the folder cannot be created or written. No part of the experiment is left in it.
    """
    if plan.fit is not None:
        plan = attrs.evolve(plan, points=first_candidates(plan))
    for name in (FILE, PLAN):
        if out is not None and (out / name).exists() and not (name == FILE and is_half_made(out / name)):
            raise UsageError(f"{out} already contains {name}", hint="choose another folder")
    home = FOLDER if plan.bench is None else BENCHES
    parent, inside = (home, False) if out is None else (out, True) if out.is_dir() else (out.parent, False)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(parent, ".experiment") as draft:
            new = draft / "new"
            new.mkdir(mode=0o700)
            create_results(new / FILE, plan)
            private_file(new / PLAN, _plan_text(plan))
            sync_folder(new)
            reach("results.drafted")
            folder = _moved(new, parent) if inside else _named(new, plan, out)
        sync_folder(parent)
        reach("results.created")
    except OSError as error:
        raise failure((parent if out is None else out) / PLAN, error) from error
    return Results(folder)


def _plan_text(plan: Plan) -> bytes:
    return encode(plan.to_json()) + b"\n"


def _moved(new: Path, folder: Path) -> Path:
    """Move the files of a new experiment into a folder that exists, the results first.

    If this is killed in between, `continue_experiment` adds the plan.
    """
    if (folder / FILE).exists():  # half made, see `begin`
        for ending in ("", "-wal", "-shm"):
            (folder / f"{FILE}{ending}").unlink(missing_ok=True)
    for name in (FILE, PLAN):
        _place(new / name, folder / name)
        reach("files.replaced")
    return folder


def _place(draft: Path, path: Path) -> None:
    """Give a file its final name, unless another process has made one of that name meanwhile."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise UsageError(f"{path.parent} already contains {path.name}", hint="choose another folder") from None
    except OSError:  # a file system without such links
        draft.rename(path)


def _named(new: Path, plan: Plan, out: Path | None) -> Path:
    """Give the folder of a new experiment its final name: the given one, or the next free number."""
    home = FOLDER if plan.bench is None else BENCHES
    if out is not None:
        return new.rename(out)
    for number in count(1):
        folder = home / f"{slug(plan.name)}-{number}"
        if not folder.exists():
            try:
                return new.rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process was faster
                    raise
    raise AssertionError("numbers do not end")


def continue_experiment(folder: Path, *, allow_change: bool = False) -> Results:
    """Return the results of an experiment that was stopped.

    Args:
        folder: the folder.
        allow_change: whether the run of arms may have been recorded by other code, and its scenario be another one.

    Raises:
        UsageError: if there are none, or the scenario or the run has changed.
        RunError: if a file of the experiment was changed.
    """
    results = Results(folder)
    try:
        if not (folder / PLAN).exists():  # its creation was killed
            replace_files(folder, {PLAN: _plan_text(results.plan)})
        elif (problem := plan_problem(results)) is not None:
            raise RunError(problem, hint="remove it, and it is written again")
        if results.plan.past is None or not allow_change:
            check_scenario(results.plan, Path(results.plan.file))
        check_past(results.plan, allow_change=allow_change)
    except BaseException:
        results.close()
        raise
    return results


def plan_problem(results: Results) -> str | None:
    """Return what is wrong with the plan beside the results, in one sentence; None if nothing is."""
    path = results.folder / PLAN
    try:
        same = path.read_bytes() == _plan_text(results.plan)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return None if same else f"{path} is not the plan of {FILE}: it was changed"


def write(results: Results, estimates: Sequence[PointEstimates]) -> Path:
    """Write the table and the page, and return the path of the page.

    Raises:
        RunError: if a file cannot be written.
    """
    files, (_, page) = derived(results, estimates), table_and_page(results.plan)
    try:
        replace_files(results.folder, files)
    except OSError as error:
        raise failure(results.folder / page, error) from error
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    results.note_written(hashes, own_code())
    return results.folder / page


def table_and_page(plan: Plan) -> tuple[str, str]:
    """Return the names of the table and the page of an experiment."""
    return (TABLE, PAGE) if plan.bench is None else (bench.TABLE, bench.PAGE)


def names_of(plan: Plan) -> tuple[str, ...]:
    """Return the names of all files that follow from the results."""
    return (TABLE, PAGE) if plan.bench is None else (bench.TABLE, bench.PAGE, bench.DATA)


def derived(results: Results, estimates: Sequence[PointEstimates]) -> dict[str, bytes]:
    """Return the files that follow from the results, by name: the table and the page; of a bench, also its data."""
    if results.plan.bench is not None:
        return bench.bench_files(read(results, len(missing(results))))
    first = None if results.plan.fit is None else fit_sections(results)
    columns, lines = results.rows()
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(map(csv_cell, columns))
    writer.writerows([list(map(csv_cell, line)) for line in lines])
    return {TABLE: text.getvalue().encode(), PAGE: render(results, estimates, TABLE, first).encode()}


def own_code() -> str:
    """Return the hash of what a page is made with: the code of sim, and the style."""
    made = f"{code_hashes(())['sim']} {document('', '', style=page_style())}"
    return hashlib.sha256(made.encode()).hexdigest()
