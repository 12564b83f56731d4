"""The options of `sweep` and `arms`."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.base.shown import Keywords
from sim.experiments.designs import Design, varied
from sim.experiments.experiment import Progress, Workers
from sim.experiments.listed import listed
from sim.experiments.options import Precision, SearchOptions, Study, Work
from sim.experiments.plan import Plan, TrialHosting, check_allowed
from sim.experiments.pool import Inline
from sim.experiments.workers import check_workers, workers_of
from sim.kernel import Duration, to_ns, to_text
from sim.kernel.levels import Level
from sim.llm import Access
from sim.record.files import Mode
from sim.resources import to_micro
from sim.runner.options import Decisions, Hosting
from sim.tools.rights import part_of

Watcher = Callable[[Progress], object]

Values = str | Iterable[Any]
"""How a key is varied: several values, or a text such as `0.02..0.2:4`."""

Changes = Mapping[str, Any] | Sequence[str]
"""What an arm changes: values by key, or `key=value` texts."""


@attrs.frozen(kw_only=True)
class WorkerOptions(Hosting, Decisions, Work):
    """How an experiment is carried out, and what the operator lets its scenario do; see `Rights`.

    Classes in `kinds` that are defined in the program itself, or in a cell of a notebook, are unknown to other
    processes, as are `definitions`, so the trials run in this one. What `allow` names must be given again to resume:
    what a plan names is not allowed by the plan, which can come from anybody.

    Args:
        progress: True shows a bar in a terminal (on stderr) or a notebook. A function is called after each trial.
    """

    progress: Watcher | bool | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.on is not None and self.definitions is not None:
            raise UsageError("other machines do not have the definitions of this program", hint="leave `on` out")
        if self.jobs is not None and not 1 <= self.jobs <= 1000:
            raise UsageError(f"jobs are 1 to 1000 processes, not {self.jobs!r}")

    def hosting(self, plan: Plan) -> TrialHosting:
        """Return what the operator gives to the trials of a plan.

        Raises:
            UsageError: if other models are given than the plan has, a key is missing, or a module is not allowed.
        """
        check_allowed(plan, self.allow)
        check_workers(plan, self.jobs, self.on, self.ray)
        access = self.access or Access()
        if access.models not in ((), plan.models):
            hint = f"the plan has {', '.join(plan.models) or 'those of the scenario'}"
            raise UsageError("other language models are given than the plan has", hint=hint)
        access = attrs.evolve(access, models=plan.models)
        access.check_key()
        self.reached(access)
        arguments = part_of(self, Hosting) | part_of(self, Decisions)
        arguments |= {"allow": plan.allow, "access": access if plan.models else None}
        ceiling = None if self.ceiling is None else to_micro(self.ceiling)
        return TrialHosting(**arguments, ceiling_micro=ceiling, ceiling_tokens=self.ceiling_tokens)

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
class ExperimentOptions(WorkerOptions, Study):
    """How an experiment is planned and carried out.

    Args:
        seeds: the number of seeds of each combination or arm, at the beginning; None: 10, and 5 of a bench.
        until_precision: adds seeds until half of each 95 % interval is at most this share of its mean: 0.05 or `5%`.
        most_seeds: the most seeds with it; None: 1000.
        until: the simulated time at which each trial ends.
        out: the folder of the experiment; None: the next free `experiments/NAME-NUMBER`, or `bench/NAME-NUMBER`.

    Raises:
        UsageError: if a value is not allowed.
    """

    seeds: int | None = None
    until_precision: float | str | None = None
    most_seeds: int | None = None
    until: Duration | None = None
    out: str | PathLike[str] | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.seeds is not None and (self.seeds.__class__ is not int or self.seeds < 1):
            raise UsageError(f"seeds are the number of seeds, at least 1, not {self.seeds!r:.40}")
        if self.answers not in (None, "seed", "all", "fresh"):
            raise UsageError(f"the answers are seed, all or fresh, not {self.answers!r:.40}")

    def planned(self) -> Keywords:
        """Return the options that all plans share."""
        return {
            "first_seed": self.first_seed,
            "count": self.seeds,
            "outcomes": tuple(self.outcomes),
            "precision": Precision.of(self.until_precision, self.most_seeds),
            "answers": self.answers,
            "until": None if self.until is None else to_text(to_ns(self.until)),
            "record": self.record,
            "allow": tuple(self.allow),
        }


@attrs.frozen(kw_only=True)
class RetryOptions(WorkerOptions):
    """How an experiment is continued.

    Args:
        again: whether trials that failed are tried again.
    """

    again: bool = False


@attrs.frozen(kw_only=True)
class VariedOptions(ExperimentOptions):
    """What is varied, and how.

    Args:
        vary: the values by key, such as `{"agents.person.state.beta": [0.02, 0.1]}`; a text such as `"0.02..0.2:4"`
            stands for evenly spread values. Keys in a tuple change together: `{("a.x", "a.y"): [(1, 10), (2, 20)]}`.
        points: combinations that are tried as they are: a CSV or JSON Lines file, a DataFrame with a column for each
            key, or a list of mappings.
        design: `factorial` (all combinations), `latin` or `sobol` for `samples` combinations within ranges, or, of a
            sweep, `saltelli`, `morris` or `fast` for sensitivity indices; see `Experiment.sensitivity`.
        samples: the number of combinations of a latin or sobol design, and N of a design for sensitivity indices.
        overrides: `key=value` changes to all runs.
        recording: how much is recorded of each trial: `all`, `changes` or `samples`; None: what the scenario says,
            otherwise `samples`, and `all` of a bench.
    """

    vary: Mapping[Any, Values] | None = None
    points: Any = None
    design: Design = "factorial"
    samples: int | None = None
    overrides: Sequence[str] = ()
    recording: Level | None = None

    def varied(self) -> Keywords:
        """Return what the plans of a sweep and of a bench say alike."""
        return {
            "vary": varied(self.vary or {}),
            "listed": () if self.points is None else listed(self.points),
            "design": self.design,
            "samples": self.samples,
            "overrides": tuple(self.overrides),
            "recording": self.recording,
            "models": () if self.access is None else self.access.models,
            "kinds": self.kinds,
            **self.planned(),
        }


@attrs.frozen(kw_only=True)
class SweepArguments(VariedOptions):
    """What a sweep tries.

    Args:
        baseline: the combination with which all others are compared seed by seed, such as `{"beta": 0.02}`.
        second_order: whether a saltelli design shows what pairs of inputs do together.
        mode: `autonomous` or `tick`; None: that of the scenario.
    """

    baseline: Mapping[str, Any] | None = None
    second_order: bool = False
    mode: Mode | None = None


@attrs.frozen(kw_only=True)
class FitArguments(VariedOptions, SearchOptions):
    """What a fit looks for. It has no design and no outcomes but those of its data.

    Args:
        mode: `autonomous` or `tick`; None: that of the scenario.
    """

    mode: Mode | None = None

    def searched(self) -> Keywords:
        """Return what the plan of a fit says."""
        return {**self.varied(), **part_of(self, SearchOptions), "mode": self.mode}


@attrs.frozen(kw_only=True)
class BenchArguments(VariedOptions):
    """What a bench compares.

    Args:
        modes: the modes, such as `tick-parallel` and `autonomous`; empty: the default modes.
        seed_list: the seeds, instead of their number (`seeds`).
    """

    modes: Sequence[str] = ()
    seed_list: Sequence[int] = ()


@attrs.frozen(kw_only=True)
class ArmsArguments(ExperimentOptions):
    """Which futures of a run are compared.

    Args:
        at: the simulated time at which the arms begin.
        arms: what each arm changes, by its name, such as `{"low": {"agents.person.state.beta": 0.02}}`.
    """

    at: Duration
    arms: Mapping[str, Changes]


def _can_be_imported(needed: Any) -> bool:
    """Return whether other processes can import a class or a function by its name."""
    module, name = getattr(needed, "__module__", "__main__"), getattr(needed, "__qualname__", "")
    if module == "__main__":
        return False
    imported: Any = import_module(module)
    for part in name.split("."):
        imported = getattr(imported, part, None)
    return imported is needed
