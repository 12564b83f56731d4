"""The tasks of executors as a plan tree: each task with its story, below the task of which it is a part."""

from sim.events.coerce import mapping
from sim.inspect.viewer.room import Room
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.kinds.executor.story import Stories, Story

_TASKS = 300
"""The most tasks that are shown, the first."""

_LINES = 200
"""The most lines of a story."""

_DEEPEST = 20


class Executions(Section):
    """Collects the stories of tasks."""

    title = "Plan tree"
    place = 80
    topics = ("execution.*",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._stories = Stories(_TASKS)

    def add(self, event: Event, data: Data) -> None:
        """Take in an event of a task."""
        self._stories.add(event.time_ns, event.topic, mapping(event.data))

    def to_json(self) -> Json:
        """Return the plan tree; None if there are no tasks of executors."""
        stories = self._stories
        if not stories.by_number:
            return None
        parts: dict[int | None, list[Story]] = {}
        for story in stories.by_number.values():
            above = story.parent if story.parent in stories.by_number and story.parent != story.number else None
            parts.setdefault(above, []).append(story)
        room = Room("task ID")
        roots = [_tree(story, parts, 0, room) for story in parts.get(None, ())]
        return {"total": stories.total, "shown": len(stories.by_number), "roots": roots}


def _tree(story: Story, parts: dict[int | None, list[Story]], depth: int, room: Room) -> dict[str, Json]:
    below = parts.get(story.number, ()) if depth < _DEEPEST else ()
    lines = story.lines[:_LINES]
    return {
        "number": story.number,
        "name": story.name[:80],
        "type": story.type[:80],
        "agent": story.agent[:80],
        "goal": room.take(story.goal),
        "criteria": [[room.take(text), met] for text, met in story.criteria[:50]],
        "status": story.status[:40],
        "ending": story.ending[:40],
        "progress": story.progress,
        "steps": story.steps,
        "tokens": story.tokens,
        "cost": story.cost,
        "left_out": story.left_out + len(story.lines) - len(lines),
        "lines": [{"time": one.time_ns / 1e9, "kind": one.kind, "text": room.take(one.text)} for one in lines],
        "parts": [_tree(one, parts, depth + 1, room) for one in below],
    }
