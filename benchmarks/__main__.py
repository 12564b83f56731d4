"""The command: `uv run --group bench python -m benchmarks`."""

import argparse
import json
import sys
from pathlib import Path

if "--plain" in sys.argv:  # before anything of `sim` is imported
    sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # so the import fails, as if it were not there

from benchmarks import calls, harness, machine, plot, report
from benchmarks.day import day
from benchmarks.harness import Row
from benchmarks.workloads import WORKLOADS

DAY = "day"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure sim beside its peers.")
    parser.add_argument("--only", help=f"some of {','.join(WORKLOADS)},{DAY}; {DAY} runs only if it is named")
    parser.add_argument("--sizes", help="numbers of agents instead of each workload's own, such as 1000,10000")
    parser.add_argument("--full", action="store_true", help="the largest sizes too: 1M agents, 2 GB, half an hour")
    parser.add_argument("--repeats", type=int, default=3, help="rounds through all peers (default 3)")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long one measurement takes, roughly")
    parser.add_argument("--quick", action="store_true", help="one short round, and one hour of the day")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file too")
    parser.add_argument("--plot", type=Path, help="write the cost of a wake-up as an SVG picture")
    parser.add_argument("--plain", action="store_true", help="measure the kernel in Python, also where it is compiled")
    parser.add_argument("--update-bounds", action="store_true", help="only count calls and store them as the bounds")
    return parser.parse_args()


def main() -> None:
    """Measure and report."""
    options = _arguments()
    if options.update_bounds:
        print(json.dumps(calls.update(), indent=2))
        return
    keys = options.only.split(",") if options.only else [*WORKLOADS]
    if unknown := [key for key in keys if key not in (*WORKLOADS, DAY)]:
        sys.exit(f"benchmarks: there is no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}, {DAY}")
    about = machine.describe()
    rows = _measure(options, keys)
    notes = _notes(keys)
    if DAY in keys:
        notes.append(day("1h" if options.quick else "24h"))
    page = report.to_markdown(about, rows, notes, WORKLOADS)
    print(page)
    if options.markdown:
        options.markdown.write_text(page)
    if options.json:
        options.json.write_text(json.dumps(report.to_json(about, rows, notes), indent=1) + "\n")
    if options.plot:
        timers = [row for row in rows if row.workload == "W1"]
        options.plot.write_text(plot.to_svg(timers, "Cost of a timer wake-up"))


def _measure(options: argparse.Namespace, keys: list[str]) -> list[Row]:
    repeats = 1 if options.quick else options.repeats
    seconds = 0.1 if options.quick else options.seconds
    rows: list[Row] = []
    for workload in (WORKLOADS[key] for key in keys if key in WORKLOADS):
        sizes = workload.sizes + (workload.full if options.full else ())
        if options.sizes and workload.unit != "seconds":
            sizes = tuple(map(int, options.sizes.split(",")))
        elif options.quick:
            sizes = sizes[:1]
        for agents in sizes:
            rows += harness.run(workload, agents, repeats, seconds, _say)
    return rows


def _notes(keys: list[str]) -> list[str]:
    notes = []
    if missing := harness.missing(WORKLOADS[key] for key in keys if key in WORKLOADS):
        notes.append(f"not installed, so left out: {', '.join(missing)}")
    return notes


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
