"""What the programs that measure the tables of pages share: many runs in several processes, and a table in Markdown."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

SCENARIOS = Path(__file__).parents[1] / "scenarios"

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The heads of the columns, and the rows."""

Run = Callable[..., Iterator[Any]]
"""Calls a function once for each of its arguments, as `map` does."""


Measured = Callable[[int, Run], Table]
"""Makes a table with a number of seeds, in processes."""


def printed(table: Table) -> str:
    """Return a table in Markdown."""
    heads, rows = table
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def measure(program: str, what: str, tables: Mapping[str, Measured], seeds: int = 10) -> None:
    """Measure the table that the command line names, and print it.

    Args:
        program: the name of the module.
        what: what is measured, in a sentence.
        tables: what makes each of them, by its name.
        seeds: how many runs of each setting there are, if the command line does not say.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=what)
    parser.add_argument("table", choices=[*tables])
    parser.add_argument("--seeds", type=int, default=seeds, help=f"runs of each setting (default {seeds})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        print(printed(tables[options.table](options.seeds, partial(pool.map, chunksize=1))))
