"""The event bus: carries what happened to whoever subscribed to its topic.

A publisher never runs a subscriber: an event is put into each subscription's bounded queue, and who waits there is
woken at the same instant, next delta, in the order of subscription. A mailbox carries what is addressed, the bus what
happened; an event never commands.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import attrs

from sim.errors import UsageError
from sim.events.event import Event
from sim.events.topic import check_pattern, check_topic, matches
from sim.kernel import Kernel, Queue
from sim.kernel.codec import Raw, encode

DropPolicy = Literal["drop_oldest", "drop_newest"]

RECENT = 4096
"""Events that are remembered for agents that decide to sleep while others publish."""

DEFAULT_LIMIT = 1000
"""Events that a subscription holds."""

_TOPICS = 65536  # whose matching patterns are remembered

Filter = Callable[[Event], bool]


@attrs.frozen
class BusStatistics:
    """Counts since the start: events published, put into subscriptions, dropped from full ones, failed filters."""

    published: int
    delivered: int
    dropped: int
    failed_filters: int
    subscriptions: int


class Subscription:
    """A bounded queue of events that match a pattern; a wait of the kernel (`get`, and a part of `first_of`)."""

    __slots__ = ("_bus", "callback", "dropped", "filter", "number", "pattern", "policy", "queue")

    def __init__(
        self,
        bus: "EventBus",
        pattern: str,
        limit: int,
        policy: DropPolicy,
        filter: Filter | None,
        callback: Callable[[Event], None] | None,
    ) -> None:
        self._bus = bus
        self.number = bus.next_number()
        self.pattern = pattern
        self.policy: DropPolicy = policy
        self.filter = filter
        self.callback = callback
        self.dropped = 0
        self.queue = Queue(bus.kernel, limit)

    def __len__(self) -> int:
        return len(self.queue)

    async def get(self) -> Event:
        """Wait for the next event.

        Raises:
            ClosedError: if the subscription was cancelled.
        """
        event: Event = await self.queue.get()
        return event

    def take(self) -> Event | None:
        """Return the next event, or None."""
        return self.queue.take() if len(self.queue) else None

    def cancel(self) -> None:
        """End the subscription; who waits on it is answered with `ClosedError`."""
        self._bus.unsubscribe(self)

    def offer(self, event: Event) -> bool:
        """Take an event that matches; return False if it, or the oldest one, was dropped."""
        if self.callback is not None:
            self.callback(event)
            return True
        if self.queue.put_nowait(event):
            return True
        self.dropped += 1
        if self.policy == "drop_oldest":
            self.queue.take()
            self.queue.put_nowait(event)
        return False


class EventBus:
    """The bus of one world.

    Args:
        kernel: records every event and wakes who waits.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sequence = 0
        self._subscriptions: dict[str, dict[Subscription, None]] = {}  # by pattern, in order of subscription
        self._wild: dict[str, tuple[str, ...]] = {}  # by topic: the patterns with stars that match it
        self._number = 0
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._marks: dict[str, int] = {}
        self._delivered = 0
        self._dropped = 0
        self._failed = 0
        self.counts: dict[str, int] = {}  # published, by topic

    def publish(self, topic: str, data: Any = None) -> Event:
        """Say that something happened: record it and give it to every matching subscription.

        Raises:
            UsageError: if the topic is malformed.
            ActorError: if the data is not JSON-like.
        """
        count = self.counts.get(topic)
        if count is None:
            check_topic(topic)
            count = 0
        raw = Raw(encode(data))
        kernel = self.kernel
        identity = kernel.emit(topic, raw)
        self.counts[topic] = count + 1
        self.sequence += 1
        event = Event(self.sequence, kernel.now, kernel.acting().name, topic, raw, identity)
        self._recent.append(event)
        for subscription in self._matching(topic):
            self._deliver(subscription, event)
        return event

    def next_number(self) -> int:
        """Return the number of the next subscription: the order in which an event is delivered."""
        self._number += 1
        return self._number

    def subscribe(
        self,
        pattern: str,
        *,
        limit: int = DEFAULT_LIMIT,
        policy: DropPolicy = "drop_oldest",
        filter: Filter | None = None,
        callback: Callable[[Event], None] | None = None,
    ) -> Subscription:
        """Receive the events whose topic matches `pattern` from now on.

        Args:
            pattern: a topic in which `*` stands for one word and a final `**` for any rest.
            limit: how many events it holds.
            policy: what gives way when it is full; drops are counted.
            filter: a pure test of the event; one that raises counts as no.
            callback: for the runtime only: called at publication instead of queueing; it must not run agents.
        """
        if limit < 1:
            raise UsageError(f"a subscription holds at least 1 event, not {limit}")
        subscription = Subscription(self, check_pattern(pattern), limit, policy, filter, callback)
        if pattern not in self._subscriptions:
            self._subscriptions[pattern] = {}
            self._forget(pattern)
        self._subscriptions[pattern][subscription] = None
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; ending it twice is allowed."""
        held = self._subscriptions.get(subscription.pattern, {})
        if subscription in held:
            del held[subscription]
            if not held:
                del self._subscriptions[subscription.pattern]
                self._forget(subscription.pattern)
            subscription.queue.close()

    def mark(self, agent_id: str) -> None:
        """Remember that `agent_id` begins to decide: `has_event` looks back to here."""
        self._marks[agent_id] = self.sequence

    def forget(self, agent_id: str) -> None:
        """Drop the mark of an agent that has left."""
        self._marks.pop(agent_id, None)

    def has_event(self, agent_id: str, pattern: str, filter: Filter | None = None) -> bool:
        """Whether something matching happened since `agent_id` began its present iteration, other than by itself.

        With it an event between "decided to sleep" and "asleep" is not lost (seed 004, `_check_wake_condition`). If
        more has happened than is remembered the answer is yes: a wake-up too many, never one too few.
        """
        return self.missed_event(agent_id, pattern, filter) is not None or self.overtaken(agent_id)

    def overtaken(self, agent_id: str) -> bool:
        """Whether more has happened since `agent_id` began its present iteration than is remembered."""
        since = self._marks.get(agent_id, self.sequence)
        return since < self.sequence and self._recent[0].sequence > since + 1

    def missed_event(self, agent_id: str, pattern: str, filter: Filter | None = None) -> Event | None:
        """Return the first event that `has_event` speaks of, if it is remembered."""
        since = self._marks.get(agent_id, self.sequence)
        found = None
        for event in reversed(self._recent):
            if event.sequence <= since:
                break
            matching = event.source != agent_id and matches(pattern, event.topic)
            if matching and (filter is None or self._passes(filter, event)):
                found = event
        return found

    def published(self, pattern: str) -> int:
        """Return how many events matching `pattern` were published."""
        return sum(count for topic, count in self.counts.items() if matches(pattern, topic))

    def statistics(self) -> BusStatistics:
        """Return the counts."""
        held = sum(map(len, self._subscriptions.values()))
        return BusStatistics(self.sequence, self._delivered, self._dropped, self._failed, held)

    def _matching(self, topic: str) -> list[Subscription]:
        patterns = self._wild.get(topic)
        if patterns is None:
            if len(self._wild) > _TOPICS:
                self._wild.clear()
            patterns = tuple(p for p in self._subscriptions if "*" in p and matches(p, topic))
            self._wild[topic] = patterns
        found = list(self._subscriptions.get(topic, ()))
        if patterns:
            for pattern in patterns:
                found.extend(self._subscriptions[pattern])
            found.sort(key=lambda subscription: subscription.number)
        return found

    def _forget(self, pattern: str) -> None:
        if "*" in pattern:
            self._wild.clear()

    def _deliver(self, subscription: Subscription, event: Event) -> None:
        if subscription.filter is not None and not self._passes(subscription.filter, event):
            return
        if subscription.queue.closed:
            return  # ended by an earlier subscriber of the same event
        self._delivered += 1
        if not subscription.offer(event):
            self._dropped += 1

    def _passes(self, filter: Filter, event: Event) -> bool:
        try:
            return bool(filter(event))
        except Exception:  # a subscriber's fault must not reach the publisher; it is counted
            self._failed += 1
            return False
