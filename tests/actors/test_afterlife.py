"""What a program can do with an agent that has died, and methods that are replaced while an agent lives."""

import functools
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.actors import Agent, AgentLoopConfig, AgentLoopManager
from sim.agents import policy, toolbox
from sim.scenario.assembly.build import build
from sim.world import NOOP, Action, World

BIRTHS = """
name: births
until: 5s
execution: {agent_loop: {min_loop_delay: 1s}}
agents:
  - {name: door, rules: [{when: iteration == 1, do: {spawn: {agent: child}}}, {do: noop}]}
  - {name: child, template: true, rules: [{do: stop}]}
"""


def _run(built: Any, seconds: int) -> None:
    kernel, manager = built.world.kernel, built.world.loop_manager
    for loop in manager.loops.values():
        with kernel.acting_as(loop.actor):
            manager.start(loop)
    kernel.run(seconds * 10**9)


def test_a_dead_agent_answers_and_is_shut_down_without_harm(tmp_path: Path) -> None:
    """A program that holds an agent cannot know whether it has died meanwhile: what it asks and sets raises nothing."""
    file = tmp_path / "births.yaml"
    file.write_text(BIRTHS)
    built: Any = build(sim.load(file))
    dead = list[Any]()
    built.world.loop_manager.on_forgotten = lambda loop: dead.append(loop.agent)
    _run(built, 3)
    (child,) = dead
    assert child.loop.stopped
    assert child.source is child.loop.actor
    assert child.state_for_digest()["loop"] is not None
    with built.world.kernel.acting_as(built.world.kernel.supervisor):
        child.shutdown()
        child.alive = False
    assert child.alive is False


PATCHED = """
name: patched
until: 5s
agents:
  - {name: one, state: {n: 0}, rules: [{when: "%s", do: stop}]}
"""


class Two(Agent):
    """Writes down that it decides, either way."""

    log: list[str]

    def decide_now(self) -> Action:
        self.log.append(self.agent_id)
        return NOOP

    async def decide_action(self) -> Action:
        return self.decide_now()


def _pair(kind: type[Any]) -> tuple[World, Any, Any]:
    world = World()
    manager = AgentLoopManager(world)
    ann, bob = kind("ann", world), kind("bob", world)
    for agent in (ann, bob):
        agent.log = []
        manager.create_loop(agent, AgentLoopConfig(min_loop_delay=1))
    return world, ann, bob


def test_an_agent_can_decide_by_the_method_of_another() -> None:
    """A method that an agent has from another agent of its class is that of the other."""
    world, ann, bob = _pair(Two)
    ann.decide_action = bob.decide_action
    ann.loop.start_now()
    world.kernel.run(2 * 10**9)
    assert ann.log == []
    assert len(bob.log) >= 2


@pytest.mark.parametrize("ticking", [False, True])
def test_a_patched_on_start_is_called(monkeypatch: pytest.MonkeyPatch, ticking: bool) -> None:
    """What takes the place of `Agent.on_start` is called, in either mode."""
    called = list[str]()

    async def on_start(self: Agent) -> None:
        called.append(self.agent_id)

    monkeypatch.setattr(Agent, "on_start", on_start)
    world, ann, _ = _pair(Two)
    if ticking:
        ann.loop.start_ticking()
        with world.kernel.acting_as(ann.loop.actor):
            ann.loop.turn()
    else:
        ann.loop.start_now()
    world.kernel.run(10**9)
    assert called == ["ann"]


@pytest.mark.parametrize("name", ["chance", "choice", "state_of"])
def test_a_patched_function_of_rules_is_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """Rules call what takes the place of a function, though the code of some functions is part of their own."""
    expression = {"chance": "chance(0.0)", "choice": "choice([1]) == 2", "state_of": "state_of(me, 'n') == 1"}[name]
    file = tmp_path / "patched.yaml"
    file.write_text(PATCHED % expression)
    original, calls = getattr(toolbox.Toolbox, name), list[str]()

    @functools.wraps(original)
    def mine(*arguments: Any) -> Any:
        calls.append(name)
        return original(*arguments)

    monkeypatch.setattr(toolbox.Toolbox, name, mine)
    sim.run(file, out=None)
    assert calls


def test_rules_subscribe_by_a_patched_on_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What takes the place of the `on_start` of agents with rules is called."""
    called = list[str]()

    async def on_start(self: Any) -> None:
        called.append(self.agent_id)

    monkeypatch.setattr(policy.PolicyAgent, "on_start", on_start)
    file = tmp_path / "births.yaml"
    file.write_text(BIRTHS)
    sim.run(file, out=None)
    assert called[:1] == ["door"]
