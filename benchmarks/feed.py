"""The figures of docs/feed.md: its tables are what this prints.

    uv run python -m benchmarks.feed herd --seeds 20
    uv run python -m benchmarks.feed day

A `±` is half of the 95 % interval of a mean over the seeds 1, 2, ... A day is measured as CPU time of one process.
"""

import time
from typing import Any

import sim
from benchmarks.tables import SCENARIOS, Run, Table, measure
from sim.experiments.estimate import Estimate

ARMS = ("up", "untreated", "down")
PUBLISHED = ("25", "corrected by later votes")
"""What a first like and a first dislike change in the final rating (Muchnik and others 2013, abstract)."""

SIZES = ("scale", "depth", "breadth")
POLICIES = ("followed", "latest", "popular", "interest", "mixed")


def votes(like: str, seed: int) -> list[float]:
    """Return the mean votes of each arm of `scenarios/herd.yaml`, with a probability of a like."""
    changed = [f"feed.reactions.crowd.like={like}"] if like else []
    metrics = sim.run(SCENARIOS / "herd.yaml", seed=seed, overrides=changed, recording="samples").metrics
    return [_last(metrics[arm]) for arm in ARMS]


def herd(seeds: int, run: Run) -> Table:
    """Return the table of the herd effect: with a herd, and without, and what a first vote changes in per cent."""
    rows: list[tuple[str, ...]] = [("Muchnik and others 2013", "", "", "", *PUBLISHED)]
    for name, like in (("as shipped", ""), ("likes follow no score", "0.05")):
        found = list(run(votes, [like] * seeds, range(1, seeds + 1)))
        means = [_shown([row[place] for row in found]) for place in range(len(ARMS))]
        changes = [_shown([100 * (row[place] / row[1] - 1) for row in found], 1) for place in (0, 2)]
        rows.append((name, *means, *changes))
    return ("likes", *ARMS, "up changes, %", "down changes, %"), rows


def sizes(policy: str, hours: int, seed: int) -> list[float]:
    """Return scale, depth and breadth of the cascade of `scenarios/propagation.yaml` after some hours."""
    result = sim.run(
        SCENARIOS / "propagation.yaml", seed=seed, overrides=[f"feed.policy={policy}"], recording="samples",
        until=f"{hours}h",
    )  # fmt: skip
    return [_last(result.metrics[name]) for name in SIZES]


def propagation(seeds: int, run: Run) -> Table:
    """Return the table of propagation over time."""
    rows = []
    for hours in (3, 6, 12, 24, 48):
        found = list(run(sizes, ["followed"] * seeds, [hours] * seeds, range(1, seeds + 1)))
        rows.append((str(hours), *(_shown([row[place] for row in found], 1) for place in range(len(SIZES)))))
    return ("hours", *SIZES), rows


def users(policy: str, count: int = 10_000) -> dict[str, Any]:
    """Return a scenario of a day in which users without models visit a feed four times on average."""
    feed = {"policy": policy, "follows": {"by": "popular", "each": 10}}
    if policy == "mixed":
        feed["mix"] = {"followed": 2, "popular": 1}
    state = {"interests": "=choice(['art', 'news', 'science', 'sport'])"}
    return {
        "name": "day", "until": "1d", "feed": feed,
        "agents": [{"name": "person", "kind": "feed_user", "count": count, "state": state}],
        "metrics": {"every": "1h", "values": {"exposures": "service('feed', 'exposures')"}},
    }  # fmt: skip


def day(count: int = 10_000) -> Table:
    """Return the table of the CPU seconds of a day with many users, recorded in a run file."""
    rows = []
    for policy in POLICIES:
        begun = time.process_time()
        result = sim.run(users(policy, count), seed=1, out="runs")
        seconds = time.process_time() - begun
        rows.append((policy, f"{seconds:.0f}", f"{_last(result.metrics['exposures']):,.0f}"))
    return ("policy", "CPU seconds", "exposures"), rows


def _last(values: Any) -> float:
    return float(values[-1])


def _shown(values: list[float], digits: int = 2) -> str:
    found = Estimate.of(values)
    assert found is not None, "each run has a value"
    return f"{found.mean:.{digits}f} ± {found.half or 0:.{digits}f}"


def main() -> None:
    """Measure, and print a table."""
    tables = {"propagation": propagation, "herd": herd, "day": lambda seeds, run: day()}
    measure("benchmarks.feed", "Measure a table of the page.", tables, seeds=20)


if __name__ == "__main__":
    main()
