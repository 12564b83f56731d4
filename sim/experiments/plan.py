"""The plan of an experiment: combinations or arms, seeds, precision. A plan can be cited, and carried out again."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from sim.base.errors import ScenarioError, UsageError
from sim.experiments.designs import Design, joined, points_of, variable
from sim.experiments.outcomes import Chosen, Definition, KnownOutcomes
from sim.experiments.points import Point, label_of, named, overrides_of
from sim.kernel.codec import decode_as, encode
from sim.kernel.levels import Level
from sim.scenario import Scenario, load
from sim.scenario.assembly.build import check_families, check_kinds
from sim.scenario.digest import scenario_digest
from sim.scenario.live_changes import check_state_variables
from sim.scenario.overrides import FILE, parse_all
from sim.scenario.packaged import find_scenario
from sim.tools.rights import NO_RIGHTS, Kinds, Rights

if TYPE_CHECKING:
    from sim.llm.access import Access

SEEDS: Final = 10
MOST_TRIALS: Final = 1_000_000
MOST_SEEDS: Final = 1000
_CHECKED: Final = 100  # combinations whose scenario is checked before the first run
_MAX_SEED: Final = 2**63 - 1

_SELDOM: Final = ("definitions", "baseline")
"""The fields of plans that are written only if they have a value."""

Mode = Literal["autonomous", "tick"]


Answers = Literal["seed", "all", "fresh"]
"""Which trials share the answers of models at an endpoint: those of one seed, all, or none.

Trials of other seeds are to be independent of each other, and are only if their answers are.
"""


@attrs.frozen
class Hosting:
    """What the operator gives to the trials. It is no part of a plan, because it can hold secrets and permissions.

    Attributes:
        access: how models at an endpoint are reached; None: there are none.
        rights: what the operator lets the scenario do. Of what may be imported, only what the plan needs.
        other_endpoint: whether arms may ask another endpoint than the run did.
        answers: the file of the answers that trials share; None: they share none.
        runs: the folder for the run folders of trials; None: they are not recorded.
        allow_change: whether arms may go on from a run although its scenario or the code has changed since.
        ceiling_micro, ceiling_tokens: what the models of all trials may take; no trial begins after that. None: no
            limit. Trials that are under way then end, so each should have its own `models.ceiling`.
    """

    access: "Access | None" = None
    rights: Rights = NO_RIGHTS
    other_endpoint: bool = False
    answers: Path | None = None
    runs: Path | None = None
    allow_change: bool = False
    ceiling_micro: int | None = None
    ceiling_tokens: int | None = None

    def is_used_up(self, micro: int, tokens: int) -> bool:
        """Return whether a ceiling is reached, if so much was spent."""
        money, most = self.ceiling_micro, self.ceiling_tokens
        return (money is not None and micro >= money) or (most is not None and tokens >= most)


@attrs.frozen
class Precision:
    """When enough seeds were run: when the interval of each outcome is narrow enough.

    Of a sweep, this holds for each combination by itself. Of arms, it holds for the differences from the baseline, and
    the mean is that of the baseline.

    Attributes:
        share: half the width of the 95 % interval as a share of the mean, at most.
        most_seeds: the most seeds of a combination.
    """

    share: float
    most_seeds: int

    @classmethod
    def of(cls, share: str | float | None, most_seeds: int | None = None) -> "Precision | None":
        """Return the precision for a share, as a number or a text such as `5%`; None if no share is given.

        Raises:
            UsageError: if they make no sense.
        """
        if share is None:
            if most_seeds is not None:
                raise UsageError("the most seeds are given without a precision", hint="add --until-precision")
            return None
        text = str(share)
        try:
            value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            value = 0.0
        if not 0 < value < 1:
            raise UsageError(f"the precision {text!r:.40} is no share of a mean", hint="for example 5%")
        return cls(value, most_seeds or MOST_SEEDS)


@attrs.frozen
class Past:
    """The past that all arms share: a recorded run up to a time.

    Attributes:
        run: the folder of the run.
        uid: its unique id, so that a plan is carried out on the run that it was made for.
        at: the simulated time at which the arms begin.
    """

    run: str
    uid: str
    at: str


@attrs.frozen
class Plan:
    """The plan of an experiment: of a sweep, or of the arms of a run.

    Attributes:
        file: the scenario file; of arms, the one in the folder of the run.
        sha256: the hash of its text, and of the graph file of its places, so that a plan is carried out on the scenario
            that it was made for.
        name: the name of the scenario.
        vary: how each key is varied, as it was given; of arms, what each arm changes.
        design, samples, design_seed: the design; see `points_of`.
        points: the combinations, or what each arm changes. Without variables it is one empty combination; the first arm
            is the baseline, which changes nothing.
        seeds: the first seed and the number of seeds of each combination at the beginning.
        precision: when it is precise enough; None: after these seeds.
        outcomes: the outcomes that matter; empty: all that the scenario defines.
        definitions: what defines those of them that are expressions.
        mode: the mode of the runs.
        until: the end of the runs; None: that of the scenario.
        overrides: overrides of all runs.
        allow: modules from which agents can be imported.
        models: language models that replace those of the scenario.
        answers: which trials share the answers of models at an endpoint.
        record: whether each trial gets a run folder of its own, in the folder `runs` of the experiment.
        past: the past of arms; None: it is a sweep.
        arms: the names of the arms, the baseline first; empty for a sweep.
        baseline: the combination from which differences of a sweep are taken; None: from none.
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
    models: tuple[str, ...] = ()
    answers: Answers = "seed"
    record: bool = False
    past: Past | None = None
    arms: tuple[str, ...] = ()
    definitions: tuple[Definition, ...] = ()
    baseline: int | None = None

    @property
    def compared_with(self) -> int | None:
        """The combination or arm from which differences are taken; None: from none."""
        return 0 if self.arms else self.baseline

    @property
    def read_records(self) -> bool:
        """Whether an outcome reads the record of each trial."""
        return Chosen(self.outcomes, self.definitions).read_records

    def shown(self, outcome: str) -> str:
        """Return how figures and tables call an outcome: by its label and unit, or its name."""
        return next((one.shown for one in self.definitions if one.name == outcome), outcome)

    @property
    def id(self) -> str:
        """The first 12 hex digits of the hash of the plan: for citations."""
        return self.sha[:12]

    @property
    def sha(self) -> str:
        """The hash (64 hex digits) of the plan, without paths."""
        given = self.to_json()
        past = given["past"] and {**given["past"], "run": ""}
        return hashlib.sha256(encode({**given, "file": "", "past": past})).hexdigest()

    def label(self, point: int) -> str:
        """Return the name of a combination or an arm; empty if nothing is varied."""
        return self.arms[point] if self.arms else label_of(self.points[point])

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON. What few plans have is left out of the others, so that their ids stay."""
        return {
            name: value for name, value in attrs.asdict(self).items() if value not in (None, ()) or name not in _SELDOM
        }

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Return a plan from JSON.

        Raises:
            UsageError: if it is no plan of an experiment.
        """
        try:
            plan = decode_as(text.encode(), cls)
        except ValueError as error:
            raise UsageError(f"this is no plan of an experiment: {error}") from error
        plan._check()
        return plan

    def _check(self) -> None:
        """Check what types do not say, because a plan can come from anybody.

        Raises:
            UsageError: if the plan contradicts itself.
        """
        first, count = self.seeds
        arms, keys = self.past is not None, set(self.points[0] if self.points else ())
        if not self.points or first < 0 or count < 1:
            raise UsageError("the plan has no combinations or no seeds")
        if len(self.arms) != (len(self.points) if arms else 0):
            raise UsageError("the plan does not have one name for each of its arms, and a run")
        if not arms and any(set(point) != keys for point in self.points):
            raise UsageError("the combinations of the plan do not have the same keys")
        if self.precision is not None and not (0 < self.precision.share < 1 and self.precision.most_seeds > 0):
            raise UsageError("the precision of the plan is no share of a mean")
        if self.baseline is not None and (arms or not 0 <= self.baseline < len(self.points)):
            raise UsageError("the baseline of the plan is none of its combinations")
        if {one.name for one in self.definitions} - set(self.outcomes):
            raise UsageError("the plan defines an outcome that is none of its outcomes")
        for one in self.definitions:
            one.measurement  # noqa: B018 - its own checks
        check_seeds(first, count, self.precision)
        check_trials(len(self.points), count, self.precision)


@attrs.frozen
class TrialJob:
    """What a worker does at once: the trials of one seed with one combination, or with all arms.

    Attributes:
        plan: the plan without its points.
        seed: the seed.
        points: the combinations or arms, by index.
        hosting: what the operator gives.
    """

    plan: Plan
    seed: int
    points: Mapping[int, Point]
    hosting: Hosting


def jobs_of(plan: Plan, wanted: Sequence[tuple[int, int]], hosting: Hosting, *, by_seed: bool) -> Iterator[TrialJob]:
    """Yield the jobs for some combinations and seeds.

    Args:
        plan: the plan.
        wanted: the index of each combination, and the seed.
        hosting: what the operator gives.
        by_seed: whether all combinations of a seed are one job. All arms always are, because they are compared.
    """
    common = attrs.evolve(plan, points=())  # a job is sent to a worker, and a plan can have many points
    groups: dict[tuple[int | None, int], list[int]] = {}
    for point, seed in wanted:
        groups.setdefault((None if by_seed or plan.arms else point, seed), []).append(point)
    for (_, seed), points in groups.items():
        chosen = range(len(plan.points)) if plan.arms else points
        yield TrialJob(common, seed, {point: plan.points[point] for point in chosen}, hosting)


def make_sweep(
    file: Path,
    *,
    vary: Sequence[str] = (),
    design: Design = "factorial",
    samples: int | None = None,
    listed: Sequence[Point] = (),
    baseline: Sequence[str] = (),
    first_seed: int | None = None,
    count: int = SEEDS,
    precision: Precision | None = None,
    outcomes: Sequence[str] = (),
    mode: Mode | None = None,
    until: str | None = None,
    overrides: Sequence[str] = (),
    allow: Sequence[str] = (),
    models: Sequence[str] = (),
    answers: Answers = "seed",
    record: bool = False,
    recording: Level | None = None,
    kinds: Kinds | None = None,
) -> Plan:
    """Return the plan of a sweep. The scenario is checked with the combinations, the first 100 of many.

    Args:
        file: the scenario file, or PACKAGE:NAME of one of an installed package.
        vary: how each key is varied; see `variable`.
        design, samples: see `points_of`.
        listed: combinations that are tried as they are, each with all combinations of what is varied.
        baseline: the combination from which differences are taken, as `key=value` texts that name it alone.
        first_seed: the first seed, also of the sample; None: that of the scenario.
        count: the number of seeds.
        precision: when it is precise enough.
        outcomes: the outcomes that matter.
        mode: the mode; None: that of the scenario.
        until: the end of the runs.
        overrides: `key=value` overrides of all runs.
        allow: modules from which agents can be imported.
        models: language models that replace those of the scenario, as in `Access.models`.
        answers: which trials share the answers of models at an endpoint.
        record: whether each trial gets a run folder of its own.
        recording: how much is recorded of each trial; None: what the scenario says, otherwise `samples`.
        kinds: classes that the scenario may name as `kind`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if the arguments contradict each other, there are too many trials, or a kind of agent or an outcome
            is not known.
    """
    file, allow = find_scenario(file, allow)
    variables = [variable(text) for text in vary]
    overrides = (*overrides, *(() if recording is None else (f"recording.level={recording}",)))
    given = (*overrides, *((f"until={until}",) if until is not None else ()))
    scenario = load(file, given, allow, kinds)
    first = scenario.seed if first_seed is None else first_seed
    points = points_of(variables, design, samples, first)
    if listed:
        if design != "factorial":
            raise UsageError(f"the design {design} samples combinations, and others are listed", hint="leave one out")
        points, design = joined(listed, points), "list"
    elif design == "list":
        raise UsageError("the design list needs combinations", hint="--points FILE")
    check_trials(len(points), count, precision)
    check_seeds(first, count, precision)
    variants = _checked_variants(file, given, scenario, points, allow, kinds)
    chosen = KnownOutcomes.of((scenario, *variants), kinds).choose(outcomes, allow)
    if chosen.read_records:
        check_recorded(scenario, "--recording all")
    own: Mode = "autonomous" if scenario.execution.use_autonomous_loops else "tick"
    digest = scenario_digest(file)
    return Plan(
        file=str(file.resolve()),
        sha256=digest,
        name=scenario.name,
        vary=tuple(vary),
        design=design,
        samples=samples,
        design_seed=first,
        points=points,
        seeds=(first, count),
        precision=precision,
        outcomes=chosen.names,
        definitions=chosen.definitions,
        baseline=named(points, baseline) if baseline else None,
        mode=mode or own,
        until=until,
        overrides=tuple(overrides),
        allow=tuple(allow),
        models=tuple(models),
        answers=answers,
        record=record,
    )


def check_recorded(scenario: Scenario, hint: str) -> None:
    """Check that all of a trial is recorded, if the scenario says how much is: an outcome reads it.

    Raises:
        UsageError: if it is not.
    """
    level = scenario.recording.level
    if level != "all":
        raise UsageError(f"an outcome reads the record of each trial, which has only its {level}", hint=hint)


def _checked_variants(
    file: Path,
    given: Sequence[str],
    scenario: Scenario,
    points: Sequence[Point],
    allow: Sequence[str],
    kinds: Kinds | None,
) -> list[Scenario]:
    """Return the scenarios of the first combinations, checked.

    Raises:
        UsageError: if one of them is not valid, or sets a state variable or names a kind that there is not.
    """
    try:
        variants = [_variant(file, given, point, allow, kinds) for point in points[:_CHECKED]]
        check_state_variables(scenario, parse_all(overrides_of(points[0])))
        for variant in variants:
            check_kinds(variant, tuple(allow), kinds)
            check_families(variant)
    except UsageError as error:
        raise UsageError(str(error).removeprefix(f"{FILE} "), hint=error.hint) from error
    return variants


def _variant(file: Path, given: Sequence[str], point: Point, allow: Sequence[str], kinds: Kinds | None) -> Scenario:
    """Return the scenario of a combination; errors in its values name `--vary`, where they come from."""
    try:
        return load(file, (*given, *overrides_of(point)), allow, kinds)
    except ScenarioError as error:
        problems = [attrs.evolve(one, file="--vary") if one.file == FILE else one for one in error.problems]
        raise ScenarioError(problems) from error


def check_seeds(first: int, count: int, precision: Precision | None) -> None:
    """Check that no seed is too large.

    Raises:
        UsageError: if one is.
    """
    most = count if precision is None else max(count, precision.most_seeds)
    if first + most - 1 > _MAX_SEED:
        raise UsageError(f"a seed is at most {_MAX_SEED}")


def check_trials(points: int, count: int, precision: Precision | None) -> None:
    """Check that there are not too many trials: so many combinations or arms, each with so many seeds at most.

    Raises:
        UsageError: if there are.
    """
    most = points * (count if precision is None else max(count, precision.most_seeds))
    if most > MOST_TRIALS:
        hint = None if precision is None else "take fewer combinations, or fewer seeds at most"
        raise UsageError(f"there would be {most:,} trials; the limit is {MOST_TRIALS:,}", hint=hint)


def check_allowed(plan: Plan, allow: Sequence[str]) -> None:
    """Check that the modules of a plan, which can come from anybody, are allowed this time too.

    Raises:
        UsageError: if one is not.
    """
    for name in plan.allow:
        if name not in allow:
            raise UsageError(f"the agents of this plan are in {name}, which is not allowed", hint=f"--allow {name}")


def check_models(plan: Plan, models: Sequence[str]) -> None:
    """Check that the operator has named the models of a plan, which can come from anybody: they cost money.

    Raises:
        UsageError: if they are not those of the plan.
    """
    if tuple(models) != plan.models:
        wanted = " ".join(f"--model {name}" for name in plan.models)
        said = f"this plan asks {', '.join(plan.models)}" if plan.models else "this plan has the models of its scenario"
        raise UsageError(f"{said:.200}, and --model says something else", hint=wanted or "leave --model out")


def check_scenario(plan: Plan, file: Path) -> None:
    """Check that a scenario is the one that a plan was made for.

    Raises:
        UsageError: if it is not.
    """
    try:
        digest = scenario_digest(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    if digest != plan.sha256:
        raise UsageError(f"{file} is not the scenario of this plan: its text has changed", hint="make a new plan")
