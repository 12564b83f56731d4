"""What packages define under a name: kinds of agents, sections, actions, views.

A name of `sim` itself is known from the beginning (`sim.base.words`), and the module that defines it is imported when
the name is looked up. So what a file may say never depends on what happens to be imported, and a run imports what it
uses.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


class Registry(MutableMapping[str, T]):
    """Definitions by name, in the order in which the names were announced or defined.

    Iterating over the names imports nothing; values do, those of all names.

    Args:
        announced: for each name that `sim` defines, the module that does.
    """

    def __init__(self, announced: Mapping[str, str]) -> None:
        self._made: dict[str, T | None] = dict.fromkeys(announced)  # None: announced only
        self._modules = dict(announced)

    def __getitem__(self, name: str) -> T:
        if name in self._modules:
            import_module(self._modules[name])
        value = self._made.get(name)
        if value is None:
            raise KeyError(name)
        self._modules.pop(name, None)
        return value

    def __setitem__(self, name: str, value: T) -> None:
        self._made[name] = value

    def __delitem__(self, name: str) -> None:
        del self._made[name]
        self._modules.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def import_beside(self, module: str) -> None:
        """Import what is announced for the package of a module: a class of the module may be part of it."""
        for name, home in list(self._modules.items()):
            if _beside(home, module):
                self.get(name)

    def imported(self) -> dict[str, T]:
        """Return the definitions whose modules have been imported, by name."""
        return {name: value for name, value in self._made.items() if value is not None}

    def is_free(self, name: str, module: str) -> bool:
        """Return whether code in a module may define a name: it is new, or announced for a module of that package."""
        if self._made.get(name) is not None:
            return False
        home = self._modules.get(name)
        return home is None or _beside(home, module)


def _beside(home: str, module: str) -> bool:
    """Return whether a module is the home of a name, or in the package whose definitions or section the home has."""
    package, _, last = home.rpartition(".")
    return module == home or (last in ("definitions", "section") and module.startswith(f"{package}."))
