"""Shares of the variance of an outcome: how much of it comes from each varied key, from seeds, and from personas.

All values of a sweep together have a variance. It is split by what the trials differ in: each key, or keys that change
together, and the seed. Outcomes that measure the same of several groups, such as personas, can be levels of one more
source. See `variance` for the estimates.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.experiments.designs import variable
from sim.experiments.experiment import values_of
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.experiments.results import Results
from sim.experiments.variance import Cell, Component, components
from sim.kernel.codec import Json

_NOISE: Final = 1e-12
"""Smaller shares are rounding errors of the sums."""


@attrs.frozen
class Shares:
    """How the variance of one outcome is split.

    Attributes:
        outcome: its name, or the names of those that are levels of one source.
        parts: the sources, the keys first, and what is left; empty: there is nothing to split, and `note` says why.
        values: the number of values that are used.
        left_out: the number of values, of all trials that are planned or done, that are not: where one lacks, a whole
            level is left out.
        note: what to know about it.
    """

    outcome: str
    parts: tuple[Component, ...]
    values: int
    left_out: int
    note: str = ""


def shares_of(
    results: Results, outcomes: Sequence[str] = (), across: Mapping[str, Sequence[str]] | None = None
) -> list[Shares]:
    """Return how the variance of outcomes of a sweep is split.

    Args:
        results: the results; trials can be missing.
        outcomes: the outcomes; empty: those that matter, without those of `across`.
        across: by the name of a source, the outcomes that are its levels, such as one for each persona.

    Raises:
        UsageError: if it is no sweep of all combinations, there is no such outcome, a source has one level, or the name
            of another one.
    """
    plan = results.plan
    if plan.design != "factorial" or plan.arms or plan.bench is not None or plan.fit is not None:
        raise UsageError(
            "variance is split of a sweep of all combinations", hint="sim sweep FILE --vary KEY=a,b --vary KEY=c,d"
        )
    values = values_of(results)
    names = list(dict.fromkeys(name for by_name in values.values() for name in by_name))
    across = across or {}
    for name in (*outcomes, *(one for own in across.values() for one in own)):
        if name not in names:
            raise UsageError(
                f"there is no outcome {name!r:.60}",
                hint=did_you_mean(name, names) or f"there are {', '.join(names) or 'none: no trial was measured'}",
            )
    own_sources = (*_sources(plan)[1], "seed", "residual")
    for source, own in across.items():
        if len(set(own)) < 2:
            raise UsageError(f"{source} has one outcome", hint=f"name two or more: {source}=ONE,OTHER")
        if source in own_sources:
            raise UsageError(f"{source} is a source of its own here", hint=f"take another name than {source}")
    taken = {name for own in across.values() for name in own}
    single = dict.fromkeys(outcomes) or [name for name in names if name not in taken]
    shares = [_split(results, values, (name,)) for name in single]
    levels = [(source, tuple(dict.fromkeys(own))) for source, own in across.items()]
    return [*shares, *(_split(results, values, own, (source,)) for source, own in levels)]


def _sources(plan: Plan) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the keys that a sweep varies, those that change together as one, and their names."""
    varied = [variable(text).keys for text in plan.vary]
    alone = set(plan.points[0]) - {key for together in varied for key in together}  # of a table of combinations
    keys = [*varied, *((key,) for key in plan.points[0] if key in alone)]
    return keys, [", ".join(short(key, plan.points[0]) for key in together) for together in keys]


def _split(
    results: Results, values: Mapping[int, Any], levels: tuple[str, ...], source: tuple[str, ...] = ()
) -> Shares:
    """Return how one outcome is split, or several that are the levels of one source."""
    plan = results.plan
    keys, names = _sources(plan)
    cells: dict[Cell, list[float]] = {}
    for number, point in enumerate(plan.points):
        own = tuple(repr([point[key] for key in together]) for together in keys)
        for level in levels:
            for seed, value in values.get(number, {}).get(level, {}).items():
                cells[(*own, str(seed), *((level,) if source else ()))] = [value]
    parts = [_exact(part) for part in components(cells, [*names, "seed", *source])]
    used = _used(parts)
    seeds = plan.some_seeds(plan.seeds[1])
    trials = {(number, seed) for number in range(len(plan.points)) for seed in seeds} | results.done().keys()
    expected = len(trials) * len(levels)
    note = "" if parts else "two sources with several values are needed: vary a key, and take two seeds or more"
    if parts and not sum(part.variance for part in parts):
        note = "all values are the same"
    return Shares(", ".join(levels), tuple(parts), used, expected - used, note)


def _exact(part: Component) -> Component:
    """Return a part without the noise of the last digits."""
    return attrs.evolve(part, variance=0.0, share=0.0) if part.share < _NOISE else part


def _used(parts: Sequence[Component]) -> int:
    """Return how many values the components are of: one for each combination of levels."""
    used = 1 if parts else 0
    for part in parts:
        used *= part.levels or 1
    return used


def shares_text(shares: Shares) -> str:
    """Return what to know about the shares of an outcome, in one sentence."""
    lost = (
        f"{shares.left_out:,} values are left out, because others with the same level lack." if shares.left_out else ""
    )
    return " ".join(filter(None, (shares.note and f"{shares.outcome}: {shares.note}.", lost)))


def shares_json(results: Results, shares: Sequence[Shares]) -> dict[str, Json]:
    """Return the shares of the outcomes of a sweep as JSON."""
    return {
        "folder": str(results.folder),
        "id": results.plan.id,
        "outcomes": [{**attrs.asdict(one), "note": one.note or None} for one in shares],
    }
