"""Applies the calls of the host program inside the run.

There is one function for each kind of input, so that a replay can apply recorded inputs again.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sim.actors.state import AgentState
from sim.errors import UsageError
from sim.kernel import Outcome
from sim.kernel.codec import freeze
from sim.kernel.effects import EffectHandle
from sim.world import Message
from sim.world.action import Refused
from sim.world.actions.messages import deliver

if TYPE_CHECKING:
    from sim.actors.loop import AgentLoop
    from sim.actors.manager import AgentLoopManager


class Inputs:
    """Registers and applies the inputs that concern the loops of one manager."""

    def __init__(self, manager: "AgentLoopManager") -> None:
        self._manager = manager
        self._effects = manager.world.kernel.effects
        world = manager.world
        world.on_input("publish", lambda data: world.event_bus.publish(data["topic"], data["data"]))
        world.on_input("stop_all", lambda _: manager.request_stop_all())
        for kind in ("send", "create_loop", "spawn", "remove_loop"):
            world.on_input(kind, getattr(self, kind))
        for kind in ("wake", "pause", "resume", "start", "stop", "effect.doubt", "effect.decision"):
            world.on_input(kind, getattr(self, kind.rpartition(".")[2]))
        world.kernel.placed["effect.doubt"] = self.hold

    def wake(self, data: Mapping[str, Any]) -> None:
        """Wake a sleeping agent."""
        if loop := self._loop(data["agent"]):
            loop.wake()

    def pause(self, data: Mapping[str, Any]) -> None:
        """Pause an agent until `resume`."""
        if loop := self._loop(data["agent"]):
            loop.pause()

    def resume(self, data: Mapping[str, Any]) -> None:
        """End the pause of an agent."""
        if loop := self._loop(data["agent"]):
            loop.resume()

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
            world.kernel.emit("agent.refused", {"agent": data["agent"], "reason": str(error)})
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

    def send(self, data: Mapping[str, Any]) -> None:
        """Deliver a message from the host to an agent; record a refusal with its reason."""
        world = self._manager.world
        note = {"to": data["agent"], "topic": data["topic"]}
        why = deliver(world, Message("host", data["agent"], data["topic"], freeze(data["data"]), world.kernel.now))
        if why is not None:
            world.kernel.emit("message.refused", {**note, "reason": why})

    def stop(self, data: Mapping[str, Any]) -> None:
        """Stop an agent after its current iteration, if there is one."""
        if loop := self._loop(data["agent"]):
            loop.agent.shutdown()

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

    def _loop(self, agent_id: str) -> "AgentLoop | None":
        return self._manager.get_loop(agent_id)

    def _ticket(self, data: Mapping[str, Any]) -> EffectHandle | None:
        return self._effects.in_flight.get((data["actor"], data["ordinal"]))
