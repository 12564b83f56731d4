"""The results of an experiment: an SQLite file to which each trial is written as soon as it is done.

Tables: `plan` (as JSON), `points` (point, key, value), `trials` (point, seed, figures), `outcomes` (point, seed, name,
value), `reached` (point, seed, agent, seconds), of arms. The view `results` has one line for each trial that was
measured, with columns for varied keys, or the name of the arm, and outcomes.
"""

import contextlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from sim.errors import RunError, UsageError
from sim.experiments.measure import Measured
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.experiments.recorded import RUNS, remove_others, remove_replaced
from sim.store.files import failure, private_file

FILE: Final = "results.db"

FIGURES: Final = (
    "status", "problem", "hash", "wall_seconds", "cpu_seconds", "sim_seconds", "stopped_by", "agents", "iterations",
    "actions", "events", "errors", "calls", "input_tokens", "output_tokens", "reused", "run",
)  # fmt: skip
"""The columns of `trials`, after `point` and `seed`."""

_TEXTS: Final = ("status", "problem", "hash", "stopped_by", "run")
_TABLES: Final = f"""
    CREATE TABLE plan (text TEXT NOT NULL);
    CREATE TABLE points (point INTEGER, key TEXT, value NUMERIC, PRIMARY KEY (point, key)) WITHOUT ROWID;
    CREATE TABLE trials (
        point INTEGER, seed INTEGER, {", ".join(f"{n} {'TEXT' if n in _TEXTS else 'NUMERIC'}" for n in FIGURES)},
        PRIMARY KEY (point, seed)
    ) WITHOUT ROWID;
    CREATE TABLE outcomes (
        point INTEGER, seed INTEGER, name TEXT, value REAL, own INTEGER, PRIMARY KEY (point, seed, name)
    ) WITHOUT ROWID;
    CREATE TABLE reached (
        point INTEGER, seed INTEGER, agent TEXT, seconds REAL, PRIMARY KEY (point, seed, agent)
    ) WITHOUT ROWID;
"""


class Results:
    """The results of one experiment. Only one process can have them open.

    Args:
        folder: the folder of the experiment.
        plan: the plan, for new results; None: they exist.

    Raises:
        UsageError: if there are none, another process writes them, or they exist already.
        RunError: if the file is damaged or cannot be written.
    """

    def __init__(self, folder: Path, plan: Plan | None = None) -> None:
        path = folder / FILE
        if (plan is None) != path.exists():
            where = f"{folder} already contains {FILE}" if plan is not None else f"there is no experiment in {folder}"
            raise UsageError(where, hint="choose another folder" if plan is not None else f"it has a file {FILE}")
        with contextlib.ExitStack() as opened:
            try:
                if plan is not None:
                    private_file(path)
                    opened.callback(_remove, path)
                self._database = sqlite3.connect(path, isolation_level=None, timeout=1)
                opened.callback(self._database.close)
                text = self._begin(path, plan)
            except (sqlite3.Error, OSError) as error:
                if "locked" in str(error):
                    raise UsageError(f"another process writes {path}", hint="wait until it has ended") from error
                raise failure(path, error) from error
            self.plan = Plan.from_json(text)
            opened.pop_all()
        self.folder = folder
        self._runs = folder.resolve() / RUNS  # an agent may change the current folder

    def _begin(self, path: Path, plan: Plan | None) -> str:
        """Lock the file, make its tables if it is new, and return the plan that it has."""
        execute = self._database.execute
        path.chmod(0o600)
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing; a power cut the last trials
        execute("BEGIN IMMEDIATE")
        if plan is not None:
            self._create(plan)
        execute("COMMIT")
        self._check_layout(path)
        plans = execute("SELECT text FROM plan").fetchall()
        if len(plans) != 1:
            raise RunError(f"{path} is damaged: it has {len(plans)} plans, not one")
        return str(plans[0][0])

    def _check_layout(self, path: Path) -> None:
        """Check that the tables are those of this version.

        Raises:
            RunError: if they are not.
        """
        sql = "SELECT m.name, t.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS t WHERE m.type = 'table'"
        with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
            fresh.executescript(_TABLES)
            if set(fresh.execute(sql)) != set(self._database.execute(sql)):
                hint = "carry out its plan again: sim sweep --plan plan.json"
                raise RunError(f"{path} has other tables than this version of sim writes", hint=hint)

    def _create(self, plan: Plan) -> None:
        for statement in _TABLES.split(";"):
            self._database.execute(statement)
        self._database.execute("INSERT INTO plan VALUES (?)", (json.dumps(plan.to_json()),))
        pairs = ((number, *pair) for number, point in enumerate(plan.points) for pair in point.items())
        self._database.executemany("INSERT INTO points VALUES (?, ?, ?)", pairs)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def remove(self) -> None:
        """Close and remove the file, of an experiment that cannot begin."""
        self.close()
        _remove(self.folder / FILE)

    def add(self, found: Sequence[Measured]) -> None:
        """Write the trials of a job; those with the same combination and seed are replaced, with their run folders."""
        sql = "SELECT run FROM trials WHERE point = ? AND seed = ?"
        before = {run for one in found for (run,) in self._execute(sql, (one.trial.point, one.trial.seed))}
        with self._transaction() as execute:
            for measured in found:
                self._add(execute, measured)
        remove_replaced(self.plan, self._runs, before - {one.trial.run for one in found} - {None})

    @contextlib.contextmanager
    def tidied(self) -> Iterator[None]:
        """Remove the run folders that no trial has any more, before and after trials are under way."""
        self._tidy()
        try:
            yield
        finally:
            self._tidy()

    def _tidy(self) -> None:
        if self.plan.record:
            remove_others(self.plan, self._runs, {run for (run,) in self._execute("SELECT run FROM trials")})

    def _add(self, execute: Callable[..., object], measured: Measured) -> None:
        trial = measured.trial
        where = trial.point, trial.seed
        figures = attrs.asdict(trial, recurse=False)
        marks = ", ".join("?" * (len(FIGURES) + 2))
        values = (*where, *(figures[name] for name in FIGURES))
        execute(f"INSERT OR REPLACE INTO trials VALUES ({marks})", values)  # noqa: S608 - marks
        for table in ("outcomes", "reached"):
            execute(f"DELETE FROM {table} WHERE point = ? AND seed = ?", where)  # noqa: S608 - constants
        self._database.executemany(
            "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?)",
            ((*where, name, value, name in trial.own) for name, value in trial.outcomes.items()),
        )
        reached = ((*where, agent, seconds) for agent, seconds in measured.reached.items())
        self._database.executemany("INSERT INTO reached VALUES (?, ?, ?, ?)", reached)

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

    def problems(self) -> list[tuple[int, int, str]]:
        """Return the combination, the seed and the problem of each trial that failed."""
        where = "status <> 'measured' ORDER BY point, seed"
        return self._execute(f"SELECT point, seed, problem FROM trials WHERE {where}")  # noqa: S608

    def own(self) -> list[str]:
        """Return the outcomes that the scenario itself defines, in alphabetical order."""
        return [name for (name,) in self._execute("SELECT DISTINCT name FROM outcomes WHERE own ORDER BY 1")]

    def values(self, names: list[str]) -> Iterator[tuple[int, int, str, float]]:
        """Yield combination, seed, name and value of some outcomes of all trials that were measured and have a value.

        Raises:
            RunError: if the file has a value that is no number.
        """
        marks = ", ".join("?" * len(names))
        sql = f"""
            SELECT point, seed, name, value FROM outcomes JOIN trials USING (point, seed)
            WHERE status = 'measured' AND name IN ({marks}) AND value IS NOT NULL ORDER BY point, seed
        """  # noqa: S608 - marks
        for point, seed, name, value in self._execute(sql, names):
            yield point, seed, name, self._number(value, f"the outcome {name}", point, seed)

    def without_value(self) -> list[tuple[str, int, int]]:
        """Return the outcomes without a value in some of the trials that were measured: name, in how many, of all."""
        return self._execute("""
            SELECT name, count(*) - count(value), count(*) FROM outcomes JOIN trials USING (point, seed)
            WHERE status = 'measured' GROUP BY name HAVING count(value) < count(*) ORDER BY name
        """)

    def names(self) -> list[str]:
        """Return the names of all outcomes, in alphabetical order."""
        return [name for (name,) in self._execute("SELECT DISTINCT name FROM outcomes ORDER BY 1")]

    def failing(self) -> list[tuple[int, int, str]]:
        """Return combination, seed and commonest error of each trial in which iterations of agents failed."""
        where = "status = 'measured' AND errors > 0 ORDER BY point, seed"
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
        hint = "remove that line of `trials`, and go on with: sim sweep --resume FOLDER"
        raise RunError(f"{self.folder / FILE} is damaged: {where} is {value!r:.60}, not a number", hint=hint)

    def calls(self) -> tuple[int, int]:
        """Return the number of calls of models, and how many of their answers another trial had asked for."""
        ((calls, reused),) = self._execute("SELECT total(calls), total(reused) FROM trials")
        return int(calls), int(reused)

    def finish(self) -> None:
        """Make the view `results`. Names that differ in case alone, or are those of figures, get a prefix."""
        figures = [name for name in FIGURES if name not in ("status", "problem")]
        columns, arms, taken = ["point", "seed"], self.plan.arms, {"point", "seed", "arm", *figures}
        if arms:
            cases = " ".join(f"WHEN {number} THEN {_text(name)}" for number, name in enumerate(arms))
            columns.append(f"CASE point {cases} END AS arm")
        else:
            first = self.plan.points[0]
            columns += [_column("points", {"key": key}, _free(short(key, first), "key.", taken)) for key in first]
        columns += [_column("outcomes", {"name": one}, _free(one, "outcome.", taken)) for one in self.own()]
        columns += figures
        self._execute("DROP VIEW IF EXISTS results")
        self._execute(
            f"CREATE VIEW results AS SELECT {', '.join(columns)} FROM trials WHERE status = 'measured'"  # noqa: S608
        )

    def rows(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and the lines of the view `results`."""
        with self._telling():
            cursor = self._database.execute("SELECT * FROM results ORDER BY point, seed")
            return [column[0] for column in cursor.description], cursor.fetchall()


def _remove(path: Path) -> None:
    """Remove an SQLite file, with what SQLite leaves beside it if the disk is full."""
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


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
