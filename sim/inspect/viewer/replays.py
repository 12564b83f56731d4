"""Replays of the run that a page shows: the state at any moment, and what led to an event.

Two processes answer, each with its own replay, which begins with the first question to it. They are made before the
server has threads, and wait. What a replay costs is a question of its own, which the page asks first.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import SimError, UsageError
from sim.kernel import to_ns
from sim.kernel.codec import Json, JsonObject
from sim.record import open_run
from sim.runner.branching import end_of
from sim.runner.causes import Traces
from sim.runner.checkpoints import Moments
from sim.runner.moment import HEADINGS, Moment
from sim.runner.moment_text import ahead_of, cut, facts_of, lists_of, shared_of, text_of
from sim.runner.moments import ReplayCost
from sim.runner.options import ReplayOptions

OF_TRACES: Final = ("trace_cost", "causes", "influence")
"""The questions that the process with the trace answers; the other process answers the others, each one at a time."""

_LONG: Final = 300  # characters of a text in a row of all agents
_LONGEST: Final = 10_000  # of the state of what agents share, and of a text of one agent
_STEPS: Final = 20  # of the causes of an event, if the page does not say how many
_MOST_STEPS: Final = 500  # of these, as many as a document can have
_ALL: Final = "sim show RUN state --json has all"


class Replays:
    """Answers the questions of a page that replays of its run can answer.

    Args:
        run: the folder of the run.
        options: see `ReplayOptions`.
    """

    def __init__(self, run: Path, options: ReplayOptions) -> None:
        self._run = run
        self._moments, self._traces = Moments(run, options), Traces(run, options)
        self._latest: tuple[str, Moment] | None = None
        self._moments.begin()
        self._traces.begin()

    def close(self) -> None:
        """End the processes."""
        self._moments.close()
        self._traces.close()

    def answer(self, what: str, asked: Mapping[str, str]) -> dict[str, Json] | None:
        """Return the answer to a question, or None if there is no such question. An error is an answer.

        Only one thread may ask the same process at a time.

        Args:
            what: `cost`, `ahead`, `moment`, `trace_cost`, `causes` or `influence`.
            asked: `t` (simulated seconds) or `event` (a number): where; `agent`: of whom; `most`: how many steps, up to
                500.
        """
        question = {
            "cost": self._cost,
            "ahead": self._ahead,
            "moment": self._moment,
            "trace_cost": self._trace_cost,
            "causes": self._causes,
            "influence": self._influence,
        }.get(what)
        if question is None:
            return None
        try:
            return question(asked)
        except SimError as error:
            return {"error": str(error), "hint": error.hint}

    def _cost(self, _: Mapping[str, str]) -> dict[str, Json]:
        return _fields_of(self._moments.cost())

    def _ahead(self, _: Mapping[str, str]) -> dict[str, Json]:
        made, total = self._moments.ahead()
        return {"made": made, "total": total}

    def _moment(self, asked: Mapping[str, str]) -> dict[str, Json]:
        moment = self._at(asked)
        shown: dict[str, Json] = {"time": moment.time, "events": moment.events, "ended": moment.ended}
        if "agent" in asked:
            name = asked["agent"]
            one = moment.agent(name)
            lists: list[JsonObject] = [
                attrs.asdict(each) | {"rows": _cut(each.rows, _LONGEST)} for each in lists_of(one)
            ]
            return shown | {"facts": _cut(facts_of(name, one), _LONGEST), "lists": lists}
        rows = _cut(moment.rows(), _LONG)
        shared = _cut([(name, text_of(value)) for name, value in shared_of(moment)], _LONGEST)
        return shown | {"headings": HEADINGS, "rows": rows, "shared": shared, "ahead": attrs.asdict(ahead_of(moment))}

    def _at(self, asked: Mapping[str, str]) -> Moment:
        """Return the moment that is asked for: what is due at its time has happened, as everywhere on the page."""
        key = f"event {asked['event']}" if "event" in asked else f"t {asked.get('t')}"
        if self._latest is None or self._latest[0] != key:
            if "event" in asked:
                moment = self._moments.at_event(_event(asked))
            else:
                with open_run(self._run, verify=False) as stored:
                    end = end_of(stored)
                moment = self._moments.at(f"{min(to_ns(_seconds(asked)) + 1, end)}ns")
            self._latest = (key, moment)
        return self._latest[1]

    def _trace_cost(self, _: Mapping[str, str]) -> dict[str, Json]:
        return _fields_of(self._traces.cost())

    def _causes(self, asked: Mapping[str, str]) -> dict[str, Json]:
        most = _number(asked.get("most", str(_STEPS)))
        if not 1 <= most <= _MOST_STEPS:
            raise UsageError(
                f"a page shows 1 to {_MOST_STEPS} steps, not {most}", hint="sim show RUN causes EVENT --limit 0 has all"
            )
        return self._traces.causes(_event(asked), most)

    def _influence(self, asked: Mapping[str, str]) -> dict[str, Json]:
        return self._traces.influence(_event(asked))


def _fields_of(cost: ReplayCost) -> dict[str, Json]:
    return {**attrs.asdict(cost), "seconds": max(1, round(cost.seconds))}


def _cut(rows: Iterable[Sequence[Any]], most: int) -> list[list[Json]]:
    return [[cut(cell, most, _ALL) if isinstance(cell, str) else cell for cell in row] for row in rows]


def _event(asked: Mapping[str, str]) -> int:
    return _number(asked.get("event", ""))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UsageError(f"a whole number is needed, not {text!r:.60}")
    return int(text)


def _seconds(asked: Mapping[str, str]) -> float:
    try:
        return float(asked.get("t", ""))
    except ValueError:
        raise UsageError(f"a time is given in seconds, not as {asked.get('t', '')!r:.60}") from None
