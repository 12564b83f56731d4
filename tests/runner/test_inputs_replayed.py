"""What a host program did to a run from outside is done again from its record."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.record import open_run

WORLD = """\
name: hosted
seed: 3
until: 20s
execution: {agent_loop: {min_loop_delay: 1s}}
agents:
  - {name: host, kind: host}
  - {name: clerk, count: 3, kind: clerk}
  - name: temp
    template: true
    state: {desk: "=index + 1", days: 5}
    rules: [{record: {desk: "=desk", days: "=days"}, do: {sleep: {event: noon}}}]
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
        control.spawn("temp", 2, state={"days": 1})
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
    assert made.agents == 7
    assert (made.states["running"], made.states["sleeping"]) == (4, 2)
    with open_run(Path(made.run)) as stored:
        done = [kind for (kind,) in stored.query("SELECT kind FROM inputs")]
    assert done == ["stop", "send", "create_loop", "spawn", "remove_loop", "pause", "start", "resume"]


def _spawn(path: Path, *args: Any, **options: Any) -> sim.RunResult:
    """Run with one call of `Control.spawn` before the run."""
    path.write_text(WORLD.replace("name: host, kind: host", "name: host, kind: clerk"))

    def begun(runner: Any) -> None:
        sim.Control(runner.simulation.manager).spawn(*args, **options)

    return sim.run(path, kinds={"clerk": Clerk}, out=path.parent / "runs", begun=begun)


def test_spawned_agents_have_names_and_state(tmp_path):
    """Agents from an entry of the scenario are named after it and the host, with the state that the call gives."""
    result = _spawn(tmp_path / "hosted.yaml", "temp", 2, state={"days": 1})

    assert result.run is not None
    with open_run(Path(result.run)) as stored:
        assert [row.actor for row in stored.events() if row.topic == "action.sleep"] == ["temp-host-1", "temp-host-2"]
    desk, days = result.observations["desk"], result.observations["days"]
    assert (desk.minimum, desk.maximum, days.minimum, days.maximum) == (1, 2, 1, 1)


def test_a_wrong_entry_is_refused_at_once(tmp_path):
    """An entry that the scenario does not have is refused by name, with the nearest one."""
    with pytest.raises(sim.UsageError, match="no entry 'tmep' in agents; did you mean 'temp'"):
        _spawn(tmp_path / "hosted.yaml", "tmep")


def test_what_cannot_be_spawned_is_recorded(tmp_path):
    """A call that cannot be applied changes nothing, and an event of the run says why."""
    result = _spawn(tmp_path / "hosted.yaml", "temp", state={"weeks": 1})

    assert result.agents == 4
    assert result.run is not None
    with open_run(Path(result.run)) as stored:
        (refused,) = [row for row in stored.events() if row.topic == "agent.refused"]
    assert refused[7] == {"agent": "temp", "reason": "temp has no state variable 'weeks'"}
