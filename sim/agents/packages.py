"""What installed packages offer to scenarios: kinds of agents, scenarios and graphs.

A package declares each as an entry point in one of three groups. Finding one imports nothing. Code of a package is
imported only if the operator allows the package by its name; its files are only read.
"""

import re
import sys
from collections.abc import Collection, Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from sim.base.distributions import distribution_of
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.text import of_error

Group = Literal["sim.agents", "sim.scenarios", "sim.graphs"]
"""The groups of entry points: kinds of agents, scenario files, and graphs of places."""

AGENTS: Final = "sim.agents"
SCENARIOS: Final = "sim.scenarios"
GRAPHS: Final = "sim.graphs"

_CALLED: Final[dict[Group, str]] = {AGENTS: "kind of agents", SCENARIOS: "scenario", GRAPHS: "graph"}
_OFFERED: Final = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?):([A-Za-z0-9_][A-Za-z0-9_.-]*)")


@attrs.frozen
class Offer:
    """Something that an installed package offers.

    Attributes:
        group: what it is.
        package: the name of the package, as `pip install` takes it.
        version: its installed version.
        name: its name within the package.
        target: what the entry point leads to, as in `walkers:Walker` or `walkers:walk.yaml`.
    """

    group: Group
    package: str
    version: str
    name: str
    target: str

    @property
    def full_name(self) -> str:
        """The name with that of its package, as in `walkers:walk`."""
        return f"{self.package}:{self.name}"

    def file(self) -> Path:
        """Return the file that it is; the package is not imported.

        Raises:
            UsageError: if the entry point leads to no file of the package.
        """
        folder, _, name = self.target.partition(":")
        top, *parts = folder.split(".")
        try:
            spec = find_spec(top)
        except (ImportError, ValueError):
            spec = None
        for place in (spec and spec.submodule_search_locations) or ():
            file = Path(place, *parts, name)
            if name and file.is_file() and file.resolve().is_relative_to(Path(place).resolve()):
                return file
        raise UsageError(
            f"{self.full_name} leads to {self.target!r}, and there is no such file in the package",
            hint=f"an entry point in {self.group} is written as {top}:FILE, and the file must be part of the package",
        )

    def load(self, allow: Collection[str]) -> Any:
        """Import and return it.

        Args:
            allow: the names that the operator allows.

        Raises:
            UsageError: if the package is not allowed, or cannot be imported.
        """
        if not is_allowed(self.package, allow):
            raise UsageError(
                f"the {_CALLED[self.group]} {self.name!r} belongs to the package {self.package}, which is not allowed",
                hint=f"allow it: --allow {self.package}",
            )
        if EntryPoint.pattern.match(self.target) is None:
            raise UsageError(f"{self.full_name} leads to {self.target!r:.80}, which is not written as module:NAME")
        try:
            return EntryPoint(self.name, self.target, self.group).load()
        except (Exception, SystemExit) as error:  # the imported code may raise anything
            raise UsageError(
                f"the {_CALLED[self.group]} {self.name!r} of the package {self.package} cannot be imported:"
                f" {of_error(error)}"
            ) from error


def offers(group: Group) -> tuple[Offer, ...]:
    """Return what the installed packages offer in a group, by package and name."""
    return _offers(group, tuple((place, _changed(place)) for place in sys.path))


@lru_cache(maxsize=16)
def _offers(group: Group, places: tuple[tuple[str, int], ...]) -> tuple[Offer, ...]:
    """Return the offers in the places from which modules are imported, which are searched again after a change."""
    offered = [
        Offer(group, point.dist.name, point.dist.version, point.name, point.value)
        for point in entry_points(group=group)
        if point.dist is not None
    ]
    return tuple(sorted(offered, key=lambda offer: (_normal(offer.package), offer.name)))


def _changed(place: str) -> int:
    """Return when a folder was changed last; 0 if it is none."""
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0


def is_offered_name(text: str) -> bool:
    """Return whether a text has the form PACKAGE:NAME."""
    return _OFFERED.fullmatch(text) is not None


def find_offer(group: Group, full_name: str) -> Offer:
    """Return what a name such as `walkers:walk` means.

    Raises:
        UsageError: if no installed package offers it; the hint has the nearest name, or how to install the package.
    """
    package, _, name = full_name.partition(":")
    called, offered = _CALLED[group], offers(group)
    own = {offer.name: offer for offer in offered if _normal(offer.package) == _normal(package)}
    if name in own:
        return own[name]
    if own:
        hint = did_you_mean(name, own) or f"it has: {', '.join(own)}"
        raise UsageError(f"the package {package[:80]} has no {called} {name[:80]!r}", hint=hint)
    hint = did_you_mean(package, {offer.package for offer in offered}) or "`sim info packages` lists what is installed"
    raise UsageError(f"no installed package {package[:80]!r} offers a {called}", hint=hint)


def is_allowed(package: str, allow: Iterable[str]) -> bool:
    """Return whether the operator allows a package by its name."""
    return _normal(package) in map(_normal, allow)


def is_module_allowed(module: str, allow: Collection[str]) -> bool:
    """Return whether the operator allows a module by its own name, or by the name of the package that it is part of."""
    if module in allow:
        return True
    distribution = distribution_of(module) if allow else None
    return distribution is not None and is_allowed(distribution.name, allow)


def _normal(package: str) -> str:
    """Return a name of a package in the form in which two that mean the same are equal (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()
