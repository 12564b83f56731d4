"""Where the process of a run spends the CPU time of a model call over HTTP: `python -m benchmarks.call_parts WORKERS`.

It runs the scenario of W16 under the profiler of Python, by the CPU time of the thread that runs the simulation, and
adds up functions by the package they are in; a function of C belongs to its caller. Calls of functions hardly depend on
the machine. Shares of time do, and the profiler makes what has many short functions look larger than it is.
"""

import cProfile
import pstats
import re
import sys
import time
from collections import Counter, defaultdict

from benchmarks.workload import Meter
from benchmarks.workloads import w16_http_call

AGENTS, TIMES = 100, 20

_PARTS = (
    ("sim/llm", "models: plan, limits, retries, prices"), ("sim/host", "effects"), ("sim/record", "record"),
    ("sim/kernel", "kernel and JSON"), ("anyio", "event loop"), ("asyncio", "event loop"), ("sniffio", "event loop"),
    ("selectors", "event loop"), ("attr", "records"), ("openai", "client"), ("httpx", "client"), ("httpcore", "client"),
    ("h11", "client"), ("sim/", "agents, actions, resources"),
)  # fmt: skip
"""The beginning of a path, without what is before its package, and the part that it belongs to; the first counts."""


class Profiled(Meter):
    """Profiles what it measures."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = cProfile.Profile(time.thread_time)

    def begin(self) -> None:
        """Begin to measure."""
        super().begin()
        self.profile.enable()

    def end(self, operations: int) -> None:
        """Stop."""
        self.profile.disable()
        super().end(operations)


def part(path: str) -> str:
    """Return the part that a function belongs to, by the path of its file."""
    if path.startswith("<attrs"):
        return "records"
    inside = re.sub(r"^.*(?:site-packages|/lib/python[\d.]+|(?=/sim/))/", "", path)
    return next((name for start, name in _PARTS if inside.startswith(start)), "other libraries")


def parts(profile: cProfile.Profile) -> dict[str, tuple[float, float]]:
    """Return the seconds and the calls of functions of each part."""
    seconds, calls = defaultdict[str, float](float), Counter[str]()
    stats: dict[
        tuple[str, int, str], tuple[int, int, float, float, dict[tuple[str, int, str], tuple[int, int, float, float]]]
    ]
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (path, _, _), (_, count, own, _, callers) in stats.items():
        if path != "~":
            seconds[part(path)] += own
            calls[part(path)] += count
            continue
        for (caller, _, _), (_, count, own, _) in callers.items():
            seconds[part(caller)] += own
            calls[part(caller)] += count
    return {name: (seconds[name], calls[name]) for name in seconds}


def main() -> None:
    """Print the parts as a table."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    meter = Profiled()
    w16_http_call.run(meter, AGENTS, TIMES, workers)
    found = parts(meter.profile)
    whole, made = sum(time for time, _ in found.values()), AGENTS * TIMES
    print("| part | calls of functions | share of CPU time |\n| --- | --: | --: |")
    for name, (seconds, calls) in sorted(found.items(), key=lambda one: -one[1][0]):
        print(f"| {name} | {calls / made:,.0f} | {seconds / whole:.0%} |")
    print(f"| all | {sum(calls for _, calls in found.values()) / made:,.0f} | |")


if __name__ == "__main__":
    main()
