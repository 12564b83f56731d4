"""A run as tables, as `sim run` and `sim show` print it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, Final

import click

from sim.base.text import number, plain
from sim.cli.render.model_costs import print_models
from sim.cli.render.table import print_pairs, print_table
from sim.record.summary import ends_of, gaps_of, metrics_of, pairs
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
        print_table(
            ("metric", "first", "last", "min", "max", ""),
            [(name, *ends_of(values), sparkline(values)) for name, values in metrics.items()],
        )
        for name, count in gaps_of(metrics).items():
            click.echo(f"{plain(name)} has no value in {number(count)} of {number(len(metrics[name]))} samples")
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


def sparkline(values: Sequence[float | None], width: int = WIDTH) -> str:
    """Return a series as block characters, scaled from its minimum to its maximum; a space where there is no value, or
    only ones that are not finite.

    Long series are averaged.
    """
    cuts = [len(values) * step // width for step in range(width + 1)] if len(values) > width else range(len(values) + 1)
    small = [None if value is None or not isfinite(value) else value * _SMALL for value in values]
    means = [_mean([value for value in small[a:b] if value is not None]) for a, b in pairwise(cuts)]
    numbers = [mean for mean in means if mean is not None]
    if not numbers:
        return ""
    low, span = min(numbers), max(numbers) - min(numbers)
    top = len(BLOCKS) - 1
    drawn = [" " if mean is None else BLOCKS[round((mean - low) / span * top) if span else 0] for mean in means]
    return "".join(drawn)


_SMALL: Final = 2.0**-64  # a power of two, so exact; then no sum and no span of finite numbers is infinite


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
