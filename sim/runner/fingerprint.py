"""Hashes of the code of a run. A run is not continued under other code unless the operator allows it."""

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sim._speedups import core


def code_hashes(classes: Iterable[type]) -> dict[str, str]:
    """Return hashes (64 hex digits) by module: the package `sim`, its compiled part if used, and the modules outside
    `sim` that define `classes`.
    """
    names = {kind.__module__ for kind in classes}
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names if not name.startswith("sim.")}
    files |= {} if core is None else {core.__name__: core.__file__}
    return {"sim": _package_hash(), **{name: _file_hash(file) for name, file in sorted(files.items()) if file}}


@cache
def _package_hash() -> str:
    root = Path(__file__).parents[1]
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(f"{path.relative_to(root).as_posix()}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def _file_hash(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
