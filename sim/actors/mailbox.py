"""Mailboxes: bounded queues of the messages to one agent."""

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator
from operator import itemgetter
from typing import Any, Final, Literal

from sim.base.errors import ClosedError
from sim.base.expressions import Bindings
from sim.kernel import Actor, Kernel, Queue, to_seconds
from sim.kernel.codec import Json, Record
from sim.kernel.coroutines import coroutine
from sim.kernel.waits import NOTHING, Waiters
from sim.world import Message

MailboxPolicy = Literal["block", "drop_oldest", "fail"]
"""What happens to a message for a full mailbox: its sender waits, the oldest message is dropped, or it is refused."""

Unmatched = Literal["keep", "drop", "fail"]
"""What happens to a message that no rule of a policy agent would use.

`keep`: it waits until a rule reads it, and the agent can read later ones meanwhile. `drop`: it is dropped. `fail`: the
iteration fails.
"""

MOST_TOPICS: Final = 50
"""The most topics by which a mailbox counts unread messages; those of further topics are counted together."""


_NO_WATCHERS: dict["Watcher", None] = {}  # shared by all mailboxes without watchers, to save memory; never modified


class Room:
    """The line of senders that wait for room in a mailbox, in order of arrival.

    Each message that leaves admits one sender. This is a wait of the kernel. A free place is reserved for a sender
    when it is woken, so that no sender that comes later can take it.
    """

    __slots__ = ("_kernel", "_letters", "_promised", "_senders")

    def __init__(self, kernel: Kernel, letters: "MailboxQueue") -> None:
        self._kernel = kernel
        self._letters = letters
        self._senders = Waiters()
        self._promised = 0

    @coroutine
    def wait(self) -> Generator[Any, Any, None]:
        """Wait for a free place. The caller must use it in the same step, because the reservation ends here."""
        if self.take() is NOTHING:
            yield self
            self._promised -= 1

    def take(self) -> Any:
        """Return None if there is room that is not reserved, otherwise `NOTHING`."""
        return None if self._free() or self._letters.closed else NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Add an actor to the line."""
        self._senders.add(actor)

    def undo(self, value: Any) -> None:
        """Give a reserved place to the next sender."""
        self._promised -= 1
        self.admit()

    def leave(self) -> None:
        """No-op: every sender needs one place, so no sender blocks the next one."""

    @property
    def senders(self) -> int:
        """The number of senders that wait."""
        return len(self._senders)

    def admit(self) -> None:
        """Wake as many senders as there are free places."""
        if not self._senders.actors:  # nearly always
            return
        while self._free() and (actor := self._senders.pop()) is not None:
            self._promised += 1
            self._kernel.wake(actor, None, self)

    def close(self) -> None:
        """Raise `ClosedError` in all waiting senders, because the agent has stopped."""
        while (actor := self._senders.pop()) is not None:
            self._kernel.throw(actor, ClosedError("the agent that was written to has stopped"))

    def _free(self) -> bool:
        return len(self._letters) + self._promised < self._letters.limit


class MailboxQueue(Queue):
    """The queue of a mailbox with the policy `block`: it admits a sender when a message leaves."""

    __slots__ = ("line",)

    def __init__(self, kernel: Kernel, limit: int) -> None:
        super().__init__(kernel, limit)
        self.line: Room | None = None  # made with the first sender that asks, as most mailboxes are never full

    @property
    def room(self) -> Room:
        """The line of senders that wait for room."""
        if self.line is None:
            self.line = Room(self._kernel, self)
        return self.line

    @coroutine
    def get(self) -> Generator[Any, Any, Any]:
        """Wait for the next message, remove it and return it."""
        value = self.take()
        return (yield self) if value is NOTHING else value

    def take(self) -> Any:
        """Remove and return the next message, or return `NOTHING`."""
        value = super().take()
        if self.line is not None and value is not NOTHING:
            self.line.admit()
        return value


class Watcher:
    """A callback for each accepted message, until `cancel`."""

    __slots__ = ("_mailbox", "callback")

    def __init__(self, mailbox: "Mailbox", callback: Callable[[], None]) -> None:
        self._mailbox = mailbox
        self.callback = callback

    def cancel(self) -> None:
        """Stop the calls of the callback."""
        self._mailbox.watchers.pop(self, None)


class Pending:
    """A message that was offered to rules, and that no rule has read so far.

    Attributes:
        message: the message.
        nth: how many messages with the same sender, topic and time were offered to this agent before.
        refusals: how many rules will never read it.
    """

    __slots__ = ("_names", "message", "nth", "refusals")

    def __init__(self, message: Message, nth: int) -> None:
        self.message = message
        self.nth = nth
        self.refusals = 0
        self._names: Bindings | None = None

    @property
    def names(self) -> Bindings:
        """What `message` is in expressions."""
        if self._names is None:
            self._names = message_names(self.message)
        return self._names


def message_names(message: Message) -> dict[str, Json]:
    """Return what `message` is in expressions."""
    return {
        "sender": message.sender, "topic": message.topic, "data": message.data, "time": to_seconds(message.time),
    }  # fmt: skip


class Offered:
    """The messages of a mailbox that were offered to the rules of an agent, and that no rule has read so far.

    A message that a rule may still read *waits*, and takes a place in the mailbox. A message that no rule can ever read
    is *set aside*: it takes no place, so that it cannot keep out others. Of these, at most as many are kept as the
    mailbox has places, for the case that a branch gives the agent other rules; all are counted.

    Attributes:
        offered: the number of messages that were offered.
        waiting: the messages that wait, by a number that increases with each message.
        aside: the messages that were set aside, with their numbers.
        unread: how many messages no rule used, by topic.
        left: how many messages waited when the agent stopped, by topic.
    """

    __slots__ = ("_latest", "_same", "aside", "left", "offered", "unread", "waiting")

    def __init__(self, size: int) -> None:
        self.offered = 0
        self.waiting: OrderedDict[int, Pending] = OrderedDict()
        self.aside: deque[tuple[int, Pending]] = deque(maxlen=size)
        self.unread: dict[str, int] = {}
        self.left: dict[str, int] = {}
        self._latest = -1  # the time of the message that was offered last
        self._same: dict[tuple[str, str], int] = {}  # sender and topic → how many messages of this time were offered

    def add(self, message: Message) -> int:
        """Let a message wait, and return its number."""
        if message.time != self._latest:
            self._latest = message.time
            self._same.clear()
        kind = message.sender, message.topic
        nth = self._same.get(kind, 0)
        self._same[kind] = nth + 1
        self.offered += 1
        self.waiting[self.offered] = Pending(message, nth)
        return self.offered


def count_topic(counts: dict[str, int], topic: str, number: int = 1) -> None:
    """Add to the count of a topic; beyond `MOST_TOPICS` topics, to that of the topic `...`."""
    key = topic if topic in counts or len(counts) < MOST_TOPICS else "..."
    counts[key] = counts.get(key, 0) + number


class MailboxCounts(Record, frozen=True):
    """What a mailbox has counted.

    Attributes:
        dropped, dead, unmatched: see `Mailbox`.
        unread, left: see `Offered`.
    """

    dropped: int = 0
    dead: int = 0
    unmatched: int = 0
    unread: dict[str, int] | None = None
    left: dict[str, int] | None = None


class Mailbox:
    """The mailbox of one agent.

    Args:
        kernel: the kernel that wakes actors that wait for a message or for room.
        size: the maximum number of messages.
        policy: what happens to a message when the mailbox is full.

    Attributes:
        queue: the messages that were not offered to rules; a wait of the kernel. Other agents than policy agents take
            them from here.
        offered: the messages that were offered to rules and not read; None if there was none.
        size: the maximum number of messages.
        dropped: number of messages that were dropped to accept newer ones.
        dead: number of dead letters: messages that were left when the agent stopped, or arrived later.
        unmatched: number of messages that no rule used: that were set aside or dropped, or made an iteration fail.
        watchers: callbacks for each accepted message, in order.
    """

    __slots__ = ("dead", "dropped", "offered", "policy", "queue", "size", "unmatched", "watchers")

    def __init__(self, kernel: Kernel, size: int, policy: MailboxPolicy) -> None:
        self.queue: Queue = MailboxQueue(kernel, size) if policy == "block" else Queue(kernel, size)
        self.policy: MailboxPolicy = policy
        self.size = size
        self.offered: Offered | None = None
        self.dropped = 0
        self.dead = 0
        self.unmatched = 0
        self.watchers: dict[Watcher, None] = _NO_WATCHERS

    def __len__(self) -> int:
        offered = self.offered
        return len(self.queue) + (0 if offered is None else len(offered.waiting) + len(offered.aside))

    @property
    def waiting(self) -> int:
        """The number of messages that an agent can still read."""
        queued, offered = self.queue.items, self.offered
        return (len(queued) if queued else 0) + (len(offered.waiting) if offered is not None else 0)

    @property
    def held_up(self) -> int:
        """The number of senders that wait for room while messages that no rule has read take all places."""
        line = self._line
        return 0 if line is None or self.queue.limit > 0 else line.senders

    @property
    def _line(self) -> Room | None:
        """The line of senders that wait for room; None if there was none yet."""
        queue = self.queue
        return queue.line if queue.__class__ is MailboxQueue else None

    def offer(self, message: Message) -> str | None:
        """Accept a message and return None, or return the reason for refusing it."""
        if self.queue.closed:
            self.dead += 1
            return f"{message.to} has stopped"
        if not self.queue.put_nowait(message):
            if self.policy != "drop_oldest":
                return f"the mailbox of {message.to} is full"
            self._drop_oldest()
            self.queue.put_nowait(message)
        if self.watchers:
            self.notify()
        return None

    def notify(self) -> None:
        """Call the watchers: there is a message to read."""
        for watcher in list(self.watchers):
            watcher.callback()

    def _drop_oldest(self) -> None:
        self.dropped += 1
        if self.offered is not None and self.offered.waiting:  # these are older than those in the queue
            self.read(next(iter(self.offered.waiting)))
        else:
            self.queue.take()

    # -- selective receive, for agents with rules

    def hold(self) -> int:
        """Move the oldest message of the queue to those that wait, and return its number.

        It keeps its place: the queue and its limit both get shorter by one, so that no sender is admitted.
        """
        self.queue.limit -= 1
        return self._offers().add(self.queue.take())

    def pending(self, number: int) -> Pending:
        """Return the waiting message with a number."""
        return self._offers().waiting[number]

    def is_pending(self, number: int) -> bool:
        """Return whether the message with a number still waits."""
        return number in self._offers().waiting

    def read(self, number: int) -> Message:
        """Remove a waiting message and return it, because a rule reads it."""
        message = self._offers().waiting.pop(number).message
        self.queue.limit += 1
        if (line := self._line) is not None:
            line.admit()
        return message

    def set_aside(self, number: int) -> None:
        """Free the place of a waiting message, because no rule can ever read it."""
        offered = self._offers()
        offered.aside.append((number, offered.waiting[number]))
        self.discard(number)

    def discard(self, number: int) -> Message:
        """Remove a waiting message because no rule uses it, count it, and return it."""
        message = self.read(number)
        self.unmatched += 1
        count_topic(self._offers().unread, message.topic)
        return message

    def offer_again(self) -> None:
        """Offer all messages to other rules than before; those that were set aside wait again, in order of arrival.

        They can be more than the mailbox has places; then senders wait until enough of them were read.
        """
        offered = self.offered
        if offered is None:
            return
        self.unmatched -= len(offered.aside)
        self.queue.limit -= len(offered.aside)
        for _, pending in offered.aside:
            count_topic(offered.unread, pending.message.topic, -1)
        offered.waiting = OrderedDict(sorted((*offered.aside, *offered.waiting.items()), key=itemgetter(0)))
        offered.aside.clear()
        for pending in offered.waiting.values():
            pending.refusals = 0

    def _offers(self) -> Offered:
        if self.offered is None:
            self.offered = Offered(self.size)
        return self.offered

    def watch(self, callback: Callable[[], None]) -> Watcher:
        """Call `callback` after each accepted message, until the returned watcher is cancelled."""
        watcher = Watcher(self, callback)
        if self.watchers is _NO_WATCHERS:
            self.watchers = {}
        self.watchers[watcher] = None
        return watcher

    def has_room(self) -> bool:
        """Return whether `wait_for_room` would return at once."""
        queue = self.queue
        if queue.__class__ is not MailboxQueue:
            return True
        if queue.line is None:
            return queue.closed or len(queue) < queue.limit
        return queue.line.take() is not NOTHING

    async def wait_for_room(self) -> None:
        """Wait until there is room, if the policy is `block`; senders are admitted in order of arrival.

        Raises:
            ClosedError: if the agent stops during the wait.
        """
        if isinstance(self.queue, MailboxQueue):
            await self.queue.room.wait()

    def get(self) -> Awaitable[Message]:
        """Wait for the next message, remove it and return it.

        Raises:
            ClosedError: if the agent has stopped.
        """
        return self.queue.get()

    def take(self) -> Message | None:
        """Remove and return the next message, or return None if there is none."""
        if not len(self.queue):
            return None
        message: Message = self.queue.take()
        return message

    def close(self) -> int:
        """Refuse further messages, end all waits, and return the number of messages that were left."""
        queue = self.queue
        left = len(self) if queue.items or self.offered is not None else 0
        self.dead += left
        queued = queue.close()
        if queued or self.offered is not None:
            offered = self._offers()
            for message in (*(pending.message for pending in offered.waiting.values()), *queued):
                count_topic(offered.left, message.topic)
            offered.waiting.clear()
            offered.aside.clear()
            self.queue.limit = self.size
        if queue.__class__ is MailboxQueue and queue.line is not None:
            queue.line.close()
        return left

    def empty(self) -> list[Message]:
        """Remove all messages, and return those that can still be read, oldest first."""
        offered, queued = self.offered, self.queue.items
        messages = [] if offered is None else [pending.message for pending in offered.waiting.values()]
        if offered is not None:
            offered.waiting.clear()
            offered.aside.clear()
            self.queue.limit = self.size
        if queued:
            messages += queued
            queued.clear()
        return messages

    def counts(self) -> MailboxCounts:
        """Return what it has counted."""
        offered = self.offered
        unread, left = (None, None) if offered is None else (offered.unread, offered.left)
        return MailboxCounts(self.dropped, self.dead, self.unmatched, unread, left)

    def recount(self, counts: MailboxCounts) -> None:
        """Count on from other counts. To be called when it is empty."""
        self.dropped, self.dead, self.unmatched = counts.dropped, counts.dead, counts.unmatched
        self.offered = None
        if counts.unread or counts.left:
            offered = self._offers()
            offered.unread, offered.left = counts.unread or {}, counts.left or {}

    def reopen(self) -> None:
        """Accept messages again, because the agent starts again."""
        self.queue.closed = False
