"""Planted nondeterminism: each mistake of `planted` is detected by a replay, and only by the detector that looks there.

The runs are recorded in one process and replayed in another one, with another order of hashes, addresses, environment,
directory listing and pace, so that each difference really shows.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim.record import open_run
from tests.proof.planted import SHOWS, FloatSum

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
OTHER_PYTHON = os.environ.get("SIM_OTHER_PYTHON")
"""A Python with sim's dependencies, of another version: 3.11 if this is 3.12 or later, and the other way round."""


def child(what: str, folder: Path, python: str = sys.executable, **environment: str) -> Any:
    """Record or replay all runs in a process of its own."""
    done = subprocess.run(
        [python, "-m", "tests.proof.planted", what, str(folder)],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each agent, recorded in a process of its own."""
    folder = tmp_path_factory.mktemp("planted")
    files = folder / "files"
    files.mkdir()
    for name in ("one", "two", "three"):
        (files / name).touch()
    child("record", folder, PYTHONHASHSEED="1", PLANTED_FILES=str(files))
    return folder


@pytest.fixture(scope="module")
def replays(folder: Path) -> Any:
    """What replays of these in another process say."""
    return child(
        "replay", folder, PYTHONHASHSEED="2", PYTHONMALLOC="malloc", PLANTED_FILES=str(folder / "files"),
        PLANTED_PACE="reversed", PLANTED_MODEL="large", PLANTED_GC="off", PLANTED_LISTING="reversed",
    )  # fmt: skip


@pytest.fixture(scope="module")
def replays_of_other_python(folder: Path) -> Any:
    """What replays by another version of Python say."""
    if OTHER_PYTHON is None:
        pytest.skip("SIM_OTHER_PYTHON names no Python of another version")
    return child("replay", folder, OTHER_PYTHON, PYTHONHASHSEED="1", PLANTED_FILES=str(folder / "files"))


def mistake(kind: type, folder: Path) -> str:
    """Return the pattern of the sentence that names where a run parts: event or effect, agent and time."""
    (recorded,) = (folder / kind.__name__).iterdir()
    if SHOWS[kind] == "requests":
        return r"^effect 1 of a-1 \(ask\) at 2s has a different request than on record: it differs in \w+, which is "
    if SHOWS[kind] == "digest":
        return r"^all events are equal, but the final state differs in agents\.a-1\.state\.\S+, which is "
    with open_run(recorded) as stored:
        sql = "SELECT id FROM events WHERE topic = 'action.publish' OR topic LIKE 'planted.%' ORDER BY id LIMIT 1"
        ((number,),) = stored.query(sql)
    assert number > 1
    return rf"^event {number} \((action\.publish|planted\.here) of a-1 at 2s\) differs in data\.\S+, which is "


@pytest.mark.parametrize("kind", [kind for kind in SHOWS if kind is not FloatSum])
def test_a_planted_mistake_is_detected(kind, folder, replays):
    """A replay finds what is not the same again and names the first event or effect, the agent and the time."""
    for detectors in ("all", "alone"):
        found = replays[kind.__name__][detectors]
        assert not found["same"]
        assert re.search(mistake(kind, folder), found["difference"]), found["difference"]


@pytest.mark.parametrize("kind", [kind for kind in SHOWS if kind is not FloatSum])
def test_a_planted_mistake_is_missed_without_its_detector(kind, replays):
    """With the detector that finds it disabled nothing else notices: each detector does work that no other does."""
    missed = replays[kind.__name__]["without"]
    assert missed["same"], missed["difference"]


def test_floats_that_another_python_adds_otherwise_are_detected(folder, replays_of_other_python):
    """`sum` of floats rounds otherwise before and from Python 3.12 on: a replay by the other kind finds it."""
    found = replays_of_other_python["FloatSum"]
    assert not found["all"]["same"]
    assert re.search(mistake(FloatSum, folder), found["all"]["difference"]), found["all"]["difference"]
    assert found["without"]["same"]


@pytest.mark.parametrize("which", ["replays", "replays_of_other_python"])
def test_who_makes_no_mistake_is_the_same_everywhere(which, request):
    """An agent that uses simulated time, its own stream and sorted sets replays to its hash in every process."""
    found = request.getfixturevalue(which)["Careful"]["all"]
    assert found["same"], found["difference"]
    assert found["hash"] == found["recorded_hash"]


def test_every_detector_finds_something():
    """Each part of the comparison is needed by at least two of the mistakes."""
    parts = [*SHOWS.values()]
    assert all(parts.count(part) >= 2 for part in ("events", "requests", "digest"))
