"""What a run and its worker processes tell each other: MessagePack in frames that begin with their length.

Nothing is pickled, and a frame that is not one of these messages is an error. A worker gets its keys in the first
message (`Start`), and nowhere else.
"""

import struct
from collections.abc import Iterator
from typing import Final

import attrs

from sim.kernel.codec import Record, pack, unpacker
from sim.llm.limits.governor import ReportedLimits
from sim.llm.types import Completion, Delta, ErrorClass, ModelError, ModelRequest, TokenUsage

_LENGTH: Final = struct.Struct("!I")

LONGEST: Final = 64 * 2**20
"""The most bytes of one frame: more than any answer of an endpoint has."""


class Place(Record, frozen=True, array_like=True):
    """An endpoint: as `Access` has it. `repr` is not for logs."""

    base_url: str | None
    api_key: str | None
    headers: dict[str, str]
    models: tuple[str, ...]
    concurrency: int

    def __repr__(self) -> str:
        return "Place()"


class Start(Record, frozen=True, array_like=True, tag="start"):
    """The first message to a worker: the endpoints, the time limit in seconds, and the model that tells the tokenizer
    by which tokens are counted.
    """

    places: dict[str, Place]
    timeout: float
    counted_as: str


class Ask(Record, frozen=True, array_like=True, tag="ask"):
    """A request for a model; `parts`: whether the parts of the answer are wanted as they arrive."""

    number: int
    provider: str
    model: str
    request: ModelRequest
    parts: bool


class Count(Record, frozen=True, array_like=True, tag="count"):
    """Count the tokens of a request."""

    number: int
    request: ModelRequest


class Drop(Record, frozen=True, array_like=True, tag="drop"):
    """The answer is no longer needed: cancel the request."""

    number: int


class Probe(Record, frozen=True, array_like=True, tag="probe"):
    """Check that an endpoint can be reached."""

    number: int
    provider: str


class Say(Record, frozen=True, array_like=True, tag="say"):
    """Tell what an endpoint says of a model, after `Probe`."""

    number: int
    provider: str
    model: str


class Ready(Record, frozen=True, array_like=True, tag="ready"):
    """The worker has imported all that it needs."""


class Taken(Record, frozen=True, array_like=True, tag="taken"):
    """The worker has read all messages up to a number. It says so before it sends any of these requests."""

    number: int


class Part(Record, frozen=True, array_like=True, tag="part"):
    """A part of an answer."""

    number: int
    delta: Delta


class Rates(Record, frozen=True, array_like=True, tag="rates"):
    """Limits that an endpoint reports."""

    provider: str
    limits: ReportedLimits


class Answered(Record, frozen=True, array_like=True, tag="answered"):
    """The answer to a request."""

    number: int
    completion: Completion


class Failed(Record, frozen=True, array_like=True, tag="failed"):
    """The failure of a request: a `ModelError`."""

    number: int
    kind: ErrorClass
    message: str
    retry_after: float | None
    usage: TokenUsage | None
    hint: str | None
    reasoning: str

    @classmethod
    def of(cls, number: int, error: ModelError) -> "Failed":
        """Return the message for an error."""
        return cls(
            number=number, kind=error.kind, message=str(error), retry_after=error.retry_after, usage=error.usage,
            hint=error.hint, reasoning=error.reasoning,
        )  # fmt: skip

    @property
    def error(self) -> ModelError:
        """The error."""
        return ModelError(
            self.kind, self.message, retry_after=self.retry_after, usage=self.usage, hint=self.hint,
            reasoning=self.reasoning,
        )  # fmt: skip


class Dropped(Record, frozen=True, array_like=True, tag="dropped"):
    """A request was cancelled."""

    number: int


class Counted(Record, frozen=True, array_like=True, tag="counted"):
    """The number of tokens."""

    number: int
    tokens: int


class Said(Record, frozen=True, array_like=True, tag="said"):
    """The answer to `Probe` and `Say`."""

    number: int
    can: dict[str, bool]


class Refused(Record, frozen=True, array_like=True, tag="refused"):
    """The endpoint does not pass the check. `usage`: the operator has to change something."""

    number: int
    usage: bool
    message: str
    hint: str | None


ToWorker = Start | Ask | Count | Drop | Probe | Say
FromWorker = Ready | Taken | Part | Rates | Answered | Failed | Dropped | Counted | Said | Refused

read_to_worker = unpacker(ToWorker)
read_from_worker = unpacker(FromWorker)


def framed(message: Record) -> bytes:
    """Return a message as a frame."""
    body = pack(message)
    return _LENGTH.pack(len(body)) + body


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
