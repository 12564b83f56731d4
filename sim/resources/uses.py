"""Statistics of rate limits: counts since the start, and the present use."""

from collections.abc import Iterable
from typing import Literal

import attrs

from sim.resources.windows import Window

Scope = Literal["agent", "group", "total"]
"""What a rate applies to: each agent, each group, or all agents in total."""


@attrs.frozen
class RateStatistics:
    """Counts of one resource since the start.

    Attributes:
        granted: the number of requests that got their units.
        refused: the number of requests that did not.
        waited: the number of requests that had to wait.
        overspent: the number of units that were used beyond reservations.
    """

    granted: int = 0
    refused: int = 0
    waited: int = 0
    overspent: int = 0


@attrs.frozen
class RateUse:
    """The present use of one resource in one scope.

    Attributes:
        resource, scope: the resource and the scope.
        used: the number of units that count, over all windows of the scope.
        limit: the number of units that fit into all of these windows.
        fullest: the largest share of its limit that one of these windows uses (1.0 is all of it).
    """

    resource: str
    scope: Scope
    used: int
    limit: int
    fullest: float


def uses(windows: Iterable[tuple[str, Scope, Window]], now: int) -> list[RateUse]:
    """Sum up windows by resource and scope. `now` is in nanoseconds."""
    sums: dict[tuple[str, Scope], tuple[int, int, float]] = {}
    for resource, scope, window in windows:
        used, limit = window.count(now), window.limit
        before = sums.get((resource, scope), (0, 0, 0.0))
        share = used / limit if limit else float(used > 0)
        sums[resource, scope] = (used + before[0], limit + before[1], max(share, before[2]))
    return [RateUse(resource, scope, *figures) for (resource, scope), figures in sums.items()]
