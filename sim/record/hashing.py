"""The hash of a run. It covers each event, the request of each effect, and a digest of the final state.

It does not cover values that may differ between equal runs: seed, run id, wall times, versions. The events of a lane
are hashed as one stream of canonical JSON with a comma after each event. The hash therefore does not depend on the
boundaries of chunks. To hash each event separately would take more than ten times as long.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

import attrs

from sim.base.errors import ActorError, RunError
from sim.kernel.codec import NOT_JSON_HINT, JsonObject, Raw, encode, json_fault, json_items
from sim.kernel.compiled import core
from sim.kernel.levels import Level
from sim.kernel.rows import EventRow
from sim.record.lanes import Lanes

CHUNK = 4096
"""Number of events that are encoded, hashed and stored together."""


@attrs.frozen
class Written:
    """What a process knows of the record that it has just written, so that it need not compute it twice.

    Attributes:
        stream: the hash of all events, see `RunHash.stream`.
        lanes: the hashes of all lanes, see `RunHash.lanes`.
    """

    stream: str
    lanes: tuple[str, ...]


class StreamHash:
    """The incremental hash of all events of a run, in the order in which they were added."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = hashlib.sha256()

    def add_events(self, body: bytes, count: int) -> None:
        """Add events in the encoding of `encode_events`.

        Args:
            body: the encoded events.
            count: how many they are.
        """
        if count:
            self._stream.update(body)
            self._stream.update(b",")

    @property
    def stream(self) -> str:
        """The hash of all events so far, in the order in which they were added (64 hex digits)."""
        return self._stream.hexdigest()


class RunHash(StreamHash):
    """The incremental hashes of a run.

    Events and requests of effects are hashed in lanes, by the agent that they concern. If two runs differ in some
    agents only, the hashes of all other lanes are equal. A subset of the agents can therefore be hashed separately.

    Args:
        lanes: decides the lane of an agent.
    """

    __slots__ = ("_effects", "_events", "_lanes")

    def __init__(self, lanes: Lanes | None = None) -> None:
        super().__init__()
        self._lanes = lanes or Lanes()
        self._events = [hashlib.sha256() for _ in range(self._lanes.count)]
        self._effects = [hashlib.sha256() for _ in range(self._lanes.count)]

    def add_events(self, body: bytes, count: int) -> None:
        """Add events in the encoding of `encode_events`, to their lanes as well.

        Args:
            body: the encoded events.
            count: how many they are.
        """
        super().add_events(body, count)
        if not count:
            return
        rows_by_lane = None if _split_in_c is None else _split_in_c(body, count, self._lanes)
        for lane, rows in (_by_lane(body, count, self._lanes) if rows_by_lane is None else rows_by_lane).items():
            self._events[lane].update(rows)

    def add_effect(self, actor: str, ordinal: int, kind: str, request_hash: str) -> None:
        """Add the request of an effect. The order matters; the kernel records intents in key order."""
        self._effects[self._lanes.of(actor)].update(encode((actor, ordinal, kind, request_hash)) + b",")

    @property
    def lanes(self) -> tuple[str, ...]:
        """For each lane, the hash of its events followed by the hash of its requests (128 hex digits)."""
        pairs = zip(self._events, self._effects, strict=True)
        return tuple(events.hexdigest() + effects.hexdigest() for events, effects in pairs)


_split_in_c = None if core is None else core.by_lane


def _by_lane(body: bytes, count: int, lane_of: Lanes) -> dict[int, bytes]:
    """Return the encoded events of each lane, each as it is hashed."""
    lanes = defaultdict[int, list[bytes]](list)
    for row in _split(body, count):
        lanes[lane_of[row.split(b'"', 2)[1]]].append(row)  # only numbers precede the agent's name
    return {lane: b"[" + b"],[".join(rows) + b"]," for lane, rows in lanes.items()}


def _split(body: bytes, count: int) -> list[bytes]:
    """Return encoded rows one by one, without their brackets."""
    rows = body[1:-1].split(b"],[")
    if len(rows) == count:  # else data holds the same characters; parsing finds the rows, and takes eight times as long
        return rows
    return [row[1:-1] for row in json_items(body)]


def encode_events(rows: Sequence[EventRow]) -> bytes:
    """Return rows as canonical JSON, joined by commas, without the brackets of a list.

    Raises:
        ActorError: if a row is not JSON. The message names its actor and topic.
    """
    try:
        return encode(rows)[1:-1]
    except ActorError:
        position = bad_row(rows)
        actor, topic, data = rows[position][5:8]
        fault = json_fault(data, "its data") or "it is not JSON-like"
        raise ActorError(
            f"an event of {actor} with topic {topic} cannot be recorded: {fault}", hint=NOT_JSON_HINT
        ) from None


def bad_row(rows: Sequence[EventRow]) -> int:
    """Return the position of the first row that cannot be encoded."""
    for position, row in enumerate(rows):
        try:
            encode(row)
        except ActorError:
            return position
    raise RunError("every row can be encoded alone, but not all of them together")


def result_hash(actor: str, ordinal: int, outcome: str, value: bytes, attempts: int, arrived: int) -> str:
    """Return the checksum (64 hex digits) that is stored with the outcome of an effect."""
    return hashlib.sha256(encode((actor, ordinal, outcome, Raw(value), attempts, int(arrived)))).hexdigest()


def arrival_hash(time_ns: int, delta: int, kind: str, data: bytes, effect: int | None) -> str:
    """Return the checksum (64 hex digits) that is stored with an arrival."""
    return hashlib.sha256(encode((time_ns, delta, kind, Raw(data), effect))).hexdigest()


def final_hash(lanes: Sequence[str], digest: JsonObject, level: Level = "all") -> str:
    """Return the hash of a whole run.

    Args:
        lanes: `RunHash.lanes`.
        digest: the final state: agents, artifacts, ledger, resources and fingerprints of random streams, as JSON.
        level: how much of the run is recorded, and therefore covered.

    Returns:
        64 hex digits, which follow the level and a colon if it is not `all`: hashes of two levels cannot be compared.
    """
    whole = hashlib.sha256(b"sim run 2\n")
    for lane in lanes:
        whole.update(lane.encode() + b"\n")
    whole.update(hashlib.sha256(encode(dict(digest))).hexdigest().encode())
    return whole.hexdigest() if level == "all" else f"{level}:{whole.hexdigest()}"
