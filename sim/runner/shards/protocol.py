"""The protocol between the coordinator and its shards: records as JSON, each with its length in front.

Nothing is pickled: a shard builds its world from the text of the scenario, as the coordinator does.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, Any, Final, Literal, Protocol

from sim.base.errors import RunError
from sim.kernel.codec import Json, Raw, Record, reader
from sim.runner.figures import Figures
from sim.world.islands import Letter

_LENGTH: Final = 8  # bytes in front of a record

RowKey = tuple[int, int, int, int, int, int]
"""(time, delta, priority, source, counter) of the step in which an event happened, and its place among shards there."""

Row = tuple[RowKey, int, int, str, str, Raw, tuple[int, int]]
"""An event: its key, its source and counter, actor, topic, data as canonical JSON, and cause."""


class ShardLost(RunError):
    """The process of a shard has ended, without a report of what it was asked.

    Args:
        message: which shard, and how.
    """

    def __init__(self, message: str) -> None:
        hint = "the record is kept up to the last window: sim resume continues it in one process"
        super().__init__(message, hint=hint)


class Setup(Record, frozen=True):
    """What a shard is made of.

    Attributes:
        text, file, overrides, allow: those of the scenario; see `sim.scenario.loads`.
        seed: the seed of the run.
        until_ns: the end of the run in simulated nanoseconds.
        islands: the islands that the shard runs.
        files: the data that the scenario refers to, by name, so that all shards have the same, on any machine.
        models: the models that the operator has chosen, as `Access.models`. Only the coordinator knows where they are,
            and their keys.
    """

    text: str
    file: str
    overrides: tuple[str, ...]
    allow: tuple[str, ...]
    seed: int
    until_ns: int
    islands: tuple[str, ...]
    files: dict[str, bytes]
    models: tuple[str, ...] = ()


class AnyShard(Protocol):
    """A shard, wherever it runs."""

    setup: Setup

    def ask(self, order: "Order", /) -> None:
        """Send an order; `report` waits for its report."""

    def report(self) -> "Report":
        """Wait for the report of the order that was sent last, or of the setup."""

    def close(self) -> None:
        """End the shard."""


Start = Callable[[int, Setup], AnyShard]
"""Starts the shard with a number."""

Host = AbstractContextManager[Start]
"""Where shards run."""


class Call(Record, frozen=True, array_like=True):
    """A call of a model at an endpoint that an agent of a shard begins.

    Attributes:
        key: the place of its step in the order of all shards.
        actor, ordinal: its agent, and its number among the calls of the agent.
        request, request_hash, safety: those of its effect; the request as canonical JSON.
        due: when its answer is delivered, in simulated nanoseconds.
        timeout: the real seconds that it may take.
    """

    key: RowKey
    actor: str
    ordinal: int
    request: Raw
    request_hash: str
    safety: Literal["pure", "idempotent", "unsafe"]
    due: int
    timeout: float


class Closed(Record, frozen=True, array_like=True):
    """How a call has ended for its agent; see `ClosedRow`.

    Attributes:
        key: the place of the step in the order of all shards.
        actor, ordinal, ending, time_ns, delta: those of the row.
    """

    key: RowKey
    actor: str
    ordinal: int
    ending: Literal["delivered", "timeout", "abandoned"]
    time_ns: int
    delta: int


class Answered(Record, frozen=True, array_like=True):
    """The outcome of a call.

    Attributes:
        actor, ordinal: those of the call.
        outcome: the kind of the outcome.
        value: its value as canonical JSON.
    """

    actor: str
    ordinal: int
    outcome: Literal["ok", "error", "timeout", "abandoned"]
    value: Raw


class Order(Record, frozen=True):
    """What the coordinator asks of a shard.

    Attributes:
        what: `run` a window, `gather` the states that metrics read, `stop` all agents, or `end` the run.
        end: the end of the window (exclusive), the time of the stop, or that of the end of the run, in simulated
            nanoseconds.
        letters: what arrives from other shards.
        answers: of `run`: the answers of models that are due in the window.
        wanted: of `gather`: by group, the state variables to return.
        delta: of `stop` and `end`: the round of that instant.
        inputs: of `stop`: the kind and the data of each input that stops all agents.
        figures: of `run`: whether to report the figures of the agents.
        number: the number of the order, from 1; so a shard notices orders that were lost, doubled or overtaken.
    """

    what: Literal["run", "gather", "stop", "end"]
    end: int = 0
    letters: tuple[Letter, ...] = ()
    answers: tuple[Answered, ...] = ()
    wanted: dict[str, list[str]] | None = None
    delta: int = 0
    inputs: tuple[tuple[str, Json], ...] = ()
    figures: bool = False
    number: int = 0


def carried(value: Any) -> Json:
    """Return the value of a state variable as JSON from which `restored` makes an equal one.

    A rule can set what JSON does not have, and metrics of one process read it as it is: numbers that are not finite,
    and tuples, which are equal to no list.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [carried(part) for part in value]}
    if isinstance(value, list):
        return [carried(part) for part in value]
    return {"dict": {key: carried(part) for key, part in value.items()}} if isinstance(value, dict) else value


def restored(value: Any) -> Any:
    """Return the value for which `carried` returned this one."""
    if isinstance(value, list):
        return [restored(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    match kind:
        case "float":
            return float(inner)
        case "tuple":
            return tuple([restored(part) for part in inner])
        case _:
            return {key: restored(part) for key, part in inner.items()}


class Columns(Record, frozen=True):
    """What metrics read of the agents of a group that are on one shard.

    Attributes:
        dead: the agents that have stopped.
        values: by state variable, its values as `carried` returns them; null of an agent that does not have it.
        lacking: by state variable, the agents that do not have it.
    """

    dead: tuple[str, ...]
    values: dict[str, tuple[Json, ...]]
    lacking: dict[str, tuple[str, ...]]


class Report(Record, frozen=True):
    """What a shard has done.

    Attributes:
        next: the time of its next step in simulated nanoseconds; None if it has none.
        now, delta: the instant and the round at which it is.
        rows: the events since the last report, in their order.
        letters: what leaves for other shards.
        calls, closed: the calls of models that have begun and ended since the last report.
        running: the number of its agents that have not stopped.
        cpu_ns: the CPU time since the last report in nanoseconds, with that of sending it.
        columns: of `gather`: by group.
        digest: of `end`: the final state.
        summary: of `end`: the figures of its agents.
        figures: the figures of its agents, if the order asks for them, and of `end`.
        reading_ns: the CPU time of reading them in nanoseconds.
        error, hint: why the run failed; empty if it did not.
        number: that of the order; 0: of the setup.
    """

    next: int | None = None
    now: int = 0
    delta: int = 0
    rows: tuple[Row, ...] = ()
    letters: tuple[Letter, ...] = ()
    calls: tuple[Call, ...] = ()
    closed: tuple[Closed, ...] = ()
    running: int = 0
    cpu_ns: int = 0
    columns: dict[str, Columns] | None = None
    digest: dict[str, Json] | None = None
    summary: dict[str, Json] | None = None
    figures: Figures | None = None
    reading_ns: int = 0
    error: str = ""
    hint: str = ""
    number: int = 0


read_setup, read_order, read_report = reader(Setup), reader(Order), reader(Report)
"""Read a record that `as_sent` has written."""


def send(stream: IO[bytes], body: bytes) -> None:
    """Write the bytes of a record to a pipe.

    Raises:
        OSError: if the process at the other end has ended.
    """
    stream.write(len(body).to_bytes(_LENGTH, "big") + body)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read the bytes of a record from a pipe; empty if the process at the other end has ended."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return b""
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else b""
