"""A host whose run was ended while something was under way, and that is run again."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sim.host import effect_tasks
from sim.host.host import Host
from sim.kernel import NS, Effect, Kernel, Pause, perform
from sim.kernel.ports import Durable
from sim.kernel.waits import sleep_ns
from tests.kernel.conftest import Rows

both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Disk(Rows):
    """Has everything on disk at once, or when `turn` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.kept: list[Durable] = []

    def durable(self, done: Durable, /) -> None:
        if self.slow:
            self.kept.append(done)
        else:
            done(None)

    def turn(self) -> None:
        """Report what is on disk now."""
        kept, self.kept = self.kept, []
        for done in kept:
            done(None)


async def cut(host: Host, disk: Disk) -> None:
    """Run a host until the first answer is recorded, and cancel the run before the answer is handed over."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(host.run, NS)
            while not disk.results:
                await anyio.lowlevel.checkpoint()
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert [row.ending for row in disk.endings] == ["abandoned"] * 8


@both_hosts
@pytest.mark.parametrize("slow", [False, True], ids=["gathering", "committing"])
def test_a_run_that_was_cut_leaves_nothing_to_the_next(monkeypatch, backend, slow):
    """If a run ends while outcomes wait for others to share a commit, or for the commit, the next run gets its own
    outcomes, and is idle when its own effects are under way.
    """
    monkeypatch.setattr(effect_tasks, "_TOGETHER", 0.0 if slow else 3600.0)
    disk, go, ended = Disk(), anyio.Event(), list[object]()
    kernel = Kernel(recorder=disk)
    host = Host(kernel)

    async def call(request: Any, key: str) -> Any:
        if request == "never":
            await anyio.sleep_forever()
        if request == "late":
            await go.wait()
        if request == "early":
            disk.slow = slow
        return request

    async def ask(request: str, after: int = 0) -> None:
        await sleep_ns(after)
        ended.append((await perform(Effect("test", request, call, latency_ns=NS // 2, safety="pure"))).value)

    async def beside() -> None:
        ended.append(await host.idle())
        disk.turn()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        ended.append(await host.idle())
        go.set()

    async def main() -> None:
        await cut(host, disk)
        disk.slow = False
        with anyio.fail_after(20):
            async with host:
                host.beside(beside)
                assert await host.run(2 * NS) is Pause.LIMIT

    for number in range(7):
        kernel.spawn(f"never{number}", ask("never"))
    kernel.spawn("early", ask("early"))
    kernel.spawn("late", ask("late", after=3 * NS // 4))
    anyio.run(main, backend=backend)
    assert ended == [1, 1, "late"]
