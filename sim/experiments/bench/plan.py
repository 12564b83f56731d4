"""The plan of a bench: each combination of values, with each seed, in each mode."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from sim.base.errors import UsageError
from sim.experiments.indices import is_method
from sim.experiments.modes import modes_of
from sim.experiments.options import SweepOptions
from sim.experiments.plan import BenchPlan, Plan, Varied
from sim.experiments.points import MODE
from sim.runner.options import taking

MOST_RUNS: Final = 10_000
SEEDS: Final = 5

_SET_BY_MODES: Final = frozenset({"execution.use_autonomous_loops", "execution.tick.concurrency"})


@attrs.frozen(kw_only=True)
class BenchPlanOptions(SweepOptions):
    """What the plan of a bench can say.

    Args:
        modes: names of modes; empty: the default modes.
        seeds: the seeds; empty: as many as `count` says, from the first one on.
    """

    modes: Sequence[str] = ()
    seeds: Sequence[int] = ()


@taking(BenchPlanOptions)
def make_bench(file: Path, options: BenchPlanOptions) -> Plan:
    """Return the plan of a bench. The scenario is checked with the combinations, the first 100 of many.

    Args:
        file: the scenario file, or PACKAGE:NAME of one of an installed package.
        options: see `BenchPlanOptions`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if the arguments contradict each other, there are too many runs, or a kind of agent or an outcome is
            not known or not allowed.
    """
    chosen, seeds, modes = options, options.seeds, options.modes
    _check_seeds(seeds, chosen)
    if chosen.baseline:
        raise UsageError("a bench compares modes, not combinations with a baseline", hint="sim sweep has --baseline")
    if is_method(chosen.design):
        raise UsageError(f"the design {chosen.design} is for sensitivity analysis, not for modes", hint="use sim sweep")
    if seeds:
        chosen = attrs.evolve(chosen, first_seed=seeds[0], count=len(seeds))
    compared = modes_of(tuple(modes))
    varied = Varied.of(file, chosen)
    if taken := next((key for key in varied.points[0] if key in _SET_BY_MODES), None):
        raise UsageError(f"{taken} cannot be varied: each mode sets it", hint="choose modes with --mode")
    count = SEEDS if chosen.count is None else chosen.count
    most = count if chosen.precision is None else max(count, chosen.precision.most_seeds)
    if (runs := len(varied.points) * most * len(compared)) > MOST_RUNS:
        raise UsageError(f"the bench would have {runs:,} runs; the limit is {MOST_RUNS:,}")
    if len({variant.execution.sync for variant in varied.variants} - {None}) > 1:
        raise UsageError("values of execution.sync cannot be varied: each mode sets its own", hint="use --mode")
    names = tuple(mode.name for mode in compared)
    return varied.plan(
        count=SEEDS,
        answers="fresh",
        mode=None,
        points=tuple({**point, MODE: name} for point in varied.points for name in names),
        bench=BenchPlan(names, bool(modes), tuple(seeds), varied.scenario.description),
    )


def _check_seeds(seeds: Sequence[int], options: SweepOptions) -> None:
    """Check that seeds are given in one way.

    Raises:
        UsageError: if they are not.
    """
    if not seeds:
        return
    if options.count is not None:
        raise UsageError("the seeds and the number of seeds cannot both be given", hint="use --seed or --seeds")
    if options.first_seed is not None or options.precision is not None:
        raise UsageError(
            "the seeds are given, and so are a first seed, or a precision that adds some", hint="use --seeds"
        )
    if len(set(seeds)) < len(seeds):
        raise UsageError("a seed is given twice, which would repeat equal runs")
