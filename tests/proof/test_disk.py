"""Full, slow and failing disks: a clear sentence, and nothing lost that was acknowledged."""

import contextlib
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.bench import Bench, Kill, check_calls

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

SIZE = 560
"""Kilobytes of the tiny disk: more than a new run file needs with its views, less than a run needs with its log."""


@contextlib.contextmanager
def tiny_disk(path: Path, size: str = f"{SIZE}k") -> Iterator[Path]:
    """Mount a disk of a size, or skip the test where that is not allowed."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount here")
def test_a_full_disk(service, tmp_path):
    """On a disk that runs full the run ends with one sentence; when there is space again it is resumed to the same
    end, and what was on record is not done again.
    """
    bench = Bench(tmp_path / "work", service, "asyncio", mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    with tiny_disk(bench.folder / "runs") as disk:
        full = bench.call("run", "proof.yaml")
        assert full.code == 1
        assert full.error == f"runs/{bench.run.name}/run.db cannot be used: the disk is full"
        known, before = bench.record().known, len(service.calls)
        assert known
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        ended = bench.call("resume", bench.run)
        assert ended.code == 0, ended.err
        assert ended.result["hash"] == reference
        assert bench.replay().same
        assert not [call for call in service.calls[before:] if (call.agent, call.ordinal) in known]


@pytest.mark.parametrize("point", ["writer.before", "writer.written", "writer.committed"])
def test_a_write_that_fails(service, tmp_path, point):
    """Whichever write fails, before or after its commit, the run ends with one sentence and is resumed to the same
    end, also when the writes of the resumed one fail.
    """
    rng = random.Random(point)
    bench = Bench(tmp_path, service, "asyncio", mode="tick")
    reference = bench.reference()
    bench.fresh()
    failures = 0
    # among the first writes: on a busy machine more jobs share a commit, and a run may need a dozen of them only
    ended = bench.call("run", "proof.yaml", point=point, n=rng.randint(1, 8), do="full")
    while ended.code != 0 and bench.record().status != "finished":
        failures += 1
        assert "No space left on device" in ended.error
        plan = {"point": point, "n": rng.randint(1, 60), "do": "full"} if failures < 4 else {}
        ended = bench.call("resume", bench.run, **plan)
    assert failures or ended.code != 0
    assert ended.code == 0 or point == "writer.committed", "only what is committed may be the end of a run that failed"
    assert bench.record().hash == reference
    assert bench.replay().same
    check_calls(service.seen(), service.applied, failures)


def test_a_slow_disk_stalls_nobody(service, tmp_path):
    """While the writer's thread waits for the disk, the event loop goes on turning, each time; the hash is the same."""
    bench = Bench(tmp_path, service, "asyncio", mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    ended = bench.call("run", "proof.yaml", slow=0.05)
    assert ended.code == 0, ended.err
    assert ended.result["hash"] == reference
    turns = [int(line.split()[1]) for line in ended.err.splitlines() if line.startswith("turns: ")]
    assert turns  # how many waits there are depends on the machine: what has come in meanwhile shares a commit
    assert min(turns) > 0


def test_power_loss(service, tmp_path, tell):
    """A log that was cut, or damaged, at any place is missed: the run is resumed only if nothing acknowledged is
    gone, and with --allow-loss from what is left, to the same end.
    """
    rng = random.Random("power")
    bench = Bench(tmp_path, service, "asyncio", mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    bench.end(Kill("effect.done", 120), "run", "proof.yaml")
    kept = tmp_path / "kept"
    shutil.copytree(bench.run, kept)
    whole = (kept / "run.db-wal").read_bytes()
    name = bench.run.name
    resumed = refused = 0
    for number in range(24):
        bench.fresh()
        shutil.copytree(kept, bench.folder / "runs" / name)
        place = rng.randrange(len(whole))
        broken = bytearray(whole[:place] if number % 2 else whole)
        if number % 2 == 0:
            broken[place : place + 64] = rng.randbytes(64)
        (bench.run / "run.db-wal").write_bytes(broken)
        ended = bench.call("resume", bench.run)
        if ended.code:
            assert "lost its last records" in ended.error
            refused += 1
            ended = bench.call("resume", bench.run, "--allow-loss")
        if ended.code == 0:
            resumed += 1
            assert ended.result["hash"] == reference
            assert bench.replay().same
        else:
            assert "damaged" in ended.error
    tell(f"power loss: {refused} of 24 cut or damaged logs were refused; {resumed} runs came to the same end")
    assert resumed > 12
    assert refused > 12


def test_a_deleted_log_is_reported(service, tmp_path):
    """A killed run without its log is refused, with what that means; `--allow-loss` goes on to the same end."""
    bench = Bench(tmp_path, service, "asyncio", mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    bench.end(Kill("effect.done", 120), "run", "proof.yaml")
    (bench.run / "run.db-wal").unlink()
    refused = bench.call("resume", bench.run)
    assert refused.code == 1
    assert refused.error.startswith(f"{bench.run} lost its last records: commits ")
    ended = bench.call("resume", bench.run, "--allow-loss")
    assert ended.code == 0, ended.err
    assert ended.result["hash"] == reference
