"""Plain and async forms do the same, in plain code and inside a running event loop."""

import inspect
import pickle

import anyio
import anyio.lowlevel
import pytest

import sim

SCENARIO = """
name: dice
until: 1h
agents:
  - name: a
    count: 3
    state: {x: 0}
    loop: {min_loop_delay: 1m}
    rules: [{set: {x: "=uniform(0, 1)"}}]
"""
VERBS = ("run", "replay", "resume", "branch")


@pytest.fixture
def scenario(tmp_path):
    """The path of a small scenario with random draws."""
    path = tmp_path / "dice.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_forms_do_what_the_plain_ones_do(scenario, tmp_path, backend):
    """Each `NAME_async` gives the result of `NAME`, on the event loop that it is awaited in."""
    plain = sim.run(scenario, out=tmp_path)
    changed = sim.branch(plain, at="30m", seed=5)

    async def main() -> None:
        made = await sim.run_async(scenario, out=tmp_path)
        assert (made.hash, made.backend) == (plain.hash, backend)
        found = await sim.replay_async(made)
        assert (found.same, found.hash, found.backend) == (True, plain.hash, backend)
        branch = await sim.branch_async(made, at="30m", seed=5)
        assert (branch.hash, branch.backend) == (changed.hash, backend)
        with pytest.raises(sim.UsageError, match="has finished: there is nothing to continue"):
            await sim.resume_async(made)
        stopped = await sim.run_async(scenario, out=tmp_path, clock="wall", speed=3600, max_wall=0.2)
        assert stopped.status == "interrupted"
        with sim.open(stopped) as run:
            folder = run.path
        assert (await sim.resume_async(folder)).status == "finished"

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_plain_forms_work_inside_a_running_event_loop(scenario, tmp_path, backend):
    """Each plain form runs beside a loop that is running, as in a notebook; its errors come out as they are."""

    async def main() -> None:
        made = sim.run(scenario, out=tmp_path)
        assert sim.replay(made).same
        assert sim.branch(made, at="30m").hash == made.hash
        with pytest.raises(sim.UsageError, match="has finished"):
            sim.resume(made)

    anyio.run(main, backend=backend)


def test_other_tasks_go_on_during_an_async_form(scenario, tmp_path):
    """While a run is awaited, other tasks of the program get their turns."""
    made = sim.run(scenario, out=tmp_path)
    turns = 0

    async def main() -> None:
        async def other() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            await sim.run_async(scenario, clock="wall", speed=3600 * 10)
            await sim.replay_async(made)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert turns > 5


@pytest.mark.parametrize("name", VERBS)
def test_plain_forms_are_ordinary_functions(name):
    """A plain form has a name, the signature and a docstring of its own, and can be sent to another process."""
    plain, other = getattr(sim, name), getattr(sim, f"{name}_async")
    assert plain.__name__ == name
    assert pickle.loads(pickle.dumps(plain)) is plain  # noqa: S301 - made here
    assert list(inspect.signature(plain).parameters) == list(inspect.signature(other).parameters)
    assert inspect.iscoroutinefunction(other)
    assert not inspect.iscoroutinefunction(plain)
    assert "Args:" in plain.__doc__
    assert other.__doc__.startswith(f"As `{name}`, inside an asyncio or trio program")
