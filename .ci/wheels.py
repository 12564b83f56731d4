"""Build the wheels that this machine can build, and try each as a user gets it.

    uv run python .ci/wheels.py [FOLDER]

For each version of Python in `[tool.cibuildwheel]` that is on this machine there is one wheel with the compiled part.
There is one without it for every machine (`py3-none-any`), and one that is built where there is no compiler. Each is
installed in an empty environment in which there is no compiler and nothing may be built from source. There it runs the
first command of the README, copies and checks every scenario of the gallery that it brings, runs some of them, and
replays golden runs. The hashes must be those of this tree.

The exit code is 1 if a wheel fails, and 0 otherwise; a Python that is missing is only noted.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ("town", "town-tick")  # those that need no kinds of agents of a host program
RUN = ("ecology", "schelling", "opinions", "cascade", "queue")  # scenarios of the gallery whose hashes are compared
COLUMNS = ("wheel", "python", "MB", "seconds", "compiled", "first command", "gallery", "result")
Row = tuple[str, ...]


class Failed(Exception):  # no Error in its name, because this program expects it
    """What a wheel did wrong."""


class Trial(NamedTuple):
    """A wheel in an environment of its own."""

    wheel: Path
    python: str
    home: Path
    compiled: bool

    def run(self, *command: str) -> str:
        """Run a command of the environment, without a compiler, and return what it prints."""
        path = f"{self.home / 'user/bin'}{os.pathsep}{os.environ['PATH']}"
        without = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        return _run(*command, cwd=self.home, env={**without, "PATH": path, "CC": "/nonexistent", "CXX": "/nonexistent"})

    def install(self) -> None:
        """Install the wheel, and what it depends on, as wheels only."""
        self.home.mkdir()
        _run("uv", "venv", "--quiet", "--python", self.python, str(self.home / "user"))
        self.run(
            "uv", "pip", "install", "--quiet", "--compile-bytecode", "--only-binary", ":all:",
            "--python", str(self.home / "user/bin/python"), "--constraint",
            str(ROOT / "constraints.txt"), str(self.wheel),
        )  # fmt: skip

    def megabytes(self) -> float:
        """Return the size on disk of what was installed, with the bytecode that pip makes."""
        files = (path for path in (self.home / "user/lib").rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_blocks for path in files) / 2**11

    def try_out(self, expected: dict[str, str]) -> tuple[str, str]:
        """Use it as a user does; return how long the first command took, and what was done with the gallery."""
        found = self.run("python", "-c", "from sim.kernel import COMPILED; print(COMPILED)").strip()
        if found != str(self.compiled):
            raise Failed(f"COMPILED is {found}")
        before = time.monotonic()
        self.run("sim", "new", "--from", "ecology")
        self.run("sim", "run", "ecology.yaml", "--json")
        seconds = time.monotonic() - before
        listed = [one["name"] for one in json.loads(self.run("sim", "new", "--list", "--json"))["scenarios"]]
        if listed != sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml")):
            raise Failed(f"the gallery has {', '.join(listed)}")
        (self.home / "gallery").mkdir()
        copies = {}
        for name in listed:
            made = json.loads(self.run("sim", "new", "--from", name, "--dir", "gallery", "--json"))
            copies[name] = made["files"][0]
        self.run("sim", "check", *copies.values())
        for name, hash in expected.items():
            found = json.loads(self.run("sim", "run", copies[name], "--no-record", "--json"))["hash"]
            if found != hash:
                raise Failed(f"{name}: hash {found}, not {hash}")
        for command in (["list"], ["show", "ecology"], ["report", "ecology"], ["replay", "ecology"]):
            self.run("sim", *command)
        for name in GOLDEN:
            self.run("sim", "replay", str(shutil.copytree(ROOT / "tests/golden/runs" / name, self.home / name)))
        return f"{seconds:.1f} s", f"{len(listed)} checked, {len(expected)} run"


def _run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise Failed(f"{' '.join(command[:3])}: exit code {done.returncode}: {' '.join(last)}")
    return done.stdout


def find_python(version: str) -> str | None:
    """Return the path of a Python of this machine, or None."""
    done = subprocess.run(
        ["uv", "python", "find", "--no-project", "--no-python-downloads", version],
        cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not done.returncode:
        return done.stdout.strip()
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(path) for path in sorted(versions.glob(f"{version}*/bin/python{version}"))), None)


def build(scratch: Path, sdist: Path, python: str, release: Path | None = None, **settings: str) -> Path:
    """Build a wheel from the source distribution, so that it is tried too; copy one of a release to a folder."""
    target = Path(tempfile.mkdtemp(dir=scratch))
    command = ["uv", "build", "--quiet", "--wheel", "--python", python, "-o", str(target), str(sdist)]
    _run(*command, env={**os.environ, **settings})
    (wheel,) = target.glob("*.whl")
    if release is not None:
        shutil.copy(wheel, release)
    return wheel


def try_wheel(trial: Trial, expected: dict[str, str]) -> Row:
    """Install a wheel and use it; return its row in the table."""
    start, name = time.monotonic(), trial.wheel.name.removeprefix("actor_sim-").removesuffix(".whl")
    version = _run(trial.python, "-c", "import platform; print(platform.python_version())").strip()
    megabytes = first = gallery = "-"
    try:
        if trial.compiled != any(name.endswith((".so", ".pyd")) for name in zipfile.ZipFile(trial.wheel).namelist()):
            raise Failed("the compiled part is missing" if trial.compiled else "it has a compiled part")
        trial.install()
        megabytes = f"{trial.megabytes():.1f}"
        first, gallery = trial.try_out(expected)
        result = "ok"
    except Failed as error:
        result = f"FAILED: {error}"
    return name, version, megabytes, f"{time.monotonic() - start:.0f}", str(trial.compiled), first, gallery, result


def policy(wheel: Path) -> str:
    """Return the oldest Linux for which auditwheel says that a wheel works."""
    try:
        told = _run("uv", "run", "--quiet", "--isolated", "--only-group", "release", "auditwheel", "show", str(wheel))
    except Failed as error:
        return f"auditwheel: {error}"
    found = re.search(r'following platform tag: "(\w+)"', " ".join(told.split()))
    return f"{wheel.name}: {found[1] if found else told}"


def row_of(scratch: Path, expected: dict[str, str], python: str, wheel: Callable[[], Path], *, compiled: bool) -> Row:
    """Make a wheel, and try it; return its row in the table."""
    try:
        made = wheel()
    except Failed as error:
        return ("-", python, "-", "-", "-", "-", "-", f"FAILED: {error}")
    return try_wheel(Trial(made, python, Path(tempfile.mkdtemp(dir=scratch)) / "home", compiled), expected)


def rows_of(scratch: Path, versions: Iterable[str], folder: Path) -> Iterator[Row]:
    """Build and try the wheels, as many at a time as there are cores; copy those of a release to a folder."""
    runs = {
        name: _run(sys.executable, "-m", "sim", "run", f"scenarios/{name}.yaml", "--no-record", "--json")
        for name in RUN
    }
    expected = {name: json.loads(printed)["hash"] for name, printed in runs.items()}
    yield COLUMNS
    found = {version: find_python(version) for version in versions}
    yield from (
        ("-", version, "-", "-", "-", "-", "-", "skipped: not on this machine")
        for version, python in found.items()
        if python is None
    )
    pythons = [python for python in found.values() if python is not None]
    if not pythons:
        return
    _run("uv", "build", "--quiet", "--sdist", "-o", str(scratch))
    (sdist,) = scratch.glob("*.tar.gz")
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each is a chain of processes, one after another
        made = partial(build, scratch, sdist)
        pure = pool.submit(made, pythons[0], folder, SIM_PURE_PYTHON="1")  # at work before what waits for it
        wheels = [(pythons[0], partial(made, pythons[0], CC="/nonexistent"), False)]  # by a user without a compiler
        wheels += [(python, partial(made, python, folder), True) for python in pythons]
        wheels += [(python, pure.result, False) for python in pythons]
        tried = partial(row_of, scratch, expected)
        rows = [pool.submit(tried, python, wheel, compiled=compiled) for python, wheel, compiled in wheels]
        yield from (row.result() for row in rows)


def main(folder: Path) -> int:
    """Build and try all wheels. Return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    names = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["build"]
    with tempfile.TemporaryDirectory(prefix="sim-wheels-") as scratch:
        versions = [f"3.{name.removeprefix('cp3').removesuffix('-*')}" for name in names]
        rows = list(rows_of(Path(scratch), versions, folder))
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if sys.platform == "linux":
        print(*map(policy, sorted(folder.glob("*-linux_*.whl"))), sep="\n")
    return int(any("FAILED" in row[-1] for row in rows))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"))
