"""W5: agents stand in line for a tenth as many slots. An operation: wait for a slot, hold it a while, release it."""

import asyncio
from collections import deque
from collections.abc import Generator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from benchmarks.virtual_asyncio import run as run_virtually
from benchmarks.workload import MASK, MULTIPLIER, NS, SHORTEST, SPREAD, Meter, Workload

W5 = Workload("W5", "slots held, one for ten agents", (1_000,), full=(10_000,))

SHARE = 10


@W5.peer("floor", needs="heapq", speed=450_000)
def floor(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A heap of generators that hold a slot, and a deque of those in line."""
    line: deque[Any] = deque()
    heap: list[tuple[int, int, Any]] = []
    number = count()
    free = agents // SHARE
    held = 0

    def user(state: int) -> Generator[int, None, None]:
        nonlocal held
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            yield SHORTEST + state % SPREAD
            held += 1

    line.extend(user(seed) for seed in range(agents))
    meter.begin()
    now = 0
    while line or heap:
        while free and line:
            one = line.popleft()
            delay = next(one, None)
            if delay is not None:
                free -= 1
                heappush(heap, (now + delay, next(number), one))
        if heap:
            now, _, one = heappop(heap)
            free += 1
            line.append(one)
    meter.end(held)


@W5.peer("floor, exact order", needs="heapq", speed=400_000)
def floor_exact(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """What the kernel's guarantees need."""
    from benchmarks.exact import Exact, Slots, sleep

    kernel = Exact()
    slots = Slots(kernel, agents // SHARE)
    held = 0

    async def user(state: int) -> None:
        nonlocal held
        await sleep(1)
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            await slots.acquire()
            await sleep(SHORTEST + state % SPREAD)
            slots.release()
            held += 1

    for seed in range(agents):
        kernel.spawn(seed, user(seed))
    kernel.run(0)
    meter.begin()
    kernel.run()
    meter.end(held)


@W5.peer("sim", speed=200_000)
def sim(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """`Resource`."""
    from sim.kernel import Kernel
    from sim.kernel.waits import sleep_ns
    from sim.resources import Resource

    kernel = Kernel()
    slots = Resource(kernel, agents // SHARE)
    held = 0

    async def user(state: int) -> None:
        nonlocal held
        await sleep_ns(1)
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            await slots.acquire()
            await sleep_ns(SHORTEST + state % SPREAD)
            slots.release()
            held += 1

    for seed in range(agents):
        kernel.spawn(f"a{seed}", user(seed))
    kernel.run(1)
    meter.begin()
    kernel.run()
    meter.end(held)


@W5.peer("simpy", needs="simpy", speed=55_000)
def simpy(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """SimPy's `Resource`."""
    env = lib.Environment()
    slots = lib.Resource(env, agents // SHARE)
    held = 0

    def user(state: int) -> Generator[Any, Any, None]:
        nonlocal held
        yield env.timeout(2)
        for _ in range(times):
            state = state * MULTIPLIER + 1 & MASK
            with slots.request() as request:
                yield request
                yield env.timeout(SHORTEST + state % SPREAD)
            held += 1

    for seed in range(agents):
        env.process(user(seed))
    env.run(until=1)
    meter.begin()
    env.run()
    meter.end(held)


@W5.peer("salabim", needs="salabim", speed=14_000, most=1_000)
def salabim(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """salabim's `Resource`."""
    env = lib.Environment(yieldless=False)
    slots = lib.Resource(capacity=agents // SHARE)
    held = 0

    class User(lib.Component):  # type: ignore[misc]  # a class that is known at run time only
        def process(self, state: int) -> Generator[Any, Any, None]:
            nonlocal held
            yield self.hold(2)
            for _ in range(times):
                state = state * MULTIPLIER + 1 & MASK
                yield self.request(slots)
                yield self.hold(SHORTEST + state % SPREAD)
                self.release(slots)
                held += 1

    for seed in range(agents):
        User(state=seed)
    env.run(till=1)
    meter.begin()
    env.run()
    meter.end(held)


@W5.peer("asyncio", needs="asyncio", speed=40_000)
def asyncio_semaphore(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """asyncio's `Semaphore`."""
    held = 0

    async def main() -> None:
        slots = asyncio.Semaphore(agents // SHARE)

        async def user(state: int) -> None:
            nonlocal held
            await asyncio.sleep(2)
            for _ in range(times):
                state = state * MULTIPLIER + 1 & MASK
                async with slots:
                    await asyncio.sleep((SHORTEST + state % SPREAD) / NS)
                held += 1

        async with asyncio.TaskGroup() as group:
            for seed in range(agents):
                group.create_task(user(seed))
            await asyncio.sleep(1)
            meter.begin()
        meter.end(held)

    run_virtually(main())


@W5.peer("trio", needs="trio", speed=9_000)
def trio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """trio's `CapacityLimiter`."""
    from trio.testing import MockClock

    held = 0

    async def main() -> None:
        slots = lib.CapacityLimiter(agents // SHARE)

        async def user(state: int) -> None:
            nonlocal held
            await lib.sleep(2)
            for _ in range(times):
                state = state * MULTIPLIER + 1 & MASK
                async with slots:
                    await lib.sleep((SHORTEST + state % SPREAD) / NS)
                held += 1

        async with lib.open_nursery() as nursery:
            for seed in range(agents):
                nursery.start_soon(user, seed)
            await lib.sleep(1)
            meter.begin()
        meter.end(held)

    lib.run(main, clock=MockClock(autojump_threshold=0))
