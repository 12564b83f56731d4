"""Measures the scenario of regions in one process and on shards: what windows, imbalance and merging cost.

    uv run python -m benchmarks.shards 400:100d 4000:10d 20000:10d 100000:3d --shards 2 4

Each argument is a number of people and a time. Each run has a process of its own, and times are CPU times, so that
other work on the machine matters little. Two columns say what wall time is at least, as shares of the CPU time of one
process: with a core for each process, what the coordinator does alone, the start of a shard and the critical path; on
two cores, half of the CPU time of all processes, if that is more. The last column is the measured wall time as a share
of that of one process, which says something only on a machine without other work.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import sim
from benchmarks.tables import SCENARIOS, printed
from sim.runner.shards import run_on_shards

HEADS = (
    "people", "days", "events", "one process", "shards", "windows", "all shards", "merging", "critical path",
    "imbalance", "alone", "a core for each", "two cores", "wall, one process", "share of it",
)  # fmt: skip


def one(people: int, until: str, shards: int) -> dict[str, Any]:
    """Run it in this process, on shards if there are any, and return the figures."""
    options: Any = {"overrides": [f"agents.person.count={people}"], "until": until}
    file, began, entered = SCENARIOS / "regions.yaml", time.process_time(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = run_on_shards(file, shards, out=folder, **options) if shards else sim.run(file, out=folder, **options)
    own, wall = time.process_time() - began, time.perf_counter() - entered
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "events": result.events, "hash": result.hash, "days": result.sim_seconds / 86400, "own": own, "wall": wall,
        "others": others.ru_utime + others.ru_stime, **result.services.get("shards", {}),
    }  # fmt: skip


def called(people: int, until: str, shards: int) -> dict[str, Any]:
    """Run it in a new process, and return the figures."""
    command = [sys.executable, "-m", "benchmarks.shards", "--one", f"{people}:{until}", "--shards", str(shards)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def row(people: int, single: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return the figures of a run on shards beside those of one process."""
    shards, critical = found["processes"], found["critical path seconds"]
    start, alone = (found["others"] - found["cpu seconds"]) / shards, found["own"] - found["merging cpu seconds"]
    each = (alone + start + critical) / single["own"]
    two = max(each, (found["own"] + found["others"]) / 2 / single["own"])
    return [
        f"{people:,}", f"{single['days']:g}", f"{single['events']:,}", f"{single['own']:.1f} s", f"{shards}",
        f"{found['windows']}", f"{found['cpu seconds']:.1f} s", f"{found['merging cpu seconds']:.1f} s",
        f"{critical:.1f} s", f"{found['imbalance']:.2f}", f"{alone + start:.1f} s", f"{each:.2f}", f"{two:.2f}",
        f"{single['wall']:.1f} s", f"{found['wall'] / single['wall']:.2f}",
    ]  # fmt: skip


def main() -> None:
    """Measure what the command line says, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards", description=__doc__)
    parser.add_argument("sizes", nargs="+", metavar="PEOPLE:TIME", help="such as 4000:10d")
    parser.add_argument("--shards", type=int, nargs="+", default=[2], help="numbers of shards (default 2)")
    parser.add_argument("--one", action="store_true", help="run the first in this process, and print figures")
    options = parser.parse_args()
    rows = []
    for size in options.sizes:
        people, until = int(size.partition(":")[0]), size.partition(":")[2]
        if options.one:
            print(json.dumps(one(people, until, options.shards[0])))
            return
        single = called(people, until, 0)
        for shards in options.shards:
            found = called(people, until, shards)
            assert found["hash"] == single["hash"], "the hash is that of one process"
            rows.append(row(people, single, found))
            print(printed((HEADS, rows[-1:])), file=sys.stderr, flush=True)
    print(printed((HEADS, rows)))


if __name__ == "__main__":
    main()
