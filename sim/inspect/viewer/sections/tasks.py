"""The tasks of a run: how many there were, and how the latest ones ended."""

from collections import Counter

import attrs

from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.kernel.codec import ABSENT
from sim.world.events import TaskChange, TaskCreated, TaskLate, TaskOverdue

_MOST = 10_000
"""The most tasks that are followed."""

_SHOWN = 100
"""The most tasks with their own line: open ones first, then the latest."""

_ENDS = ("done", "failed", "cancelled")


@attrs.define
class _Task:
    """What is shown of a task."""

    id: int
    title: str
    created: float
    late: bool = False
    status: str = ""
    ended: float | None = None
    agent: str = ""


class Tasks(Section):
    """Follows tasks through their events."""

    title = "Tasks"
    place = 90
    topics = ("task.*",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._tasks: dict[int, _Task] = {}
        self._left = 0  # number of tasks that are not followed

    def add(self, event: Event, data: Data) -> None:
        """Note an event of a task."""
        if not isinstance(data, TaskCreated | TaskChange | TaskLate):
            return
        now = event.time_ns / 1e9
        if isinstance(data, TaskCreated):
            if len(self._tasks) >= _MOST:
                self._left += 1
                return
            self._tasks[data.id] = _Task(data.id, data.title[:200], now)
        task = self._tasks.get(data.id)
        if task is None:
            return
        task.late = task.late or isinstance(data, TaskOverdue)
        word = data.word if isinstance(data, TaskChange) else ABSENT
        task.status = (word or data.status)[:40]
        task.ended = now if data.status in _ENDS else None
        task.agent = (data.assignee or "")[:80]

    def to_json(self) -> Json:
        """Return the number of tasks by status, and those with their own line; None if there are none."""
        if not self._tasks:
            return None
        tasks = list(self._tasks.values())
        counts = Counter(task.status for task in tasks)
        rows = sorted(tasks, key=lambda task: (task.ended is not None, -task.id))[:_SHOWN]
        return {
            "total": len(tasks) + self._left,
            "counts": dict(sorted(counts.items())),
            "rows": list(map(attrs.asdict, rows)),
        }
