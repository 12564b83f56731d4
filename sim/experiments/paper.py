"""Figures of experiments for papers, made with matplotlib: outcomes over a key or by combination, metrics over time.

A figure is as wide as a column (85 mm) or a page (175 mm) of a journal, in a font of 8 points, so it is not scaled. The
colours are those of Okabe and Ito (Color Universal Design, 2008), which people tell apart whatever their vision.
No state of matplotlib is read or changed: a figure looks the same in every notebook.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from sim.base.errors import UsageError
from sim.base.extras import need
from sim.experiments.charts import is_geometric, number
from sim.experiments.estimate import Estimate
from sim.experiments.experiment import Spot
from sim.experiments.outcomes import Definition
from sim.experiments.plan import Plan
from sim.experiments.points import as_number, label_of, short
from sim.experiments.series import Band, Trials
from sim.kernel.codec import JsonObject
from sim.record.files import failure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = Literal[1, 2]
Log = Literal["", "x", "y", "xy"]

WIDTHS: Final[Mapping[int, float]] = {1: 85 / 25.4, 2: 175 / 25.4}
"""The width in inches, by the number of columns."""

ENDINGS: Final = (".pdf", ".svg", ".png")

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_FAINT: Final = 0.4
_LANES: Final = 5  # of single seeds beside a mean
_LONGEST: Final = 38  # characters of a line beside an axis
_UNITS: Final[Sequence[tuple[int, str]]] = ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))
_STYLE: Final[JsonObject] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "sim",
    "savefig.dpi": 300,
    "axes.unicode_minus": True,
}
"""The look. Fonts of type 42 are those that journals accept in a PDF."""


def outcome_figure(
    plan: Plan,
    spots: Sequence[Spot],
    outcome: str,
    over: str | None,
    *,
    columns: Columns = 1,
    log: Log = "",
    signed: bool = False,
) -> "Figure":
    """Return the figure of an outcome, or of its differences from the baseline.

    Single seeds are faint points. Intervals are those of the estimates: 95 %, Student's t.

    Args:
        plan: the plan.
        spots: what is drawn.
        outcome: the name of the outcome.
        over: the varied key of the horizontal axis; None: one place for each combination or arm.
        columns: how many columns of a page it is wide.
        log: which axes are logarithmic.
        signed: whether these are differences.
    """
    with _styled():
        figure, axes = _new(columns)
        if over is None:
            _draw_by_name(axes, plan, spots)
        else:
            _draw_over_key(axes, plan, spots, over)
        _finish(axes, plan, outcome, _y_log(plan, outcome, log, signed=signed), signed=signed)
        if over is not None:
            _log_x(axes, [as_number(plan.points[spot.point][over]) or 0.0 for spot in spots], log)
    return figure


def band_figure(
    plan: Plan, bands: Sequence[Band], trials: Trials, *, columns: Columns = 1, log: Log = "", signed: bool = False
) -> "Figure":
    """Return the figure of a metric over time: a line with its 95 % band for each combination or arm.

    Single seeds are faint lines, unless these are differences.

    Args:
        plan: the plan.
        bands: the bands of one metric.
        trials: the samples.
        columns, log: as in `outcome_figure`.
        signed: whether these are differences from the baseline.
    """
    metric = bands[0].metric
    end = max(band.moments[-1][0] for band in bands)
    scale, unit = next(pair for pair in _UNITS if end >= 2 * pair[0] or pair[0] == 1)
    with _styled():
        figure, axes = _new(columns)
        for place, band in enumerate(bands):
            colour, drawn = _COLOURS[place % len(_COLOURS)], band.drawn()
            times = [time / scale for time, _ in drawn.moments]
            for samples in () if signed else trials.get(band.point, {}).values():
                own = samples.values.get(metric, [None] * len(samples.times))
                axes.plot(
                    [time / scale for time in samples.times],
                    [math.nan if value is None else value for value in own],
                    color=colour,
                    alpha=_FAINT / 2,
                    linewidth=0.4,
                )
            estimates = [one for _, one in drawn.moments]
            axes.fill_between(
                times,
                [one.low for one in estimates],
                [one.high for one in estimates],
                color=colour,
                alpha=0.2,
                linewidth=0,
            )
            axes.plot(times, [one.mean for one in estimates], color=colour, label=_plain(plan.label(band.point)))
        counts = [one.n for band in bands for _, one in band.drawn().moments]
        if min(counts) < max(counts):  # runs that have ended have no later samples
            axes.set_title(f"means over {min(counts)} to {max(counts)} seeds", loc="right", fontsize="small")
        axes.set_xlabel(f"simulated time ({unit})")
        axes.margins(x=0)
        if "x" in log:
            axes.set_xscale("symlog", linthresh=max(end / scale / 100, 1e-9))
        scale = _y_log(plan, metric, log, signed=signed, over_time=True)
        _finish(axes, plan, metric, scale, signed=signed, over_time=True)
        _legend(axes, len(bands))
    return figure


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure to a PDF, SVG or PNG file. The same figure gives the same bytes.

    Raises:
        UsageError: if the file has another ending.
        RunError: if it cannot be written.
    """
    check_ending(path)
    dateless = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}[path.suffix.lower()]
    try:
        with _styled():
            figure.savefig(path, metadata=dateless)
    except OSError as error:
        raise failure(path, error) from error


def check_ending(path: Path) -> None:
    """Check that a figure can be written to a file of this name.

    Raises:
        UsageError: if it ends otherwise.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"a figure is not written as {path.name!r:.60}", hint=f"name a file with {', '.join(ENDINGS)}")


def _styled() -> Any:
    need("figures", "figures for papers need")
    import matplotlib as mpl  # the import is slow

    style: dict[Any, Any] = {**mpl.rcParamsDefault, **_STYLE}
    del style["backend"]  # of the notebook, or of no matter
    return mpl.rc_context(style)


def _new(columns: Columns) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    if columns not in WIDTHS:
        raise UsageError(f"a figure is one or two columns wide, not {columns!r:.20}")
    width = WIDTHS[columns]
    figure = Figure(figsize=(width, 2.4 if columns == 1 else 2.9), layout="constrained")
    return figure, figure.add_subplot()


def _draw_over_key(axes: "Axes", plan: Plan, spots: Sequence[Spot], key: str) -> None:
    """Draw a line for each combination of the other keys."""
    groups: dict[str, list[tuple[float, Spot]]] = {}
    for spot in spots:
        point = plan.points[spot.point]
        rest = label_of({other: value for other, value in point.items() if other != key})
        groups.setdefault(rest, []).append((as_number(point[key]) or 0.0, spot))
    for index, (rest, own) in enumerate(groups.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        own.sort(key=lambda pair: pair[0])
        for place, spot in own:
            _faint(axes, place, list(spot.seeds.values()), colour)
        _bars(axes, [place for place, _ in own], [spot.estimate for _, spot in own], colour, "o-", _plain(rest))
    axes.set_xlabel(_plain(short(key, plan.points[0])))
    _legend(axes, len(groups))


def _draw_by_name(axes: "Axes", plan: Plan, spots: Sequence[Spot]) -> None:
    """Draw a place for each combination or arm."""
    for place, spot in enumerate(spots):
        _faint(axes, place, list(spot.seeds.values()), _COLOURS[0])
        _bars(axes, [place], [spot.estimate], _COLOURS[0], "o", "")
    labels = [_plain(plan.label(spot.point)) or "all seeds" for spot in spots]
    long = sum(map(len, labels)) > 30 * axes.figure.get_size_inches()[0] / WIDTHS[1]  # type: ignore[union-attr]
    axes.set_xticks(range(len(spots)), labels, rotation=30 if long else 0, ha="right" if long else "center")
    axes.set_xlim(-0.6, len(spots) - 0.4)


def _faint(axes: "Axes", place: float, values: Sequence[float], colour: str) -> None:
    """Draw single seeds beside their mean, in lanes, so that equal ones are seen."""
    from matplotlib.transforms import offset_copy

    axes.update_datalim([(place, value) for value in values])  # matplotlib leaves out what is drawn beside its place
    axes.margins(x=0.12)
    for lane in range(min(_LANES, len(values))):
        beside = offset_copy(axes.transData, axes.figure, x=4 + 1.5 * lane, units="points")  # type: ignore[arg-type]
        own = values[lane::_LANES]
        axes.plot(
            [place] * len(own), own, ".", color=colour, alpha=_FAINT, markersize=4, markeredgewidth=0, transform=beside
        )


def _bars(
    axes: "Axes", places: Sequence[float], estimates: Sequence[Estimate], colour: str, form: str, label: str
) -> None:
    """Draw means with their intervals; a single seed has none."""
    half = [one.half or 0.0 for one in estimates]
    axes.errorbar(
        places,
        [one.mean for one in estimates],
        yerr=half if any(half) else None,
        fmt=form,
        color=colour,
        capsize=2,
        markersize=4,
        label=label or None,
        elinewidth=0.9,
        capthick=0.9,
    )


def _y_log(plan: Plan, name: str, log: Log, *, signed: bool, over_time: bool = False) -> bool:
    named = (one for one in plan.definitions if one.name == name)
    scale = next((one.scale for one in named if not over_time or _is_metric(one)), "linear")
    return "y" in log or (scale == "log" and not signed)


def _log_x(axes: "Axes", places: Iterable[float], log: Log) -> None:
    """Make the horizontal axis logarithmic if that is wanted, or its numbers grow by factors; label each of a few."""
    own = sorted(set(places))
    if "x" in log or is_geometric(own):
        if own and own[0] <= 0:
            raise UsageError("a logarithmic axis has numbers above 0 only", hint="leave out log x")
        axes.set_xscale("log")
    if len(own) <= 6 and all(high > low for low, high in pairwise(own)):
        axes.set_xticks(own, [number(place) for place in own])
        axes.set_xticks([], minor=True)


def _is_metric(definition: Definition) -> bool:
    """Return whether an outcome is the last value of the metric of its name: both have one label then."""
    calls = definition.measurement.calls
    return len(calls) == 1 and calls[0].function in ("", "last") and calls[0].what == definition.name


def _finish(axes: "Axes", plan: Plan, name: str, logarithmic: bool, *, signed: bool, over_time: bool = False) -> None:
    definition = next((one for one in plan.definitions if one.name == name), None)
    own = definition is not None and (not over_time or _is_metric(definition))
    shown = plan.shown(name) if own else name
    quantity = f"difference in {shown}" if signed else shown
    axes.set_ylabel("\n".join(_plain(line) for line in textwrap.wrap(quantity, _LONGEST)))
    if signed:
        axes.axhline(0, color="0.5", linewidth=0.6, zorder=0)
    if logarithmic:
        if axes.dataLim.y1 <= 0 or signed:
            what = "differences" if signed else "an outcome without a value above 0"
            raise UsageError(f"{what} cannot be drawn on a logarithmic axis", hint="leave out log y")
        axes.set_yscale("log", nonpositive="clip")


def _legend(axes: "Axes", series: int) -> None:
    if series > 1:
        axes.legend(ncols=2 if series > 4 else 1)


def _plain(text: str) -> str:
    """Return a text as matplotlib shows it: it reads dollar signs as formulas."""
    return text.replace("$", r"\$")
