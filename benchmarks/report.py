"""The figures as a Markdown table and as JSON."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import attrs

from benchmarks.harness import Row
from benchmarks.workload import Workload


def to_json(about: Mapping[str, str], rows: Sequence[Row], notes: Sequence[str]) -> dict[str, Any]:
    """Return everything that was measured."""
    return {"about": dict(about), "notes": list(notes), "rows": [attrs.asdict(row) for row in rows]}


def to_markdown(
    about: Mapping[str, str], rows: Sequence[Row], notes: Sequence[str], workloads: Mapping[str, Workload]
) -> str:
    """Return a page with one table for each workload and size."""
    lines = ["# Benchmarks", ""]
    lines += [f"- {name}: {text}" for name, text in about.items()]
    lines += [
        "- ratios: how many times better than the peer of the column, by least CPU time an operation in this run",
        "",
    ]
    for (key, agents), group in groupby(rows, lambda row: (row.workload, row.agents)):
        lines += [*_table(workloads[key], agents, list(group)), ""]
    lines += [f"- {note}" for note in notes]
    return "\n".join(lines) + "\n"


def _table(workload: Workload, agents: int, rows: list[Row]) -> list[str]:
    bases = {base: row for base in workload.bases if (row := _base(base, rows)) is not None}
    head = ["peer", "version", _UNITS[workload.unit], "min to max", *(f"x {r.peer}" for r in bases.values())]
    if workload.unit == "operations":
        head += ["each", "CPU us", "set-up s", "peak MB"]
    size = "" if workload.unit == "seconds" else f", {agents:,} agents"
    lines = [f"## {workload.key} {workload.title}{size}", ""]
    lines += [_line(head), _line(["---", "---", *["--:"] * (len(head) - 2)])]
    return lines + [_line(_cells(workload, row, list(bases.values()))) for row in rows]


def _cells(workload: Workload, row: Row, bases: list[Row]) -> list[str]:
    if not row.values:
        return [row.peer, row.version, f"failed: {row.failure[:80]}"]
    more = workload.unit == "operations"  # is better
    pairs = [(min(base.cpu), min(row.cpu)) if more else (base.median, row.median) for base in bases]
    ratios = [base / own if own else math.inf for base, own in pairs]  # few agents may take no page of memory more
    number = _short if more else _NUMBERS[workload.unit]
    cells = [row.peer, row.version, f"**{number(row.median)}**"]
    cells += [f"{number(min(row.values))} to {number(max(row.values))}", *(f"{ratio:.2f}" for ratio in ratios)]
    if more:
        cells += [
            f"{row.times:,}",
            f"{min(row.cpu) * 1e6:.2f}",
            f"{min(row.set_up):.2f}",
            f"{min(row.peak) / 1e6:,.0f}",
        ]
    return cells


def _base(name: str, rows: list[Row]) -> Row | None:
    """Return the first row whose peer begins with `name`."""
    return next((row for row in rows if row.values and row.peer.startswith(name)), None)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _short(value: float) -> str:
    """Return a number of operations a second with three digits."""
    for factor, sign in ((1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g}{sign}"
    return f"{value:.3g}"


_UNITS = {"operations": "a second", "bytes": "bytes each", "seconds": "CPU ms"}
_NUMBERS = {"bytes": lambda value: f"{value:,.0f}", "seconds": lambda value: f"{value * 1000:.0f}"}
