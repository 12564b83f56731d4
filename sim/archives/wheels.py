"""A wheel, built from the files of an installed package, so that what made a run can be installed elsewhere.

The format is that of the binary distribution specification of Python packages (wheel 1.0).
"""

import base64
import hashlib
import importlib.resources
import io
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from sim.base.errors import RunError

SIM: Final = "actor-sim"
"""The name of the package of sim itself."""

_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: sim\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_COMPILED: Final = (*EXTENSION_SUFFIXES, ".so", ".pyd", ".dylib", ".dll")


def wheel_of(name: str) -> tuple[str, bytes]:
    """Return the name and the content of a wheel for every machine, from the files of an installed package.

    Of sim itself, the compiled part is left out, because it is optional. The same files give the same bytes.

    Args:
        name: the name of the installed package.

    Raises:
        RunError: if it is not installed, its files are not found, or it has compiled files.
    """
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise RunError(f"the package {name} is not installed") from error
    files = dict(_sources(distribution))
    compiled = [path for path in files if path.endswith(_COMPILED)]
    if compiled and name != SIM:
        raise RunError(f"the package {name} has compiled files, such as {compiled[0]}, and cannot be packed")
    for path in compiled:
        del files[path]
    if not files:
        raise RunError(f"the files of the package {name} are not found")
    stem = f"{distribution.name.replace('-', '_').replace('.', '_')}-{distribution.version}"
    info = f"{stem}.dist-info"
    files |= {f"{info}/{path}": data for path, data in _about(distribution).items()}
    return f"{stem}-py3-none-any.whl", zipped({**files, f"{info}/RECORD": _record(files, f"{info}/RECORD")})


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive: the same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            archive.writestr(entry(path), files[path])
    return buffer.getvalue()


def entry(path: str) -> zipfile.ZipInfo:
    """Return the entry of a file in a zip archive, with the same time and rights for all."""
    info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix, whatever system this is
    info.external_attr = 0o644 << 16
    return info


def _sources(distribution: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file that is imported, or read by what is imported."""
    for top in _top_levels(distribution):
        spec = find_spec(top)
        if spec is None:
            continue
        folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
        if not folders and spec.origin is not None:
            yield Path(spec.origin).name, Path(spec.origin).read_bytes()
        for folder in folders:
            yield from _tree(folder, top)
        if top == "sim" and not any((folder / "gallery").is_dir() for folder in folders):
            yield from _gallery()


def _gallery() -> Iterator[tuple[str, bytes]]:
    """Yield the scenarios of sim, which stand outside of its folder in a source tree."""
    try:
        folder = importlib.resources.files("sim.gallery")
    except ModuleNotFoundError:
        return
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.is_file() and not file.name.endswith(".pyc"):
            yield f"sim/gallery/{file.name}", file.read_bytes()


def _tree(folder: Path, prefix: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and "__pycache__" not in inner.parts and not path.name.startswith("."):
            yield f"{prefix}/{inner.as_posix()}", path.read_bytes()


def _top_levels(distribution: metadata.Distribution) -> list[str]:
    """Return the names of the modules that a package installs."""
    declared = distribution.read_text("top_level.txt")
    if declared is not None:
        return sorted(declared.split())
    names = set()
    for file in distribution.files or ():
        first = PurePosixPath(file).parts[0]
        if file.suffix == ".py" and not first.startswith((".", "__editable__")):
            names.add(first.removesuffix(".py"))
    return sorted(names) or [distribution.name.replace("-", "_").lower()]


def _about(distribution: metadata.Distribution) -> dict[str, bytes]:
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO")
    if text is None:
        raise RunError(f"the package {distribution.name} has no metadata")
    about = {"METADATA": text, "WHEEL": _WHEEL}
    for name in ("entry_points.txt", "top_level.txt"):
        part = distribution.read_text(name)
        if part is not None:
            about[name] = part
    return {name: part.encode() for name, part in about.items()}


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    """Return the list of the files with their hashes, in which the list itself has none."""
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in sorted(files.items())]
    return "\n".join([*lines, f"{own},,", ""]).encode()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
