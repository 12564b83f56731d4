"""Runs in zip archives, as they are handed on: unpacked into a folder for as long as they are read."""

import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from sim.errors import RunError, UsageError
from sim.store.files import DATABASE

MOST_FILES: Final = 10_000
MOST_BYTES: Final = 20 * 2**30
"""The most bytes of the files of a run, unpacked."""


def unpack(archive: Path, to: Path) -> Path:
    """Unpack the one run of a zip archive, and return its folder. No file is written outside of `to`.

    Args:
        archive: the archive; the run is in it with or without its folder.
        to: an empty folder.

    Raises:
        UsageError: if it has no run, several, or too much.
        RunError: if it is damaged or cannot be read.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [member for member in opened.infolist() if not member.is_dir()]
            places = {PurePosixPath(one.filename).parent for one in members if _name(one) == DATABASE}
            if len(places) != 1:
                raise UsageError(f"{archive} has {len(places)} runs, not one", hint="pack the folder of one run")
            own = [one for one in members if places <= set(PurePosixPath(one.filename).parents)]
            if len(own) > MOST_FILES or sum(one.file_size for one in own) > MOST_BYTES:
                raise UsageError(f"{archive} has more than {MOST_FILES:,} files, or {MOST_BYTES:,} bytes")
            paths = {Path(opened.extract(one, to)).parent for one in own if _name(one) == DATABASE}
            for member in own:
                opened.extract(member, to)  # it leaves out `..` and the root of a path
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:  # also encrypted ones
        raise RunError(f"{archive} cannot be read as a zip archive: {error}") from error
    return paths.pop()


def _name(member: zipfile.ZipInfo) -> str:
    return PurePosixPath(member.filename).name
