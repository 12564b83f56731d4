"""Two processes, one run: the second is refused, one that was fenced out never writes again, no lock outlives."""

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.proof.bench import Bench, Kill, check_calls, reaped

pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc to see that a process has stopped"),
]


def test_a_second_process_is_refused(service, tmp_path):
    """While a process writes a run, another one that resumes it is refused in one sentence, and changes nothing."""
    bench = Bench(tmp_path, service, "asyncio", mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    with reaped(bench.start("run", "proof.yaml", point="effect.done", n=60, do="stop")) as first:
        _wait_until_stopped(first.pid)
        second = bench.call("resume", bench.run)
        assert second.code == 1
        assert second.error == f"{bench.run} is being written by another process"
        first.send_signal(signal.SIGCONT)
        ended = bench.wait(first)
    assert ended.result["hash"] == reference


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("point", ["writer.before", "writer.committed"])
def test_a_process_that_was_fenced_out_cannot_write(service, tmp_path, backend, point):
    """A process that is stopped, and taken over by another one, is refused at its first write when it goes on, says so
    in one sentence, and leaves the run as the other one has finished it.
    """
    bench = Bench(tmp_path, service, backend, mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    with reaped(bench.start("run", "proof.yaml", point=point, n=40, do="stop")) as old:
        _wait_until_stopped(old.pid)
        new = bench.call("resume", bench.run, "--take-over")
        assert new.code == 0, new.err
        assert new.result["hash"] == reference
        before = bench.record()
        old.send_signal(signal.SIGCONT)
        ended = bench.wait(old)
    assert ended.code == 1
    assert "was taken over by another process (epoch 2, not 1)" in ended.error
    after = bench.record()
    assert after == before
    assert bench.replay().same
    check_calls(service.seen(), service.applied, 1)


def test_one_that_stopped_within_a_commit_is_named(service, tmp_path):
    """A process that was stopped within a commit holds the file's own lock: taking over is refused in one sentence
    until it is killed; then it works.
    """
    bench = Bench(tmp_path, service, "asyncio", mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    with reaped(bench.start("run", "proof.yaml", point="writer.written", n=20, do="stop")) as old:
        _wait_until_stopped(old.pid)
        new = bench.call("resume", bench.run, "--take-over")
        assert new.code == 1
        assert new.error.endswith("cannot be used: another program has locked it")
    ended = bench.call("resume", bench.run)
    assert ended.code == 0, ended.err
    assert ended.result["hash"] == reference


def test_a_killed_process_leaves_no_lock(service, tmp_path, tell):
    """A run whose process was killed can be resumed at once, every time: 30 of 30."""
    bench = Bench(tmp_path, service, "asyncio", mode="tick")
    ended = bench.end(Kill("effect.started", 5), "run", "proof.yaml")
    for _ in range(30):
        assert ended.code == -signal.SIGKILL, ended.err
        bench.note_kill(bench.record())
        ended = bench.end(Kill("resume.claimed", 1), "resume", bench.run)
    assert bench.call("resume", bench.run).code == 0
    tell(bench.figures("killed right after it had the lock"))


def _wait_until_stopped(pid: int) -> None:
    """Wait until a process has stopped itself."""
    limit = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < limit, "it never came to the point"
        time.sleep(0.02)
