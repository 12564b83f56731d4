"""The plan of a bench: each combination of values, with each seed, in each mode."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from sim.base.errors import UsageError
from sim.experiments.bench.modes import Mode, modes_of
from sim.experiments.designs import points_of, variable
from sim.experiments.points import Point, overrides_of
from sim.scenario import Scenario, load
from sim.scenario.assembly.build import check_families, check_kinds
from sim.scenario.packaged import find_scenario

MAX_CELLS = 10_000
SEEDS = 5
_MAX_SEED = 2**63 - 1  # the limit of `sim run --seed`

_SET_BY_MODES = frozenset({"execution.use_autonomous_loops", "execution.tick.concurrency"})


@attrs.frozen
class Job:
    """One combination with one seed. It is run in all modes, one after another, in one process.

    Args:
        scenario: the scenario file.
        overrides: the overrides of the scenario.
        point: the index of the combination in the plan.
        seed: the seed of the runs.
        modes: the modes in order of execution.
        synchronised: whether the scenario sets `execution.sync`.
        allow: modules from which agents can be imported.
    """

    scenario: Path
    overrides: tuple[str, ...]
    point: int
    seed: int
    modes: tuple[Mode, ...]
    synchronised: bool
    allow: tuple[str, ...]


@attrs.frozen
class TrialPlan:
    """The plan of a bench.

    Attributes:
        file: the scenario file, or PACKAGE:NAME of one of an installed package.
        scenario: the scenario without varied values.
        modes: the modes to compare.
        named: whether the user named the modes.
        points: the combinations of values; one empty combination if nothing is varied.
        seeds: the seeds of the runs.
        overrides: the overrides of all runs.
        allow: modules from which agents can be imported.
        synchronised: whether the scenario sets `execution.sync`, by point.
    """

    file: Path
    scenario: Scenario
    modes: tuple[Mode, ...]
    named: bool
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    overrides: tuple[str, ...]
    allow: tuple[str, ...]
    synchronised: tuple[bool, ...]

    @property
    def trials(self) -> int:
        """The number of planned runs."""
        return len(self.points) * len(self.seeds) * len(self.modes)

    @property
    def jobs(self) -> Iterator[Job]:
        """The jobs, each for one process.

        The order of modes rotates with the seed, so that changes in the load of the machine, and a slow first run, do
        not favour one mode.
        """
        for number, point in enumerate(self.points):
            changes = self.overrides + overrides_of(point)
            for turn, seed in enumerate(self.seeds):
                first = turn % len(self.modes)
                order = self.modes[first:] + self.modes[:first]
                yield Job(self.file, changes, number, seed, order, self.synchronised[number], self.allow)


def make_plan(
    file: Path,
    *,
    modes: Sequence[str] = (),
    seeds: Sequence[int] = (),
    count: int | None = None,
    overrides: Sequence[str] = (),
    vary: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> TrialPlan:
    """Return the plan of a bench. The scenario is checked with each combination of values.

    Args:
        file: the scenario file.
        modes: names of modes; empty: the default modes.
        seeds: the seeds; empty: the seed of the scenario and the following ones.
        count: the number of seeds if `seeds` is empty; 5 by default.
        overrides: `key=value` overrides of all runs.
        vary: how each key is varied; see `variable`.
        allow: modules from which agents can be imported.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if the arguments contradict each other, if there are too many runs, or if a kind of agent is unknown
            or not allowed.
    """
    file, allow = find_scenario(file, allow)
    if seeds and count is not None:
        raise UsageError("the seeds and the number of seeds cannot both be given", hint="use --seed or --seeds")
    if len(set(seeds)) < len(seeds):
        raise UsageError("a seed is given twice, which would repeat equal runs")
    variables = [variable(text) for text in vary]
    if taken := next((one.key for one in variables if one.key in _SET_BY_MODES), None):
        raise UsageError(f"{taken} cannot be varied: each mode sets it", hint="choose modes with --mode")
    chosen, points = modes_of(tuple(modes)), points_of(variables, "factorial", None, 0)
    runs = len(points) * (len(seeds) or count or SEEDS) * len(chosen)
    if runs > MAX_CELLS:
        raise UsageError(f"the bench would have {runs:,} runs; the limit is {MAX_CELLS:,}")
    scenario, *variants = [load(file, (*overrides, *overrides_of(point)), allow) for point in ({}, *points)]
    for variant in variants:
        check_kinds(variant, tuple(allow))
        check_families(variant)
    if len({variant.execution.sync for variant in variants} - {None}) > 1:
        raise UsageError("values of execution.sync cannot be varied: each mode sets its own", hint="use --mode")
    own = scenario.seed
    used = tuple(seeds) or tuple(range(own, own + (count or SEEDS)))
    if max(used) > _MAX_SEED:
        raise UsageError(f"a seed is at most {_MAX_SEED}, not {max(used)}")
    return TrialPlan(
        file=file,
        scenario=scenario,
        modes=chosen,
        named=bool(modes),
        points=points,
        seeds=used,
        overrides=tuple(overrides),
        allow=tuple(allow),
        synchronised=tuple(variant.execution.sync is not None for variant in variants),
    )
