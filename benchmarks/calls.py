"""What a wake-up costs, counted in calls: the same on every machine, so that a check can hold it.

Counted are calls of Python functions (the resumption of a generator or coroutine is one) and of C functions, per
operation, within the measured part of a workload. CPython 3.11 and 3.13 give the same numbers. What the compiled core
does within itself is not seen, so there are two lists of bounds: `compiled`, and `plain`, where all of it is Python.
The clock of the host stands still meanwhile: how often it lets other tasks run depends on how fast the machine is.
"""

import gc
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from benchmarks.workload import Meter, measure
from benchmarks.workloads import WORKLOADS
from sim.host.pacing import MonotonicClock
from sim.kernel import COMPILED

BOUNDS = Path(__file__).with_name("bounds.json")
SLACK = 0.02
"""How much more than the bound is still no regression."""

COUNTED = (
    ("W1", "sim"), ("W2", "sim, queue"), ("W2", "sim, mailbox"), ("W3", "sim, event bus"), ("W3", "sim, signal"),
    ("W5", "sim"), ("W6", "sim"), ("W7", "sim, recorded"), ("W12", "sim, yaml"), ("W12", "sim, class"),
    ("W12", "sim, yaml, samples"), ("W13", "sim, yaml"), ("W13", "sim, yaml, samples"), ("W14", "sim, yaml"),
    ("W14", "sim, yaml, samples"),
)  # fmt: skip
AGENTS, TIMES = 50, 40
MODES = {
    "compiled": "",
    "plain": "import sys; sys.modules['sim.kernel.compiled._core'] = None; ",
}  # what a child begins with

Counts = dict[str, float]


class CallMeter(Meter):
    """Counts calls from `begin` to `end`, in this thread.

    Meanwhile no garbage is collected: what earlier work in the process left behind would add its finalizers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin to count."""
        super().begin()
        gc.disable()
        sys.setprofile(self._called)

    def end(self, operations: int) -> None:
        """Stop counting."""
        sys.setprofile(None)
        gc.enable()
        super().end(operations)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.calls[event] += 1


def count(key: str, name: str) -> Counts:
    """Return the calls per operation: `python` and `c`."""
    meter = CallMeter()
    with patch.object(MonotonicClock, "now", lambda clock: 0):
        measure(WORKLOADS[key], name, AGENTS, TIMES, meter)
    return {
        "python": round(meter.calls["call"] / meter.operations, 2),
        "c": round(meter.calls["c_call"] / meter.operations, 2),
    }


def bounds() -> dict[str, Counts]:
    """Return the stored bounds for how the kernel runs in this process, by workload and peer."""
    stored: dict[str, dict[str, Counts]] = json.loads(BOUNDS.read_text())
    return stored["compiled" if COMPILED else "plain"]


def label(key: str, name: str) -> str:
    """Return the name of a bound."""
    return f"{key} {name}"


def count_all() -> dict[str, Counts]:
    """Count everything that has a bound."""
    return {label(key, name): count(key, name) for key, name in COUNTED}


def update() -> dict[str, dict[str, Counts]]:
    """Count again, each mode in a process of its own, and store the result as the bounds."""
    if not COMPILED:
        sys.exit("benchmarks: the bounds are for both modes, and `sim.kernel.compiled._core` is not compiled here")
    tail = "import json; from benchmarks import calls; print(json.dumps(calls.count_all()))"
    counted = {
        mode: json.loads(subprocess.check_output([sys.executable, "-c", head + tail], text=True))
        for mode, head in MODES.items()
    }
    BOUNDS.write_text(json.dumps(counted, indent=2) + "\n")
    return counted
