"""The table of calls and costs of language models."""

from collections.abc import Mapping
from typing import Any

import click

from sim.cli.render.output import plain
from sim.cli.render.table import print_table

_MICRO = 1_000_000


def print_models(summary: Mapping[str, Any], *, most: bool = False) -> None:
    """Print the calls of language models and their cost, with the estimate.

    Args:
        summary: the result of `Models.summary`.
        most: whether to add the highest possible cost.
    """
    expected = summary.get("expected") or {}
    headings = ["model", "calls", "failed", "attempts", "tokens in", "tokens out", "cost"] + ["at most"] * most
    rows = [_row(name, tally, most) for name, tally in summary["models"].items()]
    if len(rows) != 1:
        rows.append(_row("all", summary["total"], most))
    if expected:
        rows.append(_row("expected", expected["total"], most))
    print_table(headings, rows)
    if saved := summary.get("saved_micro"):
        paid = summary["total"]["cost_micro"] - saved
        click.echo(
            f"calls were answered in batches: {paid / _MICRO:g} to pay, {saved / _MICRO:g} less than the full price"
        )
    if summary["unpriced"] and not all(name.startswith("scripted:") for name in summary["models"]):
        click.echo(f"no price is known for {plain(', '.join(summary['unpriced']))}: counted as free")


def _row(name: str, tally: Mapping[str, Any], most: bool) -> tuple[str | int | float, ...]:
    return (
        name, tally["calls"], tally["failed"], tally["attempts"], tally["input_tokens"], tally["output_tokens"],
        tally["cost_micro"] / _MICRO, *([tally["most_micro"] / _MICRO] if most else []),
    )  # fmt: skip
