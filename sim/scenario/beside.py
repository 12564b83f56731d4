"""Reads the files beside a scenario to which it refers: only from its own folder, or below, and only up to a size."""

from codecs import BOM_UTF8
from collections.abc import Container
from pathlib import Path

from sim.base.errors import UsageError


def check_beside(name: str) -> None:
    """Check that a path can be that of a file in the folder of a scenario, or below it.

    Raises:
        UsageError: if it leads elsewhere.
    """
    path = Path(name)
    if path.is_absolute() or path.drive or ".." in path.parts:
        raise UsageError(f"{name[:200]!r} is not in the folder of the scenario", hint="copy it there")


def bytes_beside(folder: Path, name: str, most: int) -> bytes:
    """Return the content of a file in the folder of a scenario, or below it, without a byte order mark.

    Args:
        folder: the folder of the scenario.
        name: the path of the file, relative to it.
        most: the most bytes that are wanted. One more is read, so that the caller can tell that there are more.

    Raises:
        UsageError: if the path leads elsewhere, or there is no such file.
    """
    check_beside(name)
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise UsageError(f"{name[:200]!r} leads out of the folder of the scenario", hint="copy it there")
        if path.exists() and not (path.is_file() or path.is_dir()):  # such as a pipe, which would be waited for
            raise UsageError(f"{name[:200]!r} is not a file")
        with path.open("rb") as stream:
            return stream.read(most + 1).removeprefix(BOM_UTF8)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not allowed"
        raise UsageError(f"{name[:200]} cannot be read: {reason}") from None


def suffix_of(name: str, formats: Container[str]) -> str | None:
    """Return the suffix of a name, such as `.csv`; None: it is none of `formats`."""
    suffix = f".{name.rpartition('.')[2].lower()}"
    return suffix if suffix in formats else None
