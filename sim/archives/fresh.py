"""Edge: repeats the run or the experiment of an archive in a new environment, with the software that it brings."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from sim.archives.compare import results_difference
from sim.archives.software import MODULES, VERSIONS
from sim.archives.wheels import SIM, wheel_of
from sim.errors import RunError, UsageError
from sim.experiments.folder import PLAN
from sim.store.files import SCENARIO
from sim.text import of_error

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


def repeat(files: Path, replay: Mapping[str, Any], python: str | None, environment: Mapping[str, str]) -> Repeated:
    """Repeat the run or the experiment of an archive in a new environment. This runs the code in the archive.

    Args:
        files: the folder of its unpacked files.
        replay: what its metadata say of how to repeat it.
        python: the version or the path of a Python, such as `3.13`; None: this one.
        environment: the environment variables of the processes, which say how packages are fetched.

    Raises:
        UsageError: if there is no such Python, or it cannot be repeated.
        RunError: if the environment cannot be set up, or the run cannot be repeated.
    """
    names = replay.get("allow")
    allow = [name for name in names if _is_name(name)] if isinstance(names, list) else []
    own = {
        name: value for name, value in environment.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    new = _Environment(files, own, files / "environment")
    new.set_up(python)
    version = new.run("-c", "import platform; print(platform.python_version())").strip()
    allowed = [word for name in allow for word in ("--allow", name)]
    if "experiment" not in replay:
        return _replayed(new, version, allowed)
    if replay.get("asks"):
        raise UsageError("the experiment asks language models at an endpoint, so it cannot be repeated the same way")
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
    return Repeated(result.get("same") is True, version, result.get("difference"))


def _carried_out(new: "_Environment", version: str, allowed: Sequence[str]) -> Repeated:
    folder, again = new.files / "experiment", new.files / "again"
    plan = json.loads((folder / PLAN).read_bytes())
    plan["file"] = str(folder / SCENARIO)
    if plan.get("past"):
        plan["past"]["run"] = str((folder / plan["past"]["run"]).resolve())
        if not Path(plan["past"]["run"]).is_relative_to(new.files.resolve()):
            raise UsageError("the plan in the archive refers to a run outside of it")
    (new.files / PLAN).write_text(json.dumps(plan), encoding="utf-8")
    new.sim("sweep", "--plan", str(new.files / PLAN), "--out", str(again), *allowed)
    difference = results_difference(folder, again)
    return Repeated(difference is None, version, difference)


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
    found = [path for path in Path(root).glob("versions/3.*/bin") if f"{path.parent.name}.".startswith(f"{version}.")]
    return sorted(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)], reverse=True)


@attrs.frozen
class _Environment:
    """A new environment for Python."""

    files: Path
    variables: Mapping[str, str]
    folder: Path

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    def set_up(self, python: str | None) -> None:
        """Make the environment, and install what the archive brings, with the versions of packages that it names."""
        software = self.files / "software"
        wheels = sorted(map(str, software.glob("*.whl")))
        if not wheels:
            raise UsageError("the archive has no software")
        versions = ["-c", str(_pinned(self.files / VERSIONS))]
        uv = shutil.which("uv", path=self.variables.get("PATH"))
        chosen = sys.executable if python is None else self._found(python)
        if uv is not None:
            self._step(f"find Python {chosen}", uv, "python", "find", "--no-python-downloads", chosen)
            self._step("make a new environment", uv, "venv", "--quiet", "--python", chosen, str(self.folder))
            self._step("install packages", uv, "pip", "install", "--quiet", "-p", str(self.python), *versions, *wheels)
            return
        program = shutil.which(chosen if Path(chosen).exists() else f"python{chosen}", path=self.variables.get("PATH"))
        if program is None:
            raise UsageError(f"there is no Python {chosen!r:.80} here", hint="give the path of one")
        self._step("make a new environment", program, "-m", "venv", str(self.folder))
        self._step("install packages", str(self.python), "-m", "pip", "install", "--quiet", *versions, *wheels)

    def _found(self, python: str) -> str:
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

    def sim(self, *arguments: str) -> dict[str, Any]:
        """Run a command of sim there, beside the modules that the archive brings, and return what it prints."""
        printed = self.run("-m", "sim", *arguments, "--json")
        try:
            result = json.loads(printed)
        except ValueError as error:
            raise RunError(f"sim {arguments[0]} printed no result") from error
        failed = result.get("error") if isinstance(result, dict) else "it printed no result"
        if failed:
            reason = failed.get("message") if isinstance(failed, dict) else failed
            raise RunError(f"sim {arguments[0]} failed in the new environment: {reason!s:.600}")
        return dict(result)

    def run(self, *arguments: str) -> str:
        """Run the Python there, without what the user has installed for himself, and return what it prints."""
        return self._step("run", str(self.python), "-I", *arguments)

    def _step(self, what: str, *command: str) -> str:
        modules = self.files / MODULES
        modules.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run(  # noqa: S603  # the operator asks for this, see `sim verify --replay`
                command, cwd=modules, env=dict(self.variables), capture_output=True, text=True, timeout=_SECONDS,
                check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunError(f"cannot {what}: {error}") from error
        if done.returncode not in (0, 1) or (done.returncode and not done.stdout.strip()):
            reason = " ".join(done.stderr.strip().splitlines()[-3:]).removeprefix("error: ")
            raise RunError(f"cannot {what} for the new environment: {reason[:600] or 'it failed'}")
        return done.stdout
