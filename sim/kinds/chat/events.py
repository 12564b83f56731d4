"""The events of chats."""

from sim.events.event_type import Published, event_type
from sim.kernel.codec import ABSENT, Absent, JsonObject
from sim.record.views import VIEWS, view_of


@event_type("chat.response")
class ChatAnswered(Published, frozen=True, gc=False, kw_only=True):
    """A chat agent has answered a message.

    Attributes:
        account: the account of the user on the platform.
        channel: the channel.
        content: the text.
        cost_micro: the cost of all model calls, in millionths of the unit of money.
        ending: why the model calls ended; null: an internal error ended them.
        error: the cause of an answer that is not what was asked for; null: it is.
        files: the files that tools made: `filename`, `url`, and `file_id` and `minio_key` if they have them.
        incomplete: whether the text is not finished.
        iterations: the number of model calls.
        job: the job that sent the message; null: a person did.
        level: the level of the user.
        models: the models that answered, without repetition.
        platform: the platform.
        refusal: what kind of cause the error is.
        seconds: the time from the message to the answer, in simulated seconds.
        shortened: how many earlier messages the shortest prompt left out, to stay within the budget.
        stop: why the last model call ended; null: no model answered.
        text_tokens: the tokens of the text itself; null: no model wrote it.
        thread: the thread; null: the channel itself.
        tokens: the tokens of all model calls.
        tools: the number of tool calls.
        user: the id of the user.
    """

    account: str
    channel: str
    content: str
    cost_micro: int
    ending: str | None
    error: str | None
    files: list[JsonObject]
    incomplete: bool
    iterations: int
    job: str | None
    level: str
    models: list[str]
    platform: str
    refusal: str | None
    seconds: float
    shortened: int
    stop: str | None
    text_tokens: int | None
    thread: str | None
    tokens: int
    tools: int
    user: str


@event_type("chat.tokens")
class TokensUsed(Published, frozen=True, gc=False, kw_only=True):
    """A model was called for a user.

    Attributes:
        conversation: the conversation.
        cost_micro: the cost, in millionths of the unit of money.
        input_tokens: the tokens of the request.
        model: the model.
        output_tokens: the tokens of the answer.
        user: the id of the user.
    """

    conversation: str
    cost_micro: int
    input_tokens: int
    model: str
    output_tokens: int
    user: str


@event_type("chat.budget_opened")
class BudgetOpened(Published, frozen=True, gc=False, kw_only=True):
    """A user has a budget of tokens from now on.

    Attributes:
        limit: the tokens of a period; null: there is no limit.
        renewed: when it is renewed, in simulated seconds.
        renewed_at: the same as a date.
        user: the id of the user.
    """

    limit: int | None
    renewed: float
    renewed_at: str
    user: str


@event_type("chat.budget_reset")
class BudgetReset(Published, frozen=True, gc=False, kw_only=True):
    """The budget of a user was renewed.

    Attributes:
        limit: the tokens of a period; null: there is no limit.
        renewed: when it is renewed next, in simulated seconds.
        renewed_at: the same as a date.
        used: the tokens that were used in the period before.
        user: the id of the user.
    """

    limit: int | None
    renewed: float
    renewed_at: str
    used: int
    user: str


@event_type("chat.file")
class FileKept(Published, frozen=True, gc=False, kw_only=True):
    """A user got a file.

    Attributes:
        filename: its name.
        id: its id.
        mime_type: its type.
        minio_key: its key in an object store, if it is in one.
        size_bytes: its size in bytes.
        url: its address.
        user: the id of the user.
    """

    filename: str
    id: str
    mime_type: str
    minio_key: str | Absent = ABSENT
    size_bytes: int
    url: str
    user: str


@event_type("chat.job")
class JobChanged(Published, frozen=True, gc=False, kw_only=True):
    """A message that is sent later was added, or has ended.

    Attributes:
        content: the text of the message, when it is added.
        due: when it is sent, in simulated seconds; null: at a place.
        job: its id.
        place: the place of the user at which it is sent; null: at a time.
        user: the id of the user.
        what: how it ended: `added`, `done`, `refused` or `cancelled`.
    """

    content: str | Absent = ABSENT
    due: float | Absent | None = ABSENT
    job: str
    place: str | Absent | None = ABSENT
    user: str
    what: str


@event_type("chat.location")
class UserLocated(Published, frozen=True, gc=False, kw_only=True):
    """A user is at another place.

    Attributes:
        place: the place.
        user: the id of the user.
    """

    place: str
    user: str


VIEWS["token_log"] = view_of(
    TokensUsed,
    "One row a model call for a user. Summaries are not in it.",
    {
        "user": "$user",
        "conversation": "$conversation",
        "model": "$model",
        "input_tokens": "$input_tokens",
        "output_tokens": "$output_tokens",
        "cost": "($cost_micro) / 1e6",
    },
)
VIEWS["chat_responses"] = view_of(
    ChatAnswered,
    "One row an answer of a chat agent.",
    {
        "agent": "actor",
        "user": "$user",
        "level": "$level",
        "platform": "$platform",
        "account": "$account",
        "channel": "$channel",
        "thread": "$thread",
        "content": "$content",
        "refusal": "$refusal",
        "error": "$error",
        "incomplete": "$incomplete",
        "ending": "$ending",
        "stop": "$stop",
        "shortened": "$shortened",
        "iterations": "$iterations",
        "tools": "$tools",
        "tokens": "$tokens",
        "cost": "($cost_micro) / 1e6",
        "files": "$files",
        "seconds": "$seconds",
        "job": "$job",
    },
)
VIEWS["files"] = view_of(
    FileKept,
    "One row a file that people got.",
    {
        "file": "$id",
        "user": "$user",
        "filename": "$filename",
        "mime_type": "$mime_type",
        "size_bytes": "$size_bytes",
        "url": "$url",
        "minio_key": "$minio_key",
    },
)
