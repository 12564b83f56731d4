"""Mailboxes: bounded queues of the messages to one agent."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

from sim.errors import ClosedError
from sim.kernel import Actor, Kernel, Queue
from sim.kernel.coroutines import coroutine
from sim.kernel.waits import NOTHING, Waiters
from sim.world import Message

MailboxPolicy = Literal["block", "drop_oldest", "fail"]
"""What happens to a message for a full mailbox: its sender waits, the oldest message is dropped, or it is refused."""

Unmatched = Literal["keep", "drop", "fail"]
"""What happens to a message that no rule uses: it is kept for the next iteration, dropped, or the iteration fails."""


_NOBODY: dict["Watcher", None] = {}  # shared by all mailboxes without watchers, to save memory; never modified


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

    def admit(self) -> None:
        """Wake as many senders as there are free places."""
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

    __slots__ = ("room",)

    def __init__(self, kernel: Kernel, limit: int) -> None:
        super().__init__(kernel, limit)
        self.room = Room(kernel, self)

    @coroutine
    def get(self) -> Generator[Any, Any, Any]:
        """Wait for the next message, remove it and return it."""
        value = self.take()
        return (yield self) if value is NOTHING else value

    def take(self) -> Any:
        """Remove and return the next message, or return `NOTHING`."""
        value = super().take()
        if value is not NOTHING:
            self.room.admit()
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


class Mailbox:
    """The mailbox of one agent.

    Args:
        kernel: the kernel that wakes actors that wait for a message or for room.
        size: the maximum number of messages.
        policy: what happens to a message when the mailbox is full.

    Attributes:
        queue: the messages; a wait of the kernel.
        dropped: number of messages that were dropped to accept newer ones.
        dead: number of dead letters: messages that were left when the agent stopped, or arrived later.
        unmatched: number of messages that were dropped, or made an iteration fail, because no rule used them.
        watchers: callbacks for each accepted message, in order.
    """

    __slots__ = ("_room", "dead", "dropped", "policy", "queue", "unmatched", "watchers")

    def __init__(self, kernel: Kernel, size: int, policy: MailboxPolicy) -> None:
        if policy == "block":
            letters = MailboxQueue(kernel, size)
            self.queue: Queue = letters
            self._room: Room | None = letters.room
        else:
            self.queue = Queue(kernel, size)
            self._room = None
        self.policy: MailboxPolicy = policy
        self.dropped = 0
        self.dead = 0
        self.unmatched = 0
        self.watchers: dict[Watcher, None] = _NOBODY

    def __len__(self) -> int:
        return len(self.queue)

    def offer(self, message: Message) -> str | None:
        """Accept a message and return None, or return the reason for refusing it."""
        if self.queue.closed:
            self.dead += 1
            return f"{message.to} has stopped"
        if not self.queue.put_nowait(message):
            if self.policy != "drop_oldest":
                return f"the mailbox of {message.to} is full"
            self.queue.take()
            self.dropped += 1
            self.queue.put_nowait(message)
        if self.watchers:
            for watcher in list(self.watchers):
                watcher.callback()
        return None

    def watch(self, callback: Callable[[], None]) -> Watcher:
        """Call `callback` after each accepted message, until the returned watcher is cancelled."""
        watcher = Watcher(self, callback)
        if self.watchers is _NOBODY:
            self.watchers = {}
        self.watchers[watcher] = None
        return watcher

    async def wait_for_room(self) -> None:
        """Wait until there is room, if the policy is `block`; senders are admitted in order of arrival.

        Raises:
            ClosedError: if the agent stops during the wait.
        """
        if self._room is not None:
            await self._room.wait()

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
        left = len(self.queue.close())
        self.dead += left
        if self._room is not None:
            self._room.close()
        return left

    def reopen(self) -> None:
        """Accept messages again, because the agent starts again."""
        self.queue.closed = False
