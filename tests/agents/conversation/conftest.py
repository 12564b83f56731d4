"""A world with conversations, whose time a test can set."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.agents.conversation import Conversation, ConversationMessage, Conversations, ConversationSettings, section
from sim.kernel.codec import decode, encode
from sim.llm.types import ChatMessage
from sim.world import Action, ActionResult
from tests.actors.helpers import Lab

Make = Callable[..., "Desk"]


class Desk:
    """The conversations of a world with the agents `ann` and `bot`, used from outside."""

    def __init__(self, **settings: Any) -> None:
        self.lab = Lab()
        section.CONVERSATIONS.add_to(self.lab.world, ConversationSettings(**settings))
        self.service = Conversations.of(self.lab.world)
        for name in ("ann", "bot"):
            self.lab.add(name)

    def at(self, seconds: float) -> None:
        """Let simulated time pass until so many seconds from the start."""
        self.lab.kernel.advance_to(round(seconds * 10**9))

    def do(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call something as the scenario."""
        with self.lab.kernel.acting_as(self.lab.kernel.scenario):
            return call(*arguments, **named)

    def main(self, process: Any) -> Any:
        """Run a process to its end."""
        return self.lab.main(process)

    def open(self, account: str = "ann", channel: str = "desk", thread: str | None = None) -> Conversation:
        """Return the conversation at a place."""
        user = self.do(self.service.resolve_user, "chat", account)
        found: Conversation = self.do(self.service.resolve, user, "chat", channel, thread)
        return found

    def say(self, text: str, account: str = "ann", channel: str = "desk") -> ConversationMessage:
        """Write as a person."""
        conversation = self.open(account, channel)
        user = self.do(self.service.resolve_user, "chat", account)
        return self.add("user", text, user.id, conversation.id)

    def add(
        self, role: str, text: str, author: str = "bot", conversation: str = "conversation-1", **more: Any
    ) -> ConversationMessage:
        """Add a message; by default of the agent `bot`."""
        message: ConversationMessage = self.do(self.service.append, conversation, role, author, text, **more)
        return message

    def note(self, *messages: ChatMessage) -> None:
        """Add what the engine adds."""
        keep = self.service.note("conversation-1", "bot")
        for message in messages:
            self.do(keep, message)

    def act(self, kind: str, agent: str = "ann", /, **arguments: Any) -> ActionResult:
        """Have an agent act."""
        return self.do(self.lab.world.act, self.lab.script(agent), Action(kind, arguments))  # type: ignore[no-any-return]

    def history(self, **options: Any) -> list[tuple[str, str]]:
        """Return role and text of what a model sees."""
        return [(message.role, message.content) for message in self.service.history("conversation-1", **options)]

    def events(self, topic: str) -> list[Any]:
        """Return the data of all events of a topic."""
        return [decode(encode(row.data)) for row in self.lab.rows(topic=topic)]


@pytest.fixture
def desk() -> Desk:
    """Conversations with the default settings."""
    return Desk()


@pytest.fixture
def make_desk() -> Make:
    """Return a function that makes conversations with other settings."""
    return Desk
