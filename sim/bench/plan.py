"""What is to be measured: each combination of swept values, with each seed, in each mode."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import attrs

from sim.assembly.build import check_kinds
from sim.bench.modes import Mode, modes_of
from sim.errors import UsageError
from sim.scenario import Scenario, load

MAX_CELLS = 10_000
SEEDS = 5
_MAX_SEED = 2**63 - 1  # as `sim run --seed`

_SET_BY_MODES = frozenset({"execution.use_autonomous_loops", "execution.tick.concurrency"})

Point = Mapping[str, str]
"""One combination of swept values: the value by its key, both as they were written."""


@attrs.frozen
class Job:
    """One combination with one seed: it is run in all modes, one after the other, in one process.

    Args:
        scenario: the file.
        overrides: what is changed in it.
        point: which combination of the plan it is.
        seed: of the runs.
        modes: in the order in which they are run.
        synchronised: whether `execution.sync` is set in the scenario.
        allow: modules that agents may be imported from.
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
    """A bench before it is run.

    Attributes:
        file: the scenario file.
        scenario: what it holds, without the swept values.
        modes: to be compared.
        named: whether they were asked for by name.
        points: combinations of swept values; one empty one if nothing is swept.
        seeds: of the runs.
        overrides: what is changed in all runs.
        allow: modules that agents may be imported from.
        synchronised: whether `execution.sync` is set, by point.
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
        """How many runs there will be."""
        return len(self.points) * len(self.seeds) * len(self.modes)

    @property
    def jobs(self) -> Iterator[Job]:
        """What is run in one process each. The modes begin with another one for each seed, so that whatever changes
        on the machine in the meantime, or is slower the first time, favours none.
        """
        for number, point in enumerate(self.points):
            changes = self.overrides + overrides_of(point)
            for turn, seed in enumerate(self.seeds):
                first = turn % len(self.modes)
                order = self.modes[first:] + self.modes[:first]
                yield Job(self.file, changes, number, seed, order, self.synchronised[number], self.allow)


def overrides_of(point: Point) -> tuple[str, ...]:
    """Return a combination as changes of a scenario."""
    return tuple(f"{key}={value}" for key, value in point.items())


def make_plan(
    file: Path,
    *,
    modes: Sequence[str] = (),
    seeds: Sequence[int] = (),
    count: int | None = None,
    overrides: Sequence[str] = (),
    sweeps: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> TrialPlan:
    """Return what is to be measured; the scenario is checked with each combination of swept values.

    Args:
        file: the scenario file.
        modes: names of modes; none: the usual four.
        seeds: which seeds; none: that of the scenario and those after it.
        count: how many seeds if they are not given; 5 by default.
        overrides: `key=value` changes of all runs.
        sweeps: `key=a,b,c` each: the values of a key that are tried.
        allow: modules that agents may be imported from.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if what is asked for makes no sense, or is too much, or a kind of agent is not there or not allowed.
    """
    if seeds and count is not None:
        raise UsageError("the seeds are given, and so is how many there are", hint="use --seed or --seeds")
    if len(set(seeds)) < len(seeds):
        raise UsageError("a seed is given twice: equal runs tell nothing new")
    swept = dict(map(_sweep, sweeps))
    if len(swept) < len(sweeps):
        raise UsageError("a key is swept twice", hint="give all its values at once: key=a,b,c")
    chosen = modes_of(tuple(modes))
    runs = math.prod(len(values) for values in swept.values()) * (len(seeds) or count or SEEDS) * len(chosen)
    if runs > MAX_CELLS:
        raise UsageError(f"these are {runs:,} runs, and a bench has at most {MAX_CELLS:,}")
    points = tuple(dict(zip(swept, values, strict=True)) for values in product(*swept.values()))
    scenario, *variants = [load(file, (*overrides, *overrides_of(point))) for point in ({}, *points)]
    for variant in variants:
        check_kinds(variant, tuple(allow))
    if len({variant.execution.sync for variant in variants} - {None}) > 1:
        raise UsageError("rules of execution.sync are not swept: each mode has its own", hint="choose with --mode")
    own = scenario.seed
    used = tuple(seeds) or tuple(range(own, own + (count or SEEDS)))
    if max(used) > _MAX_SEED:
        raise UsageError(f"seeds go up to {_MAX_SEED}, and these would go to {max(used)}")
    return TrialPlan(
        file, scenario, chosen, bool(modes), points, used, tuple(overrides), tuple(allow),
        tuple(variant.execution.sync is not None for variant in variants),
    )  # fmt: skip


def _sweep(text: str) -> tuple[str, tuple[str, ...]]:
    key, separator, values = text.partition("=")
    key = key.strip()
    if not separator or not key or not values.strip():
        raise UsageError(f"--sweep {text!r} is not of the form key=a,b,c", hint="for instance agents.ant.count=10,100")
    if key in _SET_BY_MODES:
        raise UsageError(f"{key} is not swept: each mode sets it for itself", hint="choose modes with --mode")
    if key == "seed":
        raise UsageError("seeds are not swept: each combination is run with all of them", hint="use --seed")
    tried = tuple(value.strip() for value in values.split(","))
    if len(set(tried)) < len(tried) or "" in tried:
        raise UsageError(f"--sweep {text!r} has a value twice, or an empty one")
    return key, tried
