"""Calls of a model over HTTP a second, and what one costs: `python -m benchmarks.call_speed [ROUNDS]` prints a page.

It runs the scenario of W16 with 0, 1 and 2 worker processes, and with a scripted model that answers in the run itself,
each twice: with few calls and with many. The difference leaves out what a run costs once, such as imports, the start of
workers, and the close of the record. CPU time of the process of the run is that of all its threads, one of which writes
the record. All measurements take turns.
"""

import json
import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from typing import Final

from benchmarks.workload import Meter
from benchmarks.workloads import w16_http_call

AGENTS: Final = 100
FEW, MANY = 4, 20  # calls of an agent
SCRIPTED: Final = -1  # in place of a number of workers
WORKERS: Final = (SCRIPTED, 0, 1, 2)

Figures = tuple[float, float, float]
"""Seconds for all calls: real time, CPU of the process of the run, and CPU of its workers."""


class Measured(Meter):
    """Measures the CPU time of processes that were started and have ended, too."""

    def begin(self) -> None:
        """Begin to measure."""
        super().begin()
        self._children = _of_children()

    def end(self, operations: int) -> None:
        """Stop."""
        super().end(operations)
        self.children = _of_children() - self._children


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _one(workers: int, times: int) -> None:
    """Measure one run in this process, and print its figures as JSON."""
    meter = Measured()
    if workers == SCRIPTED:
        w16_http_call.in_core(meter, AGENTS, times)
    else:
        w16_http_call.run(meter, AGENTS, times, workers)
    print(json.dumps([meter.seconds, meter.cpu, meter.children]))


def _measured(workers: int, times: int) -> Figures:
    """Measure one run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.call_speed", "--one", str(workers), str(times)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    real, own, children = json.loads(said.splitlines()[-1])
    return real, own, children


def _rows(found: dict[int, list[Figures]]) -> None:
    """Print the table, and the projection."""
    print("| workers | calls a second | CPU ms a call: the run | least | a worker |\n| --: | --: | --: | --: | --: |")
    own: dict[int, float] = {}
    for workers, rounds in found.items():
        real, mine, others = (statistics.median(one[place] for one in rounds) for place in range(3))
        own[workers], least = mine, min(one[1] for one in rounds)
        worker = f"{others * 1e3:.2f}" if workers > 0 else ""
        name = "scripted" if workers == SCRIPTED else workers
        print(f"| {name} | {1 / real:,.0f} | {mine * 1e3:.2f} | {least * 1e3:.2f} | {worker} |")
    cost = own[1]
    others = statistics.median(one[2] for one in found[1])
    print(
        f"\nA projection, not a measurement: at {cost * 1e3:.2f} ms a call, the process of one run can take up to"
        f" {1 / cost:,.0f} calls a second; their workers would need {others / cost:.1f} more cores."
    )


def main() -> None:
    """Measure all in turns, and print the page."""
    if sys.argv[1:2] == ["--one"]:
        _one(*map(int, sys.argv[2:4]))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    found = defaultdict[int, list[Figures]](list)
    for _ in range(rounds):
        for workers in WORKERS:
            few, many = (_measured(workers, times) for times in (FEW, MANY))
            calls = AGENTS * (MANY - FEW)
            real, own, others = ((more - less) / calls for less, more in zip(few, many, strict=True))
            found[workers].append((real, own, others))
    _rows(found)


if __name__ == "__main__":
    main()
