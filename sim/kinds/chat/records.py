"""The records of chat agents: messages that come in, answers, files, jobs, budgets."""

from typing import Any, Final, Literal, NotRequired, TypedDict

import attrs

from sim.agents.engine import Ending
from sim.kernel.codec import Json, JsonObject
from sim.llm.types import StopReason

Refusal = Literal["budget", "internal_error", "no_model", "skipped", "not_finished"]
"""Why an answer is not what was asked for: the budget is too small; something failed; no model answered, or a limit of
the scenario or the run refused the call; a limit of the scenario has the policy `skip`; a limit of the answer was
reached, and the text is incomplete."""

WITHHELD: Final = ("budget", "internal_error", "no_model", "skipped")
"""Refusals that are for the person alone: no model sees them, nor the message, nor what was done for it."""


class Attachment(TypedDict, total=False):
    """A file that a message brings: what is known of it, and its text if it is one."""

    filename: str
    mime_type: str
    size_bytes: int
    url: str
    minio_key: str
    content: str


class ShownFile(TypedDict):
    """A file of a user, as tools return it; `minio_key` if it is in an object store."""

    file_id: str
    filename: str
    url: str
    size_bytes: int
    minio_key: NotRequired[str]


@attrs.frozen
class IncomingMessage:
    """A message of a person on a platform.

    Args:
        platform: the platform.
        platform_user_id: the account of the person there.
        platform_server_id: the server, such as a guild or a workspace; None: there is none.
        platform_channel_id: the channel.
        platform_thread_id: the thread of the channel; None: the channel itself.
        content: the text.
        attachments: files with `filename`, `mime_type`, `size_bytes`, `url`, `minio_key` and, if it is text, `content`.
        sent_ns: when it was sent, in simulated nanoseconds.
        job: the scheduled job that sent it; None: a person did.
    """

    platform: str
    platform_user_id: str
    platform_server_id: str | None
    platform_channel_id: str
    platform_thread_id: str | None
    content: str
    attachments: tuple[Attachment, ...] = ()
    sent_ns: int = 0
    job: str | None = None

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Where its conversation is: platform, channel and thread."""
        return self.platform, self.platform_channel_id, self.platform_thread_id

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {**attrs.asdict(self), "attachments": [dict(one) for one in self.attachments]}

    @classmethod
    def from_json(cls, data: Any) -> "IncomingMessage":
        """Return the message that `to_json` wrote."""
        return cls(**{**data, "attachments": tuple(data["attachments"])})


@attrs.frozen
class AgentResponse:
    """The answer to a message.

    Args:
        content: the text.
        files: the files that tools made: `filename`, `url`, and `file_id` and `minio_key` if they have them.
        error: the cause of an answer that is not what was asked for; None: it is.
        refusal: what kind of cause that is.
        incomplete: whether the text is not finished: a limit ended the answer, or cut the text off.
        ending: why the model calls ended, in the words of the engine, such as `max_iterations` or `user_budget`; None:
            an internal error ended them.
        stop: why the last model call ended, such as `max_tokens`; None: no model answered.
        shortened: how many earlier messages the shortest prompt left out, to stay within the budget.
        iterations: the number of model calls.
        tools: the number of tool calls.
        tokens: the tokens of all calls.
        text_tokens: the tokens of the text itself; None: no model wrote it.
        cost_micro: their cost, in micro-units.
        models: the models that answered, without repetition.
        answered_ns: when the person could read it, in simulated nanoseconds.
    """

    content: str
    files: tuple[JsonObject, ...] = ()
    error: str | None = None
    refusal: Refusal | None = None
    incomplete: bool = False
    ending: Ending | None = None
    stop: StopReason | None = None
    shortened: int = 0
    iterations: int = 0
    tools: int = 0
    tokens: int = 0
    text_tokens: int | None = None
    cost_micro: int = 0
    models: tuple[str, ...] = ()
    answered_ns: int = 0


@attrs.frozen
class FileRecord:
    """A file of a user.

    Args:
        id: its id, such as `file-3`.
        user: the id of the user to whom it belongs.
        filename: its name; only shown.
        mime_type: its type.
        size_bytes: its size.
        url: its address.
        created_ns: when it was made, in simulated nanoseconds.
        content: its text; None if only its name is known.
        minio_key: its key in an object store; empty if it is in none.
    """

    id: str
    user: str
    filename: str
    mime_type: str
    size_bytes: int
    url: str
    created_ns: int
    content: str | None = None
    minio_key: str = ""

    def shown(self) -> "ShownFile":
        """Return it as tools return it."""
        about: ShownFile = {
            "file_id": self.id, "filename": self.filename, "url": self.url, "size_bytes": self.size_bytes
        }  # fmt: skip
        return {**about, "minio_key": self.minio_key} if self.minio_key else about


@attrs.frozen
class Job:
    """A message that is sent at a later time, to continue a conversation.

    Args:
        id: its id, such as `job-2`.
        user: the id of the user for whom it is.
        message: what is sent.
        due_ns: when, in simulated nanoseconds; None for a job that waits for a place.
        place: the place of the user at which it is sent; None: it waits for a time.
    """

    id: str
    user: str
    message: IncomingMessage
    due_ns: int | None = None
    place: str | None = None


@attrs.define
class Account:
    """The tokens of a user in the present period.

    Attributes:
        used: the tokens that were used.
        held: the tokens that are set aside for calls under way.
        reset_ns: when the period ends, in simulated nanoseconds.
    """

    reset_ns: int
    used: int = 0
    held: int = 0
