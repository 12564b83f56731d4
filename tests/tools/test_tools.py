"""Tools: what they return and how they fail is on record, and those that work outside are effects."""

import asyncio
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

import sim
from sim.base.errors import OutOfMemoryError
from sim.record import open_run
from sim.world import Action, ActionHandler, ActionResult
from tests.actors.helpers import Lab, Script

SCENARIO = "name: tools\nuntil: 10s\nagents:\n  - {name: w, kind: w, loop: {min_loop_delay: 3s}}\n"
Args = Mapping[str, Any]


class Library(BaseException):
    """An error of a library that is no `Exception`."""


def use(lab: Lab, name: str, args: object = None) -> tuple[ActionResult, Mapping[str, Any]]:
    """Have an agent use a tool; the result, and the data of the event that is on record of it."""
    agent = lab.script("a")
    result = lab.main(lab.world.execute(agent, Action("use_tool", {"tool": name, "args": args})))
    (row,) = lab.rows("a", "action.use_tool")
    lab.recorder.rows.clear()
    data = row[7]
    return result, sim_decode(data)


def sim_decode(data: Any) -> Any:
    """Return recorded data as plain values."""
    from sim.kernel.codec import decode, encode

    return decode(encode(data))


def lab_with(tool: Any) -> Lab:
    """A world with one agent and the tool `t`."""
    lab = Lab()
    lab.add("a", min_loop_delay=1)
    sim.Tools.on(lab.world).add(tool if isinstance(tool, sim.Tool) else sim.Tool("t", tool))
    return lab


def raising(error: BaseException) -> Callable[[Args], Any]:
    """A plain tool that raises."""

    def tool(args: Args) -> Any:
        raise error

    return tool


async def double(args: Args) -> Any:
    """An async tool."""
    await anyio.lowlevel.checkpoint()
    return args["x"] * 2


class Callable2:
    """An object whose call is async."""

    async def __call__(self, args: Args) -> Any:
        return await double(args)


@pytest.mark.parametrize("error", [ValueError("boom"), Library("boom"), SystemExit("boom"), StopIteration("boom")])
def test_a_tool_that_raises_leaves_a_record(error: BaseException) -> None:
    """A plain tool that raises fails the action: the event has the tool and the error, and nothing else happens."""
    result, row = use(lab_with(raising(error)), "t", {"x": 1})
    text = f"the tool 't' failed: {type(error).__name__}: boom"
    assert (result.success, result.error) == (False, text)
    assert row == {"arguments": {"tool": "t", "args": {"x": 1}}, "success": False, "error": text}


def test_an_async_tool_that_raises_leaves_a_record() -> None:
    """An async tool that raises fails the action in the same way."""

    async def fails(args: Args) -> Any:
        raise Library("boom")

    result, row = use(lab_with(fails), "t")
    assert result.error == row["error"] == "the tool 't' failed: Library: boom"
    assert row["success"] is False


def test_the_iteration_of_a_tool_that_raises_has_failed() -> None:
    """An agent whose tool raises backs off, with the tool's error, and is counted once an iteration."""
    lab = lab_with(raising(ValueError("boom")))
    lab.script("a").step = lambda agent: Action("use_tool", {"tool": "t"})
    loop = lab.manager.loops["a"]
    loop.start_now()
    lab.run(2)
    assert loop.failures == 1
    assert lab.world.errors == {"the tool 't' failed: ValueError: boom": (1, "a")}
    assert lab.world.refused["use_tool"] == 1


def test_a_tool_that_runs_out_of_memory_ends_the_run() -> None:
    """MemoryError in a plain tool is no failure of the tool: it ends the run and names the agent."""
    lab = lab_with(raising(MemoryError()))
    lab.script("a").step = lambda agent: Action("use_tool", {"tool": "t"})
    lab.manager.loops["a"].start_now()
    with pytest.raises(OutOfMemoryError, match=r"^a ran out of memory"):
        lab.run(2)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_tool_that_returns_what_is_not_json_leaves_a_record(kind: str) -> None:
    """A result that is not JSON fails the action, and the record says what it is."""

    async def later(args: Args) -> Any:
        return {"found": object()}

    result, row = use(lab_with(later if kind == "async" else lambda args: {"found": object()}), "t")
    assert not result.success
    assert "['found'] is an object, which is not JSON" in row["error"]


@pytest.mark.parametrize("tool", [double, functools.partial(double), Callable2(), sim.Tool("t", double)], ids=range(4))
def test_an_async_tool_works(tool: Any) -> None:
    """An async function, a partial of one, an object with an async call, and a `Tool` are awaited as effects."""
    lab = lab_with(tool)
    result, row = use(lab, "t", {"x": 4})
    assert (result.success, result.data) == (True, 8)
    assert (row["success"], row["result"]) == (True, 8)
    ((intent),) = lab.recorder.intents
    assert intent[2] == "tool.t"


def test_a_modelled_tool_takes_its_latency() -> None:
    """A `Tool` with a latency takes exactly this simulated time, also a plain function that runs as an effect."""
    lab = lab_with(sim.Tool("t", lambda args: args["x"], runs="effect", latency="5s", safety="pure"))
    result, _ = use(lab, "t", {"x": 4})
    assert (result.data, lab.world.now) == (4, 5)


def test_a_tool_that_does_not_answer_fails_at_its_deadline() -> None:
    """A call that takes longer than the deadline, in simulated time, has failed."""
    lab = lab_with(sim.Tool("t", double, latency="5s", deadline="2s"))
    result, row = use(lab, "t", {"x": 4})
    assert (result.error, lab.world.now) == ("the tool 't' has not answered in time; it may have had its effect", 2)
    assert row["success"] is False


def test_a_plain_function_that_returns_a_coroutine_is_refused_with_a_hint() -> None:
    """What returns a coroutine without being async is refused, and the error says how to write it."""
    result, _ = use(lab_with(lambda args: double(args)), "t", {"x": 4})
    assert "define it with `async def`, or with runs='effect'" in (result.error or "")


def test_an_unknown_tool_is_named_with_the_nearest() -> None:
    """A tool that does not exist is refused with the one that may have been meant."""
    lab = lab_with(double)
    sim.Tools.on(lab.world).add(sim.Tool("search", double))
    result, _ = use(lab, "serch")
    assert "there is no tool 'serch'" in (result.error or "")
    assert "search" in (result.error or "")


def test_an_async_tool_works_in_a_program_of_plain_asyncio() -> None:
    """Effects begin in a program that was started with `asyncio.run`, which anyio has not set up."""
    lab = lab_with(sim.Tool("t", double, latency="2s"))

    async def step(agent: Script) -> Action:
        return Action("use_tool", {"tool": "t", "args": {"x": agent.loop.iteration_count}})

    lab.script("a").step = step

    async def program() -> None:
        async with lab.world:
            lab.manager.loops["a"].start_now()
            await asyncio.wait_for(lab.world.run(10), 60)

    asyncio.run(program())
    assert [result.data for result in lab.script("a").results] == [2, 4, 6]


class Searcher(sim.Agent):
    """Uses an async tool that counts its calls."""

    calls = 0

    def __init__(self, agent_id: str, world: sim.World, **options: Any) -> None:
        super().__init__(agent_id, world, **options)
        sim.Tools.on(world).add(sim.Tool("search", self.search, latency="1s", safety="pure"))

    @staticmethod
    async def search(args: Args) -> Any:
        """Fail at every second call."""
        Searcher.calls += 1
        if args["n"] % 2:
            raise ValueError("boom")
        return {"n": args["n"]}

    async def decide_action(self) -> sim.Action | None:
        return sim.Action("use_tool", {"tool": "search", "args": {"n": self.loop.iteration_count}})


def test_calls_of_async_tools_are_recorded_and_replayed(tmp_path: Path) -> None:
    """Calls and failures of an async tool are in the record, and a replay gives them without calling it."""
    path = tmp_path / "tools.yaml"
    path.write_text(SCENARIO)
    Searcher.calls = 0
    result = sim.run(path, kinds={"w": Searcher}, out=tmp_path / "runs")
    assert (result.actions, result.refused, Searcher.calls) == (1, {"use_tool": 1}, 2)
    assert sim.replay(result.run or "", kinds={"w": Searcher}).same
    assert Searcher.calls == 2
    assert sim.run(path, kinds={"w": Searcher}, backend="trio").hash == result.hash
    with open_run(Path(result.run or "")) as run:
        assert run.info.status == "finished"


@pytest.mark.parametrize("wait", [False, True])
def test_a_handler_of_the_host_program_that_raises_leaves_a_record(wait: bool) -> None:
    """An action kind of the host program that raises, or whose wait does, is on record as failed."""

    def apply(world: sim.World, agent: Any, *granted: Any) -> Any:
        raise KeyError("lost")

    async def waiting(world: sim.World, agent: Any) -> Any:
        raise KeyError("lost")

    def applied(world: sim.World, agent: Any, granted: Any) -> Any:
        raise AssertionError("it was not granted")

    lab = Lab()
    lab.add("a")
    made = (
        ActionHandler("dig", applied, wait=waiting)
        if wait
        else ActionHandler("dig", lambda world, agent: apply(world, agent))
    )
    lab.world.actions.register(made)
    result = lab.main(lab.world.execute(lab.script("a"), Action("dig")))
    assert (result.success, result.error) == (False, "KeyError: 'lost'")
    (row,) = lab.rows("a", "action.dig")
    assert sim_decode(row[7]) == {"arguments": {}, "success": False, "error": "KeyError: 'lost'"}
