"""A run that is open for reading, with its tables as frames, its agents, and charts."""

import weakref
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from sim.actors.events import StateChanged
from sim.base.errors import UsageError
from sim.base.pages import Chart, line_chart
from sim.base.text import plain
from sim.events.coerce import figure
from sim.inspect.analysis.agent import AgentRecord, AgentRecords
from sim.inspect.compare.comparison import Comparison, compare
from sim.inspect.viewer.bins import Bins
from sim.inspect.viewer.sections.states import StateTimes
from sim.kernel import Duration
from sim.kernel.codec import JsonObject
from sim.record import StoredRun, run_folder, summary
from sim.record.database import Database
from sim.record.frames import Frame, Library, frame
from sim.record.reader import QUERY_SECONDS
from sim.runner.branching import end_of
from sim.runner.causes import Causes, causes_of
from sim.runner.checkpoints import Moments
from sim.runner.moment import Moment
from sim.runner.moments import moment_of, place_of
from sim.runner.options import ReplayOptions, taking
from sim.runner.prompts import prompt_rows, repeated_prompts


class Run(StoredRun):
    """A run that is open for reading; `sim.open` returns it.

    It closes its file at the end of a `with` block, or when it is no longer used. It is accepted wherever the folder of
    a run is.

    Attributes:
        info: name, seed, status, hash and so on.
        path: the folder of the run.
        integrity: whether the record is whole, what it has lost, and what was changed; see `Integrity`.
    """

    def __init__(self, path: Path, database: Database) -> None:
        super().__init__(path, database)
        weakref.finalize(self, database.close)  # notebooks rarely close it

    def frame(
        self,
        view: str,
        *,
        where: str | None = None,
        parameters: Sequence[Any] | JsonObject = (),
        as_: Library | None = None,
        expand: bool | Sequence[str] = True,
    ) -> Frame:
        """Return a view or a table as a DataFrame.

        Args:
            view: its name, such as `actions`, `messages`, `events`, `samples` or `llm_calls`.
            where: a condition in SQL, such as `kind = 'send' AND time < 3600`; None: all rows.
            parameters: the values for `?` or `:name` in `where`.
            as_: `pandas`, `polars` or `arrow`; by default the first of these that is installed.
            expand: whether JSON becomes columns: an object in `data` gives a column `data.KEY` for each of its keys.
                Names of columns expand only these.

        Raises:
            UsageError: if the view is unknown, the condition is not valid, or the library is not installed.
            RunError: if the run is damaged.
        """
        if where is None:
            return frame((self.columns(view), list(self.stream(view))), as_, expand, view)
        return frame(self.table(f"{self.select(view)} WHERE {where}", parameters), as_, expand, view)

    def sql(
        self,
        sql: str,
        parameters: Sequence[Any] | JsonObject = (),
        *,
        as_: Library | None = None,
        expand: bool | Sequence[str] = True,
    ) -> Frame:
        """Return the result of a SELECT over the views and tables as a DataFrame.

        Args:
            sql: the SELECT.
            parameters: the values for `?` or `:name` in it.
            as_, expand: as in `frame`.

        Raises:
            UsageError: if it is not a valid SELECT, takes longer than the time limit, or the library is not installed.
            RunError: if the run is damaged.
        """
        return frame(self.table(sql, parameters), as_, expand)

    def prompts(
        self,
        *,
        repeat: bool = False,
        allow: Sequence[str] = (),
        as_: Library | None = None,
        expand: bool | Sequence[str] = True,
    ) -> Frame:
        """Return the model calls, with their whole requests and answers, as a DataFrame.

        Args:
            repeat: whether to replay the run for the requests and answers of scripted and simulated models, which are
                not on record.
            allow: packages and modules whose code the replay may use.
            as_, expand: as in `frame`.

        Raises:
            UsageError: as `frame`, or if the replay needs something that is not allowed.
            RunError: if the run is damaged or under way, or a replay differs from the record.
        """
        if not repeat:
            return self.frame("prompts", as_=as_, expand=expand)
        repeated = repeated_prompts(self, allow=tuple(allow), allow_commands=True)
        return frame((self.columns("prompts"), list(prompt_rows(self, repeated))), as_, expand)

    @taking(ReplayOptions)
    def at(self, at: Duration, options: ReplayOptions) -> Moment:
        """Return the state at one time, which a replay finds: of each agent, and of all that they share.

        Nothing is executed outside of the replay, and nothing is written.

        Args:
            at: the simulated time. What is due at it has not happened yet, except at the end of the record.
            options: see `ReplayOptions`.

        Raises:
            UsageError: if the record ends before, the agents of the run are at different times, or something that the
                run needs is missing or not allowed.
            RunError: if the run is under way, the code has changed, or the replay differs from the record.
        """
        return moment_of(self, place_of(self, at, None), options)

    @taking(ReplayOptions)
    def at_event(self, event: int, options: ReplayOptions) -> Moment:
        """Return the state after the step that made an event, by its number in the record; otherwise as `at`."""
        return moment_of(self, place_of(self, None, event), options)

    @taking(ReplayOptions)
    def moments(self, options: ReplayOptions) -> Moments:
        """Return what finds several moments of the run, the second one without another replay; see `Moments`.

        Args:
            options: see `ReplayOptions`.
        """
        return Moments(self.path, options)

    @taking(ReplayOptions)
    def causes(self, event: int, options: ReplayOptions) -> Causes:
        """Return all steps that led to an event, by its number in the record, from a replay with a trace.

        Args:
            event: the number of the event.
            options: see `ReplayOptions`.

        Raises:
            UsageError: if there is no such event, no step led to it, or something that the run needs is missing or not
                allowed.
            RunError: as `at`.
        """
        return causes_of(self, event, options, most=None)

    def conversations(self, *, as_: Library | None = None, expand: bool | Sequence[str] = True) -> Frame:
        """Return everything that was said, a row each, as a DataFrame. The arguments are as in `frame`."""
        return self.frame("conversations", as_=as_, expand=expand)

    @property
    def agents(self) -> AgentRecords:
        """The records of all agents, by name, in the order of their first events."""
        return AgentRecords(self)

    def agent(self, name: str) -> AgentRecord:
        """Return the record of one agent.

        Raises:
            UsageError: if the run has no agent of this name.
        """
        return AgentRecord(self, name)

    @property
    def metrics(self) -> Mapping[str, Sequence[float]]:
        """The sampled values by metric, and `time` in seconds; as in the result of the run."""
        if self.info.summary is not None and "metrics" in self.info.summary:
            metrics: Mapping[str, Sequence[float]] = self.info.summary["metrics"]
            return metrics
        series: dict[str, dict[float, Any]] = {}  # it has no summary: it is still running, has failed, or was killed
        times: dict[float, None] = {}
        for time, name, value in self.query("SELECT time, name, value FROM samples ORDER BY id"):
            times[time] = None
            series.setdefault(name, {})[time] = figure(value)
        columns: dict[str, list[Any]] = {name: [values.get(time) for time in times] for name, values in series.items()}
        return {"time": [*times], **columns}

    def plot(self, *metrics: str) -> Chart:
        """Return a chart of metrics over simulated time.

        Args:
            metrics: their names; all metrics of the run if none is given.

        Raises:
            UsageError: if the run has no metric of a name, or none at all.
        """
        return summary.plot(self.info.name, self.metrics, metrics)

    def plot_states(self) -> Chart:
        """Return a chart of the mean number of agents in each state over simulated time."""
        bins = Bins.until(end_of(self))
        states = StateTimes(bins)
        for row in self.rows((StateChanged.TOPIC,)):
            if isinstance(change := row.event, StateChanged):
                states.add(row.time_ns, row.actor, change)
        states.finish()
        times = [bins.end_ns / 1e9 * part / (bins.count - 1) for part in range(bins.count)]
        return line_chart(f"{self.info.name}: agents by state", times, states.to_json())

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        damage = "".join(f"; {plain(problem)}" for problem in self._damage())
        return f"<Run {self.info.id}: {summary.sentence(summary.fields_of(self.info))}{damage}>"

    def _repr_html_(self) -> str:
        problems = [("damaged", problem) for problem in self._damage()]
        return summary.html((*problems, *summary.pairs(summary.fields_of(self.info))), self.metrics)

    def _damage(self) -> Sequence[str]:
        """Return what is wrong with the record, if it was checked."""
        return () if self._integrity is None else self._integrity.problems


def open(  # noqa: A001 - always used as `sim.open`
    run: str | PathLike[str],
    *,
    out: str | PathLike[str] = "runs",
    verify: bool = True,
    seconds: float = QUERY_SECONDS,
) -> Run:
    """Open a run for reading.

    Args:
        run: the name of a scenario (its latest run; `NAME~1` is the run before it), the beginning of the name of a run
            as `sim list` shows it, a run folder, its `run.db`, a zip archive of a run, or the result of a run.
        out: the folder with the run folders, in which names are looked up.
        verify: whether to check the record first, as `sim verify` does. This takes about half a second for a million
            events. A file beside the database that was changed, and lost records, are a `RecordWarning`;
            `Run.integrity` has all that was found.
        seconds: the time limit of a query, in real seconds.

    Raises:
        UsageError: if there is no such run, or more than one, or another version of sim, with other tables, wrote it.
        RunError: if it is damaged or cannot be read.
    """
    if not isinstance(run, str | PathLike):
        raise UsageError(f"a run is given by its name or its folder, not by {run!r:.80}")
    return Run.open(run_folder(run, out), verify=verify, seconds=seconds)


def diff(
    left: str | PathLike[str],
    right: str | PathLike[str],
    *,
    out: str | PathLike[str] = "runs",
    limit: int | None = 5,
) -> Comparison:
    """Compare two runs: their settings, the first event that differs, and their outcomes.

    Args:
        left: one run, as in `open`.
        right: the other run. Differences are right minus left.
        out: the folder with the run folders, in which names are looked up.
        limit: how many events of each run to keep from the first difference on; None: all.

    Raises:
        UsageError, RunError: as `open`.
    """
    with open(left, out=out) as one, open(right, out=out) as other:
        return compare(one, other, limit)
