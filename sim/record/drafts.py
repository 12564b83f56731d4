"""Edge: nothing that is half made has its final name.

What takes longer than one write is made in a *draft*: a folder of a name of its own, locked by its process. What is
complete is synced and renamed out of it. The draft is removed at the end, and if its process was killed, by the next
process that makes a draft of this kind in the same place.
"""

import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from sim.base.crashpoints import reach

if sys.platform != "win32":
    import fcntl

LOCK: Final = "draft.lock"
_NEW_LOCK: Final = "draft.new"  # before it is held
_LOCKLESS: Final = 60.0  # real seconds after which an empty draft without a lock counts as abandoned
_UNLOCKABLE: Final = 86_400.0  # the same for any draft on Windows, where there are no such locks


class Draft:
    """A folder for what is not complete yet. Close it when nothing in it is needed any more.

    Args:
        parent: the folder in which it is made; None: the one for temporary files.
        kind: the beginning of its name; one with a dot is hidden.

    Raises:
        OSError: if it cannot be made.
    """

    def __init__(self, parent: Path | None, kind: str) -> None:
        place = Path(tempfile.gettempdir()) if parent is None else parent
        remove_abandoned(place, kind)
        self.folder = place / f"{kind}-{secrets.token_hex(4)}"
        self._process = os.getpid()
        self._lock: int | None = None
        self.folder.mkdir(mode=0o700)
        try:
            self._lock = os.open(self.folder / _NEW_LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if sys.platform != "win32":
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            (self.folder / _NEW_LOCK).rename(self.folder / LOCK)  # so that no other process finds it free
            reach("draft.made")
        except BaseException:  # also the one by which SIGTERM ends the process
            self.close()
            raise

    def close(self) -> None:
        """Remove it, with what is left in it. A second call, or one in a copy of the process, is a no-op."""
        if self._process != os.getpid():
            return
        _remove(self.folder)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def draft_folder(parent: Path | None, kind: str) -> Iterator[Path]:
    """Yield a new folder for what is not complete yet, which is removed at the end. See `Draft`."""
    draft = Draft(parent, kind)
    try:
        yield draft.folder
    finally:
        draft.close()


def remove_abandoned(parent: Path, kind: str) -> None:
    """Remove the drafts of a kind whose processes were killed."""
    name = re.compile(rf"{re.escape(kind)}-[0-9a-f]{{8}}")
    for path in parent.glob(f"{kind}-*"):
        with suppress(OSError):  # its process removes it now, or it is not ours
            facts = path.lstat()
            own = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
            if not (own and name.fullmatch(path.name) and stat.S_ISDIR(facts.st_mode)):
                continue
            if (path / LOCK).exists():
                _remove_unlocked(path)
            elif time.time() - facts.st_mtime > _LOCKLESS:
                (path / _NEW_LOCK).unlink(missing_ok=True)
                path.rmdir()  # one without a lock is empty; `rmdir` keeps any other folder


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files that only their owner can read. Each gets its name when it is on disk, and replaces an older one.

    Raises:
        OSError: if one cannot be written.
    """
    with draft_folder(folder, ".draft") as draft:
        for name, content in contents.items():
            with open_new(draft / name) as file:
                file.write(content)
        reach("files.drafted")
        for name in contents:
            (draft / name).replace(folder / name)
            reach("files.replaced")
    sync_folder(folder)


@contextmanager
def open_new(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that only its owner can read, and have it on disk at the end of the block."""
    path.touch(0o600, exist_ok=False)
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Have a file on disk that somebody else has written."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, on systems that can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_unlocked(path: Path) -> None:
    """Remove a draft, unless its process lives."""
    if sys.platform == "win32":
        if time.time() - path.stat().st_mtime > _UNLOCKABLE:
            _remove(path)
    else:
        descriptor = os.open(path / LOCK, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a draft, its lock last, so that what is left of a removal that is killed can be removed as well."""
    with suppress(OSError):
        for inner in path.iterdir():
            if inner.name not in (LOCK, _NEW_LOCK):
                if inner.is_dir() and not inner.is_symlink():
                    shutil.rmtree(inner, ignore_errors=True)
                else:
                    inner.unlink(missing_ok=True)
        for name in (LOCK, _NEW_LOCK):
            (path / name).unlink(missing_ok=True)
        path.rmdir()
