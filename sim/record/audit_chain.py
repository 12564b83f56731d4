"""Edge: the audit chain, a hash chain of records among the events of a run, and a file that repeats its hashes.

Each audit record is an event `audit.record` whose data has a number, what happened, the hash of the record before it,
and a hash over all of that. A change of one record therefore changes the hashes of all later ones. The file `run.audit`
beside the database has one line for each record, with its hash. It is written and synced after each commit that has
audit records, and before the commit is noted in `run.head`. Somebody who changes a record and makes all hashes of the
database fit again contradicts this file, which still names the first record that is not the original one.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import RunError
from sim.events.event_type import EventData, event_type
from sim.kernel.codec import decode, encode
from sim.record.lines import open_bytes, sync, write_all

AUDIT: Final = "run.audit"
TOPIC: Final = "audit.record"
FIRST: Final = "0" * 64
"""The hash that the first record names as the one before it."""

_MARK = f'"{TOPIC}"'.encode()
_LINE = 65  # bytes: 64 hex digits and a newline
_DIGITS = frozenset("0123456789abcdef")
_FIELDS = {"data", "hash", "n", "previous", "what"}


@event_type(TOPIC)
class AuditRecord(EventData, frozen=True, gc=False, kw_only=True):
    """A record of the audit chain.

    Attributes:
        data: what the record is about.
        hash: the hash over all of the record (64 hex digits).
        n: its number, from 1.
        previous: the hash of the record before it; zeros for the first one.
        what: what happened, as a dotted name such as `tool.call`.
    """

    data: Any
    hash: str
    n: int
    previous: str
    what: str


def record_hash(n: int, time_ns: int, agent: str, what: str, data: Any, previous: str) -> str:
    """Return the hash (64 hex digits) of an audit record.

    Args:
        n: its number, from 1.
        time_ns: when it was made, in simulated nanoseconds.
        agent: the agent that it is about.
        what: what happened.
        data: a JSON value.
        previous: the hash of the record before it.
    """
    return hashlib.sha256(encode((n, time_ns, agent, what, data, previous))).hexdigest()


@attrs.frozen
class AuditHead:
    """The end of an audit chain: the number of its last record, and the hash of that record."""

    n: int = 0
    hash: str = FIRST


def hashes_in(chunk: bytes) -> list[str]:
    """Return the hashes of the audit records in a chunk of events, given as JSON text."""
    if _MARK not in chunk:  # nearly all chunks; a search is much faster than decoding
        return []
    return [row[7]["hash"] for row in decode(chunk) if row[6] == TOPIC and _is_record(row[7])]


def _is_record(data: Any) -> bool:
    if not isinstance(data, dict) or data.keys() != _FIELDS:
        return False
    hash = data["hash"]
    return isinstance(hash, str) and len(hash) == 64 and _DIGITS.issuperset(hash)


class AuditFile:
    """Writes `run.audit`. Only the writer's thread may use it. The file is created with the first record.

    Args:
        folder: the run folder.
        stored: the hashes of the records in the database.
        shortened: whether the database is known to have lost its last commits.

    Raises:
        RunError: if the file and the database contradict each other. It is then left as it is, because it is evidence.
        OSError: if it cannot be written.
    """

    def __init__(self, folder: Path, stored: Sequence[str], *, shortened: bool) -> None:
        self._path = folder / AUDIT
        self._file: int | None = None
        self._waiting: list[str] = []
        lines, whole = read_lines(folder)
        same = next((n for n, pair in enumerate(zip(lines, stored, strict=False)) if pair[0] != pair[1]), None)
        if same is not None:
            raise _contradiction(folder, f"audit record {same + 1} is not the one in {AUDIT}")
        if len(lines) > len(stored) and not shortened:
            raise _contradiction(folder, f"audit record {len(stored) + 1} is in {AUDIT} only")
        if not whole or len(lines) != len(stored):  # a kill came between the commit and the lines, or records are lost
            self._open(min(len(lines), len(stored)) * _LINE)
            self.add(stored[len(lines) :])
            self.write()

    def add(self, hashes: Sequence[str]) -> None:
        """Remember the hashes of records that are about to be committed."""
        self._waiting += hashes

    def write(self) -> None:
        """Append the hashes of committed records. They are on disk when the method returns."""
        if not self._waiting:
            return
        if self._file is None:
            self._open()
        assert self._file is not None, "it was just opened"
        data = "".join(f"{hash}\n" for hash in self._waiting).encode()
        self._waiting = []
        write_all(self._file, data)
        sync(self._file)

    def _open(self, keep: int | None = None) -> None:
        self._file = open_bytes(self._path, os.O_WRONLY | os.O_APPEND)
        if keep is not None:
            os.ftruncate(self._file, keep)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)


def _contradiction(folder: Path, what: str) -> RunError:
    return RunError(f"{folder} is damaged: {what}", hint="use a copy of it, or run the scenario again")


def read_lines(folder: Path) -> tuple[list[str], bool]:
    """Return the hashes in `run.audit`, and whether the file ends with a whole line and has nothing else.

    A line that is no hash is returned as it is, so that it matches no record. A missing file has no hashes.
    """
    try:
        data = (folder / AUDIT).read_bytes()
    except FileNotFoundError:
        return [], True
    whole = len(data) // _LINE
    lines = [data[at * _LINE : (at + 1) * _LINE] for at in range(whole)]
    hashes = [line[:-1].decode("latin-1") if line.endswith(b"\n") else "" for line in lines]
    return hashes, whole * _LINE == len(data)


@attrs.frozen
class AuditReport:
    """What a check of an audit chain has found.

    Attributes:
        head: the last record up to which the chain is intact.
        problem: the first bad record and what is wrong with it, in one sentence; None if the chain is intact.
    """

    head: AuditHead
    problem: str | None = None


def check_chain(
    chunks: Iterable[tuple[int, bytes]],
    lines: Sequence[str],
    *,
    may_lag: bool = False,
    ended: AuditHead | None = None,
    noted: AuditHead | None = None,
) -> AuditReport:
    """Check all audit records of a run in order, and return the first problem.

    Args:
        chunks: the number of the first event and the JSON text of each chunk of events.
        lines: the hashes in `run.audit`.
        may_lag: whether `run.audit` may lack the last records, because the process was killed between the two writes.
        ended: the head in the final state of the run; None if there is none.
        noted: a head that the reader has noted before; None if there is none.
    """
    head = AuditHead()
    try:
        for event, row in _records(chunks):
            problem = _fault(event, row, head, lines, may_lag=may_lag)
            if problem is not None:
                return AuditReport(head, problem)
            head = AuditHead(head.n + 1, row[7]["hash"])
            if noted is not None and noted.n == head.n and noted.hash != head.hash:
                return AuditReport(head, f"audit record {head.n} (event {event}) is not the one that was noted")
    except (LookupError, RecursionError, TypeError, ValueError):
        return AuditReport(head, f"the events from audit record {head.n + 1} on cannot be read")
    if head.n < len(lines):
        return AuditReport(head, f"audit record {head.n + 1} is missing: {AUDIT} has {len(lines)} records")
    if noted is not None and head.n < noted.n:
        return AuditReport(head, f"audit record {head.n + 1} is missing: record {noted.n} was noted")
    if ended is not None and ended != head:
        which = f"audit record {min(ended.n, head.n) + (ended.n != head.n)}"
        return AuditReport(head, f"{which} contradicts the final state of the run, which has {ended.n} records")
    return AuditReport(head)


def _records(chunks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Any]]:
    """Yield the audit records with the numbers of their events."""
    for first, data in chunks:
        if _MARK in data:
            for event, row in enumerate(decode(data), first):
                if row[6] == TOPIC:
                    yield event, row


def _fault(event: int, row: Any, head: AuditHead, lines: Sequence[str], *, may_lag: bool) -> str | None:
    """Return what is wrong with the record after `head`, or None."""
    n, data = head.n + 1, row[7]
    name = f"audit record {n} (event {event})"
    if not _is_record(data):
        return f"{name} is not an audit record"
    if data["n"] != n:
        return f"audit record {n} is missing: event {event} has record {data['n']!r:.40}"
    if data["previous"] != head.hash:
        return f"{name} does not follow the record before it"
    if data["hash"] != record_hash(n, row[0], row[5], data["what"], data["data"], head.hash):
        return f"{name} does not match its hash"
    if n > len(lines):
        return None if may_lag else f"{name} was added: {AUDIT} has {len(lines)} records"
    return None if lines[n - 1] == data["hash"] else f"{name} is not the one in {AUDIT}"
