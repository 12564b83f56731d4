"""Public names of a package that are imported at their first use, so that a part of it can be imported alone."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562).

    Args:
        package: its full name.
        homes: for each of its modules, the names that it has, separated by spaces. No name is that of a module of the
            package: once it is imported, the module would be found instead.

    Raises:
        ValueError: if a name is that of a module.
    """
    modules = {name: home for home, names in homes.items() for name in names.split()}
    if both := modules.keys() & {home.partition(".")[0] for home in homes}:
        raise ValueError(f"{package} has {', '.join(sorted(both))} as a name and as a module")

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find
