"""Applies the calls of the host program, and of people outside, inside the run.

There is one function for each kind of input, so that a replay can apply recorded inputs again. A function that returns
text refuses the call: the text is the reason.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.actors.state import AgentState, PauseReason
from sim.errors import UsageError
from sim.kernel import Outcome
from sim.kernel.codec import freeze
from sim.kernel.effects import EffectHandle
from sim.text import recordable_text
from sim.world import Message
from sim.world.action import Refused, near
from sim.world.actions.messages import deliver

if TYPE_CHECKING:
    from sim.actors.loop import AgentLoop
    from sim.actors.manager import AgentLoopManager

PERSON: Final = "person"
"""The sender of messages from people outside the run. Text never decides who the sender is."""

_ENDED = (AgentState.STOPPING, AgentState.STOPPED)


@attrs.frozen
class PersonAnswer:
    """What came of something that a person asked for.

    Attributes:
        time_ns: when it was applied, in simulated nanoseconds.
        refused: why it was refused; None if it was done.
    """

    time_ns: int
    refused: str | None = None


class Inputs:
    """Registers and applies the inputs that concern the loops of one manager."""

    def __init__(self, manager: "AgentLoopManager") -> None:
        self._manager = manager
        self._effects = manager.world.kernel.effects
        world = manager.world
        for kind in ("publish", "send", "tell", "person", "create_loop", "spawn", "remove_loop"):
            world.on_input(kind, getattr(self, kind))
        for kind in ("pause_all", "resume_all", "stop_all"):
            world.on_input(kind, getattr(self, kind))
        for kind in ("wake", "pause", "resume", "start", "stop", "effect.doubt", "effect.decision"):
            world.on_input(kind, getattr(self, kind.rpartition(".")[2]))
        world.kernel.placed["effect.doubt"] = self.hold

    def publish(self, data: Mapping[str, Any]) -> str | None:
        """Publish an event, unless it has too much data."""
        try:
            self._manager.world.event_bus.publish(data["topic"], data["data"])
        except UsageError as error:
            return str(error)
        return None

    def wake(self, data: Mapping[str, Any]) -> None:
        """Wake a sleeping agent."""
        if loop := self._loop(data["agent"]):
            loop.wake()

    def pause(self, data: Mapping[str, Any]) -> str | None:
        """Pause an agent until `resume`."""
        loop = self._loop(data["agent"])
        if loop is None or loop.state in _ENDED:
            return self._gone(data["agent"])
        loop.pause()
        return None

    def resume(self, data: Mapping[str, Any]) -> str | None:
        """End the pause of an agent."""
        loop = self._loop(data["agent"])
        if loop is None or loop.state in _ENDED:
            return self._gone(data["agent"])
        if loop.resume():
            return None
        if loop.pause_reason is PauseReason.RESOURCES:
            return f"{loop.agent_id} waits for resources, and goes on when they are there"
        return f"{loop.agent_id} is not paused"

    def pause_all(self, _: object) -> None:
        """Pause all agents, and let simulated time stand still, until `resume_all`."""
        self._manager.world.on_hold = True
        self._manager.world.kernel.pause()  # so that the host sees it before time passes
        for loop in list(self._manager.loops.values()):
            loop.pause()

    def resume_all(self, _: object) -> str | None:
        """Let simulated time pass again, and end all pauses by an operator."""
        world = self._manager.world
        ended, world.on_hold = world.on_hold, False
        for loop in list(self._manager.loops.values()):
            ended |= loop.end_pause()
        return None if ended else "nothing is paused"

    def stop_all(self, _: object) -> None:
        """Stop all agents, each after its current iteration, if there is one."""
        self._manager.world.on_hold = False  # otherwise an iteration that takes time would never end
        self._manager.request_stop_all()

    def start(self, data: Mapping[str, Any]) -> None:
        """Start a stopped agent; one that is stopping starts when it has stopped."""
        if loop := self._loop(data["agent"]):
            if loop.state is AgentState.STOPPING:
                loop.on_stopped = partial(self._start_stopped, loop.on_stopped)
            else:
                self._start_stopped(loop.on_stopped, loop)

    def _start_stopped(self, on_stopped: "Callable[[AgentLoop], None] | None", loop: "AgentLoop") -> None:
        loop.on_stopped = on_stopped
        loop.agent.alive = True
        self._manager.start(loop)

    def create_loop(self, data: Mapping[str, Any]) -> None:
        """Create an agent of a registered kind and start it; record a refusal with its reason."""
        world = self._manager.world
        try:
            loop = self._manager.create_loop(self._manager.kinds[data["kind"]](data["agent"], world))
        except UsageError as error:
            world.kernel.emit("agent.refused", {"agent": data["agent"], "reason": recordable_text(str(error))})
        else:
            self._manager.start(loop)

    def spawn(self, data: Mapping[str, Any]) -> None:
        """Start copies of an entry of the scenario; record a refusal with its reason."""
        world = self._manager.world
        try:
            self._manager.entries[data["agent"]](data["count"], data["state"])
        except Refused as refusal:
            world.kernel.emit("agent.refused", {"agent": data["agent"], "reason": str(refusal)})

    def remove_loop(self, data: Mapping[str, Any]) -> None:
        """Stop an agent and remove it from the world."""
        if self._loop(data["agent"]):
            self._manager.remove_loop(data["agent"])

    def send(self, data: Mapping[str, Any]) -> str | None:
        """Deliver a message from the host to an agent; record a refusal with its reason."""
        return self._deliver("host", data["agent"], data["topic"], data["data"])

    def tell(self, data: Mapping[str, Any]) -> str | None:
        """Deliver the words of a person to an agent; record a refusal with its reason."""
        if PERSON in self._manager.world.agents:
            return f"an agent is called {PERSON!r}, so nobody could tell its messages from those of a person"
        return self._deliver(PERSON, data["agent"], data["topic"], data["text"])

    def _deliver(self, sender: str, agent_id: str, topic: str, data: Any) -> str | None:
        world = self._manager.world
        why = deliver(world, Message(sender, agent_id, topic, freeze(data), world.kernel.now))
        if why is not None:
            world.kernel.emit("message.refused", {"to": agent_id, "topic": topic, "reason": why})
        return why

    def person(self, data: Mapping[str, Any]) -> None:
        """Apply what a person asked for in the inbox of the run, and keep what came of it."""
        world = self._manager.world
        why = world.kernel.inputs[data["kind"]](data["data"])
        self._manager.answers[data["row"]] = PersonAnswer(world.kernel.now, why if isinstance(why, str) else None)

    def stop(self, data: Mapping[str, Any]) -> str | None:
        """Stop an agent after its current iteration, if there is one."""
        loop = self._loop(data["agent"])
        if loop is None or loop.state in _ENDED:
            return self._gone(data["agent"])
        loop.agent.shutdown()
        return None

    def hold(self, data: Mapping[str, Any]) -> None:
        """Hold an effect whose outcome a crash made unknown: its outcome is not awaited until a person decides."""
        handle = self._ticket(data)
        if handle is not None and not handle.held:
            self._effects.hold(handle)

    def doubt(self, data: Mapping[str, Any]) -> None:
        """Pause the agent of a held effect until a person decides."""
        handle = self._ticket(data)
        if handle is not None and handle.held and (loop := self._loop(handle.actor.name)):
            loop.await_approval(f"effect {handle.ordinal}")

    def decision(self, data: Mapping[str, Any]) -> None:
        """Apply the decision of a person about an in-doubt effect: retry it, or settle it as done or failed."""
        handle = self._ticket(data)
        if handle is None or not handle.held:
            return
        if loop := self._loop(handle.actor.name):
            loop.approved()
        if data["decision"] == "retry":
            self._effects.again(handle)
        elif data["decision"] == "done":
            self._effects.settle(handle, Outcome("ok", data["value"]))
        else:
            failure = {"type": "Failed", "message": "after a crash, a person declared it failed"}
            self._effects.settle(handle, Outcome("error", failure))

    def _gone(self, agent_id: str) -> str:
        loops = self._manager.loops
        if agent_id in loops:
            return f"{agent_id} has stopped"
        return f"there is no agent {agent_id!r} any more{near(agent_id, loops)}"

    def _loop(self, agent_id: str) -> "AgentLoop | None":
        return self._manager.get_loop(agent_id)

    def _ticket(self, data: Mapping[str, Any]) -> EffectHandle | None:
        return self._effects.in_flight.get((data["actor"], data["ordinal"]))
