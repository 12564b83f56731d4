"""Edge: files of lines that are synced, each with a checksum, so that a damaged or incomplete line is noticed."""

import hashlib
import os
from pathlib import Path
from typing import Any, Final

from sim.kernel.codec import decode

sync = getattr(os, "fdatasync", os.fsync)

_AS_IS: Final = getattr(os, "O_BINARY", 0)  # otherwise Windows writes two bytes for a line end


def open_bytes(path: Path, flags: int) -> int:
    """Open a file that only its owner can read, and return its descriptor.

    Args:
        path: the file, which is created if it does not exist.
        flags: flags of `os.open`, such as `os.O_WRONLY | os.O_APPEND`.

    Raises:
        OSError: if it cannot be opened.
    """
    return os.open(path, flags | os.O_CREAT | _AS_IS, 0o600)


def checked_line(body: bytes) -> bytes:
    """Return a line: a checksum, a space, JSON."""
    return hashlib.sha256(body).hexdigest()[:32].encode() + b" " + body + b"\n"


def value_of(line: bytes) -> Any:
    """Return the value in a line, or None if it does not match its checksum."""
    body = line[33:-1]
    return decode(body) if body and checked_line(body) == line else None


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes."""
    while data:
        data = data[os.write(descriptor, data) :]
