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
from sim.experiments.plan import SEEDS, Answers, Hosting, Plan, Precision, check_allowed
from sim.experiments.pool import Inline
from sim.experiments.workers import check_workers, workers_of
from sim.kernel import Duration, to_ns, to_text
from sim.llm import Access
from sim.resources import to_micro
from sim.runner.options import Options
from sim.tools.rights import Kinds, Rights, RightsKeywords

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


class ExperimentKeywords(WorkerKeywords, total=False):
    """The options that `sweep` and `arms` share; see `ExperimentOptions`."""

    seeds: int
    first_seed: int | None
    until_precision: float | str | None
    most_seeds: int | None
    outcomes: Sequence[str]
    until: Duration | None
    answers: Answers
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
    """

    jobs: int | None = None
    on: str | None = None
    progress: Watcher | bool | None = None
    access: Access | None = None
    other_endpoint: bool = False
    allow_change: bool = False
    ceiling: float | None = None
    ceiling_tokens: int | None = None

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
        rights = Rights(**self.keywords | {"allow": plan.allow})
        return Hosting(
            access if plan.models else None, rights, self.other_endpoint, allow_change=self.allow_change,
            ceiling_micro=None if self.ceiling is None else to_micro(self.ceiling),
            ceiling_tokens=self.ceiling_tokens,
        )  # fmt: skip

    def workers(self, plan: Plan, folder: Path) -> contextlib.AbstractContextManager[Workers]:
        """Return who carries out a plan."""
        if self.on is None and (self.jobs == 1 or self.definitions or not _can_be_imported(self.kinds or {})):
            return Inline()
        return workers_of(plan, folder, self.jobs, self.on)


@attrs.frozen(kw_only=True)
class ExperimentOptions(WorkerOptions):
    """How an experiment is planned and carried out.

    Args:
        seeds: the number of seeds of each combination or arm, at the beginning.
        first_seed: the first seed; None: that of the scenario or the run.
        until_precision: adds seeds until half of each 95 % interval is at most this share of its mean: 0.05 or `5%`.
        most_seeds: the most seeds with it; None: 1000.
        outcomes: the outcomes that matter: names, and expressions such as `mean(gini, from=200s)`; empty: those that
            the scenario has in `outcomes`, or else all that it defines.
        until: the simulated time at which each trial ends.
        answers: which trials share the answers of models at an endpoint: those of one seed (`seed`), `all`, or none
            (`fresh`).
        record: whether each trial gets a run folder, in the folder `runs` of the experiment.
        out: the folder of the experiment; None: the next free `experiments/NAME-NUMBER`.

    Raises:
        UsageError: if a value is not allowed.
    """

    seeds: int = SEEDS
    first_seed: int | None = None
    until_precision: float | str | None = None
    most_seeds: int | None = None
    outcomes: Sequence[str] = ()
    until: Duration | None = None
    answers: Answers = "seed"
    record: bool = False
    out: str | PathLike[str] | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.seeds.__class__ is not int or self.seeds < 1:
            raise UsageError(f"seeds are the number of seeds, at least 1, not {self.seeds!r:.40}")
        if self.answers not in ("seed", "all", "fresh"):
            raise UsageError(f"the answers are seed, all or fresh, not {self.answers!r:.40}")

    def planned(self) -> dict[str, Any]:
        """Return the arguments that `make_sweep` and `make_arms` share."""
        return {
            "first_seed": self.first_seed, "count": self.seeds, "outcomes": tuple(self.outcomes),
            "precision": Precision.of(self.until_precision, self.most_seeds), "answers": self.answers,
            "until": None if self.until is None else to_text(to_ns(self.until)), "record": self.record,
            "allow": tuple(self.allow),
        }  # fmt: skip


def _can_be_imported(kinds: Kinds) -> bool:
    """Return whether other processes can import classes by their names."""
    for kind in kinds.values():
        if kind.__module__ == "__main__":
            return False
        found: Any = import_module(kind.__module__)
        for name in kind.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is not kind:
            return False
    return True
