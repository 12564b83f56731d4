"""The plan of a fit: the data, what is varied, and how candidates are chosen."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Final, get_args

import attrs

from sim.base.errors import UsageError
from sim.experiments.designs import VariedKey, each, variable
from sim.experiments.options import SearchOptions
from sim.experiments.outcomes import KnownOutcomes
from sim.experiments.plan import MOST_TRIALS, Plan, SweepPlanOptions, Varied
from sim.experiments.points import Point
from sim.experiments.search import check_search, optuna_version
from sim.experiments.targets import FitPlan, Loss, Sampler, Target, read_target
from sim.kernel import to_seconds
from sim.kernel.duration import MAX_NS, seconds_text
from sim.runner.options import taking

SEEDS: Final = 5


@attrs.frozen(kw_only=True)
class FitOptions(SweepPlanOptions, SearchOptions):
    """What the plans of fits can say: what those of sweeps can, but for designs and outcomes, and how to search."""


@taking(FitOptions)
def make_fit(file: Path, options: FitOptions) -> Plan:
    """Return the plan of a fit, without candidates: the first ones follow from it.

    The scenario is checked with the lowest and the highest values.

    Args:
        file: the scenario file, or PACKAGE:NAME of one of an installed package.
        options: see `FitOptions`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if the arguments contradict each other, the data does not fit the scenario, there are too many
            trials, or Optuna is missing.
    """
    chosen = options
    if not chosen.targets:
        raise UsageError("a fit needs data", hint="add --target data.csv")
    if chosen.outcomes or chosen.precision or chosen.baseline or chosen.listed or chosen.samples is not None:
        said = "a fit has the outcomes of its data, and chooses its combinations itself"
        raise UsageError(said, hint="leave out outcomes, a precision, a baseline, points and samples")
    if chosen.design != "factorial" or chosen.second_order:
        raise UsageError("a fit has no design: a sampler chooses its combinations", hint="leave the design out")
    for what, word, words in (("loss", chosen.loss, get_args(Loss)), ("sampler", chosen.sampler, get_args(Sampler))):
        if word not in words:
            raise UsageError(f"there is no {what} {word!r:.40}", hint=f"take {', '.join(words)}")
    if chosen.candidates < 2 or chosen.batch_size < 1 or (chosen.held_out or 0) < 0:
        raise UsageError("a fit tries 2 candidates or more, in batches of 1 or more, and has no fewer than 0 seeds")
    files = [chosen.targets] if isinstance(chosen.targets, str | PathLike) else chosen.targets
    targets = tuple(read_target(Path(one)) for one in files)
    if len({one.name for one in targets}) < len(targets):
        raise UsageError("two targets have files of the same name", hint="rename one of them")
    variables = [variable(text) for text in chosen.vary]
    count = SEEDS if chosen.count is None else chosen.count
    held_out = count if chosen.held_out is None else chosen.held_out
    fit = FitPlan(
        targets=targets,
        loss=chosen.loss,
        sampler=chosen.sampler,
        candidates=chosen.candidates,
        batch=min(chosen.batch_size, chosen.candidates),
        held_out=held_out,
        version=optuna_version(),
    )
    check_search(variables, fit)
    fit.check_loss()
    if (most := fit.most_trials(count)) > MOST_TRIALS:
        hint = "take fewer candidates, or fewer seeds"
        raise UsageError(f"there would be up to {most:,} trials; the limit is {MOST_TRIALS:,}", hint=hint)
    varied = Varied.of(file, chosen, ends=_ends(variables))
    _check_times(varied, targets)
    targets = tuple(_named(target, varied) for target in targets)
    names = tuple(dict.fromkeys(name for target in targets for name in target.names))
    varied = attrs.evolve(varied, options=attrs.evolve(varied.options, outcomes=names))
    fit = attrs.evolve(fit, targets=targets)
    return varied.plan(
        count=SEEDS, mode=chosen.mode or varied.scenario.execution.mode, points=(), design="fit", fit=fit
    )


def _named(target: Target, varied: Varied) -> Target:
    """Return data under the names of outcomes: a column can be an expression.

    Raises:
        UsageError: if the scenario cannot have one of them.
    """
    outcomes = KnownOutcomes.of((varied.scenario, *varied.variants), varied.options.kinds)
    names = {name: outcomes.choose((name,), varied.options.allow).names for name in target.names}
    if several := next((name for name, chosen in names.items() if len(chosen) != 1), None):
        said = f"the column {several!r:.60} of {target.name} stands for several outcomes"
        raise UsageError(said, hint=f"name one: {', '.join(names[several])}")
    cells = tuple(attrs.evolve(cell, name=names[cell.name][0]) for cell in target.cells)
    return attrs.evolve(target, cells=cells)


def _ends(variables: Sequence[VariedKey]) -> tuple[Point, ...]:
    """Return the combinations of all lowest and of all highest values, and those with each value of a list."""
    most = max((len(one.values) for one in variables if one.low is None), default=2)
    return tuple(each({one.key: _end(one, place, most) for one in variables}) for place in range(most))


def _end(one: VariedKey, place: int, most: int) -> str:
    if one.low is None:
        return one.values[place % len(one.values)]
    return one.at(0.0 if place % 2 == 0 else 1.0)


def _check_times(varied: Varied, targets: Sequence[Target]) -> None:
    """Check that metrics are sampled until the last time of the data."""
    scenario = varied.scenario
    end = to_seconds(min(scenario.end_ns, MAX_NS))
    for target in targets:
        times = [cell.seconds for cell in target.cells if cell.seconds is not None]
        if not times:
            continue
        if max(times) > end:
            said = f"{target.name} goes to {seconds_text(max(times))}, and runs end at {seconds_text(end)}"
            raise UsageError(said, hint=f"add --until {seconds_text(max(times))}")
        for name in target.names:
            if name not in scenario.metrics.values:
                metrics = ", ".join(scenario.metrics.values) or "none"
                raise UsageError(
                    f"{target.name} has {name!r:.60} over time, which is no metric", hint=f"take one of {metrics}"
                )
