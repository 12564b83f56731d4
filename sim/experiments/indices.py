"""Designs for sensitivity analysis, and the indices that follow from their outcomes. SALib computes both.

`saltelli` (Saltelli et al., Computer Physics Communications 181, 2010) and `fast` (the extended Fourier amplitude test;
Saltelli, Tarantola and Chan, Technometrics 41, 1999) split the variance of an outcome by inputs. `morris` (Morris,
Technometrics 33, 1991) changes one input at a time, and needs far fewer combinations.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeGuard, get_args

import attrs

from sim.base.errors import UsageError
from sim.base.extras import need
from sim.experiments.estimate import NORMAL, Estimate
from sim.kernel.codec import Json, JsonObject

Method = Literal["saltelli", "morris", "fast"]

LEVELS: Final = 4
"""The levels of each input in a Morris design, as in Morris (1991): its steps go over two thirds of a range. There are
more if a list has more values."""

FEWEST_FAST: Final = 65
"""The fewest combinations for each input of `fast`: 4 M² + 1, where M = 4 harmonics are counted as first order."""

_RESAMPLES: Final = 300
"""Bootstrap samples of an interval; half its width is then known to 4 %."""

_SEED: Final = 1
"""The seed of bootstrap samples: the same results have the same intervals. (SALib takes 0 for no seed.)"""


def is_method(design: str) -> TypeGuard[Method]:
    """Return whether a design is one for sensitivity analysis."""
    return design in get_args(Method)


def block_of(method: Method, inputs: int, samples: int, *, second_order: bool) -> tuple[int, int]:
    """Return into how many blocks the combinations of a design fall, and how many are in each.

    What a block shows does not depend on the others: of `saltelli`, one sample with its changes of single inputs, and
    of `morris`, one way through the space. The combinations of `fast` are one block.

    Args:
        method: the design.
        inputs: the number of varied inputs.
        samples: the number of samples.
        second_order: whether pairs of inputs are looked at as well.
    """
    if method == "saltelli":
        return samples, (2 * inputs + 2 if second_order else inputs + 2)
    return (samples, inputs + 1) if method == "morris" else (1, samples * inputs)


def size_text(method: Method, inputs: int, samples: int, *, second_order: bool) -> str:
    """Return how the number of combinations of a design comes about."""
    blocks, each = block_of(method, inputs, samples, second_order=second_order)
    how = {
        "saltelli": f"{samples:,} × ({'2 × ' if second_order else ''}{inputs} + 2)",
        "morris": f"{samples:,} × ({inputs} + 1)",
        "fast": f"{samples:,} × {inputs}",
    }[method]
    return f"{how} = {blocks * each:,} combinations"


def check_size(method: Method, samples: int) -> None:
    """Check that a design can have a number of samples.

    Raises:
        UsageError: if it cannot.
    """
    if method == "saltelli" and (samples < 2 or samples & (samples - 1)):
        raise UsageError(f"a saltelli design has a power of two of samples, not {samples:,}", hint="such as 64 or 1024")
    if method == "morris" and samples < 2:
        raise UsageError("a morris design has at least 2 ways through the space", hint="10 to 50 are common")
    if method == "fast" and samples < FEWEST_FAST:
        said = f"a fast design has at least {FEWEST_FAST} combinations for each input, not {samples:,}"
        raise UsageError(said, hint=f"--samples {FEWEST_FAST}, or more")


def sampled(
    method: Method, inputs: int, samples: int, seed: int, *, second_order: bool = False, levels: int = LEVELS
) -> Any:
    """Return the combinations of a design, as an array of the unit cube: a row for each, a column for each input.

    Raises:
        UsageError: if SALib is missing.
    """
    need("sensitivity", f"the design {method} needs")
    problem = _problem(inputs)
    if method == "saltelli":
        from SALib.sample import sobol

        return sobol.sample(problem, samples, calc_second_order=second_order, seed=seed)
    if method == "morris":
        from SALib.sample import morris

        return morris.sample(problem, samples, num_levels=levels, seed=seed)
    from SALib.sample import fast_sampler

    return fast_sampler.sample(problem, samples, seed=seed)


@attrs.frozen
class Indices:
    """The indices of the inputs of one outcome, in their order. What a design does not show is None.

    Attributes:
        first: the share of the variance that an input explains by itself.
        total: the same with all its joint effects with other inputs.
        effect: the mean size of the elementary effects, regardless of their signs (mu*).
        mean_effect: the mean of the elementary effects (mu).
        spread: their standard deviation (sigma): of an input that acts alone and in proportion it is 0.
        pairs: the share that two inputs explain together and neither alone, by the places of both.
    """

    first: Sequence[Estimate] | None = None
    total: Sequence[Estimate] | None = None
    effect: Sequence[Estimate] | None = None
    mean_effect: Sequence[float] | None = None
    spread: Sequence[float] | None = None
    pairs: Mapping[tuple[int, int], Estimate] = attrs.field(factory=dict)


def why_not(method: Method, inputs: int, values: Sequence[float], *, second_order: bool = False) -> str:
    """Return why the outcomes of whole blocks show no indices; empty if they do.

    Args:
        method: the design.
        inputs: the number of inputs.
        values: the outcome of each combination of whole blocks, of one at least.
        second_order: whether the design shows pairs of inputs.
    """
    if min(values) == max(values):
        return "it is the same for all combinations"
    if method == "saltelli":
        size = block_of(method, inputs, 1, second_order=second_order)[1]
        independent = [*values[::size], *values[size - 1 :: size]]  # the matrices A and B
        if min(independent) == max(independent):
            return (
                f"it is the same for all {len(independent):,} combinations that are drawn independently of each other,"
                " from which the variance is estimated; take more samples"
            )
    if method == "fast":
        each = len(values) // inputs
        curves = [values[at : at + each] for at in range(0, len(values), each)]
        if still := sum(min(one) == max(one) for one in curves):
            return f"it never changes along the curves of {still:,} of {inputs:,} inputs; take more samples"
    return ""


def indices_of(
    method: Method, inputs: int, values: Sequence[float], rows: Any, *, second_order: bool = False
) -> Indices:
    """Return the indices of an outcome with bootstrapped 95 % intervals.

    Args:
        method: the design.
        inputs: the number of inputs.
        values: the outcome of each combination of whole blocks, of which `why_not` says nothing.
        rows: these combinations, with the place of each value in its range or list, from 0 to 1.
        second_order: whether the design shows pairs of inputs.

    Raises:
        UsageError: if SALib is missing.
    """
    need("sensitivity", "sensitivity indices need")
    import numpy as np

    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):  # what is not finite is no index
        outcomes = np.asarray(values, dtype=float)
        if method == "morris":
            return _elementary(inputs, outcomes, np.asarray(rows, dtype=float))
        return _shares(method, inputs, outcomes, second_order=second_order)


def _elementary(inputs: int, values: Any, rows: Any) -> Indices:
    """Return the statistics of elementary effects: changes of the outcome over changes of the place of one input.

    SALib takes all steps to be of one size, which those of whole numbers and of lists are not. The statistics are its
    own: mu, mu* and sigma as in Campolongo et al., Environmental Modelling & Software 22 (2007).
    """
    import numpy as np

    steps = np.diff(rows.reshape(-1, inputs + 1, inputs), axis=1)
    which = np.abs(steps).argmax(axis=2)  # each step changes one input
    sizes = np.take_along_axis(steps, which[:, :, None], axis=2)[:, :, 0]
    changes = np.diff(values.reshape(-1, inputs + 1), axis=1) / sizes
    effects = np.empty_like(changes)
    np.put_along_axis(effects, which, changes, axis=1)
    count, random = len(effects), np.random.default_rng(_SEED)
    drawn = random.integers(count, size=(_RESAMPLES, count))
    halves = NORMAL * np.abs(effects)[drawn].mean(axis=1).std(axis=0, ddof=1)
    return Indices(
        effect=_estimates(count, np.abs(effects).mean(axis=0), halves),
        mean_effect=[float(one) for one in effects.mean(axis=0)],
        spread=[float(one) for one in effects.std(axis=0, ddof=1)],
    )


def _shares(method: Method, inputs: int, values: Any, *, second_order: bool) -> Indices:
    """Return the shares of the variance."""
    problem = _problem(inputs)
    if method == "fast":
        shares = _fast(problem, values)
        count = len(values) // inputs
    else:
        from SALib.analyze import sobol

        shares = sobol.analyze(problem, values, calc_second_order=second_order, num_resamples=_RESAMPLES, seed=_SEED)
        count = len(values) // block_of(method, inputs, 1, second_order=second_order)[1]
    pairs = {
        (one, other): _estimate(count, shares["S2"][one][other], shares["S2_conf"][one][other])
        for one in range(inputs)
        if second_order
        for other in range(one + 1, inputs)
    }
    return Indices(
        _estimates(count, shares["S1"], shares["S1_conf"]),
        _estimates(count, shares["ST"], shares["ST_conf"]),
        pairs=pairs,
    )


def _fast(problem: JsonObject, values: Any) -> Any:
    """Return the indices of a FAST design, without the trace that SALib leaves: a seed of numpy."""
    import numpy as np
    from SALib.analyze import fast

    before = np.random.get_state()
    try:
        return fast.analyze(problem, values, num_resamples=_RESAMPLES, seed=_SEED)
    finally:
        np.random.set_state(before)


def _estimates(count: int, values: Sequence[Any], halves: Sequence[Any]) -> list[Estimate]:
    return [_estimate(count, value, half) for value, half in zip(values, halves, strict=True)]


def _estimate(count: int, value: Any, half: Any) -> Estimate:
    return Estimate(count, float(value), float(half) if math.isfinite(half) else None)


def _problem(inputs: int) -> dict[str, Json]:
    """Return the inputs as SALib takes them: all in the unit interval."""
    return {"num_vars": inputs, "names": [f"x{place}" for place in range(inputs)], "bounds": [[0.0, 1.0]] * inputs}
