"""The scores of memories: recency, relevance and importance, each from 0 to 1, and their weighted sum."""

from collections.abc import Mapping
from typing import Final

from sim.kinds.generative.settings import Variant

DECAY: Final[Mapping[Variant, float]] = {"paper": 0.995, "code": 0.99}
"""The factor of recency: for each hour in the paper (section 4.1), for each rank in the released code (scratch.py)."""

WEIGHTS: Final[Mapping[Variant, tuple[float, float, float]]] = {"paper": (1.0, 1.0, 1.0), "code": (0.5, 3.0, 2.0)}
"""The weights of recency, relevance and importance: the paper (section 4.1), the released code (retrieve.py)."""

_HOUR_NS = 3600 * 10**9
_DIGITS = 9  # scores are rounded to as many, so that equal memories tie in every process


def recencies(recalled_ns: Mapping[int, int], now_ns: int, variant: Variant) -> dict[int, float]:
    """Return the recency of memories.

    The released code sorts the memories by the time of the last recall and gives the first of them the highest value:
    the one that was recalled longest ago. `code` does the same.

    Args:
        recalled_ns: when each memory was recalled last, or added, in simulated nanoseconds.
        now_ns: the present time.
        variant: of the paper or of the code.
    """
    decay = DECAY[variant]
    if variant == "paper":
        return {id: decay ** ((now_ns - time) / _HOUR_NS) for id, time in recalled_ns.items()}
    order = sorted(recalled_ns, key=lambda id: (recalled_ns[id], id))
    return {id: decay**rank for rank, id in enumerate(order, 1)}


def normalised(values: Mapping[int, float]) -> dict[int, float]:
    """Return values scaled so that the least is 0 and the greatest 1; 0.5 each if they are equal."""
    if not values:
        return {}
    low, high = min(values.values()), max(values.values())
    if high == low:
        return dict.fromkeys(values, 0.5)
    return {id: round((value - low) / (high - low), _DIGITS) for id, value in values.items()}


def ranked(
    recency: Mapping[int, float], relevance: Mapping[int, float], importance: Mapping[int, float], variant: Variant
) -> list[int]:
    """Return the numbers of memories, the highest weighted sum of normalised scores first, of equals the newest.

    Args:
        recency, relevance, importance: the scores by number of the memory; all have the same numbers.
        variant: whose weights.
    """
    parts = [normalised(one) for one in (recency, relevance, importance)]
    weights = WEIGHTS[variant]
    sums = {
        id: round(sum(weight * part[id] for weight, part in zip(weights, parts, strict=True)), _DIGITS)
        for id in recency
    }
    return sorted(sums, key=lambda id: (-sums[id], -id))
