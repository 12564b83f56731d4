"""Mailboxes: bounded queues of what is addressed to one agent."""

import types
from collections.abc import Callable, Generator
from typing import Any, Literal

from sim.errors import ClosedError
from sim.kernel import Kernel, Queue, Signal
from sim.kernel.waits import NOTHING
from sim.world import Message

MailboxPolicy = Literal["block", "drop_oldest", "fail"]
"""What happens to a message for a full mailbox: its sender waits, the oldest gives way, or it is refused."""


class Letters(Queue):
    """The queue of a mailbox: it tells senders that wait when a message has left."""

    __slots__ = ("room",)

    def __init__(self, kernel: Kernel, limit: int, room: Signal | None) -> None:
        super().__init__(kernel, limit)
        self.room = room

    @types.coroutine
    def get(self) -> Generator[Any, Any, Any]:
        """Wait for the next message and return it."""
        value = self.take()
        return (yield self) if value is NOTHING else value

    def take(self) -> Any:
        """Return the next message, or `NOTHING`."""
        value = super().take()
        if self.room is not None and value is not NOTHING:
            self.room.fire()
        return value


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
    """

    __slots__ = ("_room", "_watchers", "dead", "dropped", "policy", "queue")

    def __init__(self, kernel: Kernel, size: int, policy: MailboxPolicy) -> None:
        self._room = Signal(kernel) if policy == "block" else None
        self.queue = Letters(kernel, size, self._room)
        self.policy: MailboxPolicy = policy
        self.dropped = 0
        self.dead = 0
        self._watchers: dict[object, Callable[[], None]] | None = None

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
        for callback in list((self._watchers or {}).values()):
            callback()
        return None

    def watch(self, callback: Callable[[], None]) -> Callable[[], object]:
        """Have `callback` called with each message that is taken, until the function returned is called."""
        if self._watchers is None:
            self._watchers = {}
        watchers, key = self._watchers, object()
        watchers[key] = callback
        return lambda: watchers.pop(key, None)

    async def wait_for_room(self) -> None:
        """Wait until a message would be taken, if the policy is to block."""
        while self._room is not None and not self.queue.closed and len(self.queue) >= self.queue.limit:
            await self._room.wait()

    async def get(self) -> Message:
        """Wait for the next message.

        Raises:
            ClosedError: if the agent has stopped.
        """
        message: Message = await self.queue.get()
        return message

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
            self._room.fail(ClosedError("the agent that was written to has stopped"))
        return left

    def reopen(self) -> None:
        """Take messages again: the agent is started anew."""
        self.queue.closed = False
