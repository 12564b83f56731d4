"""The juries of docs/jury.md, and the subjects of Asch, beside published figures: its tables are what this prints.

    uv run python -m benchmarks.juries jury --seeds 400

Each runs with the seeds 1, 2, ...; a `±` is half of the 95 % interval of a mean over seeds, and a share of juries has
its 95 % interval (Wilson).
"""

from collections.abc import Sequence

import attrs

import sim
from benchmarks.tables import SCENARIOS, Run, Table, measure
from sim.experiments.attribution.significance import wilson
from sim.experiments.estimate import Estimate

FIRST = {
    (0, 0): (26, (100, 0, 0)),
    (1, 5): (41, (91, 7, 2)),
    (6, 6): (10, (50, 0, 50)),
    (7, 11): (105, (5, 9, 86)),
    (12, 12): (43, (0, 0, 100)),
}
"""By votes for guilty in the first ballot, from and to: how many juries, and of 100 how many acquitted, were hung and
convicted (Kalven and Zeisel 1966, p. 488).
"""

MAJORITIES = sum(count for (low, _), (count, _) in FIRST.items() if low != 6)
"""The published juries with a majority in the first ballot."""

VERDICTS = ("acquitted", "hung", "convicted")

ALONE = {1: 3.6, 2: 13.6, 3: 31.8, 4: 35.1, 6: 35.2, 7: 37.1, 9: 35.1, 15: 31.2}
"""By how many others are wrong, the conforming answers in critical trials in per cent (Asch 1955)."""

PARTNER = 36.8 / 4
"""The same if one of the others names the right line: a quarter of 36.8 (Asch 1955)."""


@attrs.frozen
class Ended:
    """How a jury ended: its votes for guilty in the first ballot, and 'acquitted', 'hung' or 'convicted'."""

    first: int
    verdict: str


def jury(seed: int) -> Ended:
    """Return how one jury of `scenarios/jury.yaml` ends."""
    found = sim.run(SCENARIOS / "jury.yaml", seed=seed, recording="samples").metrics
    (verdict,) = [name for name in VERDICTS if found[name][-1]]
    return Ended(int(found["first"][-1]), verdict)


def juries(seeds: int, run: Run) -> Table:
    """Return the table of juries: how they end, by their first ballots."""
    found = list(run(jury, range(1, seeds + 1)))
    rows = []
    for (low, high), (count, published) in FIRST.items():
        own = [one.verdict for one in found if low <= one.first <= high]
        shown = [share(own.count(verdict), len(own)) for verdict in VERDICTS]
        first = f"{low}" if low == high else f"{low} to {high}"
        rows.append((first, str(count), *map(str, published), str(len(own)), *shown))
    for name, part, ours in zip(("the majority", "hung", "the minority"), _of_all(), _ends(found), strict=True):
        rows.append((name, str(MAJORITIES), "", f"{part:.1f}", "", f"{ours[1]}", "", share(*ours), ""))
    heads = ["guilty at first", "juries, 1966", *[f"{one}, %" for one in VERDICTS]]
    return (*heads, f"juries of {seeds} here", *[f"{one} here, %" for one in VERDICTS]), rows


def _of_all() -> tuple[float, float, float]:
    """Return how many per cent of the published juries with a majority kept it, were hung, and lost it."""
    kept = hung = lost = 0.0
    for (low, _), (count, (acquitted, split, convicted)) in FIRST.items():
        if low != 6:
            kept += count * (convicted if low > 6 else acquitted)
            hung += count * split
            lost += count * (acquitted if low > 6 else convicted)
    return kept / MAJORITIES, hung / MAJORITIES, lost / MAJORITIES


def _ends(found: Sequence[Ended]) -> list[tuple[int, int]]:
    """Return the same of ours, each with the number of juries with a majority."""
    split = [one for one in found if one.first != 6]
    kept = sum(one.verdict == ("convicted" if one.first > 6 else "acquitted") for one in split)
    hung = sum(one.verdict == "hung" for one in split)
    return [(kept, len(split)), (hung, len(split)), (len(split) - kept - hung, len(split))]


def share(count: int, of: int) -> str:
    """Return a share in per cent with its 95 % interval (Wilson); empty if there is nothing to share."""
    if not of:
        return ""
    low, high = wilson(count, of)
    return f"{100 * count / of:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def subjects(others: int, partner: int, seed: int) -> tuple[float, float]:
    """Return the conforming answers of `scenarios/asch.yaml`, and the subjects that never conformed, in per cent."""
    changed = [f"agents.subject.state.others={others}", f"agents.subject.state.partner={partner}"]
    found = sim.run(SCENARIOS / "asch.yaml", seed=seed, overrides=changed, recording="samples").metrics
    return 100 * found["conforming"][-1], 100 * found["independent"][-1]


def asch(seeds: int, run: Run) -> Table:
    """Return the table of Asch's subjects: alone among others, and with a partner."""
    cases = [*((others, 0) for others in ALONE), (7, 1)]
    jobs = [(*case, seed) for case in cases for seed in range(1, seeds + 1)]
    found = iter(list(run(subjects, *zip(*jobs, strict=True))))
    rows = []
    for others, partner in cases:
        own = [next(found) for _ in range(seeds)]
        (follow, never) = (Estimate.of([one[place] for one in own]) for place in (0, 1))
        assert follow is not None and never is not None, "each run has values"  # noqa: PT018
        published = f"{ALONE[others]:.1f}" if not partner else f"{PARTNER:.1f}"
        who = f"{others}" if not partner else f"{others}, one of them right"
        shown = (f"{one.mean:.1f} ± {one.half or 0:.1f}" for one in (follow, never))
        rows.append((who, published, *shown))
    return ("others", "conforming in 1955, %", f"conforming, {seeds} seeds, %", "never conforming, %"), rows


def main() -> None:
    """Measure one scenario, and print its table."""
    measure("benchmarks.juries", "Compare a group of the page.", {"jury": juries, "asch": asch})


if __name__ == "__main__":
    main()
