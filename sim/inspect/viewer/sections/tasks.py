"""The tasks of a run: how many there were, and how the latest ones ended."""

from collections import Counter
from typing import Any

from sim.inspect.viewer.section import Data, Event, Folds, Json, Section

_KNOWN = 10_000
"""The most tasks that are followed."""

_SHOWN = 100
"""The most tasks with their own line: open ones first, then the latest."""

_ENDS = ("done", "failed", "cancelled")


class Tasks(Section):
    """Follows tasks through their events."""

    title = "Tasks"
    place = 90
    topics = ("task.*",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._tasks: dict[int, dict[str, Any]] = {}
        self._left = 0  # number of tasks that are not followed

    def add(self, event: Event, data: Data) -> None:
        """Note an event of a task."""
        id, topic, now = data.get("id"), event.topic, event.time_ns / 1e9
        if not isinstance(id, int):
            return
        if topic == "task.created":
            if len(self._tasks) >= _KNOWN:
                self._left += 1
                return
            self._tasks[id] = {"id": id, "title": str(data.get("title"))[:200], "created": now, "late": False}
        task = self._tasks.get(id)
        if task is None:
            return
        task["late"] = task["late"] or topic == "task.overdue"
        task["status"] = str(data.get("word") or data.get("status"))[:40]
        task["ended"] = now if data.get("status") in _ENDS else None
        task["agent"] = str(data.get("assignee") or "")[:80]

    def to_json(self) -> Json:
        """Return the number of tasks by status, and those with their own line; None if there are none."""
        if not self._tasks:
            return None
        tasks = list(self._tasks.values())
        counts = Counter(task["status"] for task in tasks)
        rows = sorted(tasks, key=lambda task: (task["ended"] is not None, -task["id"]))[:_SHOWN]
        return {"total": len(tasks) + self._left, "counts": dict(sorted(counts.items())), "rows": rows}
