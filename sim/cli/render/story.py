"""Tasks of executors as stories, and the files of their workspaces, for `sim show` and `sim export`."""

from pathlib import Path
from typing import Any

import attrs
import click

from sim.base.errors import RunError, UsageError
from sim.base.expressions import did_you_mean
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.table import print_pairs, print_table
from sim.cli.render.transcript import clock_of
from sim.kernel.codec import decode
from sim.kinds.executor.story import Stories, Story
from sim.record import StoredRun
from sim.record.drafts import draft_folder
from sim.tools.process import check_file_name

_EVENTS = """
    SELECT time_ns, topic, data FROM events WHERE topic GLOB 'execution.*' AND topic <> 'execution.file' ORDER BY id
"""
_FILES = "SELECT project, file, version, changed_by, changed, length(text), text FROM workspace_files"
_THERE = " WHERE text IS NOT NULL ORDER BY project, file"
_COLUMNS = ("project", "file", "version", "by", "changed", "characters")


def stories_of(stored: StoredRun) -> Stories:
    """Return the stories of all tasks of executors of a run."""
    stories = Stories(most=100_000)
    for time_ns, topic, data in stored.query(_EVENTS):
        stories.add(time_ns, topic, decode(data.encode()))
    return stories


def show_story(stored: StoredRun, number: int, *, as_json: bool) -> bool:
    """Print a task of an executor as a story; return whether it is one."""
    stories = stories_of(stored).by_number
    story = stories.get(number)
    if story is None:
        return False
    if as_json:
        parts = [one.number for one in stories.values() if one.parent == number]
        print_json({**attrs.asdict(story), "parts": parts})
        return True
    clock = clock_of(stored)
    print_pairs(list(_pairs(story, stories, clock)))
    for line in story.lines:
        if line.kind == "step":
            click.echo()
            click.echo(plain(f"step {line.text}"))
        else:
            click.echo(plain(f"  {clock(line.time_ns):>10}  {line.kind:<10}  {line.text}"))
    if story.left_out:
        say(f"sim: {story.left_out:,} further lines; the table agent_execution_steps has all")
    return True


def _pairs(story: Story, stories: dict[int, Story], clock: Any) -> Any:
    yield "task", f"{story.number}: {plain(story.name)} ({story.status or ('under way' if story.agent else 'waits')})"
    yield "goal", plain(story.goal)
    for index, (text, met) in enumerate(story.criteria):
        yield "" if index else "criteria", f"[{'x' if met else ' '}] {plain(text)}"
    yield "executor", plain(f"{story.agent or 'none'}, of the type {story.type}; project {story.project}")
    yield "made by", plain(story.creator) + (f", as a part of {_named(story.parent, stories)}" if story.parent else "")
    if story.helps is not None:
        yield "helps", _named(story.helps, stories)
    if story.depends_on:
        yield "after", ", ".join(_named(one, stories) for one in story.depends_on)
    if parts := [one.number for one in stories.values() if one.parent == story.number]:
        yield "parts", ", ".join(_named(one, stories) for one in parts)
    began = "not yet" if story.began_ns is None else clock(story.began_ns)
    yield "time", began + ("" if story.ended_ns is None else f" to {clock(story.ended_ns)}")
    yield "took", f"{story.steps} steps, {story.attempts} attempts, {story.tokens:,} tokens, {story.cost:.6f}"
    if story.ending:
        yield "ended", plain(f"{story.ending}: {story.reason}")


def _named(number: int | None, stories: dict[int, Story]) -> str:
    story = stories.get(number or 0)
    return str(number) if story is None else plain(f"{number} {story.name} ({story.status or 'open'})")


def show_files(stored: StoredRun, project: str | None, *, as_json: bool) -> None:
    """Print the files of a workspace as they are at the end; without a project, the names of all files.

    Raises:
        UsageError: if the run has no files, or none of this project.
    """
    rows = _files(stored)
    projects = list(dict.fromkeys(row[0] for row in rows))
    if project is not None and project not in projects:
        hint = did_you_mean(project, projects) or f"there are {', '.join(projects)}"
        raise UsageError(f"there is no project {project[:80]!r} in this run", hint=hint)
    rows = [row for row in rows if project in (None, row[0])]
    if as_json:
        print_json({"files": [dict(zip((*_COLUMNS, "text"), row, strict=True)) for row in rows]})
        return
    if project is None:
        print_table(_COLUMNS, [row[:6] for row in rows])
        return
    for _, name, version, by, _, _, text in rows:
        click.echo(plain(f"== {name} (version {version}" + (f", by {by})" if by else ")")))
        for line in text.splitlines():
            click.echo(plain(line))


def export_files(stored: StoredRun, target: Path) -> int:
    """Write the files of all projects to a new folder, one folder for each project; return their number.

    Raises:
        UsageError: if the run has no files, or the folder exists.
        RunError: if the record has a name that does not stay in the folder, or a file cannot be written.
    """
    rows = _files(stored)
    if target.exists():
        raise UsageError(f"{target} exists already", hint="choose another name")
    try:
        with draft_folder(target.parent, ".export") as folder:
            draft = folder / "draft"
            for project, name, *_, text in rows:
                check_file_name(f"{project}/{name}")
                path = draft / project / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            draft.replace(target)
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error.strerror or error}") from error
    except UsageError as error:
        raise RunError(f"the record has a file that cannot be written: {error}") from error
    return len(rows)


def _files(stored: StoredRun) -> list[tuple[Any, ...]]:
    """Return the files of a run.

    Raises:
        UsageError: if it has none.
    """
    rows = stored.query(_FILES + _THERE)
    if not rows:
        raise UsageError("the run has no files of executors", hint="its scenario has no `executor`, or none were made")
    return rows
