"""Recorded trials: each has one run folder, however often the experiment was stopped, and nothing else is removed."""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.experiments import measure
from sim.experiments.results import Results

SCENARIO = """
name: dice
until: 5s
agents:
  - name: player
    state: {sum: 0}
    loop: {min_loop_delay: 1s}
    rules: [{do: noop, set: {sum: "=sum + randint(1, 6)"}}]
metrics: {every: 5s, values: {points: "total('player', 'sum')"}}
"""


@pytest.fixture(autouse=True)
def dice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario in the present folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dice.yaml").write_text(SCENARIO)
    return tmp_path


def named(folder: Path) -> dict[int, str]:
    """Return the name of the run of each seed."""
    with contextlib.closing(sqlite3.connect(folder / "results.db")) as database:
        return dict(database.execute("SELECT seed, run FROM trials WHERE run IS NOT NULL"))


def there(folder: Path) -> list[str]:
    """Return the names of what is in the folder of runs."""
    return sorted(path.name for path in (folder / "runs").iterdir())


def stopped(monkeypatch: pytest.MonkeyPatch, *, arms: bool = False) -> Path:
    """Return an experiment that was killed after the run of its second trial, before that is in its results."""
    add = Results.add

    def killed(results: Results, *given: Any) -> None:
        if results.done():
            raise KeyboardInterrupt
        add(results, *given)

    past = sim.run("dice.yaml", out="past")
    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(Results, "add", killed)
        patched.setattr(Results, "_tidy", lambda _: None)
        if arms:
            sim.arms(past, at="2s", arms={"same": {}}, seeds=3, record=True, jobs=1, out="out")
        else:
            sim.sweep("dice.yaml", seeds=3, record=True, jobs=1, out="out")
    return Path("out")


@pytest.mark.proof
@pytest.mark.parametrize("arms", [False, True])
def test_a_stop_leaves_no_run_twice(monkeypatch: pytest.MonkeyPatch, arms: bool) -> None:
    """A run whose trial was not written, because the experiment was killed, goes when the experiment goes on."""
    folder = stopped(monkeypatch, arms=arms)
    before = there(folder)
    draft = folder / "runs" / f".{before[0]}"
    draft.mkdir()
    sim.Experiment.open(folder).resume(jobs=1)
    assert len(before) > len(set(before) & set(there(folder)))
    with contextlib.closing(sqlite3.connect(folder / "results.db")) as database:
        rows = sorted(run for (run,) in database.execute("SELECT run FROM trials"))
    assert there(folder) == rows
    assert len(rows) == (6 if arms else 3)


@pytest.mark.slow
def test_what_a_person_put_beside_the_runs_stays(dice: Path) -> None:
    """Only runs of trials are removed: no branch of one, no run of another scenario, no file, no link or its target."""
    folder = Path(sim.sweep("dice.yaml", seeds=2, record=True, jobs=1, out="out").folder)
    runs = folder / "runs"
    mine = named(folder)
    branch = Path(sim.branch(runs / mine[0], at="2s", seed=9).run or "")
    (dice / "other.yaml").write_text(SCENARIO.replace("name: dice", "name: other"))
    other = Path(sim.run("other.yaml", out=runs).run or "")
    elsewhere = Path(sim.run("dice.yaml", out="elsewhere").run or "")
    (runs / "dice-7-0123abcd").symlink_to(elsewhere.resolve())
    (runs / "dice-8-0123abcd").mkdir()
    (runs / "notes.txt").write_text("mine")
    kept = there(folder)
    cut_short = Path(sim.run("dice.yaml", out=runs).run or "")
    assert branch.parent.name == "runs"
    sim.Experiment.open(folder).resume(jobs=1)
    assert there(folder) == kept
    assert {branch.name, other.name} <= set(kept)
    assert not cut_short.exists()
    assert (elsewhere / "run.db").exists()


def test_a_trial_that_is_done_again_has_its_new_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of a failed trial is there to be looked at, until the trial is tried again."""
    figures = measure._figures

    def failing(job: Any, *given: Any) -> Mapping[str, Any]:
        found = figures(job, *given)
        if job.seed == 1:
            raise RuntimeError("no luck")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(measure, "_figures", failing)
        first = sim.sweep("dice.yaml", seeds=2, record=True, jobs=1, out="out")
    before = named(first.folder)
    assert there(first.folder) == sorted(before.values())
    assert len(before) == 2
    seen: list[list[str]] = []
    again = first.resume(again=True, jobs=1, progress=lambda _: seen.append(there(first.folder)))
    after = named(again.folder)
    assert seen == [sorted(after.values())]
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_results_name_no_folder_elsewhere(dice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand-edited results are refused; a name in them that leads out of the folder of runs removes nothing."""
    folder = sim.sweep("dice.yaml", seeds=1, record=True, jobs=1, out="out").folder
    (dice / "mine").mkdir()
    with contextlib.closing(sqlite3.connect(folder / "results.db", isolation_level=None)) as database:
        database.execute("UPDATE trials SET run = '../../mine', status = 'failed', problem = ''")
    with pytest.raises(sim.SimError, match="was changed since it was recorded"):
        sim.Experiment.open(folder).resume(again=True, jobs=1)
    assert (dice / "mine").exists()
