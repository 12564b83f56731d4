"""The code of a run: its hashes, and the packages that it comes from.

A run is not continued under other code unless the operator allows it.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.distributions import distribution_of, installed_version
from sim.base.source import package_hash
from sim.kernel.codec import JsonObject
from sim.kernel.compiled import core
from sim.record.files import versions

_OWN: Final = tuple(versions())
"""What every run has a version of."""

_MOST: Final = 100  # packages of a record that are looked for


def code_hashes(classes: Iterable[Callable[..., Any]]) -> dict[str, str]:
    """Return hashes (64 hex digits) by module: the package `sim`, its compiled part if used, and the modules outside
    `sim` that define `classes`, and functions that metrics call.
    """
    names = {kind.__module__ for kind in classes}
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names if not name.startswith("sim.")}
    files |= {} if core is None else {core.__name__: core.__file__}
    return {"sim": package_hash(), **{name: _file_hash(file) for name, file in sorted(files.items()) if file}}


def package_versions(classes: Iterable[Callable[..., Any]]) -> dict[str, str]:
    """Return the versions, by name, of the installed packages that define `classes`, without `sim` itself."""
    modules = sorted({kind.__module__ for kind in classes if not kind.__module__.startswith("sim.")})
    names = {_distribution(module, getattr(sys.modules.get(module), "__file__", None)) for module in modules}
    versions = {name: installed_version(name) for name in sorted(name for name in names if name is not None)}
    return {name: version for name, version in versions.items() if version is not None}


@cache
def _distribution(module: str, _file: str | None) -> str | None:
    """Return the name of the distribution of a module, for which all that is installed has to be looked through."""
    distribution = distribution_of(module)
    return None if distribution is None else distribution.name


@attrs.frozen
class OtherPackage:
    """A package that a run on record used, and that is not installed here in the same version.

    Attributes:
        name: its name.
        recorded: the version that the run used.
        installed: the version that is installed; None: it is not installed.
    """

    name: str
    recorded: str
    installed: str | None

    def __str__(self) -> str:
        if self.installed is None:
            return f"{self.name} {self.recorded} is not installed"
        return f"{self.name} {self.recorded} was used, but {self.installed} is installed"

    @property
    def hint(self) -> str | None:
        """The command that installs it; None if name or version are none, because a record can come from anybody."""
        plain = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?(?:[+!][A-Za-z0-9.]{1,40})?")
        fits = plain.fullmatch(self.name) and plain.fullmatch(self.recorded)
        return f"pip install {self.name}=={self.recorded}" if fits else None


def other_packages(versions: JsonObject) -> list[OtherPackage]:
    """Return the packages of a run on record that are not installed here in the same version.

    Args:
        versions: the versions on record.
    """
    others = {str(name): str(version) for name, version in versions.items() if name not in _OWN}
    packages = [OtherPackage(name, version, installed_version(name)) for name, version in islice(others.items(), _MOST)]
    return [one for one in packages if one.installed != one.recorded]


def _file_hash(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
