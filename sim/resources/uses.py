"""What is known of rate limits: what happened to each so far, and how much of it is used at this moment."""

from collections.abc import Iterable
from typing import Literal

import attrs

from sim.resources.windows import Window

Scope = Literal["agent", "group", "total"]
"""For whom a rate counts: each agent, each group, or all together."""


@attrs.frozen
class RateStatistics:
    """What happened to one resource so far.

    Attributes:
        granted: times that units were taken.
        refused: times that units were asked for and not there.
        waited: times that somebody had to wait.
        overspent: units beyond what had been reserved.
    """

    granted: int = 0
    refused: int = 0
    waited: int = 0
    overspent: int = 0


@attrs.frozen
class RateUse:
    """How much of one resource counts now in one scope.

    Attributes:
        resource, scope: of what, and for whom.
        used: units, in all windows of the scope.
        limit: units that fit into all of these windows.
        fullest: the share of its limit that is used of the fullest of them.
    """

    resource: str
    scope: Scope
    used: int
    limit: int
    fullest: float


def uses(windows: Iterable[tuple[str, Scope, Window]], now: int) -> list[RateUse]:
    """Sum up windows, each given with its resource and its scope."""
    sums: dict[tuple[str, Scope], tuple[int, int, float]] = {}
    for resource, scope, window in windows:
        used, limit = window.count(now), window.limit
        before = sums.get((resource, scope), (0, 0, 0.0))
        share = used / limit if limit else float(used > 0)
        sums[resource, scope] = (used + before[0], limit + before[1], max(share, before[2]))
    return [RateUse(resource, scope, *found) for (resource, scope), found in sums.items()]
