"""Run folders that several processes create in one folder at the same time."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
from sim.record import RunHeader, create_run
sys.stdin.readline()
for seed in range(12):
    header = RunHeader(name="x", seed=seed, mode="tick", backend="asyncio", options={}, code={})
    create_run(Path(sys.argv[1]), header, "name: x")
"""


@pytest.mark.slow
def test_no_process_takes_the_draft_of_another_for_abandoned(tmp_path: Path) -> None:
    """Each process creates all of its runs, and no draft is left."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert len(list(tmp_path.iterdir())) == 36
    assert not list(tmp_path.glob(".*"))
