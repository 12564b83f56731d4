"""The table of what language models did and cost."""

from collections.abc import Mapping
from typing import Any

import click

from sim.cli.output import plain
from sim.cli.table import print_table

_MICRO = 1_000_000


def print_models(summary: Mapping[str, Any]) -> None:
    """Print what language models were called and what it cost, beside what was expected."""
    expected = summary.get("expected") or {}
    headings = ["model", "calls", "failed", "attempts", "tokens in", "tokens out", "cost"]
    rows = [_row(name, tally) for name, tally in summary["models"].items()]
    if len(rows) != 1:
        rows.append(_row("all", summary["total"]))
    if expected:
        rows.append(_row("expected", expected["total"]))
    print_table(headings, rows)
    if summary["unpriced"] and not all(name.startswith("scripted:") for name in summary["models"]):
        click.echo(f"no price is known for {plain(', '.join(summary['unpriced']))}: counted as free")


def _row(name: str, tally: Mapping[str, Any]) -> tuple[str | int | float, ...]:
    return (
        name, tally["calls"], tally["failed"], tally["attempts"], tally["input_tokens"], tally["output_tokens"],
        tally["cost_micro"] / _MICRO,
    )  # fmt: skip
