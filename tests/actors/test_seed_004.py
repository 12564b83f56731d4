"""The table of tests of the seed document on autonomous loops, each under its own name, as a host program is written.

Each test is a coroutine function that asyncio or trio runs: it makes a world, starts loops, lets the world run, and
calls the loops, the manager and the agents between two runs and beside a run, with nothing of the kernel.
"""

import asyncio
import functools
import inspect
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import sim
from sim.kernel import NS
from sim.resources import Limit, Rate

Decide = Callable[["Clerk"], sim.Action | None]
CALL = sim.Action("noop")


class Clerk(sim.Agent):
    """An agent whose decisions are a function of the test; it notes when it decided."""

    def __init__(self, agent_id: str, world: sim.World, decide: Decide) -> None:
        super().__init__(agent_id, world)
        self.decide = decide
        self.times: list[float] = []
        self.ended = 0

    async def decide_action(self) -> sim.Action | None:
        self.times.append(round(self.world.now, 9))
        return self.decide(self)

    def on_stop(self) -> None:
        self.ended += 1


def always(agent: Clerk) -> sim.Action:
    """Act in every iteration."""
    return CALL


def failing(agent: Clerk) -> sim.Action | None:
    """Raise in every iteration."""
    raise ValueError("no luck")


def ends_at_third(agent: Clerk) -> sim.Action | None:
    """Shut down in the third iteration."""
    if len(agent.times) == 3:
        agent.shutdown()
    return CALL


@asynccontextmanager
async def hosted(
    decide: Decide = always, count: int = 1, **config: float
) -> AsyncIterator[tuple[sim.World, sim.AgentLoopManager, list[sim.AgentLoop]]]:
    """Yield a world with a manager and the loops of some agents, which are not started."""
    async with sim.World(seed=1) as world:
        manager = sim.AgentLoopManager(world)
        loops = [
            manager.create_loop(Clerk(f"a{n}", world, decide), sim.AgentLoopConfig(**config))  # type: ignore[arg-type]
            for n in range(count)
        ]
        yield world, manager, loops


def clerk(loop: sim.AgentLoop) -> Clerk:
    """Return the agent of a loop."""
    assert isinstance(loop.agent, Clerk)
    return loop.agent


async def beside(world: sim.World, act: Callable[[], Awaitable[object]], until: float = 1e9) -> None:
    """Let a world run in another task, and act once the run is under way."""
    before = world.now
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, until)
        while world.now == before:
            await anyio.lowlevel.checkpoint()
        await act()
        group.cancel_scope.cancel()


class HostTests:
    """The tests of the seed."""

    async def test_loop_starts(self) -> None:
        """A loop that is started goes STOPPED, STARTING, RUNNING, and iterates."""
        async with hosted() as (world, _, (loop,)):
            assert (str(loop.state), loop.is_running) == ("stopped", False)
            await loop.start()
            assert str(loop.state) == "starting"
            await world.run(until=1)
            assert (loop.state, loop.is_running) == (sim.AgentState.RUNNING, True)
            assert loop.iteration_count == 10

    async def test_a_second_start_warns(self, caplog: pytest.LogCaptureFixture) -> None:
        """A second start changes nothing and logs a warning, before a run, between two runs and beside one."""
        async with hosted() as (world, _, (loop,)):
            with caplog.at_level(logging.WARNING, "sim"):
                await loop.start()
                await loop.start()
                await world.run(until=1)
                await loop.start()
                await beside(world, loop.start)
            assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
            assert "already" in caplog.text
            assert clerk(loop).times[:3] == [0, 0.1, 0.2]

    async def test_loop_stops(self) -> None:
        """`await loop.stop()` ends the loop as STOPPED, between two runs and beside one; the agent is told once."""
        async with hosted(count=2) as (world, manager, loops):
            await manager.start_all()
            await world.run(until=0.35)
            await loops[0].stop()
            assert loops[0].state is sim.AgentState.STOPPED
            assert clerk(loops[0]).times == [0, 0.1, 0.2, 0.3]
            await beside(world, loops[1].stop)
            assert loops[1].state is sim.AgentState.STOPPED
            assert [clerk(loop).ended for loop in loops] == [1, 1]
            assert await loops[0].join() == "stop"
            await loops[0].start()
            assert loops[0].is_running

    async def test_loop_pauses_no_resources(self) -> None:
        """An agent without capacity is PAUSED for resources and does not decide."""
        async with hosted() as (world, _, (loop,)):
            world.rate_tracker.set_limit("bandwidth", Limit(agent=Rate(2, 60 * NS)))
            world.rate_tracker.consume("a0", "bandwidth", 2)
            await loop.start()
            await world.run(until=30)
            assert (loop.state, loop.pause_reason) == (sim.AgentState.PAUSED, sim.PauseReason.RESOURCES)
            assert (loop.iteration_count, loop.failures) == (0, 0)

    async def test_loop_resumes_resources(self) -> None:
        """When capacity is back, the agent is RUNNING again, at that very time."""
        async with hosted() as (world, _, (loop,)):
            world.rate_tracker.set_limit("bandwidth", Limit(agent=Rate(2, 60 * NS)))
            world.rate_tracker.consume("a0", "bandwidth", 2)
            await loop.start()
            await world.run(until=60.05)
            assert loop.state is sim.AgentState.RUNNING
            assert clerk(loop).times == [60]

    async def test_loop_sleeps(self) -> None:
        """`loop.sleep` needs no `await`: the agent is SLEEPING at once between two runs, and soon beside one."""
        async with hosted(count=2) as (world, manager, loops):
            await manager.start_all()
            await world.run(until=0.05)
            loops[0].sleep(sim.WakeCondition("event", "never"))
            assert loops[0].state is sim.AgentState.SLEEPING

            async def sleeps() -> None:
                await loops[1].sleep(sim.WakeCondition("event", "never"))
                assert loops[1].state is sim.AgentState.SLEEPING

            await beside(world, sleeps)
            assert clerk(loops[0]).times == [0]

    async def test_loop_wakes_time(self) -> None:
        """A condition on time wakes exactly then, and `loop.wake` at once."""
        async with hosted(count=2) as (world, manager, loops):
            await manager.start_all()
            await world.run(until=0.05)
            for loop in loops:
                loop.sleep(sim.WakeCondition("time", 7.5))
            await world.run(until=2)
            loops[1].wake()
            assert [str(loop.state) for loop in loops] == ["sleeping", "running"]
            await world.run(until=7.55)
            assert clerk(loops[0]).times == [0, 7.5]
            assert clerk(loops[1]).times[:2] == [0, 2]
            assert [loop.woken_by for loop in loops] == ["time", "wake"]

    async def test_loop_wakes_event(self) -> None:
        """A matching event wakes at the instant at which it is published; another does not."""
        async with hosted() as (world, manager, (loop,)):
            await loop.start()
            await world.run(until=0.05)
            await loop.sleep(sim.WakeCondition("event", "rain.*"))
            control = sim.Control(manager)
            await world.run(until=3)
            control.publish("sun.shines")
            await world.run(until=5)
            assert loop.state is sim.AgentState.SLEEPING
            control.publish("rain.falls", {"mm": 3})
            await world.run(until=5.05)
            assert clerk(loop).times == [0, 5]
            assert loop.woken_by == "event"

    async def test_loop_error_backoff(self, caplog: pytest.LogCaptureFixture) -> None:
        """The delay doubles with each failure, up to the maximum, and starts again from the minimum after a success."""

        def step(agent: Clerk) -> sim.Action | None:
            return CALL if len(agent.times) == 7 else failing(agent)

        async with hosted(step, max_loop_delay=3, max_consecutive_errors=100) as (world, _, (loop,)):
            await loop.start()
            await world.run(until=13)
            gaps = [round(after - before, 9) for before, after in itertools.pairwise(clerk(loop).times)]
            assert gaps == [0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 0.1, 0.2, 0.4, 0.8, 1.6]
            (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
            assert (record.name, record.exc_info and record.exc_info[0]) == ("sim.actors", ValueError)

    async def test_loop_error_limit(self) -> None:
        """At the error limit the agent is PAUSED for errors, and tried again after the cool-down."""
        async with hosted(failing, max_consecutive_errors=3, cool_down=60) as (world, _, (loop,)):
            await loop.start()
            await world.run(until=60)
            assert (loop.state, loop.pause_reason) == (sim.AgentState.PAUSED, sim.PauseReason.ERRORS)
            assert clerk(loop).times == [0, 0.2, 0.6]
            await world.run(until=61)
            assert clerk(loop).times[3] == 60.6
            assert loop.consecutive_errors == 2  # counted from 0 again

    async def test_multiple_agents(self) -> None:
        """Many agents run side by side, and one that stops leaves the others alone; `stop_all` stops all."""
        async with hosted(count=50) as (world, manager, loops):
            await manager.start_all()
            await world.run(until=1)
            assert manager.running_count == 50
            await loops[7].stop()
            await world.run(until=2)
            assert manager.running_count == 49
            assert [clerk(loop).times[-1] for loop in loops if loop is not loops[7]] == [1.9] * 49
            assert clerk(loops[7]).times[-1] == 1.0
            await beside(world, manager.stop_all)
            assert manager.running_count == 0
            assert {str(loop.state) for loop in loops} == {"stopped"}

    async def test_agent_shutdown(self) -> None:
        """`alive = False` and `shutdown` end the loop, by the agent itself or by the host, which reads it at once."""
        async with hosted(count=4) as (world, manager, loops):
            clerk(loops[0]).decide = ends_at_third
            await manager.start_all()
            await world.run(until=0.25)
            loops[1].agent.alive = False
            assert not loops[1].agent.alive
            assert loops[1].state is sim.AgentState.STOPPED

            async def shut_down() -> None:
                loops[2].agent.shutdown()
                assert not loops[2].agent.alive
                await loops[3].agent.shutdown()
                assert [await loop.join() for loop in loops] == ["shutdown"] * 4

            await beside(world, shut_down)
            assert [clerk(loop).ended for loop in loops] == [1] * 4
            assert clerk(loops[0]).times == [0, 0.1, 0.2]
            assert manager.running_count == 0


def on_asyncio(tests: type) -> type:
    """Have each test run by `asyncio.run`, because the plugin of anyio would mark the functions of the base class."""
    for name, test in inspect.getmembers(tests, inspect.iscoroutinefunction):

        def run(*args: object, test: Any = test, **fixtures: object) -> None:
            asyncio.run(test(*args, **fixtures))

        setattr(tests, name, functools.wraps(test)(run))
    return tests


@on_asyncio
class TestOnAsyncio(HostTests):
    """The tests, run by asyncio."""


@pytest.mark.trio
class TestOnTrio(HostTests):
    """The tests, run by trio."""


def test_conditions_of_the_seed_are_records() -> None:
    """`WakeCondition(condition_type, value)` is the seed's record."""
    condition = sim.WakeCondition("time", 5)
    assert (condition.condition_type, condition.value) == ("time", 5)
