"""Models of docs/gallery.md beside published tables: the tables of the page are what this prints.

    uv run python -m benchmarks.gallery culture --seeds 20

Each model runs with the seeds 1, 2, ... A `±` is half of the 95 % interval of a mean over seeds.
"""

import argparse
import os
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path

import sim
from sim.experiments.estimate import Estimate

SCENARIOS = Path(__file__).parents[1] / "scenarios"
Series = Mapping[str, Sequence[float]]
"""By name, a value after each turn of a run."""
Table = tuple[Sequence[str], Sequence[Sequence[str]]]

# -- Axelrod's culture: beside his table

AXELROD = {
    (5, 5): 1.0, (5, 10): 3.2, (5, 15): 20.0, (10, 5): 1.0, (10, 10): 1.0, (10, 15): 1.4, (15, 5): 1.0, (15, 10): 1.0,
    (15, 15): 1.2,
}  # fmt: skip
"""By features and traits, the mean number of stable regions over ten runs (Axelrod 1997, table 2)."""
RUNS = 10


def regions(features: int, traits: int, seed: int) -> float:
    """Return how many regions are left when no village of `scenarios/culture.yaml` can learn any more."""
    changed = [f"agents.village.state.{key}={value}" for key, value in (("features", features), ("traits", traits))]
    metrics = _run("culture", changed, seed)
    if metrics["open"][-1]:
        raise ValueError(f"{features} features of {traits} traits, seed {seed}: not stable at the end of the run")
    return metrics["regions"][-1]


def culture(
    seeds: int, run: Callable[..., Iterator[float]], cells: Sequence[tuple[int, int]] = tuple(AXELROD)
) -> Table:
    """Return the table of Axelrod beside ours."""
    jobs = [(*cell, seed) for cell in cells for seed in _seeds(seeds)]
    found = iter(list(run(regions, *zip(*jobs, strict=True))))
    rows = []
    for features, traits in cells:
        values = [next(found) for _ in _seeds(seeds)]
        low, high = predicted(values, RUNS)
        published = f"{AXELROD[features, traits]:.1f}"
        rows.append((str(features), str(traits), published, _shown(Estimate.of(values)), f"{low:.1f} to {high:.1f}"))
    return ("features", "traits", "published", f"{seeds} seeds", f"mean of {RUNS} runs"), rows


def predicted(values: Sequence[float], runs: int) -> tuple[float, float]:
    """Return where 95 % of the means of so many runs lie, if each run is as likely as each of `values`.

    The distribution of the mean is computed, not drawn. No interval of Student is asked, because numbers of regions are
    far from normally distributed: most runs with many features end with one, and few with two.
    """
    sums = {0.0: 1.0}
    for _ in range(runs):
        after = dict[float, float]()
        for total, share in sums.items():
            for value in values:
                after[total + value] = after.get(total + value, 0.0) + share / len(values)
        sums = after
    totals = sorted(sums)
    below = list(accumulate(sums[total] for total in totals))
    return totals[bisect(below, 0.025)] / runs, totals[bisect(below, 0.975)] / runs


# -- what they share


def _run(scenario: str, changed: Sequence[str], seed: int, until: str | None = None) -> Series:
    file = SCENARIOS / f"{scenario}.yaml"
    return sim.run(file, seed=seed, until=until, overrides=changed, recording="samples").metrics


def _seeds(number: int) -> range:
    return range(1, number + 1)


def _shown(one: Estimate | None) -> str:
    assert one is not None
    digits = 2 if abs(one.mean) < 10 else 1
    return f"{one.mean:.{digits}f}" + ("" if one.half is None else f" ± {one.half:.{digits}f}")


def printed(table: Table) -> str:
    """Return a table in Markdown."""
    heads, rows = table
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def main() -> None:
    """Measure one model, and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gallery", description="Compare a model of the gallery.")
    parser.add_argument("model", choices=["culture"])
    parser.add_argument("--seeds", type=int, default=20, help="runs of each setting (default 20)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        run = partial(pool.map, chunksize=1)
        print(printed(culture(options.seeds, run)))


if __name__ == "__main__":
    main()
