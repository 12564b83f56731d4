"""The source of `sim` itself, as one hash."""

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from io import FileIO
from pathlib import Path


@cache
def package_hash() -> str:
    """Return a hash (64 hex digits) of all source files of the package `sim`."""
    root = str(Path(__file__).parents[1])
    whole = hashlib.sha256()
    for parts in sorted(_sources(root, ())):
        name = "/".join(parts)
        whole.update(f"{name}\0".encode())
        with FileIO(f"{root}/{name}") as file:
            whole.update(hashlib.sha256(file.read()).digest())
    return whole.hexdigest()


def _sources(folder: str, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Find the source files below a folder, as tuples of names: objects of `Path` slowed each start of a run."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield (*parts, entry.name)
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(entry.path, (*parts, entry.name))
