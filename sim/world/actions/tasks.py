"""The actions on tasks."""

from typing import TYPE_CHECKING, Annotated, Any

from sim.base.errors import UsageError
from sim.kernel.codec import Json, freeze
from sim.kernel.duration import to_ns
from sim.world.action import Means, Refused, Time, action
from sim.world.actions.messages import deliver
from sim.world.message import Message
from sim.world.tasks import Task, may_change

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World

_Agent = Annotated[str | None, Means("recipient")]
_Number = Annotated[int | None, Means("whole number")]


@action("create_task", draws=False)
def create_task(
    world: "World",
    agent: "Inhabitant",
    title: str,
    to: _Agent = None,
    data: Any = None,
    description: str = "",
    priority: int = 0,
    due: Time = None,
    parent: _Number = None,
    kind: str = "",
    depends_on: Any = (),
    stalled_after: Time = None,
) -> dict[str, Json]:
    """Create a task for one agent, or for any agent.

    Args:
        title: the title of the task.
        to: the agent that the task is for.
        data: the data of the task.
        description: what has to be done.
        priority: how urgent it is; a higher one comes first.
        due: after how long it is overdue.
        parent: the number of the task of which it is a part.
        kind: its kind.
        depends_on: the numbers of the tasks that must be done first, as a list.
        stalled_after: the time without a change after which it is stalled.
    """
    if to is not None and to not in world.agents:
        raise Refused(f"there is no agent {to!r} to give the task to")
    if not isinstance(depends_on, list | tuple) or not all(type(other) is int for other in depends_on):
        raise Refused(f"depends_on is a list of numbers of tasks, not {depends_on!r:.60}")
    now, tasks, raw = world.kernel.now, world.tasks, freeze(data)
    tasks.check_unmanaged(kind)
    due_ns, stalled_ns = _after(now, due), _after(0, stalled_after)
    tasks.check_new(title, description, parent, depends_on)
    if to is not None:
        note = {"id": len(tasks) + 1, "title": title, "creator": agent.agent_id, "assignee": to, "data": raw}
        why = deliver(world, Message(agent.agent_id, to, "task", freeze(note), now))
        if why is not None:
            raise Refused(why)
    task = tasks.create(
        agent.agent_id,
        title,
        assignee=to,
        data=raw,
        description=description,
        priority=priority,
        due_ns=due_ns,
        parent=parent,
        kind=kind,
        depends_on=depends_on,
        stalled_after_ns=stalled_ns,
    )
    return {"id": task.id}


@action("update_task", draws=False)
def update_task(
    world: "World",
    agent: "Inhabitant",
    task: int,
    status: str | None = None,
    to: _Agent = None,
    priority: _Number = None,
    due: Time = None,
    note: str = "",
) -> dict[str, Json]:
    """Change a task of this agent, or one that has no agent yet.

    Args:
        task: the number of the task.
        status: the new status: pending, active, waiting, paused, failed or cancelled, or a word of its kind.
        to: the agent that does it from now on.
        priority: its new priority.
        due: after how long from now it is overdue.
        note: a text for its history.
    """
    current = _of(world, agent, task)
    if to is not None and to not in world.agents:
        raise Refused(f"there is no agent {to!r} to give the task to")
    changed = world.tasks.update(
        current.id,
        agent.agent_id,
        status=status,
        assignee=to,
        priority=priority,
        due_ns=_after(world.kernel.now, due),
        note=note,
    )
    return {"id": changed.id, "status": changed.word or changed.status}


@action("complete_task", draws=False)
def complete_task(
    world: "World", agent: "Inhabitant", task: int, result: Any = None, failed: bool = False, note: str = ""
) -> dict[str, Json]:
    """End a task of this agent, and keep its result.

    Args:
        task: the number of the task.
        result: the result.
        failed: whether it failed.
        note: a text for its history.
    """
    current = _of(world, agent, task)
    status = "failed" if failed else "done"
    changed = world.tasks.update(current.id, agent.agent_id, status=status, result=result, note=note)
    return {"id": changed.id, "status": changed.word or changed.status}


def _of(world: "World", agent: "Inhabitant", id: int) -> Task:
    task = world.tasks.get(id)
    world.tasks.check_unmanaged(task.kind)
    if not may_change(task, agent):
        raise Refused(f"task {id} belongs to {task.assignee or task.creator}, not to {agent.agent_id}")
    return task


def _after(since: int, delay: Any) -> int | None:
    try:
        return None if delay is None else since + to_ns(delay)
    except UsageError as error:
        raise Refused(str(error)) from error
