"""W2: agents in a ring pass messages on. An operation is one message received and passed on.

Once all wait, every tenth gets a first message: the messages go round at one pace, and each has to be waited for.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator
from importlib import import_module
from time import sleep
from typing import Any

from benchmarks.virtual_asyncio import run as run_virtually
from benchmarks.workload import Meter, Workload

W2 = Workload("W2", "messages in a ring", (1_000,), full=(4, 100_000))  # four: a size that Ray can do

TENTH = 10


@W2.peer("floor", needs="collections", speed=2_000_000)
def floor(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Generators resumed in turn, each with a deque as its mailbox."""
    boxes = [deque[int]() for _ in range(agents)]
    waiting = bytearray(agents)
    ready: deque[Any] = deque()
    woken = 0

    def node(here: int) -> Generator[None, None, None]:
        nonlocal woken
        box, there = boxes[here], (here + 1) % agents
        following = boxes[there]
        for _ in range(times):
            if not box:
                waiting[here] = 1
                yield
            following.append(box.popleft())
            woken += 1
            if waiting[there]:
                waiting[there] = 0
                ready.append(nodes[there])

    nodes = [node(number) for number in range(agents)]
    for one in nodes:
        next(one)
    for number in range(0, agents, TENTH):
        boxes[number].append(number)
        waiting[number] = 0
        ready.append(nodes[number])
    meter.begin()
    while ready:
        next(ready.popleft(), None)
    meter.end(woken)


@W2.peer("floor, exact order", needs="collections", speed=700_000)
def floor_exact(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """What the kernel's guarantees need."""
    from benchmarks.exact import Box, Exact, sleep

    kernel = Exact()
    boxes = [Box(kernel) for _ in range(agents)]
    woken = 0

    async def node(here: int) -> None:
        nonlocal woken
        box, following = boxes[here], boxes[(here + 1) % agents]
        for _ in range(times):
            following.put(await box.get())
            woken += 1

    async def starter() -> None:
        await sleep(1)
        for box in boxes[::TENTH]:
            box.put(0)

    for number in range(agents):
        kernel.spawn(number, node(number))
    kernel.spawn(agents, starter())
    kernel.run(0)
    meter.begin()
    kernel.run()
    meter.end(woken)


@W2.peer("sim, queue", speed=600_000)
def sim_queue(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Actors of the kernel with a queue each."""
    from sim.kernel import Kernel, Queue
    from sim.kernel.waits import sleep_ns

    kernel = Kernel(max_deltas=10**9)
    queues = [Queue(kernel, 1_000) for _ in range(agents)]
    woken = 0

    async def node(here: int) -> None:
        nonlocal woken
        queue, following = queues[here], queues[(here + 1) % agents]
        for _ in range(times):
            following.put_nowait(await queue.get())
            woken += 1

    async def starter() -> None:
        await sleep_ns(1)
        for queue in queues[::TENTH]:
            queue.put_nowait(0)

    for number in range(agents):
        kernel.spawn(f"a{number}", node(number))
    kernel.spawn("starter", starter())
    kernel.run(1)
    meter.begin()
    kernel.run()
    meter.end(woken)


@W2.peer("sim, mailbox", speed=300_000)
def sim_mailbox(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same with the mailboxes of agents, and a message record made for each hop."""
    from sim.actors.mailbox import Mailbox
    from sim.kernel import Kernel
    from sim.kernel.codec import Raw
    from sim.kernel.waits import sleep_ns
    from sim.world import Message

    kernel = Kernel(max_deltas=10**9)
    names = [f"a{number}" for number in range(agents)]
    boxes = [Mailbox(kernel, 1_000, "fail") for _ in names]
    data = Raw(b"1")
    woken = 0

    async def node(here: int) -> None:
        nonlocal woken
        there = (here + 1) % agents
        me, to, box, following = names[here], names[there], boxes[here], boxes[there]
        for _ in range(times):
            message = await box.get()
            following.offer(Message(me, to, "ring", message.raw, kernel.now))
            woken += 1

    async def starter() -> None:
        await sleep_ns(1)
        for name, box in zip(names[::TENTH], boxes[::TENTH], strict=True):
            box.offer(Message("starter", name, "ring", data, kernel.now))

    for number, name in enumerate(names):
        kernel.spawn(name, node(number))
    kernel.spawn("starter", starter())
    kernel.run(1)
    meter.begin()
    kernel.run()
    meter.end(woken)


@W2.peer("simpy", needs="simpy", speed=90_000)
def simpy(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """SimPy processes with a store each."""
    env = lib.Environment()
    stores = [lib.Store(env) for _ in range(agents)]
    woken = 0

    def node(here: int) -> Generator[Any, Any, None]:
        nonlocal woken
        store, following = stores[here], stores[(here + 1) % agents]
        for _ in range(times):
            following.put((yield store.get()))
            woken += 1

    def starter() -> Generator[Any, Any, None]:
        yield env.timeout(2)
        for store in stores[::TENTH]:
            store.put(0)

    for number in range(agents):
        env.process(node(number))
    env.process(starter())
    env.run(until=1)
    meter.begin()
    env.run()
    meter.end(woken)


@W2.peer("salabim", needs="salabim", speed=15_000, most=1_000)
def salabim(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """salabim components with a store each."""
    env = lib.Environment(yieldless=False)
    stores = [lib.Store() for _ in range(agents)]
    woken = 0

    class Node(lib.Component):  # type: ignore[misc]  # a class that is known at run time only
        def process(self, here: int) -> Generator[Any, Any, None]:
            nonlocal woken
            store, following = stores[here], stores[(here + 1) % agents]
            for _ in range(times):
                yield self.to_store(following, (yield self.from_store(store)) or self.from_store_item())
                woken += 1

    class Starter(lib.Component):  # type: ignore[misc]  # the same
        def process(self) -> Generator[Any, Any, None]:
            yield self.hold(2)
            for store in stores[::TENTH]:
                yield self.to_store(store, lib.Component())

    for number in range(agents):
        Node(here=number)
    Starter()
    env.run(till=1)
    meter.begin()
    env.run()
    meter.end(woken)


@W2.peer("asyncio", needs="asyncio", speed=150_000)
def asyncio_queues(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """asyncio tasks with a queue each."""
    _queues(meter, agents, times, run_virtually)


@W2.peer("uvloop", needs="uvloop", speed=200_000)
def uvloop_queues(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same on uvloop, in real time: it has no virtual clock, and nothing here needs one."""
    _queues(meter, agents, times, lib.run)


def _queues(meter: Meter, agents: int, times: int, run: Callable[[Any], object]) -> None:
    woken = 0

    async def main() -> None:
        queues = [asyncio.Queue[int]() for _ in range(agents)]

        async def node(here: int) -> None:
            nonlocal woken
            queue, following = queues[here], queues[(here + 1) % agents]
            for _ in range(times):
                following.put_nowait(await queue.get())
                woken += 1

        async with asyncio.TaskGroup() as group:
            for number in range(agents):
                group.create_task(node(number))
            await asyncio.sleep(0)  # behind it all have begun to wait
            meter.begin()
            for queue in queues[::TENTH]:
                queue.put_nowait(0)
        meter.end(woken)

    run(main())


@W2.peer("trio", needs="trio", speed=80_000)
def trio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """trio tasks with a memory channel each."""
    from trio.testing import MockClock

    woken = 0

    async def main() -> None:
        channels = [lib.open_memory_channel(1_000) for _ in range(agents)]

        async def node(here: int) -> None:
            nonlocal woken
            receiver, sender = channels[here][1], channels[(here + 1) % agents][0]
            for _ in range(times):
                sender.send_nowait(await receiver.receive())
                woken += 1

        async with lib.open_nursery() as nursery:
            for number in range(agents):
                nursery.start_soon(node, number)
            await lib.sleep(1)
            meter.begin()
            for sender, _ in channels[::TENTH]:
                sender.send_nowait(0)
        meter.end(woken)

    lib.run(main, clock=MockClock(autojump_threshold=0))


@W2.peer("anyio", needs="anyio", speed=120_000)
def anyio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """anyio tasks over asyncio with a memory stream each."""
    woken = 0

    async def main() -> None:
        streams = [lib.create_memory_object_stream(1_000) for _ in range(agents)]

        async def node(here: int) -> None:
            nonlocal woken
            receiver, sender = streams[here][1], streams[(here + 1) % agents][0]
            for _ in range(times):
                sender.send_nowait(await receiver.receive())
                woken += 1

        async with lib.create_task_group() as group:
            for number in range(agents):
                group.start_soon(node, number)
            await lib.sleep(1)
            meter.begin()
            for sender, _ in streams[::TENTH]:
                sender.send_nowait(0)
        meter.end(woken)
        for sender, receiver in streams:
            sender.close()
            receiver.close()

    run_virtually(main())


@W2.peer("ray", needs="ray", speed=1_000, most=4)
def ray(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Ray actors, a process each; a message is a call for which no actor waits."""

    class Node:
        left = times

        def meet(self, following: Any) -> None:
            self.following = following

        def take(self, item: int) -> None:
            if self.left:
                self.left -= 1
                self.following.take.remote(item)

        def still(self) -> int:
            return self.left

    lib.init(num_cpus=agents, include_dashboard=False, logging_level="error", log_to_driver=False)
    nodes = [lib.remote(num_cpus=1)(Node).remote() for _ in range(agents)]
    lib.get([node.meet.remote(nodes[(here + 1) % agents]) for here, node in enumerate(nodes)])
    meter.begin()
    for node in nodes[::TENTH]:
        node.take.remote(0)
    while any(lib.get([node.still.remote() for node in nodes])):
        sleep(0.01)
    meter.end(agents * times)
    lib.shutdown()


@W2.peer("autogen-core", needs="autogen_core", speed=3_000, most=1_000)
def autogen(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Agents of autogen-core's single-threaded runtime; a message is published to the topic of one agent."""
    woken = 0

    class Node(lib.BaseAgent):  # type: ignore[misc]  # a class that is known at run time only
        left = times

        async def on_message_impl(self, message: Any, ctx: Any) -> None:
            nonlocal woken
            if self.left:
                self.left -= 1
                woken += 1
                there = lib.TopicId("ring", str((int(self.id.key) + 1) % agents))
                await self.publish_message(message, there)

    async def main() -> None:
        runtime = lib.SingleThreadedAgentRuntime()
        await Node.register(runtime, "node", lambda: Node("node"))
        await runtime.add_subscription(lib.TypeSubscription("ring", "node"))
        base_model = import_module("pydantic").create_model("Ball", number=int)
        lib_serialization = import_module("autogen_core._serialization")
        runtime.add_message_serializer(lib_serialization.try_get_known_serializers_for_type(base_model))
        meter.begin()
        for number in range(0, agents, TENTH):
            await runtime.publish_message(base_model(number=number), lib.TopicId("ring", str(number)))
        runtime.start()
        await runtime.stop_when_idle()
        meter.end(woken)

    asyncio.run(main())


@W2.peer("pykka", needs="pykka", speed=6_000, most=1_000)
def pykka(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """pykka actors, a thread each."""
    done = threading.Event()
    nodes: list[Any] = []
    finished = deque[int]()

    class Node(lib.ThreadingActor):  # type: ignore[misc]  # a class that is known at run time only
        def __init__(self, here: int) -> None:
            super().__init__()
            self.there = (here + 1) % agents
            self.left = times

        def on_receive(self, message: Any) -> None:
            if self.left:
                self.left -= 1
                nodes[self.there].tell(message)
                if not self.left:
                    finished.append(times)
                    if len(finished) == agents:
                        done.set()

    nodes += [Node.start(number) for number in range(agents)]
    meter.begin()
    for number in range(0, agents, TENTH):
        nodes[number].tell(number)
    done.wait()
    meter.end(sum(finished))
    lib.ActorRegistry.stop_all()
