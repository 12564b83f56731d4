"""Which installed distribution, the thing that pip installs, a module comes from. Nothing is imported to find out."""

import json
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import attrs


@attrs.frozen
class InstalledDistribution:
    """An installed distribution.

    Args:
        name: the name that `pip install` takes.
        version: its version.
    """

    name: str
    version: str

    def __str__(self) -> str:
        """Return name and version, as in `walkers 1.2.0`."""
        return f"{self.name} {self.version}"


def distribution_of(module: str) -> InstalledDistribution | None:
    """Return the distribution that a module was installed with; None if it is a module that no package installed.

    A distribution counts only if the file of the module is one of its files, or, if it is installed in editable mode,
    stands in the folder that it was installed from. So a module that hides an installed one of the same name is not
    taken for it.

    Args:
        module: the dotted name of a module, which need not be imported yet.
    """
    file, top = _file_of(module), module.partition(".")[0]
    if file is None or top == "__main__" or top in sys.stdlib_module_names:
        return None
    installed = list(metadata.distributions())
    for owns in (_has_file, _is_editable_source):
        for distribution in installed:
            if owns(distribution, file, top):
                return InstalledDistribution(distribution.name, distribution.version)
    return None


def installed_version(name: str) -> str | None:
    """Return the installed version of a distribution; None if there is none of this name."""
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, ValueError):
        return None


def _file_of(module: str) -> Path | None:
    """Return the file of a module. If it is not imported yet, it is searched for, but nothing is imported."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        top, *parts = module.split(".")
        try:
            spec = find_spec(top)
            for part in parts:  # find_spec would import the packages that the module belongs to
                folders = None if spec is None else spec.submodule_search_locations
                spec = None if folders is None else PathFinder.find_spec(part, folders)
        except (ImportError, ValueError):
            return None
        file = spec.origin if spec is not None and spec.has_location else None
    return None if file is None else Path(file).resolve()


def _has_file(distribution: metadata.Distribution, file: Path, top: str) -> bool:
    """Return whether a file is one of those that were copied when a distribution was installed."""
    record = distribution.read_text("RECORD")
    folder = Path(str(distribution.locate_file(""))).resolve()
    if not file.is_relative_to(folder):
        return False
    if record is None:  # the metadata that a build leaves beside the source
        return top in (distribution.read_text("top_level.txt") or "").split()
    return f"\n{file.relative_to(folder).as_posix()}," in f"\n{record}"


def _is_editable_source(distribution: metadata.Distribution, file: Path, top: str) -> bool:
    """Return whether a file stands in the source of a distribution that is installed in editable mode."""
    folder = _editable_folder(distribution)
    if folder is None or not file.is_relative_to(folder):
        return False
    names = distribution.read_text("top_level.txt")
    if names is not None:
        return top in names.split()
    return any(file.is_relative_to(path / top) or file == path / f"{top}.py" for path in _added_paths(distribution))


def _editable_folder(distribution: metadata.Distribution) -> Path | None:
    """Return the folder from which a distribution was installed in editable mode; None if it was not."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        if origin["dir_info"]["editable"] is True:
            from urllib.request import url2pathname  # it imports what a connection needs

            return Path(url2pathname(urlsplit(origin["url"]).path)).resolve()
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _added_paths(distribution: metadata.Distribution) -> Iterator[Path]:
    """Yield the folders that an editable installation adds to the places from which modules are imported."""
    for name in distribution.files or ():
        if name.suffix == ".pth":
            for line in name.read_text(encoding="utf-8").splitlines():
                if line and not line.startswith(("#", "import ", "import\t")):
                    yield (Path(str(name.locate())).parent / line).resolve()
