"""What calls from outside do: by kind, so that a run that is made again does it again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sim.kernel import Outcome
from sim.kernel.effects import Ticket

if TYPE_CHECKING:
    from sim.actors.lifecycle import Lifecycle
    from sim.actors.manager import AgentLoopManager


class Inputs:
    """The inputs that a manager of loops teaches its kernel."""

    def __init__(self, manager: "AgentLoopManager") -> None:
        self._manager = manager
        self._effects = manager.world.kernel.effects
        world = manager.world
        world.on_input("publish", lambda data: world.event_bus.publish(data["topic"], data["data"]))
        for kind in ("wake", "pause", "resume", "stop", "effect.doubt", "effect.decision"):
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
        """End an agent's pause."""
        if loop := self._loop(data["agent"]):
            loop.resume()

    def stop(self, data: Mapping[str, Any]) -> None:
        """Stop an agent for good; an iteration under way may end."""
        if loop := self._loop(data["agent"]):
            loop.agent.shutdown()

    def hold(self, data: Mapping[str, Any]) -> None:
        """After a crash nobody knows whether an effect was done: from here on nothing waits for its outcome."""
        ticket = self._ticket(data)
        if ticket is not None and not ticket.held:
            self._effects.hold(ticket)

    def doubt(self, data: Mapping[str, Any]) -> None:
        """The agent of an effect that is held is paused until a person has decided."""
        ticket = self._ticket(data)
        if ticket is not None and ticket.held and (loop := self._loop(ticket.actor.name)):
            loop.await_approval(f"effect {ticket.ordinal}")

    def decision(self, data: Mapping[str, Any]) -> None:
        """A person has decided what becomes of an effect in doubt: do it (again), it was done, or it failed."""
        ticket = self._ticket(data)
        if ticket is None or not ticket.held:
            return
        if loop := self._loop(ticket.actor.name):
            loop.approved()
        if data["decision"] == "retry":
            self._effects.again(ticket)
        elif data["decision"] == "done":
            self._effects.settle(ticket, Outcome("ok", data["value"]))
        else:
            failure = {"type": "Failed", "message": "after a crash, a person declared it failed"}
            self._effects.settle(ticket, Outcome("error", failure))

    def _loop(self, agent_id: str) -> "Lifecycle | None":
        return self._manager.get_loop(agent_id)

    def _ticket(self, data: Mapping[str, Any]) -> Ticket | None:
        return self._effects.in_flight.get((data["actor"], data["ordinal"]))
