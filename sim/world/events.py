"""The events of the world: actions, messages, artifacts, money, places, pools, observations and tasks."""

from typing import Any

from sim.events.event_text import short
from sim.events.event_type import EventData, Published, event_type
from sim.kernel.codec import ABSENT, Absent, json_field
from sim.record.views import VIEWS, view_of


@event_type("action.*")
class ActionTaken(EventData, frozen=True, gc=False, kw_only=True):
    """An action of an agent; the last word of the topic is its kind.

    Attributes:
        arguments: what it was called with; only their size in `bytes`, if they are too large to be recorded.
        error: why it was refused, if it was.
        reasoning: why the agent chose it, if it said so.
        result: what it returned, if it succeeded.
        success: whether it succeeded.
    """

    arguments: Any
    error: str | Absent = ABSENT
    reasoning: str | Absent = ABSENT
    result: Any = ABSENT
    success: bool

    def describe(self, topic: str, agent: str | None) -> tuple[str, ...]:
        """See `EventData.describe`."""
        outcome = f"refused: {self.error}"
        if self.success:
            result = short(None if self.result is ABSENT else self.result)
            outcome = f"= {result}" if result else ""
        reason = f"({self.reasoning})" if self.reasoning else ""
        return "action", topic.removeprefix("action."), short(self.arguments), outcome, reason


class _MessageData(EventData, frozen=True, gc=False, kw_only=True):
    """A message.

    Attributes:
        data: the data of the message.
        sender: the agent that sent it; `host`, `person` or `intervention`, if none did.
        to: the agent that it is for.
        topic: the topic of the message; empty: none.
    """

    data: Any
    sender: str
    to: str
    topic: str


@event_type("message.sent")
class MessageSent(EventData, frozen=True, gc=False, kw_only=True):
    """A message was put into the mailbox of an agent, or is on its way to it.

    Attributes:
        arrives: when it arrives, in simulated seconds, if it was sent with a delay.
        data: the data of the message.
        sender: the agent that sent it; `host`, `person` or `intervention`, if none did.
        to: the agent that it is for.
        topic: the topic of the message; empty: none.
    """

    arrives: float | Absent = ABSENT
    data: Any
    sender: str
    to: str
    topic: str

    def describe(self, topic: str, agent: str | None) -> tuple[str, ...]:
        """See `EventData.describe`."""
        other = f"to {self.to}" if agent in (None, self.sender) else f"from {self.sender}"
        return "message", other, self.topic, short(self.data)


@event_type("message.suppressed")
class MessageSuppressed(_MessageData, frozen=True, gc=False, kw_only=True):
    """A message does not arrive, by an intervention or in a branch."""


@event_type("message.refused")
class MessageRefused(EventData, frozen=True, gc=False, kw_only=True):
    """A message that no action waits for was not taken.

    Attributes:
        reason: why.
        sender: the agent that sent it, if an agent did.
        to: the agent that it was for.
        topic: the topic of the message; empty: none.
    """

    reason: str
    sender: str | Absent = ABSENT
    to: str
    topic: str


@event_type("artifact.written")
class ArtifactWritten(Published, frozen=True, gc=False, kw_only=True):
    """An artifact was made, or its content was replaced.

    Attributes:
        artifact: its name.
        by: the agent that wrote it.
        version: the number of its version, from 1.
    """

    FACT = True
    artifact: str
    by: str
    version: int


@event_type("artifact.deleted")
class ArtifactDeleted(Published, frozen=True, gc=False, kw_only=True):
    """An artifact was deleted.

    Attributes:
        artifact: its name.
        by: the agent that deleted it.
    """

    artifact: str
    by: str


@event_type("artifact.invoked")
class ArtifactInvoked(Published, frozen=True, gc=False, kw_only=True):
    """The formula of an artifact was computed.

    Attributes:
        artifact: its name.
        by: the agent that invoked it, and paid its price.
    """

    artifact: str
    by: str


@event_type("ledger.transferred")
class MoneyTransferred(Published, frozen=True, gc=False, kw_only=True):
    """Money was transferred from one account to another.

    Attributes:
        amount: the amount, in units of money.
        payer: the account that it was taken from.
        to: the account that it was paid to.
    """

    FACT = True
    amount: int | float
    payer: str = json_field(name="from")
    to: str


@event_type("place.entered")
class PlaceEntered(Published, frozen=True, gc=False, kw_only=True):
    """An agent has arrived at a place.

    Attributes:
        agent: the agent.
        start: the place that it came from.
        to: the place.
    """

    agent: str
    start: str = json_field(name="from")
    to: str


@event_type("pool.preempted")
class SlotPreempted(Published, frozen=True, gc=False, kw_only=True):
    """An agent lost a slot of a pool to a more urgent one.

    Attributes:
        agent: the agent that lost it.
        by: the agent that got it.
        pool: the pool.
    """

    agent: str
    by: str
    pool: str


@event_type("observation")
class Observed(EventData, frozen=True, gc=False, kw_only=True):
    """A rule recorded a value.

    Attributes:
        name: the name of the value.
        value: the value.
    """

    name: str
    value: int | float


@event_type("task.created")
class TaskCreated(Published, frozen=True, gc=False, kw_only=True):
    """A task was made. What it does not have is left out.

    Attributes:
        assignee: the agent that does it; null: any agent.
        creator: the agent that created it.
        data: further data, as those who created it gave them.
        depends_on: the numbers of the tasks that must be done before.
        description: what has to be done.
        due: when it is overdue, in simulated seconds.
        id: its number, from 1.
        kind: its kind.
        parent: the number of the task of which it is a part.
        priority: how urgent it is; a higher one comes first.
        status: where it stands: `pending`.
        title: its title.
    """

    assignee: str | None
    creator: str
    data: Any
    depends_on: list[int] | Absent = ABSENT
    description: str | Absent = ABSENT
    due: float | Absent = ABSENT
    id: int
    kind: str | Absent = ABSENT
    parent: int | Absent = ABSENT
    priority: int | float | Absent = ABSENT
    status: str
    title: str


class TaskChange(Published, frozen=True, gc=False, kw_only=True):
    """A change of a task.

    Attributes:
        assignee: the agent that does it; null: any agent.
        by: who changed it.
        due: when it is overdue, in simulated seconds, if ever.
        id: its number.
        note: what was noted at the change, if anything.
        priority: how urgent it is; a higher one comes first.
        result: its result, if it has one.
        status: where it stands: `pending`, `active`, `waiting`, `paused`, `done`, `failed` or `cancelled`.
        word: the word of its kind for the status, if there is another one.
    """

    assignee: str | None
    by: str
    due: float | Absent = ABSENT
    id: int
    note: str | Absent = ABSENT
    priority: int | float
    result: Any = ABSENT
    status: str
    word: str | Absent = ABSENT


@event_type("task.updated")
class TaskUpdated(TaskChange, frozen=True, gc=False, kw_only=True):
    """A task was changed, and neither begun nor ended."""


@event_type("task.started")
class TaskStarted(TaskChange, frozen=True, gc=False, kw_only=True):
    """An agent has begun with a task."""


@event_type("task.completed")
class TaskCompleted(TaskChange, frozen=True, gc=False, kw_only=True):
    """A task is done."""


@event_type("task.failed")
class TaskFailed(TaskChange, frozen=True, gc=False, kw_only=True):
    """A task has failed."""


@event_type("task.cancelled")
class TaskCancelled(TaskChange, frozen=True, gc=False, kw_only=True):
    """A task was cancelled."""


class TaskLate(Published, frozen=True, gc=False, kw_only=True):
    """A task is late.

    Attributes:
        assignee: the agent that does it; null: any agent.
        id: its number.
        status: where it stands.
        title: its title.
    """

    assignee: str | None
    id: int
    status: str
    title: str


@event_type("task.overdue")
class TaskOverdue(TaskLate, frozen=True, gc=False, kw_only=True):
    """A task has not ended when it is due."""


@event_type("task.stalled")
class TaskStalled(TaskLate, frozen=True, gc=False, kw_only=True):
    """A task has not changed for too long."""


@event_type("task.removed")
class TaskRemoved(Published, frozen=True, gc=False, kw_only=True):
    """A task that ended long ago was deleted.

    Attributes:
        id: its number.
    """

    id: int


VIEWS["actions"] = view_of(
    ActionTaken,
    "One row an action of an agent: arguments, result or error, and reason.",
    {
        "agent": "actor",
        "kind": "substr(topic, 8)",
        "arguments": "$arguments",
        "success": "$success",
        "result": "data ->> '$.result'",
        "error": "$error",
        "reasoning": "$reasoning",
    },
)
VIEWS["messages"] = view_of(
    MessageSent,
    "One row a message that an agent was sent.",
    {"sender": "$sender", "receiver": "$to", "topic": "$topic", "data": "$data"},
)
VIEWS["observations"] = view_of(
    Observed, "One row a value that a rule recorded.", {"actor": "actor", "name": "$name", "value": "$value"}
)
