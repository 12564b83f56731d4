"""What a run and its worker processes send each other: JSON in frames that begin with their length.

Nothing is pickled, and a frame that is not one of these messages is an error. A worker gets its keys in the first
message (`Start`, or `Sealed`), and nowhere else. JSON has each number that a request can have; other formats end at 64
bits.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

import attrs

from sim.kernel.codec import Record, as_sent, reader
from sim.llm.limits.governor import ReportedLimits
from sim.llm.types import Completion, Delta, ErrorClass, ModelError, ModelRequest, TokenUsage

_LENGTH: Final = struct.Struct("!I")

LONGEST: Final = 64 * 2**20
"""The most bytes of one frame: more than any answer of an endpoint has."""


class Message(Record, frozen=True, array_like=True, tag=str.lower):
    """The base class of all messages, which are lists that begin with the name of their class."""


class Numbered(Message, frozen=True):
    """A message about what was asked with a number."""

    number: int


class Place(Record, frozen=True, array_like=True):
    """An endpoint, as `Access` has it. No form in which tools show it has its values."""

    base_url: str | None
    api_key: str | None
    headers: dict[str, str]
    models: tuple[str, ...]
    concurrency: int

    def __repr__(self) -> str:
        return "Place()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class Start(Message, frozen=True):
    """The first message to a worker: the endpoints, the time limit in seconds, and the model that tells the tokenizer
    by which tokens are counted.
    """

    places: dict[str, Place]
    timeout: float
    counted_as: str


class Sealed(Message, frozen=True):
    """A `Start` that only the worker can read for which it was sealed, as others may see what it is sent."""

    box: bytes


class Ask(Numbered, frozen=True):
    """A request for a model; `parts`: whether the parts of the answer are wanted as they arrive."""

    provider: str
    model: str
    request: ModelRequest
    parts: bool


class Count(Numbered, frozen=True):
    """Count the tokens of a request."""

    request: ModelRequest


class Drop(Numbered, frozen=True):
    """The answer is no longer needed: cancel the request."""


class Probe(Numbered, frozen=True):
    """Check that an endpoint can be reached."""

    provider: str


class Say(Numbered, frozen=True):
    """Tell what an endpoint says of a model, after `Probe`."""

    provider: str
    model: str


class Ping(Message, frozen=True):
    """Say that you are alive."""


class Ready(Message, frozen=True):
    """The worker has imported all that it needs."""


class Pong(Message, frozen=True):
    """The answer to `Ping`."""


class Taken(Numbered, frozen=True):
    """The worker has read all messages up to a number. It says so before it sends any of these requests."""


class Part(Numbered, frozen=True):
    """A part of an answer."""

    delta: Delta


class Rates(Message, frozen=True):
    """Limits that an endpoint reports."""

    provider: str
    limits: ReportedLimits


class Answered(Numbered, frozen=True):
    """The answer to a request."""

    completion: Completion


class Failed(Numbered, frozen=True):
    """The failure of a request: a `ModelError`."""

    kind: ErrorClass
    message: str
    retry_after: float | None
    usage: TokenUsage | None
    hint: str | None
    reasoning: str

    @classmethod
    def of(cls, number: int, error: ModelError) -> "Failed":
        """Return the message for an error. Lone surrogates, which cannot be sent, are replaced."""
        return cls(
            number=number, kind=error.kind, message=_sound(str(error)), retry_after=error.retry_after,
            usage=error.usage, hint=error.hint and _sound(error.hint), reasoning=_sound(error.reasoning),
        )  # fmt: skip

    @property
    def error(self) -> ModelError:
        """The error."""
        return ModelError(
            self.kind, self.message, retry_after=self.retry_after, usage=self.usage, hint=self.hint,
            reasoning=self.reasoning,
        )  # fmt: skip


class Dropped(Numbered, frozen=True):
    """A request was cancelled."""


class Counted(Numbered, frozen=True):
    """The number of tokens."""

    tokens: int


class Said(Numbered, frozen=True):
    """The answer to `Probe` and `Say`."""

    can: dict[str, bool]


class Refused(Numbered, frozen=True):
    """The endpoint does not pass the check. `usage`: the operator has to change something."""

    usage: bool
    message: str
    hint: str | None


ToWorker = Start | Sealed | Ask | Count | Drop | Probe | Say | Ping
FromWorker = Ready | Pong | Taken | Part | Rates | Answered | Failed | Dropped | Counted | Said | Refused

read_to_worker = reader(ToWorker)
read_from_worker = reader(FromWorker)


def framed(message: Message) -> bytes:
    """Return a message as a frame.

    Raises:
        ValueError: if it has something that is not JSON, or is too long.
    """
    body = as_sent(message)
    if len(body) > LONGEST:
        raise ValueError(f"it takes {len(body)} bytes, of at most {LONGEST}")
    return _LENGTH.pack(len(body)) + body


def _sound(text: str) -> str:
    return text.encode(errors="replace").decode()


@attrs.define
class Frames:
    """Splits a stream of bytes into the bodies of frames, in time that grows with its length only."""

    _parts: bytearray = attrs.field(factory=bytearray)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the bodies of the frames that are complete with `chunk`.

        Raises:
            ValueError: if a frame is too long to be one.
        """
        self._parts += chunk
        start, view = 0, self._parts
        try:
            while len(view) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(view, start)
                if length > LONGEST:
                    raise ValueError(f"a frame of {length} bytes")
                if len(view) - start - _LENGTH.size < length:
                    return
                start += _LENGTH.size + length
                yield bytes(view[start - length : start])
        finally:
            del view[:start]
