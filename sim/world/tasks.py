"""Tasks: what agents have to do, on one board that all agents of a world share.

A task has one of seven statuses. A kind of task can have words of its own for them (see `Tasks.define_words`), so that
a family speaks its own language while the board, the views and the metrics speak one. A task that is overdue, or that
has not changed for a time, publishes an event; nothing polls.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

import attrs

from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kernel.codec import ABSENT, Json, JsonObject, Raw, decode, freeze
from sim.kernel.duration import to_seconds
from sim.record.views import VIEWS
from sim.world.action import Refused
from sim.world.events import (
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskOverdue,
    TaskRemoved,
    TaskStalled,
    TaskStarted,
    TaskUpdated,
)
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.kernel import Timer
    from sim.world.world import Inhabitant, World

TaskStatus = Literal["pending", "active", "waiting", "paused", "done", "failed", "cancelled"]
"""Where a task stands. The last three are ends."""

ENDS: Final[tuple[TaskStatus, ...]] = ("done", "failed", "cancelled")

_MOVES: Final[Mapping[TaskStatus, tuple[TaskStatus, ...]]] = {
    "pending": ("active", "waiting", "paused", *ENDS),
    "active": ("pending", "waiting", "paused", *ENDS),
    "waiting": ("pending", "active", "paused", *ENDS),
    "paused": ("pending", "active", "waiting", "failed", "cancelled"),
    "done": (),
    "failed": ("pending",),  # tried again
    "cancelled": (),
}

MOST_TASKS: Final = 100_000
DEEPEST: Final = 20
"""How many tasks can stand above each other."""

_LONGEST_TITLE, _LONGEST_TEXT, _LONGEST_HISTORY, _MOST_LINKS = 2_000, 20_000, 200, 100

_LAST = "substr(max(printf('%015d', id) || ({0})), 16)"  # the latest value that is not null

VIEWS["task_history"] = """
        -- One row a change of a task.
        SELECT id, time, time_ns, actor AS by, data ->> '$.id' AS task, substr(topic, 6) AS what,
               data ->> '$.status' AS status, data ->> '$.note' AS note, data
        FROM events WHERE topic GLOB 'task.*'
    """
VIEWS["tasks"] = f"""
        -- One row a task, as it is at the end.
        SELECT data ->> '$.id' AS task,
               max(CASE topic WHEN 'task.created' THEN data ->> '$.title' END) AS title,
               max(CASE topic WHEN 'task.created' THEN data ->> '$.kind' END) AS kind,
               {_LAST.format("data ->> '$.status'")} AS status,
               CAST({_LAST.format("data ->> '$.priority'")} AS INTEGER) AS priority,
               max(CASE topic WHEN 'task.created' THEN data ->> '$.creator' END) AS creator,
               {_LAST.format("data ->> '$.assignee'")} AS assignee,
               max(CASE topic WHEN 'task.created' THEN data ->> '$.parent' END) AS parent,
               max(CASE topic WHEN 'task.created' THEN data -> '$.depends_on' END) AS depends_on,
               min(time) AS created, max(time) AS updated,
               CAST({_LAST.format("data ->> '$.due'")} AS REAL) AS due,
               max(topic = 'task.overdue') AS overdue, sum(topic = 'task.stalled') AS stalled,
               {_LAST.format("data -> '$.result'")} AS result
        FROM events WHERE topic GLOB 'task.*' GROUP BY data ->> '$.id' ORDER BY 1
    """  # noqa: S608 - constants


@attrs.frozen
class TaskChange:
    """One entry of the history of a task.

    Args:
        time_ns: when, in simulated nanoseconds.
        by: who changed it.
        what: what changed, as a short text.
    """

    time_ns: int
    by: str
    what: str


@attrs.frozen
class Task:
    """One task.

    Args:
        id: its number, from 1.
        title: its title.
        description: what has to be done.
        status: where it stands.
        word: the word of its kind for the status; empty: the status itself.
        priority: how urgent it is; a higher one comes first.
        creator: the agent that created it.
        assignee: the agent that does it; None: any agent.
        parent: the task of which it is a part; None: none.
        kind: its kind, a word of the family; empty: none.
        created_ns, updated_ns: when it was created and changed last, in simulated nanoseconds.
        due_ns: when it is overdue; None: never.
        stalled_after_ns: the time without a change after which it is stalled; None: never.
        depends_on: the tasks that must be done before it can become active.
        data: its data as canonical JSON.
        result: its result as canonical JSON; None before its end.
        history: its changes, the oldest first; of many, the latest 200.
    """

    id: int
    title: str
    description: str
    status: TaskStatus
    word: str
    priority: int
    creator: str
    assignee: str | None
    parent: int | None
    kind: str
    created_ns: int
    updated_ns: int
    due_ns: int | None
    stalled_after_ns: int | None
    depends_on: tuple[int, ...]
    data: Raw
    result: Raw | None = None
    history: tuple[TaskChange, ...] = ()

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.status not in ENDS

    def to_json(self) -> dict[str, Json]:
        """Return what rules and tools see of it."""
        return {
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "status": self.word or self.status,
            "priority": self.priority,
            "creator": self.creator,
            "assignee": self.assignee,
            "parent": self.parent,
            "kind": self.kind,
            "due": None if self.due_ns is None else to_seconds(self.due_ns),
            "depends_on": list(self.depends_on),
            "data": decode(self.data),
            "result": None if self.result is None else decode(self.result),
        }


class Tasks(Service):
    """The tasks of one world.

    Args:
        world: the world.
    """

    name: ClassVar[str] = "tasks"

    def __init__(self, world: "World") -> None:
        self._world = world
        self._tasks: dict[int, Task] = {}
        self._last = 0  # the number of the newest task
        self._words: dict[str, Mapping[str, TaskStatus]] = {}
        self._managed: dict[str, None] = {}  # kinds
        self._timers: dict[int, list[Timer]] = {}
        self._warned: dict[int, int] = {}  # task → the due time that was missed
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    def get(self, id: int) -> Task:
        """Return a task.

        Raises:
            Refused: if it does not exist.
        """
        task = self._tasks.get(id)
        if task is None:
            raise Refused(f"there is no task {id!r:.20}")
        return task

    def all(self) -> Iterable[Task]:
        """Return all tasks in the order of their numbers."""
        return self._tasks.values()

    def open(self, agent_id: str | None = None, status: str | None = None) -> list[Task]:
        """Return the tasks that have not ended: the most urgent first, then the one that is due first, then by number.

        Args:
            agent_id: only tasks of this agent; None: of all.
            status: only tasks with this status, or this word of their kind.
        """
        tasks = [
            task
            for task in self._tasks.values()
            if task.open and agent_id in (None, task.assignee) and status in (None, task.status, task.word)
        ]
        return sorted(tasks, key=_urgency)

    @property
    def room(self) -> int:
        """How many more tasks can be made."""
        return MOST_TASKS - len(self._tasks)

    def define_words(self, kind: str, words: Mapping[str, TaskStatus], *, managed: bool = False) -> None:
        """Define the words of a kind of task for the statuses.

        Args:
            kind: the kind.
            words: the status that each word stands for. The first word of a status is the one that is shown.
            managed: whether only the service of this kind makes and changes its tasks, and not the actions of agents.

        Raises:
            UsageError: if a word stands for no status, or the kind has words already.
        """
        for word, status in words.items():
            if status not in get_args(TaskStatus):
                raise UsageError(f"{word!r} must stand for one of {', '.join(get_args(TaskStatus))}, not {status!r}")
        if self._words.get(kind, words) != words:
            raise UsageError(f"tasks of the kind {kind!r} have other words already")
        self._words[kind] = dict(words)
        if managed:
            self._managed[kind] = None

    def check_unmanaged(self, kind: str) -> None:
        """Check that agents can make and change tasks of a kind by the actions for tasks.

        Raises:
            Refused: if only a service can.
        """
        if kind in self._managed:
            raise Refused(f"tasks of the kind {kind!r} are made and changed by their own actions only")

    # -- changes

    def create(
        self,
        creator: str,
        title: str,
        *,
        assignee: str | None = None,
        description: str = "",
        data: Any = None,
        priority: int = 0,
        parent: int | None = None,
        kind: str = "",
        due_ns: int | None = None,
        stalled_after_ns: int | None = None,
        depends_on: Sequence[int] = (),
    ) -> Task:
        """Create a task with the status `pending`; see `Task` for the arguments.

        Raises:
            Refused: if there are too many tasks, a text is too long, or another task does not exist.
        """
        self._world.kernel.acting()  # first: it refuses a call from outside before anything changes
        now = self._world.kernel.now
        self.check_new(title, description, parent, depends_on)
        links = tuple(dict.fromkeys(depends_on))
        task = Task(
            id=self._last + 1,
            title=title,
            description=description,
            status="pending",
            word=self._word(kind, "pending"),
            priority=priority,
            creator=creator,
            assignee=assignee,
            parent=parent,
            kind=kind,
            created_ns=now,
            updated_ns=now,
            due_ns=due_ns,
            stalled_after_ns=stalled_after_ns,
            depends_on=links,
            data=freeze(data),
            history=(TaskChange(now, creator, "created"),),
        )
        self._tasks[task.id] = task
        self._last = task.id
        self._counts["pending"] += 1
        self._arm(task)
        self._world.event_bus.report(_created(task))
        return task

    def check_new(self, title: str, description: str, parent: int | None, depends_on: Sequence[int]) -> None:
        """Check a new task before anything changes.

        Raises:
            Refused: as `create` raises it.
        """
        if len(self._tasks) >= MOST_TASKS:
            raise Refused(f"there are {MOST_TASKS:,} tasks already")
        for name, text, most in (("title", title, _LONGEST_TITLE), ("description", description, _LONGEST_TEXT)):
            if len(text) > most:
                raise Refused(f"the {name} of a task has at most {most:,} characters, not {len(text):,}")
        if len(depends_on) > _MOST_LINKS:
            raise Refused(f"a task depends on at most {_MOST_LINKS} others")
        for other in depends_on:  # only tasks that exist, so there can be no cycle
            self.get(other)
        depth, above = 0, parent
        while above is not None:
            depth, above = depth + 1, self.get(above).parent
        if depth >= DEEPEST:
            raise Refused(f"a task has at most {DEEPEST} tasks above it")

    def update(
        self,
        id: int,
        by: str,
        *,
        status: str | None = None,
        assignee: str | None = None,
        priority: int | None = None,
        due_ns: int | None = None,
        note: str = "",
        result: Any = None,
    ) -> Task:
        """Change a task.

        Args:
            id: the task.
            by: who changes it.
            status: the new status, or the word of its kind for it.
            assignee, priority, due_ns: new values; None: as before.
            note: a short text for the history.
            result: the result, for a status that ends the task.

        Raises:
            Refused: if the task or the status does not exist, the change is not allowed, or a task that it depends on
                is not done.
        """
        self._world.kernel.acting()  # first: it refuses a call from outside before anything changes
        task, now = self.get(id), self._world.kernel.now
        after = task.status if status is None else self._status(task.kind, status)
        word = task.word if status is None else status if status != after else self._word(task.kind, after)
        self._check_move(task, after)
        if len(note) > _LONGEST_TITLE:
            raise Refused(f"a note has at most {_LONGEST_TITLE:,} characters")
        changes: dict[str, Any] = {"status": after, "word": word, "updated_ns": now}
        new_values = (("assignee", assignee), ("priority", priority), ("due_ns", due_ns))
        changes |= {key: value for key, value in new_values if value is not None}
        if after in ENDS and result is not None:
            changes["result"] = freeze(result)
        what = note or (f"{task.word or task.status} → {word or after}" if after != task.status else "changed")
        history = (*task.history[1 - _LONGEST_HISTORY :], TaskChange(now, by, what))
        changed = self._tasks[id] = attrs.evolve(task, **changes, history=history)
        self._counts[task.status] -= 1
        self._counts[after] += 1
        self._arm(changed)
        self._tell(task, changed, by, note)
        return changed

    def remove_ended(self, kind: str, before_ns: int) -> list[int]:
        """Delete tasks that ended long ago, so that they take no memory; the record of the run keeps them.

        Args:
            kind: only tasks of this kind.
            before_ns: only those that have not changed since this simulated time (nanoseconds).

        Returns:
            Their numbers. A task to which another one refers is kept.
        """
        self._world.kernel.acting()  # first: it refuses a call from outside before anything changes
        used = {id for task in self._tasks.values() for id in (task.parent, *task.depends_on)}
        gone = [
            task
            for task in self._tasks.values()
            if task.kind == kind and not task.open and task.updated_ns < before_ns and task.id not in used
        ]
        for task in gone:
            self._world.event_bus.report(TaskRemoved(id=task.id))
            del self._tasks[task.id]
            self._warned.pop(task.id, None)
        return [task.id for task in gone]

    def _check_move(self, task: Task, after: TaskStatus) -> None:
        if after != task.status and after not in _MOVES[task.status]:
            raise Refused(f"task {task.id} is {task.word or task.status}, so it cannot become {after}")
        if after == "active" and (missing := self.blockers(task)):
            raise Refused(f"task {task.id} waits for task {missing[0].id}, which is {missing[0].status}")

    def _tell(self, before: Task, task: Task, by: str, note: str) -> None:
        change = TaskUpdated if task.status == before.status else _CHANGES.get(task.status, TaskUpdated)
        self._world.event_bus.report(
            change(
                assignee=task.assignee,
                by=by,
                due=ABSENT if task.due_ns is None else to_seconds(task.due_ns),
                id=task.id,
                note=note or ABSENT,
                priority=task.priority,
                result=ABSENT if task.result is None else task.result,
                status=task.status,
                word=task.word or ABSENT,
            )
        )

    def blockers(self, task: Task) -> list[Task]:
        """Return the tasks that must still be done before a task can become active."""
        return [other for id in task.depends_on if (other := self._tasks[id]).status != "done"]

    # -- time

    def _arm(self, task: Task) -> None:
        """Set the timers of a task again; one that has ended has none."""
        for timer in self._timers.pop(task.id, ()):
            timer.cancel()
        if not task.open:
            return
        kernel, timers = self._world.kernel, []
        source = kernel.source_for(task.creator, purpose="task")  # so that tasks of others change no key
        if task.due_ns is not None and self._warned.get(task.id) != task.due_ns:
            timers.append(kernel.call_at(max(task.due_ns, kernel.now), self._overdue(task.id), source))
        if task.stalled_after_ns is not None:
            due = task.updated_ns + task.stalled_after_ns
            timers.append(kernel.call_at(due, self._stalled(task.id), source))
        if timers:
            self._timers[task.id] = timers

    def _overdue(self, id: int) -> Callable[[], None]:
        def warn() -> None:
            task = self._tasks[id]
            self._warned[id] = task.due_ns or 0
            self._counts["overdue"] += 1
            self._world.event_bus.report(
                TaskOverdue(assignee=task.assignee, id=id, status=task.status, title=task.title)
            )

        return warn

    def _stalled(self, id: int) -> Callable[[], None]:
        def warn() -> None:
            task = self._tasks[id]
            self._counts["stalled"] += 1
            self._world.event_bus.report(
                TaskStalled(assignee=task.assignee, id=id, status=task.status, title=task.title)
            )

        return warn

    # -- words

    def _status(self, kind: str, word: str) -> TaskStatus:
        words = self._words.get(kind, {})
        if word in words:
            return words[word]
        if word in get_args(TaskStatus):
            return word  # type: ignore[return-value]  # it was compared with all statuses
        statuses = ", ".join((*words, *get_args(TaskStatus)))
        raise Refused(f"{word!r:.40} is not a status of a task; there are {statuses}")

    def _word(self, kind: str, status: TaskStatus) -> str:
        return next((word for word, meant in self._words.get(kind, {}).items() if meant == status), "")

    # -- numbers

    def records(self) -> JsonObject:
        """Return all tasks for the final digest."""
        return {str(id): attrs.asdict(task) for id, task in self._tasks.items()}

    def metrics(self) -> Mapping[str, float]:
        """Return the number of tasks in each status, and of tasks that became overdue or stalled."""
        if not self._tasks:
            return {}
        return {name: self._counts[name] for name in (*get_args(TaskStatus), "overdue", "stalled")}

    def summary(self) -> JsonObject:
        """Return the same numbers; empty without tasks."""
        return self.metrics()


_CHANGES: Final[Mapping[TaskStatus, type[TaskUpdated | TaskStarted | TaskCompleted | TaskFailed | TaskCancelled]]] = {
    "active": TaskStarted, "done": TaskCompleted, "failed": TaskFailed, "cancelled": TaskCancelled,
}  # fmt: skip


def may_change(task: Task, agent: "Inhabitant") -> bool:
    """Return whether an agent may change a task: its creator, its assignee, anyone if it has none, and admins."""
    own = (task.creator, task.assignee)
    return agent.agent_id in own or task.assignee is None or agent.permission >= Permission.ADMIN


def _urgency(task: Task) -> tuple[int, float, int]:
    return -task.priority, float("inf") if task.due_ns is None else task.due_ns, task.id


def _created(task: Task) -> TaskCreated:
    return TaskCreated(
        assignee=task.assignee,
        creator=task.creator,
        data=task.data,
        depends_on=list(task.depends_on) or ABSENT,
        description=task.description or ABSENT,
        due=to_seconds(task.due_ns or 0) or ABSENT,
        id=task.id,
        kind=task.kind or ABSENT,
        parent=task.parent or ABSENT,
        priority=task.priority or ABSENT,
        status="pending",
        title=task.title,
    )
