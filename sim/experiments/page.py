"""The page of an experiment: charts and tables of its outcomes, in one HTML file without a script."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from sim.base.pages import Markup, document, tag
from sim.experiments.charts import number, written
from sim.experiments.estimate import FEW
from sim.experiments.experiment import PointEstimates, differences, reach, singles_of
from sim.experiments.figures import band_drawing, difference_drawing, outcome_drawings, reach_drawing
from sim.experiments.page_notes import about, head
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.experiments.results import Results
from sim.experiments.score_tables import Table
from sim.experiments.series import Band, bands, difference_bands, metrics_of, thinning, trials_of
from sim.kernel import to_ns, to_text

_CARDS, _LINES, _AGENTS, _METRICS = 40, 500, 20, 8
_FOLDED = 50
"""The most agents of a table that is open."""
_FEW = "Of fewer than five seeds, each is a point, and the line is their mean."


def render(results: Results, estimates: Sequence[PointEstimates], table: str, first: Markup | None = None) -> str:
    """Return the page.

    Args:
        results: the results.
        estimates: the outcomes by combination.
        table: the name of the file with the table, which is beside the page.
        first: what it shows before the outcomes.
    """
    plan = results.plan
    names = list(dict.fromkeys(name for row in estimates for name in row.outcomes))
    said = _said(results, names)
    note = "mean over seeds, ± half the width of its 95 % interval (Student)"
    heading = "All arms" if plan.arms else "All combinations"
    every = tag("section", tag("h2", heading), tag("p", note, class_="note"), _table(estimates, names, plan))
    parts = [
        head(results, estimates, names, table),
        first,
        _differences(results, said) if plan.compared_with is not None else None,
        _outcomes(results, estimates, said),
        _over_time(results),
        every,
        _reach(results) if plan.arms else None,
        _without_value(results),
        _problems(results),
    ]
    main = tag("main", parts)
    return document(f"{plan.name}: {'arms' if plan.arms else plan.verb}", main, style=page_style())


def _said(results: Results, names: Sequence[str]) -> Mapping[str, str]:
    """Return what each outcome is, by name."""
    recorded, metrics = {*results.names()}, {*results.metrics()}
    return {name: about(results.plan, name, recorded, metrics) for name in names}


def _outcomes(results: Results, estimates: Sequence[PointEstimates], said: Mapping[str, str]) -> Markup | None:
    """Return a chart of each outcome, with what it is."""
    few = any(one.n < FEW for row in estimates for one in row.outcomes.values())
    singles, shown = singles_of(results) if few else {}, results.plan.shown
    cards = [
        drawing.card(shown(name), note, said[name])
        for name in said
        for note, drawing in outcome_drawings(estimates, name, singles.get(name))
    ]
    if not cards:
        return None
    note = tag("p", _FEW, class_="note") if singles else None
    return tag("section", tag("h2", "Outcomes"), note, tag("div", cards[:_CARDS], class_="cards wide"))


def page_style() -> str:
    """Return the style of the page."""
    return (files("sim.experiments") / "web" / "style.css").read_text(encoding="utf-8")


def _differences(results: Results, said: Mapping[str, str]) -> Markup:
    """Return the differences from the baseline: a chart for each outcome, and a table."""
    compared, what = differences(results), "arm" if results.plan.arms else "combination"
    names = dict.fromkeys(one.outcome for one in compared if one.changed)
    singles = singles_of(results, differences=True) if any(one.difference.n < FEW for one in compared) else {}
    cards = [
        difference_drawing(compared, name, singles.get(name)).card(
            results.plan.shown(name), f"{what} minus baseline", said.get(name, "")
        )
        for name in names
    ]
    headings = [what, "outcome", "seeds", "baseline", "difference", "least effect", "seeds that differ"]
    lines = [
        [
            one.arm,
            one.outcome,
            str(one.difference.n),
            written(one.baseline),
            written(one.difference),
            "" if one.least_effect is None else number(one.least_effect),
            str(one.changed),
        ]
        for one in compared
    ]
    note = (
        f"Mean over seeds of {what} minus baseline, with common random numbers, ± half the width of its 95 % interval. "
        "The least effect is the difference that 80 of 100 experiments of this size would show."
        f"{f' {_FEW}' if singles else ''}"
    )
    start = results.plan.compared_with
    named = "" if results.plan.arms or start is None else f", {results.plan.label(start)}"
    return tag(
        "section",
        tag("h2", f"Differences from the baseline{named}"),
        tag("p", note, class_="note"),
        tag("div", cards[:_CARDS], class_="cards wide"),
        rows_table(headings, lines, 2),
    )


def _over_time(results: Results) -> Markup | None:
    """Return the metrics that matter over time: means over seeds in their 95 % bands, and of arms the differences."""
    plan, trials = results.plan, trials_of(results)
    if not trials:
        return None
    metrics = metrics_of(plan, trials)
    shown = metrics[:_METRICS]
    cards, few = [], False
    for all_bands, signed in ((difference_bands(plan, trials, shown), True), (bands(plan, trials, shown), False)):
        own = list(all_bands)
        if own and all(len(band.moments) == 1 for band in own):
            continue  # nothing but the end was sampled
        names = dict.fromkeys(band.metric for band in own)
        few = few or any(band.singles for band in own)
        note = f"{'arm' if plan.arms else 'combination'} minus baseline" if signed else ""
        cards += [band_drawing(plan, own, name, signed=signed).card(plan.shown(name), note) for name in names]
    if not cards:
        return None
    fewest, most = _seeds_over_time(bands(plan, trials, shown))
    notes = [
        "Mean over seeds at each sampled time, in its 95 % band (Student, for each time by itself).",
        "Fewer than five seeds have a thin line each, and no band." if few else "",
        f"Means are over {fewest} to {most} seeds, others have no value then; drawn is what at least half of them have."
        if fewest < most
        else "",
        f"The first {len(shown)} of {len(metrics)} metrics are shown." if len(metrics) > len(shown) else "",
        thinning(trials),
    ]
    return tag(
        "section",
        tag("h2", "Over time"),
        tag("p", " ".join(filter(None, notes)), class_="note"),
        tag("div", cards, class_="cards wide"),
    )


def _seeds_over_time(bands: Iterable[Band]) -> tuple[int, int]:
    """Return over how many seeds the means are, at least and at most."""
    counts = [estimate.n for band in bands for _, estimate in band.moments]
    return min(counts, default=0), max(counts, default=0)


def _reach(results: Results) -> Markup | None:
    """Return which agents the arms reached, and when: lines over time, and a table."""
    arms = [one for one in reach(results) if one.agents]
    if not arms:
        return tag("section", tag("h2", "Agents reached"), tag("p", "No arm reached any agent.", class_="note"))
    lines = [
        [arm.arm, one.agent, f"{len(one.times)} of {arm.count.n}", to_text(to_ns(one.median))]
        for arm in arms
        for one in arm.agents[:_AGENTS]
    ]
    note = (
        "An agent is reached when its events begin to differ from those of the baseline with the same seed, as long as "
        "both runs last. The chart has the mean number of reached agents, the table up to "
        f"{_AGENTS} agents of each arm."
    )
    return tag(
        "section",
        tag("h2", "Agents reached"),
        tag("p", note, class_="note"),
        tag("div", tag("div", reach_drawing(arms).html()), class_="cards wide"),
        folded(rows_table(["arm", "agent", "seeds", "median time"], lines, 2), len(lines)),
    )


def folded(table: Markup, count: int) -> Markup:
    """Return a table of agents, closed if it is long."""
    return tag("details", tag("summary", f"{count:,} agents"), table) if count > _FOLDED else table


def rows_table(headings: Sequence[str], lines: Sequence[Sequence[str]], names: int) -> Markup:
    """Return a table. Its first `names` columns are text, the others numbers."""
    kinds = [None if column < names else "n" for column in range(len(headings))]
    top = tag("tr", [tag("th", one, class_=kind) for one, kind in zip(headings, kinds, strict=True)])
    body = [
        tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(line, kinds, strict=True)])
        for line in lines[:_LINES]
    ]
    more = len(lines) - _LINES
    rest = tag("p", f"{more:,} more are in results.db", class_="note") if more > 0 else None
    return tag("div", tag("table", tag("thead", top), tag("tbody", body)), rest, class_="scroll")


def table_of(table: Table, names: int) -> Markup:
    """Return a table that a terminal has, too. Its first `names` columns are text, the others numbers."""
    headings, rows = table
    return rows_table(headings, [["" if cell is None else str(cell) for cell in row] for row in rows], names)


def _table(rows: Sequence[PointEstimates], names: Sequence[str], plan: Plan) -> Markup:
    keys = [] if plan.arms else list(plan.points[0])
    headings = [*(["arm"] if plan.arms else []), *(short(key, plan.points[0]) for key in keys), "seeds", *names]
    lines = []
    for row in rows:
        seeds = f"{row.seeds}" + (f" ({row.failed} failed)" if row.failed else "")
        cells = [*([row.label] if plan.arms else []), *(row.point[key] for key in keys), seeds]
        lines.append([*cells, *(written(row.outcomes[name]) if name in row.outcomes else "" for name in names)])
    return rows_table(headings, lines, 1 if plan.arms else 0)


def _without_value(results: Results) -> Markup | None:
    """Return how many trials the estimates leave out, because an outcome has no value there."""
    counts = results.without_value()
    lines = [
        f"{name} has no value in {count} of {of} trials, which its estimates leave out." for name, count, of in counts
    ]
    return tag("section", tag("ul", [tag("li", line) for line in lines])) if lines else None


def _problems(results: Results) -> Markup | None:
    problems = results.problems()
    if not problems:
        return None
    said = dict.fromkeys(f"{results.plan.label(point)}, seed {seed}: {why}" for point, seed, why in problems)
    return tag(
        "section",
        tag("h2", f"{len(problems)} trials failed"),
        tag("ul", [tag("li", one, class_="error") for one in list(said)[:50]]),
    )
