"""What the operator lets a scenario do: one record from the command line and Python to the world."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypedDict

import attrs

from sim.actors import Agent
from sim.tools.mcp import McpServer

Kinds = Mapping[str, type[Agent]]
"""Classes of agents that a scenario may name as `kind`; the host program gives them."""


class RightsKeywords(TypedDict, total=False):
    """Rights as keyword arguments; see `Rights`."""

    kinds: Kinds | None
    allow: tuple[str, ...]
    allow_commands: bool
    mcp: Sequence[McpServer]


@attrs.frozen(kw_only=True)
class Rights:
    """What the operator lets a scenario do. A file can ask for it and cannot give it, so nothing of this is on record.

    Args:
        kinds: classes that the scenario may name as `kind`.
        allow: installed packages, and modules that a `kind: module:NAME` may be imported from.
        allow_commands: whether tools of the scenario may run commands in a sandbox.
        mcp: the MCP servers whose tools the scenario declares. A replay starts none.
    """

    kinds: Kinds | None = None
    allow: tuple[str, ...] = ()
    allow_commands: bool = False
    mcp: Sequence[McpServer] = ()

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Remove the rights among options and return them."""
        return cls(**{field.name: options.pop(field.name) for field in attrs.fields(cls) if field.name in options})

    @property
    def alone(self) -> "Rights":
        """The rights among the options of a run."""
        return Rights(**{field.name: getattr(self, field.name) for field in attrs.fields(Rights)})

    @property
    def keywords(self) -> RightsKeywords:
        """The rights as keyword arguments."""
        found: RightsKeywords = {}
        found.update({field.name: getattr(self, field.name) for field in attrs.fields(Rights)})  # type: ignore[typeddict-item]  # the same names
        return found


NO_RIGHTS = Rights()
