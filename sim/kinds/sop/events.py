"""The events of employees and their channels."""

from typing import Any

from sim.events.event_type import Published, event_type
from sim.kernel.codec import ABSENT, Absent
from sim.record.views import VIEWS, view_of


@event_type("sop.employee")
class EmployeeHired(Published, frozen=True, gc=False, kw_only=True):
    """An employee has started.

    Attributes:
        agent: the employee.
        channel: the channel in which it posts.
        interval: the time between two cycles, in simulated seconds.
        title: its title.
    """

    agent: str
    channel: str
    interval: float
    title: str


@event_type("sop.watcher")
class WatcherSet(Published, frozen=True, gc=False, kw_only=True):
    """An employee has a watcher.

    Attributes:
        active: whether it looks.
        agent: the employee.
        alone: whether it looks by its own clock, and not in the cycles of the employee.
        interval: the time between two looks, in simulated seconds.
        watcher: the name of the watcher.
    """

    active: bool
    agent: str
    alone: bool
    interval: float
    watcher: str


@event_type("sop.look")
class WatcherLooked(Published, frozen=True, gc=False, kw_only=True):
    """A watcher has looked. What is 0 is left out.

    Attributes:
        agent: its employee.
        dead_letters: how many findings could not become tasks.
        fault: why the look failed, if it did.
        found: how many findings became tasks.
        lost: how many findings were lost, because there was no room.
        watcher: the name of the watcher.
    """

    agent: str
    dead_letters: int | Absent = ABSENT
    fault: str | Absent = ABSENT
    found: int | Absent = ABSENT
    lost: int | Absent = ABSENT
    watcher: str


@event_type("sop.trigger")
class TriggerFired(Published, frozen=True, gc=False, kw_only=True):
    """A trigger of a procedure has fired.

    Attributes:
        agent: the employee.
        procedure: the procedure.
    """

    agent: str
    procedure: str


@event_type("sop.assess.failed")
class AssessmentFailed(Published, frozen=True, gc=False, kw_only=True):
    """No model assessed the situation of an employee.

    Attributes:
        agent: the employee.
        error: why.
    """

    agent: str
    error: str


@event_type("sop.cycle")
class CycleDone(Published, frozen=True, gc=False, kw_only=True):
    """An employee has done a cycle of work.

    Attributes:
        active: the number of its open tasks.
        advanced: how many steps were begun or done.
        agent: the employee.
        created: how many tasks the watchers made.
        cut: how many memories did not fit into the prompt.
        memories: how many memories were kept.
        new: how many triggers became tasks.
    """

    active: int
    advanced: int
    agent: str
    created: int
    cut: int
    memories: int
    new: int


@event_type("sop.step.queued")
class StepQueued(Published, frozen=True, gc=False, kw_only=True):
    """A step of a task waits for a step worker.

    Attributes:
        again: whether it was put back by a worker that has not done it.
        name: the name of the step, when it is queued first.
        step: its number, from 1, when it is queued first.
        task: the number of the task.
    """

    again: bool | Absent = ABSENT
    name: str | Absent = ABSENT
    step: int | Absent = ABSENT
    task: int


class _StepData(Published, frozen=True, gc=False, kw_only=True):
    """A step of a task has ended.

    Attributes:
        name: the name of the step.
        step: its number, from 1.
        task: the number of the task.
    """

    name: str
    step: int
    task: int


@event_type("sop.step.done")
class StepDone(_StepData, frozen=True, gc=False, kw_only=True):
    """A step of a task is done."""


@event_type("sop.step.skipped")
class StepSkipped(_StepData, frozen=True, gc=False, kw_only=True):
    """A step of a task was passed over, because its condition did not hold."""


@event_type("sop.step.failed")
class StepFailed(Published, frozen=True, gc=False, kw_only=True):
    """A step of a task has failed.

    Attributes:
        error: why.
        step: its number, from 1.
        task: the number of the task.
    """

    error: str
    step: int
    task: int


@event_type("sop.ready")
class TaskReady(Published, frozen=True, gc=False, kw_only=True):
    """A task of an employee can continue.

    Attributes:
        agent: the employee.
        task: the number of the task.
    """

    agent: str | None
    task: int


@event_type("sop.dead_letter")
class DeadLetterSet(Published, frozen=True, gc=False, kw_only=True):
    """A finding or a trigger of which no task could be made.

    Attributes:
        agent: the employee.
        item: what was found, unless it is too large.
        item_bytes: its size in bytes, if it is too large.
        source: where it comes from.
        why: why no task could be made.
    """

    agent: str
    item: Any = ABSENT
    item_bytes: int | Absent = ABSENT
    source: str
    why: str


@event_type("channel.post")
class ChannelPosted(Published, frozen=True, gc=False, kw_only=True):
    """Something was posted in a channel.

    Attributes:
        author: who posted it.
        channel: the channel.
        text: the text.
    """

    author: str
    channel: str
    text: str


VIEWS["cycles"] = view_of(
    CycleDone,
    "One row a cycle of an employee.",
    {
        "agent": "$agent",
        "new_triggers": "$new",
        "created": "$created",
        "advanced": "$advanced",
        "active": "$active",
        "memories": "$memories",
        "memories_cut": "$cut",
    },
)
VIEWS["dead_letters"] = view_of(
    DeadLetterSet,
    "One row a finding or a trigger of which no task could be made.",
    {"agent": "$agent", "source": "$source", "why": "$why", "item": "$item"},
)
VIEWS["channel_posts"] = view_of(
    ChannelPosted, "One row a post in a channel.", {"channel": "$channel", "author": "$author", "text": "$text"}
)
