"""Measures questions to a record of about a million events: seconds, and the memory of all processes together (Linux).

    uv run python -m benchmarks.attribution [moments] [turning] [why]

The run has 1,000 agents that walk at random, and one whose draw in the middle decides what comes out. Each question is
asked in a process of its own, with the least budget; memory is the sum of what its processes have (PSS: a page that
several share counts once).
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import sim
from sim.experiments.attribution.session import LEAST_FUTURES

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
_LOOK = 0.5  # real seconds between two looks at the memory


def moments(run: Path) -> None:
    """Ask for several moments, the last ones of the run first."""
    with sim.open(run) as stored, stored.moments() as session:
        for number, when in enumerate(MOMENTS):
            begun = time.perf_counter()
            session.at(when)
            what = "the first moment, which goes through the run" if number == 0 else "a later moment"
            print(f"  {what} (at {when}): {time.perf_counter() - begun:.2f} s", flush=True)


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


def memory(group: int) -> float:
    """Return the memory of all processes that follow from one, in MB."""
    found, known = 0.0, {group}
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        try:
            fields = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
            if int(fields[1]) not in known and int(folder.name) not in known:
                continue
            known.add(int(folder.name))
            rows = (folder / "smaps_rollup").read_text(encoding="ascii").splitlines()
            found += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:")) / 1024
        except (OSError, IndexError):
            continue  # it has ended
    return found


def ask(name: str, run: Path) -> None:
    """Ask one question in a process of its own, and print what it took."""
    begun, most = time.perf_counter(), 0.0
    print(f"{name}:", flush=True)
    child = os.fork()
    if child == 0:
        QUESTIONS[name](run)
        os._exit(0)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        most = max(most, memory(child))
        time.sleep(_LOOK)
    print(f"  together {time.perf_counter() - begun:.0f} s, at most {most:,.0f} MB", flush=True)


def main(names: list[str]) -> None:
    """Make the run, and ask."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "million.yaml"
        file.write_text(SCENARIO, encoding="utf-8")
        begun = time.perf_counter()
        result = sim.run(file, out=Path(folder) / "runs", seed=1)
        print(f"{result.events:,} events, recorded in {time.perf_counter() - begun:.0f} s", flush=True)
        for name in names or QUESTIONS:
            ask(name, Path(str(result.run)))


if __name__ == "__main__":
    main(sys.argv[1:])
