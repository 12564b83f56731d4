"""The interface through which a host program controls a run.

Each call is an input. It can come from any thread. It is queued, gets a simulated time, is recorded, and is applied
inside the run (see `inputs`). People outside have the same verbs: `sim set`, `publish`, `tell`, `pause`, `resume`,
`stop`, `approve` and `answer`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from sim.actors.inputs import ANSWER
from sim.actors.manager import AgentLoopManager
from sim.base.errors import UsageError
from sim.events.topic import check_free
from sim.kernel.codec import NOT_JSON_HINT, JsonObject, json_fault
from sim.kernel.duration import NS
from sim.world.action import near

_LONGEST_WAIT: Final = 366 * 86_400  # simulated seconds for the answer of a person


@runtime_checkable
class _HasGates(Protocol):
    """A service with gates, which people decide about."""

    gates: Mapping[str, object]


class Control:
    """Submits calls of the host program to a run.

    Args:
        manager: the loops to control.
        submit: submits an input, as `World.submit`, which is the default.
    """

    def __init__(self, manager: AgentLoopManager, *, submit: Callable[[str, object], object] | None = None) -> None:
        self._manager = manager
        self._world = manager.world
        self._put = manager.world.submit if submit is None else submit

    def set(self, values: JsonObject) -> None:
        """Set live parameters of a scenario, for example `{"agents.person.state.beta": 0.1}`: all of them, or none.

        The keys are those of `--set`. Text that begins with `=` is an expression, as in a scenario. A run with
        `execution.sync` has no live parameters.

        Args:
            values: the new values by key.

        Raises:
            UsageError: if a key is not live, a value is not valid, there is no such agent or state variable, or the
                world was not built from a scenario.
        """
        if self._manager.check_set is None:
            raise UsageError(
                "there are no parameters to set, because this world was not built from a scenario",
                hint="register a change with World.on_input, and make it with World.submit",
            )
        unchecked: Any = values  # it may come from a file
        if not isinstance(unchecked, Mapping) or not unchecked or not all(isinstance(key, str) for key in unchecked):
            raise UsageError("expected values by key, such as {'agents.person.state.beta': 0.1}")
        if fault := json_fault(unchecked, "values"):
            raise UsageError(fault, hint=NOT_JSON_HINT)
        self._manager.check_set(values)
        self._put("parameters", {"set": dict(values)})

    def publish(self, topic: str, data: Any = None) -> None:
        """Publish an event with the host as its source.

        Raises:
            UsageError: if it is not a topic, or is reserved for the simulation.
        """
        check_free(topic)
        self._put("publish", {"topic": topic, "data": data})

    def wake(self, agent_id: str) -> None:
        """Wake a sleeping agent."""
        self._submit("wake", agent_id)

    def pause(self, agent_id: str) -> None:
        """Pause an agent until `resume`."""
        self._submit("pause", agent_id)

    def pause_all(self) -> None:
        """Pause the run until `resume_all`: all agents are paused, and simulated time stands still on every clock."""
        self._put("pause_all", None)

    def resume(self, agent_id: str) -> None:
        """End the pause of an agent."""
        self._submit("resume", agent_id)

    def resume_all(self) -> None:
        """End the pause of the run, and all pauses of single agents by `pause`."""
        self._put("resume_all", None)

    def start(self, agent_id: str) -> None:
        """Start a stopped agent; has no effect on other agents."""
        self._submit("start", agent_id)

    def stop(self, agent_id: str) -> None:
        """Stop an agent after its current iteration, if there is one. `start` starts it again."""
        self._submit("stop", agent_id)

    def stop_all(self) -> None:
        """Stop all agents, each after its current iteration, if there is one."""
        self._put("stop_all", None)

    def send(self, agent_id: str, data: Any = None, *, topic: str = "") -> None:
        """Send a message from `host` to an agent. If it is refused, the event `message.refused` has the reason."""
        self._submit("send", agent_id, topic=topic, data=data)

    def tell(self, agent_id: str, text: str, *, topic: str = "") -> None:
        """Send the words of a person to an agent: a message from `person`, whose data is the text.

        Nothing in the text is an order to the run. If the message is refused, `message.refused` has the reason.

        Raises:
            UsageError: if there is no such agent, or the text is not text.
        """
        if text.__class__ is not str or topic.__class__ is not str:  # they may come from a file
            raise UsageError(f"a person can tell text, not {type(text).__name__}")
        self._submit("tell", agent_id, topic=topic, text=text)

    def approve(self, gate: str, *, deny: bool = False, note: str = "", by: str = "person") -> None:
        """Decide about a gate, where a call of a tool waits for a person.

        Args:
            gate: the gate, for example `gate-1`.
            deny: deny it instead.
            note: what the person says about it.
            by: the name of the person.

        Raises:
            UsageError: if there is no such gate, or the run has none.
        """
        if "approval.decision" not in self._world.kernel.inputs:
            raise UsageError(
                "nothing in this run waits for an approval, because its scenario has none", hint="add `approvals` to it"
            )
        service: object = self._world.services.get("approvals")
        if isinstance(service, _HasGates) and gate not in service.gates:
            hint = "sim show RUN gates lists them"
            raise UsageError(f"there is no gate {gate!r}{near(gate, service.gates)}", hint=hint)
        decision = "deny" if deny else "approve"
        self._put("approval.decision", {"gate": gate, "decision": decision, "by": by, "note": note})

    def answer_for(self, agent_id: str, seconds: float, *, otherwise: str | None = None) -> None:
        """Let a person answer as an agent instead of its model, from now on.

        The model still answers surveys and makes embeddings. An agent that never calls a model is never asked.

        Args:
            agent_id: the agent.
            seconds: for how many simulated seconds each call waits for the answer of a person; 0: the model answers
                again, also the calls that wait.
            otherwise: the answer to a call that no person has answered in time; None: the model answers it.

        Raises:
            UsageError: if there is no such agent, the time is no number of seconds, `otherwise` is blank, or the run
                has no models.
        """
        self._check_models()
        if otherwise is not None and not otherwise.strip():
            raise UsageError("the answer after the time needs a text", hint="leave it out: then the model answers")
        if agent_id not in self._manager.loops:
            raise UsageError(f"there is no agent {agent_id!r} to answer for{near(agent_id, self._manager.loops)}")
        number: Any = seconds  # it may come from a page
        if number.__class__ not in (int, float) or not 0 <= number <= _LONGEST_WAIT:
            raise UsageError(f"the time for an answer is 0 to {_LONGEST_WAIT:,} simulated seconds, not {number!r:.60}")
        within = max(round(seconds * NS), 1 if seconds else 0)
        self._put(ANSWER, {"agent": agent_id, "within_ns": within, "otherwise": otherwise})

    def answer(self, question: str, text: str, *, call: Mapping[str, Any] | None = None) -> None:
        """Answer a call of an agent for which a person answers. Without text and call, the model answers it.

        Args:
            question: the call, for example `question-1`.
            text: what the agent's model would say.
            call: the tool that the agent's model would call, and its arguments: `{"tool": ..., "args": {...}}`.

        Raises:
            UsageError: if the run has no models.
        """
        self._check_models()
        self._put(ANSWER, {"question": question, "text": text, "call": None if call is None else dict(call)})

    def _check_models(self) -> None:
        if ANSWER not in self._world.kernel.inputs:
            raise UsageError("no agent of this run has a model, so there is nothing to answer in its place")

    def create_loop(self, kind: str, agent_id: str) -> None:
        """Create an agent and start it.

        Args:
            kind: a name in `AgentLoopManager.kinds`, where the host program registers how agents are created. It is a
                name because a recorded call cannot hold an object. In a run of a scenario these are its `kinds`.
            agent_id: the name of the agent, unique in the world.

        Raises:
            UsageError: if the kind does not exist, or the name is in use.
        """
        if kind not in self._manager.kinds:
            raise UsageError(
                f"there is no kind of agent {kind!r}{near(kind, self._manager.kinds)}",
                hint="register it: manager.kinds[name] = a class, or a function of agent_id and world",
            )
        if agent_id in self._world.agents:
            raise UsageError(f"the name {agent_id!r} is already in use by another agent")
        self._put("create_loop", {"kind": kind, "agent": agent_id})

    def spawn(self, agent: str, count: int = 1, *, state: JsonObject | None = None) -> None:
        """Start copies of an entry of the scenario, named `AGENT-host-1` and so on.

        If this is not possible when the call is applied, the event `agent.refused` has the reason.

        Args:
            agent: the name of an entry in `agents`; it can be a template.
            count: the number of copies, 0 or more.
            state: values of state variables that replace those that the entry computes.

        Raises:
            UsageError: if the entry does not exist, or the world was not built from a scenario.
        """
        entries = self._manager.entries
        if not entries:
            raise UsageError(
                "there are no entries to spawn agents from, because this world was not built from a scenario",
                hint="use create_loop, which creates agents of the kinds that the program has registered",
            )
        if agent not in entries:
            raise UsageError(f"there is no entry {agent!r} in agents{near(agent, entries)}")
        self._put("spawn", {"agent": agent, "count": count, "state": dict(state or {})})

    def remove_loop(self, agent_id: str) -> None:
        """Stop an agent and remove it from the world; its counts are kept."""
        self._submit("remove_loop", agent_id)

    def _submit(self, kind: str, agent_id: str, **data: Any) -> None:
        loops = self._manager.loops
        if agent_id not in loops:
            raise UsageError(f"there is no agent {agent_id!r} to {kind.partition('_')[0]}{near(agent_id, loops)}")
        self._put(kind, {"agent": agent_id, **data})
