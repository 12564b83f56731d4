"""The event bus of a world that is divided into islands.

An event is heard at once where it is published, and on other islands only if its topic has a latency for them, and then
that much later. Each island remembers its own events, so what an agent hears, and when, depends on its island alone.
"""

from collections import deque
from collections.abc import Callable, Collection
from typing import Final, cast

from sim.events.bus import DEFAULT_LIMIT, BusStatistics, DropPolicy, EventBus, Filter, Past, Subscription
from sim.events.event import Event
from sim.kernel import Kernel, Source

_ALONE: Final = cast(tuple[Subscription, ...], (None,))
"""Stands for no subscribers: `_deliver` must be called for them as well, so that islands remember the event."""

_Recent = dict[str, deque[Past]]


class IslandBus(EventBus):
    """The bus of a world with islands.

    Args:
        kernel: see `EventBus`.
        islands: the names of the islands.
        home: returns the island of a source that publishes or subscribes under a topic, or None for one outside all
            islands: what it publishes is heard on all islands at once, and it hears all of them at once.
        of_agent: returns the island of an agent by its id.
        latency: returns after how many nanoseconds other islands hear of a topic; None: never.

    Attributes:
        local: the islands that run in this process.
        away: called with an event that is heard on other islands, and the time at which, if some of them run in other
            processes.
    """

    __slots__ = ("_home", "_islands", "_latency", "_of_agent", "_recents", "_where", "away", "local")

    def __init__(
        self,
        kernel: Kernel,
        islands: Collection[str],
        home: Callable[[Source, str], str | None],
        of_agent: Callable[[str], str | None],
        latency: Callable[[str], int | None],
    ) -> None:
        super().__init__(kernel)
        self.away: Callable[[Event, int], None] | None = None
        self._home = home
        self._of_agent = of_agent
        self._latency = latency
        self._where: dict[Subscription, str | None] = {}
        self._recents: dict[str | None, _Recent] = {}
        self.divide(tuple(islands))

    def divide(self, islands: tuple[str, ...]) -> None:
        """Say which islands there are, all of which run in this process. To be called before anything happens."""
        self._islands = self.local = islands
        self._recents = {name: {} for name in (*islands, None)}

    def publish(self, topic: str, data: object = None) -> Event:
        """See `EventBus`; the event is kept for the island where it is published."""
        self._recent = self._recents[self._home(self.kernel.current or self.kernel.acting(), topic)]
        return super().publish(topic, data)

    def subscribe(
        self,
        pattern: str,
        *,
        limit: int = DEFAULT_LIMIT,
        policy: DropPolicy = "drop_oldest",
        filter: Filter | None = None,
        callback: Callable[[Event], None] | None = None,
    ) -> Subscription:
        """See `EventBus`; the subscription hears what is heard on the island of the subscriber."""
        subscription = super().subscribe(pattern, limit=limit, policy=policy, filter=filter, callback=callback)
        current = self.kernel.current
        self._where[subscription] = None if current is None else self._home(current, "")
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """See `EventBus`."""
        super().unsubscribe(subscription)
        self._where.pop(subscription, None)

    def missed_event(self, agent_id: str, pattern: str, filter: Filter | None = None) -> Event | None:
        """See `EventBus`; only what was heard on the island of the agent counts."""
        self._recent = self._recents[self._of_agent(agent_id)]
        return super().missed_event(agent_id, pattern, filter)

    def overtaken(self, agent_id: str, pattern: str) -> bool:
        """See `EventBus`; only what was heard on the island of the agent counts."""
        self._recent = self._recents[self._of_agent(agent_id)]
        return super().overtaken(agent_id, pattern)

    def statistics(self) -> BusStatistics:
        """See `EventBus`; an event counts once, on however many islands it is heard."""
        statistics = super().statistics()
        return BusStatistics(sum(self.counts.values()), *(getattr(statistics, name) for name in _OTHERS))

    def _gather(self, topic: str) -> tuple[Subscription, ...]:
        audience = self._audience[topic] = super()._gather(topic) or _ALONE
        return audience

    def _deliver(self, event: Event, audience: tuple[Subscription, ...]) -> None:
        source, topic = self.kernel.acting(), event.topic
        here, latency = self._home(source, topic), self._latency(topic)
        if here is None:
            for island in self._islands:
                self._remember(island, event)
        elif latency is not None:
            due = self.kernel.now + latency
            if any(island != here for island in self.local):
                source.counter -= 1  # the arrival has the counter of the event: counters must not tell who hears it
                by = self.kernel.source_for(here, "arrival")
                self.kernel.call_for(by, due, lambda: self.arrive(event, here), source)
            if self.away is not None:
                self.away(event, due)
        for island in self.local if here is None else (here,):  # one after the other, as if each had a process
            super()._deliver(event, self._among(audience, island))
        super()._deliver(event, self._among(audience, None))

    def _among(self, audience: tuple[Subscription, ...], island: str | None) -> tuple[Subscription, ...]:
        """Return the subscriptions of an island, or with None those outside all islands."""
        return () if audience is _ALONE else tuple(s for s in audience if self._where.get(s) == island)

    def arrive(self, event: Event, sent_from: str) -> None:
        """Let all other islands of this process hear an event. What it causes there, a source of that island causes."""
        kernel, topic = self.kernel, event.topic
        audience = self._audience.get(topic) or self._gather(topic)
        for island in self.local:
            if island == sent_from:
                continue
            by = kernel.source_for(island, "arrival")
            with kernel.acting_as(by):
                self.sequence += 1  # later than the marks of all iterations that are under way there
                heard = Event(self.sequence, event.time, event.source, topic, event.raw, event.identity)
                self._remember(island, heard)
                by.counter = counter = by.counter + 1
                mark = len(kernel.ready)
                super()._deliver(heard, self._among(audience, island))
                kernel.wake_as_one(mark, by, counter)

    def _remember(self, island: str, event: Event) -> None:
        self._recent = self._recents[island]
        recent = self._recent.get(event.topic)
        if recent is None:
            recent = self._begin_recent(event.topic)
        recent.append((event.sequence, event.time, event.source, event.raw, event.identity))

    def _tidy(self) -> None:
        at = self._tidy_at
        for recent in self._recents.values():
            self._recent = recent
            super()._tidy()
            at = max(at, self._tidy_at)
        self._tidy_at = at


_OTHERS: Final = ("delivered", "dropped", "failed_filters", "subscriptions")
