"""Processes that run out of memory, or die at the same place again and again."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.record import open_run

ROOT = Path(__file__).parents[2]
MODULE = """
import os
from pathlib import Path
import sim

class Hog(sim.Agent):
    async def decide_action(self):
        self.state["n"] = self.state.get("n", 0) + 1
        if self.state["n"] == 20:
            bytearray(3 * 2**30)
        return sim.Action("publish", {"topic": "step.made"})

class Poison(sim.Agent):
    async def decide_action(self):
        self.state["n"] = self.state.get("n", 0) + 1
        if self.state["n"] == 20 and Path("poison").exists():
            os._exit(70)
        outcome = await sim.perform(sim.Effect("look", {"n": self.state["n"]}, look, latency_ns=1000, safety="pure"))
        return sim.Action("publish", {"topic": "seen", "data": outcome.value})

def look(request, key):
    with open("looks", "a") as file:
        file.write("x")
    return request["n"] * 2
"""
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
from sim.cli import main
main(sys.argv[1:])
"""


@attrs.frozen
class Done:
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def hash(self) -> str:
        """The hash of the run that it ended."""
        assert self.code == 0, self.err
        return str(json.loads(self.out)["hash"])


Call = Callable[..., Done]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """The command in a process of its own, in a folder with the module and a scenario for each of its agents."""
    (tmp_path / "hostile.py").write_text(MODULE)
    for kind in ("Hog", "Poison"):
        scenario: dict[str, Any] = {
            "name": kind.lower(), "until": 100, "agents": [{"name": "a", "kind": f"hostile:{kind}", "count": 3}],
            "execution": {"agent_loop": {"min_loop_delay": 1, "max_loop_delay": 1}},
        }  # fmt: skip
        (tmp_path / f"{kind.lower()}.yaml").write_text(json.dumps(scenario))

    def call(*args: object, limited: bool = False) -> Done:
        program = ["-c", LIMITED] if limited else ["-m", "sim"]
        ended = subprocess.run(
            [sys.executable, *program, *map(str, args), "--json", "--allow", "hostile"],
            capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        return Done(ended.returncode, ended.stdout, ended.stderr)

    return call


def only_run(folder: Path) -> Path:
    """Return the folder of the one run there is."""
    (found,) = (path for path in (folder / "runs").iterdir() if not path.name.startswith("."))
    return found


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep RLIMIT_AS")
def test_out_of_memory(call: Call, tmp_path: Path):
    """A run that hits its memory limit ends with exit code 1 and one sentence; with more memory it is resumed to the
    end of a run that never lacked any.
    """
    reference = call("run", "hog.yaml", "--no-record").hash
    ended = call("run", "hog.yaml", limited=True)
    assert ended.code == 1
    assert len([line for line in ended.err.splitlines() if line.startswith("sim: error: ")]) == 1
    assert "Traceback" not in ended.err
    assert call("resume", only_run(tmp_path)).hash == reference


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_the_process_dies_at_the_same_place_each_time(call: Call, tmp_path: Path):
    """A run whose process dies at one place dies there on each resume: nothing is done twice, and its record stays as
    it was. When the cause is gone, resume comes to the same end.
    """
    reference = call("run", "poison.yaml", "--no-record").hash
    (tmp_path / "looks").unlink()
    (tmp_path / "poison").touch()
    assert call("run", "poison.yaml").code == 70
    run = only_run(tmp_path)
    for _ in range(5):
        assert call("resume", run).code == 70
    with open_run(run) as stored:
        assert stored.info.status == "killed"
        known = stored.query("SELECT count(*) FROM effects WHERE outcome IS NOT NULL")[0][0]
    assert known <= len((tmp_path / "looks").read_text()) <= 3 * 20 + 6 * 3
    (tmp_path / "poison").unlink()
    assert call("resume", run).hash == reference
