"""How little an agent takes while it sleeps."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import sim
from sim.actors import Agent, AgentLoopConfig, AgentLoopManager, WakeCondition
from sim.scenario.assembly.build import build
from sim.world import NOOP, Action, World

AGENTS = 500

RULES = """
name: sleepers
until: 10s
agents:
  - name: sleeper
    count: 500
    state: {a: 1, b: 2.0, c: false}
    rules:
      - {when: a > 3, do: noop, set: {a: "=a + 1"}}
      - do: {sleep: {for: 1h}}
"""


class Idler(Agent):
    async def decide_action(self) -> Action:
        return NOOP


def test_a_sleeping_agent_with_its_loop_takes_at_most_2500_bytes() -> None:
    """An agent of a class that sleeps until an event or a timeout takes at most 2,500 bytes, with its loop."""
    world = World()
    manager, config = AgentLoopManager(world), AgentLoopConfig(min_loop_delay=3600, max_loop_delay=3600)

    def settle() -> None:
        for number in range(AGENTS):
            manager.create_loop(Idler(f"a{number}", world), config).start_now()
        world.kernel.run(1)
        condition = WakeCondition.event("bell.rang", timeout=3600)
        with world.kernel.acting_as(world.kernel.supervisor):
            for loop in manager.loops.values():
                loop.sleep(condition)

    assert bytes_each(settle) <= 2500
    assert {loop.state for loop in manager.loops.values()} == {"sleeping"}


def test_a_sleeping_agent_with_rules_and_state_takes_at_most_3900_bytes(tmp_path: Path) -> None:
    """An agent with two rules and three variables that sleeps takes at most 3,900 bytes, with its loop."""
    file = tmp_path / "sleepers.yaml"
    file.write_text(RULES)
    scenario, built = sim.load(file), list[Any]()

    def settle() -> None:
        built.append(build(scenario))
        kernel, manager = built[0].world.kernel, built[0].world.loop_manager
        for loop in manager.loops.values():
            with kernel.acting_as(loop.actor):
                manager.start(loop)
        kernel.run(1)

    settle()  # what all agents share is made once
    built.clear()
    assert bytes_each(settle) <= 3900
    assert {loop.state for loop in built[0].world.loop_manager.loops.values()} == {"sleeping"}


def bytes_each(settle: Any) -> float:
    """Return how many bytes for each agent are taken by what `settle` makes."""
    gc.collect()
    tracemalloc.start()
    try:
        settle()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / AGENTS
    finally:
        tracemalloc.stop()
