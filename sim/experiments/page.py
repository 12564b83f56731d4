"""The page of an experiment: charts and tables of its outcomes, in one HTML file without a script."""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from sim.base.pages import Markup, document, tag
from sim.experiments.charts import number, written
from sim.experiments.experiment import PointEstimates, differences, reach
from sim.experiments.figures import band_drawing, difference_drawing, outcome_drawings, reach_drawing
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.experiments.results import Results
from sim.experiments.series import Band, bands, difference_bands, metrics_of, thinning, trials_of
from sim.kernel import to_ns, to_text

_CARDS, _LINES, _AGENTS, _METRICS = 40, 500, 20, 8


def render(results: Results, estimates: Sequence[PointEstimates], first: Markup | None = None) -> str:
    """Return the page.

    Args:
        results: the results.
        estimates: the outcomes by combination.
        first: what it shows before the outcomes.
    """
    plan = results.plan
    names = list(dict.fromkeys(name for row in estimates for name in row.outcomes))
    cards = [drawing.card(name, note) for name in names for note, drawing in outcome_drawings(estimates, name)]
    shown = tag("section", tag("h2", "Outcomes"), tag("div", cards[:_CARDS], class_="cards wide")) if cards else None
    note = "mean over seeds, ± half the width of its 95 % interval (Student)"
    heading = "All arms" if plan.arms else "All combinations"
    table = tag("section", tag("h2", heading), tag("p", note, class_="note"), _table(estimates, names, plan))
    compared = (_differences(results), _reach(results) if plan.arms else None) if plan.compared_with is not None else ()
    over_time = _over_time(results)
    parts = [_head(plan), first, compared, shown, over_time, table, _without_value(results), _problems(results)]
    main = tag("main", parts)
    return document(f"{plan.name}: {'arms' if plan.arms else plan.verb}", main, style=page_style())


def page_style() -> str:
    """Return the style of the page."""
    return (files("sim.experiments") / "web" / "style.css").read_text(encoding="utf-8")


def _head(plan: Plan) -> Markup:
    past = plan.past
    what = f"{len(plan.points)} {'combinations' if past is None else 'arms'}, seeds {plan.seeds_text}; plan {plan.id}"
    origin = "" if past is None else f", from {past.at} of the run {Path(past.run).name}"
    listed = ("listed combinations",) if plan.design == "list" else ()
    varied = "; ".join((*listed, *plan.vary)) or "nothing is varied"
    return tag("header", tag("h1", plan.name), tag("p", f"{what}{origin}: {varied}", class_="lead"))


def _differences(results: Results) -> Markup:
    """Return the differences from the baseline: a chart for each outcome, and a table."""
    found, what = differences(results), "arm" if results.plan.arms else "combination"
    names = dict.fromkeys(one.outcome for one in found if one.changed)
    cards = [difference_drawing(found, name).card(name, f"{what} minus baseline") for name in names]
    headings = [what, "outcome", "seeds", "baseline", "difference", "least effect", "seeds that differ"]
    lines = [
        [one.arm, one.outcome, str(one.difference.n), written(one.baseline), written(one.difference),
         "" if one.least_effect is None else number(one.least_effect), str(one.changed)]
        for one in found
    ]  # fmt: skip
    note = (
        f"Mean over seeds of {what} minus baseline, with common random numbers, ± half the width of its 95 % interval. "
        "The least effect is the difference that 80 of 100 experiments of this size would show."
    )
    start = results.plan.compared_with
    named = "" if results.plan.arms or start is None else f", {results.plan.label(start)}"
    return tag(
        "section", tag("h2", f"Differences from the baseline{named}"), tag("p", note, class_="note"),
        tag("div", cards[:_CARDS], class_="cards wide"), rows_table(headings, lines, 2),
    )  # fmt: skip


def _over_time(results: Results) -> Markup | None:
    """Return the metrics that matter over time: means over seeds in their 95 % bands, and of arms the differences."""
    plan, trials = results.plan, trials_of(results)
    if not trials:
        return None
    metrics = metrics_of(plan, trials)
    shown = metrics[:_METRICS]
    cards = []
    for found, signed in ((difference_bands(plan, trials, shown), True), (bands(plan, trials, shown), False)):
        own = list(found)
        if own and all(len(band.moments) == 1 for band in own):
            continue  # nothing but the end was sampled
        names = dict.fromkeys(band.metric for band in own)
        note = f"{'arm' if plan.arms else 'combination'} minus baseline" if signed else ""
        cards += [band_drawing(plan, own, name, signed=signed).card(name, note) for name in names]
    if not cards:
        return None
    fewest, most = _seeds_over_time(bands(plan, trials, shown))
    told = [
        "Mean over seeds at each sampled time, in its 95 % band (Student, for each time by itself).",
        f"Means are over {fewest} to {most} seeds, others have no value then; drawn is what at least half of them have."
        if fewest < most
        else "",
        f"The first {len(shown)} of {len(metrics)} metrics are shown." if len(metrics) > len(shown) else "",
        thinning(trials),
    ]
    return tag(
        "section", tag("h2", "Over time"), tag("p", " ".join(filter(None, told)), class_="note"),
        tag("div", cards, class_="cards wide"),
    )  # fmt: skip


def _seeds_over_time(found: Iterable[Band]) -> tuple[int, int]:
    """Return over how many seeds the means are, at least and at most."""
    counts = [estimate.n for band in found for _, estimate in band.moments]
    return min(counts, default=0), max(counts, default=0)


def _reach(results: Results) -> Markup | None:
    """Return which agents the arms reached, and when: lines over time, and a table."""
    found = [one for one in reach(results) if one.agents]
    if not found:
        return tag("section", tag("h2", "Agents reached"), tag("p", "No arm reached any agent.", class_="note"))
    lines = [
        [arm.arm, one.agent, f"{len(one.times)} of {arm.count.n}", to_text(to_ns(one.median))]
        for arm in found
        for one in arm.agents[:_AGENTS]
    ]
    note = (
        "An agent is reached when its events begin to differ from those of the baseline with the same seed, as long as "
        "both runs go on. The chart has the mean number of reached agents, the table up to "
        f"{_AGENTS} agents of each arm."
    )
    return tag(
        "section", tag("h2", "Agents reached"), tag("p", note, class_="note"),
        tag("div", tag("div", reach_drawing(found).html()), class_="cards wide"),
        rows_table(["arm", "agent", "seeds", "median time"], lines, 2),
    )  # fmt: skip


def rows_table(headings: Sequence[str], lines: Sequence[Sequence[str]], names: int) -> Markup:
    """Return a table. Its first `names` columns are text, the others numbers."""
    kinds = [None if column < names else "n" for column in range(len(headings))]
    head = tag("tr", [tag("th", one, class_=kind) for one, kind in zip(headings, kinds, strict=True)])
    body = [
        tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(line, kinds, strict=True)])
        for line in lines[:_LINES]
    ]
    more = len(lines) - _LINES
    rest = tag("p", f"{more:,} more are in results.db", class_="note") if more > 0 else None
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), rest, class_="scroll")


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
    found = results.without_value()
    lines = [
        f"{name} has no value in {count} of {of} trials, which its estimates leave out." for name, count, of in found
    ]
    return tag("section", tag("ul", [tag("li", line) for line in lines])) if lines else None


def _problems(results: Results) -> Markup | None:
    found = results.problems()
    if not found:
        return None
    said = dict.fromkeys(f"{results.plan.label(point)}, seed {seed}: {why}" for point, seed, why in found)
    return tag(
        "section",
        tag("h2", f"{len(found)} trials failed"),
        tag("ul", [tag("li", one, class_="error") for one in list(said)[:50]]),
    )
