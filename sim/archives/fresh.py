"""Edge: repeats the run or the experiment of an archive in a new environment, with the software that it brings."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from sim.archives.compare import results_difference
from sim.archives.processes import building_variables, fetching_variables, run, running_variables
from sim.archives.software import MODULES, VERSIONS
from sim.archives.wheels import SIM, wheel_of
from sim.base.errors import RunError, UsageError
from sim.base.extras import PACKAGES
from sim.base.text import of_error
from sim.experiments.folder import PLAN
from sim.kernel.codec import Json, JsonObject
from sim.record.drafts import draft_folder
from sim.record.files import SCENARIO

_SECONDS: Final = 3600.0  # real time that a step may take
_PINNED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_VERSION: Final = re.compile(r"3(\.\d{1,3}){1,2}")
_NAME: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"


@attrs.frozen
class Repeated:
    """What came out when the run of an archive was repeated.

    Attributes:
        same: whether the result is the same.
        python: the version of Python of the new environment.
        difference: the first difference, in one sentence; None: there is none.
    """

    same: bool
    python: str
    difference: str | None


def repeat(files: Path, replay: JsonObject, python: str | None, environment: Mapping[str, str]) -> Repeated:
    """Repeat the run or the experiment of an archive in a new environment. This runs the code in the archive.

    Args:
        files: the folder of its unpacked files.
        replay: what its metadata say of how to repeat it.
        python: the version or the path of a Python, such as `3.13`; None: this one.
        environment: the environment variables of this process. They say how packages are fetched; the code in the
            archive gets none that can have a secret.

    Raises:
        UsageError: if there is no such Python, or it cannot be repeated.
        RunError: if the environment cannot be set up, or the run cannot be repeated.
    """
    names = replay.get("allow")
    allow = [name for name in names if _is_name(name)] if isinstance(names, list) else []
    if "experiment" in replay and replay.get("asks"):
        raise UsageError("the experiment asks language models at an endpoint, so it cannot be repeated the same way")
    allowed = [word for name in allow for word in ("--allow", name)]
    with draft_folder(None, "sim-replay") as folder:
        new = _Environment(files, environment, folder / "new")
        new.folder.mkdir()
        version = new.set_up(python)
        if "experiment" not in replay:
            return _replayed(new, version, allowed)
        try:
            return _carried_out(new, version, allowed)
        except (LookupError, TypeError, ValueError, OSError, RecursionError) as error:
            raise UsageError(f"the plan in the archive cannot be used: {of_error(error):.200}") from error


def sim_in(files: Path) -> tuple[str, bool] | None:
    """Return the file of the sim in an archive, and whether it is the one that is installed here, byte by byte.

    Args:
        files: the folder of its unpacked files.

    Returns:
        None if it has none, or several.
    """
    wheels = sorted((files / "software").glob(f"{SIM.replace('-', '_')}-*.whl"))
    if len(wheels) != 1:
        return None
    try:
        own = wheel_of(SIM)
    except RunError:  # it runs from a source tree that is not installed
        return wheels[0].name, False
    return wheels[0].name, (wheels[0].name, wheels[0].read_bytes()) == own


def use_own_sim(files: Path) -> None:
    """Put the sim that is installed here in the place of the one that an archive brings.

    Args:
        files: the folder of its unpacked files.
    """
    software = files / "software"
    for wheel in software.glob(f"{SIM.replace('-', '_')}-*.whl"):
        wheel.unlink()
    name, content = wheel_of(SIM)
    (software / name).write_bytes(content)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) < 200 and not name.startswith("-") and not set(name) - set(_NAME)


def _replayed(new: "_Environment", version: str, allowed: Sequence[str]) -> Repeated:
    runs = sorted((new.files / "run").glob("*/"))
    if len(runs) != 1:
        raise UsageError(f"the archive has {len(runs)} runs, not one")
    (run,) = runs
    result = new.sim("replay", str(run), "--allow-commands", *allowed)
    difference = result.get("difference")
    return Repeated(result.get("same") is True, version, difference if difference is None else str(difference))


def _carried_out(new: "_Environment", version: str, allowed: Sequence[str]) -> Repeated:
    folder, again, plan_file = new.files / "experiment", new.folder / "again", new.folder / PLAN
    plan = json.loads((folder / PLAN).read_bytes())
    plan["file"] = str(folder / SCENARIO)
    if plan.get("past"):
        plan["past"]["run"] = str((folder / plan["past"]["run"]).resolve())
        if not Path(plan["past"]["run"]).is_relative_to(new.files.resolve()):
            raise UsageError("the plan in the archive refers to a run outside of it")
    plan_file.write_text(json.dumps(plan), encoding="utf-8")
    new.sim("sweep", "--plan", str(plan_file), "--to", str(again), *allowed)
    difference = results_difference(folder, again)
    return Repeated(difference is None, version, difference)


def _further(files: Path) -> Sequence[str]:
    """Return the packages that an experiment needs beside those of sim: of a fit, those that choose its candidates."""
    path = files / "experiment" / PLAN
    return PACKAGES["fit"] if path.exists() and json.loads(path.read_bytes()).get("fit") else ()


def _pinned(path: Path) -> Path:
    """Return the path of the versions of packages, if each line of it is a name and a version: no address, no option.

    Raises:
        UsageError: if one is something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{VERSIONS} in the archive cannot be used: {of_error(error):.200}") from error
    wrong = next((line for line in lines if not _PINNED.fullmatch(line)), None)
    if wrong is not None:
        raise UsageError(f"{VERSIONS} in the archive has {wrong!r:.80}, which is not the name and version of a package")
    return path


def _pyenv(variables: Mapping[str, str], version: str) -> list[Path]:
    """Return the folders in which pyenv has installed this version of Python, the newest first."""
    root = variables.get("PYENV_ROOT") or str(Path(variables.get("HOME", "")) / ".pyenv")
    folders = [path for path in Path(root).glob("versions/3.*/bin") if f"{path.parent.name}.".startswith(f"{version}.")]
    return sorted(folders, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)], reverse=True)


@attrs.frozen
class _Environment:
    """A new environment for Python.

    Args:
        files: the folder of the unpacked files of the archive.
        variables: the environment variables of this process.
        folder: an empty folder, in which no file of the archive is.
    """

    files: Path
    variables: Mapping[str, str]
    folder: Path

    @property
    def python(self) -> Path:
        """Its Python."""
        return self._own / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def _own(self) -> Path:
        return self.folder / "environment"

    def set_up(self, python: str | None) -> str:
        """Make the environment, and install what the archive brings, with the versions of packages that it names.

        Returns:
            The version of its Python.
        """
        software = self.files / "software"
        wheels = sorted(map(str, software.glob("*.whl")))
        if not wheels:
            raise UsageError("the archive has no software")
        what = ["-c", str(_pinned(self.files / VERSIONS)), *wheels, *_further(self.files)]
        uv = shutil.which("uv", path=self.variables.get("PATH"))
        chosen = sys.executable if python is None else self._interpreter(python)
        if uv is not None:
            alone = "--no-project"  # no file of a folder above says anything
            find = [uv, "python", "find", alone, "--no-python-downloads", chosen]
            make = [uv, "venv", "--quiet", alone, "--python", chosen, str(self._own)]
            self._step(f"find Python {chosen}", *find)
            self._step("make a new environment", *make)
            version = self._prepared()
            install = [uv, "pip", "install", "--quiet", "-p", str(self.python)]
            self._installed([*install, "--no-build", *what], [*install, *what])
            return version
        program = shutil.which(chosen if Path(chosen).exists() else f"python{chosen}", path=self.variables.get("PATH"))
        if program is None:
            raise UsageError(f"there is no Python {chosen!r:.80} here", hint="give the path of one")
        self._step("make a new environment", program, "-I", "-m", "venv", str(self._own))
        version = self._prepared()
        install = [str(self.python), "-I", "-m", "pip", "install", "--quiet"]
        self._installed([*install, "--only-binary", ":all:", *what], [*install, *what])
        return version

    def _prepared(self) -> str:
        """Let the modules of the archive be found, after all that is installed, and return the version of Python.

        No code of the archive can run yet.
        """
        program = "import platform, sysconfig; print(platform.python_version(), sysconfig.get_path('purelib'))"
        version, _, packages = self._step("run", str(self.python), "-I", "-c", program).strip().partition(" ")
        modules = self.files / MODULES
        modules.mkdir(parents=True, exist_ok=True)
        (Path(packages) / "modules-of-the-archive.pth").write_text(f"{modules.resolve()}\n", encoding="utf-8")
        return version

    def _installed(self, wheels: Sequence[str], builds: Sequence[str]) -> None:
        """Install packages from wheels alone; if one has no wheel, also by building it, which runs its code."""
        try:
            self._step("install packages", *wheels)
        except RunError:
            self._step("install packages", *builds, variables=building_variables(self.variables))

    def _interpreter(self, python: str) -> str:
        """Return the path of a Python that works, for a version; anything else is returned as it is.

        The first program of that name may be one that only looks for others, as those of pyenv do.
        """
        if not _VERSION.fullmatch(python):
            return python
        program = f"python{'.'.join(python.split('.')[:2])}"
        folders = [*map(Path, self.variables.get("PATH", "").split(os.pathsep)), *_pyenv(self.variables, python)]
        for path in (folder / program for folder in folders):
            if path.is_file() and self._is_version(path, python):
                return str(path)
        return python

    def _is_version(self, program: Path, version: str) -> bool:
        try:
            printed = self._step("run", str(program), "-I", "-c", "import platform; print(platform.python_version())")
        except RunError:
            return False
        return f"{printed.strip()}.".startswith(f"{version}.")

    def sim(self, *arguments: str) -> dict[str, Json]:
        """Run a command of sim there, without what the user has installed for himself, and return what it prints."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        command = [str(self.python), "-I", "-m", "sim", *arguments, "--json"]
        printed = self._step(f"run sim {arguments[0]}", *command, variables=running_variables(self.variables, home))
        try:
            result = json.loads(printed)
        except (ValueError, RecursionError) as error:
            raise RunError(f"sim {arguments[0]} printed no result") from error
        failed = result.get("error") if isinstance(result, dict) else "it printed no result"
        if failed:
            reason = failed.get("message") if isinstance(failed, dict) else failed
            raise RunError(f"sim {arguments[0]} failed in the new environment: {reason!s:.600}")
        return dict(result)

    def _step(self, what: str, *command: str, variables: Mapping[str, str] | None = None) -> str:
        """Run a command in an empty folder, and return what it prints. By default it can fetch packages."""
        empty = self.folder / "empty"
        empty.mkdir(parents=True, exist_ok=True)
        try:
            environment = fetching_variables(self.variables) if variables is None else variables
            done = run(command, empty, environment, _SECONDS)
        except (OSError, RunError) as error:
            raise RunError(f"cannot {what} for the new environment: {error}") from error
        if done.code not in (0, 1) or (done.code and not done.stdout.strip()):
            reason = " ".join(done.stderr.strip().splitlines()[-3:]).removeprefix("error: ")
            raise RunError(f"cannot {what} for the new environment: {reason[:600] or 'it failed'}")
        return done.stdout
