"""Actions that take no time go straight to the world; who watches them, or returns something odd, must not notice."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim.actors import Agent
from sim.cli.render.snapshot import take_snapshot
from sim.record import open_run
from sim.runner import RunResult, run
from sim.world import NOOP, Action, ActionResult, World
from sim.world.action import ActionHandler

TEXT = "name: watched\nseed: 1\nuntil: 4s\nagents: [{name: x, kind: x, loop: {min_loop_delay: 1s}}]\n"


class Fine(Agent):
    """Does nothing, once a second."""

    async def decide_action(self) -> Action | None:
        return NOOP


def make(kind: type[Agent], folder: Path, **options: Any) -> RunResult:
    """Run one agent of a class for four seconds."""
    file = folder / "watched.yaml"
    file.write_text(TEXT)
    return run(file, kinds={"x": kind}, **options)


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("where", ["agents", "worlds", "on_start"])
def test_whoever_watches_actions_sees_them_all(tmp_path, monkeypatch, mode, where):
    """`execute_action`, or the world's `execute`, may be replaced: in the class from outside, or in an object."""
    seen: list[str] = []
    of_agents, of_worlds = Agent.execute_action, World.execute

    async def by_agent(self: Agent, action: Action) -> ActionResult:
        seen.append(action.kind)
        return await of_agents(self, action)

    async def by_world(self: World, agent: Agent, action: Action) -> ActionResult:
        seen.append(action.kind)
        return await of_worlds(self, agent, action)

    class Own(Fine):
        async def on_start(self) -> None:
            if where == "on_start":
                monkeypatch.setattr(self, "execute_action", lambda action: by_agent(self, action), raising=False)

    if where == "agents":
        monkeypatch.setattr(Agent, "execute_action", by_agent)
    if where == "worlds":
        monkeypatch.setattr(World, "execute", by_world)
    result = make(Own, tmp_path, mode=mode)
    assert len(seen) == result.iterations == 4


class Mutable(msgspec.Struct):
    """What a handler should not return, and may."""

    n: Any


def returning(value: Any) -> type[Agent]:
    """Return a class of agents whose action returns `value(n)`, n counting from 1."""

    class Odd(Agent):
        async def on_start(self) -> None:
            self.n = 0
            self.world.actions.register(ActionHandler("odd", self._apply))

        def _apply(self, world: Any, agent: Any) -> Any:
            self.n += 1
            return value(self.n)

        async def decide_action(self) -> Action | None:
            return Action("odd")

    return Odd


def test_a_result_is_recorded_as_it_is_at_that_moment(tmp_path):
    """What a handler returns may change afterwards; what was recorded does not."""
    kept = Mutable(0)

    def change(n: int) -> Mutable:
        kept.n = n
        return kept

    result = make(returning(change), tmp_path, out=tmp_path / "runs")
    assert result.run is not None
    with open_run(Path(result.run)) as stored:
        told: list[Any] = [row.data for row in stored.events() if row.topic == "action.odd"]
    assert [data["result"]["n"] for data in told] == [1, 2, 3, 4]


@pytest.mark.parametrize("value", [object(), Mutable(object()), "\ud800", [Mutable("\ud800")]])
def test_a_result_that_is_not_json_fails_the_iteration(tmp_path, value):
    """It is an error of the agent, not of the run; nothing is recorded of the action, so it does not count as done."""
    result = make(returning(lambda n: value), tmp_path)
    assert (result.status, result.actions, result.errors > 0) == ("finished", 0, True)


def test_a_reason_that_is_not_json_fails_the_iteration(tmp_path):
    """So does a reason, with an action whose result is known to be fine."""

    class Broken(Agent):
        async def decide_action(self) -> Action | None:
            return Action("write", {"artifact": "a", "content": 1}, "\ud800")

    result = make(Broken, tmp_path)
    assert (result.status, result.actions, result.errors > 0) == ("finished", 0, True)


def test_the_live_view_shows_what_cannot_be_recorded_without_its_data(tmp_path):
    """Looking on ends no run, whatever an agent has emitted a moment ago."""
    lines: list[str] = []

    class Emits(Agent):
        async def decide_action(self) -> Action | None:
            self.world.kernel.emit("odd", Mutable(object()))
            self.world.kernel.emit("even", Mutable(2))
            return None

    def look(runner: Any) -> None:
        lines.extend(take_snapshot(runner).newest)
        rows = runner.simulation.world.kernel.recorder._rows
        rows[:] = [row for row in rows if row[6] != "odd"]

    make(Emits, tmp_path, progress=look)
    assert any("odd" in line for line in lines)
    assert any(json.dumps({"n": 2}, separators=(",", ":")) in line for line in lines)
