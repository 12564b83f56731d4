"""W3: events reach all subscribers of their topic. An operation is one event received by one subscriber.

Ten topics; each subscriber waits for one of them; the publisher goes through the topics, one event a millisecond.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from benchmarks.virtual_asyncio import run as run_virtually
from benchmarks.workload import Meter, Workload

W3 = Workload("W3", "events delivered, 10 topics", (1_000,))

TOPICS = 10


@W3.peer("floor", needs="collections", speed=2_500_000)
def floor(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Generators resumed with the event, in turn."""
    got = 0

    def subscriber() -> Generator[None, int, None]:
        nonlocal got
        while True:
            yield
            got += 1

    topics = [[subscriber() for _ in range(topic, agents, TOPICS)] for topic in range(TOPICS)]
    for topic in topics:
        for one in topic:
            next(one)
    meter.begin()
    for number in range(times):
        for topic in topics:
            for one in topic:
                one.send(number)
    meter.end(got)


@W3.peer("floor, exact order", needs="collections", speed=900_000)
def floor_exact(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """What the kernel's guarantees need."""
    from benchmarks.exact import Bell, Exact, sleep

    kernel = Exact()
    bells = [Bell(kernel) for _ in range(TOPICS)]
    got = 0

    async def subscriber(bell: Bell) -> None:
        nonlocal got
        while True:
            await bell.wait()
            got += 1

    async def publisher() -> None:
        await sleep(1)
        for number in range(times):
            for bell in bells:
                bell.ring(number)
                await sleep(1_000_000)

    for number in range(agents):
        kernel.spawn(number, subscriber(bells[number % TOPICS]))
    kernel.spawn(agents, publisher())
    kernel.run(0)
    meter.begin()
    kernel.run()
    meter.end(got)


@W3.peer("sim, event bus", speed=300_000)
def sim_bus(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Subscriptions to the event bus, a bounded queue each."""
    from sim.events import EventBus
    from sim.kernel import Kernel
    from sim.kernel.waits import sleep_ns

    kernel = Kernel()
    bus = EventBus(kernel)
    got = 0

    async def subscriber(topic: str) -> None:
        nonlocal got
        subscription = bus.subscribe(topic)
        while True:
            await subscription.get()
            got += 1

    async def publisher() -> None:
        await sleep_ns(1)
        for number in range(times):
            for topic in topics:
                bus.publish(topic, number)
                await sleep_ns(1_000_000)

    topics = [f"topic.t{number}" for number in range(TOPICS)]
    for number in range(agents):
        kernel.spawn(f"a{number}", subscriber(topics[number % TOPICS]))
    kernel.spawn("publisher", publisher())
    kernel.run(1)
    meter.begin()
    kernel.run()
    meter.end(got)


@W3.peer("sim, signal", speed=600_000)
def sim_signal(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A signal of the kernel for each topic: nothing is kept, as with SimPy's shared event."""
    from sim.kernel import Kernel, Signal
    from sim.kernel.waits import sleep_ns

    kernel = Kernel()
    signals = [Signal(kernel) for _ in range(TOPICS)]
    got = 0

    async def subscriber(signal: Signal) -> None:
        nonlocal got
        while True:
            await signal.wait()
            got += 1

    async def publisher() -> None:
        await sleep_ns(1)
        for number in range(times):
            for signal in signals:
                signal.fire(number)
                await sleep_ns(1_000_000)

    for number in range(agents):
        kernel.spawn(f"a{number}", subscriber(signals[number % TOPICS]))
    kernel.spawn("publisher", publisher())
    kernel.run(1)
    meter.begin()
    kernel.run()
    meter.end(got)


@W3.peer("simpy", needs="simpy", speed=1_200_000)
def simpy(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """SimPy's shared event: all who wait are resumed by one event; nothing is kept for who comes late."""
    env = lib.Environment()
    shared = [env.event() for _ in range(TOPICS)]
    got = 0

    def subscriber(topic: int) -> Generator[Any, Any, None]:
        nonlocal got
        while True:
            yield shared[topic]
            got += 1

    def publisher() -> Generator[Any, Any, None]:
        yield env.timeout(2)
        for number in range(times):
            for topic in range(TOPICS):
                event, shared[topic] = shared[topic], env.event()
                event.succeed(number)
                yield env.timeout(1_000_000)

    for number in range(agents):
        env.process(subscriber(number % TOPICS))
    env.process(publisher())
    env.run(until=1)
    meter.begin()
    env.run()
    meter.end(got)


@W3.peer("simpy, stores", needs="simpy", speed=90_000)
def simpy_stores(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A SimPy store for each subscriber, so that nothing is lost."""
    env = lib.Environment()
    stores = [lib.Store(env) for _ in range(agents)]
    got = 0

    def subscriber(store: Any) -> Generator[Any, Any, None]:
        nonlocal got
        while True:
            yield store.get()
            got += 1

    def publisher() -> Generator[Any, Any, None]:
        yield env.timeout(2)
        for number in range(times):
            for topic in range(TOPICS):
                for store in stores[topic::TOPICS]:
                    store.put(number)
                yield env.timeout(1_000_000)

    for store in stores:
        env.process(subscriber(store))
    env.process(publisher())
    env.run(until=1)
    meter.begin()
    env.run()
    meter.end(got)


@W3.peer("asyncio", needs="asyncio", speed=140_000)
def asyncio_queues(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """An asyncio queue for each subscriber."""
    _queues(meter, agents, times, run_virtually, 0.001)


@W3.peer("uvloop", needs="uvloop", speed=170_000)
def uvloop_queues(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same on uvloop, in real time: the publisher continues at once."""
    _queues(meter, agents, times, lib.run, 0)


def _queues(meter: Meter, agents: int, times: int, run: Callable[[Any], object], pause: float) -> None:
    got = 0

    async def subscriber(queue: asyncio.Queue[int]) -> None:
        nonlocal got
        for _ in range(times):
            await queue.get()
            got += 1

    async def main() -> None:
        queues = [asyncio.Queue[int]() for _ in range(agents)]
        async with asyncio.TaskGroup() as group:
            for queue in queues:
                group.create_task(subscriber(queue))
            await asyncio.sleep(0)  # behind it all have begun to wait
            meter.begin()
            for number in range(times):
                for topic in range(TOPICS):
                    for queue in queues[topic::TOPICS]:
                        queue.put_nowait(number)
                    await asyncio.sleep(pause)
        meter.end(got)

    run(main())


@W3.peer("trio", needs="trio", speed=70_000)
def trio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A trio memory channel for each subscriber."""
    from trio.testing import MockClock

    got = 0

    async def subscriber(receiver: Any) -> None:
        nonlocal got
        for _ in range(times):
            await receiver.receive()
            got += 1

    async def main() -> None:
        channels = [lib.open_memory_channel(1_000) for _ in range(agents)]
        async with lib.open_nursery() as nursery:
            for _, receiver in channels:
                nursery.start_soon(subscriber, receiver)
            await lib.sleep(1)
            meter.begin()
            for number in range(times):
                for topic in range(TOPICS):
                    for sender, _ in channels[topic::TOPICS]:
                        sender.send_nowait(number)
                    await lib.sleep(0.001)
        meter.end(got)

    lib.run(main, clock=MockClock(autojump_threshold=0))
