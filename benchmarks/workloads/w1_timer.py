"""W1: every agent sleeps for spans of its own. An operation is one wake-up."""

import asyncio
import types
from collections.abc import Generator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from benchmarks.virtual_asyncio import run as run_virtually
from benchmarks.workload import BEFORE, MASK, MULTIPLIER, NS, SHORTEST, SPREAD, Meter, Workload

W1 = Workload("W1", "timer wake-ups", (1_000, 10_000, 100_000), full=(1_000_000,))


@types.coroutine
def _yield(delay: int) -> Generator[int, None, None]:
    yield delay


async def _sleeper(state: int, times: int) -> None:
    for _ in range(times):
        state = state * MULTIPLIER + 1 & MASK
        await _yield(SHORTEST + state % SPREAD)


@W1.peer("floor, buckets", needs="heapq", speed=600_000)
def floor_buckets(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The least that CPython needs: coroutines in buckets, each sorted on first use; the width is set by hand."""
    shift = min(28, (SPREAD * 64 // agents).bit_length())
    coros = [_sleeper(seed, times) for seed in range(agents)]
    number = count()
    buckets: dict[int, list[tuple[int, int, Any]]] = {}
    for coro in coros:
        time = coro.send(None)
        buckets.setdefault(time >> shift, []).append((time, next(number), coro))
    turns = list(buckets)
    heapify(turns)
    woken = 0
    meter.begin()
    while turns:
        bucket = buckets.pop(heappop(turns))
        bucket.sort()
        for time, _, coro in bucket:
            woken += 1
            try:
                due = time + coro.send(None)
            except StopIteration:
                continue
            turn = due >> shift
            if turn in buckets:
                buckets[turn].append((due, next(number), coro))
            else:
                buckets[turn] = [(due, next(number), coro)]
                heappush(turns, turn)
    meter.end(woken)


@W1.peer("floor, heap", needs="heapq", speed=350_000)
def floor_heap(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same with one heap of tuples."""
    coros = [_sleeper(seed, times) for seed in range(agents)]
    number = count()
    heap = [(coro.send(None), next(number), coro) for coro in coros]
    heapify(heap)
    woken = 0
    meter.begin()
    while heap:
        time, _, coro = heappop(heap)
        woken += 1
        try:
            heappush(heap, (time + coro.send(None), next(number), coro))
        except StopIteration:
            continue
    meter.end(woken)


@W1.peer("floor, exact order", needs="heapq", speed=500_000)
def floor_exact(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """What the kernel's guarantees need; the width is set by hand."""
    from benchmarks.exact import Exact, sleep

    kernel = Exact(min(28, (SPREAD * 64 // agents).bit_length()))
    woken = 0

    async def sleeper(state: int) -> None:
        nonlocal woken
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            await sleep(SHORTEST + state % SPREAD)
            woken += 1

    for seed in range(agents):
        kernel.spawn(seed, sleeper(seed))
    kernel.run(1)
    meter.begin()
    kernel.run()
    meter.end(woken)


@W1.peer("sim", speed=400_000)
def sim(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Actors of the kernel."""
    from sim.kernel import Kernel
    from sim.kernel.waits import sleep_ns

    kernel = Kernel()
    woken = 0

    async def sleeper(state: int) -> None:
        nonlocal woken
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            await sleep_ns(SHORTEST + state % SPREAD)
            woken += 1

    for seed in range(agents):
        kernel.spawn(f"a{seed}", sleeper(seed))
    kernel.run(BEFORE)
    meter.begin()
    kernel.run()
    meter.end(woken)


@W1.peer("simpy", needs="simpy", speed=200_000)
def simpy(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """SimPy processes."""
    env = lib.Environment()
    woken = 0

    def sleeper(state: int) -> Generator[Any, Any, None]:
        nonlocal woken
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            yield env.timeout(SHORTEST + state % SPREAD)
            woken += 1

    for seed in range(agents):
        env.process(sleeper(seed))
    env.run(until=BEFORE)
    meter.begin()
    env.run()
    meter.end(woken)


@W1.peer("salabim", needs="salabim", speed=100_000, most=10_000)
def salabim(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """salabim components, with `yield`."""
    env = lib.Environment(yieldless=False)
    woken = 0

    class Sleeper(lib.Component):  # type: ignore[misc]  # a class that is known at run time only
        def process(self, state: int) -> Generator[Any, Any, None]:
            nonlocal woken
            for _ in range(times):
                state = state * MULTIPLIER + 1 & MASK
                yield self.hold(SHORTEST + state % SPREAD)
                woken += 1

    for seed in range(agents):
        Sleeper(state=seed)
    env.run(till=BEFORE)
    meter.begin()
    env.run()
    meter.end(woken)


@W1.peer("mesa", needs="mesa.experimental.devs", speed=60_000)
def mesa(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Events of Mesa's discrete-event simulator; each one schedules the next."""
    from importlib import import_module

    simulator = lib.DEVSimulator()
    simulator.setup(import_module("mesa").Model())
    woken = 0

    class Sleeper:
        def __init__(self, state: int) -> None:
            self.state = state
            self.left = times
            self.sleep()

        def sleep(self) -> None:
            self.state = self.state * MULTIPLIER + 1 & MASK
            simulator.schedule_event_relative(self.wake, (SHORTEST + self.state % SPREAD) / NS)

        def wake(self) -> None:
            nonlocal woken
            woken += 1
            self.left -= 1
            if self.left:
                self.sleep()

    sleepers = [Sleeper(seed) for seed in range(agents)]  # kept: the simulator holds them weakly
    meter.begin()
    simulator.run_until(2.0 * times)
    meter.end(woken)
    assert len(sleepers) == agents


@W1.peer("asyncio", needs="asyncio", speed=50_000)
def asyncio_tasks(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """asyncio tasks with a virtual clock."""
    woken = 0

    async def sleeper(state: int) -> None:
        nonlocal woken
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            await asyncio.sleep((SHORTEST + state % SPREAD) / NS)
            woken += 1

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for seed in range(agents):
                group.create_task(sleeper(seed))
            await asyncio.sleep(BEFORE / NS)
            meter.begin()
        meter.end(woken)

    run_virtually(main())


@W1.peer("trio", needs="trio", speed=10_000)
def trio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """trio tasks with the clock that jumps."""
    from trio.testing import MockClock

    woken = 0

    async def sleeper(state: int) -> None:
        nonlocal woken
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            await lib.sleep((SHORTEST + state % SPREAD) / NS)
            woken += 1

    async def main() -> None:
        async with lib.open_nursery() as nursery:
            for seed in range(agents):
                nursery.start_soon(sleeper, seed)
            await lib.sleep(BEFORE / NS)
            meter.begin()
        meter.end(woken)

    lib.run(main, clock=MockClock(autojump_threshold=0))


@W1.peer("anyio", needs="anyio", speed=35_000)
def anyio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """anyio tasks over asyncio with a virtual clock."""
    woken = 0

    async def sleeper(state: int) -> None:
        nonlocal woken
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            await lib.sleep((SHORTEST + state % SPREAD) / NS)
            woken += 1

    async def main() -> None:
        async with lib.create_task_group() as group:
            for seed in range(agents):
                group.start_soon(sleeper, seed)
            await lib.sleep(BEFORE / NS)
            meter.begin()
        meter.end(woken)

    run_virtually(main())
