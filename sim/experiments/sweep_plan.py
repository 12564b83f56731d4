"""The plan of a sweep: combinations of values, seeds, and when it is precise enough. A plan can be cited."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from sim.assembly.build import check_families, check_kinds
from sim.errors import UsageError
from sim.experiments.designs import Design, points_of, variable
from sim.experiments.points import Point, overrides_of
from sim.kernel.codec import decode, encode
from sim.scenario import load

SEEDS: Final = 10
MOST_TRIALS: Final = 1_000_000
_CHECKED: Final = 100  # combinations whose scenario is checked before the first run
_MAX_SEED: Final = 2**63 - 1

Mode = Literal["autonomous", "tick"]


@attrs.frozen
class Precision:
    """When enough seeds were run: when the interval of each outcome is narrow enough, for each combination.

    Attributes:
        share: half the width of the 95 % interval as a share of the mean, at most.
        most_seeds: the most seeds of a combination.
    """

    share: float
    most_seeds: int


@attrs.frozen
class SweepPlan:
    """The plan of a sweep.

    Attributes:
        file: the scenario file.
        sha256: the hash of its text, so that a plan is carried out on the scenario that it was made for.
        name: the name of the scenario.
        vary: how each key is varied, as it was given.
        design, samples, design_seed: the design; see `points_of`.
        points: the combinations; one empty combination if nothing is varied.
        seeds: the first seed and the number of seeds of each combination at the beginning.
        precision: when it is precise enough; None: after these seeds.
        outcomes: the outcomes that matter; empty: all that the scenario defines.
        mode: the mode of the runs.
        until: the end of the runs; None: that of the scenario.
        overrides: overrides of all runs.
        allow: modules from which agents can be imported.
    """

    file: str
    sha256: str
    name: str
    vary: tuple[str, ...]
    design: Design
    samples: int | None
    design_seed: int
    points: tuple[Point, ...]
    seeds: tuple[int, int]
    precision: Precision | None
    outcomes: tuple[str, ...]
    mode: Mode
    until: str | None
    overrides: tuple[str, ...]
    allow: tuple[str, ...]

    @property
    def id(self) -> str:
        """The first 12 hex digits of the hash of the plan, without the path of the scenario: for citations."""
        return hashlib.sha256(encode({**self.to_json(), "file": ""})).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, text: str) -> "SweepPlan":
        """Return a plan from JSON.

        Raises:
            UsageError: if it is no plan of a sweep.
        """
        try:
            given: dict[str, Any] = decode(text.encode())
            precision = given.pop("precision")
            lists = ("vary", "points", "seeds", "outcomes", "overrides", "allow")
            given |= {name: tuple(given[name]) for name in lists}
            return cls(**given, precision=None if precision is None else Precision(**precision))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"this is no plan of a sweep: {error}") from error


@attrs.frozen
class SweepJob:
    """One trial: a combination with a seed."""

    point: int
    seed: int
    file: str
    overrides: tuple[str, ...]
    mode: Mode
    until: str | None
    allow: tuple[str, ...]


def jobs_of(plan: SweepPlan, wanted: Sequence[tuple[int, int]]) -> Iterator[SweepJob]:
    """Yield the jobs for some combinations and seeds.

    Args:
        plan: the plan.
        wanted: the index of each combination, and the seed.
    """
    for point, seed in wanted:
        overrides = plan.overrides + overrides_of(plan.points[point])
        yield SweepJob(point, seed, plan.file, overrides, plan.mode, plan.until, plan.allow)


def make_sweep(
    file: Path,
    *,
    vary: Sequence[str] = (),
    design: Design = "factorial",
    samples: int | None = None,
    first_seed: int | None = None,
    count: int = SEEDS,
    precision: Precision | None = None,
    outcomes: Sequence[str] = (),
    mode: Mode | None = None,
    until: str | None = None,
    overrides: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> SweepPlan:
    """Return the plan of a sweep. The scenario is checked with the combinations, the first 100 of many.

    Args:
        file: the scenario file.
        vary: how each key is varied; see `variable`.
        design, samples: see `points_of`.
        first_seed: the first seed, also of the sample; None: that of the scenario.
        count: the number of seeds.
        precision: when it is precise enough.
        outcomes: the outcomes that matter.
        mode: the mode; None: that of the scenario.
        until: the end of the runs.
        overrides: `key=value` overrides of all runs.
        allow: modules from which agents can be imported.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if the arguments contradict each other, there are too many trials, or a kind of agent is not known.
    """
    variables = [variable(text) for text in vary]
    given = (*overrides, *((f"until={until}",) if until is not None else ()))
    scenario = load(file, given, allow)
    first = scenario.seed if first_seed is None else first_seed
    points = points_of(variables, design, samples, first)
    if len(points) * count > MOST_TRIALS:
        raise UsageError(f"the sweep would have {len(points) * count:,} trials; the limit is {MOST_TRIALS:,}")
    most = count if precision is None else precision.most_seeds
    if first + most - 1 > _MAX_SEED:
        raise UsageError(f"a seed is at most {_MAX_SEED}")
    for point in points[:_CHECKED]:
        variant = load(file, (*given, *overrides_of(point)), allow)
        check_kinds(variant, tuple(allow))
        check_families(variant)
    own: Mode = "autonomous" if scenario.execution.use_autonomous_loops else "tick"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return SweepPlan(
        str(file.resolve()), digest, scenario.name, tuple(vary), design, samples, first, points, (first, count),
        precision, tuple(outcomes), mode or own, until, tuple(overrides), tuple(allow),
    )  # fmt: skip


def check_scenario(plan: SweepPlan, file: Path) -> None:
    """Check that a scenario is the one that a plan was made for.

    Raises:
        UsageError: if it is not.
    """
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    if digest != plan.sha256:
        raise UsageError(f"{file} is not the scenario of this plan: its text has changed", hint="make a new plan")
