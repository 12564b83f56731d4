"""The results of an experiment: an SQLite file to which each trial is written as soon as it is done.

Tables: `plan` (as JSON), `points` (point, key, value), `trials` (point, seed, figures, seal), `outcomes` (point, seed,
name, value), `reached` (point, seed, agent, seconds), of arms, `series` (point, seed, name, samples as a JSON list, and
the distance between two that are kept; those of `time` in seconds), `sessions` (when and on which machine the trials
were measured), and `written` (the hashes of the files made of these); of a fit `candidates` (point, values as JSON).
The seal of a trial is a hash of all that is on record of it, and of the plan. The view `results` has one line for each
trial that was measured, with columns for varied keys, or the name of the arm, and outcomes.
"""

import contextlib
import hashlib
import json
import math
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.crashpoints import reach
from sim.base.errors import RunError, UsageError
from sim.experiments.designs import variable
from sim.experiments.measure import Measured
from sim.experiments.plan import Plan, mode_of
from sim.experiments.points import Point, short
from sim.experiments.recorded import RUNS, SCRATCH, remove_others, remove_replaced
from sim.experiments.samples import Samples
from sim.experiments.trial import Trial
from sim.kernel.codec import Json, JsonObject, decode, encode
from sim.record.drafts import sync_file
from sim.record.files import failure, is_settled, private_file

FILE: Final = "results.db"

FIGURES: Final = (
    "status", "problem", "hash", "wall_seconds", "cpu_seconds", "sim_seconds", "stopped_by", "agents", "iterations",
    "actions", "events", "errors", "calls", "input_tokens", "output_tokens", "reused", "cost_micro", "run",
)  # fmt: skip
"""The columns of `trials` after `point` and `seed` that each experiment has."""

TIMES: Final = ("turn", "basis", "makespan", "in_flight", "waiting", "waits", "critical_path", "concurrency")
"""The further columns of `trials`, which only a bench fills. The makespan in real time is `wall_seconds`, and empty."""

_MAKESPAN: Final = "iif(basis = 'wall', wall_seconds, makespan) AS makespan"

ALL: Final = (*FIGURES, *TIMES)

OF_ITS_OWN: Final = ("wall_seconds", "cpu_seconds", "run")
"""Those that differ whenever the same trial is carried out."""

Facts = tuple[int, int, dict[str, Any], list[Any], list[Any], list[Any]]
"""What is on record of a trial: combination, seed, figures, outcomes and whether they are its own, reached agents,
samples."""

_PARTS: Final = {"outcomes": "name, value, own", "reached": "agent, seconds", "series": "name, samples, step"}
"""The tables with several lines for a trial, and their other columns."""

_TEXTS: Final = ("status", "problem", "hash", "stopped_by", "run", "basis", "concurrency")
_TABLES: Final = f"""
    CREATE TABLE plan (text TEXT NOT NULL);
    CREATE TABLE points (point INTEGER, key TEXT, value NUMERIC, PRIMARY KEY (point, key)) WITHOUT ROWID;
    CREATE TABLE trials (
        point INTEGER, seed INTEGER, {", ".join(f"{n} {'TEXT' if n in _TEXTS else 'NUMERIC'}" for n in ALL)},
        seal TEXT, PRIMARY KEY (point, seed)
    ) WITHOUT ROWID;
    CREATE TABLE outcomes (
        point INTEGER, seed INTEGER, name TEXT, value REAL, own INTEGER, PRIMARY KEY (point, seed, name)
    ) WITHOUT ROWID;
    CREATE TABLE reached (
        point INTEGER, seed INTEGER, agent TEXT, seconds REAL, PRIMARY KEY (point, seed, agent)
    ) WITHOUT ROWID;
    CREATE TABLE sessions (
        began TEXT PRIMARY KEY, seconds REAL, jobs INTEGER, machine TEXT, versions TEXT
    ) WITHOUT ROWID;
    CREATE TABLE series (
        point INTEGER, seed INTEGER, name TEXT, samples TEXT, step INTEGER, PRIMARY KEY (point, seed, name)
    ) WITHOUT ROWID;
    CREATE TABLE written (name TEXT PRIMARY KEY, sha256 TEXT, code TEXT) WITHOUT ROWID;
"""

_OF_FITS: Final = """
    CREATE TABLE candidates (point INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""
"""The table that only fits have: their candidates as JSON, with the texts of their values as they were chosen."""


def create_results(path: Path, plan: Plan) -> None:
    """Create the file of the results of a new experiment, with no trial in it. It is on disk when this returns.

    Raises:
        RunError: if it cannot be created.
    """
    try:
        private_file(path)
        with contextlib.closing(_writing_connection(path)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")
            _create_tables(database, plan)
            database.execute("COMMIT")
        sync_file(path)
    except (sqlite3.Error, OSError) as error:
        raise failure(path, error) from error


def _create_tables(database: sqlite3.Connection, plan: Plan) -> None:
    for statement in (_TABLES if plan.fit is None else _TABLES + _OF_FITS).split(";"):
        database.execute(statement)
    database.execute("INSERT INTO plan VALUES (?)", (json.dumps(plan.to_json()),))
    _add_points(database, plan, 0)


def _add_points(database: sqlite3.Connection, plan: Plan, first: int) -> None:
    """Add the combinations from a number on; of a fit, also as they were chosen."""
    database.executemany("INSERT INTO points VALUES (?, ?, ?)", [row for row in _points(plan) if row[0] >= first])
    if plan.fit is not None:
        rows = [(number, json.dumps(dict(point))) for number, point in enumerate(plan.points) if number >= first]
        database.executemany("INSERT INTO candidates VALUES (?, ?)", rows)


def _points(plan: Plan) -> list[tuple[int, str, str]]:
    return [(number, *pair) for number, point in enumerate(plan.points) for pair in point.items()]


def is_half_made(path: Path) -> bool:
    """Return whether a file of results has no tables at all: whatever began to make it was killed."""
    try:
        with contextlib.closing(read_connection(path)) as database:
            return bool(database.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,))
    except sqlite3.Error:
        return False


def is_unsealed(path: Path) -> bool:
    """Return whether an older version of sim wrote the results, which did not seal them."""
    sql = "SELECT m.name, t.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS t WHERE m.type = 'table'"
    try:
        with contextlib.closing(read_connection(path)) as database:
            columns = set(database.execute(sql))
    except sqlite3.Error:
        return False
    tables = {name for name, _ in columns}
    return {"plan", "trials", "outcomes"} <= tables and "written" not in tables and ("trials", "seal") not in columns


class Results:
    """The results of one experiment. Only one process can have them open, but for `read_only`.

    Args:
        folder: the folder of the experiment.
        read_only: whether they are only read, as those of others are: nothing in the folder is changed.

    Raises:
        UsageError: if there are none, or another process writes them.
        RunError: if the file is damaged or cannot be written.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        path = folder / FILE
        if not path.exists():
            raise UsageError(f"there is no experiment in {folder}", hint=f"it has a file {FILE}")
        if is_half_made(path):
            hint = f"begin it again, with --to {folder}"
            raise UsageError(f"there is no experiment in {folder}: its creation was cut short", hint=hint)
        with contextlib.ExitStack() as opened:
            try:
                self._database = read_connection(path) if read_only else _writing_connection(path)
                opened.callback(self._database.close)
                if not read_only:
                    self._claim(path)
                self._check_layout(path)
                plans = self._database.execute("SELECT text FROM plan").fetchall()
            except (sqlite3.Error, OSError) as error:
                if "locked" in str(error):
                    raise UsageError(f"another process writes {path}", hint="wait until it has ended") from error
                raise failure(path, error) from error
            if len(plans) != 1:
                raise RunError(f"{path} is damaged: it has {len(plans)} plans, not one")
            self.plan = Plan.from_json(str(plans[0][0]))
            if self.plan.fit is not None:
                self.plan = attrs.evolve(self.plan, points=self._candidates())
            self.folder, self._plan_sha = folder, self.plan.sha
            self.kept: dict[str, Any] = {}  # what follows from many trials, for the functions that work it out
            self._check_trials()
            opened.pop_all()
        self._runs = folder.resolve() / RUNS  # an agent may change the current folder

    def _claim(self, path: Path) -> None:
        """Lock the file for writing."""
        execute = self._database.execute
        path.chmod(0o600)
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing; a power cut the last trials
        execute("BEGIN IMMEDIATE")
        execute("COMMIT")

    def _check_layout(self, path: Path) -> None:
        """Check that the file has the tables of this version, and beside the view `results` nothing else.

        Raises:
            RunError: if it has not.
        """
        sql = "SELECT type, name, sql FROM sqlite_schema WHERE (type, name) <> ('view', 'results')"
        with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
            fresh.executescript(_TABLES)
            layouts = [set(fresh.execute(sql))]
            fresh.executescript(_OF_FITS)
            if set(self._database.execute(sql)) not in (*layouts, set(fresh.execute(sql))):
                hint = "carry out its plan again: sim sweep --plan plan.json"
                raise RunError(f"{path} has other tables than this version of sim writes", hint=hint)

    def _check_trials(self) -> None:
        """Check each trial against its seal, and the values of the combinations against the plan.

        Raises:
            RunError: if one was changed.
        """
        if self._execute("SELECT point, key, CAST(value AS TEXT) FROM points ORDER BY 1, 2") != self._fresh_points():
            raise self._damaged("the values of its combinations are not those of its plan")
        seals = {(point, seed): seal for point, seed, seal in self._execute("SELECT point, seed, seal FROM trials")}
        for facts in self._facts():
            point, seed = facts[:2]
            if seals[point, seed] != self._seal_of(facts):
                what = f"the trial of combination {point}, seed {seed} was changed since it was recorded"
                raise self._damaged(what, "remove that line of `trials`, and continue with: sim sweep --resume FOLDER")

    def _candidates(self) -> tuple[Point, ...]:
        """Return the candidates of a fit so far.

        Raises:
            RunError: if they are not numbered from 0 on, or do not have the keys of the plan.
        """
        rows = self._execute("SELECT point, text FROM candidates ORDER BY point")
        keys = {key for text in self.plan.vary for key in variable(text).keys}
        try:
            candidates = [{key: str(value) for key, value in decode(str(text).encode()).items()} for _, text in rows]
        except (ValueError, AttributeError):
            candidates = []
        numbered = [point for point, _ in rows] == list(range(len(rows)))
        if not candidates or not numbered or any(one.keys() != keys for one in candidates):
            raise self._damaged("its candidates are not those of a fit of its keys")
        return tuple(candidates)

    def extend(self, points: Sequence[Point]) -> None:
        """Add candidates of a fit."""
        first = len(self.plan.points)
        self.plan = attrs.evolve(self.plan, points=(*self.plan.points, *points))
        with self._transaction() as execute:
            execute("DELETE FROM written")
            _add_points(self._database, self.plan, first)

    def _fresh_points(self) -> list[tuple[Any, ...]]:
        """Return the combinations of the plan as SQLite gives them back."""
        with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
            fresh.execute("CREATE TABLE points (point INTEGER, key TEXT, value NUMERIC)")
            fresh.executemany("INSERT INTO points VALUES (?, ?, ?)", _points(self.plan))
            return fresh.execute("SELECT point, key, CAST(value AS TEXT) FROM points ORDER BY 1, 2").fetchall()

    def _facts(self, where: str = "", values: Sequence[Any] = ()) -> Iterator[Facts]:
        """Yield all that is on record of each trial, in order."""
        figures = self._execute(f"SELECT point, seed, {', '.join(ALL)} FROM trials {where} ORDER BY 1, 2", values)  # noqa: S608
        others = [
            iter(self._execute(f"SELECT point, seed, {columns} FROM {table} {where} ORDER BY 1, 2, 3", values))  # noqa: S608
            for table, columns in _PARTS.items()
        ]
        waiting = [next(rows, None) for rows in others]
        for row in figures:
            parts: list[list[Any]] = [[] for _ in others]
            for which, rows in enumerate(others):
                while (ahead := waiting[which]) is not None and ahead[:2] <= row[:2]:
                    if ahead[:2] == row[:2]:
                        parts[which].append(list(ahead[2:]))
                    waiting[which] = next(rows, None)
            point, seed, *values = row
            yield point, seed, dict(zip(ALL, values, strict=True)), *parts

    def _seal_of(self, facts: Facts) -> str:
        """Return the hash of all that is on record of a trial, and of the plan; empty if a value is of a wrong kind."""
        own = () if self.plan.fit is None else (dict(self.plan.points[facts[0]]),)
        try:
            return hashlib.sha256(encode((self._plan_sha, *own, *facts))).hexdigest()
        except (TypeError, ValueError, OverflowError):
            return ""

    def hash(self) -> str:
        """Return the hash (64 hex digits) of the results, which can be cited.

        It covers the plan without paths and all values of all trials, but for the real time that they took and the
        names of their run folders. Whoever carries out the same plan gets the same hash.
        """
        whole = hashlib.sha256(self._plan_sha.encode())
        if self.plan.fit is not None:
            whole.update(encode([dict(point) for point in self.plan.points]))
        for facts in self._facts():
            whole.update(encode(repeatable(facts)) + b"\n")
        return whole.hexdigest()

    def trials(self) -> Iterator[Facts]:
        """Yield all that is on record of each trial that was done, in order."""
        return self._facts()

    def orphans(self) -> int:
        """Return how many outcomes, reached agents and samples belong to no trial."""
        parts = (
            f"(SELECT count(*) FROM {table} AS t WHERE NOT EXISTS"  # noqa: S608 - constants
            " (SELECT 1 FROM trials WHERE trials.point = t.point AND trials.seed = t.seed))"
            for table in _PARTS
        )
        return int(self._execute(f"SELECT {' + '.join(parts)}")[0][0])

    def _damaged(self, what: str, hint: str | None = None) -> RunError:
        return RunError(f"{self.folder / FILE} is damaged: {what}", hint=hint or "use a copy of it")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def add(self, trials: Sequence[Measured], session: JsonObject | None = None) -> None:
        """Write the trials of a job; those with the same combination and seed are replaced, with their run folders.

        Args:
            trials: the trials.
            session: when and where they were measured; see `sessions`.
        """
        sql = "SELECT run FROM trials WHERE point = ? AND seed = ?"
        before = {run for one in trials for (run,) in self._execute(sql, (one.trial.point, one.trial.seed))}
        with self._transaction() as execute:
            execute("DELETE FROM written")  # the table and the page do not have these trials
            for measured in trials:
                self._add(execute, measured)
            if session is not None:
                texts = (json.dumps(session[name]) for name in ("machine", "versions"))
                values = (session["began"], session["seconds"], session["jobs"], *texts)
                execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)", values)
        reach("results.added")
        remove_replaced(self.plan, self._runs, before - {one.trial.run for one in trials} - {None})

    @contextlib.contextmanager
    def tidied(self) -> Iterator[None]:
        """Remove the run folders that no trial has any more, before and after trials are under way.

        So are the records that only outcomes read, of workers that were killed.
        """
        self._tidy()
        try:
            yield
        finally:
            self._tidy()

    def _tidy(self) -> None:
        shutil.rmtree(self._runs.parent / SCRATCH, ignore_errors=True)
        if self.plan.record:
            remove_others(self.plan, self._runs, {run for (run,) in self._execute("SELECT run FROM trials")})

    def _add(self, execute: Callable[..., object], measured: Measured) -> None:
        trial = measured.trial
        where = trial.point, trial.seed
        figures = attrs.asdict(trial, recurse=False) | self._times(trial)
        marks = ", ".join("?" * (len(ALL) + 3))
        values = (*where, *(figures[name] for name in ALL), "")
        execute(f"INSERT OR REPLACE INTO trials VALUES ({marks})", values)  # noqa: S608 - marks
        for table in _PARTS:
            execute(f"DELETE FROM {table} WHERE point = ? AND seed = ?", where)  # noqa: S608 - constants
        self._database.executemany(
            "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?)",
            ((*where, name, value, name in trial.own) for name, value in trial.outcomes.items()),
        )
        reached = ((*where, agent, seconds) for agent, seconds in measured.reached.items())
        self._database.executemany("INSERT INTO reached VALUES (?, ?, ?, ?)", reached)
        series = {"time": measured.series.times, **measured.series.values} if measured.series.times else {}
        self._database.executemany(
            "INSERT INTO series VALUES (?, ?, ?, ?, ?)",
            ((*where, name, json.dumps(values), measured.series.step) for name, values in series.items()),
        )
        for facts in self._facts("WHERE point = ? AND seed = ?", where):  # as SQLite gives them back
            execute("UPDATE trials SET seal = ? WHERE point = ? AND seed = ?", (self._seal_of(facts), *where))

    def _times(self, trial: Trial) -> dict[str, Any]:
        """Return the values of those columns of a trial that only a bench fills, where they differ from its fields."""
        if self.plan.bench is None:
            return dict.fromkeys(TIMES)
        concurrency = json.dumps(trial.concurrency) if trial.concurrency else None
        return {"concurrency": concurrency} | ({"makespan": None} if trial.basis == "wall" else {})

    def bench_trials(self) -> Iterator[Trial]:
        """Yield the trials of a bench, as they were measured."""
        for point, seed, figures, outcomes, *_ in self._facts():
            if figures["basis"] == "wall":
                figures["makespan"] = figures["wall_seconds"]
            try:
                concurrency = tuple((at, calls) for at, calls in json.loads(figures["concurrency"] or "[]"))
            except (TypeError, ValueError) as error:
                raise self._damaged(f"the calls in flight of point {point}, seed {seed}, are {error}") from error
            by_name = {name: value for name, value, _ in outcomes}
            yield Trial(
                point=point,
                seed=seed,
                mode=mode_of(self.plan, self.plan.points[point]),
                outcomes=by_name,
                own=tuple(name for name, _, own in outcomes if own),
                **{**figures, "concurrency": concurrency},
            )

    def sessions(self) -> list[dict[str, Json]]:
        """Return when and on which machine the trials were measured, for each process that did it."""
        rows = self._execute("SELECT began, seconds, jobs, machine, versions FROM sessions ORDER BY began")
        try:
            return [
                {
                    "began": str(began),
                    "seconds": float(seconds),
                    "jobs": int(jobs),
                    "machine": dict(json.loads(machine)),
                    "versions": dict(json.loads(used)),
                }
                for began, seconds, jobs, machine, used in rows
            ]
        except (TypeError, ValueError) as error:
            raise self._damaged(f"a line of `sessions` is wrong: {error}") from error

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._telling():  # a damaged page, or a text that is none, is found only when its line is read
            return self._database.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Convert errors of SQLite, such as a full disk."""
        try:
            yield
        except sqlite3.Error as error:
            raise failure(self.folder / FILE, error) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Callable[..., object]]:
        execute = self._database.execute
        with self._telling():
            execute("BEGIN")
            try:
                yield execute
                execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # SQLite has rolled back by itself if the disk is full
                    execute("ROLLBACK")
                raise

    def done(self) -> dict[tuple[int, int], str]:
        """Return the status of each trial that was done, by combination and seed."""
        rows = self._execute("SELECT point, seed, status FROM trials")
        return {(point, seed): status for point, seed, status in rows}

    def seals(self) -> dict[tuple[int, int], tuple[str, str]]:
        """Return the status and the seal of each trial that was done, by combination and seed."""
        rows = self._execute("SELECT point, seed, status, seal FROM trials ORDER BY point, seed")
        return {(point, seed): (status, seal) for point, seed, status, seal in rows}

    def problems(self) -> list[tuple[int, int, str]]:
        """Return the combination, the seed and the problem of each trial that failed."""
        where = "status <> 'measured' ORDER BY point, seed"
        return self._execute(f"SELECT point, seed, problem FROM trials WHERE {where}")  # noqa: S608

    def own(self) -> list[str]:
        """Return the outcomes that the scenario itself defines, in alphabetical order."""
        return [name for (name,) in self._execute("SELECT DISTINCT name FROM outcomes WHERE own ORDER BY 1")]

    def values(self, names: list[str], first: int = 0) -> Iterator[tuple[int, int, str, float]]:
        """Yield combination, seed, name and value of some outcomes of all trials that were measured and have a value.

        Args:
            names: the outcomes.
            first: from which combination on.

        Raises:
            RunError: if the file has a value that is no number.
        """
        marks = ", ".join("?" * len(names))
        sql = f"""
            SELECT point, seed, name, value FROM outcomes JOIN trials USING (point, seed)
            WHERE status = 'measured' AND name IN ({marks}) AND value IS NOT NULL AND point >= ? ORDER BY point, seed
        """  # noqa: S608 - marks
        for point, seed, name, value in self._execute(sql, [*names, first]):
            yield point, seed, name, self._number(value, f"the outcome {name}", point, seed)

    def without_value(self) -> list[tuple[str, int, int]]:
        """Return the outcomes without a value in some of the trials that were measured: name, in how many, of all.

        What the scenario defines is missing also where a trial has no line for it, such as an observation that no agent
        recorded. A count without a line is 0.
        """
        return self._execute("""
            SELECT name, trials - valued, trials FROM (
                SELECT name, count(value) AS valued, CASE WHEN max(own)
                    THEN (SELECT count(*) FROM trials WHERE status = 'measured') ELSE count(*) END AS trials
                FROM outcomes JOIN trials USING (point, seed) WHERE status = 'measured' GROUP BY name
            ) WHERE valued < trials ORDER BY name
        """)

    def names(self) -> list[str]:
        """Return the names of all outcomes, in alphabetical order."""
        return [name for (name,) in self._execute("SELECT DISTINCT name FROM outcomes ORDER BY 1")]

    def failing(self) -> list[tuple[int, int, str]]:
        """Return combination, seed and commonest error of each trial in which iterations of agents failed."""
        where = "status = 'measured' AND errors > 0 ORDER BY point, seed"
        return self._execute(f"SELECT point, seed, problem FROM trials WHERE {where}")  # noqa: S608 - constant

    def blocked(self) -> list[tuple[int, int, str]]:
        """Return combination, seed and problem of each other trial in which agents were blocked for ever."""
        where = "status = 'measured' AND errors = 0 AND problem IS NOT NULL ORDER BY point, seed"
        return self._execute(f"SELECT point, seed, problem FROM trials WHERE {where}")  # noqa: S608 - constant

    def hashes(self) -> list[tuple[int, int, str]]:
        """Return combination, seed and hash of each run that was measured."""
        return self._execute("SELECT point, seed, hash FROM trials WHERE status = 'measured'")

    def reached(self) -> list[tuple[int, int, str, float]]:
        """Return combination, seed, agent and simulated seconds of each agent that an arm reached.

        Raises:
            RunError: if the file has a time that is no number.
        """
        rows = self._execute("SELECT point, seed, agent, seconds FROM reached ORDER BY point, seed, agent")
        return [
            (point, seed, agent, self._number(seconds, f"the time at which {agent} was reached", point, seed))
            for point, seed, agent, seconds in rows
        ]

    def _number(self, value: object, what: str, point: int, seed: int) -> float:
        """Return a number of the file, which SQLite keeps as it is given, also a text in a column of numbers."""
        if isinstance(value, float) and math.isfinite(value):
            return value
        where = f"{what} of combination {point}, seed {seed}"
        hint = "remove that line of `trials`, and continue with: sim sweep --resume FOLDER"
        raise RunError(f"{self.folder / FILE} is damaged: {where} is {value!r:.60}, not a number", hint=hint)

    def series(self, first: int = 0) -> Iterator[tuple[int, int, Samples]]:
        """Yield combination, seed and samples of each trial that was measured and has some.

        Args:
            first: from which combination on.

        Raises:
            RunError: if the file has a series that is no list of numbers.
        """
        sql = "SELECT point, seed, name, samples, step FROM series WHERE point >= ? ORDER BY point, seed, name"
        rows = self._execute(sql, [first])
        for (point, seed), own in groupby(rows, key=lambda row: row[:2]):
            steps, values = [], {}
            for _, _, name, text, step in own:
                values[name] = self._samples(text, name, point, seed)
                steps.append(step)
            times = tuple(time for time in values.pop("time", ()) if time is not None)
            if any(len(one) != len(times) for one in values.values()):
                raise self._damaged(f"the samples of combination {point}, seed {seed} are not all at the same times")
            if not all(type(step) is int and step > 0 for step in steps):
                raise self._damaged(f"the samples of combination {point}, seed {seed} do not say which are kept")
            yield point, seed, Samples(times, values, max(steps))

    def _samples(self, text: object, name: str, point: int, seed: int) -> tuple[float | None, ...]:
        try:
            samples = decode(str(text).encode())
        except ValueError:
            samples = None
        if not isinstance(samples, list) or not all(isinstance(one, int | float | None) for one in samples):
            raise self._damaged(f"the series {name} of combination {point}, seed {seed} is no list of numbers")
        return tuple(samples)

    def totals(self) -> dict[str, int]:
        """Return figures of all trials that were measured: how many, their agents, their events and errors."""
        names = ("trials", "fewest_agents", "most_agents", "events", "errors")
        sql = "SELECT count(*), min(agents), max(agents), total(events), total(errors) FROM trials"
        (row,) = self._execute(f"{sql} WHERE status = 'measured'")
        try:
            return {name: int(value or 0) for name, value in zip(names, row, strict=True)}
        except (TypeError, ValueError) as error:
            raise self._damaged(f"a figure of a trial is no number: {error}") from error

    def metrics(self) -> list[str]:
        """Return the names of the metrics that were sampled."""
        return [name for (name,) in self._execute("SELECT DISTINCT name FROM series WHERE name <> 'time' ORDER BY 1")]

    def calls(self) -> tuple[int, int]:
        """Return the number of calls of models, and how many of their answers another trial had asked for."""
        ((calls, reused),) = self._execute("SELECT total(calls), total(reused) FROM trials")
        return int(calls), int(reused)

    def spent(self) -> tuple[int, int]:
        """Return what the models of all trials took: micro-units of money, without shared answers, and tokens."""
        ((money, tokens),) = self._execute(
            "SELECT total(cost_micro), total(input_tokens) + total(output_tokens) FROM trials"
        )
        return int(money), int(tokens)

    def seconds(self) -> float | None:
        """Return the mean of the real seconds of the runs that were measured; None: there are none."""
        ((seconds,),) = self._execute("SELECT avg(wall_seconds) FROM trials WHERE status = 'measured'")
        return None if seconds is None else float(seconds)

    def written(self) -> dict[str, tuple[str, str]]:
        """Return the hash of each file that was made of these results, and that of the code of sim that made it, by
        name; empty if trials were added since.
        """
        return {name: (sha256, code) for name, sha256, code in self._execute("SELECT name, sha256, code FROM written")}

    def note_written(self, hashes: Mapping[str, str], code: str) -> None:
        """Note the hashes of the files that were made of these results, and make the view `results`."""
        with self._transaction() as execute:
            execute("DROP VIEW IF EXISTS results")
            execute(f"CREATE VIEW results AS {self.select()}")
            execute("DELETE FROM written")
            for name, sha256 in hashes.items():
                execute("INSERT INTO written VALUES (?, ?, ?)", (name, sha256, code))

    def view(self) -> str | None:
        """Return the SELECT of the view `results` in the file, which people read; None if there is none."""
        rows = self._execute("SELECT sql FROM sqlite_schema WHERE (type, name) = ('view', 'results')")
        return str(rows[0][0]).partition(" AS ")[2] if rows else None

    def select(self) -> str:
        """Return the SELECT for a line for each trial that was measured.

        Names that differ in case alone, or are those of figures, get a prefix.
        """
        made = FIGURES if self.plan.bench is None else ALL
        figures = [name for name in made if name not in ("status", "problem", "concurrency")]
        columns, arms, taken = ["point", "seed"], self.plan.arms, {"point", "seed", "arm", *figures}
        if arms:
            cases = " ".join(f"WHEN {number} THEN {_text(name)}" for number, name in enumerate(arms))
            columns.append(f"CASE point {cases} END AS arm")
        else:
            first = self.plan.points[0]
            columns += [_column("points", {"key": key}, _free(short(key, first), "key.", taken)) for key in first]
        columns += [_column("outcomes", {"name": one}, _free(one, "outcome.", taken)) for one in self.own()]
        columns += [_MAKESPAN if name == "makespan" else name for name in figures]
        return f"SELECT {', '.join(columns)} FROM trials WHERE status = 'measured'"  # noqa: S608 - quoted

    def rows(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and the lines of the table of trials, which the view `results` has, too."""
        with self._telling():
            cursor = self._database.execute(f"{self.select()} ORDER BY point, seed")
            return [column[0] for column in cursor.description], cursor.fetchall()


def repeatable(facts: Facts) -> Facts:
    """Return what is on record of a trial without what no two experiments have in common."""
    point, seed, figures, *others = facts
    kept = {name: value for name, value in figures.items() if name not in OF_ITS_OWN}
    if kept["turn"] is None:  # no bench
        kept = {name: value for name, value in kept.items() if name not in TIMES}
    return point, seed, kept, *others  # type: ignore[return-value]  # as many as there were


def _writing_connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=1)


def read_connection(path: Path) -> sqlite3.Connection:
    """Return a connection to a file of results that only reads, and trusts no definition in the file.

    Raises:
        sqlite3.Error: if it cannot be opened.
    """
    whole = "&immutable=1" if is_settled(path) else ""
    database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{whole}", uri=True, isolation_level=None, timeout=1)
    try:
        database.execute("PRAGMA query_only = ON")
        database.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        database.close()
        raise
    return database


def _column(table: str, which: dict[str, str], name: str) -> str:
    same = ["point"] if table == "points" else ["point", "seed"]
    where = [f"t.{one} = trials.{one}" for one in same] + [f"t.{one} = {_text(text)}" for one, text in which.items()]
    return f"(SELECT value FROM {table} AS t WHERE {' AND '.join(where)}) AS {_name(name)}"  # noqa: S608 - quoted


def _free(name: str, prefix: str, taken: set[str]) -> str:
    """Return a name of a column that is not taken, and take it. SQLite ignores case."""
    while name.lower() in taken:
        name = prefix + name
    taken.add(name.lower())
    return name


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
