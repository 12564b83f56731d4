"""Measures questions to a record of about a million events: seconds, and the memory of all processes (Linux).

    uv run python -m benchmarks.attribution [moments] [turning] [why] [--run FOLDER]

The run has 1,000 agents that walk at random, and one whose draw in the middle decides what comes out. With `--run`, it
is kept in a folder, and is asked again the next time. Each question is asked in a process of its own, with the least
budget; memory is the sum of what its processes have (PSS: a page that several share counts once).
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import attrs

import sim
from sim.experiments.attribution.analysis import LEAST_FUTURES

SCENARIO = """
name: million
until: 500s
agents:
  - name: walker
    count: 1000
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules: [{set: {n: "=n + (1 if chance(0.5) else -1)"}, do: {publish: {topic: step}}}]
  - name: guide
    start: 250.5s
    state: {side: 0}
    rules:
      - {when: side == 0, set: {side: "=1 if chance(0.5) else -1"}}
      - {do: {sleep: {for: 1h}}}
metrics: {every: 10s, values: {n: "total('walker', 'n') + 10000 * mean('guide', 'side')"}}
"""
OUTCOME = "last('n') > 0"
MOMENTS = ("490s", "480s", "251s", "123.4s", "16s", "377.7s")
_LOOK = 2.0  # real seconds between two looks at the memory and the CPU time


def moments(run: Path) -> None:
    """Ask for several moments, the last ones of the run first."""
    with sim.open(run) as stored, stored.moments() as session:
        for number, when in enumerate(MOMENTS):
            begun, before = time.perf_counter(), used(os.getpid()).seconds
            session.at(when)
            what = "the first moment, which goes through the run" if number == 0 else "a later moment"
            real, cpu = time.perf_counter() - begun, used(os.getpid()).seconds - before
            print(f"  {what} (at {when}): {real:.2f} s, {cpu:.2f} s of CPU", flush=True)


def turning(run: Path) -> None:
    """Look for turning points."""
    found = sim.turning_point(run, OUTCOME, budget=LEAST_FUTURES)
    assert found is not None
    print(f"  {found.futures} futures: " + " ".join(found.sentences()[1:]), flush=True)


def why(run: Path) -> None:
    """Look for what decided the outcome."""
    found = sim.why(run, OUTCOME, budget=LEAST_FUTURES)
    assert found is not None
    print(f"  {found.futures} futures: {found.verdict}", flush=True)


QUESTIONS = {"moments": moments, "turning": turning, "why": why}


@attrs.frozen
class Used:
    """What a process, and all that follow from it, use: the CPU seconds so far, and the memory in MB."""

    seconds: float
    memory: float


def used(group: int) -> Used:
    """Return what a process and all that follow from it use. One that has ended counts if its parent has seen that."""
    seconds, memory, known = 0.0, 0.0, {group}
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        try:
            fields = (folder / "stat").read_text(encoding="latin-1").rpartition(")")[2].split()
            if int(fields[1]) not in known and int(folder.name) not in known:
                continue
            known.add(int(folder.name))
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            rows = (folder / "smaps_rollup").read_text(encoding="ascii").splitlines()
            memory += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:")) / 1024
        except (OSError, IndexError):
            continue  # it has ended
    return Used(seconds, memory)


def ask(name: str, run: Path) -> None:
    """Ask one question in a process of its own, and print what it took."""
    begun, most, cpu = time.perf_counter(), 0.0, 0.0
    print(f"{name}:", flush=True)
    child = os.fork()
    if child == 0:
        QUESTIONS[name](run)
        os._exit(0)
    ended = 0
    while not ended:
        now = used(child)
        most, cpu = max(most, now.memory), max(cpu, now.seconds)  # the account at the end lacks killed processes
        time.sleep(_LOOK)
        ended, status, account = os.wait4(child, os.WNOHANG)
    cpu = max(cpu, account.ru_utime + account.ru_stime)
    if status:
        raise SystemExit(f"{name}: its process ended with the code {os.waitstatus_to_exitcode(status)}")
    real = time.perf_counter() - begun
    print(f"  together {real:.0f} s, {cpu:.0f} s of CPU, at most {most:,.0f} MB", flush=True)


def recorded(folder: Path) -> Path:
    """Return the run in a folder, which is made if there is none."""
    known = sorted((folder / "runs").glob("million-*"))
    if known:
        return known[0]
    file = folder / "million.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    begun = time.perf_counter()
    result = sim.run(file, out=folder / "runs", seed=1)
    print(f"{result.events:,} events, recorded in {time.perf_counter() - begun:.0f} s", flush=True)
    return Path(str(result.run))


def main(arguments: list[str]) -> None:
    """Make the run, and ask."""
    parser = argparse.ArgumentParser(prog="benchmarks.attribution")
    parser.add_argument("names", nargs="*", choices=list(QUESTIONS))
    parser.add_argument("--run", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if given.run is not None:
            given.run.mkdir(parents=True, exist_ok=True)
        run = recorded(given.run or Path(folder))
        for name in given.names or QUESTIONS:
            ask(name, run)


if __name__ == "__main__":
    main(sys.argv[1:])
