"""How much CPU time an open window of `sim play` costs the process of the simulation (Linux).

    uv run python -m benchmarks.play_cpu [PAIRS] [SCENARIO ...]

Each scenario is computed as fast as possible, in turn by `sim run`, by `sim play` without a window, and by `sim play`
with a real Chromium that shows its page. Compared is the CPU time of the process of the simulation from the start of
the run to its end, with all of its threads. The CPU time of the process that serves the page is shown beside it.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.viewer.browser import Browser

SCENARIOS: Final = {
    "schelling": ["places.grid=[32,32]", "agents.person.count=920", "agents.person.state.wanted=0.8"],
    "wolf_sheep": [],
    "civil_violence": [],
}
"""What is played, and with which overrides: so many agents, and so restless, that it takes seconds."""

WAYS: Final = ("run", "played", "window")

_RUN: Final = """
import json, os, sys, time
from pathlib import Path
import sim

way, file, *overrides = sys.argv[1:]
if way == "run":
    def begun(runner):
        global cpu
        cpu = time.process_time()
    sim.run(file, overrides=overrides, out="runs", begun=begun)
    print(json.dumps([time.process_time() - cpu, 0]))
    raise SystemExit

def used(pid):  # the CPU seconds of a process
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

with sim.play(file, overrides=overrides, out="runs", browser=False) as server:
    print(server.url, flush=True)
    sys.stdin.readline()
    cpu, page = time.process_time(), used(server._page.pid)
    server.player.go()
    while not server.player._played.ended:
        time.sleep(0.05)
    print(json.dumps([time.process_time() - cpu, used(server._page.pid) - page]), flush=True)
"""


def once(name: str, way: str) -> tuple[float, float]:
    """Compute a scenario once, and return the CPU seconds of its process and of that of its page."""
    file = Path("scenarios").resolve() / f"{name}.yaml"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, way, str(file), *SCENARIOS[name]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        if way == "run":
            found = process.stdout.readline()
        elif way == "played":
            process.stdout.readline()
            print(file=process.stdin, flush=True)
            found = process.stdout.readline()
        else:
            with Browser(Path(home) / "profile") as browser:
                browser.open(process.stdout.readline().strip())
                browser.evaluate("new Promise((done) => setTimeout(done, 1000))")
                print(file=process.stdin, flush=True)
                found = process.stdout.readline()
        process.wait()
    own, page = json.loads(found)
    return own, page


def main(pairs: int, names: list[str]) -> None:
    """Measure, and print each figure and the medians."""
    for name in names:
        rows = []
        for _ in range(pairs):
            rows.append({way: once(name, way) for way in WAYS})
            print(
                name,
                *(f"{way} {rows[-1][way][0]:.2f} s" for way in WAYS),
                f"page {rows[-1]['window'][1]:.2f} s",
                flush=True,
            )
        for other in ("run", "played"):
            more = statistics.median(row["window"][0] / row[other][0] - 1 for row in rows)
            print(f"{name}: a window takes {more:+.1%} more CPU time than `{other}` (median of {pairs})", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or list(SCENARIOS))
