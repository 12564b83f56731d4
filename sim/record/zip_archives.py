"""Runs in zip archives, as they are handed on: unpacked into a folder for as long as the process lives.

An archive may come from anybody. What it says of itself is not trusted: names, sizes, kinds of files. Nothing is
unpacked but files of known names, and of these no more than fits on the disk.
"""

import atexit
import lzma
import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Final

import attrs

from sim.base.errors import RunError, SimError, UsageError
from sim.record.audit_chain import AUDIT
from sim.record.drafts import Draft
from sim.record.files import DATABASE, LOCK, REFERRED, SCENARIO
from sim.record.head import HEAD, UNSAFE

EXPERIMENT: Final = "experiment/plan.json"
"""The file that an archive of an experiment has, and one of a run has not."""

MOST_FILES: Final = 10_000
MOST_BYTES: Final = 20 * 2**30
"""The most bytes of the files of an archive, unpacked."""

MOST_RATIO: Final = 200
"""How many times smaller a large file, or all files, may be in an archive. The record of a run is 25 times at most."""

RUN_FILES: Final = (DATABASE, f"{DATABASE}-wal", SCENARIO, *REFERRED, HEAD, UNSAFE, AUDIT, LOCK)
"""The files of a run that are unpacked."""

_RUN_FILE: Final = "|".join(map(re.escape, RUN_FILES))
_REFERRED: Final = "|".join(map(re.escape, REFERRED))
_EXPECTED: Final = re.compile(
    r"ro-crate-metadata\.json|CITATION\.cff|ODD\.md|software/versions\.txt|software/[^/]+\.whl|software/modules/.+"
    rf"|experiment/(plan\.json|results\.(db|csv|html)|bench\.(csv|html|json)|{re.escape(SCENARIO)}|{_REFERRED})"
    rf"|(run|past|experiment/runs)/[^/]+/({_RUN_FILE})"
)
"""The names of the files that `sim archive` writes."""

_DIRECTORY: Final = 16 * 2**20  # bytes of the list of the files; that of 10,000 files with long names is shorter
_END: Final = 66_000  # bytes at the end of an archive that have the end record of its list, with a comment
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
        unpacked = _UNPACKED.get(path)
        if unpacked is None or unpacked.version != version:
            unpacked = _UNPACKED[path] = _Unpacked(archive, version, unpack(archive))
        return unpacked.folder


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


def is_known(name: str) -> bool:
    """Return whether `sim archive` writes files of this name."""
    return _EXPECTED.fullmatch(name) is not None


def open_archive(archive: Path) -> zipfile.ZipFile:
    """Open a zip archive whose list of files is not too long to be read.

    Raises:
        UsageError: if it is.
        Others: see `UNREADABLE`.
    """
    with archive.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _END))
        end = stream.read()
    if _length_of_list(end) > _DIRECTORY:
        raise UsageError(f"{archive} has more than {MOST_FILES:,} files")
    return zipfile.ZipFile(archive)


def _length_of_list(end: bytes) -> int:
    """Return the bytes of the list of files, from the end of an archive (APPNOTE.TXT of PKWARE, 4.3.14 to 4.3.16)."""
    place = end.rfind(b"PK\x05\x06", 0, len(end) - 18)
    if place < 0:
        return 0  # it is no archive
    large, locator = place - 76, place - 20  # these stand before the record if there are many or large files
    if large >= 0 and (end[large : large + 4], end[locator : locator + 4]) == (b"PK\x06\x06", b"PK\x06\x07"):
        return int.from_bytes(end[large + 40 : large + 48], "little")
    return int.from_bytes(end[place + 12 : place + 16], "little")


def members_of(opened: zipfile.ZipFile, archive: Path) -> list[zipfile.ZipInfo]:
    """Return the files of a zip archive.

    Raises:
        UsageError: if there are too many or too large ones, if two have the same name, or if one is a link, has a
            name that leads out of the folder into which it is unpacked, or is far larger than it is in the archive.
    """
    members = [member for member in opened.infolist() if not member.is_dir()]
    total = sum(one.file_size for one in members)
    if len(members) > MOST_FILES or total > MOST_BYTES:
        raise UsageError(f"{archive} has more than {MOST_FILES:,} files, or {MOST_BYTES:,} bytes")
    if total > max(_LARGE, MOST_RATIO * archive.stat().st_size):  # files can also share bytes
        raise UsageError(f"{archive} is more than {MOST_RATIO} times larger when unpacked: it has {total:,} bytes")
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
        same = unicodedata.normalize("NFKC", name).casefold()  # file systems may take such names as the same
        if same in seen:
            raise UsageError(f"{archive} has the file {name[:80]!r} twice")
        seen.add(same)
    return members


def check_space(members: Iterable[zipfile.ZipInfo], to: Path) -> None:
    """Check that files fit on the disk into which they are unpacked. Their folder is made if it does not exist.

    Raises:
        RunError: if they do not.
    """
    to.mkdir(parents=True, exist_ok=True)
    needed, free = sum(member.file_size for member in members), shutil.disk_usage(to).free
    if needed > free:
        raise RunError(
            f"{needed:,} bytes are needed to unpack the archive, and {to.parent} has {free:,} bytes free",
            hint="free some space, or set TMPDIR to a folder on another disk",
        )


def unreadable(archive: Path, error: Exception) -> SimError:
    """Return the error for an archive that cannot be read."""
    return RunError(f"{archive} cannot be read as a zip archive: {error}")


UNREADABLE: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
"""What `zipfile` raises for archives that are damaged, encrypted or of an unknown kind."""


def _leads_elsewhere(name: str) -> bool:
    """Return whether a name is not the plain name of a file in the folder, which no other name leads to."""
    path = PurePosixPath(name)
    wrong = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not name.isprintable()
    return wrong or not path.parts or str(path) != name or len(name) > _LONGEST


def _new_folder() -> Path:
    """Return a new folder, which is removed when the process ends, or by the next process if it is killed."""
    draft = Draft(None, "sim-archive")
    atexit.register(draft.close)
    return draft.folder


def _unpack_experiment(archive: Path) -> Path:
    """Unpack the experiment of an archive, and return its folder."""
    to = _new_folder()
    try:
        with open_archive(archive) as opened:
            members = members_of(opened, archive)
            if not any(member.filename == EXPERIMENT for member in members):
                raise UsageError(f"{archive} has no experiment", hint="sim.open reads the archive of a run")
            to_unpack = [one for one in members if is_known(one.filename) and not one.filename.startswith("software/")]
            check_space(to_unpack, to)
            for member in to_unpack:
                opened.extract(member, to)
    except UNREADABLE as error:
        raise unreadable(archive, error) from error
    return to / PurePosixPath(EXPERIMENT).parent


def _unpack_run(archive: Path) -> Path:
    """Unpack the one run of an archive, and return its folder."""
    to = _new_folder()
    try:
        with open_archive(archive) as opened:
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
            own = [one for one in members if PurePosixPath(one.filename).parent == place and _name(one) in RUN_FILES]
            check_space(own, to)
            for member in own:
                opened.extract(member, to)
    except UNREADABLE as error:
        raise unreadable(archive, error) from error
    return to / place


def _name(member: zipfile.ZipInfo) -> str:
    return PurePosixPath(member.filename).name
