"""Experiments as Python objects: `sweep`, `bench`, `arms`, and the `Experiment` that they return."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Self, Unpack

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.pages import Chart, Table, tag
from sim.base.text import plain
from sim.experiments.arms import make_arms
from sim.experiments.bench.plan import make_bench
from sim.experiments.designs import Design, varied
from sim.experiments.experiment import PointEstimates, carry_out, differences, evaluate, missing, reach, without_effect
from sim.experiments.figures import difference_drawing, outcome_drawings, reach_drawing
from sim.experiments.folder import begin, go_on, table_and_page, write
from sim.experiments.integrity import check_experiment
from sim.experiments.plan import Hosting, Mode, Plan, make_sweep
from sim.experiments.points import as_number
from sim.experiments.results import Results
from sim.experiments.tables import differences_table, estimates_table, reach_table
from sim.inspect.analysis.experiment_options import ExperimentKeywords, ExperimentOptions, WorkerKeywords, WorkerOptions
from sim.kernel import Duration
from sim.kernel.levels import Level
from sim.record import run_folder
from sim.record.archive import is_archive, unpacked_experiment
from sim.record.frames import Frame, Library, frame
from sim.record.integrity import Integrity
from sim.runner.event_loop import beside_the_loop, is_cancelled, with_definitions
from sim.runner.progress import bar
from sim.scenario.overrides import value_text

Values = str | Iterable[Any]
"""How a key is varied: several values, or a text such as `0.02..0.2:4`."""

Changes = Mapping[str, Any] | Sequence[str]
"""What an arm changes: values by key, or `key=value` texts."""

What = Literal["trials", "estimates", "differences", "reached"]

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
        estimates: the outcomes over seeds, for each combination or arm.
        differences: the differences between the arms and the baseline; empty for a sweep.
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
        self.complete = not missing(results)
        self.differences = tuple(differences(results))
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
            found = cls(results)
        found.integrity.warn()
        return found

    @property
    def integrity(self) -> Integrity:
        """Whether the experiment is complete and unchanged, as `sim verify` checks it; see `Integrity`."""
        return check_experiment(self.folder).integrity

    def resume(self, *, again: bool = False, **options: Unpack[WorkerKeywords]) -> Self:
        """Run the trials that are missing, and return the experiment with them.

        Args:
            again: whether trials that failed are tried again.
            options: see `WorkerOptions`.

        Raises:
            UsageError: if the scenario or the run has changed since.
        """
        chosen = WorkerOptions.of(options)
        hosting = chosen.hosting(self.plan)
        with contextlib.closing(go_on(self.folder, allow_change=chosen.allow_change)) as results:
            _carry_out(results, chosen, hosting, again=again)
            return type(self)(results)

    @property
    def page(self) -> Path:
        """The page with all charts and tables."""
        return self.folder / table_and_page(self.plan)[1]

    def frame(self, what: What = "trials", *, as_: Library | None = None) -> Frame:
        """Return a table of the experiment as a DataFrame.

        Args:
            what: `trials`: a row for each trial that was measured, with its values, outcomes and figures; `estimates`:
                a row for each combination or arm and outcome; `differences`: a row for each arm and outcome;
                `reached`: a row for each arm and agent that it reached.
            as_: `pandas`, `polars` or `arrow`; by default the first of these that is installed.

        Raises:
            UsageError: if there is no such table, or the library is not installed.
        """
        made: Mapping[str, Callable[[], tuple[list[str], list[tuple[Any, ...]]]]] = {
            "trials": self._trials, "estimates": self._estimates, "differences": self._differences,
            "reached": self._reached,
        }  # fmt: skip
        if what not in made:
            hint = did_you_mean(str(what), made) or f"there are {', '.join(made)}"
            raise UsageError(f"an experiment has no table {what!r:.40}", hint=hint)
        return frame(made[what](), as_, expand=False)

    def _trials(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        with contextlib.closing(Results(self.folder)) as results:
            return results.rows()

    def _estimates(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        keys = [] if self.plan.arms else list(self.plan.points[0])
        rows = [
            (*([row.label] if self.plan.arms else [_value(row.point[key]) for key in keys]), name, one.n, one.mean,
             one.half, one.low, one.high)
            for row in self.estimates
            for name, one in row.outcomes.items()
        ]  # fmt: skip
        return [*(["arm"] if self.plan.arms else keys), "outcome", "seeds", "mean", "half", "low", "high"], rows

    def _differences(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        columns = ["arm", "outcome", "seeds", "baseline", "difference", "half", "least_effect", "changed"]
        return columns, [
            (one.arm, one.outcome, one.difference.n, one.baseline.mean, one.difference.mean, one.difference.half,
             one.least_effect, one.changed)
            for one in self.differences
        ]  # fmt: skip

    def _reached(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        rows = [(arm.arm, one.agent, len(one.times), one.median) for arm in self.reach for one in arm.agents]
        return ["arm", "agent", "seeds", "median_seconds"], rows

    def plot(self, outcome: str | None = None, *, over: str | None = None) -> Chart:
        """Return a chart of an outcome: over a varied key with numbers, else a bar for each combination or arm.

        Args:
            outcome: its name; None: the first one.
            over: the varied key, or its last part; None: the first one with numbers.

        Raises:
            UsageError: if there is no such outcome or key, or no trial was measured.
        """
        found = dict(outcome_drawings(self.estimates, self._outcome(outcome)))
        if over is None:
            return next(iter(found.values())).image()
        for note, drawing in found.items():
            axis = note.removeprefix("over ")
            if note and (axis == over or over.endswith(f".{axis}") or axis.endswith(f".{over}")):
                return drawing.image()
        known = [note.removeprefix("over ") for note in found if note]
        raise UsageError(f"there is no chart over {over!r:.60}", hint=f"there are {', '.join(known) or 'none'}")

    def plot_differences(self, outcome: str | None = None) -> Chart:
        """Return a chart of the differences between the arms and the baseline in an outcome.

        Raises:
            UsageError: if there is no such outcome, or there are no arms.
        """
        if not self.differences:
            raise UsageError("there are no differences", hint="sim.arms compares arms with a baseline")
        return difference_drawing(self.differences, self._outcome(outcome)).image()

    def plot_reach(self) -> Chart:
        """Return a chart of the mean number of agents that each arm reached, over simulated time.

        Raises:
            UsageError: if no arm reached any agent, or there are no arms.
        """
        found = [arm for arm in self.reach if arm.agents]
        if not found:
            raise UsageError("no arm has reached an agent" if self.plan.arms else "a sweep has no arms")
        return reach_drawing(found).image()

    def _outcome(self, name: str | None) -> str:
        known = dict.fromkeys(one for row in self.estimates for one in row.outcomes)
        if not known:
            raise UsageError("no trial was measured, so there are no outcomes", hint="see problems")
        if name is not None and name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise UsageError(f"there is no outcome {name!r:.60}", hint=hint)
        return name or next(iter(known))

    def _tables(self) -> list[tuple[str, Table]]:
        shown = [("", Table(*estimates_table(self.plan, self.estimates, _SHOWN)))]
        if self.plan.arms:
            shown.append(("differences from the baseline, seed by seed", Table(*differences_table(self.differences))))
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


@with_definitions
def sweep(
    scenario: str | PathLike[str],
    *,
    vary: Mapping[str, Values] | None = None,
    design: Design = "factorial",
    samples: int | None = None,
    mode: Mode | None = None,
    overrides: Sequence[str] = (),
    recording: Level | None = None,
    **options: Unpack[ExperimentKeywords],
) -> Experiment:
    """Run a scenario with other values and seeds, and estimate its outcomes with 95 % intervals; see `sim sweep`.

    Each trial is written as soon as it is done. If the call is interrupted, `Experiment.open(folder).resume()` goes on.

    Args:
        scenario: the scenario file.
        vary: the values by key, such as `{"agents.person.state.beta": [0.02, 0.1]}`; a text such as `"0.02..0.2:4"`
            stands for evenly spread values.
        design: `factorial` (all combinations), or `latin` or `sobol` for `samples` combinations within ranges.
        samples: the number of combinations of a latin or sobol design.
        mode: `autonomous` or `tick`; None: that of the scenario.
        overrides: `key=value` changes to all runs.
        recording: how much is recorded of each trial: `all`, `changes` or `samples`; None: what the scenario says,
            otherwise `samples`.
        options: see `ExperimentOptions`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if an argument is not.
    """
    chosen = ExperimentOptions.of(options)
    models = () if chosen.access is None else chosen.access.models
    plan = make_sweep(
        Path(scenario), vary=varied(vary or {}), design=design, samples=samples, mode=mode, overrides=tuple(overrides),
        recording=recording, models=models, kinds=chosen.kinds, **chosen.planned(),
    )  # fmt: skip
    return _made(plan, chosen)


@with_definitions
def bench(
    scenario: str | PathLike[str],
    *,
    modes: Sequence[str] = (),
    seed_list: Sequence[int] = (),
    vary: Mapping[str, Values] | None = None,
    design: Design = "factorial",
    samples: int | None = None,
    overrides: Sequence[str] = (),
    recording: Level | None = None,
    **options: Unpack[ExperimentKeywords],
) -> Experiment:
    """Run a scenario in several modes with the same seeds, and compare durations and outcomes; see `sim bench`.

    Args:
        scenario: the scenario file.
        modes: the modes, such as `tick-parallel` and `autonomous`; empty: the default modes.
        seed_list: the seeds, instead of their number (`seeds`).
        vary, design, samples, overrides: see `sweep`.
        recording: how much is recorded of each trial: `all`, `changes` or `samples`; None: what the scenario says,
            otherwise `all`.
        options: see `ExperimentOptions`.

    Raises:
        ScenarioError: if the scenario is not valid.
        UsageError: if an argument is not.
    """
    chosen = ExperimentOptions.of(options)
    models = () if chosen.access is None else chosen.access.models
    plan = make_bench(
        Path(scenario), modes=modes, seeds=seed_list, vary=varied(vary or {}), design=design, samples=samples,
        overrides=tuple(overrides), recording=recording, models=models, kinds=chosen.kinds, **chosen.planned(),
    )  # fmt: skip
    return _made(plan, chosen)


@with_definitions
def arms(
    run: str | PathLike[str],
    *,
    at: Duration,
    arms: Mapping[str, Changes],
    **options: Unpack[ExperimentKeywords],
) -> Experiment:
    """Compare several futures of a recorded run with a baseline that changes nothing; see `sim branch --arm`.

    Args:
        run: the run: its folder, or its name in the folder `runs`.
        at: the simulated time at which the arms begin.
        arms: what each arm changes, by its name, such as `{"low": {"agents.person.state.beta": 0.02}}`.
        options: see `ExperimentOptions`.

    Raises:
        UsageError: if an argument is not valid, or a parameter cannot change then.
        ScenarioError: if a changed parameter is not valid.
        RunError: if the run cannot be read.
    """
    chosen = ExperimentOptions.of(options)
    changes = {name: _overrides(changed) for name, changed in arms.items()}
    return _made(
        make_arms(run_folder(run), at=at, arms=changes, allow_change=chosen.allow_change, **chosen.planned()), chosen
    )


sweep_async = beside_the_loop(sweep)
bench_async = beside_the_loop(bench)
arms_async = beside_the_loop(arms)


def _overrides(changes: Changes) -> tuple[str, ...]:
    if isinstance(changes, Mapping):
        return tuple(f"{key}={value_text(value)}" for key, value in changes.items())
    if isinstance(changes, str):
        raise UsageError(f"an arm changes {changes!r:.60}", hint="give a mapping, such as {key: value}")
    return tuple(changes)


def _value(text: str) -> str | float:
    number = as_number(text)
    return text if number is None else number


def _made(plan: Plan, chosen: ExperimentOptions) -> Experiment:
    hosting = chosen.hosting(plan)
    out = None if chosen.out is None else Path(chosen.out)
    with contextlib.closing(begin(plan, out)) as results:
        _carry_out(results, chosen, hosting)
        return Experiment(results)


def _carry_out(results: Results, chosen: WorkerOptions, hosting: Hosting, *, again: bool = False) -> None:
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
        interrupt.add_note(f"sim.Experiment.open({str(results.folder)!r}).resume() goes on")
        raise
    finally:
        write(results, evaluate(results))
