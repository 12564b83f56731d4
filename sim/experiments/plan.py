"""The plan of an experiment: combinations, modes or arms, seeds. A plan can be cited, and carried out again."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import ScenarioError, UsageError
from sim.experiments.designs import Design, joined, points_of, variable
from sim.experiments.indices import is_method
from sim.experiments.modes import modes_of
from sim.experiments.options import SEEDS, Answers, Precision, SweepOptions
from sim.experiments.outcomes import Chosen, Definition, KnownOutcomes
from sim.experiments.points import MODE, Point, label_of, named, overrides_of
from sim.experiments.targets import FitPlan
from sim.kernel.codec import Json, decode_as, encode
from sim.record.files import Mode
from sim.runner.options import MAX_SEED, Decisions, Hosting, taking
from sim.scenario import Scenario, load
from sim.scenario.assembly.kind_checks import check_families, check_kinds
from sim.scenario.digest import scenario_digest
from sim.scenario.live_changes import check_state_variables
from sim.scenario.overrides import FILE, parse_all
from sim.scenario.packaged import find_scenario
from sim.tools.rights import Kinds

MOST_TRIALS: Final = 1_000_000
_CHECKED: Final = 100  # combinations whose scenario is checked before the first run

_SELDOM: Final = ("bench", "definitions", "baseline", "second_order", "fit")
"""The fields of plans that are written only if they have a value."""


@attrs.frozen(kw_only=True)
class TrialHosting(Hosting, Decisions):
    """What the operator gives to the trials. It is no part of a plan, because it can hold secrets and permissions.

    Of what may be imported, it has only what the plan needs.

    Args:
        answers: the file of the answers that trials share; None: they share none.
        runs: the folder for the run folders of trials; None: they are not recorded.
        scratch: the folder for records that only an outcome reads, which are removed after that; None: that of the
            system for files that are not kept.
        ceiling_micro, ceiling_tokens: what the models of all trials may take; no trial begins after that. None: no
            limit. Trials that are under way then end, so each should have its own `models.ceiling`.
    """

    answers: Path | None = None
    runs: Path | None = None
    scratch: Path | None = None
    ceiling_micro: int | None = None
    ceiling_tokens: int | None = None

    def is_used_up(self, micro: int, tokens: int) -> bool:
        """Return whether a ceiling is reached, if so much was spent."""
        money, most = self.ceiling_micro, self.ceiling_tokens
        return (money is not None and micro >= money) or (most is not None and tokens >= most)


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
class BenchPlan:
    """What a bench compares, and what its page says about it.

    Attributes:
        modes: the names of the modes, in the order of `MODES`.
        named: whether the user named them: that the scenario cannot run in one of them is a failure then.
        seeds: the seeds, if the user named each of them; empty: those from the first one on.
        description: the description of the scenario.
    """

    modes: tuple[str, ...]
    named: bool = False
    seeds: tuple[int, ...] = ()
    description: str = ""


@attrs.frozen(kw_only=True)
class Plan:
    """The plan of an experiment: of a sweep, of a bench, or of the arms of a run.

    Attributes:
        file: the scenario file; of arms, the one in the folder of the run.
        sha256: the hash of its text, and of the graph file of its places, so that a plan is carried out on the scenario
            that it was made for.
        name: the name of the scenario.
        vary: how each key is varied, as given; of arms, what each arm changes.
        design, samples, design_seed, second_order: the design; see `points_of`.
        points: the combinations, or what each arm changes. Without variables it is one empty combination; the first arm
            is the baseline, which changes nothing. Of a bench, each combination in each mode, with the name of the mode
            under the key `mode`. Of a fit, the candidates so far, which are no part of its hash and of its JSON: they
            follow from the plan and the results.
        seeds: the first seed and the number of seeds of each combination at the beginning.
        precision: when it is precise enough; None: after these seeds.
        outcomes: the outcomes that matter; empty: all that the scenario defines.
        definitions: what defines those of them that are expressions.
        mode: the mode of the runs; None: each point has its own.
        until: the end of the runs; None: that of the scenario.
        overrides: overrides of all runs.
        allow: modules from which agents can be imported.
        models: language models that replace those of the scenario.
        answers: which trials share the answers of models at an endpoint.
        record: whether each trial gets a run folder of its own, in the folder `runs` of the experiment.
        past: the past of arms; None: it is a sweep.
        arms: the names of the arms, the baseline first; empty if there are none.
        bench: what a bench compares; None: it is none.
        baseline: the combination from which differences of a sweep are taken; None: from none.
        fit: what a fit looks for; None: it is none.
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
    mode: Mode | None
    until: str | None
    overrides: tuple[str, ...]
    allow: tuple[str, ...]
    models: tuple[str, ...] = ()
    answers: Answers = "seed"
    record: bool = False
    past: Past | None = None
    arms: tuple[str, ...] = ()
    bench: BenchPlan | None = None
    definitions: tuple[Definition, ...] = ()
    baseline: int | None = None
    second_order: bool = False
    fit: FitPlan | None = None

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
        content = self.to_json()
        past = content["past"]
        past = {**past, "run": ""} if isinstance(past, Mapping) else past
        return hashlib.sha256(encode({**content, "file": "", "past": past})).hexdigest()

    @property
    def seeds_text(self) -> str:
        """Which seeds it has, in words. What a precision adds, and which candidates end early, follows from results."""
        first, count = self.seeds
        listed = () if self.bench is None else self.bench.seeds
        own = ", ".join(map(str, listed)) or _span(first, count)
        if self.fit is not None:
            held_out = self.fit.held_out
            later = f"; {_span(first + count, held_out)} for the best of them alone" if held_out else ""
            return f"{own} for each candidate, fewer for one that the first of them show to be clearly worse{later}"
        what = "arm" if self.arms else "combination" if self.bench is None else "combination in each mode"
        if self.precision is None or self.precision.most_seeds <= count:
            return f"{own} for each {what}"
        most = _span(first, self.precision.most_seeds)
        return f"{own} for each {what}, and those after them until its outcomes are precise: at most {most}"

    @property
    def verb(self) -> str:
        """The command that carries out such a plan."""
        return "fit" if self.fit is not None else "sweep" if self.bench is None else "bench"

    def label(self, point: int) -> str:
        """Return the name of a combination or an arm; empty if nothing is varied."""
        return self.arms[point] if self.arms else label_of(self.points[point])

    @property
    def together(self) -> int:
        """How many points that follow one another are compared seed by seed.

        They have the same seeds, and one job has all of them: all arms, or a combination in all modes of a bench. Of a
        sweep, each combination is by itself.
        """
        return len(self.arms) or (1 if self.bench is None else len(self.bench.modes))

    def some_seeds(self, count: int) -> Sequence[int]:
        """Return the first seeds."""
        listed = () if self.bench is None else self.bench.seeds
        return listed[:count] or range(self.seeds[0], self.seeds[0] + count)

    def order(self, first: int, seed: int) -> Sequence[int]:
        """Return the points of a job by index, in the order in which they are run.

        Of a bench, each seed begins with another mode, so that changes in the load of the machine, and a first run that
        is slow, do not favour one mode.

        Args:
            first: the first point of those that are compared with each other.
            seed: the seed.
        """
        size = self.together
        listed = () if self.bench is None else self.bench.seeds
        turn = 0 if self.bench is None else listed.index(seed) if listed else seed - self.seeds[0]
        return [first + (turn + number) % size for number in range(size)]

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON. What few plans have is left out of the others, so that their ids stay."""
        plan = self if self.fit is None else attrs.evolve(self, points=())
        return {
            name: value
            for name, value in attrs.asdict(plan).items()
            if name not in _SELDOM or not (value is None or value is False or value == ())
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
        if (not self.points and self.fit is None) or first < 0 or count < 1:
            raise UsageError("the plan has no combinations or no seeds")
        if len(self.arms) != (len(self.points) if arms else 0):
            raise UsageError("the plan does not have one name for each of its arms, and a run")
        if not arms and any(set(point) != keys for point in self.points):
            raise UsageError("the combinations of the plan do not have the same keys")
        if self.bench is not None:
            self._check_bench(self.bench)
        elif self.mode is None or any(MODE in point for point in self.points):
            raise UsageError("the plan does not have one mode")
        if self.precision is not None and not (0 < self.precision.share < 1 and self.precision.most_seeds > 0):
            raise UsageError("the precision of the plan is no share of a mean")
        if self.baseline is not None and (arms or not 0 <= self.baseline < len(self.points)):
            raise UsageError("the baseline of the plan is none of its combinations")
        if {one.name for one in self.definitions} - set(self.outcomes):
            raise UsageError("the plan defines an outcome that is none of its outcomes")
        if self.fit is not None:
            self._check_fit(self.fit)
        for one in self.definitions:
            one.measurement  # noqa: B018 - its own checks
        check_precision(self.design, self.precision)
        check_seeds(first, count, self.precision)
        check_trials(len(self.points), count, self.precision)

    def _check_fit(self, fit: FitPlan) -> None:
        if self.past is not None or self.bench is not None:
            raise UsageError("the plan of a fit has no arms and no modes")
        names = {name for target in fit.targets for name in target.names}
        if not fit.targets or names != set(self.outcomes) or not self.vary:
            raise UsageError("the outcomes of the plan are not those of its data")
        if fit.candidates < 2 or not 1 <= fit.batch <= fit.candidates or fit.held_out < 0 or self.precision is not None:
            raise UsageError("the plan of a fit has no such numbers of candidates and seeds")
        if any(len({cell.seconds is None for cell in target.cells}) != 1 for target in fit.targets):
            raise UsageError("a target of the plan has numbers over time and others")
        fit.check_loss()
        check_trials(1, fit.most_trials(self.seeds[1]), None)
        check_seeds(self.seeds[0], self.seeds[1] + fit.held_out, None)

    def _check_bench(self, bench: BenchPlan) -> None:
        modes = tuple(mode.name for mode in modes_of(bench.modes))
        size, seeds = len(modes), bench.seeds
        if not bench.modes or modes != bench.modes or self.past is not None or len(self.points) % size:
            raise UsageError("the plan does not have each of its combinations in each of its modes")
        for number, point in enumerate(self.points):
            if point != {**self.points[number - number % size], MODE: modes[number % size]}:
                raise UsageError("the plan does not have each of its combinations in each of its modes")
        if seeds and (len(set(seeds)) < len(seeds) or min(seeds) < 0 or self.seeds != (seeds[0], len(seeds))):
            raise UsageError("the plan does not have the seeds that it names")
        if seeds and (self.precision is not None or max(seeds) > MAX_SEED):
            raise UsageError("the plan names its seeds, and asks for more, or for one that is too large")


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first} to {first + count - 1}"


@attrs.frozen
class TrialJob:
    """What a worker does at once: the trials of one seed with one combination, in all modes of a bench, or of all arms.

    Attributes:
        plan: the plan without its points.
        seed: the seed.
        points: the combinations or arms by index, in the order in which they are run.
        hosting: what the operator gives.
    """

    plan: Plan
    seed: int
    points: Mapping[int, Point]
    hosting: TrialHosting


def mode_of(plan: Plan, point: Point) -> str:
    """Return the name of the mode of a point."""
    return point[MODE] if plan.mode is None else plan.mode


def jobs_of(
    plan: Plan, wanted: Sequence[tuple[int, int]], hosting: TrialHosting, *, by_seed: bool
) -> Iterator[TrialJob]:
    """Yield the jobs for some combinations and seeds.

    Args:
        plan: the plan.
        wanted: the index of each combination, and the seed.
        hosting: what the operator gives.
        by_seed: whether all combinations of a seed are one job. What is compared always is; see `Plan.together`.
    """
    common = attrs.evolve(plan, points=())  # a job is sent to a worker, and a plan can have many points
    size = plan.together
    groups: dict[tuple[int | None, int], list[int]] = {}
    for point, seed in wanted:
        groups.setdefault((None if by_seed and size == 1 else point // size, seed), []).append(point)
    for (_, seed), points in groups.items():
        chosen = points if size == 1 else plan.order(points[0] - points[0] % size, seed)
        yield TrialJob(common, seed, {point: plan.points[point] for point in chosen}, hosting)


@attrs.frozen
class Varied:
    """A scenario with all combinations of its varied values, read and checked.

    Attributes:
        file: its file.
        options: the options of its plan, with the modules that its package needs, and with `recording` as an override.
        scenario: the scenario without varied values.
        points: the combinations.
        variants: the scenarios of the first combinations.
    """

    file: Path
    options: SweepOptions
    scenario: Scenario
    points: tuple[Point, ...]
    variants: Sequence[Scenario]

    @classmethod
    def of(cls, file: Path, options: SweepOptions, ends: tuple[Point, ...] | None = None) -> "Varied":
        """Read a scenario, and check it with the combinations, the first 100 of many.

        Args:
            file: the scenario file, or PACKAGE:NAME of one of an installed package.
            options: the options of the plan.
            ends: of a fit, which has no combinations yet, those with which the scenario is checked.

        Raises:
            ScenarioError: if the scenario is not valid.
            UsageError: if the options contradict each other, or a kind of agent is not known.
        """
        file, allow = find_scenario(file, options.allow)
        level = () if options.recording is None else (f"recording.level={options.recording}",)
        options = attrs.evolve(options, allow=tuple(allow), overrides=(*options.overrides, *level))
        overrides = (*options.overrides, *((f"until={options.until}",) if options.until is not None else ()))
        scenario = load(file, overrides, allow, options.kinds)
        first = scenario.seed if options.first_seed is None else options.first_seed
        check_precision(options.design, options.precision)
        variables = [variable(text) for text in options.vary]
        if any(one.key == MODE for one in variables):
            raise UsageError("the mode is no key of a scenario", hint="sim bench compares modes: --mode")
        points = ends or points_of(variables, options.design, options.samples, first, second_order=options.second_order)
        if options.listed:
            if options.design != "factorial":
                said = f"the design {options.design} samples combinations, and others are listed"
                raise UsageError(said, hint="leave one out")
            points = joined(options.listed, points)
            if any(MODE in point for point in points[:1]):
                raise UsageError("the mode is no key of a scenario", hint="sim bench compares modes: --mode")
            options = attrs.evolve(options, design="list")
        elif options.design == "list":
            raise UsageError("the design list needs combinations", hint="--points FILE")
        check_trials(len(points), SEEDS if options.count is None else options.count, options.precision)
        variants = _checked_variants(file, overrides, scenario, points, allow, options.kinds)
        return cls(file, options, scenario, points, variants)

    def plan(self, *, count: int = SEEDS, answers: Answers = "seed", **own: Any) -> Plan:
        """Return the plan.

        Args:
            count: the number of seeds, if the options do not say it.
            answers: which trials share answers, if the options do not say it.
            own: further fields of the plan, or other values.

        Raises:
            UsageError: if there are too many trials, a seed is too large, or an outcome is not known.
        """
        options, scenario = self.options, self.scenario
        first = scenario.seed if options.first_seed is None else options.first_seed
        count = count if options.count is None else options.count
        fields: dict[str, Any] = {
            "file": str(self.file.resolve()),
            "sha256": scenario_digest(self.file),
            "name": scenario.name,
            "vary": tuple(options.vary),
            "design": options.design,
            "samples": options.samples,
            "design_seed": first,
            "second_order": options.second_order,
            "points": self.points,
            "seeds": (first, count),
            "precision": options.precision,
            "until": options.until,
            "overrides": tuple(options.overrides),
            "allow": tuple(options.allow),
            "models": tuple(options.models),
            "answers": options.answers or answers,
            "record": options.record,
        }
        chosen = KnownOutcomes.of((scenario, *self.variants), options.kinds).choose(options.outcomes, options.allow)
        if chosen.read_records:
            check_recorded(scenario, "--recording all")
        plan = Plan(**fields | {"outcomes": chosen.names, "definitions": chosen.definitions} | own)
        plan._check()
        return plan


@attrs.frozen(kw_only=True)
class SweepPlanOptions(SweepOptions):
    """What the plan of a sweep can say.

    Args:
        mode: the mode; None: that of the scenario.
    """

    mode: Mode | None = None


@taking(SweepPlanOptions)
def make_sweep(file: Path, options: SweepPlanOptions) -> Plan:
    """Return the plan of a sweep. The scenario is checked with the combinations, the first 100 of many.

    Args:
        file: the scenario file, or PACKAGE:NAME of one of an installed package.
        options: see `SweepPlanOptions`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if the arguments contradict each other, there are too many trials, or a kind of agent or an outcome
            is not known.
    """
    varied = Varied.of(file, options)
    texts = varied.options.baseline
    mode = options.mode or varied.scenario.execution.mode
    return varied.plan(mode=mode, baseline=named(varied.points, texts) if texts else None)


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
    overrides: Sequence[str],
    scenario: Scenario,
    points: Sequence[Point],
    allow: Sequence[str],
    kinds: Kinds | None,
) -> list[Scenario]:
    """Return the scenarios of the first combinations, checked.

    Raises:
        ScenarioError: if one of them is not valid.
        UsageError: if one of them sets a state variable or names a kind that there is not.
    """
    try:
        first = points[:_CHECKED]  # without varied values, there is one, which is the scenario itself
        variants = [_variant(file, overrides, point, allow, kinds) if point else scenario for point in first]
        check_state_variables(scenario, parse_all(overrides_of(points[0])))
        for variant in variants:
            check_kinds(variant, tuple(allow), kinds)
            check_families(variant)
    except ScenarioError:
        raise  # it names `--vary`
    except UsageError as error:
        raise UsageError(str(error).removeprefix(f"{FILE} "), hint=error.hint) from error
    return variants


def _variant(file: Path, overrides: Sequence[str], point: Point, allow: Sequence[str], kinds: Kinds | None) -> Scenario:
    """Return the scenario of a combination; errors in its values name `--vary`, where they come from."""
    try:
        return load(file, (*overrides, *overrides_of(point)), allow, kinds)
    except ScenarioError as error:
        problems = [attrs.evolve(one, file="--vary") if one.file == FILE else one for one in error.problems]
        raise ScenarioError(problems) from error


def check_precision(design: Design, precision: Precision | None) -> None:
    """Check that a design for sensitivity analysis has the same seeds for all combinations.

    Raises:
        UsageError: if seeds are added to each combination until it is precise.
    """
    if precision is not None and is_method(design):
        said = f"a {design} design compares means over the same seeds, and a precision adds seeds to some combinations"
        raise UsageError(said, hint="leave out --until-precision, and take --seeds N")


def check_seeds(first: int, count: int, precision: Precision | None) -> None:
    """Check that no seed is too large.

    Raises:
        UsageError: if one is.
    """
    most = count if precision is None else max(count, precision.most_seeds)
    if first + most - 1 > MAX_SEED:
        raise UsageError(f"a seed is at most {MAX_SEED}")


def check_trials(points: int, count: int, precision: Precision | None) -> None:
    """Check that there are not too many trials: the combinations or arms, times the most seeds of each.

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
