"""Tasks of attribution: futures of one moment of a run, with what is other than on record, and their outcomes."""

import json
from typing import Any, Final, Protocol

import attrs

from sim.base.errors import SimError
from sim.experiments.attribution.target import ExplainedOutcome, Watched
from sim.experiments.pool import Deadline
from sim.kernel.codec import encode, recordable
from sim.record.reader import StoredRun
from sim.runner.options import ReplayOptions
from sim.runner.plain import PlainRun, StepMoment
from sim.world.edits import Edit


@attrs.frozen
class FutureChange:
    """What is other in a future than on record.

    Attributes:
        without: messages and published events that do not arrive.
        values: live values that are set, by key.
        paused: agents that are paused for good.
        dropped: interventions of the scenario that are not carried out, by their places.
    """

    without: tuple[Edit, ...] = ()
    values: tuple[tuple[str, Any], ...] = ()
    paused: tuple[str, ...] = ()
    dropped: tuple[int, ...] = ()

    def joined(self, other: "FutureChange") -> "FutureChange":
        """Return both changes as one."""
        return FutureChange(
            self.without + other.without,
            self.values + other.values,
            self.paused + other.paused,
            self.dropped + other.dropped,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON-like mapping."""
        return {
            "without": [one.to_json() for one in self.without],
            "values": list(map(list, self.values)),
            "paused": list(self.paused),
            "dropped": list(self.dropped),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "FutureChange":
        """Return the change that a mapping describes."""
        values = tuple((key, value) for key, value in data["values"])
        return cls(tuple(map(Edit.from_json, data["without"])), values, tuple(data["paused"]), tuple(data["dropped"]))


MOST_SHOWN: Final = 200
"""The most events, and the most state variables, of a passage."""

_LONGEST: Final = 1000
"""Bytes of a text of a passage, as a string of JSON: so a line of four of them is written to a pipe as one."""

SAME: Final = FutureChange()
"""No change."""


@attrs.frozen
class FuturesTask:
    """Futures of one moment.

    Attributes:
        moment: where they begin.
        seeds: the seed of the draws of each; None: the draws on record.
        change: what is other than on record.
        through: the time and the number of an event, up to which the draws are those on record: else what is left out
            at the moment would not happen. None: the draws are new from the moment on.
    """

    moment: StepMoment
    seeds: tuple[int | None, ...]
    change: FutureChange = SAME
    through: tuple[int, int] | None = None


@attrs.frozen
class Future:
    """The result of one future.

    Attributes:
        value: the value of the target; None: it is not known.
        problem: why not.
    """

    value: float | None
    problem: str | None = None


LATE: Final = Future(None, "it did not begin before the time limit")
"""Stands for a future that was not carried out because the deadline had passed."""


@attrs.frozen
class EventBetween:
    """An event between two moments.

    Attributes:
        number: its number in the record.
        time_ns: when it happened, in simulated nanoseconds.
        actor, topic: the agent and the topic.
        text: its data in a few words.
    """

    number: int
    time_ns: int
    actor: str
    topic: str
    text: str


@attrs.frozen
class Assigned:
    """A state variable of an agent that has another value at the later of two moments.

    Attributes:
        agent, key: the agent and the variable.
        before, after: its values, as text; before is None if it did not exist.
    """

    agent: str
    key: str
    before: str | None
    after: str


@attrs.frozen
class Passage:
    """What happened between two moments.

    Attributes:
        events: the events, at most `MOST_SHOWN`.
        assigned: the state variables that have changed, at most as many.
    """

    events: tuple[EventBetween, ...]
    assigned: tuple[Assigned, ...]


@attrs.frozen
class RunSetup:
    """What processes need to build a run again.

    Attributes:
        run: its folder.
        again: the options of the replay.
        target: what is measured.
    """

    run: str
    again: ReplayOptions
    target: ExplainedOutcome


@attrs.frozen
class Own:
    """What is known of the run itself, once it has been repeated.

    Attributes:
        future: its outcome.
        seconds: the CPU seconds of its replay.
        patterns: the patterns of topics to which anything listened.
    """

    future: Future
    seconds: float = 0.0
    patterns: tuple[str, ...] = ()


class Futures(Protocol):
    """Carries out tasks. All of them give the same futures.

    Attributes:
        within: whether futures can begin within an instant.
        carried_out: how many futures have been carried out.
        way: how, in a few words.
        own: the outcome of the run itself.
        seconds: the CPU seconds of its replay.
        patterns: the patterns of topics to which anything listened in the run.
        deadline: when no more futures begin.
    """

    within: bool
    carried_out: int
    way: str
    own: Future
    seconds: float
    patterns: tuple[str, ...]
    deadline: Deadline

    def values(self, tasks: "list[FuturesTask]") -> list[list[Future]]:
        """Return the outcomes of the futures of each task, in the order of its seeds; `LATE` if one did not begin."""

    def steps(self, time_ns: int) -> int:
        """Return how many steps an instant has."""

    def between(self, first: StepMoment, last: StepMoment) -> Passage:
        """Return what happened between two moments."""

    def close(self) -> None:
        """End all processes."""


def _text(value: object) -> str:
    try:
        return encode(recordable(value, "")).decode()
    except SimError:  # an object of an agent in Python
        return type(value).__name__


def short(text: str, most: int = _LONGEST) -> str:
    """Return the beginning of a text that has at most a number of bytes as a string of JSON."""
    text = text[:most]
    while len(json.dumps(text)) > most:
        text = text[: len(text) * 3 // 4]
    return text


class Prepared:
    """A plain run that is watched for a target."""

    def __init__(self, stored: StoredRun, setup: RunSetup) -> None:
        self.watched: Watched = setup.target.watch()
        self.run = PlainRun(stored, setup.again, self.watched)
        self._target = setup.target

    def passage(self, first: StepMoment, last: StepMoment) -> Passage:
        """Go from a moment to a later one, and return what happened."""
        run = self.run
        run.to(first)
        number, before = run.events, run.states()
        rows = run.noted(lambda: run.to_next(first, last))
        noted = [
            EventBetween(number + place + 1, row[0], short(row[5]), short(row[6]), short(_text(row[7])))
            for place, row in enumerate(rows[:MOST_SHOWN])
        ]
        assigned = [
            Assigned(short(agent), short(key), None if key not in old else short(_text(old[key])), short(_text(value)))
            for agent, state in run.states().items()
            for old in (before.get(agent, {}),)
            for key, value in state.items()
            if key not in old or old[key] != value
        ]
        return Passage(tuple(noted), tuple(assigned[:MOST_SHOWN]))

    def future(
        self, seed: int | None, change: FutureChange, through: tuple[int, int] | None = None, *, quick: bool = True
    ) -> Future:
        """Run to the end from here, and return its outcome; see `FuturesTask`."""
        run = self.run
        run.edit(change.without)
        if change.values:
            run.change(dict(change.values))
        run.pause(change.paused)
        run.drop(change.dropped)
        if through is not None:
            run.through(*through)
        if seed is not None:
            run.reseed(seed)
        value = self._target.value(run.finish(quick=quick), self.watched)
        return Future(value, None if value is not None else "it does not show the outcome")
