"""The options of `sweep` and `arms`."""

import contextlib
from collections.abc import Callable, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.experiments.experiment import Progress, Workers
from sim.experiments.options import Answers, Precision, StudyKeywords
from sim.experiments.plan import Hosting, Plan, check_allowed
from sim.experiments.pool import Inline
from sim.experiments.workers import check_workers, workers_of
from sim.host.watchdog import Stuck
from sim.kernel import Duration, to_ns, to_text
from sim.llm import Access
from sim.resources import to_micro
from sim.runner.options import (
    Backend,
    Options,
    check_above_zero,
    check_backend,
    check_edge_workers,
    check_reached,
)
from sim.tools.rights import Rights, RightsKeywords

Watcher = Callable[[Progress], object]


class WorkerKeywords(RightsKeywords, total=False):
    """The options with which an experiment is carried out; see `WorkerOptions`."""

    jobs: int | None
    on: str | None
    progress: Watcher | bool | None
    access: Access | None
    other_endpoint: bool
    allow_change: bool
    ceiling: float | None
    ceiling_tokens: int | None
    backend: Backend
    edge_workers: int
    max_wall: Duration | None
    stuck: Callable[[Stuck], None] | None


class ExperimentKeywords(WorkerKeywords, total=False):
    """The options that `sweep` and `arms` share; see `ExperimentOptions`."""

    seeds: int | None
    first_seed: int | None
    until_precision: float | str | None
    most_seeds: int | None
    outcomes: Sequence[str]
    until: Duration | None
    answers: Answers | None
    record: bool
    out: str | PathLike[str] | None


@attrs.frozen(kw_only=True)
class WorkerOptions(Options, Rights):
    """How an experiment is carried out, and what the operator lets its scenario do; see `Rights`.

    Classes in `kinds` that are defined in the program itself, or in a cell of a notebook, are unknown to other
    processes, as are `definitions`, so the trials run in this one. What `allow` names must be given again to resume:
    what a plan names is not allowed by the plan, which can come from anybody.

    Args:
        jobs: the number of processes; None: one for each core. 1 runs the trials in this process.
        on: `ray` or `ray:ADDRESS` runs the trials on a Ray cluster.
        progress: True shows a bar in a terminal (on stderr) or a notebook. A function is called after each trial.
        access: language models that replace the scenario's, and how to reach them.
        other_endpoint: whether arms may ask another endpoint than the run did.
        allow_change: whether arms may go on from a run although its scenario or the code has changed since. Its past is
            verified in any case.
        ceiling: what the models of all trials may cost; no trial begins after that. Trials under way then end.
        ceiling_tokens: the same for their tokens, input and output together.
        backend: `asyncio` or `trio`; it does not change the results.
        edge_workers: how many worker processes make the model calls of each process that runs trials; 0: it does.
        max_wall: real time (seconds, or text such as `10m`) after which the experiment is interrupted: it is returned
            without the trials that are not done, which `resume` carries out.
        stuck: called with each step of a trial that does not return, in the process of the trial. If other processes
            cannot import it, as a function in a cell of a notebook, the trials run in this one.
    """

    jobs: int | None = None
    on: str | None = None
    progress: Watcher | bool | None = None
    access: Access | None = None
    other_endpoint: bool = False
    allow_change: bool = False
    ceiling: float | None = None
    ceiling_tokens: int | None = None
    backend: Backend = attrs.field(default="asyncio", validator=check_backend)
    edge_workers: int = attrs.field(default=0, validator=check_edge_workers)
    max_wall: Duration | None = attrs.field(default=None, validator=check_above_zero)
    stuck: Callable[[Stuck], None] | None = None

    def __attrs_post_init__(self) -> None:
        if self.on is not None and self.definitions is not None:
            raise UsageError("other machines do not have the definitions of this program", hint="leave `on` out")
        if self.jobs is not None and not 1 <= self.jobs <= 1000:
            raise UsageError(f"jobs are 1 to 1000 processes, not {self.jobs!r}")

    def hosting(self, plan: Plan) -> Hosting:
        """Return what the operator gives to the trials of a plan.

        Raises:
            UsageError: if other models are given than the plan has, a key is missing, or a module is not allowed.
        """
        check_allowed(plan, self.allow)
        check_workers(plan, self.jobs, self.on)
        access = self.access or Access()
        if access.models not in ((), plan.models):
            hint = f"the plan has {', '.join(plan.models) or 'those of the scenario'}"
            raise UsageError("other language models are given than the plan has", hint=hint)
        access = attrs.evolve(access, models=plan.models)
        access.check_key()
        check_reached(access, self.edge_workers)
        rights = Rights(**self.keywords | {"allow": plan.allow})
        shared = {field.name for field in attrs.fields(Hosting)} & {field.name for field in attrs.fields(type(self))}
        given = {name: getattr(self, name) for name in shared} | {"access": access if plan.models else None}
        ceiling = None if self.ceiling is None else to_micro(self.ceiling)
        return Hosting(**given, rights=rights, ceiling_micro=ceiling)

    def workers(self, plan: Plan, folder: Path) -> contextlib.AbstractContextManager[Workers]:
        """Return who carries out a plan."""
        if self.on is None and (self.jobs == 1 or not self._can_be_sent()):
            return Inline()
        return workers_of(plan, folder, self.jobs, self.on)

    def _can_be_sent(self) -> bool:
        """Return whether other processes can import what they need of the program."""
        if self.definitions is not None:
            return False
        needed: list[Any] = [*(self.kinds or {}).values(), *([] if self.stuck is None else [self.stuck])]
        return all(map(_can_be_imported, needed))


@attrs.frozen(kw_only=True)
class ExperimentOptions(WorkerOptions):
    """How an experiment is planned and carried out.

    Args:
        seeds: the number of seeds of each combination or arm, at the beginning; None: 10, and 5 of a bench.
        first_seed: the first seed; None: that of the scenario or the run.
        until_precision: adds seeds until half of each 95 % interval is at most this share of its mean: 0.05 or `5%`.
        most_seeds: the most seeds with it; None: 1000.
        outcomes: the outcomes that matter: names, and expressions such as `mean(gini, from=200s)`; empty: those that
            the scenario has in `outcomes`, or else all that it defines.
        until: the simulated time at which each trial ends.
        answers: which trials share the answers of models at an endpoint: those of one seed (`seed`), `all`, or none
            (`fresh`). None: `seed`; of a bench, `fresh`.
        record: whether each trial gets a run folder, in the folder `runs` of the experiment.
        out: the folder of the experiment; None: the next free `experiments/NAME-NUMBER`, or `bench/NAME-NUMBER`.

    Raises:
        UsageError: if a value is not allowed.
    """

    seeds: int | None = None
    first_seed: int | None = None
    until_precision: float | str | None = None
    most_seeds: int | None = None
    outcomes: Sequence[str] = ()
    until: Duration | None = None
    answers: Answers | None = None
    record: bool = False
    out: str | PathLike[str] | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.seeds is not None and (self.seeds.__class__ is not int or self.seeds < 1):
            raise UsageError(f"seeds are the number of seeds, at least 1, not {self.seeds!r:.40}")
        if self.answers not in (None, "seed", "all", "fresh"):
            raise UsageError(f"the answers are seed, all or fresh, not {self.answers!r:.40}")

    def planned(self) -> StudyKeywords:
        """Return the options that all plans share."""
        return {
            "first_seed": self.first_seed, "count": self.seeds, "outcomes": tuple(self.outcomes),
            "precision": Precision.of(self.until_precision, self.most_seeds), "answers": self.answers,
            "until": None if self.until is None else to_text(to_ns(self.until)), "record": self.record,
            "allow": tuple(self.allow),
        }  # fmt: skip


def _can_be_imported(needed: Any) -> bool:
    """Return whether other processes can import a class or a function by its name."""
    module, name = getattr(needed, "__module__", "__main__"), getattr(needed, "__qualname__", "")
    if module == "__main__":
        return False
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is needed
