"""`SimulationRunner`: the agents of a world that a program built, in both modes."""

import gc
import warnings
from typing import Any

import anyio
import pytest

import sim
from sim.record import HashRecorder
from tests.helpers import named

both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Clerk(sim.Agent):
    """Acts `count` times, and then shuts down."""

    count = 5

    async def decide_action(self) -> sim.Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        if turn == self.count:
            self.shutdown()
        return sim.Action("publish", {"topic": "clerk.acts", "data": turn})


class Endless(Clerk):
    """Acts without end."""

    count = 0


class Sleeper(sim.Agent):
    """Sleeps until an event, and then shuts down."""

    async def decide_action(self) -> sim.Action | None:
        if self.woken_event is not None:
            self.shutdown()
            return None
        self.loop.sleep(sim.WakeCondition.event("bell"))
        return None


def world_of(kind: type[sim.Agent], *names: str, **options: Any) -> sim.World:
    """Return a world with agents that have no loops yet."""
    world = sim.World(seed=1, **options)
    for name in names:
        world.add(kind(name, world))
    return world


@both
@pytest.mark.parametrize("autonomous", [True, False])
def test_a_runner_runs_until_all_agents_have_stopped(backend, autonomous):
    """`run()` ends when the last agent has stopped; in tick mode each agent acts once per tick."""

    async def main():
        async with world_of(Clerk, "a", "b") as world:
            return await sim.SimulationRunner(world, use_autonomous_loops=autonomous, period="1m").run()

    summary = anyio.run(main, backend=backend)
    assert (summary.iterations, summary.errors, summary.states["stopped"]) == (10, 0, 2)
    assert summary.sim_seconds == pytest.approx(0.4 if autonomous else 240)


@both
@pytest.mark.parametrize("autonomous", [True, False])
def test_a_runner_runs_for_a_duration_and_again(backend, autonomous):
    """`run(duration)` counts from now, stops all agents at its end, and starts them again at the next call."""

    async def main():
        async with world_of(Endless, "a", "b") as world:
            runner = sim.SimulationRunner(world, autonomous, config=sim.AgentLoopConfig(min_loop_delay=1))
            first = await runner.run(duration=9.5)
            assert first.states["stopped"] == 2
            runner.loop_manager.loops["b"].agent.alive = False
            return first, await runner.run("10s")

    first, second = anyio.run(main, backend=backend)
    assert (first.sim_seconds, first.iterations) == (9.5, 20)
    assert (second.sim_seconds, second.iterations) == (19.5, 30)


@both
@pytest.mark.parametrize("autonomous", [True, False])
def test_a_run_without_end_waits_for_calls_of_the_program(backend, autonomous):
    """While all agents sleep, simulated time stands still until the program acts; cancelling the call stops all."""

    async def main():
        async with world_of(Sleeper, "a", "b") as world:
            runner = sim.SimulationRunner(world, autonomous)
            control = sim.Control(runner.loop_manager)
            async with anyio.create_task_group() as group:
                group.start_soon(runner.run)
                while runner.loop_manager.states()["sleeping"] < 2:
                    await anyio.lowlevel.checkpoint()
                runner.loop_manager.loops["a"].agent.shutdown()
                await runner.loop_manager.loops["a"].join()
                control.publish("bell")
            states = runner.loop_manager.states()
            with anyio.move_on_after(0.01) as scope:
                runner.loop_manager.loops["a"].agent.alive = True
                await runner.run()
            assert scope.cancelled_caught
            return states, runner.loop_manager.states()

    states, after = anyio.run(main, backend=backend)
    assert states["stopped"] == after["stopped"] == 2


def test_ticks_are_fixed_or_shuffled_and_sequential_or_parallel():
    """The tick mode of a program has the order and the concurrency of that of scenarios, and is repeatable."""

    def order(**options: Any) -> list[str]:
        recorder = HashRecorder(keep=True)

        async def main():
            async with world_of(Endless, *(f"a{n}" for n in range(6)), recorder=recorder) as world:
                await sim.SimulationRunner(world, use_autonomous_loops=False, **options).run(duration=5)

        anyio.run(main)
        recorder.flush()
        return [str(row.actor) for row in named(recorder.rows) if row.topic == "action.publish"]

    fixed, shuffled = order(), order(order="shuffled")
    assert fixed == [f"a{n}" for n in range(6)] * 5
    assert fixed != shuffled
    assert sorted(fixed) == sorted(shuffled)
    assert shuffled == order(order="shuffled")
    assert order(concurrency="parallel") == fixed


def test_a_runner_refuses_what_it_cannot_do():
    """Wrong options, and agents that were started by their own loops in tick mode, are named."""

    async def main():
        async with world_of(Endless, "a") as world:
            for options, text in (
                ({"concurrency": "both"}, "'sequential' or 'parallel'"), ({"order": "random"}, "'fixed' or 'shuffled'"),
                ({"period": 0}, "above 0"),
            ):  # fmt: skip
                with pytest.raises(sim.UsageError, match=text):
                    sim.SimulationRunner(world, **options)
            agent = world.agents["a"]
            assert isinstance(agent, Endless)
            await sim.AgentLoopManager(world).create_loop(agent).start()
            with pytest.raises(sim.UsageError, match="a was started already"):
                await sim.SimulationRunner(world, use_autonomous_loops=False).run(5)

    anyio.run(main)


@both
@pytest.mark.parametrize("autonomous", [True, False])
def test_a_runner_that_comes_too_late_says_so_and_changes_nothing(backend, autonomous):
    """In a world that was run already, no loops and no ticks can begin; another runner of it still works."""

    async def main():
        async with world_of(Endless, "a") as world:
            first = sim.SimulationRunner(world, config=sim.AgentLoopConfig(min_loop_delay=1))
            if autonomous:
                await world.run(until=1)
            else:
                await first.run(1)
            late = sim.SimulationRunner(world, use_autonomous_loops=autonomous)
            with pytest.raises(sim.UsageError, match="this world was run already"):
                await late.run(1)
            return None if autonomous else await first.run(duration=5)

    with warnings.catch_warnings(record=True) as caught:
        summary = anyio.run(main, backend=backend)
        gc.collect()
    assert caught == []
    assert summary is None or summary.iterations == 6
