"""Pages are handed on, so they say nothing of the machine on which they were made."""

from pathlib import Path

import attrs
import pytest

from sim.record import open_run
from sim.record.summary import without_folder


@pytest.mark.slow
def test_pages_do_not_have_the_folder(sim, tiny, tmp_path):
    """No page names the folder in which it was made: reports and views, also of branches, experiments and benches."""
    run = Path(sim("run", tiny, "--quiet", "--out", tmp_path / "runs").out.strip())
    branch = Path(sim("branch", run, "--at", "5m", "--seed", 9, "--out", tmp_path / "runs", "--quiet").out.strip())
    for made in (run, branch):
        assert sim("report", made).code == sim("view", made).code == 0
    commands = (
        ("sweep", tiny, "--seeds", 2, "--jobs", 1, "--to", tmp_path / "sweep"),
        (
            "branch",
            run,
            "--at",
            "5m",
            "--arm",
            "quick:agents.walker.loop.min_loop_delay=10s",
            "--seeds",
            2,
            "--jobs",
            1,
            "--to",
            tmp_path / "arms",
        ),
        ("bench", tiny, "--seeds", 1, "--to", tmp_path / "bench"),
    )
    for command in commands:
        done = sim(*command)
        assert done.code == 0, done.err
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) == 7
    for page in pages:
        assert str(tmp_path) not in page.read_text(), page


def test_sentences_about_a_run_name_it_without_its_folder(sim, tiny, tmp_path, monkeypatch):
    """In what a page says of a damaged or failed run, the name of the run stands for its folder, however given."""
    run = Path(sim("run", tiny, "--quiet", "--out", tmp_path / "runs").out.strip())
    monkeypatch.chdir(tmp_path)
    with open_run(run) as stored:
        info = stored.info
    for given in (run, run.relative_to(tmp_path)):
        told = without_folder(attrs.evolve(info, path=given), f"{run}/run.db cannot be used: the disk is full")
        assert told == f"{run.name}/run.db cannot be used: the disk is full"
