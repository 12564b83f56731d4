"""Work beside a run, and how it learns that the kernel cannot continue before an effect ends."""

import threading
from typing import Any

import anyio
import pytest

from sim.host.host import Host
from sim.kernel import NS, Effect, Kernel, perform
from sim.kernel.ports import Durable, NullRecorder
from sim.kernel.waits import sleep_ns

FOREVER = 2**62

both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class SlowDisk(NullRecorder):
    """A recorder that takes real time to have anything on disk."""

    def durable(self, done: Durable, /) -> None:
        threading.Timer(0.02, done, (None,)).start()


class Counter:
    """Work outside that waits to be let go, in rounds."""

    def __init__(self) -> None:
        self.waiting: list[anyio.Event] = []
        self.came = anyio.Event()

    async def call(self, request: Any, key: str) -> Any:
        event = anyio.Event()
        self.waiting.append(event)
        self.came.set()
        await event.wait()
        return request

    def let_go(self) -> int:
        """Let all go, and return how many."""
        waiting, self.waiting, self.came = self.waiting, [], anyio.Event()
        for event in waiting:
            event.set()
        return len(waiting)


async def ask(counter: Counter, times: int, latency: int = NS) -> None:
    """Perform `times` effects of modelled latency, one after the other."""
    for _ in range(times):
        outcome = await perform(Effect("test", {}, counter.call, latency_ns=latency, safety="pure"))
        assert outcome.kind == "ok"


@both_hosts
@pytest.mark.parametrize("latency", [NS, 0])
def test_idle_means_that_all_which_can_start_is_under_way(backend, latency):
    """The kernel is idle once for each link of the longest chain: all effects that can start have started by then, and
    all outcomes before are on disk, however slow the disk is.
    """
    kernel = Kernel(recorder=SlowDisk())
    host, counter, rounds = Host(kernel), Counter(), []
    for number in range(30):
        kernel.spawn(f"a{number}", ask(counter, 1 + number % 3, latency))

    async def beside() -> None:
        while True:
            await counter.came.wait()
            under_way = await host.idle()
            assert under_way == len(counter.waiting)
            rounds.append(counter.let_go())

    async def main() -> None:
        async with host:
            host.beside(beside)
            await host.run(FOREVER)

    anyio.run(main, backend=backend)
    assert rounds == [30, 20, 10]
    assert kernel.now == 3 * latency


@both_hosts
def test_a_kernel_that_can_continue_is_not_idle(backend):
    """While other actors have something to do before the outcome is due, the host is not idle."""
    kernel = Kernel()
    host, counter, times = Host(kernel), Counter(), []

    async def walk() -> None:
        for _ in range(1000):
            await sleep_ns(NS)

    async def beside() -> None:
        while True:
            await counter.came.wait()
            await host.idle()
            times.append(kernel.now)
            counter.let_go()

    kernel.spawn("asker", ask(counter, 2, 100 * NS))
    kernel.spawn("walker", walk())

    async def main() -> None:
        async with host:
            host.beside(beside)
            await host.run(FOREVER)

    anyio.run(main, backend=backend)
    assert times == [99 * NS, 199 * NS]


@both_hosts
def test_a_paused_run_is_not_idle(backend):
    """While people have paused the run, work beside it is not told to act."""
    kernel = Kernel()
    counter, idle = Counter(), []
    held = True
    host = Host(kernel, held=lambda: held)

    async def beside() -> None:
        await host.idle()
        idle.append(held)
        counter.let_go()

    async def person() -> None:
        nonlocal held
        await anyio.sleep(0.1)
        held = False
        host._notify()

    kernel.spawn("asker", ask(counter, 1, 0))

    async def main() -> None:
        async with host:
            host.beside(beside)
            host.beside(person)
            await host.run(FOREVER)

    anyio.run(main, backend=backend)
    assert idle == [False]


@both_hosts
def test_an_error_beside_ends_the_run(backend):
    """The run fails with the error of the work, also while it waits."""
    kernel = Kernel()
    host, counter = Host(kernel), Counter()

    async def beside() -> None:
        await host.idle()
        raise RuntimeError("boom")

    kernel.spawn("asker", ask(counter, 1))

    async def main() -> None:
        async with host:
            host.beside(beside)
            await host.run(FOREVER)

    with pytest.raises(RuntimeError, match="boom"):
        anyio.run(main, backend=backend)


@both_hosts
def test_work_beside_ends_with_the_host(backend):
    """When the host is left, the work is cancelled and has been cleaned up."""
    kernel = Kernel()
    host, ended = Host(kernel), []

    async def beside() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    async def main() -> None:
        async with host:
            host.beside(beside)
            await host.run(NS)

    anyio.run(main, backend=backend)
    assert ended == [True]
