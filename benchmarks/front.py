"""The figures of README.md: `uv run python -m benchmarks.front` measures all of them and writes them into it.

Each tool is installed in an environment of its own, as its users install it: that gives its size and the time of its
import. Then `sim` joins it, because the package of the workloads needs it. Workloads are measured in turns, each in a
process of its own. Figures are CPU times, which a busy machine changes least, the least of several rounds, and are
rounded to two digits. They are kept in `front.json`; a test compares it with README.md.
"""

import argparse
import datetime as dt
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from benchmarks import machine
from benchmarks.front_page import render
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("front.json")
README = ROOT / "README.md"


@attrs.frozen
class Tool:
    """A tool that the page compares, in the version that was measured.

    Args:
        name: as the page names it.
        requirements: what its users install.
        program: how their programs begin.
        more: what the workloads need besides.
    """

    name: str
    requirements: tuple[str, ...]
    program: str
    more: tuple[str, ...] = ()


TOOLS = (
    Tool("sim", (str(ROOT),), "from sim import Agent, World, run"),
    Tool("Mesa", ("mesa==3.3.1",), "import mesa", ("networkx",)),
    Tool("SimPy", ("simpy==4.1.2",), "import simpy"),
    Tool("Concordia", ("gdm-concordia==2.1.0",), "import concordia.prefabs.entity.minimal"),
    Tool("LangGraph", ("langgraph==1.2.24",), "import langgraph.graph"),
)

MEASURED = {
    "wakeups": ("W1", 1_000, 0.5, {"sim": "sim", "Mesa": "mesa", "SimPy": "simpy"}),
    "turns": ("W13", 400, 0.5, {"sim": "sim, yaml", "Mesa": "mesa"}),
    "turns_class": ("W13", 400, 0.5, {"sim": "sim, class"}),
    "calls": ("W15", 10, 1.0, {"sim": "sim, yaml", "Concordia": "concordia", "LangGraph": "langgraph"}),
    "iterations": ("W6", 1_000, 1.0, {"sim": "sim"}),
    "memory": ("W4A", 20_000, 0.0, {"sim": "sim, asleep until an event"}),
}
"""Each row of figures: workload, agents, seconds of one measurement, and the peer of each tool."""

Figures = dict[str, dict[str, float]]


class Environment:
    """An environment in which one tool is installed.

    Args:
        tool: the tool.
        folder: where the environment is made.
    """

    def __init__(self, tool: Tool, folder: Path) -> None:
        self.tool, self.folder = tool, folder
        self.python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def install(self) -> None:
        """Make the environment, and install the tool with the bytecode of its modules, as pip does."""
        _call("uv", "venv", "--quiet", "--python", sys.executable, str(self.folder))
        self._add(*self.tool.requirements)

    def join(self) -> None:
        """Add what the workloads need: `sim`, and packages that the tool leaves to its users."""
        self._add(str(ROOT), *self.tool.more)

    def _add(self, *requirements: str) -> None:
        target = ["--quiet", "--compile-bytecode", "--python", str(self.python)]
        _call("uv", "pip", "install", *target, "--constraint", str(ROOT / "constraints.txt"), *requirements)

    def megabytes(self) -> float:
        """Return how much the environment takes on disk, without the interpreter itself."""
        return _megabytes(self.folder)

    def version(self) -> str:
        """Return the version of the tool that is installed."""
        name = re.split("[=<>]", self.tool.requirements[0])[0] if self.tool.name != "sim" else "actor-sim"
        code = f"from importlib.metadata import version; print(version({name!r}))"
        return _call(str(self.python), "-c", code, cwd=self.folder).strip()

    def import_seconds(self) -> float:
        """Return the CPU time that the first line of a program takes after Python has started: the least of five."""
        bare = min(self._cpu("pass") for _ in range(5))
        return min(self._cpu(self.tool.program) for _ in range(5)) - bare

    def _cpu(self, code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _call(str(self.python), "-c", code, cwd=self.folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def measure(self, key: str, peer: str, agents: int, times: int) -> float:
        """Return what one measurement of a workload gives: CPU seconds of an operation, or bytes of an agent."""
        command = [str(self.python), "-m", "benchmarks.worker", key, peer, str(agents), str(times)]
        sample = json.loads(_call(*command, cwd=ROOT).splitlines()[-1])
        return float(sample["value"] if WORKLOADS[key].unit == "bytes" else sample["cpu"] / sample["operations"])


def measure(repeats: int) -> dict[str, Any]:
    """Measure everything; return the figures with what they depend on."""
    with tempfile.TemporaryDirectory(prefix="sim-front-") as folder:
        places = {tool.name: Environment(tool, Path(folder) / tool.name) for tool in TOOLS}
        figures: Figures = {"megabytes": {}, "import": {}}
        for name, place in places.items():
            _say(f"install {name}")
            place.install()
            figures["megabytes"][name] = place.megabytes()
            figures["import"][name] = place.import_seconds()
        versions = {name: place.version() for name, place in places.items()}
        for place in places.values():
            place.join()
        for row, values in _rows(places, repeats):
            figures[row] = values
        first = _first_scenario(places["sim"], Path(folder))
        clone = _clone(Path(folder) / "clone")
    return {
        "measured": {**machine.describe(), "day": dt.datetime.now(tz=dt.UTC).date().isoformat(), "versions": versions},
        "figures": figures,
        "first": first,
        "clone": clone,
    }


def _rows(places: Mapping[str, Environment], repeats: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each row of figures: the least of rounds in which the tools take turns, as what disturbs only adds."""
    for row, (key, agents, seconds, peers) in MEASURED.items():
        workload, values = WORKLOADS[key], {name: list[float]() for name in peers}
        for repeat in range(repeats):
            for name, peer in peers.items():
                _say(f"{row} {name} {repeat + 1}/{repeats}")
                times = workload.times(workload.peers[peer], agents, seconds)
                values[name].append(places[name].measure(key, peer, agents, times))
        yield row, {name: min(found) for name, found in values.items()}


def _first_scenario(place: Environment, folder: Path) -> dict[str, Any]:
    """Run the first scenario as a user does, and return what the page says of it."""
    _say("the first scenario")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(place.python), "-m", "sim", "run", str(ROOT / "scenarios/ecology.yaml"), "--json"]
    summary = json.loads(_call(*command, cwd=folder))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "agents": summary["agents"],
        "days": summary["sim_seconds"] / 86_400,
        "events": summary["events"],
        "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "scenarios": len(list((ROOT / "scenarios").glob("*.yaml"))),
    }


def _clone(folder: Path) -> dict[str, float]:
    """Return the megabytes of the environment of a clone: for runs (`--no-dev`), and for development."""
    shutil.copytree(
        ROOT, folder, ignore=shutil.ignore_patterns(".*", "build", "dist", "runs", "uv.lock", "*.egg-info", "*.so")
    )
    elsewhere = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "UV_NO_DEV")
    environment = {key: value for key, value in os.environ.items() if key not in elsewhere}
    found = {}
    for name, options in (("run", ["--no-dev"]), ("develop", [])):
        _say(f"the environment of a clone, to {name}")
        _call("uv", "run", "--quiet", *options, "sim", "--version", cwd=folder, env=environment)
        found[name] = _megabytes(folder / ".venv")
    return found


def _megabytes(folder: Path) -> float:
    """Return what the files of a folder take on disk, in blocks (on Windows: their bytes)."""
    found = [path.stat() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(getattr(one, "st_blocks", one.st_size / 512) * 512 for one in found) / 1e6


def _call(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"benchmarks.front: {' '.join(command)}\n{done.stderr}")
    return done.stdout


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, keep the figures, and write them into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.front", description="Measure the figures of README.md.")
    parser.add_argument("--repeats", type=int, default=5, help="rounds through all tools (default 5)")
    parser.add_argument("--render", action="store_true", help="measure nothing; only write the page from front.json")
    options = parser.parse_args()
    if not options.render:
        RESULTS.write_text(json.dumps(measure(options.repeats), indent=1) + "\n", encoding="utf-8")
    README.write_text(render(README.read_text(encoding="utf-8"), json.loads(RESULTS.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
