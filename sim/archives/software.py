"""The software that made a run: a wheel of sim, the packages and modules of its agents, versions."""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import attrs

from sim.archives.wheels import SIM, wheel_of
from sim.base.distributions import distribution_of, installed_version
from sim.base.errors import UsageError
from sim.record.files import versions

VERSIONS: Final = "software/versions.txt"
"""The file of the versions of all packages that were installed, as `pip install -c` reads it."""

MODULES: Final = "software/modules/"
"""The folder of the modules that are not of an installed package."""

MOST_MODULES: Final = 1000


@attrs.frozen
class Software:
    """What is packed of the software.

    Attributes:
        files: the content of each file, by its path in the archive.
        missing: what could not be packed, one sentence each.
    """

    files: Mapping[str, bytes]
    missing: tuple[str, ...] = ()


def named_software(allow: Iterable[str]) -> tuple[dict[str, str], dict[str, str | None]]:
    """Return the packages and modules, as `software_of` takes them, that an operator has allowed by name."""
    packages: dict[str, str] = {}
    modules: dict[str, str | None] = {}
    for name in allow:
        distribution = distribution_of(name)
        version = installed_version(name) if distribution is None else distribution.version
        if version is None:
            modules[name] = None
        else:
            packages[name if distribution is None else distribution.name] = version
    return packages, modules


def software_of(packages: Mapping[str, str], code: Mapping[str, str | None]) -> Software:
    """Return the software that made a run.

    Args:
        packages: the recorded versions of the packages that its agents come from, by name.
        code: the recorded hash of each module of its agents, by name; see `sim.runner.fingerprint`. None: not
            recorded.

    Raises:
        UsageError: if another version is installed here than made the run, or a module has changed since.
        RunError: if a package cannot be packed.
    """
    names = [name for name in packages if name not in versions()]
    for name in names:
        _check_version(name, packages[name])
    files: dict[str, bytes] = {}
    for name in (SIM, *names):
        file, content = wheel_of(name)
        files[f"software/{file}"] = content
    missing = []
    for module, recorded_hash in sorted(code.items()):
        if module != "sim" and distribution_of(module) is None:
            module_files = _module_files(module, recorded_hash)
            files |= {f"{MODULES}{path}": content for path, content in module_files.items()}
            if not module_files:
                missing.append(f"the module {module}, which was defined in a program or a notebook")
    files[VERSIONS] = "".join(f"{line}\n" for line in _installed((SIM, *names))).encode()
    return Software(files, tuple(missing))


def _check_version(name: str, recorded: str) -> None:
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        installed = "no version"
    if installed != recorded:
        raise UsageError(
            f"the run was made with {name} {recorded}, and {installed} is installed here",
            hint=f"pip install {name}=={recorded}",
        )


def _module_files(module: str, recorded_hash: str | None) -> dict[str, bytes]:
    """Return the files of a module that no package installed, and of the modules beside it that it imports.

    Raises:
        UsageError: if the module is not what it was when the run was recorded.
    """
    file = _file_of(module)
    if file is None:
        return {}
    if recorded_hash is not None and hashlib.sha256(file.read_bytes()).hexdigest() != recorded_hash:
        raise UsageError(f"the module {module} has changed since the run was recorded: {file}")
    root = file.parents[module.count(".") + (file.name == "__init__.py")]
    paths: dict[Path, None] = {}
    ahead = [file]
    while ahead and len(paths) < MOST_MODULES:
        path = ahead.pop()
        if path not in paths:
            paths[path] = None
            ahead += _imported_beside(path, root)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(paths)}


def _file_of(module: str) -> Path | None:
    if module == "__main__" or not all(part.isidentifier() for part in module.split(".")):
        return None  # the name is on record, and a path in it could lead to any file
    try:
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    if "." not in module:
        return Path(spec.origin)
    inner = Path(spec.origin).parent.joinpath(*module.split(".")[1:])
    return next((path for path in (inner.with_suffix(".py"), inner / "__init__.py") if path.is_file()), None)


def _imported_beside(path: Path, root: Path) -> Iterator[Path]:
    """Yield the files below `root` that a file imports, and the `__init__.py` of the packages that they are in."""
    for name in _imports(path, root):
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            inner = root.joinpath(*parts[:length])
            yield from (file for file in (inner.with_suffix(".py"), inner / "__init__.py") if file.is_file())


def _imports(path: Path, root: Path) -> Iterator[str]:
    package = path.relative_to(root).parent.parts
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):  # whoever imports it can live without it
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [] if not node.level else list(package[: len(package) - node.level + 1])
            stem = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            yield from (f"{stem}.{alias.name}".lstrip(".") for alias in node.names)


def _installed(names: Iterable[str]) -> list[str]:
    """Return the versions of all packages that some packages need, as `name==version`; not of these themselves."""
    own, lines, ahead = {_plain(name) for name in names}, {}, list(names)
    while ahead:
        name = ahead.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # it is needed elsewhere only
            continue
        if _plain(name) in lines:
            continue
        lines[_plain(name)] = f"{distribution.name}=={distribution.version}"
        ahead += [match[0] for line in distribution.requires or () if (match := re.match(r"[A-Za-z0-9._-]+", line))]
    return [line for name, line in sorted(lines.items()) if name not in own]


def _plain(name: str) -> str:
    """Return a name in the form in which all its spellings are the same."""
    return re.sub(r"[-_.]+", "-", name).lower()
