"""Checks an archive: whether it has the files that its metadata name, unchanged. No code in it is run."""

import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import attrs

from sim.archives.crate import METADATA, read_metadata
from sim.base.crashpoints import reach
from sim.base.errors import UsageError
from sim.kernel.codec import Json, JsonObject
from sim.record.files import DATABASE
from sim.record.zip_archives import EXPERIMENT, UNREADABLE, check_space, is_known, members_of, open_archive, unreadable

_MOST_METADATA = 50 * 2**20


@attrs.frozen
class Checked:
    """An archive that was checked.

    Attributes:
        path: its file.
        title: its title.
        files: the number of files.
        replay: what it says of how to repeat its run.
        problems: what is wrong with it, one sentence each.
    """

    path: Path
    title: str
    files: int
    replay: JsonObject
    problems: tuple[str, ...]


def check_archive(archive: Path, to: Path) -> Checked:
    """Check an archive, and unpack its files into a folder.

    Args:
        archive: the archive.
        to: an empty folder.

    Raises:
        UsageError: if it is no archive that `sim archive` has written, or is not safe to unpack.
        RunError: if it cannot be read as a zip archive.
    """
    try:
        with open_archive(archive) as opened:
            members = {member.filename: member for member in members_of(opened, archive)}
            hashes, replay, title = _metadata(opened, members, archive)
            problems = [f"the file {name} is missing" for name in sorted(hashes.keys() - members.keys())]
            problems += [
                f"the file {name} is not in the metadata" for name in sorted(members.keys() - {*hashes, METADATA})
            ]
            if EXPERIMENT not in members and not any(_is_record(name) for name in members):
                problems.append("it has neither a run nor an experiment")
            problems += [
                f"{name} is not the name of a file of an archive" for name in sorted(hashes) if not is_known(name)
            ]
            listed = sorted(name for name in hashes.keys() & members.keys() if is_known(name))
            check_space([members[name] for name in listed], to)
            for name in listed:
                if _unpack(opened, members[name], to) != hashes[name]:
                    problems.append(f"the file {name} was changed")
    except UNREADABLE as error:
        raise unreadable(archive, error) from error
    return Checked(archive, title, len(members), replay, tuple(problems))


def _metadata(
    opened: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], archive: Path
) -> tuple[dict[str, tuple[int, str]], dict[str, Json], str]:
    member = members.get(METADATA)
    if member is None:
        raise UsageError(f"{archive} has no {METADATA}", hint="`sim archive` writes archives that can be verified")
    if member.file_size > _MOST_METADATA:
        raise UsageError(f"{archive}: {METADATA} has more than {_MOST_METADATA:,} bytes")
    try:
        return read_metadata(opened.read(member))
    except zipfile.BadZipFile:
        raise
    except RecursionError as error:
        raise UsageError(f"{archive}: {METADATA} cannot be used: its JSON is nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"{archive}: {METADATA} cannot be used: {error}") from error


def _is_record(name: str) -> bool:
    """Return whether a file is the record of the run, as in `run/NAME/run.db`."""
    parts = name.split("/")
    return len(parts) == 3 and parts[0] == "run" and parts[2] == DATABASE


def _unpack(opened: zipfile.ZipFile, member: zipfile.ZipInfo, to: Path) -> tuple[int, str]:
    """Unpack a file, and return its size and its hash; the hash is empty if it cannot be unpacked as a whole."""
    path, size, digest = to / member.filename, 0, hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with opened.open(member) as source, path.open("xb") as target:
            while block := source.read(1 << 20):
                target.write(block)
                digest.update(block)
                size += len(block)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError):  # its check sum is wrong, or it is damaged
        return size, ""
    reach("archive.unpacked")
    return size, digest.hexdigest()
