"""The games of docs/games.md beside published figures: its tables are what this prints.

    uv run python -m benchmarks.games axelrod --seeds 10

Each runs with the seeds 1, 2, ...; a `±` is half of the 95 % interval of a mean over seeds.
"""

from statistics import fmean

import sim
from benchmarks.tables import SCENARIOS, Run, Table, measure
from sim.experiments.estimate import Estimate

PUBLISHED = {
    "tit-for-tat": 504.5, "tideman-chieruzzi": 500.4, "nydegger": 485.5, "grofman": 481.9, "shubik": 480.7,
    "stein-rapoport": 477.8, "friedman": 473.4, "davis": 471.8, "graaskamp": 400.7, "downing": 390.6, "feld": 327.6,
    "joss": 304.4, "tullock": 300.5, "name-withheld": 282.2, "random": 276.3,
}  # fmt: skip
"""The mean score of each program over its fifteen opponents (Axelrod 1980, table 2), the winner first."""

HAWKS = {-3.0: 0.25, -1.0: 0.5, -0.5: 2 / 3}
"""By what two hawks get, the share of hawks that cannot be invaded: V / C with V = 2 (Maynard Smith 1982)."""


def scores(matches: int, seed: int) -> list[float]:
    """Return the score of each program of `scenarios/axelrod.yaml`, in the published order."""
    asked = [f"metrics.values.score_{n}=state_of('{name}', 'payoff') * 200" for n, name in enumerate(PUBLISHED)]
    changed = [f"games.tournament.matches={matches}", *asked]
    metrics = sim.run(SCENARIOS / "axelrod.yaml", seed=seed, overrides=changed, recording="samples").metrics
    return [metrics[f"score_{n}"][-1] for n in range(len(PUBLISHED))]


def axelrod(seeds: int, run: Run, matches: int = 5) -> Table:
    """Return the table of the first tournament: scores, and ranks by the mean score."""
    found = list(run(scores, [matches] * seeds, range(1, seeds + 1)))
    means = {name: _estimate([row[place] for row in found]) for place, name in enumerate(PUBLISHED)}
    ranked = sorted(means, key=lambda name: -means[name].mean)
    rows = []
    for rank, (name, score) in enumerate(PUBLISHED.items(), 1):
        places = [sorted(row, reverse=True).index(row[rank - 1]) + 1 for row in found]
        one, span = means[name], f"{min(places)} to {max(places)}"
        shown = f"{one.mean:.1f} ± {one.half or 0:.1f}"
        rows.append((name, str(rank), f"{score:.1f}", str(ranked.index(name) + 1), span, shown))
    heads = ("program", "rank in 1980", "score in 1980", "rank here", "ranks of the seeds", f"score, {seeds} seeds")
    return heads, rows


def hawks(both: float, seed: int) -> float:
    """Return the mean share of hawks of `scenarios/hawk_dove.yaml` after its first fifth, if two hawks get `both`."""
    changed = [f"games.conflict.payoffs.hawk.hawk={both:g}"]
    shares = sim.run(SCENARIOS / "hawk_dove.yaml", seed=seed, overrides=changed, recording="samples").metrics["hawks"]
    kept = [share for share in shares[len(shares) // 5 :] if share is not None]
    return fmean(kept)


def hawk_dove(seeds: int, run: Run) -> Table:
    """Return the table of hawks and doves."""
    jobs = [(both, seed) for both in HAWKS for seed in range(1, seeds + 1)]
    found = iter(list(run(hawks, *zip(*jobs, strict=True))))
    rows = []
    for both, share in HAWKS.items():
        one = _estimate([next(found) for _ in range(seeds)])
        rows.append((f"{both:g}", f"{2 - 2 * both:g}", f"{share:.2f}", f"{one.mean:.3f} ± {one.half or 0:.3f}"))
    return ("two hawks get", "C", "V / C", f"hawks, {seeds} seeds"), rows


def _estimate(values: list[float]) -> Estimate:
    found = Estimate.of(values)
    assert found is not None, "each run has a value"
    return found


def main() -> None:
    """Measure one game, and print its table."""
    measure("benchmarks.games", "Compare a game of the page.", {"axelrod": axelrod, "hawk_dove": hawk_dove})


if __name__ == "__main__":
    main()
