"""The search for values that agree with data: Optuna proposes candidates, in batches of a fixed size.

The sampler gets the losses of a batch in the order of its candidates, when all are known. So what is proposed follows
from the plan and the losses, and neither from the number of processes nor from an interruption.
"""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sim.base.errors import UsageError
from sim.base.extras import need
from sim.experiments.designs import VariedKey, check_whole, each
from sim.experiments.points import Point, number_text
from sim.experiments.targets import FitPlan

_NEEDED: Final = "a fit needs optuna (with numpy) and cmaes; this installation lacks"

Losses = Sequence[float]
"""The losses of a candidate, one for each target."""


def optuna_version() -> str:
    """Return the version of Optuna.

    Raises:
        UsageError: if it is not installed.
    """
    need("fit", _NEEDED)
    import optuna

    return str(optuna.__version__)


def check_search(variables: Sequence[VariedKey], fit: FitPlan) -> None:
    """Check that a sampler can vary these keys.

    Raises:
        UsageError: if it cannot.
    """
    if not variables:
        raise UsageError("a fit needs something to vary", hint="add --vary KEY=low..high")
    check_whole(variables, "a fit")
    if fit.sampler != "cmaes":
        return
    if len(fit.targets) > 1:
        raise UsageError("the sampler cmaes takes one target", hint="take --sampler tpe, which finds a Pareto front")
    if listed := next((one.key for one in variables if one.low is None), None):
        raise UsageError(f"the sampler cmaes varies numbers, and {listed} has a list", hint="take --sampler tpe")
    if len(variables) < 2:
        raise UsageError("the sampler cmaes varies two keys or more", hint="take --sampler tpe")


class Search:
    """A search for candidates.

    Args:
        fit: what it looks for.
        variables: the varied keys.
        sha: the hash of the plan, from which its random numbers are derived.

    Raises:
        UsageError: if Optuna is not installed.
    """

    def __init__(self, fit: FitPlan, variables: Sequence[VariedKey], sha: str) -> None:
        need("fit", _NEEDED)
        import optuna

        self._optuna: Any = optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        seed = int.from_bytes(hashlib.sha256(f"{sha} sampler".encode()).digest()[:4])
        with _quiet():
            sampler: Any
            if fit.sampler == "cmaes":
                sampler = optuna.samplers.CmaEsSampler(seed=seed, popsize=max(fit.batch, 4))
            else:
                # All of a batch are chosen before one of them is known: those that are chosen count as bad, so that the
                # next ones are elsewhere. Several objectives have no joint model of all keys in Optuna.
                sampler = optuna.samplers.TPESampler(
                    seed=seed,
                    n_startup_trials=max(10, fit.candidates // 5),
                    constant_liar=True,
                    multivariate=len(fit.targets) == 1,
                )
            self._study: Any = optuna.create_study(directions=["minimize"] * len(fit.targets), sampler=sampler)
        self._variables = variables
        self._asked: list[Any] = []

    def ask(self, count: int) -> tuple[Point, ...]:
        """Return the next candidates."""
        with _quiet():
            self._asked = [
                self._study.ask({one.key: self._distribution(one) for one in self._variables}) for _ in range(count)
            ]
        return tuple(each({one.key: _text(trial.params[one.key]) for one in self._variables}) for trial in self._asked)

    def tell(self, losses: Sequence[Losses | None]) -> None:
        """Take the losses of the candidates that were asked for, in their order; None: it has none."""
        with _quiet():
            for trial, own in zip(self._asked, losses, strict=True):
                if own is None:
                    self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                else:
                    self._study.tell(trial, list(own))
        self._asked = []

    def _distribution(self, one: VariedKey) -> Any:
        distributions = self._optuna.distributions
        if one.low is None or one.high is None:
            return distributions.CategoricalDistribution(one.values)
        if one.whole:
            return distributions.IntDistribution(int(one.low), int(one.high))
        return distributions.FloatDistribution(one.low, one.high)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings of Optuna about experimental parts off the terminal: its version is a part of the plan."""
    with warnings.catch_warnings(action="ignore"):
        yield


def _text(value: Any) -> str:
    return number_text(value) if isinstance(value, float) else str(value)
