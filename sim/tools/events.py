"""The events of approvals of tools, and the audit records."""

from typing import Any

from sim.events.event_type import EventData, Published, event_type
from sim.kernel.codec import ABSENT, Absent


@event_type("gate.pending")
class GatePending(Published, frozen=True, gc=False, kw_only=True):
    """A call of a tool waits until a person approves it.

    Attributes:
        agent: the agent that calls it.
        arguments_hash: a hash of the arguments.
        expires_ns: when it is too late to approve it, in simulated nanoseconds.
        gate: the id of the gate.
        reason: why it has to be approved.
        tool: the tool.
    """

    agent: str
    arguments_hash: str
    expires_ns: int
    gate: str
    reason: str
    tool: str


class GateChange(Published, frozen=True, gc=False, kw_only=True):
    """How a gate ended.

    Attributes:
        agent: the agent that calls the tool.
        by: the person who decided, if one did.
        gate: the id of the gate.
        note: the note of this person.
        tool: the tool.
    """

    agent: str
    by: str | Absent = ABSENT
    gate: str
    note: str | Absent = ABSENT
    tool: str


@event_type("gate.approved")
class GateApproved(GateChange, frozen=True, gc=False, kw_only=True):
    """A person has approved a call of a tool."""


@event_type("gate.denied")
class GateDenied(GateChange, frozen=True, gc=False, kw_only=True):
    """A person has denied a call of a tool."""


@event_type("gate.expired")
class GateExpired(GateChange, frozen=True, gc=False, kw_only=True):
    """A call of a tool was not decided, or not made, in time."""


@event_type("gate.used")
class GateUsed(GateChange, frozen=True, gc=False, kw_only=True):
    """An approved call of a tool is made."""


@event_type("gate.cancelled")
class GateCancelled(GateChange, frozen=True, gc=False, kw_only=True):
    """The agent does not wait for the approval any more."""


@event_type("gate.arguments")
class GateArguments(EventData, frozen=True, gc=False, kw_only=True):
    """The arguments of a call that waits for an approval; agents do not see them.

    Attributes:
        arguments: the arguments.
        gate: the id of the gate.
    """

    arguments: Any
    gate: str


@event_type("gate.refused")
class GateRefused(EventData, frozen=True, gc=False, kw_only=True):
    """A decision about a gate, or a use of it, was not allowed.

    Attributes:
        by: who tried it.
        gate: the id of the gate.
        reason: why it was not allowed.
    """

    by: str
    gate: str
    reason: str
