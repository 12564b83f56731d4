"""`World.run` in its forms: one at a time, without an end, by the wall clock, and with agents that are blocked."""

import gc
import itertools
import logging
import math
import warnings
from typing import Any

import anyio
import pytest

import sim
from sim.base.errors import RunError

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


class Sender(sim.Agent):
    """Sends without end and takes nothing."""

    async def decide_action(self) -> sim.Action | None:
        return sim.Action("send", {"to": "b" if self.agent_id == "a" else "a"})


def world_of(kind: type[sim.Agent], *names: str, **options: Any) -> sim.World:
    """Return a world with agents that have no loops yet."""
    world = sim.World(seed=1, **options)
    for name in names:
        world.add(kind(name, world))
    return world


def first_of(world: sim.World) -> sim.Agent:
    """Return the first agent of a world."""
    agent = next(iter(world.agents.values()))
    assert isinstance(agent, sim.Agent)
    return agent


@both
def test_one_run_at_a_time_and_never_into_the_past(backend):
    """A second call of `run`, also inside an agent, and one to a past time are refused; the first goes its way."""

    class Nested(sim.Agent):
        async def decide_action(self) -> None:
            await self.world.run(until=5)  # type: ignore[attr-defined]

    async def main():
        async with world_of(Nested, "a") as world:
            await sim.AgentLoopManager(world).create_loop(first_of(world)).start()
            async with anyio.create_task_group() as group:
                group.start_soon(world.run, 100)
                await anyio.lowlevel.checkpoint()
                while not world.now:
                    await anyio.lowlevel.checkpoint()
                if world.now < 100:
                    with pytest.raises(sim.UsageError, match="is being run already"):
                        await world.run(until=1000)
            assert world.now == 100
            (error,) = world.errors
            assert "is being run already" in error
            with pytest.raises(sim.UsageError, match=r"is at 100 s already.*until 99"):
                await world.run(until=99)
            await world.run(until=100)

    anyio.run(main, backend=backend)


def test_a_world_without_agents_runs_until_nothing_is_left():
    """`run()` of a world with processes only ends with the last of them."""

    async def main():
        async with sim.World() as world:

            async def process():
                await sim.sleep(7)

            world.spawn("one", process())
            await world.run()
            return world.now

    assert anyio.run(main) == 7


@pytest.mark.parametrize("others", [(), ("c",)])
@pytest.mark.parametrize("until", [50, None])
def test_agents_that_block_each_other_are_reported(caplog, until, others):
    """Two agents that wait for room in each other's mailboxes are named after a run, also if others still act."""

    async def main():
        async with world_of(Sender, "a", "b") as world:
            for name in others:
                world.add(Endless(name, world) if until else Clerk(name, world))
            manager = sim.AgentLoopManager(world)
            for agent in list(world.agents.values()):
                assert isinstance(agent, sim.Agent)
                await manager.create_loop(agent, sim.AgentLoopConfig(mailbox_size=1)).start()
            if until is None:
                with pytest.raises(RunError, match="deadlock: 2 agents are blocked: a on send `b`, b on send `a`"):
                    await world.run()
            else:
                await world.run(until)
                await world.run(until + 1)
            return world.deadlock

    text = "deadlock: 2 agents are blocked: a on send `b`, b on send `a`"
    assert anyio.run(main) == text
    assert caplog.text.count(text) == 1


class Reads:
    """A clock that goes on by a fixed time at each reading."""

    def __init__(self, step_ns: int) -> None:
        self.readings = itertools.count(0, step_ns)

    def now(self) -> int:
        """Return the next reading."""
        return next(self.readings)


@pytest.mark.parametrize(("step_ns", "late"), [(50_000, False), (20_000_000, True)])
@pytest.mark.parametrize("strict", [True, False])
def test_a_wall_clock_says_how_late_it_is(caplog, step_ns, late, strict):
    """A run that cannot keep up says by how much, once; a strict one ends when it is a simulated second late."""

    async def main():
        clock = Reads(step_ns)
        async with world_of(Endless, "a", clock="wall", speed=1000, strict=strict, real_time=clock) as world:
            config = sim.AgentLoopConfig(min_loop_delay=1)
            await sim.AgentLoopManager(world).create_loop(first_of(world), config).start()
            await world.run(until=20)
            return world.now

    if late and strict:
        with pytest.raises(RunError, match=r"cannot keep up .* simulated seconds .* late at"):
            anyio.run(main)
    else:
        with caplog.at_level(logging.WARNING, "sim"):
            assert anyio.run(main) == 20
        assert caplog.text.count("could not keep up with the wall clock: at worst it was") == late


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf"), "2", True])
def test_a_speed_is_a_number_above_0(speed, tmp_path):
    """A speed that is none is refused in one sentence, by a world and by a run of a scenario."""
    with pytest.raises(sim.UsageError, match="the speed is simulated seconds per real second, a number above 0, not"):
        sim.World(clock="wall", speed=speed)
    path = tmp_path / "one.yaml"
    path.write_text("name: one\nuntil: 1s\nagents: [{name: a, rules: [{do: noop}]}]\n")
    with pytest.raises(sim.UsageError, match="the speed is simulated seconds per real second, a number above 0, not"):
        sim.run(path, clock="wall", speed=speed)


def test_a_speed_needs_the_wall_clock():
    """A speed or `strict` without the wall clock, and a clock that is none, are refused."""
    for options, text in (
        ({"speed": 2.0}, "a speed needs the wall clock"), ({"strict": True}, "strict needs the wall clock"),
        ({"clock": "real"}, "'virtual' or 'wall'"),
    ):  # fmt: skip
        with pytest.raises(sim.UsageError, match=text):
            sim.World(**options)


async def soon() -> bool:
    """Be no condition, because it is async."""
    return True


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    "wrong",
    [[], object(), sim.World, soon, "x", math.nan, -1, True],
    ids=["list", "object", "class", "async", "text", "nan", "negative", "truth"],
)
def test_a_run_ends_with_something_that_can_end_it(wrong, backend):
    """What is no time, wait, actor or condition is refused before anything happens, with a host and without."""

    async def main():
        async with world_of(Endless, "a") as world:
            await sim.AgentLoopManager(world).create_loop(first_of(world)).start()
            mistakes: tuple[Any, ...] = (wrong, sim.sleep(5))
            for given in mistakes:
                with pytest.raises(sim.UsageError):
                    await world.run(until=given)
            with pytest.raises(sim.UsageError):
                sim.run_until(world.kernel, wrong)
            assert (world.now, world.kernel.steps) == (0, 0)
            await world.run(until=1)

    with warnings.catch_warnings(record=True) as caught:
        anyio.run(main, backend=backend)
        gc.collect()
    assert caught == []
