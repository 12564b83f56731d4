"""The page of a sweep: charts and tables of its outcomes, in one HTML file without a script."""

from collections.abc import Iterator, Sequence
from importlib.resources import files

from sim.experiments.charts import Bar, Series, bars, half, lines, number
from sim.experiments.estimate import Estimate
from sim.experiments.points import as_number, label_of, short
from sim.experiments.results import Results
from sim.experiments.sweep import SweepRow
from sim.pages import Markup, document, tag
from sim.pages.markup import Child

_CARDS, _BARS, _LINES = 40, 24, 500
_COLOURS = tuple(f"var(--c{index})" for index in (0, 1, 2, 3, 5, 12, 4, 6, 7, 8, 9, 10, 11))


def render(results: Results, rows: Sequence[SweepRow]) -> str:
    """Return the page."""
    plan = results.plan
    style = (files("sim.experiments") / "web" / "style.css").read_text(encoding="utf-8")
    names = list(dict.fromkeys(name for row in rows for name in row.outcomes))
    cards = [one for name in names for one in _charts(rows, name)]
    product = f"{len(plan.points)} combinations × {plan.seeds[1]} seeds"
    head = tag(
        "header",
        tag("h1", plan.name),
        tag("p", f"{product}, plan {plan.id}: {'; '.join(plan.vary) or 'nothing is varied'}", class_="lead"),
    )
    shown = tag("section", tag("h2", "Outcomes"), tag("div", cards[:_CARDS], class_="cards wide")) if cards else None
    note = "mean over seeds, ± half the width of its 95 % interval (Student)"
    table = tag("section", tag("h2", "All combinations"), tag("p", note, class_="note"), _table(rows, names))
    return document(f"{plan.name}: sweep", tag("main", head, shown, table, _problems(results)), style=style)


def _charts(rows: Sequence[SweepRow], name: str) -> Iterator[Markup]:
    """Yield the charts of an outcome: over each key with numbers, else as bars."""
    told = [row for row in rows if name in row.outcomes]
    keys = [key for key in (rows[0].point if rows else ()) if _is_axis(told, key)]
    if not keys:
        given = [
            Bar(label_of(row.point) or "all seeds", _COLOURS[0], row.outcomes[name], _written(row.outcomes[name]))
            for row in told[:_BARS]
        ]
        if given:
            yield _card(name, "", bars(f"{name} by combination", given))
        return
    for key in keys:
        groups: dict[str, list[tuple[float, Estimate]]] = {}
        for row in told:
            rest = label_of({other: value for other, value in row.point.items() if other != key})
            groups.setdefault(rest, []).append((as_number(row.point[key]) or 0.0, row.outcomes[name]))
        if len(groups) > len(_COLOURS):  # too many lines: the points alone
            groups = {"": [pair for pairs in groups.values() for pair in pairs]}
        series = [
            Series(rest or name, _COLOURS[index], sorted(pairs, key=lambda pair: pair[0]))
            for index, (rest, pairs) in enumerate(groups.items())
        ]
        axis = short(key, rows[0].point)
        yield _card(name, f"over {axis}", lines(name, series, axis))


def _is_axis(rows: Sequence[SweepRow], key: str) -> bool:
    places = {as_number(row.point[key]) for row in rows}
    return None not in places and len(places) > 1


def _card(heading: str, note: str, *body: Child) -> Markup:
    return tag("div", tag("h3", heading, " ", tag("span", note, class_="note")), body)


def _written(value: Estimate) -> str:
    return f"{number(value.mean)} {half(value)}"


def _table(rows: Sequence[SweepRow], names: Sequence[str]) -> Markup:
    keys = list(rows[0].point) if rows else []
    headings = [*(short(key, rows[0].point) for key in keys), "seeds", *names]
    head = tag("tr", [tag("th", one, class_="n") for one in headings])
    body = []
    for row in rows[:_LINES]:
        seeds = f"{row.seeds}" + (f" ({row.failed} failed)" if row.failed else "")
        cells = [*(row.point[key] for key in keys), seeds]
        cells += [_written(row.outcomes[name]) if name in row.outcomes else "" for name in names]
        body.append(tag("tr", [tag("td", cell, class_="n") for cell in cells]))
    rest = tag("p", f"{len(rows) - _LINES:,} more are in sweep.csv", class_="note") if len(rows) > _LINES else None
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), rest, class_="scroll")


def _problems(results: Results) -> Markup | None:
    found = results.problems()
    if not found:
        return None
    said = dict.fromkeys(f"{label_of(results.plan.points[point])}, seed {seed}: {why}" for point, seed, why in found)
    return tag(
        "section",
        tag("h2", f"{len(found)} trials failed"),
        tag("ul", [tag("li", one, class_="error") for one in list(said)[:50]]),
    )
