"""A task of a run as text or JSON, for `sim show`."""

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict, cast

import click

from sim.base.errors import UsageError
from sim.cli.render.output import plain, print_json
from sim.cli.render.rows import print_list, say_rest
from sim.cli.render.story import show_story, stories_of
from sim.cli.render.table import print_pairs
from sim.kernel.codec import Json, decode, encode
from sim.kernel.duration import seconds_text
from sim.record import StoredRun

_COLUMNS = (
    "task", "title", "kind", "status", "priority", "creator", "assignee", "parent", "depends_on", "created", "updated",
    "due", "overdue", "stalled", "result",
)  # fmt: skip
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM tasks"  # noqa: S608 - constants


class _Task(TypedDict):
    """A row of the view `tasks`, with what it has as JSON decoded."""

    task: int
    title: str | None
    kind: str | None
    status: str
    priority: float | None
    creator: str | None
    assignee: str | None
    parent: int | None
    depends_on: list[int]
    created: float
    updated: float
    due: float | None
    overdue: int
    stalled: int
    result: Json


def _task(row: tuple[Any, ...]) -> _Task:
    task = dict(zip(_COLUMNS, row, strict=True))
    task |= {"depends_on": _json(task["depends_on"]) or [], "result": _json(task["result"])}
    return cast("_Task", task)


def print_tasks(stored: StoredRun, most: int | None, *, as_json: bool) -> None:
    """Print the tasks of a run, one a line: those of executors, otherwise all others.

    Args:
        stored: the run.
        most: the most tasks; None: all.
        as_json: whether to print one JSON object.
    """
    rows = [
        (number, story.status or ("under way" if story.agent else "waits"), story.agent or "", story.name)
        for number, story in stories_of(stored).by_number.items()
    ] or stored.query("SELECT task, status, assignee, title FROM tasks")
    print_list(("task", "status", "agent", "title"), rows[:most], as_json=as_json, none="the run has no tasks")
    if not as_json:
        say_rest(len(rows[:most]), len(rows))


def show_task(stored: StoredRun, name: str, *, as_json: bool) -> None:
    """Print a task with its history, the tasks that it depends on, and its parts; a task of an executor as a story.

    Raises:
        UsageError: if the run has no task of this number.
    """
    id = int(name) if name.isascii() and name.isdecimal() and len(name) < 19 else -1
    if show_story(stored, id, as_json=as_json):
        return
    tasks = {row[0]: _task(row) for row in stored.query(_SELECT)}
    if id not in tasks:
        hint = f"its tasks are numbered 1 to {len(tasks)}" if tasks else "it has no tasks"
        raise UsageError(f"there is no task {name[:40]} in this run", hint=hint)
    task = tasks[id]
    history = stored.query("SELECT time, by, what, status, note FROM task_history WHERE task = ? ORDER BY id", (id,))
    rows = [dict(zip(("time", "by", "what", "status", "note"), row, strict=True)) for row in history]
    parts = [other for other in tasks.values() if other["parent"] == id]
    if as_json:
        print_json({**task, "history": rows, "parts": [part["task"] for part in parts]})
        return
    print_pairs(list(_pairs(task, tasks, parts)))
    click.echo()
    for row in rows:
        note = f": {row['note']}" if row["note"] else ""
        by = f" by {row['by']}" if row["by"] else ""
        click.echo(plain(f"{seconds_text(row['time']):>14}  {row['what']}{by}{note}"))


def _pairs(task: _Task, tasks: Mapping[int, _Task], parts: list[_Task]) -> Iterator[tuple[str, str]]:
    yield "task", f"{task['task']}: {plain(task['title'] or '')}"
    warnings = [name for name, there in (("overdue", task["overdue"]), ("stalled", task["stalled"])) if there]
    yield "status", task["status"] + (f" ({', '.join(warnings)})" if warnings else "")
    yield "priority", str(task["priority"] or 0)
    yield "created", f"{seconds_text(task['created'])} by {plain(task['creator'] or '')}"
    yield "assignee", plain(task["assignee"] or "any agent")
    if task["due"] is not None:
        yield "due", seconds_text(task["due"])
    if task["parent"] is not None:
        yield "part of", _named(tasks.get(task["parent"]))
    if task["depends_on"]:
        yield "depends on", ", ".join(_named(tasks.get(other)) for other in task["depends_on"])
    if parts:
        yield "parts", ", ".join(map(_named, parts))
    if task["result"] is not None:
        yield "result", plain(encode(task["result"]).decode())


def _named(task: _Task | None) -> str:
    return "?" if task is None else f"{task['task']} {plain(task['title'] or '')} ({task['status']})"


def _json(text: str | None) -> Any:
    return None if text is None else decode(text.encode())
