"""Runs in zip archives, as they are handed on: unpacked into a folder for as long as the process lives.

An archive may come from anybody. What it says of itself is not trusted: names, sizes, kinds of files.
"""

import atexit
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Final

import attrs

from sim.errors import RunError, SimError, UsageError
from sim.store.drafts import Draft
from sim.store.files import DATABASE

EXPERIMENT: Final = "experiment/plan.json"
"""The file that an archive of an experiment has, and one of a run has not."""

MOST_FILES: Final = 10_000
MOST_BYTES: Final = 20 * 2**30
"""The most bytes of the files of an archive, unpacked."""

MOST_RATIO: Final = 200
"""How many times smaller a large file may be in an archive. The record of a run is about 25 times smaller at most."""

_LARGE: Final = 100 * 2**20  # bytes
_LONGEST: Final = 1000  # characters of a name
_ENCRYPTED: Final = 1  # the flag of a file


@attrs.frozen
class _Unpacked:
    """A run that was unpacked."""

    archive: Path
    version: tuple[int, int]
    folder: Path


_UNPACKED: Final[dict[Path, _Unpacked]] = {}  # by the path of the archive
_LOCK: Final = Lock()


def is_archive(path: Path) -> bool:
    """Return whether a path leads to a zip archive, by its name."""
    return path.suffix.lower() == ".zip" and path.is_file()


def unpacked_run(archive: Path) -> Path:
    """Return the folder of the run in an archive. It is unpacked once, and removed when the process ends.

    Raises:
        UsageError: if it has no run, several, or too much, or a file in it has a name that leads elsewhere.
        RunError: if it is damaged or cannot be read.
    """
    return _unpacked(archive, _unpack_run)


def unpacked_experiment(archive: Path) -> Path:
    """Return the folder of the experiment in an archive, which is unpacked as `unpacked_run` does it.

    Raises:
        UsageError: if it has no experiment or too much, or a file in it has a name that leads elsewhere.
        RunError: if it is damaged or cannot be read.
    """
    return _unpacked(archive, _unpack_experiment)


def _unpacked(archive: Path, unpack: Callable[[Path], Path]) -> Path:
    try:
        path, facts = archive.resolve(), archive.stat()
    except OSError as error:
        raise unreadable(archive, error) from error
    version = (facts.st_mtime_ns, facts.st_size)
    with _LOCK:
        known = _UNPACKED.get(path)
        if known is None or known.version != version:
            known = _UNPACKED[path] = _Unpacked(archive, version, unpack(archive))
        return known.folder


def archive_of(folder: Path) -> Path | None:
    """Return the archive that a run folder was unpacked from; None if it is a folder of its own."""
    return next((one.archive for one in tuple(_UNPACKED.values()) if one.folder == folder), None)


def check_not_archived(folder: Path, why: str) -> None:
    """Refuse a run that is in an archive.

    Args:
        folder: the folder of the run.
        why: what needs a folder that stays, for the error.

    Raises:
        UsageError: if it is.
    """
    archive = archive_of(folder)
    if archive is not None:
        raise UsageError(f"{archive} is an archive, and {why}", hint="unpack it, and give the folder of the run")


def members_of(opened: zipfile.ZipFile, archive: Path) -> list[zipfile.ZipInfo]:
    """Return the files of a zip archive.

    Raises:
        UsageError: if there are too many or too large ones, if two have the same name, or if one is a link, has a
            name that leads out of the folder into which it is unpacked, or is far larger than it is in the archive.
    """
    members = [member for member in opened.infolist() if not member.is_dir()]
    if len(members) > MOST_FILES or sum(one.file_size for one in members) > MOST_BYTES:
        raise UsageError(f"{archive} has more than {MOST_FILES:,} files, or {MOST_BYTES:,} bytes")
    seen: set[str] = set()
    for member in members:
        name = member.filename
        if _leads_elsewhere(name):
            raise UsageError(f"{archive} has the file {name[:80]!r}, which would be written outside of its folder")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise UsageError(f"{archive} has the file {name[:80]!r}, which is a link to another file")
        if member.file_size > max(_LARGE, MOST_RATIO * member.compress_size):
            raise UsageError(
                f"{archive} has the file {name[:80]!r}, which is more than {MOST_RATIO} times larger when unpacked"
            )
        if member.flag_bits & _ENCRYPTED:
            raise UsageError(f"{archive} has the file {name[:80]!r}, which is encrypted")
        if name.casefold() in seen:
            raise UsageError(f"{archive} has the file {name[:80]!r} twice")
        seen.add(name.casefold())
    return members


def unreadable(archive: Path, error: Exception) -> SimError:
    """Return the error for an archive that cannot be read."""
    return RunError(f"{archive} cannot be read as a zip archive: {error}")


UNREADABLE: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
"""What `zipfile` raises for archives that are damaged, encrypted or of an unknown kind."""


def _leads_elsewhere(name: str) -> bool:
    parts = PurePosixPath(name).parts
    wrong = name.startswith("/") or ".." in parts or "\\" in name or ":" in name or "\0" in name
    return wrong or not parts or len(name) > _LONGEST


def _new_folder() -> Path:
    """Return a new folder, which is removed when the process ends, or by the next process if it is killed."""
    draft = Draft(None, "sim-archive")
    atexit.register(draft.close)
    return draft.folder


def _unpack_experiment(archive: Path) -> Path:
    """Unpack the experiment of an archive, and return its folder."""
    to = _new_folder()
    try:
        with zipfile.ZipFile(archive) as opened:
            members = members_of(opened, archive)
            if not any(member.filename == EXPERIMENT for member in members):
                raise UsageError(f"{archive} has no experiment", hint="sim.open reads the archive of a run")
            for member in members:
                opened.extract(member, to)
    except UNREADABLE as error:
        raise unreadable(archive, error) from error
    return to / PurePosixPath(EXPERIMENT).parent


def _unpack_run(archive: Path) -> Path:
    """Unpack the one run of an archive, and return its folder."""
    to = _new_folder()
    try:
        with zipfile.ZipFile(archive) as opened:
            members = members_of(opened, archive)
            if any(member.filename == EXPERIMENT for member in members):
                raise UsageError(
                    f"{archive} is the archive of an experiment, not of a run",
                    hint="sim.Experiment.open reads it, and sim verify checks it",
                )
            places = {PurePosixPath(one.filename).parent for one in members if _name(one) == DATABASE}
            if len(places) != 1:
                raise UsageError(f"{archive} has {len(places)} runs, not one", hint="pack the folder of one run")
            (place,) = places
            for member in members:
                if place in PurePosixPath(member.filename).parents:
                    opened.extract(member, to)
    except UNREADABLE as error:
        raise unreadable(archive, error) from error
    return to / place


def _name(member: zipfile.ZipInfo) -> str:
    return PurePosixPath(member.filename).name
