"""The records of conversations: users, their accounts on platforms, conversations, sessions and messages."""

from collections.abc import Mapping
from typing import Annotated, Literal

import attrs

from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kernel.codec import JsonObject
from sim.kernel.duration import NS
from sim.world.section import Level, PositiveDuration, Range

MessageRole = Literal["user", "assistant", "tool_call", "tool_result", "error"]
"""Who a message is from: a person, an agent, a call of a tool, its result, or an error that the person sees."""

Audience = Literal["all", "person", "model", "none"]
"""Who sees a message, as far as its role allows: both, only the person, only the model, or neither."""

VISIBLE = ("user", "assistant", "error")
"""The roles of messages that a person sees as text; of a tool call, a person sees that the tool is used."""


@attrs.frozen
class PlatformLink:
    """The account of a user on a platform.

    Args:
        platform: the name of the platform, such as `mail`.
        platform_user_id: the id of the user there.
        platform_username: the name that is shown there. It is only shown: nothing is looked up by it.
    """

    platform: str
    platform_user_id: str
    platform_username: str


@attrs.frozen
class User:
    """A person who writes to agents.

    Args:
        id: the id, such as `user:1`. No agent of a scenario can have such a name, and so no user its rights.
        permission: the level of trust. Only the runtime sets it, never a text.
        created_ns: when the first message arrived, in simulated nanoseconds.
        links: the accounts of the user, in the order in which they were found.
    """

    id: str
    permission: Permission
    created_ns: int
    links: tuple[PlatformLink, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name that transcripts show."""
        return self.links[0].platform_username if self.links else self.id


@attrs.frozen
class Conversation:
    """The messages of one channel, or of one thread of it.

    Args:
        id: the id, such as `conversation-1`.
        user: the id of the user who began it.
        platform, channel, thread: where it takes place; a thread is a conversation of its own, None: the channel.
        started_ns: when it began, in simulated nanoseconds.
        last_active_ns: when the latest message arrived.
        is_summarized: whether `summary` stands for its older messages.
        summary: the summary of the messages up to `summarized_to`; empty if there is none.
        summarized_to: the number of the last message that the summary covers, with the answers to it.
        session: the number of the present session, from 1; a new one begins after a time of silence.
    """

    id: str
    user: str
    platform: str
    channel: str
    thread: str | None
    started_ns: int
    last_active_ns: int
    is_summarized: bool = False
    summary: str = ""
    summarized_to: int = 0
    session: int = 1


@attrs.frozen
class Session:
    """A session of a conversation that has ended.

    Args:
        conversation: the id of the conversation.
        number: its number in the conversation, from 1.
        first, last: the numbers of its first and its last message.
        started_ns, ended_ns: when these were written, in simulated nanoseconds.
        reason: why it ended, such as `session_timeout`.
    """

    conversation: str
    number: int
    first: int
    last: int
    started_ns: int
    ended_ns: int
    reason: str


@attrs.frozen
class ConversationMessage:
    """One message.

    Args:
        id: its number in the conversation, from 1.
        conversation: the id of the conversation.
        role: who it is from.
        author: the user or agent that wrote it.
        content: the text; for tool calls the arguments, for tool results the result, as JSON.
        time_ns: when it was written, in simulated nanoseconds.
        session: the session that it belongs to.
        audience: who sees it.
        seen: the number of the latest message that its author knew. The model saw no later one when it answered.
        metadata: further data, JSON-like. Known keys: `tool`, `tool_use_id`, `success`, `tokens`, `model`,
            `refusal` (why the person was refused an answer), `user` (for whom a message is that a job sent), `final`
            (false for a text that comes with calls of tools), `incomplete`, `ending` (the limit that ended
            the answer), `retryable`, `retry_at_ns`.
    """

    id: int
    conversation: str
    role: MessageRole
    author: str
    content: str
    time_ns: int
    session: int = 1
    audience: Audience = "all"
    seen: int = 0
    metadata: JsonObject = attrs.field(factory=dict)


@attrs.frozen
class ConversationSettings:
    """Conversations of agents with people.

    Args:
        level: the level of users who write for the first time.
        levels: the level of users who are known before, by platform and account.
        people: the accounts of one person, by name of the person and by platform. They are one user.
        session_timeout: the silence after which a new session begins, with the next message.
        window: how many of the latest messages a model sees; older ones are in the summary, if there is one.
        batch: how many messages are summarised at once, at least, when the window is full; null: half of the window.
        longest: the most characters of a message; longer ones are cut, with a mark.
        most_messages: the most messages that a conversation keeps; the oldest are dropped and counted.

    Raises:
        UsageError: if an account belongs to two people, the accounts of one have different levels, or a batch is not
            smaller than the window.
    """

    level: Level = Permission.GUEST
    levels: Mapping[str, Mapping[str, Level]] = attrs.field(factory=dict)
    people: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    session_timeout: PositiveDuration = 1800 * NS
    window: Annotated[int, Range(2, 10_000)] = 50
    batch: Annotated[int, Range(1, 10_000)] | None = None
    longest: Annotated[int, Range(100, 1_000_000)] = 20_000
    most_messages: Annotated[int, Range(10, 1_000_000)] = 10_000

    def __attrs_post_init__(self) -> None:
        if self.batch is not None and self.batch >= self.window:
            raise UsageError(
                f"a batch of {self.batch} messages leaves none of a window of {self.window}",
                hint="set `batch` below `window`",
            )
        owners: dict[tuple[str, str], str] = {}
        for person, accounts in self.people.items():
            for account in accounts.items():
                if account in owners:
                    what = f"the account {account[1]!r:.60} on {account[0]} belongs to {owners[account]} and {person}"
                    raise UsageError(what, hint="an account has one person")
                owners[account] = person
            levels = {self.levels[on][name] for on, name in accounts.items() if name in self.levels.get(on, ())}
            if len(levels) > 1:
                raise UsageError(f"the accounts of {person} have different levels", hint="a person has one level")

    @property
    def batched(self) -> int:
        """How many messages are summarised at once, at least."""
        return max(1, self.window // 2) if self.batch is None else self.batch

    def accounts_beside(self, platform: str, account: str) -> tuple[tuple[str, str], ...]:
        """Return the other accounts of the person to whom an account belongs, as platform and account."""
        accounts = next((one for one in self.people.values() if one.get(platform) == account), {})
        return tuple(one for one in accounts.items() if one != (platform, account))

    def level_of(self, *accounts: tuple[str, str]) -> Permission:
        """Return the level of the user who has these accounts."""
        levels = (self.levels[on][name] for on, name in accounts if name in self.levels.get(on, ()))
        return next(levels, self.level)
