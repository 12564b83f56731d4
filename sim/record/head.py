"""Edge: two small files beside the database that reveal lost records.

If a write-ahead log is damaged, SQLite ignores all its frames from the damage on, and reports no error. The database is
then in an earlier state. Two files reveal this:

- `run.head` names the last commit. It is written and synced after each commit, before the commit is reported. Its two
  slots are written alternately, so that at least one of them is intact at any time.
- `run.unsafe` has one line for each unsafe effect, written before the effect starts. If records are lost, it shows
  which unsafe effects may have been carried out.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import attrs

from sim.base.errors import RunError
from sim.kernel.codec import encode
from sim.record.lines import checked_line, open_bytes, sync, value_of, write_all

HEAD = "run.head"
UNSAFE = "run.unsafe"

_SLOT = 512  # bytes: one sector, which a disk writes atomically
_MOST = 1_000_000_000  # maximum length in bytes of a `run.unsafe` that is read


@attrs.frozen
class Head:
    """The last commit of a run.

    Args:
        run: the original name of the run folder.
        commit: the number of the commit; 0 is the creation of the file.
        hash: the hash of the commit (64 hex digits); see `seal.commit_hash`.
        effects: the number of effects that were started.
        unsafe: the length of `run.unsafe` in bytes.
    """

    run: str
    commit: int
    hash: str
    effects: int = 0
    unsafe: int = 0


@attrs.frozen
class HeadState:
    """The content of `run.head`: the newest intact slot, and a description of damage, if there is any."""

    head: Head | None
    problem: str | None = None


@attrs.frozen
class UnsafeEffect:
    """An unsafe effect as stored in `run.unsafe`. Its `request` is shortened for display."""

    id: int
    actor: str
    ordinal: int
    kind: str
    request_hash: str
    time_ns: int
    request: str


class HeadFile:
    """Writes the two files. Only the writer's thread may use it.

    Raises:
        OSError: if they cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._head = open_bytes(folder / HEAD, os.O_RDWR)
        self._path = folder / UNSAFE
        self._unsafe: int | None = None  # opened at the first unsafe effect
        self.size = unsafe_size(folder)

    def note(self, effects: Sequence[UnsafeEffect]) -> None:
        """Append effects to `run.unsafe`. They are on disk when the method returns."""
        if self._unsafe is None:
            self._unsafe = open_bytes(self._path, os.O_WRONLY | os.O_APPEND)
        lines = b"".join(checked_line(encode(attrs.astuple(effect))) for effect in effects)
        write_all(self._unsafe, lines)
        sync(self._unsafe)
        self.size += len(lines)

    def write(self, head: Head) -> None:
        """Write the last commit. It is on disk when the method returns."""
        os.lseek(self._head, head.commit % 2 * _SLOT, os.SEEK_SET)
        write_all(self._head, _slot(head))
        sync(self._head)

    def close(self) -> None:
        """Close both files."""
        os.close(self._head)
        if self._unsafe is not None:
            os.close(self._unsafe)


def create_head(folder: Path, head: Head) -> None:
    """Write `run.head` of a new run, with the same content in both slots."""
    descriptor = open_bytes(folder / HEAD, os.O_WRONLY | os.O_EXCL)
    try:
        write_all(descriptor, _slot(head) * 2)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_head(folder: Path) -> HeadState:
    """Return the last commit of the run in `folder`, and a description of damage to `run.head`.

    If one slot is damaged, the other one may be one commit too old. `HeadState.problem` is set then.
    """
    try:
        data = (folder / HEAD).read_bytes()[: 2 * _SLOT]
    except FileNotFoundError:
        return HeadState(None, f"{HEAD} is missing")
    except OSError as error:
        return HeadState(None, f"{HEAD} cannot be read: {error.strerror}")
    slots = [_head_of(data[at : at + _SLOT]) for at in (0, _SLOT)]
    whole = [head for head in slots if head is not None]
    problem = f"{HEAD} is damaged" if len(whole) < len(slots) else None
    return HeadState(max(whole, key=lambda head: head.commit, default=None), problem)


def read_unsafe(folder: Path) -> tuple[list[UnsafeEffect], str | None]:
    """Return the effects in `run.unsafe` up to the first damage, and a description of the damage or None."""
    path = folder / UNSAFE
    try:
        if path.stat().st_size > _MOST:
            return [], f"{UNSAFE} is too large"
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return [], None  # no unsafe effect was started; `StoredRun.unsafe_lost` compares the length with `run.head`
    except OSError as error:
        return [], f"{UNSAFE} cannot be read: {error.strerror}"
    effects: list[UnsafeEffect] = []
    for number, line in enumerate(lines, 1):
        values = value_of(line)
        if not isinstance(values, list) or len(values) != len(attrs.fields(UnsafeEffect)):
            return effects, f"{UNSAFE} is damaged in line {number}"
        effects.append(UnsafeEffect(*values))
    return effects, None


def unsafe_size(folder: Path) -> int:
    """Return the length of `run.unsafe` in bytes, or 0 if it is missing."""
    try:
        return (folder / UNSAFE).stat().st_size
    except OSError:
        return 0


def _slot(head: Head) -> bytes:
    line = checked_line(encode(attrs.astuple(head)))
    if len(line) > _SLOT:
        raise RunError(f"the name of run {head.run[:80]!r} is too long")
    return line.ljust(_SLOT)


def _head_of(slot: bytes) -> Head | None:
    values = value_of(slot.rstrip(b" ")) if len(slot) == _SLOT else None
    return Head(*values) if isinstance(values, list) and len(values) == len(attrs.fields(Head)) else None
