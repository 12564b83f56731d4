"""The seal of a run file: a hash over all rows, which is updated with each new row.

The seal is the sum of the hashes of *facts*, modulo 2**256. A fact is the definition of a table or view, a row, or the
part of a row that is written at one time (the outcome and the ending of an effect are written later than its intent).
Facts are added but never changed. The writer therefore stores only the sum, and a reader can compute it from the tables
in any order. Large values (events, parts of requests, results) have their own hash beside them, and the fact contains
that hash.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from sim.kernel.codec import encode, hash_of

FACTS: Final[Mapping[str, str]] = {
    "definition": "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL",
    "chunk": "SELECT id, first_event, count, hash FROM chunks",
    "content": "SELECT id, hash FROM contents",
    "intent": "SELECT id, actor, ordinal, kind, request_hash, latency, safety, time_ns, events_before, hash_before"
    " FROM effects",
    "outcome": "SELECT actor, ordinal, result_hash FROM effects WHERE outcome IS NOT NULL OR result_hash IS NOT NULL",
    "ending": "SELECT actor, ordinal, ending, ended_ns, ended_delta FROM effects WHERE ending IS NOT NULL"
    " OR ended_ns IS NOT NULL OR ended_delta IS NOT NULL",
    "arrival": "SELECT id, hash FROM arrivals",
}
"""The query for the facts of each kind. The writer adds the same values in the same order."""

RUN_COLUMNS: Final = (
    "schema", "uid", "name", "seed", "mode", "backend", "status", "epoch", "versions", "scenario_hash", "options",
    "code", "origin", "started_at", "ended_at", "sim_ns", "events", "hash", "digest", "summary",
)  # fmt: skip
"""The columns of the table `run` that the hash of its row covers."""

_MODULUS = 2**256


class Seal:
    """The sum of the hashes of facts."""

    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum = 0

    def add(self, kind: str, *values: Any) -> None:
        """Add a fact: its kind, and its values in the order of `FACTS`."""
        digest = hashlib.sha256(encode((kind, *values))).digest()
        self._sum = (self._sum + int.from_bytes(digest, "big")) % _MODULUS

    @property
    def text(self) -> str:
        """The sum as 64 hex digits."""
        return f"{self._sum:064x}"


def run_row_hash(values: tuple[Any, ...]) -> str:
    """Return the hash (64 hex digits) of the row of a run, given the values of `RUN_COLUMNS`."""
    return hash_of(values)


def commit_hash(number: int, seal: str, run_row: str) -> str:
    """Return the hash (64 hex digits) of a commit: of its number, the seal, and the hash of the row in `run`."""
    return hash_of((number, seal, run_row))
