"""The options of the plans of experiments: each is one field, which the verbs and the Python functions share."""

from collections.abc import Sequence
from typing import Final, Literal

import attrs

from sim.base.errors import UsageError
from sim.experiments.designs import Design
from sim.experiments.points import Point
from sim.kernel.levels import Level
from sim.runner.options import Options
from sim.tools.rights import Kinds

SEEDS: Final = 10
MOST_SEEDS: Final = 1000

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


@attrs.frozen(kw_only=True)
class StudyOptions(Options):
    """What the plans of sweeps, benches and arms can say; None stands for the default.

    Args:
        first_seed: the first seed; of a sweep or a bench, also that of a sample. None: that of the scenario; of arms,
            that of the run.
        count: the number of seeds of each combination, at the beginning; None: 10, and 5 of a bench.
        precision: when it is precise enough; None: after these seeds.
        outcomes: the outcomes that matter; empty: all that the scenario defines.
        until: the end of the trials; None: that of the scenario, or of the run.
        allow: modules from which agents can be imported.
        answers: which trials share the answers of models at an endpoint. None: those of one seed; of a bench, none,
            since an answer that is there already would falsify the time of a mode.
        record: whether each trial gets a run folder of its own.
    """

    first_seed: int | None = None
    count: int | None = None
    precision: Precision | None = None
    outcomes: Sequence[str] = ()
    until: str | None = None
    allow: Sequence[str] = ()
    answers: Answers | None = None
    record: bool = False


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
