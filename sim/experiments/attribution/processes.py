"""Futures as single runs in worker processes: where processes are not forked, and of runs that need the edge (edge).

A run without effects is built again for each future, and repeats its past in plain code. One with effects, such as
calls of models at endpoints, is branched, so its futures begin between two instants.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs

from sim.base.errors import RunError, UsageError
from sim.base.registry import using
from sim.experiments.attribution.target import Watched
from sim.experiments.attribution.task import (
    LATE,
    MOST_SHOWN,
    SAME,
    EventBetween,
    Future,
    FuturesTask,
    Own,
    Passage,
    Prepared,
    RunSetup,
)
from sim.experiments.pool import NEVER, Ended, WorkerPool
from sim.experiments.trial import sentence
from sim.kernel.codec import encode
from sim.llm.shared_answers import SharedAnswers
from sim.record.answer_book import AnswerBook
from sim.record.reader import StoredRun, open_run
from sim.runner.options import Decisions
from sim.runner.plain import StepMoment
from sim.runner.result import Distribution, RunResult
from sim.runner.runner import RunController
from sim.tools.rights import part_of

_START: Final = 1
"""The first time at which a branch keeps the start of its run: one nanosecond after it."""


@attrs.frozen
class _Job:
    """One future."""

    setup: RunSetup
    task: FuturesTask
    place: tuple[int, int]
    answers: Path | None = None


class RebuiltFutures:
    """Futures of a run that is built again for each of them.

    Args:
        setup: the run.
        jobs: how many futures run at the same time.

    Attributes:
        own, seconds, patterns, deadline: see `Futures`.
    """

    within = True
    way = "built again for each future"
    deadline = NEVER

    def __init__(self, setup: RunSetup, jobs: int) -> None:
        self.carried_out = 0
        self._setup = setup
        self._pool = WorkerPool(jobs)
        with self._pool as pool:
            ((_, answer),) = pool.run(_own, [setup])
        own = _checked(answer)
        self.own, self.seconds, self.patterns = own.future, own.seconds, own.patterns

    def values(self, tasks: list[FuturesTask]) -> list[list[Future]]:
        """See `Futures`."""
        return _carried_out(self, self._pool, _future, [_Job(self._setup, *one) for one in _singles(tasks)], tasks)

    def steps(self, time_ns: int) -> int:
        """See `Futures`."""
        with _prepared(self._setup) as prepared:
            prepared.run.to(StepMoment(time_ns))
            return prepared.run.steps_at(time_ns)

    def between(self, first: StepMoment, last: StepMoment) -> Passage:
        """See `Futures`."""
        with _prepared(self._setup) as prepared:
            return prepared.passage(first, last)

    def close(self) -> None:
        """End what is under way: nothing is, between two calls."""


class BranchedFutures:
    """Futures of a run that has effects: branches, which keep no record.

    Args:
        setup: the run.
        jobs: how many futures run at the same time.
        answers: the file of answers of models that the futures of a seed share; None: each asks again.

    Attributes:
        own, seconds, patterns, deadline: see `Futures`.
    """

    within = False
    way = "branched"
    deadline = NEVER

    def __init__(self, setup: RunSetup, jobs: int, answers: Path | None) -> None:
        self.carried_out = 0
        self._setup, self._answers = setup, answers
        self._pool = WorkerPool(jobs)
        with self._pool as pool:
            ((_, answer),) = pool.run(_own_by_replay, [setup])
        own = _checked(answer)
        self.own, self.seconds, self.patterns = own.future, own.seconds, own.patterns

    def values(self, tasks: list[FuturesTask]) -> list[list[Future]]:
        """See `Futures`."""
        jobs = [_Job(self._setup, *one, self._answers) for one in _singles(tasks)]
        return _carried_out(self, self._pool, _branched, jobs, tasks)

    def steps(self, time_ns: int) -> int:
        """Return 1: an instant is not divided."""
        return 1

    def between(self, first: StepMoment, last: StepMoment) -> Passage:
        """See `Futures`. The values of state variables are not on record."""
        sql = (
            "SELECT id, time_ns, actor, topic, data FROM events WHERE time_ns >= ? AND time_ns < ? ORDER BY id LIMIT ?"
        )
        with open_run(Path(self._setup.run), verify=False) as stored:
            rows = stored.query(sql, (first.time_ns, last.time_ns, MOST_SHOWN))
        return Passage(tuple(EventBetween(row[0], row[1], row[2], row[3], str(row[4])[:300]) for row in rows), ())

    def close(self) -> None:
        """End what is under way: nothing is, between two calls."""


def _singles(tasks: list[FuturesTask]) -> Iterator[tuple[FuturesTask, tuple[int, int]]]:
    for row, task in enumerate(tasks):
        for place, seed in enumerate(task.seeds):
            yield attrs.evolve(task, seeds=(seed,)), (row, place)


def _carried_out(
    futures: RebuiltFutures | BranchedFutures,
    pool: WorkerPool,
    work: Callable[[_Job], Future],
    jobs: list[_Job],
    tasks: list[FuturesTask],
) -> list[list[Future]]:
    outcomes = [[LATE] * len(task.seeds) for task in tasks]
    with pool:
        for job, came in pool.run(work, jobs, futures.deadline):
            row, place = job.place
            outcomes[row][place] = Future(None, came.problem) if isinstance(came, Ended) else came
            futures.carried_out += 1
    return outcomes


def _checked(answer: Own | Ended) -> Own:
    """Return what is known of the run itself.

    Raises:
        RunError: if it is not known.
    """
    problem = answer.problem if isinstance(answer, Ended) else answer.future.problem
    if isinstance(answer, Ended) or problem is not None:
        raise RunError(f"the run cannot be repeated: {problem}", hint="`sim replay RUN` says what has changed")
    return answer


@contextlib.contextmanager
def _prepared(setup: RunSetup) -> Iterator[Prepared]:
    with open_run(Path(setup.run), verify=False) as stored, using(setup.again.definitions):
        yield Prepared(stored, setup)


def _own(setup: RunSetup) -> Own:
    begun, patterns = time.process_time(), tuple[str, ...]()
    try:
        with open_run(Path(setup.run), verify=False) as stored, using(setup.again.definitions):
            prepared = Prepared(stored, setup)
            prepared.run.verify(stored)
            own, patterns = prepared.future(None, SAME, quick=False), prepared.run.patterns
    except Exception as error:  # whatever agents raise
        own = Future(None, sentence(error))
    return Own(own, time.process_time() - begun, patterns)


def _future(job: _Job) -> Future:
    (seed,) = job.task.seeds
    try:
        with _prepared(job.setup) as prepared:
            prepared.run.to(job.task.moment)
            return prepared.future(seed, job.task.change, job.task.through)
    except Exception as error:
        return Future(None, sentence(error))


def recorded_result(stored: StoredRun) -> RunResult:
    """Return the result of a finished run, from its record."""
    info = stored.info
    fields = dict(info.summary or {})
    observed = {name: Distribution(**own) for name, own in fields.pop("observations", {}).items()}
    return RunResult(
        run=str(stored.path),
        backend=info.backend,
        hash=info.hash or "",
        events=info.events or 0,
        wall_seconds=0.0,
        observations=observed,
        **fields,
    )


def _own_by_replay(setup: RunSetup) -> Own:
    begun, watched = time.process_time(), setup.target.watch()
    try:
        own = _replayed(setup, watched)
    except Exception as error:
        own = Future(None, sentence(error))
    patterns = () if watched.runner is None else tuple(watched.runner.simulation.world.event_bus.patterns)
    return Own(own, time.process_time() - begun, patterns)


def _replayed(setup: RunSetup, watched: Watched) -> Future:
    from sim.runner.replaying import replay  # the import is slow

    replayed = replay(setup.run, begun=watched, **part_of(setup.again, Decisions), **setup.again.keywords)
    if not replayed.same:
        return Future(None, f"it differs from its record: {replayed.difference}")
    with open_run(Path(setup.run), verify=False) as stored:
        return Future(setup.target.value(recorded_result(stored), watched))


def _branched(job: _Job) -> Future:
    from sim.runner.branching import branch  # the import is slow

    setup, task = job.setup, job.task
    (seed,) = task.seeds
    if task.through is not None and seed is not None:
        return Future(None, "a branch cannot leave an event out and have new draws after it")
    if task.change.paused or task.change.dropped:
        return Future(None, "a branch cannot pause an agent or leave an intervention out from its beginning")
    watched = setup.target.watch()
    with AnswerBook(job.answers) if job.answers is not None else contextlib.nullcontext() as book:

        def begun(runner: RunController) -> None:
            watched(runner)
            models = runner.simulation.models
            if models is not None and book is not None:
                models.shared = SharedAnswers(book, str(seed))

        try:
            result = branch(
                setup.run,
                at=f"{max(task.moment.time_ns, _START)}ns",
                seed=seed,
                record=False,
                begun=begun,
                without=tuple(edit.event for edit in task.change.without),
                overrides=[f"{key}={encode(value).decode()}" for key, value in task.change.values],
                access=setup.again.access,
                **part_of(setup.again, Decisions),
                **setup.again.keywords,
            )
            if result.doubts:
                raise UsageError(f"{len(result.doubts)} effects of the run are in doubt", hint="decide: sim resume")
            value = setup.target.value(result, watched)
        except Exception as error:
            return Future(None, sentence(error))
    return Future(value, None if value is not None else "it does not show the outcome")
