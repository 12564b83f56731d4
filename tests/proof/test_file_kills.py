"""Kill -9 sweeps, benches, arms, archives and checks at crash points and at random moments: none stuck, none wrong."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim.base.crashpoints import FILE_POINTS
from tests.proof.forking import ROOT, Commands

WHOLE, SAMPLE = 50, 4
"""Kills of each of the five kinds: 250 in all with `SIM_CAMPAIGN=whole`; else a sample, another one for each commit."""

SCENARIO = """
name: tiny
until: 5m
agents:
  - name: gull
    count: 3
    state: {fish: 0}
    loop: {min_loop_delay: 1m}
    rules: [{when: chance(0.5), do: {publish: {topic: fish.caught}}, set: {fish: "=fish + 1"}}]
metrics: {every: 1m, values: {caught: "total('gull', 'fish')"}}
"""
SWEEP = ("sweep", "tiny.yaml", "--vary", "agents.gull.count=2,3", "--seeds", "2", "--to", "study", "--record")
BENCH = ("bench", "tiny.yaml", "--mode", "tick-parallel", "--mode", "autonomous", "--seeds", "2", "--to", "study")
ARMS = ("branch", "tiny", "--at", "2m", "--arm", "two:agents.gull.state.fish=2", "--seeds", "2", "--to", "study")
ARCHIVE = ("archive", "kept", "--to", "kept.zip", "--force")
VERIFY = ("verify", "given.zip")

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    """The warm process."""
    with Commands() as opened:
        yield opened


def kills(kind: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield when to kill: at each crash point in turn, every second time at a random moment; by SIGTERM, too."""
    if os.environ.get("SIM_CAMPAIGN") == "whole":
        rng, count = random.Random(kind), WHOLE
    else:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        rng, count = random.Random(f"{kind} {commit.stdout}"), SAMPLE
    for number in range(10 * count):
        by = {"signal": "SIGTERM"} if rng.random() < 0.2 else {}
        if number % 2:
            yield {"after": rng.uniform(0.0, seconds), **by}
        else:
            yield {"point": rng.choice(FILE_POINTS), "n": rng.choice((1, 1, 2, 3)), **by}


def wanted() -> int:
    """Return how many kills a test makes."""
    return WHOLE if os.environ.get("SIM_CAMPAIGN") == "whole" else SAMPLE


def drafts(folder: Path) -> list[str]:
    """Return all that is hidden or temporary below a folder.

    A file in `tmp` is none: the `tempfile` of Python tries with one whether the folder can be written.
    """
    found = (path for path in folder.rglob("*") if path.name[0] == "." or (path.parent.name == "tmp" and path.is_dir()))
    return [str(path.relative_to(folder)) for path in found]


def prepared(commands: Commands, folder: Path) -> Path:
    """Return a folder with a scenario, a run, and what comes out of a whole sweep and its archive."""
    folder.mkdir()
    (folder / "tiny.yaml").write_text(SCENARIO)
    assert commands.call(folder, "run", "tiny.yaml", "--quiet") == 0
    assert commands.call(folder, *SWEEP[:-3], "--to", "kept") == 0
    assert commands.call(folder, "archive", "kept", "--to", "given.zip") == 0
    return folder


def result(folder: Path) -> Any:
    """Return what the last command printed."""
    return json.loads((folder / "out").read_text())


@pytest.mark.parametrize("first", [SWEEP, BENCH, ARMS], ids=["sweep", "bench", "arms"])
def test_a_killed_experiment_goes_on_or_begins_again(commands, tmp_path, tell, first):
    """Whenever the process of a sweep, a bench or arms is killed, there is either no experiment, and the same command
    makes it, or one that is resumed. Both give the results of one that was never killed, verify finds nothing wrong,
    and no draft is left.
    """
    folder = prepared(commands, tmp_path / "work")
    assert commands.call(folder, *first, "--json") == 0, (folder / "err").read_text()
    reference = result(folder)["hash"]
    counts = {"kills": 0, "begun again": 0, "resumed": 0}
    for kill in kills(first[0], 0.5):
        shutil.rmtree(folder / "study")
        if commands.call(folder, *first, **kill) in (0, 1):  # it was done before; or stopped at SIGTERM in good order
            again = commands.call(folder, "sweep", "--resume", "study")
            assert again == 0, (kill, (folder / "err").read_text())
            continue
        counts["kills"] += 1
        there = (folder / "study").exists()
        counts["resumed" if there else "begun again"] += 1
        if there:
            assert commands.call(folder, "verify", "study") == 0, (kill, (folder / "err").read_text())
        again = commands.call(folder, *(("sweep", "--resume", "study") if there else first), "--json")
        assert again == 0, (kill, (folder / "err").read_text())
        assert result(folder)["hash"] == reference, kill
        assert commands.call(folder, "verify", "study", "--json") == 0, (kill, (folder / "err").read_text())
        assert not drafts(folder), kill
        if counts["kills"] == wanted():
            break
    assert counts["kills"] == wanted()
    tell(f"{first[0]}: {counts}")


def test_a_killed_archive_is_whole_or_not_there(commands, tmp_path, tell):
    """Whenever `sim archive` is killed, there is no file or a whole one; the next archive has the same bytes, and
    removes the draft of the one before.
    """
    folder = prepared(commands, tmp_path / "work")
    reference = (folder / "given.zip").read_bytes()
    count = 0
    for kill in kills("archive", 0.6):
        (folder / "kept.zip").unlink(missing_ok=True)
        if commands.call(folder, *ARCHIVE, **kill) == 0:
            continue
        count += 1
        if (folder / "kept.zip").exists():
            assert (folder / "kept.zip").read_bytes() == reference, kill
        assert commands.call(folder, *ARCHIVE) == 0, (kill, (folder / "err").read_text())
        assert (folder / "kept.zip").read_bytes() == reference, kill
        assert not drafts(folder), kill
        if count == wanted():
            break
    assert count == wanted()
    tell(f"archive: {count} kills")


def test_a_killed_check_leaves_nothing_behind(commands, tmp_path, tell):
    """Whenever `sim verify` of an archive is killed, the next one gives the same answer and removes what was unpacked;
    at SIGTERM nothing is left at all.
    """
    folder = prepared(commands, tmp_path / "work")
    reference = (folder / "given.zip").read_bytes()
    count = 0
    for kill in kills("verify", 0.3):
        if commands.call(folder, *VERIFY, **kill) == 0:
            continue
        count += 1
        if kill.get("signal") == "SIGTERM" and (folder / "tmp").exists() and "point" in kill:
            assert not drafts(folder), kill
        assert commands.call(folder, *VERIFY, "--json") == 0, (kill, (folder / "err").read_text())
        assert result(folder)["intact"] is True
        assert not drafts(folder), kill
        assert (folder / "given.zip").read_bytes() == reference
        if count == wanted():
            break
    assert count == wanted()
    tell(f"verify: {count} kills")
