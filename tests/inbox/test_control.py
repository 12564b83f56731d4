"""The verbs of people in `sim.Control`, for programs."""

import json
from collections.abc import Callable, Sequence

import anyio
import pytest

import sim
from sim.kernel import NS
from sim.record import HashRecorder


class Listener(sim.Agent):
    """Notes what it hears, once a second."""

    async def decide_action(self) -> None:
        while (message := self.mailbox.take()) is not None:
            self.state.setdefault("heard", []).append([message.sender, message.topic, message.data])
        self.loop.sleep(sim.WakeCondition.after_delay(1))


def _run(
    calls: Callable[[sim.Control, sim.World], object], backend: str, names: Sequence[str] = ("alice", "bob")
) -> tuple[sim.AgentLoopManager, HashRecorder]:
    """Run agents for 5 s, make the calls, and run on to 10 s."""
    recorder = HashRecorder(keep=True)
    world = sim.World(1, recorder=recorder)
    manager = sim.AgentLoopManager(world)

    async def main() -> None:
        for name in names:
            await manager.create_loop(Listener(name, world)).start()
        await world.run(until=5)
        calls(sim.Control(manager), world)
        await world.run(until=10)

    anyio.run(main, backend=backend)
    recorder.flush()
    return manager, recorder


@pytest.fixture(params=["asyncio", "trio"])
def backend(request):
    """Both libraries that can host a run."""
    return request.param


def test_tell_is_a_message_from_a_person(backend):
    """`tell` delivers text with the sender `person`, which no text decides."""
    manager, recorder = _run(lambda control, _: control.tell("alice", "I am the owner", topic="hint"), backend)
    assert manager.loops["alice"].agent.state["heard"] == [["person", "hint", "I am the owner"]]
    assert [(time, kind) for time, _, kind, _ in recorder.inputs] == [(5 * NS, "tell")]


def test_only_text_can_be_told():
    """Data of another type, and an unknown agent, are wrong usage; nothing is submitted."""

    def calls(control: sim.Control, _: sim.World) -> None:
        with pytest.raises(sim.UsageError, match="a person can tell text, not dict"):
            control.tell("alice", {"gate": 1})  # type: ignore[arg-type]
        with pytest.raises(sim.UsageError, match="no agent 'alise' to tell; did you mean 'alice'"):
            control.tell("alise", "x")
        with pytest.raises(sim.UsageError, match="nothing in this run waits for an approval"):
            control.approve("gate-1")

    _, recorder = _run(calls, "asyncio")
    assert recorder.inputs == []


def test_an_agent_cannot_pass_for_a_person(backend):
    """In a world with an agent that is called `person`, people tell nothing: its messages would look like theirs."""

    manager, recorder = _run(lambda control, _: control.tell("alice", "x"), backend, ("alice", "person"))
    assert "heard" not in manager.loops["alice"].agent.state
    assert len(recorder.inputs) == 1


def test_a_paused_world_stands_still(backend):
    """After `pause_all`, simulated time does not pass until `resume_all`, and agents that are awake are paused."""
    world = sim.World(1, recorder=HashRecorder(keep=True))
    manager = sim.AgentLoopManager(world)
    control = sim.Control(manager)
    seen: list[float] = []

    async def person() -> None:
        for _ in range(3):
            await anyio.sleep(0.1)
            seen.append(world.now)
        control.resume_all()

    async def main() -> None:
        await manager.create_loop(Listener("alice", world)).start()
        await world.run(until=5)
        control.pause_all()
        async with anyio.create_task_group() as group:
            group.start_soon(person)
            await world.run(until=10)

    anyio.run(main, backend=backend)
    assert seen == [5.0, 5.0, 5.0]
    assert world.now == 10.0
    assert not world.on_hold
    assert manager.get_all_states() == {"alice": sim.AgentState.SLEEPING}


def test_resume_all_ends_every_pause_of_an_operator():
    """`resume_all` ends the pauses of single agents too, those that have begun and those that were only asked for."""

    def calls(control: sim.Control, world: sim.World) -> None:
        control.pause("alice")
        control.pause_all()
        control.resume("alice")
        control.pause("alice")
        control.resume_all()

    manager, recorder = _run(calls, "asyncio")
    assert set(manager.get_all_states().values()) == {sim.AgentState.SLEEPING}
    assert manager.loops["alice"].iteration_count == manager.loops["bob"].iteration_count
    assert [kind for _, _, kind, _ in recorder.inputs] == ["pause", "pause_all", "resume", "pause", "resume_all"]


def test_stop_all_ends_a_pause(backend):
    """A paused run can be stopped: otherwise agents in an iteration would never come to its end."""

    def calls(control: sim.Control, _: sim.World) -> None:
        control.pause_all()
        control.stop_all()

    manager, _ = _run(calls, backend)
    assert set(manager.get_all_states().values()) == {sim.AgentState.STOPPED}


def test_inputs_of_people_are_json(backend):
    """What a person tells is recorded as JSON without raw control characters."""
    _, recorder = _run(lambda control, _: control.tell("alice", "\x1b[31m\x00\u202e"), backend)
    ((_, _, _, data),) = recorder.inputs
    assert json.dumps(data).isprintable()
