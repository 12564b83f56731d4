"""What the page of a fit shows first: the best candidates, which values agree with the data, and charts of both."""

from collections.abc import Iterator, Sequence
from typing import Final

from sim.base.pages import Markup, tag
from sim.experiments.charts import ChartLine, Drawing, lines, scatter
from sim.experiments.estimate import Estimate
from sim.experiments.fit_tables import FitFindings, best_table, found_by, intervals_table
from sim.experiments.fitting import Fit, TriedCombination, fit_of
from sim.experiments.page import table_of
from sim.experiments.points import short
from sim.experiments.results import Results
from sim.experiments.targets import Target

_DOTS: Final = 800
"""The most candidates of a chart."""

_NOTE: Final = (
    "The loss is that of the mean over seeds; ± is half the width of its 95 % interval (jackknife). Held-out seeds had"
    " no part in the search. A candidate agrees with the data if its loss is one that runs of the best could have, if"
    " one of these were the data. If that is so for the best, those agree too that are not clearly worse. An interval"
    " reaches to the next values that were tried and do not agree."
)


def fit_sections(results: Results) -> Markup:
    """Return the sections of the page of a fit."""
    fitted, fit = found_by(results), Fit.of(results)
    plan = fit_of(results.plan)
    what = f"{plan.sampler}, {len(fit.candidates)} of {plan.candidates} candidates in batches of {plan.batch}"
    early = f", {fitted.ended_early} of which ended early" if fitted.ended_early else ""
    size = tag("p", f"{what}{early}; loss {plan.loss}; {fitted.verdict}.", class_="note")
    cards = [*_compared(fit, fitted), *_losses(fit)]
    parts = [
        tag("h2", "Fit"),
        size,
        tag("p", _NOTE, class_="note"),
        table_of(best_table(results, fitted), 1) if fitted.best else None,
        table_of(intervals_table(fitted), 1) if fitted.intervals else None,
        tag("ul", [tag("li", one) for one in fitted.notes]) if fitted.notes else None,
        tag("div", cards, class_="cards wide") if cards else None,
    ]
    return tag("section", parts)


def _compared(fit: Fit, fitted: FitFindings) -> Iterator[Markup]:
    """Yield a chart for each metric of the data, with what the best candidate shows."""
    for place, target in enumerate(fit_of(fit.plan).targets):
        for name in target.names if fitted.best and target.cells[0].seconds is not None else ():
            drawing = _over_time(target, name, place, fitted.best[0])
            if drawing is not None:
                yield drawing.card(name, f"{target.name}, and candidate {fitted.best[0].number}")


def _over_time(target: Target, name: str, place: int, best: TriedCombination) -> Drawing | None:
    data: list[tuple[float, Estimate]] = []
    model: list[tuple[float, Estimate]] = []
    for number, cell in enumerate(target.cells):
        if cell.name != name or cell.seconds is None:
            continue
        data.append((cell.seconds, Estimate(1, cell.value, None)))
        own = Estimate.of([value for curve in best.curves[place].values() if (value := curve[number]) is not None])
        if own is not None:
            model.append((cell.seconds, own))
    if not model:
        return None
    series = [
        ChartLine("data", "var(--c1)", sorted(data, key=_time)),
        ChartLine("model", "var(--c0)", sorted(model, key=_time)),
    ]
    return lines(f"{name} of the data and of the best candidate over time", series, "simulated seconds")


def _time(pair: tuple[float, Estimate]) -> float:
    return pair[0]


def _losses(fit: Fit) -> Iterator[Markup]:
    """Yield charts of the losses: over the candidates in their order, and over each varied key."""
    with_loss = [one for one in fit.candidates if one.values is not None]
    shown = with_loss if len(with_loss) <= _DOTS else [with_loss[at * len(with_loss) // _DOTS] for at in range(_DOTS)]
    note = f"{len(shown):,} of {len(with_loss):,} candidates, evenly chosen" if len(shown) < len(with_loss) else ""
    for place, target in enumerate(fit_of(fit.plan).targets):
        pairs = [(one, one.losses[place]) for one in shown]
        values = [(one, loss.mean) for one, loss in pairs if loss is not None]
        if not values:
            continue
        heading = f"loss for {target.name}"
        yield _scatter(heading, [(str(one.number), loss) for one, loss in values], "candidate", note)
        for key in fit.plan.points[0]:
            own = [(one.point[key], loss) for one, loss in values]
            yield _scatter(heading, own, short(key, fit.plan.points[0]), note)


def _scatter(heading: str, points: Sequence[tuple[str, float]], axis: str, note: str) -> Markup:
    return scatter(f"{heading} over {axis}", points, axis).card(heading, f"over {axis}. {note}".strip())
