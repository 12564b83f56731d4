"""Which inputs matter: the sensitivity indices of the outcomes of a sweep, and how much of the variance is chance."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.experiments.designs import points_of, positions, untried, variable
from sim.experiments.estimate import Estimate, mean_of
from sim.experiments.experiment import Values, values_of
from sim.experiments.indices import Indices, Method, block_of, indices_of, is_method, why_not
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.experiments.results import Results
from sim.experiments.score_tables import Cell, Table, rounded
from sim.experiments.variance import Cell as Level
from sim.experiments.variance import components
from sim.kernel.codec import Json


@attrs.frozen
class VarianceShares:
    """How the variance of the outcome of single runs is split; the three shares add up to 1.

    Attributes:
        inputs: the share of the inputs.
        seeds: the share of the seeds, where a seed shifts the outcome in the same way whatever the inputs are.
        together: the share of what a seed does with certain inputs alone.
    """

    inputs: float
    seeds: float
    together: float


@attrs.frozen
class InputShare:
    """One input of one outcome. What the design does not show is None.

    Attributes:
        key: what is varied; several keys that change together are one input.
        first: the share of the variance that it explains by itself, with its 95 % interval.
        total: the same with all its joint effects with other inputs.
        effect: how much the outcome changes over its range, regardless of the sign: mu* of Morris.
        mean_effect: the same with the sign: mu.
        spread: how differently it acts in different places: sigma.
    """

    key: str
    first: Estimate | None = None
    total: Estimate | None = None
    effect: Estimate | None = None
    mean_effect: float | None = None
    spread: float | None = None


@attrs.frozen
class Sensitivity:
    """The sensitivity of one outcome.

    Attributes:
        outcome: its name.
        inputs: its inputs, in the order of the plan; empty: there is no variance, or too few values.
        pairs: the share of the variance that two inputs explain together and neither alone, by both keys.
        blocks: how many samples are used; see `indices.block_of`.
        left_out: how many are not, because a combination has no value with one of these seeds.
        seeds: the number of seeds whose mean is taken, the same of all combinations.
        seeds_left_out: the seeds that are not used, because combinations have no value with them.
        chance: how the variance of single runs is split; None: there is one seed, or no variance.
        note: why there are no indices, or what to know about them.
        means: the mean over these seeds by combination, of those that have a value with each.
    """

    outcome: str
    inputs: tuple[InputShare, ...]
    pairs: Mapping[tuple[str, str], Estimate]
    blocks: int
    left_out: int
    seeds: int
    seeds_left_out: tuple[int, ...]
    chance: VarianceShares | None
    note: str
    means: Mapping[int, float] = attrs.field(repr=False)


def sensitivity_of(results: Results, outcomes: Sequence[str] = ()) -> list[Sensitivity]:
    """Return the sensitivity of outcomes of a sweep.

    Args:
        results: the results; trials can be missing.
        outcomes: the outcomes; empty: those that matter.

    Raises:
        UsageError: if its design is none for sensitivity analysis, there is no such outcome, or SALib is missing.
    """
    plan = results.plan
    if not is_method(plan.design) or plan.past is not None or plan.bench is not None:
        hint = "sim sweep FILE --vary KEY=low..high --design saltelli --samples 64"
        raise UsageError(f"a {plan.design} design has no sensitivity indices", hint=hint)
    rows = _rows(plan, plan.design)
    values = values_of(results)
    names = list(dict.fromkeys(name for by_name in values.values() for name in by_name))
    if not names:
        raise UsageError("no trial was measured, so there are no outcomes", hint=f"sim sweep --resume {results.folder}")
    for name in outcomes:
        if name not in names:
            hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
            raise UsageError(f"there is no outcome {name!r:.60}", hint=hint)
    return [_of_outcome(plan, plan.design, name, values, rows) for name in outcomes or names]


def _rows(plan: Plan, method: Method) -> Any:
    """Return the combinations of a plan in the unit cube, drawn again.

    Raises:
        UsageError: if these are not those of the plan.
    """
    variables = [variable(text) for text in plan.vary]
    samples, seed, pairs = plan.samples or 0, plan.design_seed, plan.second_order
    if points_of(variables, plan.design, samples, seed, second_order=pairs) != plan.points:
        raise UsageError(
            f"the combinations of the plan are not those that its {method} design has here",
            hint="other versions of sim, SALib, scipy or numpy can draw others: install those that made it (the record"
            " of its runs names them), or make the sweep again",
        )
    return positions(variables, method, samples, seed, second_order=pairs)


@attrs.frozen
class _Used:
    """What of an outcome is used: whole blocks, in which each combination has a value with each seed.

    Attributes:
        blocks: the blocks by number.
        points: their combinations.
        seeds, left_out: the seeds that are used, and those that are not.
    """

    blocks: Sequence[int]
    points: Sequence[int]
    seeds: tuple[int, ...]
    left_out: tuple[int, ...]


def _used(by_point: Mapping[int, Mapping[int, float]], blocks: int, size: int) -> _Used:
    """Return what is used of an outcome: the blocks and seeds that have most values together.

    The mean of a combination is compared with that of others, so each has to have the same seeds: a seed that some lack
    would shift their means, and look like an effect. Either that seed is left out, or the blocks that lack it.
    """
    members = [range(at * size, (at + 1) * size) for at in range(blocks)]
    shared: list[set[int]] = []  # the seeds that all combinations of a block have
    for points in members:
        of_points = [set(by_point.get(point, ())) for point in points]
        shared.append(set.intersection(*of_points))
    every = sorted({seed for by_seed in by_point.values() for seed in by_seed})
    by_use = sorted(every, key=lambda seed: (-sum(seed in one for one in shared), seed))
    best: tuple[tuple[int, int, int], list[int], list[int]] = ((0, 0, 0), [], every)
    for count in range(1, len(by_use) + 1):
        seeds = set(by_use[:count])
        whole = [at for at, one in enumerate(shared) if seeds <= one]
        rank = (min(len(whole), 2), len(whole) * count, len(whole))  # with one block, there are no indices
        if rank > best[0]:
            best = (rank, whole, sorted(seeds))
    _, whole, chosen = best
    return _Used(
        whole,
        [point for at in whole for point in members[at]],
        tuple(chosen),
        tuple(seed for seed in every if seed not in chosen),
    )


def _of_outcome(plan: Plan, method: Method, name: str, values: Mapping[int, Values], rows: Any) -> Sensitivity:
    by_point = {point: by_name[name] for point, by_name in values.items() if by_name.get(name)}
    keys, pairs = _names(plan), plan.second_order
    blocks, size = block_of(method, len(keys), plan.samples or 0, second_order=pairs)
    used = _used(by_point, blocks, size)
    same_seeds = {
        point: {seed: by_seed[seed] for seed in used.seeds}
        for point, by_seed in by_point.items()
        if by_seed.keys() >= {*used.seeds}
    }
    means = {point: mean_of([*by_seed.values()]) for point, by_seed in same_seeds.items()}
    chosen = [means[point] for point in used.points]
    note = _too_few(method, len(used.blocks), blocks) or why_not(method, len(keys), chosen, second_order=pairs)
    indices = Indices()
    if not note:
        indices = indices_of(method, len(keys), chosen, rows[used.points], second_order=pairs)
        note = _caution(plan, method, used, blocks, indices)
        if not _is_finite(indices):
            indices, note = Indices(), "its values are too large or too close to each other to compute indices"
    return Sensitivity(
        outcome=name,
        inputs=() if indices == Indices() else tuple(_influences(keys, indices)),
        pairs={(keys[one], keys[other]): pair for (one, other), pair in indices.pairs.items()},
        blocks=len(used.blocks),
        left_out=blocks - len(used.blocks),
        seeds=len(used.seeds),
        seeds_left_out=used.left_out,
        chance=_chance({point: same_seeds[point] for point in used.points}),
        note=note,
        means=means,
    )


def _is_finite(indices: Indices) -> bool:
    """Return whether all indices are numbers."""
    estimates = [*(indices.first or ()), *(indices.total or ()), *(indices.effect or ()), *indices.pairs.values()]
    numbers = (*(one.mean for one in estimates), *(indices.mean_effect or ()), *(indices.spread or ()))
    return all(map(math.isfinite, numbers))


def _names(plan: Plan) -> list[str]:
    """Return how the inputs are called; keys that change together are one."""
    every = plan.points[0]
    return [", ".join(short(key, every) for key in variable(text).keys) for text in plan.vary]


def _too_few(method: Method, whole: int, blocks: int) -> str:
    """Return that too few samples have values; empty if enough have."""
    if method == "fast" and not whole:
        return "some combinations have no value with any seed that others have, and a fast design needs all of them"
    if whole < 2 and method != "fast":
        return f"{whole} of {blocks} samples have values for all their combinations, which are too few"
    return ""


def _caution(plan: Plan, method: Method, used: _Used, blocks: int, indices: Indices) -> str:
    """Return what to know about indices; empty if there is nothing."""
    notes = []
    if (whole := len(used.blocks)) < blocks:
        notes.append(
            f"{blocks - whole:,} of {blocks:,} samples are left out, because a combination has no value; what the"
            " others show can differ from the whole"
        )
    if used.left_out:
        notes.append(
            f"{len(used.left_out):,} of {len(used.seeds) + len(used.left_out):,} seeds are left out, because some"
            " combinations have no value with them, and means of other seeds cannot be compared"
        )
    notes += untried([variable(text) for text in plan.vary], plan.points, plan.design)
    if method == "fast":
        notes.append("intervals of a fast design are rough: the bootstrap along its curve is known to be unreliable")
    notes += _wide(_names(plan), indices)
    return "; ".join(notes)


def _wide(keys: Sequence[str], indices: Indices) -> Iterable[str]:
    """Yield which indices are less than half the width of their interval, and which have none."""
    kinds = (("first order", indices.first), ("total", indices.total), ("effect (mu*)", indices.effect))
    for kind, estimates in kinds:
        both = list(zip(keys, estimates or (), strict=False))
        if unknown := [key for key, one in both if one.half is None]:
            yield f"the {kind} of {', '.join(unknown)} has no interval: too few samples differ"
        if wide := [key for key, one in both if one.half is not None and one.half > abs(one.mean)]:
            yield (
                f"the interval of the {kind} of {', '.join(wide)} is wider than the value and includes 0; more samples"
                " make it narrower"
            )


def _influences(keys: Sequence[str], indices: Indices) -> Iterable[InputShare]:
    for place, key in enumerate(keys):
        yield InputShare(
            key,
            None if indices.first is None else indices.first[place],
            None if indices.total is None else indices.total[place],
            None if indices.effect is None else indices.effect[place],
            None if indices.mean_effect is None else indices.mean_effect[place],
            None if indices.spread is None else indices.spread[place],
        )


def _chance(by_point: Mapping[int, Mapping[int, float]]) -> VarianceShares | None:
    """Return how the variance of single runs is split, from the combinations that have a value for each seed."""
    seeds = {seed for by_seed in by_point.values() for seed in by_seed}
    cells: dict[Level, tuple[float]] = {
        (str(point), str(seed)): (value,)
        for point, by_seed in by_point.items()
        if len(by_seed) == len(seeds)
        for seed, value in by_seed.items()
    }
    if len(seeds) < 2 or not cells:
        return None
    shares = {part.source: part.share for part in components(cells, ("inputs", "seeds"))}
    if not sum(shares.values()):
        return None
    return VarianceShares(shares.get("inputs", 0.0), shares.get("seeds", 0.0), shares.get("residual", 0.0))


def chance_text(sensitivity: Sensitivity) -> str:
    """Return how much of the variance of single runs is chance, in one sentence."""
    if sensitivity.seeds < 2:
        return "One seed: how much of the variance is chance is not known; take --seeds 2 or more."
    if sensitivity.chance is None or not sensitivity.chance.inputs + sensitivity.chance.together:
        return ""
    chance, left = sensitivity.chance, sensitivity.chance.together / sensitivity.seeds
    return (
        f"Seeds make {chance.seeds + chance.together:.0%} of the variance of single runs: {chance.seeds:.0%} in the"
        f" same way for all combinations, {chance.together:.0%} differently for each. The indices are of means over"
        f" {sensitivity.seeds} seeds, in which {left / (chance.inputs + left):.0%} of the variance is chance."
    )


def influences_table(sensitivity: Sensitivity) -> Table:
    """Return a line for each input, those with the largest effect first."""
    rows: list[list[Cell]] = []
    variances = any(one.first is not None for one in sensitivity.inputs)
    for one in ordered(sensitivity):
        pairs = (one.first, one.total) if variances else (one.effect,)
        cells: list[Cell] = [one.key]
        for value in pairs:
            cells += [None, None] if value is None else [rounded(value.mean), rounded(value.half)]
        rows.append(cells if variances else [*cells, rounded(one.mean_effect), rounded(one.spread)])
    heads = ["first order", "±", "total", "±"] if variances else ["effect (mu*)", "±", "mean (mu)", "spread (sigma)"]
    return ["input", *heads], rows


def pairs_table(sensitivity: Sensitivity) -> Table:
    """Return a line for each pair of inputs, those with the largest joint effect first."""
    pairs = sorted(sensitivity.pairs.items(), key=lambda item: -item[1].mean)
    rows: list[list[Cell]] = [[*keys, rounded(one.mean), rounded(one.half)] for keys, one in pairs]
    return ["input", "and", "second order", "±"], rows


def ordered(sensitivity: Sensitivity) -> list[InputShare]:
    """Return the inputs of an outcome, those with the largest effect first."""
    return sorted(sensitivity.inputs, key=lambda one: -(one.total or one.effect or Estimate(0, 0.0, None)).mean)


def sensitivity_rows(sensitivities: Iterable[Sensitivity]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and a row for each outcome, input (or pair of inputs) and index, for a DataFrame."""
    rows: list[tuple[Any, ...]] = []
    for one in sensitivities:
        for each in one.inputs:
            indices = (("first", each.first), ("total", each.total), ("effect", each.effect))
            rows += [(one.outcome, each.key, name, it.n, it.mean, it.half) for name, it in indices if it is not None]
            numbers = (("mean_effect", each.mean_effect), ("spread", each.spread))
            rows += [(one.outcome, each.key, name, one.blocks, it, None) for name, it in numbers if it is not None]
        rows += [(one.outcome, " and ".join(keys), "second", it.n, it.mean, it.half) for keys, it in one.pairs.items()]
    return ["outcome", "input", "index", "samples", "value", "half"], rows


def to_json(results: Results, sensitivities: Sequence[Sensitivity]) -> dict[str, Json]:
    """Return the sensitivity of the outcomes of a sweep as JSON."""
    plan = results.plan
    return {
        "folder": str(results.folder),
        "id": plan.id,
        "design": plan.design,
        "samples": plan.samples,
        "outcomes": [
            {
                "outcome": one.outcome,
                "samples": one.blocks,
                "left_out": one.left_out,
                "seeds": one.seeds,
                "seeds_left_out": one.seeds_left_out,
                "inputs": [attrs.asdict(each) for each in one.inputs],
                "pairs": [{"inputs": keys, **attrs.asdict(pair)} for keys, pair in one.pairs.items()],
                "chance": None if one.chance is None else attrs.asdict(one.chance),
                "note": one.note or None,
            }
            for one in sensitivities
        ],
    }
