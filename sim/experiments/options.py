"""The options of the plans of experiments: each is one field, which the verbs and the Python functions share."""

from collections.abc import Sequence
from os import PathLike
from typing import Final, Literal, get_args

import attrs

from sim.base.errors import UsageError
from sim.base.shown import shown
from sim.experiments.designs import Design
from sim.experiments.points import Point
from sim.experiments.targets import Loss, Sampler
from sim.kernel.levels import Level
from sim.runner.options import MAX_SEED, Options
from sim.tools.rights import Kinds

SEEDS: Final = 10
MOST_SEEDS: Final = 1000
CANDIDATES: Final = 100
BATCH: Final = 8

Answers = Literal["seed", "all", "fresh"]
"""Which trials share the answers of models at an endpoint: those of one seed, all, or none.

Trials of other seeds are to be independent of each other, and are only if their answers are.
"""


@attrs.frozen
class Precision:
    """When enough seeds were run: when the interval of each outcome is narrow enough.

    Of a sweep, this holds for each combination by itself; of a bench, for all modes of a combination. Of arms, it
    holds for the differences from the baseline, and the mean is that of the baseline.

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


@attrs.frozen(kw_only=True, slots=False)
class Study(Options):
    """What the plan of each experiment can say, in Python and on the command line alike.

    Args:
        first_seed: the first seed; of a sweep or a bench, also that of a sample. None: that of the scenario; of arms,
            that of the run.
        outcomes: the outcomes that matter: names, and expressions such as `mean(gini, from=200s)`; empty: those that
            the scenario has in `outcomes`, or else all that it defines.
        answers: which trials share the answers of models at an endpoint: those of one seed (`seed`), `all`, or none
            (`fresh`). None: `seed`; of a bench, `fresh`, since an answer that is there already would falsify the time
            of a mode.
        record: whether each trial gets a run folder, in the folder `runs` of the experiment.
    """

    first_seed: int | None = attrs.field(
        default=None, metadata=shown("Default: that of the scenario or run.", least=0, most=MAX_SEED)
    )
    outcomes: Sequence[str] = attrs.field(
        default=(),
        metadata=shown(
            "What matters: a name, or an expression such as 'mean(gini, from=200s)'. Repeatable. Default: `outcomes`.",
            written="--outcome",
            metavar="OUTCOME",
            many=True,
        ),
    )
    answers: Answers | None = attrs.field(
        default=None,
        metadata=shown(
            "Trials that share answers of models at an endpoint: of one seed (default), all, or none (of a bench).",
            words=get_args(Answers),
        ),
    )
    record: bool = attrs.field(default=False, metadata=shown("Record each trial, in `runs` of the results.", flag=True))


@attrs.frozen(kw_only=True, slots=False)
class SearchOptions(Options):
    """What a fit looks for, and how it chooses its candidates.

    Args:
        targets: CSV files with data, one or several; with several, the best candidates are a Pareto front.
        loss: how far a model is from the data: `rmse`, `mae`, `rmsle` or `max`.
        sampler: how candidates are chosen: `tpe` or `cmaes`.
        candidates: how many are tried.
        batch_size: how many are chosen at once.
        held_out: further seeds for the best; None: as many as the search has.
    """

    targets: str | PathLike[str] | Sequence[str | PathLike[str]] = attrs.field(
        default=(),
        metadata=shown(
            "Data in a CSV file: a column `time` and metrics, or one row of outcomes. Repeatable: a Pareto front.",
            written="--target",
            metavar="FILE",
            many=True,
        ),
    )
    loss: Loss = attrs.field(
        default="rmse",
        metadata=shown("How far a model is from the data. Default: rmse.", words=get_args(Loss)),
    )
    sampler: Sampler = attrs.field(
        default="tpe", metadata=shown("How candidates are chosen. Default: tpe.", words=get_args(Sampler))
    )
    candidates: int = attrs.field(
        default=CANDIDATES,
        metadata=shown(f"How many combinations are tried. Default: {CANDIDATES}.", least=2, most=100_000),
    )
    batch_size: int = attrs.field(
        default=BATCH,
        metadata=shown(
            f"How many are chosen at once, after all before are done. Default: {BATCH}.", least=1, most=1024
        ),
    )
    held_out: int | None = attrs.field(
        default=None, metadata=shown("Further seeds for the best. Default: as many as --seeds.", least=0, most=100_000)
    )


@attrs.frozen(kw_only=True, slots=False)
class Work(Options):
    """Who carries out an experiment, and what its models may take.

    Args:
        jobs: the number of processes; None: one for each core. 1 runs the trials in this process.
        on: `ray` or `ray:ADDRESS` runs the trials on a Ray cluster.
        ceiling: what the models of all trials may cost; no trial begins after that. Trials under way then end.
        ceiling_tokens: the same for their tokens, input and output together.
    """

    jobs: int | None = attrs.field(
        default=None, metadata=shown("Parallel processes. Default: one per core.", least=1, most=1024)
    )
    on: str | None = attrs.field(
        default=None,
        metadata=shown(
            "Run the trials as tasks of a Ray cluster. Without ADDRESS: a local one.", metavar="ray[:ADDRESS]"
        ),
    )
    ceiling: float | None = attrs.field(
        default=None,
        metadata=shown(
            "What the models of all trials may cost; no trial begins after that.", metavar="MONEY", least=0.0
        ),
    )
    ceiling_tokens: int | None = attrs.field(
        default=None, metadata=shown("The same for their tokens.", metavar="N", least=0)
    )


@attrs.frozen(kw_only=True)
class StudyOptions(Study):
    """What the plans of sweeps, benches and arms can say; None stands for the default.

    Args:
        count: the number of seeds of each combination, at the beginning; None: 10, and 5 of a bench.
        precision: when it is precise enough; None: after these seeds.
        until: the end of the trials; None: that of the scenario, or of the run.
        allow: modules from which agents can be imported.
    """

    count: int | None = None
    precision: Precision | None = None
    until: str | None = None
    allow: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class SweepOptions(StudyOptions):
    """What the plans of sweeps and benches can say as well.

    Args:
        vary: how each key is varied; see `variable`.
        design, samples, second_order: see `points_of`.
        listed: combinations that are tried as they are, each with all combinations of what is varied.
        baseline: the combination from which differences of a sweep are taken, as `key=value` texts that name it alone.
        overrides: `key=value` overrides of all runs.
        models: language models that replace those of the scenario, as in `Access.models`.
        recording: how much is recorded of each trial; None: what the scenario says, otherwise `samples` in a sweep and
            `all` in a bench.
        kinds: classes that the scenario may name as `kind`.
    """

    vary: Sequence[str] = ()
    design: Design = "factorial"
    samples: int | None = None
    second_order: bool = False
    listed: Sequence[Point] = ()
    baseline: Sequence[str] = ()
    overrides: Sequence[str] = ()
    models: Sequence[str] = ()
    recording: Level | None = None
    kinds: Kinds | None = None
