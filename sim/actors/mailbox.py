"""Mailboxes: bounded queues of what is addressed to one agent."""

import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

from sim.errors import ClosedError
from sim.kernel import Actor, Kernel, Queue
from sim.kernel.waits import NOTHING, Waiters
from sim.world import Message

MailboxPolicy = Literal["block", "drop_oldest", "fail"]
"""What happens to a message for a full mailbox: its sender waits, the oldest gives way, or it is refused."""

Unmatched = Literal["keep", "drop", "fail"]
"""What happens to a message that no rule uses: it is looked at again, it is dropped, or the iteration fails."""


_NOBODY: dict["Watcher", None] = {}  # what most mailboxes share, so never changed


class Room:
    """Senders that wait until there is room, let in one for one message that leaves, in order of arrival.

    A wait of the kernel: a place is promised to a sender when it is woken, so that no newcomer can take it first.
    """

    __slots__ = ("_kernel", "_letters", "_promised", "_senders")

    def __init__(self, kernel: Kernel, letters: "Letters") -> None:
        self._kernel = kernel
        self._letters = letters
        self._senders = Waiters()
        self._promised = 0

    @types.coroutine
    def wait(self) -> Generator[Any, Any, None]:
        """Wait for a place; it is the sender's in the step in which this returns."""
        if self.take() is NOTHING:
            yield self
            self._promised -= 1

    def take(self) -> Any:
        """Return None if there is room that is promised to nobody, else `NOTHING`."""
        return None if self._free() or self._letters.closed else NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the line."""
        self._senders.add(actor)

    def undo(self, value: Any) -> None:
        """Give the promised place to the next."""
        self._promised -= 1
        self.admit()

    def leave(self) -> None:
        """Nobody is held up by who waits here: everybody wants one place."""

    def admit(self) -> None:
        """Let in as many as there are places."""
        while self._free() and (actor := self._senders.pop()) is not None:
            self._promised += 1
            self._kernel.wake(actor, None, self)

    def close(self) -> None:
        """Answer everyone who waits: the agent has stopped."""
        while (actor := self._senders.pop()) is not None:
            self._kernel.throw(actor, ClosedError("the agent that was written to has stopped"))

    def _free(self) -> bool:
        return len(self._letters) + self._promised < self._letters.limit


class Letters(Queue):
    """The queue of a mailbox that blocks: it lets senders in when a message has left."""

    __slots__ = ("room",)

    def __init__(self, kernel: Kernel, limit: int) -> None:
        super().__init__(kernel, limit)
        self.room = Room(kernel, self)

    @types.coroutine
    def get(self) -> Generator[Any, Any, Any]:
        """Wait for the next message and return it."""
        value = self.take()
        return (yield self) if value is NOTHING else value

    def take(self) -> Any:
        """Return the next message, or `NOTHING`."""
        value = super().take()
        if value is not NOTHING:
            self.room.admit()
        return value


class Watcher:
    """Who is told about each message that is taken, until `cancel`."""

    __slots__ = ("_mailbox", "callback")

    def __init__(self, mailbox: "Mailbox", callback: Callable[[], None]) -> None:
        self._mailbox = mailbox
        self.callback = callback

    def cancel(self) -> None:
        """Tell it no more."""
        self._mailbox.watchers.pop(self, None)


class Mailbox:
    """The mailbox of one agent.

    Args:
        kernel: wakes who waits for a message or for room.
        size: how many messages it holds.
        policy: what happens beyond.

    Attributes:
        queue: the messages; a wait of the kernel.
        dropped: how many gave way to newer ones.
        dead: how many were left, or arrived, when the agent had stopped.
        unmatched: how many were dropped, or made an iteration fail, because no rule used them.
        watchers: who is told about each message that is taken, in order.
    """

    __slots__ = ("_room", "dead", "dropped", "policy", "queue", "unmatched", "watchers")

    def __init__(self, kernel: Kernel, size: int, policy: MailboxPolicy) -> None:
        if policy == "block":
            letters = Letters(kernel, size)
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
        """Take a message; return why it was refused, or None."""
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
        """Have `callback` called with each message that is taken, until what is returned is cancelled."""
        watcher = Watcher(self, callback)
        if self.watchers is _NOBODY:
            self.watchers = {}
        self.watchers[watcher] = None
        return watcher

    async def wait_for_room(self) -> None:
        """Wait until a message would be taken, if the policy is to block; senders go in order of arrival.

        Raises:
            ClosedError: if the agent stops meanwhile.
        """
        if self._room is not None:
            await self._room.wait()

    def get(self) -> Awaitable[Message]:
        """Wait for the next message.

        Raises:
            ClosedError: if the agent has stopped.
        """
        return self.queue.get()

    def take(self) -> Message | None:
        """Return the next message, or None."""
        if not len(self.queue):
            return None
        message: Message = self.queue.take()
        return message

    def close(self) -> int:
        """Refuse what comes, answer who waits, and return how many dead letters were left."""
        left = len(self.queue.close())
        self.dead += left
        if self._room is not None:
            self._room.close()
        return left

    def reopen(self) -> None:
        """Take messages again: the agent is started anew."""
        self.queue.closed = False
