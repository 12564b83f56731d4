"""W4: the resident memory of one sleeping agent, in a fresh process. W4A: of a full agent with its loop.

Of everybody: what a peer's module takes is not counted, for it is loaded before.
"""

import asyncio
from collections.abc import Generator
from typing import Any

from benchmarks.virtual_asyncio import run as run_virtually
from benchmarks.workload import Meter, Workload
from benchmarks.workloads.w1_timer import _yield

W4 = Workload("W4", "memory of a sleeping actor", (100_000,), unit="bytes")
W4A = Workload("W4A", "memory of a full agent with its loop", (20_000,), unit="bytes")

HOUR = 3_600


@W4.peer("floor", needs="collections")
def floor(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Coroutines in a list of tuples."""

    async def sleeper(number: int) -> None:
        await _yield(HOUR)

    coros = [sleeper(number) for number in range(agents)]
    due = [(coro.send(None) + number, number, coro) for number, coro in enumerate(coros)]
    del coros
    meter.weigh(agents)
    for _, _, coro in due:
        coro.close()


@W4.peer("sim", needs="sim.kernel.waits")
def sim(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Actors of the kernel that sleep for an hour."""
    from sim.kernel import Kernel
    from sim.kernel.waits import sleep_ns

    kernel = Kernel()

    async def sleeper(number: int) -> None:
        await sleep_ns(HOUR * 10**9 + number)

    for number in range(agents):
        kernel.spawn(f"a{number}", sleeper(number))
    kernel.run(1)
    meter.weigh(agents)


@W4.peer("simpy", needs="simpy")
def simpy(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """SimPy processes."""
    env = lib.Environment()

    def sleeper(number: int) -> Generator[Any, Any, None]:
        yield env.timeout(HOUR * 10**9 + number)

    for number in range(agents):
        env.process(sleeper(number))
    env.run(until=1)
    meter.weigh(agents)


@W4.peer("mesa", needs="mesa.experimental.devs")
def mesa(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """One event of Mesa's simulator for each agent."""
    from importlib import import_module

    simulator = lib.DEVSimulator()
    simulator.setup(import_module("mesa").Model())

    class Sleeper:
        def __init__(self, number: int) -> None:
            simulator.schedule_event_relative(self.wake, HOUR + number)

        def wake(self) -> None:
            pass

    sleepers = [Sleeper(number) for number in range(agents)]
    meter.weigh(len(sleepers))


@W4.peer("asyncio", needs="asyncio")
def asyncio_tasks(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """asyncio tasks."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(agents):
                group.create_task(asyncio.sleep(HOUR + number / 1e9))
            await asyncio.sleep(1)
            meter.weigh(agents)

    run_virtually(main())


@W4.peer("trio", needs="trio")
def trio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """trio tasks."""
    from trio.testing import MockClock

    async def main() -> None:
        async with lib.open_nursery() as nursery:
            for number in range(agents):
                nursery.start_soon(lib.sleep, HOUR + number / 1e9)
            await lib.sleep(1)
            meter.weigh(agents)
            nursery.cancel_scope.cancel()

    lib.run(main, clock=MockClock(autojump_threshold=0))


@W4.peer("anyio", needs="anyio")
def anyio(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """anyio tasks over asyncio."""

    async def main() -> None:
        async with lib.create_task_group() as group:
            for number in range(agents):
                group.start_soon(lib.sleep, HOUR + number / 1e9)
            await lib.sleep(1)
            meter.weigh(agents)
            group.cancel_scope.cancel()

    run_virtually(main())


@W4A.peer("sim, between iterations", needs="sim.actors")
def sim_agent(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Agents with a loop each that have done one action (nothing) and wait for their next iteration."""
    _agents(meter, agents, lambda world: world.kernel.run(1))


@W4A.peer("sim, asleep until an event", needs="sim.actors")
def sim_agent_asleep(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same, asleep until an event or a timeout."""
    from sim.actors import WakeCondition

    condition = WakeCondition.event("bell.rang", timeout=3600)

    def lie_down(world: Any) -> None:
        world.kernel.run(1)
        with world.kernel.acting_as(world.kernel.supervisor):
            for agent in world.agents.values():
                agent.loop.sleep(condition)

    _agents(meter, agents, lie_down)


def _agents(meter: Meter, agents: int, settle: Any) -> None:
    from sim.actors import Agent, AgentLoopConfig, AgentLoopManager
    from sim.world import NOOP, Action, World

    class Idler(Agent):
        async def decide_action(self) -> Action:
            return NOOP

    world = World()
    manager = AgentLoopManager(world)
    config = AgentLoopConfig(min_loop_delay=HOUR, max_loop_delay=HOUR)
    for number in range(agents):
        manager.create_loop(Idler(f"a{number}", world), config).start_now()
    settle(world)
    meter.weigh(agents)
