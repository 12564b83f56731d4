"""Calls of a host program on loops and agents: between two runs, beside one, from other tasks and threads."""

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import sim
from sim.base.errors import KernelError
from sim.kernel import NS
from sim.kernel.codec import encode
from sim.record import HashRecorder, open_run
from sim.resources import Limit, Rate
from tests.actors.test_seed_004 import beside

BACKENDS = ["asyncio", "trio"]
both = pytest.mark.parametrize("backend", BACKENDS)


class Clerk(sim.Agent):
    """Acts once per second; each action takes `work` simulated seconds."""

    work = 0.0

    async def decide_action(self) -> sim.Action | None:
        if self.work:
            await sim.sleep(self.work)
        return sim.Action("noop")


class Slow(Clerk):
    """Works for a minute in each iteration."""

    work = 60.0


def hosted(backend: str, kind: type[sim.Agent] = Clerk, count: int = 2, **options: Any) -> Callable[[Any], Any]:
    """Run the decorated coroutine function with a world, its manager, and the loops of started agents."""

    def decorate(body: Callable[..., Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with sim.World(seed=1, **options) as world:
                manager = sim.AgentLoopManager(world)
                config = sim.AgentLoopConfig(min_loop_delay=1)
                loops = [manager.create_loop(kind(f"a{n}", world), config) for n in range(count)]
                await manager.start_all()
                return await body(world, manager, loops)

        return anyio.run(main, backend=backend)

    return decorate


@both
def test_calls_apply_in_their_order(backend):
    """Calls without `await` take effect in the order in which they were made, between two runs and beside one."""

    @hosted(backend)
    async def _(world, manager, loops):
        states: list[str] = []
        loops[0].on_change = lambda: states.append(str(loops[0].state))
        await world.run(until=2.5)
        states.clear()

        async def calls():
            loops[0].sleep(sim.WakeCondition.event("never"))
            loops[0].wake()
            loops[0].pause()
            loops[0].resume()
            loops[0].agent.alive = False
            loops[0].agent.alive = True
            assert loops[0].agent.alive
            await loops[0].start()

        await calls()
        once = ["sleeping", "running", "paused", "running", "stopping", "stopped"]
        assert states == [*once, "starting", "running"]
        states.clear()
        await beside(world, calls, until=1e6)
        assert states[:8] == [*once, "starting", "running"]


@both
@pytest.mark.parametrize("where", ["between", "beside"])
def test_a_stop_waits_for_the_iteration_and_then_cancels_it(backend, where):
    """`stop` gives the iteration its timeout in simulated time; the wait itself runs the world if nobody else does."""

    @hosted(backend, Slow)
    async def _(world, manager, loops):
        await world.run(until=5)

        async def stop():
            await loops[0].stop(timeout=2)

        if where == "between":
            await stop()
            assert (world.now, loops[0].iteration_count) == (7, 1)
        else:
            await beside(world, stop)
        assert loops[0].stopped
        assert not loops[1].stopped


@both
def test_other_tasks_can_wait_and_a_run_takes_over(backend):
    """Waits in several tasks and a run of the world share the world; the run makes the steps, and all waits end."""

    @hosted(backend, Slow, 4)
    async def _(world, manager, loops):
        await world.run(until=5)
        ended: list[object] = []

        async def note(wait):
            ended.append(await wait())

        async with anyio.create_task_group() as group:
            for loop in loops[:3]:
                group.start_soon(note, loop.stop)
            group.start_soon(note, loops[2].join)
            await anyio.lowlevel.checkpoint()
            await world.run(until=world.now + 100)
        assert sorted(map(str, ended)) == ["None", "None", "None", "stop"]
        assert [loop.stopped for loop in loops] == [True, True, True, False]


@both
def test_a_thread_calls_and_waits_in_its_own_loop(backend):
    """A thread calls without `await`; in an event loop of its own it also waits. Nothing changes within a step."""

    @hosted(backend)
    async def _(world, manager, loops):
        seen: list[object] = []

        def work():
            loops[0].agent.shutdown()
            seen.append(loops[0].agent.alive)
            anyio.run(loops[1].stop, backend="asyncio")
            seen.append(loops[1].state)

        async def calls():
            await anyio.to_thread.run_sync(work)

        await beside(world, calls, until=1e9)
        assert seen == [False, sim.AgentState.STOPPED]
        assert loops[0].stopped


@pytest.mark.slow
@both
def test_join_waits_for_its_run_only(backend):
    """Beside a run, `join` waits for that run and says that it has ended; between two runs it runs the world itself."""

    @hosted(backend)
    async def _(world, manager, loops):
        failures: list[str] = []

        async def join():
            with pytest.raises(sim.UsageError, match="the run beside it has ended") as raised:
                await loops[0].join()
            failures.append(str(raised.value))

        async with anyio.create_task_group() as group:
            group.start_soon(world.run, 50_000)
            while not world.now:
                await anyio.lowlevel.checkpoint()
            group.start_soon(join)
        assert len(failures) == 1
        loops[0].agent.shutdown()
        assert await loops[0].join() == "shutdown"


@both
def test_a_wait_that_cannot_end_says_so(backend):
    """Between two runs, a `join` of an agent that nothing can stop raises instead of waiting for ever."""

    @hosted(backend)
    async def _(world, manager, loops):
        await world.run(until=0.5)
        for loop in loops:
            loop.sleep(sim.WakeCondition.never())
        with pytest.raises(sim.UsageError, match="waits for ever"):
            await loops[0].join()


def test_a_refused_call_is_logged_and_raises_when_it_is_awaited(caplog):
    """A call that comes too late changes nothing, is logged, and raises at its `await`, as often as it is awaited."""

    @hosted("asyncio")
    async def _(world, manager, loops):
        await world.run(until=0.5)
        await loops[0].stop()
        call = loops[0].sleep(sim.WakeCondition.never())
        for _ in range(2):
            with pytest.raises(sim.UsageError, match="sleep of a0 was refused: a0 has stopped"):
                await call
        with pytest.raises(sim.UsageError, match="cannot have the value"):
            loops[1].sleep(sim.WakeCondition("event", 5))
        assert loops[0].stopped

    assert "sleep of a0 was refused" in caplog.text


def test_calls_that_a_run_leaves_are_said(caplog):
    """A call from a thread that no run applies any more is logged when the world is left, and raises."""

    async def main():
        async with sim.World() as world:
            manager = sim.AgentLoopManager(world)
            loop = manager.create_loop(Clerk("a", world))
            await loop.start()
            await world.run(until=5)
            calls: list[Any] = []
            thread = threading.Thread(target=lambda: calls.append(loop.wake()))
            thread.start()
            thread.join()
            assert not calls[0].done
        with pytest.raises(sim.UsageError, match="was not applied"):
            await calls[0]

    anyio.run(main)
    assert "wake of a was not applied: the run has ended" in caplog.text


@both
def test_the_same_calls_give_the_same_hash(backend):
    """Awaited or not, between runs at the same times, calls make the same record on each backend."""

    def record(awaited: bool) -> bytes:
        recorder = HashRecorder(keep=True)

        @hosted(backend, Slow, 3, recorder=recorder)
        async def _(world, manager, loops):
            for time, call in enumerate(
                (loops[0].pause, loops[0].resume, loops[1].agent.shutdown,
                 lambda: loops[2].sleep(sim.WakeCondition("time", 600)), loops[2].wake)
            ):  # fmt: skip
                await world.run(until=30 * (time + 1))
                made = call()
                if awaited:
                    await made
            await world.run(until=1000)

        recorder.flush()
        return b"".join(encode(row) for row in recorder.rows)

    assert record(awaited=True) == record(awaited=False)


SCENARIO = """\
name: calls
seed: 3
until: 30s
execution: {agent_loop: {min_loop_delay: 1s}}
agents:
  - {name: host, kind: host}
  - {name: clerk, count: 5, kind: clerk}
"""


class Desk(sim.Agent):
    """Outside, at its third turn, the host program acts on the run."""

    manager: sim.AgentLoopManager | None = None

    async def decide_action(self) -> sim.Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        if turn == 3:
            await sim.perform(sim.Effect("act", {}, self._act, latency_ns=10**9, safety="unsafe"))
        return None

    async def _act(self, request: Any, key: str) -> None:
        manager = Desk.manager
        assert manager is not None, "a replay does nothing outside"
        loop = {name: manager.loops[name] for name in manager.loops}
        condition = sim.WakeCondition.any_of(
            sim.WakeCondition.event("rain.*", where="data.mm > least", given={"least": 2}),
            sim.WakeCondition.all_of(sim.WakeCondition.after_delay(7), sim.WakeCondition("time", 3)),
            timeout="9s",
        )
        loop["clerk-1"].sleep(condition)
        loop["clerk-2"].agent.alive = False
        loop["clerk-3"].agent.shutdown()
        loop["clerk-3"].agent.alive = True
        loop["clerk-4"].pause()
        manager.remove_loop("clerk-5")


@both
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_replay_applies_the_calls_on_record(tmp_path, mode, backend):
    """What a host program does to loops and agents is on record: a replay, on the other backend, is the same."""
    path = tmp_path / "calls.yaml"
    path.write_text(SCENARIO)
    kinds = {"host": Desk, "clerk": Clerk}

    def begun(runner: sim.RunController) -> None:
        Desk.manager = runner.simulation.manager
        Desk.manager.loops["clerk-4"].sleep(sim.WakeCondition("time", 2))
        with pytest.raises(KernelError, match="cannot be changed from outside"):
            runner.simulation.world.rate_tracker.set_limit("calls", Limit(agent=Rate(1, NS)))

    made = sim.run(path, mode=mode, kinds=kinds, out=tmp_path / "runs", begun=begun, backend=backend)
    Desk.manager = None
    assert made.run is not None
    found = sim.replay(made.run, kinds=kinds, backend=BACKENDS[backend == "asyncio"])

    assert found.same, found.difference
    assert made.states == {**dict.fromkeys(made.states, 0), "running": 2, "paused": 1, "stopped": 3}
    with open_run(Path(made.run)) as stored:
        kinds_of_inputs = [kind for (kind,) in stored.query("SELECT kind FROM inputs")]
        changes = [
            (row.actor, row.data["to"])
            for row in stored.events()
            if row.topic == "agent.state" and row.actor == "clerk-1"
        ]
    assert kinds_of_inputs == ["sleep", "sleep", "alive", "alive", "alive", "pause", "remove_loop"]
    assert [to for _, to in changes][:4] == ["starting", "running", "sleeping", "running"]


def test_what_is_no_call_of_a_loop_is_refused_outside():
    """Between two runs, what would change the world without a record is refused, and changes nothing."""

    @hosted("asyncio")
    async def _(world, manager, loops):
        tracker, budgets = world.rate_tracker, world.budgets
        rate = Limit(agent=Rate(5, NS))
        tracker.set_limit("calls", rate)
        budgets.define("money", 5)
        held = tracker.reserve("a0", "calls", 1)
        await world.run(until=2.5)
        before = str(world.digest())
        for change in (
            lambda: tracker.consume("a0", "calls"), lambda: tracker.reserve("a0", "calls", 1),
            lambda: tracker.settle(held, 1), lambda: tracker.release(held), lambda: tracker.set_limit("more", rate),
            lambda: tracker.set_agent_limit("a0", "calls", None), lambda: tracker.refresh("calls"),
            lambda: tracker.set_group("a0", "x"), lambda: budgets.spend("a0", "money", 1),
            lambda: budgets.reserve("a0", "money", 1), lambda: budgets.define("more", 1),
            lambda: manager.create_loop(Clerk("new", world)), lambda: world.add(Clerk("new", world)),
            lambda: loops[0].interrupt("x"), lambda: loops[0].request_stop("x"),
        ):  # fmt: skip
            with pytest.raises(KernelError, match="cannot be changed from outside"):
                change()
        assert str(world.digest()) == before
        assert [str(loop.state) for loop in loops] == ["running", "running"]


def test_a_name_that_is_taken_is_a_value_error():
    """A second loop of one name is refused as a `ValueError` too, as the seed document has it."""

    @hosted("asyncio")
    async def _(world, manager, loops):
        for attempt in (lambda: manager.create_loop(Clerk("a0", world)), lambda: world.add(Clerk("a0", world))):
            with pytest.raises(ValueError, match="a0") as raised:
                attempt()
            assert isinstance(raised.value, sim.NameTakenError)
        with pytest.raises(sim.UsageError, match="already has a manager"):
            sim.AgentLoopManager(world)
        assert sim.AgentLoopManager.of(world) is manager


@both
def test_a_wait_that_is_cancelled_or_paused_leaves_the_world_usable(backend):
    """Cancelling a wait withdraws no call, and a wait in a paused world says what to do; the world runs on."""

    @hosted(backend, Slow)
    async def _(world, manager, loops):
        async def call(request, key):
            await anyio.sleep_forever()

        class Waits(sim.Agent):
            async def decide_action(self):
                await sim.perform(sim.Effect("call", None, call))

        loop = manager.create_loop(Waits("waits", world))
        await loop.start()
        await world.run(until=0.001)
        with anyio.move_on_after(0.01):
            await loop.stop(timeout=1)
        assert str(loop.state) == "stopping"
        control = sim.Control(manager)
        control.pause_all()
        with pytest.raises(sim.UsageError, match="stop of a1 cannot end, because the run is paused"):
            await loops[1].stop()
        control.resume_all()
        await loops[1].stop(timeout=0.01)
        assert loops[1].stopped
        assert world.now < 1


@both
def test_a_process_that_fails_is_heard_by_the_call(backend):
    """A call between two runs runs what is due at that instant, and raises the error of a process that fails there."""

    @hosted(backend)
    async def _(world, manager, loops):
        async def process():
            await sim.sleep(1)
            raise ValueError("boom")

        world.spawn("process", process())
        await world.run(until=1)
        with pytest.raises(ValueError, match="boom"):
            loops[0].wake()
        await world.run(until=2.5)
        assert loops[0].iteration_count == 3


@both
@pytest.mark.parametrize("entered", [True, False])
def test_calls_before_the_first_run(backend, entered):
    """Before a run, waits run the world as between two runs, also without `async with`; what is stopped, stays so."""

    async def main():
        world = sim.World(seed=1)
        manager = sim.AgentLoopManager(world)
        loops = [manager.create_loop(Slow(f"a{n}", world)) for n in range(3)]
        await manager.stop_all()
        await loops[0].stop()
        assert await loops[0].join() == ""
        await manager.start_all()
        if entered:
            await world.__aenter__()
        loops[0].agent.alive = False
        assert not loops[0].agent.alive
        assert await loops[0].join() == "shutdown"
        await loops[1].stop(timeout=2)
        assert (world.now, loops[1].state) == (2, sim.AgentState.STOPPED)
        await manager.stop_all()
        assert {str(loop.state) for loop in loops} == {"stopped"}
        assert [loop.iteration_count for loop in loops] == [0, 1, 1]
        if entered:
            await world.__aexit__(None)

    anyio.run(main, backend=backend)


@both
def test_calls_after_the_end_have_nothing_to_do(backend):
    """When the run is over for good, what stops agents returns, because they have stopped; the rest is refused."""

    @hosted(backend)
    async def after(world, manager, loops):
        await world.run(until=2.5)
        return world, manager, loops

    async def main(world, manager, loops):
        await manager.stop_all()
        await loops[0].stop()
        await loops[0].wake()
        await loops[0].agent.shutdown()
        loops[1].agent.alive = False
        assert [loop.agent.alive for loop in loops] == [False, False]
        assert await loops[0].join() == "end"
        for call in (loops[0].start, lambda: loops[0].sleep(sim.WakeCondition.never()), loops[0].pause):
            with pytest.raises(sim.UsageError, match="too late: the run has ended"):
                await call()
        for again in (lambda: world.run(until=9), world.run, world.__aenter__):
            with pytest.raises(sim.UsageError, match="the run of this world is over"):
                await again()

    anyio.run(main, *after, backend=backend)


untyped: Any = sim  # so that mypy lets the mistakes below pass
untyped_clerk: Any = Clerk


def sleeps_until(given: Any, world: Any, manager: Any, agent: Any) -> None:
    """Put an agent to sleep until something."""
    manager.loops["s"].sleep(given)


WRONG: dict[str, tuple[Callable[[Any, Any, Any], object], str]] = {
    "a loop of nothing": (lambda world, manager, agent: manager.create_loop(None), "needs an agent, not None"),
    "a loop of a class": (lambda world, manager, agent: manager.create_loop(Clerk), "needs an agent, not <class"),
    "settings": (lambda world, manager, agent: manager.create_loop(agent, {"min_loop_delay": 1}), "AgentLoopConfig"),
    "another world": (
        lambda world, manager, agent: manager.create_loop(Clerk("b", sim.World())), "an agent of another world",
    ),
    "a number as name": (lambda world, manager, agent: untyped_clerk(5, world), "name of an agent is a text, not 5"),
    "no name": (lambda world, manager, agent: Clerk("", world), "the name of an agent is a text, not ''"),
    "a manager of nothing": (lambda world, manager, agent: untyped.AgentLoopManager(None), "needs a world, not None"),
    "a runner of nothing": (lambda world, manager, agent: untyped.SimulationRunner(None), "needs a sim.World"),
    "settings of a runner": (
        lambda world, manager, agent: untyped.SimulationRunner(world, config=5), "an AgentLoopConfig, not 5",
    ),
    "a text as seed": (lambda world, manager, agent: untyped.World("x"), "a seed is a whole number, not 'x'"),
    "a share as seed": (lambda world, manager, agent: untyped.World(1.5), "a seed is a whole number, not 1.5"),
    "no seed": (lambda world, manager, agent: untyped.World(None), "a seed is a whole number, not None"),
    "no rounds": (lambda world, manager, agent: sim.World(max_deltas=0), "max_deltas is a whole number from 1"),
    **{
        f"a sleep until {given!r}": (partial(sleeps_until, given), "sleeps until a WakeCondition")
        for given in (None, 5, "time", {"for": 5}, ("time", 5))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_a_program_builds_wrongly_is_named(name):
    """Wrong arguments of worlds, agents, loops and managers are refused by one sentence, and change nothing."""
    make, said = WRONG[name]
    world = sim.World()
    manager = sim.AgentLoopManager(world)
    manager.create_loop(Clerk("s", world))
    before = str(world.digest())
    with pytest.raises(sim.UsageError, match=said):
        make(world, manager, Clerk("a", world))
    assert str(world.digest()) == before
    assert list(manager.loops) == list(world.agents) == ["s"]
