"""The event loop of the host is hidden from agents, and no text that they cause has an address."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import sniffio
import trio
import trio.lowlevel

import sim
from sim.base.errors import ForeignAwaitError
from sim.base.text import of_error
from sim.runner.options import Backend
from tests.actors.helpers import Lab, Script


async def asyncio_timeout() -> None:
    """Bound a wait by asyncio."""
    async with asyncio.timeout(1):
        await sim.sleep(5)


async def scope(kind: Callable[[float], Any]) -> None:
    """Bound a wait by a cancel scope."""
    with kind(1):
        await sim.sleep(5)


async def bare() -> None:
    """Await what no library knows."""

    class Foreign:
        def __await__(self) -> Any:
            yield self

    await Foreign()


async def task() -> None:
    """Start a task of asyncio."""
    coro = asyncio_timeout()
    try:
        asyncio.create_task(coro)  # noqa: RUF006 - it cannot be made
    finally:
        coro.close()


async def nursery() -> None:
    """Open a nursery of trio."""
    async with trio.open_nursery():
        await sim.sleep(1)


async def nested_loop() -> None:
    """Start another event loop in the thread of the host."""
    anyio.run(anyio.lowlevel.checkpoint)


async def lock() -> None:
    """Take a lock of anyio."""
    async with anyio.Lock():
        await sim.sleep(1)


FOREIGN: dict[str, Callable[[], Any]] = {
    "asyncio.sleep": lambda: asyncio.sleep(1),
    "asyncio.sleep(0)": lambda: asyncio.sleep(0),
    "asyncio.timeout": asyncio_timeout,
    "asyncio.create_task": task,
    "trio.sleep": lambda: trio.sleep(1),  # noqa: ASYNC105 - it is awaited by the agent
    "trio.sleep(0)": lambda: trio.lowlevel.checkpoint(),  # noqa: ASYNC105
    "trio.move_on_after": lambda: scope(trio.move_on_after),
    "trio.checkpoint": lambda: trio.lowlevel.checkpoint(),  # noqa: ASYNC105
    "anyio.sleep": lambda: anyio.sleep(1),
    "anyio.move_on_after": lambda: scope(anyio.move_on_after),
    "anyio.fail_after": lambda: scope(anyio.fail_after),
    "anyio.Lock": lock,
    "anyio.run": nested_loop,
    "trio.open_nursery": nursery,
    "another library": bare,
}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", FOREIGN)
def test_no_agent_finds_the_loop_of_the_host(name, backend):
    """Whatever two agents await of asyncio, trio or anyio fails in the same step, with the line, and harms no other."""
    lab = Lab()
    steps: list[tuple[int, int]] = []

    async def step(agent: Script) -> None:
        before = lab.kernel.now, lab.kernel.delta
        try:
            await FOREIGN[name]()
        finally:
            steps.append((lab.kernel.now - before[0], lab.kernel.delta - before[1]))

    loops = [lab.add(each, step, min_loop_delay=1, started=True) for each in "ab"]
    good = lab.add("good", min_loop_delay=1, started=True)

    async def effect(request: Any, key: str) -> str:
        await anyio.sleep(0.001)  # in real time, at the edge, where the loop is
        return sniffio.current_async_library()

    async def main() -> Any:
        await sim.sleep(20)
        return (await sim.perform(sim.Effect("call", None, effect))).value

    assert lab.main(main(), backend) == backend
    assert steps
    assert set(steps) == {(0, 0)}
    assert [loop.failures for loop in loops] == [loop.iteration_count for loop in loops]
    assert good.failures == 0
    assert all(re.match(r"ForeignAwaitError: test_surroundings.py:\d+ waits by", text) for text in lab.world.errors)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_process_that_awaits_the_host_names_itself(backend):
    """A plain process ends the run, and the error has its name and the line."""

    async def main() -> None:
        world = sim.World()
        world.spawn("clerk", asyncio.sleep(1))
        await world.run(until=5)

    with pytest.raises(ForeignAwaitError, match=r"clerk awaited asyncio or trio, .* at the agent"):
        anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_loop_is_there_again_after_the_run_and_beside_it(backend):
    """Between two runs, and in tasks beside a run, the host finds its own loop, also after an error of an agent."""
    seen: list[str] = []

    async def beside() -> None:
        for _ in range(3):
            await anyio.sleep(0.001)
            seen.append(sniffio.current_async_library())

    async def fail() -> None:
        await sim.sleep(2)
        raise LookupError

    async def main() -> None:
        world = sim.World()
        async with anyio.create_task_group() as group:
            group.start_soon(beside)
            world.spawn("fails", fail())
            await world.run(until=1)
            with pytest.raises(LookupError):
                await world.run(until=3)
            await anyio.lowlevel.checkpoint()
            seen.append(sniffio.current_async_library())

    anyio.run(main, backend=backend)
    assert seen == [backend] * 4


class Named:
    """Something without a text of its own."""


def test_no_recorded_error_has_an_address(tmp_path):
    """Addresses of objects differ in each process, so they are left out of recorded texts: the hash stays the same."""

    class Bad(sim.Agent):
        async def decide_action(self) -> sim.Action | None:
            if self.loop.iteration_count == 1:
                raise KeyError(Named())
            if self.loop.iteration_count == 2:
                raise sim.UsageError(f"no {Named()!r} and no {print!r} here")
            return sim.Action("note", {"text": "x"})

    (tmp_path / "a.yaml").write_text("name: a\nuntil: 9s\nagents: [{name: a, kind: bad}]\n")
    backends: tuple[Backend, ...] = ("asyncio", "trio")
    results = [sim.run(tmp_path / "a.yaml", kinds={"bad": Bad}, out=tmp_path / each, backend=each) for each in backends]
    assert results[0].hash == results[1].hash
    assert " at 0x" not in of_error(ValueError(f"{Named()!r} is odd"))
    assert of_error(ValueError("<Desk object at 0x7f05d1c843c0>")) == "ValueError: <Desk object>"
