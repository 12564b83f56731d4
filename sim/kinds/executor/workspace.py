"""The workspace: the files of projects as artifacts, which executors read, write, edit and test through tools."""

import re
from typing import TYPE_CHECKING, Final

from sim.base.errors import UsageError
from sim.kinds.executor.events import FileChanged
from sim.kinds.executor.records import MadeFile, Metrics
from sim.kinds.executor.settings import ExecutorsSettings
from sim.tools.process import check_file_name, check_folders
from sim.world import Refused, World
from sim.world.artifact import make

if TYPE_CHECKING:
    from sim.kinds.executor.records import TaskState

_DEPENDENCY: Final = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


class Workspace:
    """The files of all projects of a world. A file is the artifact `project/name`, which everybody can read.

    Args:
        world: the world.
        settings: the projects, and the limits of files.

    Attributes:
        files: the names of the files of each project, in the order in which they were made.
        changes: how often the files of each project changed.
    """

    def __init__(self, world: World, settings: ExecutorsSettings) -> None:
        self.files: dict[str, dict[str, None]] = {}
        self.changes: dict[str, int] = {}
        self._world = world
        self._settings = settings

    def fill(self) -> None:
        """Make the files that the scenario gives."""
        for project, settings in self._settings.projects.items():
            for name, text in settings.files.items():
                self.write(project, name, text, by="")

    def text(self, project: str, name: str) -> str:
        """Return the text of a file.

        Raises:
            Refused: if it does not exist.
        """
        if name not in self.files.get(project, ()):
            names = ", ".join(list(self.files.get(project, ()))[:20]) or "none"
            raise Refused(f"there is no file {name!r:.100}; there are {names}")
        artifact = self._world.artifacts.get(f"{project}/{name}")
        return "" if artifact is None else str(artifact.content)

    def texts(self, project: str) -> dict[str, str]:
        """Return the texts of all files of a project by name."""
        return {name: self.text(project, name) for name in self.files.get(project, ())}

    def write(self, project: str, name: str, text: str, *, by: str, state: "TaskState | None" = None) -> int:
        """Make a file or replace its text; return its version.

        Args:
            project: the project.
            name: the name of the file, with its folders.
            text: the text.
            by: who does it.
            state: the task for which it is done.

        Raises:
            Refused: if the name is not valid, the text too long, there are too many files, or it is protected.
        """
        _check_protected(name, state)
        own = self.files.setdefault(project, {})
        try:
            check_file_name(name)
            if name not in own:
                check_folders(name, own)
                if folder := next((other for other in own if other.startswith(f"{name}/")), None):
                    raise UsageError(f"{name!r} cannot be both a file and the folder of {folder!r}")
        except UsageError as error:
            raise Refused(str(error)) from error
        if "\0" in text:
            raise Refused("a file holds text without NUL characters")
        if len(text) > (most := self._settings.file_length):
            raise Refused(f"a file has at most {most:,} characters, not {len(text):,}")
        if name not in own and len(own) >= (most := self._settings.files):
            raise Refused(f"a project has at most {most:,} files")
        id, artifacts = f"{project}/{name}", self._world.artifacts
        before = artifacts.get(id)
        if before is not None and before.owner != project:
            raise Refused(f"the artifact {id!r:.100} belongs to {before.owner}")
        artifact = make(id, project, text)
        if before is not None:
            artifact = before.rewritten(artifact.raw)
        task = None if state is None else state.number
        self._world.event_bus.report(
            FileChanged(by=by, file=name, project=project, task=task, text=text, version=artifact.version)
        )
        artifacts.put(artifact)
        own[name] = None
        self.changes[project] = self.changes.get(project, 0) + 1
        if state is not None:
            made_file = state.artifacts.get(name)
            made = before is None if made_file is None else made_file.made
            lines = text.count("\n") + (not text.endswith("\n") and bool(text))
            state.artifacts[name] = MadeFile(artifact.version, len(text.encode()), lines, made)
        return artifact.version

    def delete(self, project: str, name: str, *, by: str, state: "TaskState") -> None:
        """Delete a file.

        Raises:
            Refused: if it does not exist, or it is protected.
        """
        self.text(project, name)
        _check_protected(name, state)
        self._world.artifacts.remove(f"{project}/{name}")
        self._world.event_bus.report(
            FileChanged(by=by, file=name, project=project, task=state.number, text=None, version=None)
        )
        del self.files[project][name]
        self.changes[project] += 1
        state.artifacts.pop(name, None)

    def dependencies(self, project: str) -> int:
        """Return the number of packages that the file `requirements.txt` of a project lists."""
        if "requirements.txt" not in self.files.get(project, ()):
            return 0
        return len(set(_DEPENDENCY.findall(self.text(project, "requirements.txt"))))


def _check_protected(name: str, state: "TaskState | None") -> None:
    """Refuse a change of a file that a task cannot change."""
    if state is not None and any(is_in(name, path) for path in state.protected or ()):
        raise Refused(f"the task {state.task_id} cannot change {name!r:.100}, because it is protected")


def is_in(name: str, path: str) -> bool:
    """Return whether a file, or a test as `file::name`, is in a file or folder, or is the test that `path` names."""
    file, wanted = name.partition("::")[0], path.partition("::")[0]
    return file == wanted or file.startswith(f"{wanted.rstrip('/')}/")


def metrics_of(state: "TaskState", workspace: Workspace) -> Metrics:
    """Return what a task made: files, lines of Python, and dependencies that its project did not have before."""
    lines = sum(one.lines for name, one in state.artifacts.items() if name.endswith(".py"))
    made = sum(one.made for one in state.artifacts.values())
    added = workspace.dependencies(state.project_id) - state.metadata.get("dependencies", 0)
    return {"files_created": made, "lines_written": lines, "dependencies_added": max(0, added)}
