"""Arms of an experiment: several futures of one past, compared seed by seed with a baseline that changes nothing.

All arms of a seed draw common random numbers, so the noise that they share cancels in their differences (Law,
Simulation Modeling and Analysis, section 11.2).
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from sim.base.errors import RunError, ScenarioError, UsageError
from sim.experiments.estimate import Estimate, least_effect
from sim.experiments.options import SEEDS, StudyOptions
from sim.experiments.outcomes import KnownOutcomes
from sim.experiments.plan import Past, Plan, check_seeds, check_trials
from sim.kernel import Duration, to_ns, to_text
from sim.kernel.levels import level_of
from sim.record import RunInfo, StoredRun, open_run
from sim.record.files import SCENARIO
from sim.record.zip_archives import check_not_archived
from sim.runner.fingerprint import code_hashes
from sim.runner.options import taking
from sim.scenario import Scenario, loads
from sim.scenario.live_changes import check_state_variables, read_changes
from sim.scenario.overrides import FILE, parse_all

BASELINE: Final = "baseline"
"""The name of the arm that changes nothing."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_MOST_ARMS: Final = 100


@attrs.frozen
class Difference:
    """The difference between an arm, or a combination of a sweep, and the baseline in one outcome, over seeds.

    Attributes:
        arm: the name of the arm or the combination.
        outcome: the name of the outcome.
        baseline: the outcome of the baseline, over the seeds that both have.
        difference: the arm minus the baseline, by seed.
        least_effect: the least difference that 80 of 100 experiments of this size would show; None for a single seed,
            or if all differences are the same.
        changed: the number of seeds in which the outcome differs.
    """

    arm: str
    outcome: str
    baseline: Estimate
    difference: Estimate
    least_effect: float | None
    changed: int


@attrs.frozen
class AgentReach:
    """An agent that an arm reached.

    Attributes:
        agent: the agent.
        times: the simulated seconds at which it was reached, one for each seed in which it was, in order.
    """

    agent: str
    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the times."""
        return median(self.times)


@attrs.frozen
class ArmReach:
    """The agents whose events differ from those of the baseline.

    Attributes:
        arm: the name of the arm.
        count: the number of reached agents, over seeds.
        agents: the reached agents, those first that are reached most often, then earliest.
    """

    arm: str
    count: Estimate
    agents: tuple[AgentReach, ...]


def arms_of(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the overrides of each arm from texts such as `low:agents.ant.state.speed=0.5`.

    An arm that is named again gets further overrides; one without overrides (`same:`) changes nothing.

    Raises:
        UsageError: if a text does not have this form.
    """
    overrides: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, separator, override = text.partition(":")
        if not separator:
            hint = "write NAME:KEY=VALUE, for example low:agents.ant.state.speed=0.5"
            raise UsageError(f"{text!r:.80} does not say what an arm changes", hint=hint)
        overrides[name] = (*overrides.get(name, ()), *([override] if override else []))
    return overrides


@attrs.frozen(kw_only=True)
class ArmsPlanOptions(StudyOptions):
    """What the plan of arms can say.

    Args:
        at: the simulated time at which the arms begin.
        arms: what each arm changes, as `key=value` overrides by its name. The baseline need not be given.
        allow_change: whether the code may have changed since the run was recorded.
    """

    at: Duration
    arms: Mapping[str, Sequence[str]]
    allow_change: bool = False


@taking(ArmsPlanOptions)
def make_arms(run: Path, options: ArmsPlanOptions) -> Plan:
    """Return the plan of arms of a recorded run.

    Args:
        run: the folder of the run.
        options: see `ArmsPlanOptions`. The first seed is that of the draws after this time.

    Raises:
        UsageError: if the arguments contradict each other, the run ends before, or a parameter cannot change then.
        ScenarioError: if a changed parameter is not valid.
        RunError: if the run cannot be read.
    """
    from sim.runner.rebuild import models_asked  # the import is slow

    _check_names(options.arms)
    check_not_archived(run, "an experiment refers to the folder of its run")
    at_ns = to_ns(options.at)
    info = _checked_run(run, at_ns, allow_change=options.allow_change)
    file = run / SCENARIO
    text = file.read_text(encoding="utf-8")
    wanted = KnownOutcomes.of(_arm_scenarios(text, file, info, at_ns, options)).choose(options.outcomes, options.allow)
    if wanted.read_records and level_of(info.options) != "all":
        raise UsageError("an outcome reads the record of each trial, and not all of this run is recorded")
    first = info.seed if options.first_seed is None else options.first_seed
    count = SEEDS if options.count is None else options.count
    check_seeds(first, count, options.precision)
    names = (BASELINE, *(name for name in options.arms if name != BASELINE))
    check_trials(len(names), count, options.precision)
    return Plan(
        file=str(file.resolve()),
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        name=info.name,
        vary=tuple(f"{name}:{override}" for name, own in options.arms.items() for override in own or ("",)),
        design="factorial",
        samples=None,
        design_seed=first,
        points=tuple(dict(_pair(override) for override in options.arms.get(name, ())) for name in names),
        seeds=(first, count),
        precision=options.precision,
        outcomes=wanted.names,
        definitions=wanted.definitions,
        mode=info.run_mode,
        until=options.until,
        overrides=(),
        allow=tuple(options.allow),
        models=tuple(models_asked(info.options)),
        answers=options.answers or "seed",
        record=options.record,
        past=Past(str(run.resolve()), info.uid, to_text(at_ns)),
        arms=names,
    )


def _arm_scenarios(text: str, file: Path, info: RunInfo, at_ns: int, options: ArmsPlanOptions) -> list[Scenario]:
    """Return the scenario of each arm, checked."""
    own, ends, allow = tuple(info.options.get("set", ())), options.until or info.options.get("until"), options.allow
    arms = []
    for name, overrides in options.arms.items():
        with _naming_the_arm(name):
            arms.append(_check_arm(text, file, own, overrides=overrides, allow=tuple(allow), at_ns=at_ns, until=ends))
    return arms


def _checked_run(run: Path, at_ns: int, *, allow_change: bool) -> RunInfo:
    """Return the properties of a run from which arms can begin at a time.

    Raises:
        UsageError: if it is still running, or its record ends before that time.
        RunError: if another version of the code recorded it.
    """
    from sim.runner.branching import end_of  # the import is slow
    from sim.runner.rebuild import check_not_running

    with open_run(run) as stored:
        check_not_running(stored)
        if not allow_change:
            _check_code(stored)
        if at_ns > (end := end_of(stored)):
            raise UsageError(f"the record of {run} ends at {to_text(end)}, before {to_text(at_ns)}")
        return stored.info


@contextlib.contextmanager
def _naming_the_arm(name: str) -> Iterator[None]:
    """Let errors say which arm they are about."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError([attrs.evolve(one, file=f"the arm {name}") for one in error.problems]) from error
    except UsageError as error:
        raise UsageError(f"the arm {name}: {str(error).removeprefix(f'{FILE} ')}", hint=error.hint) from error


def _check_arm(
    text: str,
    file: Path,
    own: tuple[str, ...],
    overrides: Sequence[str],
    allow: tuple[str, ...],
    at_ns: int,
    until: Duration | None,
) -> Scenario:
    """Check when an arm ends, and what it changes: at time 0 anything, later live parameters; return the scenario."""
    scenario = loads(text, str(file), own if at_ns else (*own, *overrides), allow)
    end_ns = scenario.end_ns if until is None else to_ns(until)
    if end_ns <= at_ns:
        raise UsageError(f"it would end at {to_text(end_ns)}, and begin at {to_text(at_ns)}", hint="give --until")
    if not at_ns:
        check_state_variables(loads(text, str(file), own, allow), parse_all(overrides))
        return scenario
    changes = read_changes(scenario, parse_all(overrides), f"at {to_text(at_ns)}")
    scenario.source.load(changes.others)
    return scenario


def _check_names(arms: Mapping[str, Sequence[str]]) -> None:
    for name, overrides in arms.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r:.60} is not the name of an arm: up to 40 letters, digits, `_`, `.` and `-`")
        if name == BASELINE and overrides:
            raise UsageError("the baseline changes nothing", hint="give the arm another name")
        if len({override.partition("=")[0] for override in overrides}) < len(overrides):
            raise UsageError(f"the arm {name} changes a key twice")
        if any(override.partition("=")[0].strip() == "seed" for override in overrides):
            raise UsageError("the seed is no difference between arms: all have the same seeds", hint="use --seeds")
    if not arms or len(arms) > _MOST_ARMS:
        raise UsageError(f"there can be 1 to {_MOST_ARMS} arms, not {len(arms)}", hint="give --arm NAME:KEY=VALUE")


def _pair(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key, value


def check_past(plan: Plan, *, allow_change: bool = False) -> None:
    """Check that the run of a plan is the one that it was made for.

    Args:
        plan: the plan.
        allow_change: whether the code may have changed since the run was recorded.

    Raises:
        UsageError: if it is not.
        RunError: if it cannot be read.
    """
    if plan.past is None:
        return
    with open_run(Path(plan.past.run)) as stored:
        if stored.info.uid != plan.past.uid:
            raise UsageError(f"{plan.past.run} is not the run of this plan", hint="make a new plan")
        if not allow_change:
            _check_code(stored)


def _check_code(stored: StoredRun) -> None:
    """Check that this version of sim recorded a run: else the replay of each arm would be refused.

    Raises:
        RunError: if another one did.
    """
    changed = [name for name, hash in code_hashes(()).items() if stored.info.code.get(name) != hash]
    if changed:
        what = f"the code has changed since {stored.path} was recorded: {', '.join(changed)}"
        raise RunError(what, hint="record the run again, or accept the change: --allow-change")


def differences_of(plan: Plan, values: Mapping[int, Mapping[str, Mapping[int, float]]]) -> list[Difference]:
    """Return the differences between the arms, or the combinations, and the baseline, by arm and outcome.

    Args:
        plan: the plan.
        values: the outcomes, as the value by combination, name and seed. Seeds that only one of both has are left out.
    """
    differences: list[Difference] = []
    start = plan.compared_with
    if start is None:
        return differences
    baseline = values.get(start, {})
    for point in range(len(plan.points)):
        if point == start:
            continue
        for name, own in values.get(point, {}).items():
            base = baseline.get(name, {})
            seeds = [seed for seed in sorted(own) if seed in base]
            changes = [own[seed] - base[seed] for seed in seeds]
            difference, before = Estimate.of(changes), Estimate.of([base[seed] for seed in seeds])
            if difference is not None and before is not None:
                changed = sum(change != 0 for change in changes)
                least = least_effect(changes)
                differences.append(Difference(plan.label(point), name, before, difference, least, changed))
    return differences


def reach_of(plan: Plan, seeds: Mapping[int, int], rows: Sequence[tuple[int, int, str, float]]) -> list[ArmReach]:
    """Return the agents that each arm reached.

    Args:
        plan: the plan.
        seeds: the number of seeds that were measured, by arm.
        rows: arm, seed, agent and simulated seconds of each agent that was reached.
    """
    reaches = []
    for point in range(1, len(plan.arms)):
        times: dict[str, list[float]] = {}
        counts: dict[int, int] = {}
        for arm, seed, agent, seconds in rows:
            if arm == point:
                times.setdefault(agent, []).append(seconds)
                counts[seed] = counts.get(seed, 0) + 1
        none = [0.0] * (seeds.get(point, 0) - len(counts))
        count = Estimate.of([*map(float, counts.values()), *none])
        agents = [AgentReach(agent, tuple(sorted(own))) for agent, own in times.items()]
        agents.sort(key=lambda one: (-len(one.times), one.median, one.agent))
        if count is not None:
            reaches.append(ArmReach(plan.arms[point], count, tuple(agents)))
    return reaches
