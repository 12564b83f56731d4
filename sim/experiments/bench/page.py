"""The page of a bench: charts, tables and explanations, in one HTML file without a script."""

from collections.abc import Iterator, Sequence
from importlib.resources import files

from sim.base.pages import Markup, document, tag
from sim.experiments.bench.outcomes import outcomes, varied_outcomes
from sim.experiments.bench.page_notes import about, meaning
from sim.experiments.bench.page_parts import bar, colour, figure, how_drawn, section, series, spread, table
from sim.experiments.bench.rows import FIGURES, Bench, BenchRow, bench_of
from sim.experiments.charts import Bar, ChartLine, bands, bars, lines, number
from sim.experiments.estimate import Estimate
from sim.experiments.modes import PARALLEL
from sim.experiments.points import as_number, label_of, short
from sim.experiments.trial import BASES

_CARDS = 8
"""The most charts in a section. The tables have the rest."""
_TABLES = 100


def render(bench: Bench) -> str:
    """Return the page."""
    style = (files("sim.experiments") / "web" / "style.css").read_text(encoding="utf-8")
    own = varied_outcomes(bench)
    varied = len(bench.points) > 1 or len(bench.modes) == 1  # then they are what was asked for
    made = (
        _varied(bench),
        own if varied else None,
        _makespans(bench),
        _flights(bench),
        None if varied else own,
        _figures(bench),
    )
    shown = [part for part in made if part]
    parts = [_header(bench), _tiles(bench), shown, outcomes(bench), meaning(bench), about(bench)]
    body = tag("main", parts)
    return document(f"{bench.plan.name}: bench", body, style=style)


def _header(bench: Bench) -> Markup:
    plan, sessions = bench.plan, bench.sessions
    state = "interrupted" if not bench.complete else "failed" if bench.failures else "finished"
    word = {"failed": f"{len(bench.failures)} failed"}.get(state, state)
    counts = {"mode": len(bench.modes), "combination": len(bench.points), "seed": len(bench.seeds)}
    product = " × ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items())
    seconds = number(sum(session["seconds"] for session in sessions))
    machines = dict.fromkeys(f"{one['machine'].get('processor')}, {one['jobs']} at once" for one in sessions)
    facts = [
        f"{product} = {bench.planned:,} runs in {seconds} s, plan {plan.id}",
        *plan.overrides,
        *machines,
        *(f"{session['began'][:16].replace('T', ' ')} UTC" for session in sessions[:1]),
    ]
    return tag(
        "header",
        tag("div", tag("h1", plan.name), tag("span", word, class_=f"pill {state}"), class_="title"),
        tag("p", "The same scenario and seeds in several modes. ", bench_of(plan).description, class_="lead"),
        tag("p", " · ".join(facts), class_="lead"),
    )


def _tiles(bench: Bench) -> Markup | None:
    """Return the main figures: the speed-up of each mode, and the distance of its outcomes."""
    made = []
    for mode in bench.modes:
        rows = [row for row in bench.rows if row.mode == mode.name]
        speed, off = spread(rows, "speed_up"), spread(rows, "outcome_distance")
        if mode.name != PARALLEL and speed:
            same = all(row.equal == row.compared for row in rows)
            words = "every event the same" if same else f"outcomes differ by {off} %"
            made.append(tag("div", tag("b", f"{speed} ×"), tag("span", f"{mode.name}: {words}"), class_="tile"))
    if not made:
        return None
    return tag("div", tag("p", f"Speed-up over {PARALLEL}:", class_="note"), tag("div", made, class_="tiles"))


def _makespans(bench: Bench) -> Markup | None:
    """Return the makespans by mode; None if there is one mode only, which is compared with nothing."""
    if len(bench.modes) == 1:
        return None
    cards: list[Markup] = []
    for index, point in enumerate(bench.points[:_CARDS]):
        rows = [row for row in bench.of_point(index) if "makespan" in row.figures]
        if not rows:
            continue
        unit, size = _unit(max(row.figures["makespan"].high for row in rows))
        spans = [_bar(row, "makespan", unit, 1 / size) for row in rows]
        cards.append(bars("makespan by mode", spans).card(label_of(point) or "Makespan", _counted(rows, unit)))
        speeds = [_bar(row, "speed_up", "×") for row in rows if "speed_up" in row.figures]
        if speeds and not point:
            chart = bars(f"speed-up over {PARALLEL} by mode", speeds, mark=1, marked=PARALLEL)
            cards.append(chart.card("Speed-up", "makespan of tick-parallel divided by that of the mode, seed by seed"))
        if not point and rows[0].basis == "wall":
            chart = bars("CPU time by mode", [_bar(row, "cpu_seconds", "s") for row in rows])
            cards.append(chart.card("CPU time", "varies less than real time, s"))
    note = how_drawn(bench.rows) + _rest(len(bench.points))
    return section("Makespan", note, tag("div", cards, class_="cards wide")) if cards else None


def _bar(row: BenchRow, name: str, unit: str, factor: float = 1) -> Bar:
    value = row.figures[name]
    scaled = Estimate(value.n, value.mean * factor, None if value.half is None else value.half * factor)
    return bar(row.mode, row.mode, scaled, [one * factor for one in row.singles.get(name, ())], unit)


def _counted(rows: Sequence[BenchRow], unit: str) -> str:
    kinds = dict.fromkeys(BASES[row.basis] for row in rows)
    return f"{' and '.join(kinds)}, {unit}" + (": not comparable with each other" if len(kinds) > 1 else "")


def _unit(seconds: float) -> tuple[str, float]:
    return next((pair for pair in (("h", 3600.0), ("min", 60.0)) if seconds >= 2 * pair[1]), ("s", 1.0))


def _varied(bench: Bench) -> Markup | None:
    """Return the speed-ups by varied value: a table, and line charts over each key with numeric values."""
    if not bench.points[0]:
        return None
    cards = [chart for key in bench.points[0] for chart in _over(bench, key)]
    note = f"makespan of {PARALLEL} divided by that of the mode, seed by seed; {how_drawn(bench.rows)}"
    speeds, oracle = _overview(bench, "speed_up", " ×"), _overview(bench, "of_oracle", " %")
    if speeds is None and oracle is None and not cards:
        return None  # tick-parallel was not run
    return section(
        f"Speed-up over {PARALLEL}",
        note + _rest(len(cards)),
        speeds,
        [tag("h3", "Percent of the oracle"), oracle] if oracle else None,
        tag("div", cards[:_CARDS], class_="cards wide"),
    )


def _overview(bench: Bench, name: str, unit: str) -> Markup | None:
    """Return a table of one figure: one line per combination, one column per mode."""
    modes = [
        mode.name for mode in bench.modes if any(row.mode == mode.name and name in row.figures for row in bench.rows)
    ]
    shown = []
    for index, point in enumerate(bench.points[:_TABLES]):
        figures_by_mode = {row.mode: row.figures for row in bench.of_point(index)}
        cells = [figure(figures_by_mode.get(mode, {}).get(name), unit) for mode in modes]
        shown.append([", ".join(point.values()), *cells])
    keys = ", ".join(short(key, bench.points[0]) for key in bench.points[0])
    return table([keys, *modes], shown) if modes else None


def _over(bench: Bench, key: str) -> Iterator[Markup]:
    """Yield a chart over one key for each combination of the other keys."""
    points = bench.points
    places = [as_number(point[key]) for point in points]
    if None in places or len(set(places)) < 2:
        return
    others = [{name: value for name, value in point.items() if name != key} for point in points]
    name = short(key, points[0])
    for other in {label_of(one): one for one in others}.values():
        here = {index for index, one in enumerate(others) if one == other}
        curves = []
        for mode in bench.modes:
            rows = [row for row in bench.rows if row.mode == mode.name and row.point in here]
            timed = sorted((places[row.point] or 0.0, row.point, row) for row in rows if "speed_up" in row.figures)
            if timed and mode.name != PARALLEL:
                values = [(at, row.figures["speed_up"]) for at, _, row in timed]
                singles = [[(at, one) for one in row.singles.get("speed_up", ())] for at, _, row in timed]
                curves.append(series(mode.name, values, singles))
        if curves:
            yield lines("speed-up", curves, name, mark=1).card(f"over {name}", label_of(other))


def _flights(bench: Bench) -> Markup | None:
    cards: list[Markup] = []
    for index, point in enumerate(bench.points):
        rows = [row for row in bench.of_point(index) if row.concurrency]
        if rows and len(cards) < _CARDS:
            end = max(_end(row) for row in rows)
            unit, size = _unit(end)
            curves = [ChartLine(row.mode, colour(row.mode), _steps(row, size)) for row in rows]
            chart = bands("calls in flight over time", curves, end / size, unit)
            cards.append(chart.card(label_of(point) or "Calls in flight", _counted(rows, unit)))
    if not cards:
        return None
    note = "calls of language models in flight, for one seed" + _rest(len(bench.points))
    return section("Calls in flight", note, tag("div", cards, class_="cards wide"))


def _steps(row: BenchRow, size: float) -> list[tuple[float, Estimate]]:
    """Return the calls in flight over time, with 0 after the last part."""
    return [(at / size, Estimate(1, calls, None)) for at, calls in (*row.concurrency, (_end(row), 0.0))]


def _end(row: BenchRow) -> float:
    """Return the end of the last part of the time."""
    first, last = row.concurrency[0][0], row.concurrency[-1][0]
    return last + (last - first) / max(1, len(row.concurrency) - 1)


def _figures(bench: Bench) -> Markup | None:
    """Return a table for each combination: one line per figure, one column per mode."""
    tables = []
    for index, point in enumerate(bench.points[:_TABLES]):
        rows = [row for row in bench.of_point(index) if row.measured]
        if not rows:
            continue
        lines_ = [
            [_heading(name), *(figure(row.figures.get(name)) for row in rows), tag("span", about_.says, class_="note")]
            for name, about_ in FIGURES.items()
            if any(name in row.figures for row in rows)
        ]
        equal = "Number of seeds for which all events and the final state are equal to those of tick-parallel."
        lines_.append(["same hash", *map(_equal, rows), tag("span", equal, class_="note")])
        shown = table(["", *(row.mode for row in rows), ""], lines_)
        tables.append(tag("details", tag("summary", label_of(point)), shown) if point else shown)
    if not tables:
        return None
    note = "mean over seeds, ± half the width of its 95 % interval (Student)"
    return section("All figures", note, tag("div", tables, class_="dense"))


def _heading(name: str) -> str:
    return f"{FIGURES[name].heading} {FIGURES[name].unit}".strip()


def _equal(row: BenchRow) -> str | None:
    return f"{row.equal} of {row.compared}" if row.compared else None


def _rest(count: int) -> str:
    return f"; the first {_CARDS} of {count:,} are shown" if count > _CARDS else ""
