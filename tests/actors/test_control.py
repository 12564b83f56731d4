"""What a host program may do to a run from outside, before it, between two parts of it and during it."""

import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import sim
from sim.record import HashRecorder
from tests.helpers import named


class Idle(sim.Agent):
    """Does nothing, and notes the messages that it got."""

    async def decide_action(self) -> None:
        while (message := self.mailbox.take()) is not None:
            self.state[message.topic] = [message.sender, message.data]


def _run(calls: Callable[[sim.Control, sim.AgentLoopManager], Any]) -> tuple[sim.AgentLoopManager, HashRecorder]:
    """Run agents `alice` and `bob` for 5 s, make the calls, and run on to 10 s."""
    recorder = HashRecorder(keep=True)
    world = sim.World(1, recorder=recorder)
    manager = sim.AgentLoopManager(world)
    manager.kinds["idle"] = Idle

    async def main() -> None:
        for name in ("alice", "bob"):
            await manager.create_loop(Idle(name, world)).start()
        await world.run(until=5)
        calls(sim.Control(manager), manager)
        await world.run(until=10)

    anyio.run(main)
    recorder.flush()
    return manager, recorder


def test_stop_all_between_two_parts_of_a_run() -> None:
    """`stop_all` is a recorded input: it stops all agents when the run continues."""
    manager, recorder = _run(lambda control, _: control.stop_all())
    assert manager.get_all_states() == {"alice": sim.AgentState.STOPPED, "bob": sim.AgentState.STOPPED}
    assert [(time, kind) for time, _, kind, _ in recorder.inputs] == [(5_000_000_000, "stop_all")]


def test_a_stopped_agent_can_be_started_again() -> None:
    """`start` after `stop` starts the loop again."""

    def calls(control: sim.Control, _: sim.AgentLoopManager) -> None:
        control.stop("alice")
        control.start("alice")

    manager, _ = _run(calls)
    loop = manager.loops["alice"]
    assert loop.state is sim.AgentState.RUNNING
    assert loop.iteration_count > 90


def test_loops_are_made_and_removed() -> None:
    """`create_loop` makes and starts an agent of a known kind; `remove_loop` takes one out of the world."""

    def calls(control: sim.Control, _: sim.AgentLoopManager) -> None:
        control.create_loop("idle", "carol")
        control.remove_loop("bob")

    manager, recorder = _run(calls)
    assert list(manager.get_all_states()) == ["alice", "carol"]
    assert manager.loops["carol"].iteration_count > 40
    assert manager.states()["stopped"] == 1
    assert [row.kind for row in recorder.inputs] == ["create_loop", "remove_loop"]


def test_a_name_that_is_taken_meanwhile_is_recorded() -> None:
    """Of two calls that make an agent of one name the second is refused in the record, and the run continues."""

    def calls(control: sim.Control, _: sim.AgentLoopManager) -> None:
        control.create_loop("idle", "carol")
        control.create_loop("idle", "carol")

    manager, recorder = _run(calls)
    assert list(manager.get_all_states()) == ["alice", "bob", "carol"]
    refused: list[Any] = [row.data for row in named(recorder.rows) if row.topic == "agent.refused"]
    assert [data["agent"] for data in refused] == ["carol"]


def test_the_host_sends_a_message() -> None:
    """`send` puts a message from `host` into the mailbox."""
    manager, _ = _run(lambda control, _: control.send("bob", {"n": 1}, topic="greeting"))
    assert manager.loops["bob"].agent.state == {"greeting": ["host", {"n": 1}]}


@pytest.mark.parametrize("call", ["wake", "pause", "resume", "start", "stop", "send", "remove_loop"])
def test_an_unknown_agent_is_refused(call: str) -> None:
    """A call for an agent that does not exist is refused at once, with the nearest name."""

    def calls(control: sim.Control, _: sim.AgentLoopManager) -> None:
        with pytest.raises(sim.UsageError, match=r"there is no agent 'alise' to \w+; did you mean 'alice'\?"):
            getattr(control, call)("alise")

    _run(calls)


def test_an_unknown_kind_or_a_taken_name_is_refused() -> None:
    """`create_loop` refuses at once a kind that the program has not named, and a name that is taken."""

    def calls(control: sim.Control, _: sim.AgentLoopManager) -> None:
        with pytest.raises(sim.UsageError, match=r"there is no kind of agent 'idel'; did you mean 'idle'\?"):
            control.create_loop("idel", "carol")
        with pytest.raises(sim.UsageError, match="the name 'bob' is already in use"):
            control.create_loop("idle", "bob")

    _run(calls)


def test_the_hint_names_what_exists() -> None:
    """A direct call from outside is refused, and each method that the hint names exists."""

    def calls(_: sim.Control, manager: sim.AgentLoopManager) -> None:
        with pytest.raises(sim.SimError) as caught:
            manager.loops["alice"].request_stop("x")
        named = str(caught.value.hint).partition("(")[2].partition(")")[0].split(", ")
        assert all(hasattr(sim.Control, name) for name in named if name != "...")
        methods = re.findall(r"world\.(\w+)\(", str(caught.value.hint))
        assert methods == ["on_input", "submit"]
        assert all(hasattr(sim.World, name) for name in methods)

    _run(calls)
