"""The run folders of trials, with `--record`: those that no trial has any more are removed (edge)."""

import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sim.base.errors import SimError
from sim.experiments.plan import Plan
from sim.record import open_run
from sim.record.files import slug

RUNS: Final = "runs"
"""The folder with the run folders of trials."""

SCRATCH: Final = ".trials"
"""The folder for records that only outcomes read. It is removed before and after trials are under way."""

_DRAFT: Final = "."
"""How the name of a run folder begins that is not complete yet, or not any more."""


def remove_others(plan: Plan, runs: Path, kept: Collection[str]) -> None:
    """Remove the run folders of trials that were cut short or done again. No trial may be under way.

    Other folders stay, also branches that a person has made of the run of a trial.

    Args:
        plan: the plan of the experiment.
        runs: its folder of run folders.
        kept: the names of those that trials have.
    """
    for path in _folders(plan, runs):
        if path.name.startswith(_DRAFT) or (path.name not in kept and _is_of_trial(plan, path)):
            _remove(path)


def remove_replaced(plan: Plan, runs: Path, names: Collection[str]) -> None:
    """Remove the run folders of trials that were done again, by name."""
    for path in _folders(plan, runs) if names else ():
        if path.name in names:
            _remove(path)


def _folders(plan: Plan, runs: Path) -> Iterator[Path]:
    """Yield the folders that have the name of a run of an experiment, or the one of its draft. No links."""
    name = re.compile(rf"{re.escape(_DRAFT)}?{re.escape(slug(plan.name))}-\d+-[0-9a-f]{{8}}")
    if runs.is_dir() and not runs.is_symlink():
        for path in sorted(runs.iterdir()):
            if name.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def _is_of_trial(plan: Plan, path: Path) -> bool:
    """Return whether a run has the origin that the runs of the trials have: none, or the past of the arms."""
    try:
        with open_run(path, verify=False) as stored:
            origin = stored.info.origin
    except SimError:
        return False  # it may be anything
    come_from = None if origin is None else origin.get("run")
    return come_from == (None if plan.past is None else Path(plan.past.run).name)


def _remove(path: Path) -> None:
    """Remove a folder: under the name of a draft, so that a half removed one is no run."""
    with suppress(OSError):
        shutil.rmtree(path if path.name.startswith(_DRAFT) else path.rename(path.with_name(f"{_DRAFT}{path.name}")))
