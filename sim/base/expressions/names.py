"""The names that an expression reads, and the functions that it calls: what it is evaluated with."""

from collections.abc import Callable, Mapping
from typing import Any

Names = Mapping[str, Any]
"""Values by name. An author can give each a value of any type, so no part of it has one."""

Bindings = dict[str, Any]
"""Names to which values are bound while expressions are evaluated."""

Functions = Mapping[str, Callable[..., object]]
"""Functions by name."""
