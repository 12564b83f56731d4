"""What the hash of a run covers: every event, every effect's request, and a final digest of the state.

It leaves out what may differ between two equal runs: seed, run id, wall times, versions. The events of a lane are
hashed as one stream of canonical JSON, each event followed by a comma, so the hash does not depend on how events are
cut into chunks (hashing event by event costs over ten times as much).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sim.errors import ActorError, RunError
from sim.kernel.codec import NOT_JSON_HINT, Raw, encode, json_fault, json_items
from sim.kernel.rows import EventRow

CHUNK = 4096
"""Events that are encoded, hashed and stored together."""


LANES = 256
"""Lanes of a run. Each agent's events and effects are in one lane, so what belongs to others leaves it as it is."""


class RunHash:
    """The running hashes of a run.

    Its events and the requests of its effects are hashed in lanes, by the agent that they happen to: two runs that
    differ in what some agents do have equal hashes in all other lanes, and a part of the agents can be hashed alone.
    """

    __slots__ = ("_effects", "_events", "_lane_of", "_stream")

    def __init__(self) -> None:
        self._stream = hashlib.sha256()
        self._events = [hashlib.sha256() for _ in range(LANES)]
        self._effects = [hashlib.sha256() for _ in range(LANES)]
        self._lane_of: dict[bytes, int] = {}  # by the beginning of an agent's name

    def add_events(self, body: bytes) -> None:
        """Add events as `encode_events` gives them."""
        if not body:
            return
        self._stream.update(body)
        self._stream.update(b",")
        lanes = dict[int, list[bytes]]()
        known = self._lane_of
        for row in json_items(body):
            name = row.split(b'"', 2)[1]  # numbers come before the agent's name
            lane = known.get(name)
            if lane is None:
                lane = known[name] = _lane(name)
            if lane in lanes:
                lanes[lane].append(row)
            else:
                lanes[lane] = [row]
        for lane, rows in lanes.items():
            rows.append(b"")  # so that each is followed by a comma
            self._events[lane].update(b",".join(rows))

    def add_effect(self, actor: str, ordinal: int, kind: str, request_hash: str) -> None:
        """Add one effect's request. Order counts: the core makes intents in key order."""
        self._effects[lane_of(actor)].update(encode((actor, ordinal, kind, request_hash)) + b",")

    @property
    def stream(self) -> str:
        """Hash of the events added so far in the order in which they were added (64 hex digits)."""
        return self._stream.hexdigest()

    @property
    def lanes(self) -> tuple[str, ...]:
        """For each lane, the hash of its events and of its requests (128 hex digits)."""
        pairs = zip(self._events, self._effects, strict=True)
        return tuple(events.hexdigest() + effects.hexdigest() for events, effects in pairs)


def lane_of(actor: str) -> int:
    """Return the number of the lane in which the events of an agent are."""
    return _lane(encode(actor).split(b'"', 2)[1])


def _lane(name: bytes) -> int:
    """Return the lane for a name as it stands in a row, up to the first quotation mark or its escape."""
    return hashlib.blake2b(name, digest_size=1).digest()[0]


def encode_events(rows: Sequence[EventRow]) -> bytes:
    """Return rows as canonical JSON, joined by commas, without the brackets of a list.

    Raises:
        ActorError: if a row holds what is not JSON; names its actor and topic.
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
    """Return the hash (64 hex digits) that is kept with the outcome of an effect, against damage."""
    return hashlib.sha256(encode((actor, ordinal, outcome, Raw(value), attempts, int(arrived)))).hexdigest()


def arrival_hash(time_ns: int, delta: int, kind: str, data: bytes, effect: int | None) -> str:
    """Return the hash (64 hex digits) that is kept with what came from outside, against damage."""
    return hashlib.sha256(encode((time_ns, delta, kind, Raw(data), effect))).hexdigest()


def final_hash(lanes: Sequence[str], digest: Mapping[str, Any]) -> str:
    """Return the hash of a whole run.

    Args:
        lanes: `RunHash.lanes`.
        digest: final states, artifacts, ledger, resources and what the random streams would draw next, as JSON.

    Returns:
        64 hex digits.
    """
    whole = hashlib.sha256(b"sim run 2\n")
    for lane in lanes:
        whole.update(lane.encode() + b"\n")
    whole.update(hashlib.sha256(encode(dict(digest))).hexdigest().encode())
    return whole.hexdigest()
