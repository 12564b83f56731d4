"""A run as tables, as `sim run` and `sim show` print it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import click

from sim.cli.render.model_costs import print_models
from sim.cli.render.table import print_pairs, print_table
from sim.store.summary import metrics_of, pairs
from sim.world.service import rows_of

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40
"""The length of a sparkline in characters."""


def print_summary(fields: Mapping[str, Any]) -> None:
    """Print a run.

    Args:
        fields: the result of `RunResult.to_json()`; unknown fields can be missing.
    """
    print_pairs(pairs(fields))
    if metrics := metrics_of(fields.get("metrics") or {}):
        click.echo()
        rows = [(name, s[0], s[-1], min(s), max(s), sparkline(s)) for name, s in metrics.items()]
        print_table(("metric", "first", "last", "min", "max", ""), rows)
    if observations := fields.get("observations"):
        click.echo()
        columns = ("n", "mean", "deviation", "median", "p95", "maximum")
        print_table(
            ("observation", "n", "mean", "sd", "median", "p95", "max"),
            [(name, *(d[column] for column in columns)) for name, d in observations.items()],
        )
    if services := list(rows_of(fields.get("services"))):
        click.echo()
        print_table(("service", "", "value"), services)
    if models := fields.get("models"):
        click.echo()
        print_models(models)


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Return a series as block characters, scaled from its minimum to its maximum. Long series are averaged."""
    cuts = [len(values) * step // width for step in range(width + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)] if len(values) > width else list(values)
    low, span = min(means), max(means) - min(means)
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round((value - low) / span * top) if span else 0] for value in means)
