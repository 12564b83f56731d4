"""`sim.open`: what it accepts, that it leaks nothing, and what a run shows of itself."""

import gc
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

import sim
from sim.record import open_run
from sim.record.files import DATABASE
from tests.analysis.conftest import EVIL, SHOP


def test_a_run_is_opened_by_all_that_names_it(folder, monkeypatch):
    """Text and paths, a folder and its `run.db`, a name and its beginning, and what `sim.runs` lists."""
    (path,) = (folder / "runs").iterdir()
    (info,) = sim.runs(folder / "runs")
    for given in (path, str(path), path / DATABASE, str(path / DATABASE), info):
        with sim.open(given) as run:
            assert run.info.id == path.name
    for name in ("shop", path.name, path.name[:12]):
        with sim.open(name, out=str(folder / "runs")) as run:
            assert run.path == path
    monkeypatch.chdir(folder)
    with sim.open("shop") as run, sim.open(run) as same:
        assert same.info == run.info


def test_a_run_in_an_archive_is_opened(folder, tmp_path):
    """A zip archive of a run folder is read like the folder; it is unpacked once, and anew if the file has changed."""
    (path,) = (folder / "runs").iterdir()
    for number, base in enumerate((path.parent, path)):  # with the folder of the run, and without
        file = shutil.make_archive(str(tmp_path / f"run{number}"), "zip", base)
        with sim.open(file) as run, sim.open(file) as again:
            assert run.info.hash == sim.open(path).info.hash
            assert run.path == again.path
        os.utime(file, ns=(1, 1))
        with sim.open(file) as changed:
            assert changed.path != run.path


@pytest.mark.parametrize("names", [[], ["a.txt"], ["a/run.db", "b/run.db"]])
def test_an_archive_without_one_run_is_refused(tmp_path, names):
    """An archive has one run; one that is no archive is damaged; nothing is written outside."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        for name in names:
            made.writestr(name, "x")
    with pytest.raises(sim.UsageError, match="runs, not one"):
        sim.open(tmp_path / "x.zip")
    (tmp_path / "y.zip").write_text("no archive")
    with pytest.raises(sim.SimError, match="cannot be read as a zip archive"):
        sim.open(tmp_path / "y.zip")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as made:
        made.writestr("../../run.db", "x")
        made.writestr("../../evil.txt", "x")
    with pytest.raises(sim.SimError):
        sim.open(tmp_path / "z.zip")
    assert not list(tmp_path.parent.parent.glob("evil.txt"))


def test_older_doors_take_text_as_well(folder):
    """`sim.load` and `open_run` accept text as they accept paths."""
    (path,) = (folder / "runs").iterdir()
    with open_run(str(path)) as run:
        assert run.info.name == "shop"
    assert sim.load(str(folder / "shop.yaml")) == sim.load(folder / "shop.yaml")


def test_the_result_of_a_run_is_accepted_as_its_folder(folder, tmp_path):
    """A result names its run for every function that takes one; one that was not recorded says what is missing."""
    result = sim.run(folder / "shop.yaml", out=tmp_path)
    assert sim.replay(result).same
    with sim.open(result) as run, sim.open(sim.branch(run, at="5m", seed=9)) as branch:
        assert run.info.hash == result.hash
        assert (branch.info.origin or {})["run"] == run.info.id
    unrecorded = sim.run(folder / "shop.yaml")
    for call in (sim.open, sim.replay):
        with pytest.raises(sim.UsageError, match="this run was not recorded") as error:
            call(unrecorded)
        assert error.value.hint == 'record it: sim.run(..., out="runs")'


def test_what_is_no_run_is_refused(folder, tmp_path):
    """What cannot be a run, or does not exist, gets one sentence."""
    with pytest.raises(sim.UsageError, match="a run is given by its name or its folder, not by 3"):
        sim.open(3)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(sim.UsageError, match="there is no run 'shpo' in") as error:
        sim.open("shpo", out=folder / "runs")
    assert "did you mean shop-3-" in (error.value.hint or "")
    with pytest.raises(sim.UsageError, match=r"is not a run: it has no run\.db"):
        sim.open(tmp_path)


def test_the_built_in_open_is_not_hidden():
    """`from sim import *` leaves `open` alone, although `sim.open` is a public name."""
    assert "open" in dir(sim)
    assert "open" not in sim.__all__


PLAIN_USE = """
import gc, sys, sim
run = sim.open(sys.argv[1])
assert len(run.frame("events")) > 10
del run
kept = sim.open(sys.argv[1])
kept.agents
gc.collect()
"""


@pytest.mark.slow
def test_plain_use_leaks_nothing(folder):
    """A run that nobody closes is closed when it is no longer used, and at the end of the program."""
    (path,) = (folder / "runs").iterdir()
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PLAIN_USE, str(path)], capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_may_be_dropped_in_any_thread(folder, monkeypatch):
    """The garbage collector may run in any thread, so a run can be closed in another one than it was opened in."""
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    (path,) = (folder / "runs").iterdir()
    held = [sim.open(path)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert (held, raised) == ([], [])


def test_a_closed_run_says_so(folder):
    """After the end of its block, a run refuses to be read, in one sentence."""
    (path,) = (folder / "runs").iterdir()
    with sim.open(path) as run:
        pass
    run.close()
    for read in (run.frame, run.agent):
        with pytest.raises(sim.UsageError, match="this run was closed") as error:
            read("events")
        assert error.value.hint == "open it again"


def test_rows_can_be_chosen(run):
    """A frame takes a condition with values; it can only read."""
    some = run.frame("events", where="topic = ? AND time > ?", parameters=("shop.sold", 200), as_="pandas")
    assert set(some["topic"]) == {"shop.sold"}
    assert some["time"].min() > 200
    assert list(run.sql("SELECT count(*) AS n FROM events", as_="pandas")["n"]) == [run.info.events]
    with pytest.raises(sim.UsageError, match="no view 'evnts'"):
        run.frame("evnts")
    for sql in ("DELETE FROM chunks", "ATTACH 'x' AS y", "PRAGMA query_only = OFF"):
        with pytest.raises(sim.UsageError, match="only SELECT is allowed"):
            run.sql(sql)


def test_metrics_are_those_of_the_result(folder, tmp_path, run):
    """The metrics of a record are those of its run; a run that failed or still goes on has them, too."""
    result = sim.run(folder / "shop.yaml", out=tmp_path)
    assert dict(run.metrics) == dict(result.metrics)

    def fail(runner: sim.RunController) -> None:
        if runner.simulation.world.now >= 300:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        sim.run(folder / "shop.yaml", out=tmp_path / "failed", progress=fail, clock="wall", speed=3000)
    (info,) = sim.runs(tmp_path / "failed")
    with sim.open(info) as failed:
        assert failed.info.status == "failed"
        count = len(failed.metrics["time"])
        assert 5 <= count < 11
        assert {name: values[:count] for name, values in result.metrics.items()} == dict(failed.metrics)
        assert failed.plot("sold").label.startswith("shop: sold over ")


def test_a_run_is_readable(run):
    """The text of a run is one line; its HTML has its figures and metrics, and no markup of the run's own."""
    assert repr(run).startswith(f"<Run {run.info.id}: shop (seed 3): finished, 10m simulated, 2 agents, ")
    assert "\n" not in repr(run)
    html = run._repr_html_()
    assert html.startswith("<div><table>")
    assert ">sold<" in html
    for text in (
        html,
        run.agents._repr_html_(),
        run.agent("clerk-1")._repr_html_(),
        sim.runs(run.path.parent)._repr_html_(),
    ):
        assert "<script" not in text
    assert EVIL.replace("<", "&lt;").replace(">", "&gt;") in run.agent("clerk-1")._repr_html_()


def test_the_states_of_agents_are_a_chart(run):
    """The chart has a line for each state that occurs, over the whole run."""
    chart = run.plot_states()
    assert chart.label == "shop: agents by state over 10 minutes"
    assert "running" in chart.svg


def test_runs_are_listed(folder, tmp_path):
    """The newest run comes first; the list is a table, a frame, and can be cut."""
    for seed in (1, 2):
        sim.run(folder / "shop.yaml", seed=seed, out=tmp_path)
    found = sim.runs(str(tmp_path))
    assert [info.seed for info in found] == [2, 1]
    assert [info.seed for info in found[1:]] == [1]
    assert repr(found).splitlines()[0].split() == [
        "run",
        "scenario",
        "mode",
        "seed",
        "status",
        "simulated",
        "events",
        "hash",
    ]
    assert repr(found[0]) == f"<RunInfo {found[0].id}: finished>"
    assert list(found.frame(as_="pandas")["seed"]) == [2, 1]
    assert repr(sim.runs(tmp_path / "nothing")) == "<no runs>"


def test_two_runs_are_compared(folder, tmp_path):
    """`sim.diff` says whether two runs are equal, where they part, and which outcomes differ, safely as HTML."""
    first = sim.run(folder / "shop.yaml", out=tmp_path)
    (tmp_path / "other.yaml").write_text(SHOP.replace("price: 2.5", "price: 3").replace("+ 1", "+ 2"))
    second = sim.run(tmp_path / "other.yaml", out=tmp_path)
    same = sim.diff(first, Path(str(first.run)))
    assert same.equal
    assert "the runs are equal: all events are equal" in repr(same)
    found = sim.diff(first, second, limit=1)
    assert not found.equal
    assert "differs in data.price" in repr(found)
    assert "sold (last)" in repr(found)
    assert len(found.after[0]) == 1
    assert "<script" not in found._repr_html_()
