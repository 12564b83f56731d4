"""The time that tasks take: what counts for their timeouts, and the timers that end a step under way."""

from collections.abc import Iterable
from typing import Any

import attrs

from sim.kernel import Timer
from sim.kernel.duration import MAX_NS
from sim.kinds.executor.records import TaskState
from sim.tools.approvals import Gate
from sim.world import World


@attrs.frozen
class TimeUp:
    """The cause of the interrupt of a step when the time of its task is up."""

    task: int


class TaskTime:
    """The time of the tasks of one world. Waiting for people and for help does not count.

    Args:
        world: the world.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._timers: dict[int, Timer] = {}  # task whose step is under way → its timeout
        self._held_ns: dict[str, int] = {}  # executor → how long the operator had paused it when it last looked

    def used_ns(self, state: TaskState) -> int:
        """Return the time since a task began, without waiting for people and help, in simulated nanoseconds."""
        began = self._world.kernel.now if state.started_ns is None else state.started_ns
        return self._world.kernel.now - began - state.metadata.get("paused_ns", 0)

    def left_ns(self, state: TaskState) -> int:
        """Return the time that a task has left, from 0."""
        return max(0, state.timeout_ns - self.used_ns(state))

    def arm(self, state: TaskState) -> None:
        """Set the timer that interrupts a step under way when the time of its task is up."""
        kernel = self._world.kernel
        if (left := self.left_ns(state)) > 0:
            due, source = min(MAX_NS, kernel.now + left), kernel.source_for(state.agent_id)
            self._timers[state.number] = kernel.call_at(due, lambda: self._interrupt(state), source)

    def disarm(self, number: int) -> None:
        """Cancel this timer of a task: no step is under way."""
        if (timer := self._timers.pop(number, None)) is not None:
            timer.cancel()

    def _interrupt(self, state: TaskState) -> None:
        agent: Any = self._world.agents.get(state.agent_id)
        if agent is not None:
            agent.loop.interrupt(TimeUp(state.number))

    def add_pause(self, state: TaskState, duration_ns: int) -> None:
        """Add time that does not count."""
        state.metadata["paused_ns"] = state.metadata.get("paused_ns", 0) + duration_ns

    def add_gate(self, state: TaskState, gate: Gate) -> None:
        """Add the time for which a gate was open in a step under way."""
        closed_ns = self._world.kernel.now if gate.decided_ns is None else gate.decided_ns
        self.add_pause(state, min(closed_ns, gate.expires_ns) - gate.created_ns)
        self.disarm(state.number)  # the timer may be over: a paused agent is not interrupted
        self.arm(state)

    def add_hold(self, agent_id: str, held_ns: int, states: Iterable[TaskState]) -> None:
        """Add the time for which the operator has paused an executor.

        Args:
            agent_id: the executor.
            held_ns: this time in all so far.
            states: its tasks.
        """
        since = held_ns - self._held_ns.get(agent_id, 0)
        self._held_ns[agent_id] = held_ns
        for state in states:
            if since > 0 and "waits_for" not in state.metadata:  # that time is added when the help has ended
                self.add_pause(state, since)
