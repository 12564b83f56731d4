"""Edge: files of lines that are synced, each with a checksum, so that a damaged or incomplete line is noticed."""

import hashlib
import os
from typing import Any

from sim.kernel.codec import decode

sync = getattr(os, "fdatasync", os.fsync)


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
