"""Folds: what events add up to. One pass over the events of a run feeds all of them.

A fold names the topics that it reads. It keeps a bounded amount of data, because a run can have any number of events,
and it trusts none of them: agents can publish any data under topics of their own, and a record can be forged.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

from sim.base.errors import UsageError
from sim.events.event_type import EventData, Malformed
from sim.events.topic import check_pattern, matches
from sim.inspect.viewer.bins import Bins
from sim.record import StoredRun
from sim.record.malformed import MalformedEvents
from sim.record.rows import MOST_TOPICS, Row
from sim.runner.branching import end_of
from sim.runner.recorded import recorded_scenario
from sim.scenario.groups import Groups

Event = Row
Data = EventData | Malformed | None
"""The data of an event as its event type has them; `Malformed`: they are not what the topic requires; None: agents or
host programs publish under the topic, and `event.data` can be anything."""

Add = Callable[[Event, Data], None]
F = TypeVar("F", bound="Fold")


class Fold:
    """What some events of a run add up to.

    A subclass says which `topics` it reads, as patterns (`*` is one word, a final `**` one or more), and defines `add`.

    Args:
        folds: the folds of the run, for what is known before the first event, and for other folds that it needs.

    Raises:
        UsageError: at the definition of a subclass, if it does not name its topics, one of them is no pattern,
            or it does not define `add`.
    """

    topics: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, *, abstract: bool = False, **others: Any) -> None:
        super().__init_subclass__(**others)
        if abstract:
            return
        if not isinstance(getattr(cls, "topics", None), tuple):
            raise UsageError(
                f"the fold {cls.__name__} does not say which topics it reads",
                hint='write topics = ("lead.*",) in the class; () stands for none',
            )
        for pattern in cls.topics:
            check_pattern(pattern)
        if cls.topics and cls.add is Fold.add:
            raise UsageError(f"the fold {cls.__name__} does not define add, which takes in an event")

    def __init__(self, folds: "Folds") -> None:
        self.folds = folds

    def add(self, event: Event, data: Data) -> None:
        """Take in an event of one of the topics. A fold without topics needs none.

        Args:
            event: the event.
            data: its data; `isinstance` says of which event type.
        """

    def finish(self) -> None:
        """Advance to the end of the run, after the last event."""


class Folds:
    """The folds of one run, each made when it is first asked for.

    Args:
        stored: the run. It can still be running, or can have been killed; then it is what is on record now.

    Attributes:
        scenario: the scenario as run; None: there is none, or it is not valid.
        bins: equal parts of the simulated time of the run.
        groups: the groups of its agents.
        part: the index of the part of the event that is being given to the folds.
        malformed: counts the events that do not have the form of their topic.
    """

    def __init__(self, stored: StoredRun) -> None:
        self.stored = stored
        self.scenario = recorded_scenario(stored)
        self.bins = Bins.until(end_of(stored))
        self.groups = Groups(self.scenario)
        self.part = 0
        self.malformed = MalformedEvents()
        self._time_ns = 0
        self._folds: dict[type[Fold], Fold] = {}
        self._adds: dict[str, tuple[Add, ...]] = {}

    def of(self, kind: type[F]) -> F:
        """Return the fold of a class. It gets each event after the folds that it asked for when it was made."""
        fold = self._folds.get(kind)
        if fold is None:
            fold = kind(self)
            self._folds[kind] = fold
            self._adds.clear()
        assert isinstance(fold, kind)
        return fold

    def add(self, event: Event) -> None:
        """Give an event to the folds that read its topic."""
        if event.time_ns != self._time_ns:
            self._time_ns = event.time_ns
            self.part = self.bins.at(event.time_ns)
        adds = self._adds.get(event.topic)
        if adds is None:
            adds = self._readers(event.topic)
        data = event.event
        self.malformed.add(data)
        for add in adds:
            add(event, data)

    def finish(self) -> None:
        """Advance all folds to the end of the run."""
        for fold in self._folds.values():
            fold.finish()

    def read(self) -> Self:
        """Give all events of the run to the folds that have been asked for, advance them to its end, and return this.

        Raises:
            RunError: if the run is damaged.
        """
        for event in self.stored.rows():
            self.add(event)
        self.finish()
        return self

    def _readers(self, topic: str) -> tuple[Add, ...]:
        readers = tuple(
            fold.add
            for fold in self._folds.values()
            if any(pattern == topic or matches(pattern, topic) for pattern in fold.topics)
        )
        if len(self._adds) < MOST_TOPICS:
            self._adds[topic] = readers
        return readers
