"""Experiments as Python objects: `sweep`, `fit`, `bench`, `arms`, and the `Experiment` that they return."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.pages import Chart, Table, tag
from sim.base.text import plain
from sim.experiments.arms import Difference, make_arms
from sim.experiments.bench.plan import make_bench
from sim.experiments.experiment import (
    PointEstimates,
    Spot,
    carry_out,
    differences,
    evaluate,
    left,
    reach,
    singles_of,
    spots_of,
    without_effect,
)
from sim.experiments.figures import band_drawing, difference_drawing, outcome_drawings, reach_drawing
from sim.experiments.fit_plan import make_fit
from sim.experiments.fit_tables import FitFindings, candidates_rows, found_by
from sim.experiments.folder import begin, continue_experiment, table_and_page, write
from sim.experiments.integrity import check_experiment
from sim.experiments.paper import Columns, Log, band_figure, outcome_figure
from sim.experiments.plan import Plan, TrialHosting, make_sweep
from sim.experiments.points import as_number, named, number_or_text
from sim.experiments.results import Results
from sim.experiments.sensitivity import Sensitivity, sensitivity_of, sensitivity_rows
from sim.experiments.series import Band, Trials, bands, difference_bands, metrics_of, trials_of
from sim.experiments.table_files import Form, differences_cells, estimates_cells, table_text
from sim.experiments.tables import differences_table, estimates_table, reach_table
from sim.inspect.analysis.experiment_options import (
    ArmsArguments,
    BenchArguments,
    Changes,
    ExperimentOptions,
    FitArguments,
    RetryOptions,
    SweepArguments,
    WorkerOptions,
)
from sim.kernel.codec import JsonObject
from sim.record import run_folder
from sim.record.frames import Frame, Library, frame
from sim.record.integrity import Integrity
from sim.record.zip_archives import is_archive, unpacked_experiment
from sim.runner.event_loop import beside_the_loop, is_cancelled, with_definitions
from sim.runner.options import taking
from sim.runner.progress import bar
from sim.scenario.overrides import value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

What = Literal[
    "trials",
    "estimates",
    "differences",
    "reached",
    "series",
    "series_estimates",
    "series_differences",
    "sensitivity",
    "candidates",
]

_SHOWN: Final = 40
"""How many combinations an experiment is shown with."""


class Experiment:
    """A sweep, a bench, or the arms of a run: its plan, and what its trials have shown.

    Each mode of a bench is a combination of its own, with the value `mode`. Its page compares them.

    Attributes:
        folder: the folder with all files of the experiment.
        plan: the plan. `plan.id` can be cited.
        hash: the hash of the results, which can be cited: whoever carries out the same plan gets the same.
        complete: whether no trial is missing.
        fit: what a fit has found; None: it is none.
        estimates: the outcomes over seeds, for each combination or arm.
        differences: the differences between the arms, or the combinations, and the baseline; empty without a baseline.
        reach: the agents that each arm reached; empty for a sweep.
        without_effect: varied keys, or arms, that change nothing in any seed; they are probably misspelled.
        problems: why trials failed, by the label of the combination or arm, and the seed.
        without_value: the outcomes without a value in some trials, which estimates leave out: the name, in how many
            trials, and of how many.
    """

    def __init__(self, results: Results) -> None:
        self.folder = results.folder
        self.plan, self.hash = results.plan, results.hash()
        self.estimates: tuple[PointEstimates, ...] = tuple(evaluate(results))
        self.complete = not left(results)
        self.fit: FitFindings | None = None if self.plan.fit is None else found_by(results)
        self.differences = tuple(differences(results))
        self._singles = {signed: singles_of(results, differences=signed) for signed in (False, True)}
        self.reach = tuple(reach(results))
        self.without_effect = tuple(without_effect(results))
        self.without_value = tuple(results.without_value())
        self.problems = {(self.plan.label(point), seed): why for point, seed, why in results.problems()}

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> Self:
        """Return the experiment in a folder, or in the archive of one.

        Raises:
            UsageError: if there is none, or it is still carried out.
            RunError: if its results were changed, or the archive is damaged. Damage to the table, the page, the plan,
                or runs that it refers to is a `RecordWarning`.
        """
        path = Path(folder)
        place = unpacked_experiment(path) if is_archive(path) else path
        with contextlib.closing(Results(place)) as results:
            experiment = cls(results)
        experiment.integrity.warn()
        return experiment

    @property
    def integrity(self) -> Integrity:
        """Whether the experiment is complete and unchanged, as `sim verify` checks it; see `Integrity`."""
        return check_experiment(self.folder).integrity

    @taking(RetryOptions)
    def resume(self, options: RetryOptions) -> Self:
        """Run the trials that are missing, and return the experiment with them.

        Args:
            options: see `RetryOptions`.

        Raises:
            UsageError: if the scenario or the run has changed since.
        """
        hosting = options.hosting(self.plan)
        with contextlib.closing(continue_experiment(self.folder, allow_change=options.allow_change)) as results:
            _carry_out(results, options, hosting, again=options.again)
            return type(self)(results)

    def compare(self, baseline: JsonObject) -> tuple[Difference, ...]:
        """Return the differences of all other combinations of a sweep from one of them, seed by seed.

        Args:
            baseline: values that one combination alone has, such as `{"beta": 0.02}`.

        Raises:
            UsageError: if no combination has them, or several have.
        """
        if self.plan.arms:
            raise UsageError("arms are compared with their baseline already", hint="see differences")
        with contextlib.closing(Results(self.folder, read_only=True)) as results:
            return tuple(differences(results, named(self.plan.points, _overrides(baseline))))

    def sensitivity(self, *outcomes: str) -> tuple[Sensitivity, ...]:
        """Return which inputs matter for the outcomes of a sweep with a design for sensitivity analysis.

        Args:
            outcomes: the outcomes; none: those that matter.

        Raises:
            UsageError: if the design is another one, there is no such outcome, or SALib is not installed.
        """
        with contextlib.closing(Results(self.folder, read_only=True)) as results:
            return tuple(sensitivity_of(results, outcomes))

    @property
    def page(self) -> Path:
        """The page with all charts and tables."""
        return self.folder / table_and_page(self.plan)[1]

    def frame(self, what: What = "trials", *, as_: Library | None = None) -> Frame:
        """Return a table of the experiment as a DataFrame.

        Args:
            what: `trials`: a row for each trial that was measured, with its values, outcomes and figures; `estimates`:
                a row for each combination or arm and outcome; `differences`: a row for each arm and outcome;
                `reached`: a row for each arm and agent that it reached; `series`: a row for each sample of each trial,
                with a column for each metric; `series_estimates`: a row for each combination or arm, metric and time,
                with the mean over seeds; `series_differences`: the same for arms minus baseline, seed by seed;
                `sensitivity`: a row for each outcome, input and index of a design for sensitivity analysis;
                `candidates`: a row for each candidate of a fit, with its losses.
            as_: `pandas`, `polars` or `arrow`; by default the first of these that is installed.

        Raises:
            UsageError: if there is no such table, or the library is not installed.
        """
        made: Mapping[str, Callable[[], tuple[list[str], list[tuple[Any, ...]]]]] = {
            "trials": self._trials,
            "estimates": self._estimates,
            "differences": self._differences,
            "reached": self._reached,
            "series": self._series,
            "series_estimates": partial(self._bands, bands),
            "series_differences": partial(self._bands, difference_bands),
            "sensitivity": lambda: sensitivity_rows(self.sensitivity()),
            "candidates": self._candidates,
        }
        if what not in made:
            hint = did_you_mean(str(what), made) or f"there are {', '.join(made)}"
            raise UsageError(f"an experiment has no table {what!r:.40}", hint=hint)
        return frame(made[what](), as_, expand=False)

    def _trials(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        with contextlib.closing(Results(self.folder)) as results:
            return results.rows()

    def _candidates(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        if self.fit is None:
            raise UsageError("only a fit has candidates", hint='frame("trials") has all combinations')
        with contextlib.closing(Results(self.folder, read_only=True)) as results:
            return candidates_rows(results)

    def _estimates(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        keys = [] if self.plan.arms else list(self.plan.points[0])
        rows = [
            (
                *([row.label] if self.plan.arms else [number_or_text(row.point[key]) for key in keys]),
                name,
                one.n,
                one.mean,
                one.half,
                one.low,
                one.high,
            )
            for row in self.estimates
            for name, one in row.outcomes.items()
        ]
        return [*(["arm"] if self.plan.arms else keys), "outcome", "seeds", "mean", "half", "low", "high"], rows

    def _differences(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        what = "arm" if self.plan.arms else "combination"
        columns = [what, "outcome", "seeds", "baseline", "difference", "half", "least_effect", "changed"]
        return columns, [
            (
                one.arm,
                one.outcome,
                one.difference.n,
                one.baseline.mean,
                one.difference.mean,
                one.difference.half,
                one.least_effect,
                one.changed,
            )
            for one in self.differences
        ]

    def _reached(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        rows = [(arm.arm, one.agent, len(one.times), one.median) for arm in self.reach for one in arm.agents]
        return ["arm", "agent", "seeds", "median_seconds"], rows

    def _trials_over_time(self) -> Trials:
        with contextlib.closing(Results(self.folder, read_only=True)) as results:
            return trials_of(results)

    def _point(self, point: int) -> tuple[Any, ...]:
        """Return the values of a combination, or the name of an arm."""
        return (
            (self.plan.label(point),)
            if self.plan.arms
            else tuple(map(number_or_text, self.plan.points[point].values()))
        )

    def _series(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        trials = self._trials_over_time()
        names = list(dict.fromkeys(name for own in trials.values() for one in own.values() for name in one.values))
        keys = ["arm"] if self.plan.arms else list(self.plan.points[0])
        rows = [
            (*self._point(point), seed, time, *(_at(one.values.get(name), place) for name in names))
            for point, own in trials.items()
            for seed, one in own.items()
            for place, time in enumerate(one.times)
        ]
        return [*keys, "seed", "time", *names], rows

    def _bands(
        self, make: Callable[[Plan, Trials, Sequence[str]], Iterable[Band]]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        trials = self._trials_over_time()
        names = list(dict.fromkeys(name for own in trials.values() for one in own.values() for name in one.values))
        keys = ["arm"] if self.plan.arms else list(self.plan.points[0])
        rows = [
            (*self._point(band.point), band.metric, time, one.n, one.mean, one.half, one.low, one.high)
            for band in make(self.plan, trials, names)
            for time, one in band.moments
        ]
        return [*keys, "metric", "time", "seeds", "mean", "half", "low", "high"], rows

    def _over_time(
        self, metric: str | None, make: Callable[[Plan, Trials, Sequence[str]], Iterable[Band]]
    ) -> tuple[Trials, list[Band]]:
        """Return the samples, and the bands of a metric over time; None: of the first that matters.

        Raises:
            UsageError: if no trial has sampled such a metric.
        """
        trials = self._trials_over_time()
        metrics = list(dict.fromkeys(name for own in trials.values() for one in own.values() for name in one.values))
        chosen = metric or next(iter(metrics_of(self.plan, trials)), None)
        own_bands = [] if chosen is None else list(make(self.plan, trials, [chosen]))
        if chosen is None or not own_bands:
            hint = did_you_mean(chosen or "", metrics) or f"there are {', '.join(metrics) or 'none'}"
            raise UsageError(f"no metric {chosen!r:.60} was sampled over time", hint=hint)
        return trials, own_bands

    def _plot_over_time(
        self, metric: str | None, make: Callable[[Plan, Trials, Sequence[str]], Iterable[Band]], *, signed: bool
    ) -> Chart:
        _, own_bands = self._over_time(metric, make)
        return band_drawing(self.plan, own_bands, own_bands[0].metric, signed=signed).image()

    def figure(
        self,
        outcome: str | None = None,
        *,
        over: str | None = None,
        columns: Columns = 1,
        log: Log = "",
        differences: bool = False,
    ) -> "Figure":
        """Return a figure for a paper, made with matplotlib (extra `figures`), with labels and units from `outcomes`.

        Single seeds are faint. Intervals and bands are 95 %, Student's t. `figure.savefig("R.pdf")` or
        `sim export FOLDER figure R --to R.pdf` writes it as PDF, SVG or PNG.

        Args:
            outcome: its name; None: the first one. With `over="time"`, the name of a metric.
            over: the varied key, or its last part; `time`: simulated time; None: the first key with numbers, else a
                place for each combination or arm.
            columns: how many columns of a page it is wide: 1 (85 mm) or 2 (175 mm).
            log: the logarithmic axes: `x`, `y` or `xy`.
            differences: whether to draw the differences from the baseline, seed by seed.

        Raises:
            UsageError: if there is no such outcome, key or metric, there are no differences, an axis cannot be
                logarithmic, or matplotlib is not installed.
        """
        if differences:
            self._check_compared()
        if log not in ("", "x", "y", "xy"):
            raise UsageError(f"logarithmic axes are x, y or xy, not {log!r:.20}")
        if over == "time":
            make = difference_bands if differences else bands
            trials, own_bands = self._over_time(outcome, make)
            return band_figure(self.plan, own_bands, trials, columns=columns, log=log, signed=differences)
        name = self._outcome(outcome)
        with contextlib.closing(Results(self.folder, read_only=True)) as results:
            spots = spots_of(results, name, differences=differences)
        axis = self._axis(spots, over)
        return outcome_figure(self.plan, spots, name, axis, columns=columns, log=log, signed=differences)

    def _axis(self, spots: Sequence[Spot], over: str | None) -> str | None:
        """Return the varied key of the horizontal axis; None: there is none.

        Raises:
            UsageError: if there is no such key, or its values are no numbers.
        """
        points = [self.plan.points[spot.point] for spot in spots]
        keys = [] if self.plan.arms else list(self.plan.points[0])
        axes = [key for key in keys if len({as_number(point[key]) for point in points} - {None}) > 1]
        axes = [key for key in axes if all(as_number(point[key]) is not None for point in points)]
        if over is None:
            return next(iter(axes), None)
        for key in axes:
            if f".{key}".endswith(f".{over}"):
                return key
        raise UsageError(f"there is no axis over {over!r:.60}", hint=f"there are {', '.join((*axes, 'time'))}")

    def to_latex(self, what: Literal["estimates", "differences"] = "estimates") -> str:
        """Return a table as LaTeX: a `tabular` with the rules of the package booktabs, names escaped, with intervals.

        Args:
            what: `estimates`: a row for each combination or arm; `differences`: a row for each and outcome.

        Raises:
            UsageError: if there is no such table.
        """
        return self.table(what, "latex")

    def table(
        self,
        what: Literal["estimates", "differences"] = "estimates",
        form: Form = "md",
        *,
        outcomes: Sequence[str] = (),
    ) -> str:
        """Return a table as text: LaTeX, Markdown (`md`) or CSV; see `to_latex`.

        Args:
            what: which table.
            form: in which form.
            outcomes: the outcomes that it has; empty: all.

        Raises:
            UsageError: if there is no such table, or no such outcome.
        """
        wanted = [self._outcome(name) for name in outcomes]
        if what == "differences":
            self._check_compared()
            differences = [one for one in self.differences if not wanted or one.outcome in wanted]
            return table_text(*differences_cells(self.plan, differences), form)
        if what != "estimates":
            raise UsageError(f"there is no table {what!r:.40} for papers", hint="there are estimates and differences")
        rows = [
            attrs.evolve(
                row, outcomes={name: one for name, one in row.outcomes.items() if not wanted or name in wanted}
            )
            for row in self.estimates
        ]
        return table_text(*estimates_cells(self.plan, rows), form)

    def _check_compared(self) -> None:
        if not self.differences:
            hint = "sim.arms compares arms with a baseline, and sim.sweep(baseline=...) combinations"
            raise UsageError("there are no differences", hint=hint)

    def plot(self, outcome: str | None = None, *, over: str | None = None) -> Chart:
        """Return a chart of an outcome: over a varied key with numbers, else a bar for each combination or arm.

        Fewer than five seeds are drawn one by one, with their mean, in place of an interval.

        Args:
            outcome: its name; None: the first one. With `over="time"`, the name of a metric.
            over: the varied key, or its last part; `time`: simulated time, with a 95 % band for each combination or
                arm; None: the first key with numbers.

        Raises:
            UsageError: if there is no such outcome or key, or no trial was measured.
        """
        if over == "time":
            return self._plot_over_time(outcome, bands, signed=False)
        name = self._outcome(outcome)
        charts = dict(outcome_drawings(self.estimates, name, self._singles[False].get(name)))
        if over is None:
            return next(iter(charts.values())).image()
        for note, drawing in charts.items():
            axis = note.removeprefix("over ")
            if note and (axis == over or over.endswith(f".{axis}") or axis.endswith(f".{over}")):
                return drawing.image()
        axes = [note.removeprefix("over ") for note in charts if note]
        raise UsageError(f"there is no chart over {over!r:.60}", hint=f"there are {', '.join(axes) or 'none'}")

    def plot_differences(self, outcome: str | None = None, *, over: Literal["time"] | None = None) -> Chart:
        """Return a chart of the differences between the arms and the baseline in an outcome.

        Args:
            outcome: its name; None: the first one. With `over="time"`, the name of a metric.
            over: `time`: over simulated time, with a 95 % band for each arm.

        Raises:
            UsageError: if there is no such outcome, or there are no arms.
        """
        self._check_compared()
        if over == "time":
            return self._plot_over_time(outcome, difference_bands, signed=True)
        name = self._outcome(outcome)
        return difference_drawing(self.differences, name, self._singles[True].get(name)).image()

    def plot_reach(self) -> Chart:
        """Return a chart of the mean number of agents that each arm reached, over simulated time.

        Raises:
            UsageError: if no arm reached any agent, or there are no arms.
        """
        arms = [arm for arm in self.reach if arm.agents]
        if not arms:
            raise UsageError("no arm has reached an agent" if self.plan.arms else "a sweep has no arms")
        return reach_drawing(arms).image()

    def _outcome(self, name: str | None) -> str:
        names = dict.fromkeys(one for row in self.estimates for one in row.outcomes)
        if not names:
            raise UsageError("no trial was measured, so there are no outcomes", hint="see problems")
        if name is not None and name not in names:
            hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
            raise UsageError(f"there is no outcome {name!r:.60}", hint=hint)
        return name or next(iter(names))

    def _tables(self) -> list[tuple[str, Table]]:
        shown = [("", Table(*estimates_table(self.plan, self.estimates, _SHOWN)))]
        if self.plan.compared_with is not None:
            differences = differences_table(self.differences, "arm" if self.plan.arms else "combination")
            shown.append(("differences from the baseline, seed by seed", Table(*differences)))
        if self.plan.arms:
            shown.append(("agents reached", Table(*reach_table(self.reach))))
        return [(heading, table) for heading, table in shown if table.rows]

    def _notes(self) -> list[str]:
        count, what = len(self.plan.points), "arm" if self.plan.arms else "combination"
        notes = [f"{self.plan.name}: {count} {what}{'' if count == 1 else 's'}"]
        notes[0] += f", plan {self.plan.id}, in {self.folder}" + ("" if self.complete else "; not complete")
        if len(self.estimates) > _SHOWN:
            notes.append(f"the first {_SHOWN} combinations are shown")
        notes += [f"{one} has no effect: the runs are the same without it" for one in self.without_effect]
        if self.problems:
            (label, seed), why = next(iter(self.problems.items()))
            where = ", ".join(part for part in (label, f"seed {seed}") if part)
            notes.append(f"{len(self.problems)} trials failed: {where}: {why}")
        return [plain(note) for note in notes]

    def __repr__(self) -> str:
        tables = [f"{heading}\n{table.text()}".strip("\n") for heading, table in self._tables()]
        return "\n\n".join(["\n".join(self._notes()), *tables])

    def _repr_html_(self) -> str:
        tables = [(tag("p", heading) if heading else None, table.html()) for heading, table in self._tables()]
        return tag("div", [tag("p", note) for note in self._notes()], tables)


@taking(SweepArguments)
@with_definitions
def sweep(scenario: str | PathLike[str], options: SweepArguments) -> Experiment:
    """Run a scenario with other values and seeds, and estimate its outcomes with 95 % intervals; see `sim sweep`.

    Each trial is written as soon as it is done. `Experiment.open(folder).resume()` continues an interrupted call.

    Args:
        scenario: the scenario file.
        options: see `SweepArguments`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if an argument is not.
    """
    baseline = _overrides(options.baseline or {})
    plan = make_sweep(
        Path(scenario), baseline=baseline, mode=options.mode, second_order=options.second_order, **options.varied()
    )
    return _made(plan, options)


@taking(FitArguments)
@with_definitions
def fit(scenario: str | PathLike[str], options: FitArguments) -> Experiment:
    """Find the values with which the runs of a scenario agree with data; see `sim fit` and `Experiment.fit`.

    Args:
        scenario: the scenario file.
        options: see `FitArguments`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if an argument is not, or Optuna is not installed.
    """
    return _made(make_fit(Path(scenario), **options.searched()), options)


@taking(BenchArguments)
@with_definitions
def bench(scenario: str | PathLike[str], options: BenchArguments) -> Experiment:
    """Run a scenario in several modes with the same seeds, and compare durations and outcomes; see `sim bench`.

    Args:
        scenario: the scenario file.
        options: see `BenchArguments`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if an argument is not.
    """
    plan = make_bench(Path(scenario), modes=options.modes, seeds=options.seed_list, **options.varied())
    return _made(plan, options)


@taking(ArmsArguments)
@with_definitions
def arms(run: str | PathLike[str], options: ArmsArguments) -> Experiment:
    """Compare several futures of a recorded run with a baseline that changes nothing; see `sim branch --arm`.

    Args:
        run: the run: its folder, or its name in the folder `runs`.
        options: see `ArmsArguments`.

    Raises:
        UsageError: if an argument is not valid, or a parameter cannot change then.
        ScenarioError: if a changed parameter is not valid.
        RunError: if the run cannot be read.
    """
    changes = {name: _overrides(changed) for name, changed in options.arms.items()}
    plan = make_arms(
        run_folder(run), at=options.at, arms=changes, allow_change=options.allow_change, **options.planned()
    )
    return _made(plan, options)


sweep_async = beside_the_loop(sweep)
fit_async = beside_the_loop(fit)
bench_async = beside_the_loop(bench)
arms_async = beside_the_loop(arms)


def _overrides(changes: Changes) -> tuple[str, ...]:
    if isinstance(changes, Mapping):
        return tuple(f"{key}={value_text(value)}" for key, value in changes.items())
    if isinstance(changes, str):
        raise UsageError(f"an arm changes {changes!r:.60}", hint="give a mapping, such as {key: value}")
    return tuple(changes)


def _at(values: Sequence[float | None] | None, place: int) -> float | None:
    return None if values is None else values[place]


def _made(plan: Plan, chosen: ExperimentOptions) -> Experiment:
    hosting = chosen.hosting(plan)
    out = None if chosen.out is None else Path(chosen.out)
    with contextlib.closing(begin(plan, out)) as results:
        _carry_out(results, chosen, hosting)
        return Experiment(results)


def _carry_out(results: Results, chosen: WorkerOptions, hosting: TrialHosting, *, again: bool = False) -> None:
    """Run the trials that are missing, until the task is cancelled that waits for this thread."""
    workers, progress = chosen.workers(results.plan, results.folder), chosen.progress
    try:
        with (
            bar(wanted=progress is True) as show,
            contextlib.closing(carry_out(results, workers, hosting, again=again)) as trials,
        ):
            for one in trials:
                if callable(progress):
                    progress(one)
                elif show is not None:
                    show(results.plan.name, f"{one.done} of {one.planned} trials", one.done / one.planned)
                if is_cancelled():
                    break
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"sim.Experiment.open({str(results.folder)!r}).resume() continues")
        raise
    finally:
        write(results, evaluate(results))
