"""Counts of events by topic, for each part of a run, and of actions by kind and outcome."""

from collections.abc import Sequence

from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.kernel.codec import JsonObject
from sim.world.events import ActionTaken

_TOPICS = 12
"""The most topics with their own line; the rest is one line."""

_KINDS = 10_000
"""The most topics that are counted separately. There must be a bound, because agents can invent topics."""

REST = "(others)"


class Events(Section):
    """Counts events and actions.

    Attributes:
        total: the number of events.
        actions: by kind, how many were done and how many refused.
    """

    title = "Events and actions"
    place = 40
    topics = ("**",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.total = 0
        self.actions: dict[str, list[int]] = {}
        self._counts: dict[str, list[int]] = {}

    def add(self, event: Event, data: Data) -> None:
        """Count an event."""
        self.total += 1
        topic = event.topic
        counts = self._counts.get(topic)
        if counts is None:
            if len(self._counts) >= _KINDS:
                topic = REST
            counts = self._counts.setdefault(topic, self.folds.bins.zeros())
        counts[self.folds.part] += 1
        if isinstance(data, ActionTaken):
            done = self.actions.setdefault(event.topic[7:], [0, 0])
            done[not data.success] += 1

    def to_json(self) -> Json:
        """Return the most frequent topics with their counts, the sum of the rest, and the kinds of action."""
        if not self.total:
            return None
        return {"topics": self._topics(), "actions": self._kinds()}

    def _topics(self) -> Sequence[JsonObject]:
        ordered = sorted(self._counts.items(), key=lambda item: (-sum(item[1]), item[0]))
        shown, rest = ordered[:_TOPICS], ordered[_TOPICS:]
        topics: list[JsonObject] = [{"name": name, "total": sum(counts), "counts": counts} for name, counts in shown]
        if rest:
            counts = [sum(column) for column in zip(*(counts for _, counts in rest), strict=True)]
            topics.append({"name": f"{len(rest)} others", "total": sum(counts), "counts": counts})
        return topics

    def _kinds(self) -> Sequence[JsonObject]:
        ordered = sorted(self.actions.items(), key=lambda item: (-sum(item[1]), item[0]))
        return [{"kind": kind, "done": done, "refused": refused} for kind, (done, refused) in ordered]
