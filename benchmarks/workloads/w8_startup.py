"""W8: CPU time until a program is ready, bare Python included: the command's help, and imports."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.workload import Meter, Program, Workload

W8 = Workload("W8", "CPU time to start", (1,), unit="seconds", bases=("bare Python", "import simpy", "import asyncio"))


def _starts(*arguments: str) -> Program:
    def start(meter: Meter, lib: Any, agents: int, times: int) -> None:
        meter.begin()
        meter.end(1)
        meter.value = cpu(arguments)

    return start


def cpu(arguments: Sequence[str]) -> float:
    """Return the CPU seconds, user and system, that Python takes with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


W8.peer("bare Python", needs="builtins")(_starts("-c", "pass"))
W8.peer("sim --help")(_starts("-m", "sim", "--help"))
W8.peer("import sim")(_starts("-c", "import sim"))
W8.peer("from sim import World")(_starts("-c", "from sim import World"))
W8.peer("from sim import run")(_starts("-c", "from sim import run"))
for _module in ("asyncio", "simpy", "salabim", "mesa", "trio", "anyio", "autogen_core", "pykka"):
    W8.peer(f"import {_module}", needs=_module)(_starts("-c", f"import {_module}"))
