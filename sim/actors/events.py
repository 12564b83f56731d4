"""The events of agents: their states, errors, and alerts about them."""

from typing import Any

from sim.events.event_text import short
from sim.events.event_type import EventData, Published, event_type
from sim.kernel.codec import ABSENT, Absent, json_field
from sim.record.views import VIEWS, view_of


@event_type("agent.state")
class StateChanged(EventData, frozen=True, gc=False, kw_only=True):
    """A change of state of an agent.

    Attributes:
        before: its state until now.
        reason: why it changed; for `sleeping`, what the agent waits for.
        after: its state from now on.
    """

    before: str = json_field(name="from")
    reason: Any
    after: str = json_field(name="to")

    def describe(self, topic: str, agent: str | None) -> tuple[str, ...]:
        """See `EventData.describe`."""
        why = self.reason if isinstance(self.reason, str) else short(self.reason)
        return "state", f"{self.before} > {self.after}", f"({why})" if why else ""


@event_type("agent.error")
class AgentFailed(EventData, frozen=True, gc=False, kw_only=True):
    """A failed iteration of an agent, or another failure of its code.

    Attributes:
        consecutive: the number of iterations that have failed one after another, if an iteration did.
        delay_ns: the delay before its next iteration, in simulated nanoseconds, if an iteration failed.
        error: what went wrong.
    """

    consecutive: int | Absent = ABSENT
    delay_ns: int | Absent = ABSENT
    error: str


@event_type("agent.crashed")
class AgentCrashed(EventData, frozen=True, gc=False, kw_only=True):
    """An agent stops, because it had too many errors.

    Attributes:
        errors: the number of iterations that have failed one after another.
    """

    errors: int


@event_type("agent.interrupt_missed")
class InterruptMissed(EventData, frozen=True, gc=False, kw_only=True):
    """An interrupt of an agent had no effect, because the iteration had ended before its turn came.

    Attributes:
        interrupt: the interrupt.
    """

    interrupt: str


@event_type("agent.refused")
class AgentRefused(EventData, frozen=True, gc=False, kw_only=True):
    """An agent that was asked for from outside the run was not made.

    Attributes:
        agent: its name, or that of the entry of the scenario.
        reason: why.
    """

    agent: str
    reason: str


@event_type("agent.spawned")
class AgentsSpawned(Published, frozen=True, gc=False, kw_only=True):
    """Agents were made during the run.

    Attributes:
        agents: their names.
        by: the agent that made them; `host`, if none did.
    """

    agents: list[str]
    by: str


@event_type("mailbox.dead_letters")
class DeadLetters(EventData, frozen=True, gc=False, kw_only=True):
    """An agent stopped with messages that it had not read.

    Attributes:
        count: the number of messages.
    """

    count: int


@event_type("alert.heartbeat_missed")
class HeartbeatMissed(Published, frozen=True, gc=False, kw_only=True):
    """An agent has shown no sign of life for too long; only with `health`.

    Attributes:
        agent: the agent.
        cure: what is done about it: `none`, `restart`, `cancel` or `wake`.
        silent_ns: the time since its last sign of life, in simulated nanoseconds.
        state: its state.
    """

    agent: str
    cure: str
    silent_ns: int
    state: str


@event_type("alert.lock_held")
class LockHeld(Published, frozen=True, gc=False, kw_only=True):
    """An agent has held what others wait for, for too long; only with `health`.

    Attributes:
        agent: the agent.
        cure: what is done about it: `none`, `restart`, `cancel` or `wake`.
        held_ns: how long it has held it, in simulated nanoseconds.
        state: its state.
    """

    agent: str
    cure: str
    held_ns: int
    state: str


@event_type("alert.effect_overdue")
class EffectOverdue(Published, frozen=True, gc=False, kw_only=True):
    """An effect has taken longer than its deadline; only with `health`.

    Attributes:
        agent: the agent that waits for it.
        cure: what is done about it: `timeout`.
        deadline_ns: the deadline, in simulated nanoseconds after its start.
        effect: the kind of the effect.
    """

    agent: str
    cure: str
    deadline_ns: int | None
    effect: str


VIEWS["transitions"] = view_of(
    StateChanged,
    "One row a change of state of an agent.",
    {"agent": "actor", "from_state": "$from", "to_state": "$to", "reason": "data ->> '$.reason'"},
)
