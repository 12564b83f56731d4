"""Measures futures that are forked: CPU time of a fork, and memory that a future has for itself (Linux).

    uv run python -m benchmarks.futures

It runs a scenario of half a million events, stands at its middle, and forks ten futures there.
"""

import gc
import os
import resource
import tempfile
from pathlib import Path

import sim
from sim.record import open_run
from sim.runner.options import ReplayOptions
from sim.runner.plain import PlainRun, StepMoment

SCENARIO = """
name: futures
until: 250s
agents:
  - name: walker
    count: 1000
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules: [{set: {n: "=n + (1 if chance(0.5) else -1)"}, do: {publish: {topic: step}}}]
metrics: {every: 10s, values: {n: "total('walker', 'n')"}}
"""
FORKS = 10


def own_memory() -> float:
    """Return the memory that this process shares with no other, in MB."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1024


def main() -> None:
    """Measure, and print what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "futures.yaml"
        file.write_text(SCENARIO, encoding="utf-8")
        result = sim.run(file, out=Path(folder) / "runs")
        with open_run(Path(str(result.run)), verify=False) as stored:
            run = PlainRun(stored, ReplayOptions())
            run.noted(lambda: run.to(StepMoment(125 * 10**9)))
            gc.collect()
            gc.freeze()
            print(f"{result.events:,} events; the run has {own_memory():.0f} MB at its middle")
            fork(lambda: None)
            fork(run.finish)


def fork(work: object) -> None:
    """Fork some futures, and print the means."""
    out, into = os.pipe()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for seed in range(FORKS):
        child = os.fork()
        if child == 0:
            begun = own_memory()
            if callable(work):
                work()
            os.write(into, f"{begun} {own_memory()} {seed}\n".encode())
            os._exit(0)
        os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / FORKS
    rows = [line.split() for line in os.read(out, 1 << 16).decode().splitlines()]
    first, last = (sum(float(row[place]) for row in rows) / FORKS for place in (0, 1))
    print(f"a fork: {cpu * 1000:.1f} ms of CPU; {first:.1f} MB at first, {last:.1f} MB at its end")


if __name__ == "__main__":
    main()
