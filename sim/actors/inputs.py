"""Applies the calls of the host program, and of people outside, inside the run.

There is one function for each kind of input, so that a replay can apply recorded inputs again. A function that returns
text refuses the call: the text is the reason.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict

import attrs

from sim.actors.events import AgentRefused
from sim.actors.state import AgentState, PauseReason
from sim.actors.wake import WakeCondition
from sim.base.errors import TransitionError, UsageError
from sim.base.text import recordable_text
from sim.events.topic import check_free
from sim.kernel import Actor, Outcome, to_duration
from sim.kernel.codec import JsonObject, freeze
from sim.kernel.effects import EffectHandle
from sim.world import Message
from sim.world.action import Refused, near
from sim.world.actions.messages import deliver
from sim.world.events import MessageRefused

if TYPE_CHECKING:
    from sim.actors.loop import AgentLoop
    from sim.actors.manager import AgentLoopManager

PERSON: Final = "person"
"""The sender of messages from people outside the run. Text never decides who the sender is."""

ANSWER: Final = "answer"
"""The kind of input with which a person answers as an agent, and of the effect while the person is awaited."""

_ENDED = (AgentState.STOPPING, AgentState.STOPPED)


@attrs.frozen
class PersonAnswer:
    """The outcome of something that a person asked for.

    Attributes:
        time_ns: when it was applied, in simulated nanoseconds.
        refused: why it was refused; None if it was done.
    """

    time_ns: int
    refused: str | None = None


class InputData(TypedDict, total=False):
    """What an input carries; which keys it has follows from its kind.

    Attributes:
        agent, actor: the agent, or the actor of an effect.
        topic, data, text, state, condition, value: what is published, sent or set.
        count, ordinal, row: how many agents, which effect, and which row of the inbox.
        time_ns, delay_ns, timeout_ns: times in simulated nanoseconds.
        alive, kind, decision: whether an agent is alive, a kind of agents or inputs, and what a person decided.
    """

    agent: str
    actor: str
    topic: str
    data: Any
    text: str
    state: JsonObject
    condition: JsonObject
    value: Any
    count: int
    ordinal: int
    row: str
    time_ns: int
    delay_ns: int | None
    timeout_ns: int
    alive: bool
    kind: str
    decision: str


class Inputs:
    """Registers and applies the inputs that concern the loops of one manager."""

    def __init__(self, manager: "AgentLoopManager") -> None:
        self._manager = manager
        self._effects = manager.world.kernel.effects
        world = manager.world
        world.on_input("publish", self.publish, _check_event)
        for kind in ("send", "tell", "person", "create_loop", "spawn", "remove_loop"):
            world.on_input(kind, getattr(self, kind))
        for kind in ("pause_all", "resume_all", "stop_all", "stop_at"):
            world.on_input(kind, getattr(self, kind))
        for kind in ("wake", "sleep", "alive", "pause", "resume", "start", "stop"):
            world.on_input(kind, getattr(self, kind))
        for kind in ("effect.doubt", "effect.decision"):
            world.on_input(kind, getattr(self, kind.rpartition(".")[2]))
        world.kernel.placed["effect.doubt"] = self.hold
        world.kernel.addressee = _addressee

    def publish(self, data: InputData) -> str | None:
        """Publish an event, unless it has too much data, or its topic is reserved for the simulation."""
        try:
            _check_event(data)
            self._manager.world.event_bus.publish(data["topic"], data["data"])
        except UsageError as error:
            return str(error)
        return None

    def wake(self, data: InputData) -> None:
        """Wake a sleeping agent."""
        if loop := self._loop(data["agent"]):
            loop.wake()

    def sleep(self, data: InputData) -> str | None:
        """Put an agent to sleep."""
        loop = self._loop(data["agent"])
        if loop is None or loop.state in _ENDED:
            return self._gone(data["agent"])
        try:
            loop.sleep(WakeCondition.from_record(data["condition"]))
        except (UsageError, TransitionError) as error:
            return str(error)
        return None

    def alive(self, data: InputData) -> str | None:
        """Set whether an agent is alive, which stops it if it is not."""
        loop = self._loop(data["agent"])
        if loop is None:
            return self._gone(data["agent"])
        loop.agent.alive = data["alive"]
        return None

    def pause(self, data: InputData) -> str | None:
        """Pause an agent until `resume`."""
        loop = self._loop(data["agent"])
        if loop is None or loop.state in _ENDED:
            return self._gone(data["agent"])
        loop.pause()
        return None

    def resume(self, data: InputData) -> str | None:
        """End the pause of an agent."""
        loop = self._loop(data["agent"])
        if loop is None or loop.state in _ENDED:
            return self._gone(data["agent"])
        if loop.try_resume():
            return None
        if loop.pause_reason is PauseReason.RESOURCES:
            return f"{loop.agent_id} waits for resources, and continues when they are there"
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

    def stop_all(self, data: InputData | None) -> Actor | None:
        """Stop all agents, each after its current iteration, if there is one; with a timeout, return who waits."""
        world = self._manager.world
        world.on_hold = False  # otherwise an iteration that takes time would never end
        if data is None:
            self._manager.request_stop_all()
            return None
        return world.spawn("stop all", self._manager.stop_all(to_duration(data["timeout_ns"])))

    def stop_at(self, data: InputData) -> None:
        """Begin to stop all agents at a simulated time."""
        self._manager.request_stop_at(data["time_ns"])

    def start(self, data: InputData) -> None:
        """Start a stopped agent; one that is stopping starts when it has stopped.

        With a delay it is `AgentLoop.start`, which leaves an agent that is not alive as it is.
        """
        if loop := self._loop(data["agent"]):
            delay_ns = data.get("delay_ns")
            if loop.state is AgentState.STOPPING:
                loop.on_stopped = partial(self._start_stopped, loop.on_stopped, delay_ns)
            else:
                self._start_stopped(loop.on_stopped, delay_ns, loop)

    def _start_stopped(
        self, on_stopped: "Callable[[AgentLoop], None] | None", delay_ns: int | None, loop: "AgentLoop"
    ) -> None:
        loop.on_stopped = on_stopped
        if delay_ns is None:
            loop.agent.alive = True
        else:
            loop.warn_if_started()
        self._manager.start(loop, delay_ns=delay_ns or 0)

    def create_loop(self, data: InputData) -> None:
        """Create an agent of a registered kind and start it; record a refusal with its reason."""
        world = self._manager.world
        try:
            loop = self._manager.create_loop(self._manager.kinds[data["kind"]](data["agent"], world))
        except UsageError as error:
            world.kernel.report(AgentRefused(agent=data["agent"], reason=recordable_text(str(error))))
        else:
            self._manager.start(loop)

    def spawn(self, data: InputData) -> None:
        """Start copies of an entry of the scenario; record a refusal with its reason."""
        world = self._manager.world
        try:
            self._manager.entries[data["agent"]](data["count"], data["state"])
        except Refused as refusal:
            world.kernel.report(AgentRefused(agent=data["agent"], reason=str(refusal)))

    def remove_loop(self, data: InputData) -> None:
        """Stop an agent and remove it from the world."""
        if self._loop(data["agent"]):
            self._manager.remove_loop(data["agent"])

    def send(self, data: InputData) -> str | None:
        """Deliver a message from the host to an agent; record a refusal with its reason."""
        return self._deliver("host", data["agent"], data["topic"], data["data"])

    def tell(self, data: InputData) -> str | None:
        """Deliver the words of a person to an agent; record a refusal with its reason."""
        if PERSON in self._manager.world.agents:
            return f"an agent is called {PERSON!r}, so its messages would look like those of a person"
        return self._deliver(PERSON, data["agent"], data["topic"], data["text"])

    def _deliver(self, sender: str, agent_id: str, topic: str, data: Any) -> str | None:
        world = self._manager.world
        why = deliver(world, Message(sender, agent_id, topic, freeze(data), world.kernel.now))
        if why is not None:
            world.kernel.report(MessageRefused(reason=why, to=agent_id, topic=topic))
        return why

    def person(self, data: InputData) -> None:
        """Apply what a person asked for in the inbox of the run, and keep the outcome."""
        world = self._manager.world
        why = world.kernel.inputs[data["kind"]](data["data"])
        self._manager.answers[data["row"]] = PersonAnswer(world.kernel.now, why if isinstance(why, str) else None)

    def stop(self, data: InputData) -> Actor | str | None:
        """Stop an agent after its current iteration, if there is one; with a timeout, return who waits for it."""
        loop = self._loop(data["agent"])
        if "timeout_ns" in data:
            if loop is None or loop.stopped:
                return None
            stopping = loop.stop(to_duration(data["timeout_ns"]))
            return self._manager.world.spawn(f"stop {loop.agent_id}", stopping)
        if loop is None or loop.state in _ENDED:
            return self._gone(data["agent"])
        loop.agent.shutdown()
        return None

    def hold(self, data: InputData) -> None:
        """Hold an effect whose outcome a crash made unknown: its outcome is not awaited until a person decides."""
        handle = self._ticket(data)
        if handle is not None and not handle.held:
            self._effects.hold(handle)

    def doubt(self, data: InputData) -> None:
        """Pause the agent of a held effect until a person decides."""
        handle = self._ticket(data)
        if handle is not None and handle.held and (loop := self._loop(handle.actor.name)):
            loop.await_approval(f"effect {handle.ordinal}")

    def decision(self, data: InputData) -> None:
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

    def _ticket(self, data: InputData) -> EffectHandle | None:
        return self._effects.in_flight.get((data["actor"], data["ordinal"]))


def _check_event(data: Any) -> None:
    """Check the data of an input `publish`.

    Raises:
        UsageError: if it is not a topic with data, or the topic is reserved for the simulation.
    """
    if not isinstance(data, Mapping) or {*data} != {"topic", "data"} or not isinstance(data["topic"], str):
        raise UsageError(
            f"the input 'publish' is a mapping with topic and data, not {data!r:.100}",
            hint='write submit("publish", {"topic": "rain.begins", "data": None})',
        )
    check_free(data["topic"])


def _addressee(kind: str, data: Any) -> str:
    """Return the agent that an input concerns, or its topic, so that inputs for others change no order key of it."""
    if not isinstance(data, Mapping):
        return ""
    if kind == "person":
        return _addressee(data.get("kind", ""), data.get("data"))
    addressee = data.get("agent") or data.get("actor") or data.get("topic")
    return addressee if isinstance(addressee, str) else ""
