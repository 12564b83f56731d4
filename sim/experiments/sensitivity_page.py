"""The page about the sensitivity of a sweep: bars, scatter and tables of its outcomes, in one file without script."""

from collections.abc import Iterable, Sequence
from typing import Final

from sim.base.pages import Markup, document, tag
from sim.experiments.charts import Bar, Drawing, bars, scatter, written
from sim.experiments.designs import variable
from sim.experiments.estimate import Estimate
from sim.experiments.page import page_style, table_of
from sim.experiments.page_notes import about, made
from sim.experiments.plan import Plan
from sim.experiments.results import Results
from sim.experiments.sensitivity import Sensitivity, chance_text, influences_table, ordered, pairs_table

PAGE: Final = "sensitivity.html"
"""Its name in the folder of the experiment."""

_DOTS: Final = 800
"""The most points of a scatter."""

_BARS: Final = 24
"""The most inputs with bars; the table has all."""

_SHARES: Final = (
    "First order: the share of the variance of the outcome that an input explains by itself. Total: the same with all"
    " its joint effects with other inputs. ± is half the width of a bootstrapped 95 % interval."
)
_NOTES: Final = {
    "saltelli": _SHARES,
    "fast": _SHARES,
    "morris": "Effect (mu*): how much the outcome changes if an input changes over its whole range, mean over steps"
    " without their signs; mean (mu): with their signs; spread (sigma): the standard deviation over steps, which is"
    " large if an input acts differently in different places. ± is half the width of a bootstrapped 95 % interval.",
}


def render_sensitivity(results: Results, sensitivities: Sequence[Sensitivity], alerts: Iterable[str] = ()) -> str:
    """Return the page.

    Args:
        results: the results of the sweep.
        sensitivities: the sensitivity of its outcomes.
        alerts: what is wrong with the record, a red line each.
    """
    plan = results.plan
    lead = f"design {plan.design}, {len(plan.points):,} combinations × {plan.seeds[1]} seeds, plan {plan.id}"
    head = tag(
        "header",
        tag("h1", f"{plan.name}: sensitivity"),
        tag("p", f"{lead}: {'; '.join(plan.vary)}", class_="lead"),
        made(results),
    )
    main = tag(
        "main", head, tag("p", _NOTES[plan.design], class_="note"), [_section(results, one) for one in sensitivities]
    )
    return document(f"{plan.name}: sensitivity", main, style=page_style(), alerts=alerts)


def _section(results: Results, sensitivity: Sensitivity) -> Markup:
    plan = results.plan
    what = about(plan, sensitivity.outcome, results.names(), results.metrics())
    notes = [tag("p", one, class_="note") for one in (what, sensitivity.note, chance_text(sensitivity)) if one]
    cards = [bars_of(sensitivity, what).card(what) for what in _kinds(sensitivity)] if sensitivity.inputs else []
    dots = [drawing.card(f"over {key}", note) for key, note, drawing in _scatters(plan, sensitivity)]
    parts = [
        tag("div", cards, class_="cards wide") if cards else None,
        table_of(influences_table(sensitivity), 1) if sensitivity.inputs else None,
        table_of(pairs_table(sensitivity), 2) if sensitivity.pairs else None,
        tag("div", dots, class_="cards wide") if dots else None,
    ]
    return tag("section", tag("h2", plan.shown(sensitivity.outcome)), notes, parts)


def _kinds(sensitivity: Sensitivity) -> list[str]:
    return ["effect (mu*)"] if sensitivity.inputs[0].effect is not None else ["first order", "total"]


def bars_of(sensitivity: Sensitivity, what: str) -> Drawing:
    """Return the bars of an outcome: of `first order`, `total`, or `effect (mu*)`; the largest inputs first."""
    which = {"first order": "first", "total": "total", "effect (mu*)": "effect"}[what]
    pairs: list[tuple[str, Estimate]] = [(one.key, getattr(one, which)) for one in ordered(sensitivity)[:_BARS]]
    return bars(f"{what} of {sensitivity.outcome}", [Bar(key, "var(--c0)", one, written(one)) for key, one in pairs])


def _scatters(plan: Plan, sensitivity: Sensitivity) -> Iterable[tuple[str, str, Drawing]]:
    """Yield a chart of the outcome over each input, with the name of the input and a note."""
    points = [(plan.points[point], mean) for point, mean in sorted(sensitivity.means.items())]
    if not points:
        return
    count = len(points)
    chosen = points if count <= _DOTS else [points[place * count // _DOTS] for place in range(_DOTS)]
    note = f"{len(chosen):,} of {count:,} combinations, evenly chosen" if len(chosen) < count else ""
    keys = [variable(text).keys[0] for text in plan.vary]
    for key, name in zip(keys, (one.key for one in sensitivity.inputs), strict=False):
        own = [(point[key], mean) for point, mean in chosen]
        yield name, note, scatter(f"{sensitivity.outcome} over {name}", own, name)
