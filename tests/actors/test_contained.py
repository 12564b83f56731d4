"""What an agent raises or leaves behind is its own failure: the run continues, and the record names the agent."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.actors import AgentState, WakeCondition
from sim.base.errors import Cancelled, RunError
from sim.record import open_run
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script
from tests.actors.test_errors import Hooks

SCENARIO = "name: contained\nuntil: 10s\nagents:\n  - {name: w, count: 3, kind: w, loop: {min_loop_delay: 1s}}\n"


class Unprintable(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Planted(BaseException):
    """As some libraries raise: not an `Exception`."""


class Thing:
    """Not JSON."""


class Worker(sim.Agent):
    """Does what the test wants in one of three agents, at each iteration."""

    reach = "shared"
    act: Callable[["Worker"], object] = staticmethod(lambda agent: None)

    async def decide_action(self) -> sim.Action | None:
        self.state["n"] = self.state.get("n", 0) + 1
        if self.agent_id == "w-2":
            type(self).act(self)
        return sim.Action("noop")


def run_with(tmp_path: Path, act: Callable[[Worker], object], **options: Any) -> sim.RunResult:
    """Run three workers, of which w-2 does `act`."""
    path = tmp_path / "contained.yaml"
    path.write_text(SCENARIO)
    kind = type("One", (Worker,), {"act": staticmethod(act)})
    return sim.run(path, kinds={"w": kind}, **options)


@pytest.mark.parametrize("where", ["on_start", "decide", "execute", "on_stop"])
@pytest.mark.parametrize("error", [Planted, GeneratorExit, SystemExit, ValueError])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_an_error_of_any_kind_in_any_hook_is_counted(where: str, error: type[BaseException], mode: str) -> None:
    """What an agent raises, also if it is no `Exception`, is counted as a failure and named with its agent."""
    lab = Lab()
    loop = lab.add("a", None, Hooks)
    agent = loop.agent
    assert isinstance(agent, Hooks)
    agent.where, agent.error = where, error
    other = lab.add("b", lambda agent: NOOP)
    if mode == "tick":
        lab.tick()
    else:
        loop.start_now()
        other.start_now()
    lab.at(3.5, lambda: loop.request_stop("test"))
    lab.run(10)
    assert loop.failures >= 1
    assert lab.manager.totals().errors == loop.failures == sum(count for count, _ in lab.world.errors.values())
    assert {first for _, first in lab.world.errors.values()} == {"a"}
    assert other.failures == 0
    assert other.iteration_count >= 9


@pytest.mark.slow
def test_what_is_no_exception_crashes_the_agent_with_its_reason(tmp_path: Path) -> None:
    """An agent that raises a BaseException is stopped as crashed; the result of the run counts and names it."""

    def act(agent: Worker) -> None:
        raise Planted("went wrong")

    result = run_with(tmp_path, act)
    assert (result.status, result.errors, result.states["stopped"]) == ("finished", 1, 1)
    assert result.commonest_error == "1 x Planted: went wrong (first in w-2)"
    assert result.iterations == 1 + 2 * 10


def test_an_abandoned_agent_is_counted() -> None:
    """An agent that is given up because it swallows its cancellation counts as an error that names it."""
    lab = Lab()

    async def deaf(agent: Script) -> None:
        for _ in range(1000):
            with contextlib.suppress(Cancelled):
                await sim.sleep(1)

    loop = lab.add("a", deaf, started=True)
    lab.run(2.5)
    with lab.kernel.acting_as(lab.kernel.scenario):
        loop.request_stop("test")
        loop.cancel()
    lab.run(4)
    assert loop.stopped
    assert loop.failures == 1
    assert "swallowing" in next(iter(lab.world.errors))


@pytest.mark.parametrize("error", [Unprintable(), ValueError("half \ud800 of a pair")])
def test_an_error_whose_text_cannot_be_recorded_is_contained(tmp_path: Path, error: Exception) -> None:
    """An error without a text, or with a text that is not Unicode, fails its agent's iterations and not the run."""

    def act(agent: Worker) -> None:
        raise error

    result = run_with(tmp_path, act, out=tmp_path / "runs")
    assert (result.status, result.errors) == ("finished", 3)
    assert "(first in w-2)" in (result.commonest_error or "")


def test_ctrl_c_in_an_agent_interrupts_the_run(tmp_path: Path) -> None:
    """KeyboardInterrupt that is raised while an agent's code runs ends the run, as Ctrl-C there does."""

    def act(agent: Worker) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with(tmp_path, act)


@pytest.mark.parametrize("hook", ["decide", "on_stop", "on_start"])
def test_running_out_of_memory_names_the_agent(hook: str) -> None:
    """MemoryError in an agent's hook ends the run with an error that names the agent, whoever stops it."""
    lab = Lab()
    loop = lab.add("a", None, Hooks, started=True)
    agent = loop.agent
    assert isinstance(agent, Hooks)
    agent.where, agent.error = hook, MemoryError
    lab.at(3, lambda: loop.request_stop("test"))
    with pytest.raises(RunError, match=r"^a ran out of memory: planted"):
        lab.run(10)


def test_a_run_that_ran_out_of_memory_says_so(tmp_path: Path) -> None:
    """The record of a run in which an agent ran out of memory is closed as failed, with the agent's name."""

    def act(agent: Worker) -> None:
        agent.state["big"] = bytearray(2**62)

    with pytest.raises(RunError, match="w-2 ran out of memory"):
        run_with(tmp_path, act, out=tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()
    with open_run(folder) as run:
        assert run.info.status == "failed"
        assert run.info.summary is not None
        assert "w-2 ran out of memory" in run.info.summary["error"]


NOT_JSON = [
    ({1, 2}, "state['friends'] is a set, which is not JSON"),
    (Thing(), "state['friends'] is a Thing, which is not JSON"),
    (float("nan"), "state['friends'] is nan, which is not JSON"),
    ({1: 2}, "state['friends'] has a key that is an int, and keys must be text"),
    ([{"x": [Thing]}], "state['friends'][0]['x'][0] is a type, which is not JSON"),
    ("\ud800", "state['friends'] is text with half a surrogate pair, which is not JSON"),
]


@pytest.mark.parametrize(("value", "fault"), NOT_JSON)
def test_a_state_that_is_not_json_fails_its_agent_only(tmp_path: Path, value: object, fault: str) -> None:
    """What is not JSON in a state fails that agent's iterations with the key named; the run ends well, as a replay."""

    def act(agent: Worker) -> None:
        agent.state["friends"] = value

    kind = {"w": type("One", (Worker,), {"act": staticmethod(act)})}
    result = run_with(tmp_path, act, out=tmp_path / "runs")
    assert result.status == "finished"
    assert result.errors > 0
    assert result.commonest_error is not None
    assert fault in result.commonest_error
    assert "use finite numbers" in result.commonest_error
    assert "first in w-2" in result.commonest_error
    assert result.iterations >= 20
    assert sim.replay(result.run or "", kinds=kind).same


def test_a_state_that_contains_itself_fails_its_agent_only(tmp_path: Path) -> None:
    """A list in a state that contains itself is named, and the run ends well."""

    def act(agent: Worker) -> None:
        loop: list[Any] = []
        loop.append(loop)
        agent.state["friends"] = loop

    result = run_with(tmp_path, act, out=tmp_path / "runs")
    assert result.errors > 0
    assert "state contains itself, or is nested too deeply" in (result.commonest_error or "")


def test_what_is_put_deep_into_a_state_is_found_at_the_end_at_the_latest(tmp_path: Path) -> None:
    """An object that is put into a list of the state between two looks inside counts as an error when the run ends."""

    def act(agent: Worker) -> None:
        agent.state.setdefault("list", [])
        if agent.state["n"] == 9:
            agent.state["list"].append(Thing())

    result = run_with(tmp_path, act, out=tmp_path / "runs")
    assert (result.status, result.errors) == ("finished", 1)
    assert "state['list'][0] is a Thing" in (result.commonest_error or "")


def test_the_state_of_an_agent_that_is_no_dict_is_contained(tmp_path: Path) -> None:
    """A state that was replaced by an object fails its agent only."""

    def act(agent: Worker) -> None:
        agent.state = Thing() if agent.state["n"] > 1 else agent.state  # type: ignore[assignment]

    result = run_with(tmp_path, act, out=tmp_path / "runs")
    assert result.status == "finished"
    assert result.errors > 0


RECORDS: dict[str, tuple[Callable[[Worker], object], str]] = {
    "event": (lambda agent: agent.world.event_bus.publish("a.b", {"x": {1: 2}}), "['x'] has a key that is an int"),
    "publish": (lambda agent: agent.world.act(agent, Action("publish", {"topic": "a", "data": [Thing()]})), "a Thing"),
    "task": (lambda agent: agent.world.act(agent, Action("create_task", {"title": "t", "data": Thing()})), "a Thing"),
    "object observed": (lambda agent: agent.world.observe(agent.agent_id, "x", Thing()), "TypeError"),  # type: ignore[arg-type]
    "infinity observed": (lambda agent: agent.world.observe(agent.agent_id, "x", float("inf")), "a finite number"),
    "name of an observation": (lambda agent: agent.world.observe(agent.agent_id, 7, 1), "a finite number"),  # type: ignore[arg-type]
    "condition": (
        lambda agent: agent.loop.sleep(WakeCondition.event("a.b", where="x > 1", given={"x": Thing()})), "is a Thing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", RECORDS)
def test_what_is_recorded_and_not_json_fails_its_agent_only(tmp_path: Path, what: str) -> None:
    """Data of events, tasks, observations and conditions that is not JSON fails the iteration, and is named."""
    act, fault = RECORDS[what]
    result = run_with(tmp_path, act, out=tmp_path / "runs")
    assert result.status == "finished"
    assert result.errors > 0
    assert fault in (result.commonest_error or "")
    assert "first in w-2" in (result.commonest_error or "")


def test_what_a_pool_holds_and_is_not_json_fails_no_run(tmp_path: Path) -> None:
    """A store with an object that is no JSON is recorded as such in the state at the end."""

    def act(agent: Worker) -> None:
        if "box" not in agent.world.pools:
            agent.world.pools["box"] = box = sim.Store[object](agent.world.kernel, 5)
            box.put_nowait(Thing())

    result = run_with(tmp_path, act, out=tmp_path / "runs")
    assert result.status == "finished"
    with open_run(Path(result.run or "")) as run:
        assert run.info.digest is not None
        assert run.info.digest["pools"]["box"] == {"not_json": "box['items'][0] is a Thing, which is not JSON"}


def test_an_event_of_the_kernel_that_cannot_be_recorded_is_named() -> None:
    """An event that is refused by the recorder is named with its actor and topic."""
    lab = Lab()
    lab.add("a", lambda agent: lab.kernel.emit("odd.event", Thing()), started=True)  # type: ignore[arg-type, return-value]
    lab.kernel.run(10**9)
    with pytest.raises(
        sim.SimError, match=r"an event of a with topic odd.event cannot be recorded: its data is a Thing"
    ):
        lab.rows()


def test_states_that_are_json_cost_no_error() -> None:
    """What is JSON in a state, tuples and text of any language included, is no failure."""
    lab = Lab()

    def step(agent: Script) -> Action:
        agent.state.update(a=1, b=2.5, c="é", d=None, e=True, f=[1, (2, {"x": "日本"})], g={"k": []})
        return NOOP

    loop = lab.add("a", step, started=True)
    lab.run(40)
    assert (loop.failures, loop.state) == (0, AgentState.RUNNING)


@pytest.mark.parametrize("hook", ["on_stop", "on_error"])
def test_an_async_hook_that_nothing_awaits_is_refused(hook: str) -> None:
    """An agent class whose `on_stop` or `on_error` is async is refused by name: the hook would never run."""

    async def late(*args: object) -> None:
        pass

    lab = Lab()
    with pytest.raises(sim.UsageError, match=f"^Odd.{hook} is async, but nothing can wait for it"):
        lab.add("a", kind=type("Odd", (Script,), {hook: late}))
    assert "a" not in lab.world.agents
