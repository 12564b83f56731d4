"""The analysis of a run: a run, what is to be explained, and futures of it, as they can be had here."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Final, Literal, get_args

import attrs

from sim.base.errors import RunError, UsageError
from sim.base.shown import shown
from sim.experiments.attribution.curve import grid_of
from sim.experiments.attribution.forks import FORKS, ForkedFutures
from sim.experiments.attribution.processes import BranchedFutures, RebuiltFutures
from sim.experiments.attribution.target import ExplainedOutcome
from sim.experiments.attribution.task import Futures, RunSetup
from sim.experiments.pool import Deadline, cores
from sim.kernel import Duration, to_ns, to_text
from sim.kernel.codec import decode
from sim.llm import Access
from sim.record.files import SCENARIO
from sim.record.reader import StoredRun, open_run, run_folder
from sim.record.zip_archives import archive_of
from sim.runner.options import Decisions, ReplayOptions, check_above_zero
from sim.runner.plain import StepMoment, needs_outside
from sim.runner.rebuild import check_endpoint, check_not_running, models_asked, scenario_text
from sim.scenario import Scenario, loads
from sim.tools.rights import Rights, part_of

Answers = Literal["seed", "fresh"]

LEAST_FUTURES: Final = 100
"""The least budget: some futures at each of the first moments, and as many for each of the other steps."""

MOST_FUTURES: Final = 1_000_000

_OTHER: Final = "`sim show RUN metrics` has what the run has recorded: take an outcome of that"

_LONG: Final = 600.0  # real seconds from which on the cost names the option that limits them

_HOLDERS: Final = 17
"""The moments at which a process stays: each costs the memory of what a run changes after it."""


def _check_budget(_: object, attribute: "attrs.Attribute[int]", value: object) -> None:
    if value.__class__ is not int or not LEAST_FUTURES <= value <= MOST_FUTURES:
        raise UsageError(
            f"{attribute.name} is a whole number from {LEAST_FUTURES} to {MOST_FUTURES:,}, not {value!r:.40}",
            hint="more futures give narrower intervals, and cost as much more; 2000 is the default",
        )


def _check_jobs(_: object, attribute: "attrs.Attribute[int | None]", value: object) -> None:
    if value is not None and (value.__class__ is not int or not 1 <= value <= 1000):
        raise UsageError(f"jobs are 1 to 1000 processes, not {value!r:.40}", hint="leave it out: one for each core")


def _check_answers(_: object, __: object, value: object) -> None:
    if value not in get_args(Answers):
        raise UsageError(
            f"answers are shared by the futures of a seed, or are fresh, not {value!r:.40}",
            hint="give seed or fresh: futures of several seeds would not be independent of each other",
        )


@attrs.frozen(kw_only=True)
class AttributionOptions(Decisions, Rights):
    """How an outcome is explained.

    Args:
        budget: the most futures.
        jobs: how many futures run at the same time; None: one for each core.
        answers: whether the futures of a seed share the answers of models at endpoints to equal requests (`seed`), or
            each asks again (`fresh`).
        access: how to reach the models on record.
        confirm: called with the cost, as a text, and whether it is money, before the first future; if it returns
            False, there is none.
        fork: whether processes are forked; None: where it is safe. It does not change the result.
        max_wall: real time (seconds, or text such as `10m`) after which no more futures begin; None: there is no limit.
            What is found then depends on the machine, and it is said what was not tried.
    """

    budget: int = attrs.field(
        default=2000,
        validator=_check_budget,
        metadata=shown("The most futures.", metavar="N", least=LEAST_FUTURES, most=MOST_FUTURES),
    )
    jobs: int | None = attrs.field(default=None, validator=_check_jobs)
    answers: Answers = attrs.field(
        default="seed",
        validator=_check_answers,
        metadata=shown(
            "Futures that share answers of models at an endpoint to equal requests: those of a seed, or none (fresh).",
            words=get_args(Answers),
            show_default=True,
        ),
    )
    access: "Access | None" = None
    confirm: Callable[[str, bool], bool] | None = None
    fork: bool | None = None
    max_wall: Duration | None = attrs.field(
        default=None,
        validator=check_above_zero,
        metadata=shown("Real time after which no more futures begin.", metavar="DURATION"),
    )


@attrs.frozen
class Analysis:
    """What an analysis of one run works with.

    Attributes:
        stored: the run, open.
        scenario: its scenario.
        target: what is to be explained.
        futures: carries out futures.
        instants: the times at which it has events, in nanoseconds.
        start: the first moment at which futures can begin.
        answers: what was done about answers of models, as sentences.
        deadline: when no more futures begin.
    """

    stored: StoredRun
    scenario: Scenario
    target: ExplainedOutcome
    futures: Futures
    instants: tuple[int, ...]
    start: StepMoment
    answers: str
    deadline: Deadline

    def cut(self, options: AttributionOptions, steps: Sequence[str]) -> str:
        """Say what the time limit prevented.

        Args:
            options: those of the analysis.
            steps: the steps of the analysis that it ended, in a few words each.

        Raises:
            RunError: if it ended the first step before the first future, so that nothing is known.
        """
        if not steps:
            return ""
        if not self.futures.carried_out:
            raise RunError(
                f"the time limit of {to_text(to_ns(options.max_wall or 0))} ended before the first future",
                hint="give --max-wall a longer time; the cost is said first",
            )
        return (
            f"The time limit of {to_text(to_ns(options.max_wall or 0))} ended {' and '.join(steps)}, with"
            f" {self.futures.carried_out:,} of up to {options.budget:,} futures; more time may change what is found."
        )


@contextlib.contextmanager
def session(
    run: str | PathLike[str], outcome: str, options: AttributionOptions, *, condition: bool
) -> Iterator[Analysis | None]:
    """Open a run for an analysis, and have its cost confirmed; None: it was not.

    Args:
        run: the run.
        outcome: what is to be explained.
        options: how.
        condition: whether it must be a condition.

    Raises:
        UsageError: if the outcome is none of the run, or its agents are at different times.
        RunError: if the run has not finished, or cannot be repeated.
    """
    with contextlib.ExitStack() as stack:
        stored = stack.enter_context(open_run(run_folder(run)))
        _check_ended(stored)
        if archive_of(stored.path) is not None:
            raise UsageError("a run in an archive has no futures here", hint="unpack the archive first")
        again = ReplayOptions(**part_of(options, Rights), **part_of(options, Decisions), access=options.access)
        scenario = _scenario(stored, again)
        if scenario.execution.sync is not None:
            raise UsageError(
                f"{stored.path} was run with execution.sync: its agents are at different times, so that no future can"
                " begin at one moment",
                hint="run it without, if its agents allow that: --set execution.sync=null",
            )
        target = ExplainedOutcome.parse(outcome, scenario, code=options.allow, condition=condition)
        outside, instants = needs_outside(stored), _instants(stored)
        setup = RunSetup(str(stored.path.resolve()), again, target)
        money = False
        if outside:
            money = check_endpoint(stored, again) is not None
            setup = attrs.evolve(setup, again=_with_models(stored, again))
        answers = _answers(scenario, options, outside)
        jobs = options.jobs or cores()
        futures = _futures(setup, instants, jobs, outside, options, stack)
        stack.callback(futures.close)
        if futures.own.value is None:
            raise RunError(f"the run does not show {target.text}: it has no value at its end", hint=_OTHER)
        if options.confirm is not None and not options.confirm(_cost(stored, futures, options, jobs, answers), money):
            yield None
            return
        deadline = futures.deadline = Deadline.after(options.max_wall)  # from here, as a person may have been asked
        start = StepMoment(1) if outside else StepMoment(0)
        yield Analysis(
            stored=stored,
            scenario=scenario,
            target=target,
            futures=futures,
            instants=instants,
            start=start,
            answers=answers,
            deadline=deadline,
        )


def _check_ended(stored: StoredRun) -> None:
    """Check that a run has finished.

    Raises:
        RunError: if it has not.
    """
    check_not_running(stored)
    if stored.info.status != "finished":
        raise RunError(f"{stored.path} has not finished, so that it has no outcome", hint="sim resume continues it")


def _futures(
    setup: RunSetup,
    instants: tuple[int, ...],
    jobs: int,
    outside: str | None,
    options: AttributionOptions,
    stack: contextlib.ExitStack,
) -> Futures:
    if outside:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sim-"))
        return BranchedFutures(setup, jobs, Path(folder) / "answers.db" if options.answers == "seed" else None)
    if FORKS if options.fork is None else options.fork:
        holders = [StepMoment(0), *(one for one in grid_of(instants, _HOLDERS) if one.time_ns)]
        return ForkedFutures(setup, holders, jobs)
    return RebuiltFutures(setup, jobs)


def _scenario(stored: StoredRun, again: ReplayOptions) -> Scenario:
    text = scenario_text(stored, again)
    return loads(
        text,
        str(stored.path / SCENARIO),
        stored.info.options.get("set", ()),
        again.allow,
        again.kinds,
        definitions=again.definitions,
    )


def _with_models(stored: StoredRun, again: ReplayOptions) -> ReplayOptions:
    models = tuple(models_asked(stored.info.options))
    return attrs.evolve(again, access=attrs.evolve(again.access or Access(), models=models))


def _instants(stored: StoredRun) -> tuple[int, ...]:
    """Return the times at which a run has recorded events.

    Raises:
        RunError: if there are none.
    """
    instants: dict[int, None] = {}
    for *_, data in stored.chunks():
        instants |= dict.fromkeys(int(row[0]) for row in decode(data))
    if not instants:
        raise RunError(f"{stored.path} has no events, so that nothing in it changed an outcome", hint=_OTHER)
    return tuple(instants)


def _answers(scenario: Scenario, options: AttributionOptions, outside: str | None) -> str:
    """Say what is done about answers of models and other effects."""
    if not outside:
        if scenario.models is None:
            return ""
        return "Models in this process answer again in each future, at no cost."
    shared = (
        "futures of one seed share answers to equal requests, which therefore do not vary between moments"
        if options.answers == "seed"
        else "each future asks again"
    )
    return (
        f"The run needs something from outside: {outside}. Until a moment its answers are those on record, without"
        f" variance; after it models are asked again, which costs money in each future; {shared}. Measured effects that"
        " are under way at a moment keep their outcome, which comes from later."
    )


def _cost(stored: StoredRun, futures: Futures, options: AttributionOptions, jobs: int, answers: str) -> str:
    """Return what the futures cost, before there are any: the whole run each, as those that begin at its start do."""
    seconds = futures.seconds * options.budget / max(1, min(jobs, cores()))
    cores_text = f"{jobs} process{'es' if jobs > 1 else ''}"
    text = (
        f"a replay of {stored.path.name} ({stored.info.events or 0:,} events) takes {futures.seconds:.2g} s of CPU"
        f" time; up to {options.budget:,} futures, {futures.way}, take at most about {seconds:,.0f} s in {cores_text}"
        " with a core each"
    )
    if options.max_wall is not None:
        text += f"; after {to_text(to_ns(options.max_wall))}, no more of them begin"
    elif seconds > _LONG:
        text += "; --max-wall 10m ends this after ten minutes, and says what was not tried"
    return f"{text}. {answers}" if answers else text
