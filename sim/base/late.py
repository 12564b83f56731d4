"""Public names of a package that are imported at their first use, so that a part of it can be imported alone."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: its full name.
        homes: for each of its modules, the names that it has, separated by spaces. No name is that of a module of the
            package: once it is imported, the module would be found instead. A test compares all packages.
    """
    modules = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *modules})
