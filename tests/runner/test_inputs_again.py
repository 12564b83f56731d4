"""What a host program did to a run from outside is done again from its record."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.store import open_run

WORLD = """\
name: hosted
seed: 3
until: 20s
execution: {agent_loop: {min_loop_delay: 1s}}
agents:
  - {name: host, kind: host}
  - {name: clerk, count: 3, kind: clerk}
"""


class Clerk(sim.Agent):
    """Notes its mail."""

    async def decide_action(self) -> None:
        while (message := self.mailbox.take()) is not None:
            self.state[message.topic] = message.data


class Desk(sim.Agent):
    """Outside, at its third turn, the host program acts on the run."""

    control: sim.Control | None = None

    async def decide_action(self) -> None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        if turn == 3:
            await sim.perform(sim.Effect("act", {}, self._act, latency_ns=10**9, safety="unsafe"))

    async def _act(self, request: Any, key: str) -> None:
        control = Desk.control
        assert control is not None, "a replay does nothing outside"
        control.stop("clerk-1")
        control.send("clerk-2", {"n": 1}, topic="greeting")
        control.create_loop("clerk", "late")
        control.remove_loop("clerk-3")
        control.pause("clerk-2")
        control.start("clerk-1")
        control.resume("clerk-2")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_replay_applies_the_inputs_on_record(tmp_path, mode, backend):
    """A replay stops, starts, messages, makes and removes agents as the host program did, and calls nothing outside."""
    path = tmp_path / "hosted.yaml"
    path.write_text(WORLD)
    kinds = {"host": Desk, "clerk": Clerk}

    def begun(runner):
        Desk.control = sim.Control(runner.simulation.manager)

    made = sim.run(path, mode=mode, kinds=kinds, out=tmp_path / "runs", begun=begun)
    Desk.control = None
    assert made.run is not None
    found = sim.replay(made.run, kinds=kinds, backend=backend)

    assert found.same, found.difference
    assert made.agents == 5
    assert made.states["running"] == 4
    with open_run(Path(made.run)) as stored:
        done = [kind for (kind,) in stored.query("SELECT kind FROM inputs")]
    assert done == ["stop", "send", "create_loop", "remove_loop", "pause", "start", "resume"]
