"""What the hash of a run covers: every event, every effect's request, and a final digest of the state.

It leaves out what may differ between two equal runs: seed, run id, wall times, versions. Events are hashed as
one stream of canonical JSON, each event followed by a comma, so the hash does not depend on how events are
cut into chunks (hashing event by event costs over ten times as much).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sim.errors import ActorError, RunError
from sim.kernel.codec import NOT_JSON_HINT, Raw, encode, json_fault
from sim.kernel.ports import EventRow

CHUNK = 4096
"""Events that are encoded, hashed and stored together."""


class RunHash:
    """The two running hashes of a run: its events, and the requests of its effects."""

    __slots__ = ("_effects", "_events")

    def __init__(self) -> None:
        self._events = hashlib.sha256()
        self._effects = hashlib.sha256()

    def add_events(self, body: bytes) -> None:
        """Add events as `encode_events` gives them."""
        if body:
            self._events.update(body)
            self._events.update(b",")

    def add_effect(self, actor: str, ordinal: int, kind: str, request_hash: str) -> None:
        """Add one effect's request. Order counts: the core makes intents in key order."""
        self._effects.update(encode((actor, ordinal, kind, request_hash)))
        self._effects.update(b",")

    @property
    def events(self) -> str:
        """Hash of the events added so far (64 hex digits)."""
        return self._events.hexdigest()

    @property
    def effects(self) -> str:
        """Hash of the requests added so far (64 hex digits)."""
        return self._effects.hexdigest()


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


def final_hash(events_hash: str, effects_hash: str, digest: Mapping[str, Any]) -> str:
    """Return the hash of a whole run.

    Args:
        events_hash: `RunHash.events` (64 hex digits).
        effects_hash: `RunHash.effects` (64 hex digits).
        digest: final states, artifacts, ledger, resources and draw counters, as JSON.

    Returns:
        64 hex digits.
    """
    parts = (
        f"sim run 1\nevents {events_hash}\neffects {effects_hash}\ndigest ".encode(),
        hashlib.sha256(encode(dict(digest))).hexdigest().encode(),
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()
