"""Families that keep their state in services only."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kernel import sleep
from tests.agents.renewed import renewed_agents

DESK = """name: desk
until: 10m
conversations: {}
memory: {}
tools:
  functions:
    orders.amount: {description: Look up., parameters: {id: {type: string}}, returns: "7"}
models:
  retry: {requests: 1}
  rules:
    - {result: observation, say: it is 7}
    - {text: bad, fail: overload}
    - {tool: orders.amount, call: {orders.amount: {id: a1}}}
agents:
  - name: customer
    count: 3
    state: {n: 0}
    loop: {min_loop_delay: 20s}
    rules:
      - when: n < 4
        set: {n: "=n + 1"}
        do: {post_message: {channel: desk, thread: "=me", text: "='bad order' if n == 2 else 'order'"}}
      - do: stop
  - name: helper
    count: 2
    kind: assistant
    settings: {instructions: Help., tools: [orders.amount], retries: 2}
"""
COUNTING = """name: counting
until: 10s
agents: [{name: ada, kind: counter, count: 2, loop: {min_loop_delay: 1s}}]
"""


class Counter(sim.Agent):
    """An agent that keeps a number in itself, which it should not."""

    count = 0

    async def decide_action(self) -> sim.Action:
        self.count += 1
        await sleep(0.1)
        return sim.Action("publish", {"topic": "counted", "data": {"count": self.count}})


class Careful(Counter):
    """An agent that keeps its number in its variables, which the record covers."""

    async def decide_action(self) -> sim.Action:
        self.state["count"] = self.state.get("count", 0) + 1
        await sleep(0.1)
        return sim.Action("publish", {"topic": "counted", "data": {"count": self.state["count"]}})


def _hash(folder: Path, text: str, **options: Any) -> str:
    file = folder / "scenario.yaml"
    file.write_text(text)
    result = sim.run(file, **options)
    assert result.errors == 0
    return result.hash


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_assistants_keep_nothing_in_themselves(tmp_path: Path, mode: Any) -> None:
    """Assistants that are made anew before each iteration answer, fail and try again as the old ones would."""
    plain = _hash(tmp_path, DESK, mode=mode)
    with renewed_agents() as replaced:
        assert _hash(tmp_path, DESK, mode=mode) == plain
    assert replaced.count("helper-1") > 5


def test_an_agent_that_remembers_by_itself_is_found(tmp_path: Path) -> None:
    """State in an agent object is lost, so the hash differs; state in its variables is not."""
    for kind, same in ((Counter, False), (Careful, True)):
        plain = _hash(tmp_path, COUNTING, kinds={"counter": kind})
        with renewed_agents() as replaced:
            assert (_hash(tmp_path, COUNTING, kinds={"counter": kind}) == plain) is same
        assert len(replaced) > 10
