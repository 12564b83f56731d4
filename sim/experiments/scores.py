"""The scores of runs: the file in which those of judges are kept, and what all of them say together."""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs

from sim.base.errors import RunError
from sim.experiments.estimate import Estimate, mean_of
from sim.experiments.variance import Cell, Component, components
from sim.record.files import BUSY_SECONDS, failure, private_file

SCORES: Final = "scores.db"
FACTORS: Final = ("judge", "seed", "agent")
QUERY: Final = "query"
"""The judge of a measure that is a query."""

_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS scores (
        measure TEXT, definition TEXT, judge TEXT, agent TEXT, repeat INTEGER, value REAL, option TEXT, answer TEXT,
        error TEXT, tokens INTEGER, cost_micro INTEGER,
        PRIMARY KEY (measure, definition, judge, agent, repeat)
    ) WITHOUT ROWID
"""


@attrs.frozen
class Score:
    """One score.

    Attributes:
        run: the name of the run.
        seed: its seed.
        measure: the name of the measure.
        judge: the tier of the model, or `query`.
        agent: the agent; empty: the whole run.
        repeat: the number of the repetition, from 1.
        value: the number; None if the score is an option, or the answer has none.
        option: the option.
        answer: the text of the judge.
        error: why there is no value; None if nothing is missing.
        tokens, cost_micro: what the answer took.
    """

    run: str
    seed: int
    measure: str
    judge: str
    agent: str
    repeat: int = 1
    value: float | None = None
    option: str | None = None
    answer: str | None = None
    error: str | None = None
    tokens: int = 0
    cost_micro: int = 0


class ScoreBook:
    """The scores of one run by judges, in its folder. Close it, or use it as a context manager.

    Args:
        folder: the run folder.

    Raises:
        RunError: if the file cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / SCORES
        with contextlib.ExitStack() as opened:
            try:
                with contextlib.suppress(FileExistsError):
                    private_file(self._path)
                self._database = sqlite3.connect(self._path, isolation_level=None, timeout=BUSY_SECONDS)
                opened.callback(self._database.close)
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute(_TABLE)
            except (sqlite3.Error, OSError) as error:
                raise failure(self._path, error) from error
            opened.pop_all()

    def scores(self, run: str, seed: int, measure: str, definition: str) -> dict[tuple[str, str, int], Score]:
        """Return the scores of a measure by judge, agent and repetition.

        Args:
            run, seed: those of the run, for the scores.
            measure: the name of the measure.
            definition: the hash of its definition; scores by another definition do not count.
        """
        columns = "judge, agent, repeat, value, option, answer, error, tokens, cost_micro"
        sql = f"SELECT {columns} FROM scores WHERE measure = ? AND definition = ?"  # noqa: S608 - constant
        try:
            rows = self._database.execute(sql, (measure, definition)).fetchall()
        except sqlite3.Error as error:
            raise failure(self._path, error) from error
        for row in rows:
            if not isinstance(row[3], float | None):
                raise RunError(f"{self._path} is damaged: a score is {row[3]!r:.40}", hint="remove it, and score again")
        return {row[:3]: Score(run, seed, measure, *row) for row in rows}

    def add(self, definition: str, score: Score) -> None:
        """Keep a score."""
        values = attrs.astuple(score)[3:]
        marks = ", ".join("?" * (len(values) + 2))
        try:
            self._database.execute(
                f"INSERT OR REPLACE INTO scores VALUES ({marks})",  # noqa: S608 - marks
                (score.measure, definition, *values),
            )
        except sqlite3.Error as error:
            raise failure(self._path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@attrs.frozen
class ScoreSummary:
    """What the scores of one measure by one judge say.

    Attributes:
        measure, judge: what it is about.
        runs, agents: how many of them have a value or an option.
        missing: how many scores have neither.
        mean: the mean; over runs if there are several, else over agents. None for options.
        options: how often each option was chosen.
    """

    measure: str
    judge: str
    runs: int
    agents: int
    missing: int
    mean: Estimate | None
    options: Mapping[str, int]


def summaries(scores: Iterable[Score], options: Mapping[str, Sequence[str]]) -> list[ScoreSummary]:
    """Return what scores say, by measure and judge.

    Args:
        scores: the scores.
        options: the options of each measure.
    """
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.measure, score.judge), []).append(score)
    return [_summary(name, judge, own, options[name]) for (name, judge), own in groups.items()]


def _summary(name: str, judge: str, scores: Sequence[Score], options: Sequence[str]) -> ScoreSummary:
    chosen = Counter(score.option for score in scores if score.option is not None)
    by_run: dict[str, dict[str, list[float]]] = {}
    for score in scores:
        if score.value is not None:
            by_run.setdefault(score.run, {}).setdefault(score.agent, []).append(score.value)
    units = [mean_of([mean_of(values) for values in own.values()]) for own in by_run.values()]
    if len(by_run) == 1:
        units = [mean_of(values) for own in by_run.values() for values in own.values()]
    scored = [score for score in scores if score.value is not None or score.option is not None]
    runs, agents = (len(set(own)) for own in ([one.run for one in scored], [one.agent for one in scored]))
    return ScoreSummary(
        measure=name,
        judge=judge,
        runs=runs,
        agents=agents,
        missing=len(scores) - len(scored),
        mean=Estimate.of(units),
        options={option: chosen[option] for option in options},
    )


def split(scores: Iterable[Score]) -> dict[str, list[Component]]:
    """Return the variance components of each measure: judges, seeds (runs), agents, and the rest."""
    cells: dict[str, dict[Cell, list[float]]] = {}
    for score in scores:
        if score.value is not None:
            own = cells.setdefault(score.measure, {})
            own.setdefault((score.judge, score.run, score.agent), []).append(score.value)
    by_measure = {}
    for name, own in cells.items():
        with contextlib.suppress(OverflowError):  # the squares of such scores are no floats
            by_measure[name] = components(own, FACTORS)
    return {name: parts for name, parts in by_measure.items() if parts}
