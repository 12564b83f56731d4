"""Edge: what a run has committed, kept outside its database, so that lost records are noticed.

SQLite drops every frame of a damaged write-ahead log from the damage on, and reports no error: the database is then an
earlier state of itself. Two small files tell:

- `run.head` names the last commit. It is written and synced after each commit, before anybody is told of the commit.
  Its two slots are written in turn, so that one of them is whole at every moment.
- `run.unsafe` has a line for each effect that must not be done twice, written before the effect may start. It says
  which effects may have been done when their records are lost.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from sim.errors import RunError
from sim.kernel.codec import decode, encode

HEAD = "run.head"
UNSAFE = "run.unsafe"

_SLOT = 512  # bytes: a sector, which disks write whole
_MOST = 1_000_000_000  # bytes of `run.unsafe` that are read

_sync = getattr(os, "fdatasync", os.fsync)


@attrs.frozen
class Head:
    """The last commit of a run.

    Args:
        run: the name that its folder was made under.
        commit: number of the commit, from 0 (made, and not yet written to).
        hash: of all that was committed (64 hex digits); see `seal`.
        effects: how many effects were begun.
        unsafe: length of `run.unsafe` in bytes.
    """

    run: str
    commit: int
    hash: str
    effects: int = 0
    unsafe: int = 0


@attrs.frozen
class HeadState:
    """What `run.head` says: the newest slot that is whole, and what is wrong with the file, if anything is."""

    head: Head | None
    problem: str | None = None


@attrs.frozen
class UnsafeEffect:
    """An effect that must not be done twice, as `run.unsafe` keeps it; `request` is shortened, for people."""

    id: int
    actor: str
    ordinal: int
    kind: str
    request_hash: str
    time_ns: int
    request: str


class HeadFile:
    """Writes the two files. Lives in the writer's thread alone.

    Raises:
        OSError: if they cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._head = os.open(folder / HEAD, os.O_RDWR | os.O_CREAT, 0o600)
        self._path = folder / UNSAFE
        self._unsafe: int | None = None  # opened with the first such effect
        self.size = unsafe_size(folder)

    def note(self, effects: Sequence[UnsafeEffect]) -> None:
        """Add effects to `run.unsafe`; durable when it returns."""
        if self._unsafe is None:
            self._unsafe = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        lines = b"".join(_line(encode(attrs.astuple(effect))) for effect in effects)
        _write(self._unsafe, lines)
        _sync(self._unsafe)
        self.size += len(lines)

    def write(self, head: Head) -> None:
        """Write the last commit; durable when it returns."""
        os.lseek(self._head, head.commit % 2 * _SLOT, os.SEEK_SET)
        _write(self._head, _slot(head))
        _sync(self._head)

    def close(self) -> None:
        """Close both."""
        os.close(self._head)
        if self._unsafe is not None:
            os.close(self._unsafe)


def create_head(folder: Path, head: Head) -> None:
    """Write `run.head` of a new run, both slots alike."""
    descriptor = os.open(folder / HEAD, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write(descriptor, _slot(head) * 2)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_head(folder: Path) -> HeadState:
    """Return the last commit of the run in `folder`, and what is wrong with the file.

    With one damaged slot the other one may be a commit too old: `HeadState.problem` says so.
    """
    try:
        data = (folder / HEAD).read_bytes()[: 2 * _SLOT]
    except FileNotFoundError:
        return HeadState(None, f"{HEAD} is missing")
    except OSError as error:
        return HeadState(None, f"{HEAD} cannot be read: {error.strerror}")
    found = [_head_of(data[at : at + _SLOT]) for at in (0, _SLOT)]
    whole = [head for head in found if head is not None]
    problem = f"{HEAD} is damaged" if len(whole) < len(found) else None
    return HeadState(max(whole, key=lambda head: head.commit, default=None), problem)


def read_unsafe(folder: Path) -> tuple[list[UnsafeEffect], str | None]:
    """Return the effects in `run.unsafe`, up to the first damage, and what is wrong with the file."""
    path = folder / UNSAFE
    try:
        if path.stat().st_size > _MOST:
            return [], f"{UNSAFE} is too large"
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return [], None  # none was begun; a head that says otherwise is compared with its length
    except OSError as error:
        return [], f"{UNSAFE} cannot be read: {error.strerror}"
    effects: list[UnsafeEffect] = []
    for number, line in enumerate(lines, 1):
        values = _checked(line)
        if not isinstance(values, list) or len(values) != len(attrs.fields(UnsafeEffect)):
            return effects, f"{UNSAFE} is damaged in line {number}"
        effects.append(UnsafeEffect(*values))
    return effects, None


def unsafe_size(folder: Path) -> int:
    """Return the length of `run.unsafe` in bytes, 0 if it is missing."""
    try:
        return (folder / UNSAFE).stat().st_size
    except OSError:
        return 0


def _slot(head: Head) -> bytes:
    line = _line(encode(attrs.astuple(head)))
    if len(line) > _SLOT:
        raise RunError(f"the name of run {head.run[:80]!r} is too long")
    return line.ljust(_SLOT)


def _head_of(slot: bytes) -> Head | None:
    values = _checked(slot.rstrip(b" ")) if len(slot) == _SLOT else None
    return Head(*values) if isinstance(values, list) and len(values) == len(attrs.fields(Head)) else None


def _line(body: bytes) -> bytes:
    """Return a line of text: a checksum, a space, JSON."""
    return hashlib.sha256(body).hexdigest()[:32].encode() + b" " + body + b"\n"


def _checked(line: bytes) -> Any:
    """Return what a line holds, None if it is not as it was written."""
    body = line[33:-1]
    return decode(body) if body and _line(body) == line else None


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
