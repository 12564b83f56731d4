"""The events of conversations and their users."""

from sim.events.event_type import Published, event_type
from sim.kernel.codec import ABSENT, Absent, JsonObject


class _UserData(Published, frozen=True, gc=False, kw_only=True):
    """A user, as it is from now on.

    Attributes:
        level: the level of trust.
        links: the accounts of the user: `platform`, `platform_user_id`, and the name shown there as
            `platform_username`.
        user: the id of the user.
    """

    level: str
    links: list[dict[str, str]]
    user: str


@event_type("user.created")
class UserCreated(_UserData, frozen=True, gc=False, kw_only=True):
    """A person wrote for the first time."""


@event_type("user.changed")
class UserChanged(_UserData, frozen=True, gc=False, kw_only=True):
    """The level or the accounts of a user have changed."""


@event_type("conversation.started")
class ConversationStarted(Published, frozen=True, gc=False, kw_only=True):
    """A conversation has begun.

    Attributes:
        channel: the channel.
        conversation: its id.
        platform: the platform.
        thread: the thread; null: the channel itself.
        user: the id of the user who began it.
    """

    channel: str
    conversation: str
    platform: str
    thread: str | None
    user: str


@event_type("conversation.message")
class MessageSaid(Published, frozen=True, gc=False, kw_only=True):
    """Something was said in a conversation, or was added to it for the model.

    Attributes:
        audience: who sees it: `model`, `person` or `none`; otherwise all do.
        author: who wrote it: an agent, or the id of a user.
        content: the text.
        conversation: the conversation.
        id: its number in the conversation, from 1.
        metadata: further data, if any.
        role: what it is: `user`, `assistant`, `tool_call`, `tool_result` or `error`.
        seen: the number of the latest message that the author knew.
        session: the number of the session of the conversation, from 1.
    """

    audience: str | Absent = ABSENT
    author: str
    content: str
    conversation: str
    id: int
    metadata: JsonObject | Absent = ABSENT
    role: str
    seen: int
    session: int


@event_type("conversation.withheld")
class MessagesWithheld(Published, frozen=True, gc=False, kw_only=True):
    """No model sees some messages any more, because their person was refused an answer.

    Attributes:
        conversation: the conversation.
        ids: the numbers of the messages.
        refusal: why the answer was refused.
    """

    conversation: str
    ids: list[int]
    refusal: str


@event_type("conversation.revised")
class MessageRevised(Published, frozen=True, gc=False, kw_only=True):
    """The text of an error that a person sees has changed.

    Attributes:
        content: the new text.
        conversation: the conversation.
        id: the number of the message.
        metadata: the new further data.
    """

    content: str
    conversation: str
    id: int
    metadata: JsonObject


@event_type("conversation.removed")
class ConversationRemoved(Published, frozen=True, gc=False, kw_only=True):
    """A conversation was deleted.

    Attributes:
        conversation: the conversation.
    """

    conversation: str


@event_type("conversation.session_ended")
class SessionEnded(Published, frozen=True, gc=False, kw_only=True):
    """A session of a conversation has ended.

    Attributes:
        conversation: the conversation.
        ended_ns: when its last message was written, in simulated nanoseconds.
        first: the number of its first message.
        last: the number of its last message.
        number: its number in the conversation, from 1.
        reason: why it ended, such as `session_timeout`.
        started_ns: when its first message was written, in simulated nanoseconds.
    """

    conversation: str
    ended_ns: int
    first: int
    last: int
    number: int
    reason: str
    started_ns: int


@event_type("conversation.summarized")
class ConversationSummarised(Published, frozen=True, gc=False, kw_only=True):
    """A summary stands for the older messages of a conversation.

    Attributes:
        conversation: the conversation.
        summarized_to: the number of the last message that it covers.
        summary: the summary.
    """

    conversation: str
    summarized_to: int
    summary: str


@event_type("conversation.summary_failed")
class SummaryFailed(Published, frozen=True, gc=False, kw_only=True):
    """No summary of the older messages of a conversation could be made.

    Attributes:
        conversation: the conversation.
        error: why.
    """

    conversation: str
    error: str
