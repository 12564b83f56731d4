"""What a run notes of its batches, so that it submits none twice if it is killed (edge).

The file `run.batches` in the run folder has a line for each step of a batch. The line is on disk before the step that
follows it: the ids of the requests before anything is sent, then the id of the uploaded file, then that of the batch.
The record of the run does not depend on this file. Each process that opens it adds a line, so a process from which the
run was taken over notices that at its next note, which comes before anything is sent.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import RunError
from sim.kernel.codec import encode
from sim.llm.batches.lines import batch_key
from sim.llm.batches.settings import NOTES
from sim.llm.serialization import error_from_json, error_to_json
from sim.llm.types import ModelError
from sim.record.files import failure
from sim.record.lines import checked_line, open_bytes, sync, value_of, write_all

_OPEN: Final = "open"


@attrs.define(eq=False)
class Note:
    """What is known of one batch.

    Attributes:
        number: its number in the run, from 1.
        provider, path, model: where its requests go.
        ids: the ids of its requests, in order.
        at: Unix time in seconds at which it was planned.
        key: the key by which it is found at the endpoint.
        file: the id of the uploaded file, if it is known.
        batch: the id of the batch, if it is known.
        failure: why it could not be submitted, or None.
    """

    number: int
    provider: str
    path: str
    model: str
    ids: tuple[str, ...]
    at: float
    key: str
    file: str | None = None
    batch: str | None = None
    failure: ModelError | None = None


class Notes:
    """The notes of a run. Each method returns when its note is on disk.

    Args:
        run: the name of the run.
        folder: the run folder, or None for a run without one, whose notes are lost with the process.
        now: returns Unix time in seconds.

    Raises:
        RunError: if the file is damaged, or cannot be used.
    """

    def __init__(self, run: str, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self._run = run
        self._path = None if folder is None else folder / NOTES
        self._file: int | None = None
        self._size = 0
        self._last = 0
        self._all: dict[int, Note] = {}
        self._by_id: dict[str, list[Note]] = {}
        if self._path is not None:
            try:
                self._open(self._path)
            except RunError:
                self.close()
                raise
            except OSError as error:
                self.close()
                raise failure(self._path, error) from error

    def close(self) -> None:
        """Close the file. A second call is a no-op."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def pending(self) -> tuple[Note, ...]:
        """The batches that were not cleared or dropped."""
        return tuple(self._all.values())

    def of(self, id: str) -> tuple[Note, ...]:
        """Return the batches that have a request, in order, without those that were dropped or cleared."""
        return tuple(self._by_id.get(id, ()))

    def plan(self, provider: str, path: str, model: str, ids: tuple[str, ...]) -> Note:
        """Note a new batch before anything is sent."""
        number = self._last + 1
        return self._note(["plan", number, provider, path, model, list(ids), self.now()])

    def uploaded(self, note: Note, file: str) -> None:
        """Note that the requests were uploaded as a file."""
        self._note(["file", note.number, file])

    def submitted(self, note: Note, batch: str) -> None:
        """Note that the endpoint has the batch."""
        self._note(["batch", note.number, batch])

    def failed(self, note: Note, error: ModelError) -> None:
        """Note that the endpoint has refused the batch."""
        self._note(["failed", note.number, error_to_json(error)])

    def drop(self, note: Note) -> None:
        """Note that the batch was never submitted."""
        self._note(["drop", note.number])

    def clear(self, note: Note) -> None:
        """Note that all answers of the batch are on record, and its files are no longer needed."""
        self._note(["clear", note.number])

    # -- the file

    def _open(self, path: Path) -> None:
        self._file = open_bytes(path, os.O_RDWR | os.O_APPEND)
        self._read(path)
        self._size = os.fstat(self._file).st_size
        self._write(path, [_OPEN, os.getpid()])

    def _note(self, step: list[Any]) -> Note:
        if self._path is not None:
            try:
                self._write(self._path, step)
            except OSError as error:
                raise failure(self._path, error) from error
        return self._take(step)

    def _write(self, path: Path, step: list[Any]) -> None:
        assert self._file is not None, "it is open"
        if os.fstat(self._file).st_size != self._size:
            raise RunError(f"{path} was changed by another process, which has taken over the run")
        line = checked_line(encode(step))
        write_all(self._file, line)
        sync(self._file)
        self._size += len(line)

    def _take(self, step: list[Any]) -> Note:
        what, number, *rest = step
        if what == "plan":
            return self._planned(number, *rest)
        note = self._all[number]
        if what == "file":
            (note.file,) = rest
        elif what == "batch":
            (note.batch,) = rest
        elif what == "failed":
            note.failure = error_from_json(*rest)
        elif what in ("drop", "clear"):
            self._forget(note)
        else:
            raise ValueError(f"there is no step {what!r}")
        return note

    def _planned(self, number: int, provider: str, path: str, model: str, ids: list[str], at: float) -> Note:
        note = Note(
            number=number,
            provider=provider,
            path=path,
            model=model,
            ids=tuple(ids),
            at=at,
            key=batch_key(self._run, number, tuple(ids)),
        )
        self._last = number
        self._all[number] = note
        for id in note.ids:
            self._by_id.setdefault(id, []).append(note)
        return note

    def _forget(self, note: Note) -> None:
        del self._all[note.number]
        for id in note.ids:
            self._by_id[id].remove(note)
            if not self._by_id[id]:
                del self._by_id[id]

    def _read(self, path: Path) -> None:
        """Read all notes. A line that was being written when the process ended is removed."""
        lines = path.read_bytes().splitlines(keepends=True)
        length = 0
        for number, line in enumerate(lines, 1):
            step = value_of(line)
            if step is None and number == len(lines):
                os.truncate(path, length)
                return
            try:
                if step is None:
                    raise ValueError("the checksum is wrong")
                if step[0] != _OPEN:
                    self._take(step)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise RunError(
                    f"{path} is damaged in line {number}, so it is not known which batches were submitted",
                    hint="restore it from a copy, or continue online with: sim resume RUN --no-batch",
                ) from error
            length += len(line)
