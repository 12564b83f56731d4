"""Commands in forks of one warm process, which are killed on the way: a kill costs a tenth of a second, not two.

Each line on stdin is a command as JSON: `args`, the folder `cwd`, and when it is killed: at the n-th reach of a crash
point (`point`, `n`), or `after` so many seconds, by `signal`. Each line on stdout says how it ended.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from sim.base import crashpoints
from sim.cli import VERBS, main
from sim.experiments.pool import Inline
from tests.proof.child import hook_for

ROOT = Path(__file__).parents[2]


def serve() -> None:
    """Fork for each command."""
    for verb in VERBS:
        importlib.import_module(f"sim.cli.{ {'list': 'listing', 'set': 'override'}.get(verb, verb) }")
    for name in ("sim.archives", "sim.experiments.integrity", "sim.inspect.analysis"):
        importlib.import_module(name)
    for line in sys.stdin:
        plan = json.loads(line)
        child = os.fork()
        if child == 0:
            _begin(plan)
        sys.stdout.write(f"{_ended(child, plan)}\n")
        sys.stdout.flush()


def _begin(plan: dict[str, Any]) -> None:
    os.chdir(plan["cwd"])
    os.environ["TMPDIR"] = str(Path(plan["cwd"], "tmp"))
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    for verb in ("study", "branch"):  # trials in this process, which is the one that is killed
        sys.modules[f"sim.cli.{verb}"].workers_of = lambda *_: Inline()  # type: ignore[attr-defined]
    if "point" in plan:
        kill = getattr(signal, plan["signal"])
        crashpoints.hook = hook_for(plan["point"], plan["n"], lambda: os.kill(os.getpid(), kill))
    main(plan["args"])


def _ended(child: int, plan: dict[str, Any]) -> int:
    if "after" in plan:
        time.sleep(plan["after"])
        os.kill(child, getattr(signal, plan["signal"]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Commands:
    """The warm process. Use it as a context manager."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.proof.forking"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def call(self, cwd: Path, *args: object, **kill: Any) -> int:
        """Run a command in a folder, and return its exit code, or minus the signal that ended it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        (cwd / "tmp").mkdir(exist_ok=True)
        plan = {"args": [*map(str, args)], "cwd": str(cwd), **({"signal": "SIGKILL", **kill} if kill else {})}
        self._process.stdin.write(json.dumps(plan) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


if __name__ == "__main__":
    serve()
