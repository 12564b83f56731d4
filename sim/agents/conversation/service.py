"""The conversations of a world: who talks with whom, and what was said.

There are two views of the same messages: the *thread*, which a person sees, and the *history*, which a model sees. The
history is always well formed: each tool call has its result, and no result lacks its call.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from sim.agents.conversation.records import (
    VISIBLE,
    Conversation,
    ConversationMessage,
    ConversationSettings,
    MessageRole,
    PlatformLink,
    User,
)
from sim.agents.engine.core_loop import cut
from sim.kernel.codec import encode
from sim.llm.types import ChatMessage, ToolCall
from sim.tools import Access, Tools
from sim.tools.access import User as AccessUser
from sim.world import Service, World

TOPIC = "conversation.message"
"""The topic of the event that each message publishes."""

_UNFINISHED = encode({"success": False, "error": "the call was not finished"}).decode()


class Conversations(Service):
    """The conversations of one world.

    Args:
        world: the world.
        settings: limits, and the level of new users.

    Attributes:
        users: all users by id.
        conversations: all conversations by id.
        dropped: how many old messages were dropped.
        claims: the agent that works on an answer, by conversation.
    """

    name: ClassVar[str] = "conversations"

    def __init__(self, world: World, settings: ConversationSettings | None = None) -> None:
        self.settings = settings or ConversationSettings()
        self.users: dict[str, User] = {}
        self.conversations: dict[str, Conversation] = {}
        self.dropped = 0
        self.claims: dict[str, str] = {}
        self._world = world
        self._links: dict[tuple[str, str], str] = {}
        self._places: dict[tuple[str, str, str | None], str] = {}
        self._messages: dict[str, list[ConversationMessage]] = {}
        self._counts: dict[str, int] = {}  # conversation → number of messages so far
        Tools.on(world).context = self.context

    # -- users and conversations

    def resolve_user(self, platform: str, platform_user_id: str, username: str = "") -> User:
        """Return the user of an account; a new user is made for an account that is not known."""
        id = self._links.get((platform, platform_user_id))
        if id is not None:
            return self.users[id]
        link = PlatformLink(platform, platform_user_id, username or platform_user_id)
        user = User(f"user-{len(self.users) + 1}", self.settings.level, self._world.kernel.now, (link,))
        self._links[platform, platform_user_id] = user.id
        self._keep(user)
        self._tell("user.created", {"user": user.id, "platform": platform, "platform_user_id": platform_user_id})
        return user

    def link(self, user_id: str, platform: str, platform_user_id: str, username: str = "") -> User:
        """Add an account to a user. Only the runtime or an operator may do this, never an agent by itself.

        Raises:
            KeyError: if there is no such user.
            ValueError: if the account belongs to another user.
        """
        if self._links.get((platform, platform_user_id), user_id) != user_id:
            raise ValueError(f"the account {platform_user_id!r} on {platform} belongs to another user")
        user = self.users[user_id]
        new = PlatformLink(platform, platform_user_id, username or platform_user_id)
        if (platform, platform_user_id) not in self._links:
            user = attrs.evolve(user, links=(*user.links, new))
            self._links[platform, platform_user_id] = user_id
            self._keep(user)
        return user

    def set_level(self, user_id: str, level: Any) -> None:
        """Change the level of trust of a user; for the runtime and the operator."""
        self._keep(attrs.evolve(self.users[user_id], permission=level))

    def _keep(self, user: User) -> None:
        self.users[user.id] = user
        Access.on(self._world).users[user.id] = AccessUser(user.permission)

    def resolve(self, user: User, platform: str, channel: str, thread: str | None = None) -> Conversation:
        """Return the conversation at a place, a new one if there is none. A silence begins a new session."""
        now = self._world.kernel.now
        id = self._places.get((platform, channel, thread))
        if id is None:
            id = f"conversation-{len(self.conversations) + 1}"
            self._places[platform, channel, thread] = id
            found = Conversation(id, user.id, platform, channel, thread, now, now)
            self._messages[id] = []
            self._tell("conversation.started", {"conversation": id, "user": user.id, "platform": platform})
        else:
            found = self.conversations[id]
            if now - found.last_active_ns >= self.settings.session_timeout:
                found = attrs.evolve(found, session=found.session + 1)
        self.conversations[id] = attrs.evolve(found, last_active_ns=now)
        return self.conversations[id]

    # -- messages

    def append(
        self,
        conversation_id: str,
        role: MessageRole,
        author: str,
        content: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> ConversationMessage:
        """Add a message and publish `conversation.message`.

        Args:
            conversation_id: the conversation.
            role: who it is from.
            author: the user or agent that wrote it.
            content: the text.
            metadata: further data; see `ConversationMessage`.
        """
        held, now = self._messages[conversation_id], self._world.kernel.now
        number = self._counts[conversation_id] = self._counts.get(conversation_id, 0) + 1
        conversation = self.conversations[conversation_id] = attrs.evolve(
            self.conversations[conversation_id], last_active_ns=now
        )
        text = cut(content, self.settings.longest)
        message = ConversationMessage(
            number, conversation_id, role, author, text, now, conversation.session, metadata or {}
        )
        held.append(message)
        if len(held) > self.settings.most_messages:
            held.pop(0)
            self.dropped += 1
        data = {"conversation": conversation_id, "id": number, "role": role, "author": author, "content": text,
                "session": message.session, **({"metadata": dict(metadata)} if metadata else {})}  # fmt: skip
        self._tell(TOPIC, data)
        return message

    def note(self, conversation_id: str, author: str) -> Callable[[ChatMessage], None]:
        """Return a function that keeps what the engine adds to a model history; see `CoreLoop.note`."""

        def keep(message: ChatMessage) -> None:
            if message.role == "tool":
                self.append(
                    conversation_id, "tool_result", author, message.content, {"tool_use_id": message.tool_call_id}
                )
                return
            if message.content:
                self.append(conversation_id, "assistant", author, message.content)
            for call in message.tool_calls:
                about = {"tool": call.name, "tool_use_id": call.id}
                self.append(conversation_id, "tool_call", author, call.arguments, about)

        return keep

    def messages(self, conversation_id: str) -> Sequence[ConversationMessage]:
        """Return the messages of a conversation, oldest first."""
        return self._messages.get(conversation_id, ())

    def thread(self, conversation_id: str) -> list[ConversationMessage]:
        """Return what a person sees: texts, errors, and that tools were used; not what tools returned."""
        return [message for message in self.messages(conversation_id) if message.role != "tool_result"]

    def history(self, conversation_id: str, *, session: bool = False) -> list[ChatMessage]:
        """Return what a model sees: the latest messages, with tool calls and their results.

        Args:
            conversation_id: the conversation.
            session: whether only messages of the present session count.
        """
        conversation = self.conversations[conversation_id]
        recent = [
            message
            for message in self.messages(conversation_id)
            if message.id > conversation.summarized_to and (not session or message.session == conversation.session)
        ]
        return list(_well_formed(recent[-self.settings.window :]))

    def waiting(self) -> list[Conversation]:
        """Return the conversations that wait for an answer and that nobody works on, the longest waiting first.

        These are the ones whose latest visible message is from a person, or is an error after which a retry is due.
        """
        found, now = [], self._world.kernel.now
        for conversation in self.conversations.values():
            due = self._due_ns(conversation)
            if due is not None and due <= now and conversation.id not in self.claims:
                found.append((due, conversation))
        return [conversation for _, conversation in sorted(found, key=lambda pair: (pair[0], _number(pair[1].id)))]

    def next_retry_ns(self) -> int | None:
        """Return when the next retry after an error is due, in simulated nanoseconds; None if there is none."""
        now = self._world.kernel.now
        found = [due for one in self.conversations.values() if (due := self._due_ns(one)) is not None and due > now]
        return min(found, default=None)

    def _due_ns(self, conversation: Conversation) -> int | None:
        """Return from when on a conversation waits for an answer; None if it does not."""
        last = next((m for m in reversed(self._messages[conversation.id]) if m.role in VISIBLE), None)
        if last is None or last.role == "assistant":
            return None
        if last.role == "user":
            return last.time_ns
        retry: int | None = last.metadata.get("retry_at_ns")
        return retry

    def failures(self, conversation_id: str) -> int:
        """Return the number of errors since the latest message of a person."""
        count = 0
        for message in reversed(self.messages(conversation_id)):
            if message.role == "user":
                break
            count += message.role == "error"
        return count

    def context(self, agent_id: str) -> Mapping[str, Any]:
        """Return what the runtime knows of the tool calls of an agent: the conversation that it works on."""
        claimed = next((id for id, agent in self.claims.items() if agent == agent_id), None)
        if claimed is None:
            return {}
        one = self.conversations[claimed]
        return {"user": one.user, "platform": one.platform, "channel": one.channel, "thread": one.thread,
                "conversation": one.id}  # fmt: skip

    def search(self, query: str, *, conversation_id: str | None = None, limit: int = 20) -> list[ConversationMessage]:
        """Return the visible messages that have all words of a query, newest first. Upper and lower case are equal."""
        words = query.casefold().split()
        held = self._messages.values() if conversation_id is None else [list(self.messages(conversation_id))]
        found = [
            message
            for messages in held
            for message in messages
            if message.role in VISIBLE and words and all(word in message.content.casefold() for word in words)
        ]
        return sorted(found, key=lambda m: (-m.time_ns, _number(m.conversation), -m.id))[:limit]

    async def summarise(self, conversation_id: str, summariser: Callable[[str], Awaitable[str]]) -> bool:
        """Summarise what is older than the window; return whether it was done.

        Args:
            conversation_id: the conversation.
            summariser: gets the text of the older messages and returns a summary. If it fails, nothing changes.
        """
        conversation, held = self.conversations[conversation_id], self._messages[conversation_id]
        old = [m for m in held[: -self.settings.window] if m.id > conversation.summarized_to]
        if not old:
            return False
        before = [conversation.summary] if conversation.summary else []
        text = "\n".join([*before, *(f"{m.author}: {m.content}" for m in old if m.role in VISIBLE)])
        summary = await summariser(text)
        self.conversations[conversation_id] = attrs.evolve(
            self.conversations[conversation_id], is_summarized=True, summary=summary, summarized_to=old[-1].id
        )
        self._tell("conversation.summarized", {"conversation": conversation_id, "messages": len(old)})
        return True

    # -- numbers

    def state(self) -> Any:
        """Return users, conversations and messages for the final digest; None if there are none."""
        if not self.users and not self.conversations:
            return None
        return {
            "users": {id: attrs.asdict(user) for id, user in self.users.items()},
            "conversations": {id: attrs.asdict(one) for id, one in self.conversations.items()},
            "messages": {id: [attrs.asdict(one) for one in held] for id, held in self._messages.items()},
        }

    def metrics(self) -> Mapping[str, float]:
        """Return the numbers of users, conversations, messages, and conversations that wait for an answer."""
        return {
            "users": len(self.users), "conversations": len(self.conversations),
            "messages": sum(dict(self._counts).values()), "dropped": self.dropped,
        }  # fmt: skip

    def summary(self) -> Mapping[str, Any]:
        """Return the numbers of users, conversations and messages, and of conversations without an answer."""
        return {**self.metrics(), "waiting": len(self.waiting())} if self.conversations else {}

    def _tell(self, topic: str, data: Mapping[str, Any]) -> None:
        self._world.event_bus.tell(topic, data)


def _number(id: str) -> int:
    return int(id.rpartition("-")[2])


def _well_formed(messages: Sequence[ConversationMessage]) -> Iterator[ChatMessage]:
    """Yield messages for a model: consecutive tool calls as one message, each followed by its results."""
    results = {m.metadata.get("tool_use_id"): m for m in messages if m.role == "tool_result"}
    text, calls = "", list[ToolCall]()

    def spoken() -> Iterator[ChatMessage]:
        nonlocal text, calls
        if text or calls:
            yield ChatMessage("assistant", text, tuple(calls))
            for call in calls:
                result = results.get(call.id)
                yield ChatMessage("tool", _UNFINISHED if result is None else result.content, tool_call_id=call.id)
        text, calls = "", []

    for message in messages:
        match message.role:
            case "user":
                yield from spoken()
                yield ChatMessage("user", message.content)
            case "assistant":
                yield from spoken()
                text = message.content
            case "tool_call":
                calls.append(
                    ToolCall(
                        str(message.metadata.get("tool_use_id")), str(message.metadata.get("tool")), message.content
                    )
                )
            case "tool_result":
                if calls and message.metadata.get("tool_use_id") == calls[-1].id:
                    yield from spoken()
            case "error":
                pass  # a model does not see its own failures
    yield from spoken()
