"""The event bus: delivers published events to the subscribers of their topics.

A publisher never runs code of a subscriber. An event is put into the bounded queue of each subscription. Actors that
wait there are woken at the same instant in the next delta, in their order.

Mailboxes carry messages to one agent. The bus carries events, which have no addressee.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, Protocol

import attrs

from sim.base.errors import UsageError
from sim.events.event import Event
from sim.events.event_type import EventData, Published, event_type
from sim.events.topic import check_pattern, check_topic, matches
from sim.kernel import Kernel, Queue, Source
from sim.kernel.codec import Raw, freeze
from sim.kernel.compiled import core

DropPolicy = Literal["drop_oldest", "drop_newest"]

MAX_DATA_BYTES = 2_000_000
"""Default maximum length in bytes, as JSON, of the data of an event and of the arguments of an action."""

RECENT = 4096
"""Number of events of a topic that are kept for agents that decide to sleep while others publish."""

DEFAULT_LIMIT = 1000
"""Default maximum number of events in the queue of a subscription."""

_TOPICS = 65536  # maximum number of topics whose matching patterns are cached

_TIDY = 1024  # minimum number of publications before events that no subscriber can miss any more are removed

Past = tuple[int, int, str, Raw | EventData, tuple[int, int]]
"""(sequence, time, source, data, identity) of a recent event. An `Event` is created from it only if it is needed."""

Filter = Callable[[Event], bool]


@attrs.frozen
class BusStatistics:
    """Statistics of the bus.

    Attributes:
        published: the number of published events.
        delivered: the number of deliveries to subscriptions.
        dropped: the number of events that were dropped because a queue was full.
        failed_filters: the number of errors in filters.
        subscriptions: the present number of subscriptions.
    """

    published: int
    delivered: int
    dropped: int
    failed_filters: int
    subscriptions: int


def too_much(what: str, size: int, limit: int) -> UsageError:
    """Return the error for data with more bytes than the limit."""
    return UsageError(
        f"{what} has {size} bytes of data, and at most {limit} are allowed",
        hint="publish less, or raise execution.max_data_bytes",
    )


class Subscription:
    """A subscription to a pattern of topics, with a bounded queue of events or a callback.

    Attributes:
        pattern: the pattern of topics.
        policy: which event is dropped if the queue is full.
        filter: the filter of events, or None.
        callback: the callback, or None.
        queue: the queue of events, which is a wait for `first_of`; None with a callback.
        number: the number of the subscription, which gives the order of delivery.
        dropped: the number of events that were dropped because the queue was full.
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
        """Return the next event, or None.

        It may be called from outside the run, for a subscription of a host program: an observer changes nothing.
        """
        return self.queue.items.popleft() if self.queue is not None and self.queue.items else None

    def cancel(self) -> None:
        """End the subscription. `ClosedError` is raised in the actors that wait for its events."""
        self._bus.unsubscribe(self)

    def make_room(self, event: Event) -> None:
        """Handle an event for a full queue: drop the event or the oldest one, depending on the policy."""
        self.dropped += 1
        if self.policy == "drop_oldest" and self.queue is not None:
            self.queue.take()
            self.queue.put_nowait(event)


@event_type("event.suppressed")
class EventSuppressed(EventData, frozen=True, gc=False, kw_only=True):
    """An event is not published, by an intervention or in a branch.

    Attributes:
        data: its data.
        topic: its topic.
    """

    data: Any
    topic: str


class Editor(Protocol):
    """What leaves out events, or gives them other data; see `sim.world.edits`."""

    def event(self, source: Source, topic: str, raw: Raw, /) -> Raw | None:
        """Return the data that is published instead of `raw`; None: the event is not published."""


class EventBus:
    """The event bus of a world.

    Args:
        kernel: the kernel that records the events and wakes the subscribers.

    Attributes:
        sequence: the number of events that were published so far.
        marks: by agent in an iteration, the value of `sequence` at its beginning. `has_event` examines the events since
            then.
        counts: the number of published events by topic.
        editor: what edits events before they are published; None: nothing does.
        patterns: the patterns of topics to which anything has subscribed or listened so far, as keys.
        max_data_bytes: the maximum length in bytes, as JSON, of the data of an event and of the arguments of an action.
    """

    __slots__ = (
        "_audience",
        "_delivered",
        "_dropped",
        "_failed",
        "_number",
        "_recent",
        "_subscriptions",
        "_tidy_at",
        "_wild",
        "counts",
        "editor",
        "kernel",
        "marks",
        "max_data_bytes",
        "patterns",
        "sequence",
    )

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sequence = 0
        self.editor: Editor | None = None
        self.patterns: dict[str, None] = {}
        self._subscriptions: dict[str, dict[Subscription, None]] = {}  # by pattern, in order of subscription
        self._wild: dict[str, tuple[str, ...]] = {}  # by topic: the patterns with stars that match it
        self._audience: dict[str, tuple[Subscription, ...]] = {}  # by topic: its subscriptions, in order of delivery
        self._number = 0
        self._recent: dict[str, deque[Past]] = {}  # by topic: its events that an agent in an iteration can miss
        self._tidy_at = _TIDY
        self.marks: dict[str, int] = {}
        self._delivered = 0
        self._dropped = 0
        self._failed = 0
        self.max_data_bytes = MAX_DATA_BYTES
        self.counts: dict[str, int] = {}

    def publish(self, topic: str, data: Any = None) -> Event:
        """Publish an event: record it, and deliver it to each matching subscription.

        Raises:
            UsageError: if the topic is malformed, or the data has more than `max_data_bytes`.
            ActorError: if the data is not JSON.
        """
        count = self.counts.get(topic)
        if count is None:
            check_topic(topic)
            count = 0
        raw = freeze(data)
        kernel = self.kernel
        actor = kernel.current or kernel.acting()
        source = actor.name
        if len(raw) > self.max_data_bytes:
            raise too_much(f"{source}: the event {topic!r}", len(raw), self.max_data_bytes)
        if self.editor is not None and not isinstance(data, EventData):  # what has happened is not edited
            edited = self.editor.event(actor, topic, raw)
            if edited is None:
                identity = kernel.report(EventSuppressed(data=raw, topic=topic))
                return Event(self.sequence, kernel.now, source, topic, raw, identity)
            raw = edited
        identity = kernel.emit(topic, raw)
        self.counts[topic] = count + 1
        self.sequence += 1
        try:
            recent = self._recent[topic]
        except KeyError:
            recent = self._begin_recent(topic)
        recent.append((self.sequence, kernel.now, source, raw, identity))
        if self.sequence >= self._tidy_at:
            self._tidy()
        event = Event(self.sequence, kernel.now, source, topic, raw, identity)
        audience = self._audience.get(topic)
        if audience is None:
            audience = self._gather(topic)
        if audience:
            by, mark = kernel.acting(), len(kernel.ready)
            self._deliver(event, audience)
            kernel.wake_as_one(mark, by, identity[1])  # order keys must not depend on the number of subscribers
        return event

    def _deliver(self, event: Event, audience: tuple[Subscription, ...]) -> None:
        for subscription in audience:
            if subscription.filter is not None and not self._passes(subscription.filter, event):
                continue
            if subscription.closed:
                continue  # the callback of an earlier subscriber has closed it
            self._delivered += 1
            queue = subscription.queue
            if queue is None:
                subscription.callback(event)  # type: ignore[misc]  # without a queue there is a callback
            elif not queue.put_nowait(event):
                subscription.make_room(event)
                self._dropped += 1

    def report(self, data: Published) -> None:
        """Publish an event of the simulation itself. If there is no subscriber, no `Event` object is created.

        Args:
            data: its data. If `FACT` says that they cannot fail to be encoded, they are encoded later, with others.

        Raises:
            UsageError: if they have more than `max_data_bytes`, and someone subscribes to the topic.
            ActorError: if they are not JSON.
        """
        topic = data.TOPIC
        audience = self._audience.get(topic)
        if audience is None or audience:
            self.publish(topic, data)
            return
        kernel = self.kernel  # the hot path: like the beginning of `publish`, for a topic that was checked before
        kept = data if data.FACT else freeze(data)
        source = (kernel.current or kernel.acting()).name
        identity = kernel.emit(topic, kept)
        self.counts[topic] += 1
        self.sequence += 1
        try:
            recent = self._recent[topic]
        except KeyError:
            recent = self._begin_recent(topic)
        recent.append((self.sequence, kernel.now, source, kept, identity))
        if self.sequence >= self._tidy_at:
            self._tidy()

    def tell(self, topic: str, data: Any = None) -> None:
        """Publish an event of the simulation itself whose data were encoded before, see `report`."""
        editor, self.editor = self.editor, None  # what has happened is not edited
        try:
            self.publish(topic, data)
        finally:
            self.editor = editor

    def _begin_recent(self, topic: str) -> deque[Past]:
        """Begin to keep the events of a topic for the agents in an iteration, which may decide to sleep until one."""
        recent = self._recent[topic] = deque[Past](maxlen=RECENT + 1)
        return recent

    def _tidy(self) -> None:
        """Remove the events that precede every iteration under way. This changes no answer, only the memory."""
        oldest, kept = min(self.marks.values(), default=self.sequence), 0
        for topic, recent in list(self._recent.items()):
            missable = []  # from the newest: there are few, while there can be thousands of others
            for past in reversed(recent):
                if past[0] <= oldest:
                    break
                missable.append(past)
            if missable:
                recent.clear()
                recent.extend(reversed(missable))
                kept += len(missable)
            else:
                del self._recent[topic]
        self._tidy_at = self.sequence + max(_TIDY, kept)

    def next_number(self) -> int:
        """Return the number for a new subscription. Events are delivered in the order of these numbers."""
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
        """Subscribe to all events whose topic matches `pattern`, from now on.

        Args:
            pattern: a topic in which `*` stands for one word, and a final `**` for one or more words.
            limit: the maximum number of events in the queue.
            policy: which event is dropped if the queue is full. Dropped events are counted.
            filter: a function without side effects that accepts or rejects an event. An error counts as rejection.
            callback: a function that is called at publication instead of queueing. For the runtime only; it must not
                run agents.

        Raises:
            UsageError: if the pattern is malformed, or the limit is below 1.
        """
        if limit < 1:
            raise UsageError(f"a subscription holds at least 1 event, not {limit}")
        subscription = Subscription(self, check_pattern(pattern), limit, policy, filter, callback)
        self.patterns[pattern] = None
        if pattern not in self._subscriptions:
            self._subscriptions[pattern] = {}
            self._forget(pattern)
        self._subscriptions[pattern][subscription] = None
        self._disperse(pattern)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. A second call is a no-op."""
        held = self._subscriptions.get(subscription.pattern, {})
        if subscription in held:
            self.kernel.acting()  # first: it refuses a call from outside before anything changes
            del held[subscription]
            if not held:
                del self._subscriptions[subscription.pattern]
                self._forget(subscription.pattern)
            self._disperse(subscription.pattern)
            subscription.closed = True
            if subscription.queue is not None:
                subscription.queue.close()

    def forget(self, agent_id: str) -> None:
        """Remove the mark of an agent that has left, or whose iteration has ended."""
        self.marks.pop(agent_id, None)

    def has_event(self, agent_id: str, pattern: str, filter: Filter | None = None) -> bool:
        """Return whether a matching event of another source was published since the agent began its present iteration.

        Without this check, an agent would miss an event between its decision to sleep and the start of its sleep. The
        result is True if a matching topic had more events than are kept: better a spurious wake-up than a missed one.
        """
        return self.missed_event(agent_id, pattern, filter) is not None or self.overtaken(agent_id, pattern)

    def overtaken(self, agent_id: str, pattern: str) -> bool:
        """Return whether a matching topic had more events than are kept since the agent began its present iteration.

        Events of other topics do not count: what an agent does not wait for must not wake it.
        """
        since = self.marks.get(agent_id, self.sequence)
        return any(len(recent) > RECENT and recent[0][0] > since for _, recent in self._missable(pattern, since))

    def _missable(self, pattern: str, since: int) -> Iterator[tuple[str, deque[Past]]]:
        """Yield the matching topics with an event since a sequence number."""
        if since == self.sequence:
            return
        if "*" not in pattern:
            recent = self._recent.get(pattern)
            if recent is not None and recent[-1][0] > since:
                yield pattern, recent
            return
        for topic, recent in self._recent.items():
            if recent[-1][0] > since and matches(pattern, topic):
                yield topic, recent

    def missed_event(self, agent_id: str, pattern: str, filter: Filter | None = None) -> Event | None:
        """Return the first event that matches in the sense of `has_event`, or None if none is kept."""
        self.patterns[pattern] = None
        since = self.marks.get(agent_id, self.sequence)
        first = None
        for topic, recent in self._missable(pattern, since):
            for sequence, time, source, data, identity in reversed(recent):
                if sequence <= since:
                    break
                if source != agent_id:
                    event = Event(sequence, time, source, topic, freeze(data), identity)
                    if (filter is None or self._passes(filter, event)) and (first is None or sequence < first.sequence):
                        first = event
        return first

    def published(self, pattern: str) -> int:
        """Return the number of published events that match `pattern`."""
        self.patterns[pattern] = None  # what is counted is heard
        return sum(count for topic, count in self.counts.items() if matches(pattern, topic))

    def statistics(self) -> BusStatistics:
        """Return the statistics of the bus."""
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
        subscriptions = list(self._subscriptions.get(topic, ()))
        if patterns:
            for pattern in patterns:
                subscriptions.extend(self._subscriptions[pattern])
            subscriptions.sort(key=lambda subscription: subscription.number)
        audience = self._audience[topic] = tuple(subscriptions)
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
        except Exception:  # an error of a subscriber must not reach the publisher; it is only counted
            self._failed += 1
            return False


if core is not None:
    _SLOTS = ("_audience", "_recent", "_tidy_at", "counts", "kernel", "sequence")
    core.take_over_bus(EventBus, {name.lstrip("_"): getattr(EventBus, name) for name in _SLOTS})
