"""Worker processes as such: how they start, what their ends look like, and that none is left over."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from sim.base.child import Child, variables
from sim.base.errors import RunError
from sim.llm.access import Access
from sim.llm.endpoint import EdgeClient
from sim.llm.router import Target
from sim.llm.tokens import exact
from sim.llm.types import ChatMessage, ModelRequest
from sim.llm.workers.link import ProcessLink
from sim.llm.workers.messages import Count, Frames, Place, Ready, Start, framed, read_from_worker
from sim.llm.workers.pool import edge_workers
from sim.llm.workers.program import serve
from tests.killing import ROOT
from tests.llm.endpoint import Endpoint, Reply, whole
from tests.llm.test_workers import Beside, until

KEY = "sk-a-key-of-the-operator"
IN_PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="what processes do is read in /proc")
START = framed(Start({"openai": Place("http://127.0.0.1:1/v1", KEY, {}, ("openai:m",), 1)}, 60.0, "m"))
CUT = Access(("openai:m",), api_key=KEY).cut


async def started() -> ProcessLink:
    """Return a worker that is ready."""
    link, frames = await ProcessLink.open(CUT), Frames()
    assert await link.send(START)
    while True:
        chunk = await link.receive()
        assert chunk, await link.ended()
        if any(isinstance(read_from_worker(body), Ready) for body in frames.feed(chunk)):
            return link


async def rest(link: ProcessLink) -> str:
    """Wait until a worker has ended, and return how."""
    async with anyio.create_task_group() as group:
        group.start_soon(link.collect_errors)
        while await link.receive():
            pass
    return await link.ended()


@pytest.mark.slow
def test_a_worker_that_cannot_read_its_input_ends():
    """After anything that is no message, a worker does not stay alive without listening: it ends, and says why."""

    async def main() -> None:
        for noise in (b"\0\0\0\5hello", b"\xff" * 8, b'\0\0\0\x08["drop"]'):
            link = await started()
            assert await link.send(noise)
            how = await rest(link)
            assert how.startswith("ended with exit code 1: ")
            assert "Error: " in how

    anyio.run(main)


def test_a_worker_that_hangs_ends_with_its_input(monkeypatch):
    """A worker whose event loop is busy when its input ends is ended all the same."""
    busy, ended = threading.Event(), threading.Event()

    def hang(*_: object) -> int:
        busy.set()
        ended.wait()
        return 1

    monkeypatch.setattr("sim.llm.workers.program.count_request", hang)
    monkeypatch.setattr("sim.llm.workers.program._GRACE", 0.01)
    inputs = iter((START, framed(Count(1, ModelRequest((ChatMessage("user", "x"),))))))

    def read() -> bytes:
        if (frame := next(inputs, None)) is not None:
            return frame
        busy.wait()
        return b""

    anyio.run(serve, read, lambda data: None, ended.set)  # it would not return otherwise


@pytest.mark.slow
@IN_PROC
def test_a_process_that_is_stopped_is_replaced(monkeypatch):
    """A worker process that is alive but stopped is killed, and another one makes its call."""
    monkeypatch.setattr("sim.llm.workers.pool._BEAT", 0.2)

    async def main() -> None:
        with Endpoint(lambda seen: Reply(body=whole("yes"))) as endpoint:
            access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY, edge_workers=1)
            async with anyio.create_task_group() as group:
                workers = edge_workers(access, 60.0, "m", lambda: Beside(group))
                client = EdgeClient(access, tokenizer=exact("m"), workers=workers)
                await client.prepare()
                link = workers._slots[0].link
                assert isinstance(link, ProcessLink)
                os.kill(link._child.pid, signal.SIGSTOP)
                await until(lambda: states(link._child.pid) == {"T"})
                answer = await client.complete(
                    (Target("openai", "m"),), ModelRequest((ChatMessage("user", "x"),)), agent="ann"
                )
                assert (answer.completion.text, answer.lost, workers.figures.replaced) == ("yes", (), 1)
                assert not states(link._child.pid)
                await client.aclose()
                group.cancel_scope.cancel()

    anyio.run(main)


PARENT = """
import sys, anyio
from tests.llm.test_worker_processes import started

async def main():
    link = await started()
    print(link._child.pid, flush=True)
    await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.slow
@IN_PROC
def test_no_worker_outlives_its_run():
    """When the process of a run is killed, its worker processes end by themselves."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert Path(f"/proc/{worker}").exists()
        parent.kill()
        parent.wait()

    try:
        while states(worker) - {"Z"}:  # the time limit of the test is that of the wait
            time.sleep(0.01)
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def states(process: int) -> set[str]:
    """Return the states of the threads of a process; none: there is no such process."""
    found = set()
    for path in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):
            found.add(path.read_text().rpartition(")")[2].split()[0])
    return found


def test_a_process_that_cannot_be_started_is_one_sentence(tmp_path):
    """If the system does not start a process, the error says which and why; if something is used up, what may help."""

    async def start(command: str, folder: Path | None, most_files: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, hard))
        try:
            await Child.start("a worker", [command], environment={}, folder=folder)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    for command, folder, most_files, why, hint in (
        (str(tmp_path / "none"), None, 500, "No such file or directory", None),
        (sys.executable, tmp_path / "none", 500, "No such file or directory", None),
        (sys.executable, None, 3, "Too many open files", "ulimit -a"),
    ):
        with pytest.raises(RunError) as found:
            anyio.run(start, command, folder, most_files)
        assert str(found.value) == f"a worker cannot be started: {why}"
        assert (found.value.hint is None) == (hint is None)
        assert (hint or "") in (found.value.hint or "")


@pytest.mark.slow
def test_a_secret_is_removed_before_a_text_is_cut():
    """Of a key that stands where the kept text begins, nothing is shown, wherever it was split."""

    async def main() -> None:
        for behind in range(1970, 2005):
            program = f"import sys; sys.stderr.write('x' * 50 + {KEY!r} + 'y' * {behind})"
            child = await Child.start("x", [sys.executable, "-c", program], environment=variables(os.environ), cut=CUT)
            await child.collect_errors()
            await child.close(60.0)
            parts = [KEY[start : start + 4] for start in range(len(KEY) - 3)]
            assert not [part for part in parts if part in child.how()]

    anyio.run(main)
