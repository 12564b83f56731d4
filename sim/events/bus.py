"""The event bus: carries what happened to whoever subscribed to its topic.

A publisher never runs a subscriber: an event is put into each subscription's bounded queue, and who waits there is
woken at the same instant, next delta, in the order of the actors' ordinals. A mailbox carries what is addressed, the
bus what happened; an event never commands.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import attrs

from sim.errors import UsageError
from sim.events.event import Event
from sim.events.topic import check_pattern, check_topic, matches
from sim.kernel import Kernel, Queue
from sim.kernel.codec import Fact, Raw, freeze

DropPolicy = Literal["drop_oldest", "drop_newest"]

MAX_DATA_BYTES = 2_000_000
"""Bytes that the data of one event, or the arguments of one action, may have as JSON."""

RECENT = 4096
"""Events that are remembered for agents that decide to sleep while others publish."""

DEFAULT_LIMIT = 1000
"""Events that a subscription holds."""

_TOPICS = 65536  # whose matching patterns are remembered

_Past = tuple[int, str, str, Raw | Fact, tuple[int, int]]
"""(time, source, topic, data, identity) of an event, which is made of it only if somebody wants it."""

Filter = Callable[[Event], bool]


@attrs.frozen
class BusStatistics:
    """Counts since the start: events published, put into subscriptions, dropped from full ones, failed filters."""

    published: int
    delivered: int
    dropped: int
    failed_filters: int
    subscriptions: int


def too_much(what: str, size: int, limit: int) -> UsageError:
    """Return the error for data that has more bytes than is allowed."""
    return UsageError(
        f"{what} has {size} bytes of data, and at most {limit} are allowed",
        hint="publish less, or raise execution.max_data_bytes",
    )


class Subscription:
    """A bounded queue of events that match a pattern, or what is called with each of them.

    Attributes:
        queue: the events, a wait of the kernel (`get`, and a part of `first_of`); None with a callback.
        closed: whether the subscription was cancelled.
    """

    __slots__ = ("_bus", "callback", "closed", "dropped", "filter", "number", "pattern", "policy", "queue")

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
        self.closed = False
        self.dropped = 0
        self.queue = Queue(bus.kernel, limit) if callback is None else None

    def __len__(self) -> int:
        return 0 if self.queue is None else len(self.queue)

    def get(self) -> Awaitable[Event]:
        """Wait for the next event.

        Raises:
            ClosedError: if the subscription was cancelled.
            UsageError: if the events go to a callback.
        """
        if self.queue is None:
            raise UsageError("the events of this subscription go to its callback: there is nothing to wait for")
        return self.queue.get()

    def take(self) -> Event | None:
        """Return the next event, or None."""
        return self.queue.take() if self.queue else None

    def cancel(self) -> None:
        """End the subscription; who waits on it is answered with `ClosedError`."""
        self._bus.unsubscribe(self)

    def make_room(self, event: Event) -> None:
        """Take an event although the queue is full: it, or the oldest one, is dropped."""
        self.dropped += 1
        if self.policy == "drop_oldest" and self.queue is not None:
            self.queue.take()
            self.queue.put_nowait(event)


class EventBus:
    """The bus of one world.

    Args:
        kernel: records every event and wakes who waits.

    Attributes:
        sequence: events published so far.
        marks: what that was when an agent began to decide, by agent: `has_event` looks back to there.
        counts: events published, by topic.
        max_data_bytes: bytes that the data of an event, or the arguments of an action, may have as JSON.
    """

    __slots__ = (
        "_audience",
        "_delivered",
        "_dropped",
        "_failed",
        "_number",
        "_recent",
        "_subscriptions",
        "_wild",
        "counts",
        "kernel",
        "marks",
        "max_data_bytes",
        "sequence",
    )

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sequence = 0
        self._subscriptions: dict[str, dict[Subscription, None]] = {}  # by pattern, in order of subscription
        self._wild: dict[str, tuple[str, ...]] = {}  # by topic: the patterns with stars that match it
        self._audience: dict[str, tuple[Subscription, ...]] = {}  # by topic: who gets its events, in order
        self._number = 0
        self._recent: deque[_Past] = deque(maxlen=RECENT)
        self.marks: dict[str, int] = {}
        self._delivered = 0
        self._dropped = 0
        self._failed = 0
        self.max_data_bytes = MAX_DATA_BYTES
        self.counts: dict[str, int] = {}

    def publish(self, topic: str, data: Any = None) -> Event:
        """Say that something happened: record it and give it to every matching subscription.

        Raises:
            UsageError: if the topic is malformed, or the data has more than `max_data_bytes`.
            ActorError: if the data is not JSON-like.
        """
        count = self.counts.get(topic)
        if count is None:
            check_topic(topic)
            count = 0
        raw = freeze(data)
        kernel = self.kernel
        source = (kernel.current or kernel.acting()).name
        if len(raw) > self.max_data_bytes:
            raise too_much(f"{source}: the event {topic!r}", len(raw), self.max_data_bytes)
        identity = kernel.emit(topic, raw)
        self.counts[topic] = count + 1
        self.sequence += 1
        self._recent.append((kernel.now, source, topic, raw, identity))
        event = Event(self.sequence, kernel.now, source, topic, raw, identity)
        audience = self._audience.get(topic)
        if audience is None:
            audience = self._gather(topic)
        if audience:
            by, mark = kernel.acting(), len(kernel.ready)
            self._deliver(event, audience)
            kernel.wake_as_one(mark, by, identity[1])  # so that keys do not tell who listens
        return event

    def _deliver(self, event: Event, audience: tuple[Subscription, ...]) -> None:
        for subscription in audience:
            if subscription.filter is not None and not self._passes(subscription.filter, event):
                continue
            if subscription.closed:
                continue  # by an earlier subscriber of the same event
            self._delivered += 1
            queue = subscription.queue
            if queue is None:
                subscription.callback(event)  # type: ignore[misc]  # it has one of the two
            elif not queue.put_nowait(event):
                subscription.make_room(event)
                self._dropped += 1

    def tell(self, topic: str, data: Any = None) -> None:
        """As `publish`, for who does not want the event: if nobody else does, none is made.

        Data that is a `Fact` is encoded together with what else is recorded.
        """
        audience = self._audience.get(topic)
        if audience is None or audience:
            self.publish(topic, data)
            return
        kernel = self.kernel  # the hot path: as the beginning of `publish`, with a topic that is known
        kept = data if isinstance(data, Fact) else freeze(data)
        source = (kernel.current or kernel.acting()).name
        self._recent.append((kernel.now, source, topic, kept, kernel.emit(topic, kept)))
        self.counts[topic] += 1
        self.sequence += 1

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
        self._disperse(pattern)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; ending it twice is allowed."""
        held = self._subscriptions.get(subscription.pattern, {})
        if subscription in held:
            self.kernel.acting()  # refuse a call from outside before anything has changed
            del held[subscription]
            if not held:
                del self._subscriptions[subscription.pattern]
                self._forget(subscription.pattern)
            self._disperse(subscription.pattern)
            subscription.closed = True
            if subscription.queue is not None:
                subscription.queue.close()

    def forget(self, agent_id: str) -> None:
        """Drop the mark of an agent that has left."""
        self.marks.pop(agent_id, None)

    def has_event(self, agent_id: str, pattern: str, filter: Filter | None = None) -> bool:
        """Whether something matching happened since `agent_id` began its present iteration, other than by itself.

        With it an event between "decided to sleep" and "asleep" is not lost (seed 004, `_check_wake_condition`). If
        more has happened than is remembered the answer is yes: a wake-up too many, never one too few.
        """
        return self.missed_event(agent_id, pattern, filter) is not None or self.overtaken(agent_id)

    def overtaken(self, agent_id: str) -> bool:
        """Whether more has happened since `agent_id` began its present iteration than is remembered."""
        since = self.marks.get(agent_id, self.sequence)
        return since < self.sequence - RECENT

    def missed_event(self, agent_id: str, pattern: str, filter: Filter | None = None) -> Event | None:
        """Return the first event that `has_event` speaks of, if it is remembered."""
        since = self.marks.get(agent_id, self.sequence)
        found = None
        for sequence, past in zip(range(self.sequence, since, -1), reversed(self._recent), strict=False):
            time, source, topic, data, identity = past
            if source != agent_id and matches(pattern, topic):
                event = Event(sequence, time, source, topic, freeze(data), identity)
                if filter is None or self._passes(filter, event):
                    found = event
        return found

    def published(self, pattern: str) -> int:
        """Return how many events matching `pattern` were published."""
        return sum(count for topic, count in self.counts.items() if matches(pattern, topic))

    def statistics(self) -> BusStatistics:
        """Return the counts."""
        held = sum(map(len, self._subscriptions.values()))
        return BusStatistics(self.sequence, self._delivered, self._dropped, self._failed, held)

    def _gather(self, topic: str) -> tuple[Subscription, ...]:
        patterns = self._wild.get(topic)
        if patterns is None:
            if len(self._wild) > _TOPICS:
                self._wild.clear()
                self._audience.clear()
            patterns = tuple(p for p in self._subscriptions if "*" in p and matches(p, topic))
            self._wild[topic] = patterns
        found = list(self._subscriptions.get(topic, ()))
        if patterns:
            for pattern in patterns:
                found.extend(self._subscriptions[pattern])
            found.sort(key=lambda subscription: subscription.number)
        audience = self._audience[topic] = tuple(found)
        return audience

    def _disperse(self, pattern: str) -> None:
        if "*" in pattern:
            self._audience.clear()
        else:
            self._audience.pop(pattern, None)

    def _forget(self, pattern: str) -> None:
        if "*" in pattern:
            self._wild.clear()

    def _passes(self, filter: Filter, event: Event) -> bool:
        try:
            return bool(filter(event))
        except Exception:  # a subscriber's fault must not reach the publisher; it is counted
            self._failed += 1
            return False
