"""What the operator lets a scenario do: one record from the command line and Python to the world."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from sim.base.shown import Keywords, shown

if TYPE_CHECKING:
    from sim.actors import Agent
    from sim.base.registry import Definitions
    from sim.tools.mcp import McpServer

Kinds = Mapping[str, "type[Agent]"]
"""Classes of agents that a scenario may name as `kind`; the host program gives them."""


@attrs.frozen(kw_only=True)
class Rights:
    """What the operator lets a scenario do. A file can ask for it and cannot give it, so nothing of this is on record.

    Args:
        kinds: classes that the scenario may name as `kind`.
        definitions: what the scenario may name beside the words of `sim`; None: what is defined in this process.
        allow: installed packages, and modules that a `kind: module:NAME` may be imported from.
        allow_commands: whether tools of the scenario may run commands in a sandbox.
        mcp: the MCP servers whose tools the scenario declares. A replay starts none.
    """

    kinds: Kinds | None = None
    definitions: "Definitions | None" = None
    allow: tuple[str, ...] = attrs.field(
        default=(),
        metadata=shown(
            "Allow the code of an installed package, or a module for `kind: module:NAME`.", metavar="NAME", many=True
        ),
    )
    allow_commands: bool = attrs.field(
        default=False, metadata=shown("Allow tools of the scenario to run commands in a sandbox.", flag=True)
    )
    mcp: "Sequence[McpServer]" = attrs.field(
        default=(),
        metadata=shown(
            "An MCP server: a program with its arguments, which starts in an empty folder, or an HTTP address on this "
            "machine.",
            metavar="NAME=COMMAND",
            many=True,
        ),
    )

    @property
    def reach_outside(self) -> bool:
        """Whether a run can have an effect outside of it, so that it is not repeated without need."""
        return self.allow_commands or bool(self.mcp)

    @property
    def keywords(self) -> Keywords:
        """The rights by name, also those among the options of a run."""
        return part_of(self, Rights)


def part_of(options: Any, kind: type[Any]) -> Keywords:
    """Return the options that records of a kind have, by name."""
    return {field.name: getattr(options, field.name) for field in attrs.fields(kind)}


NO_RIGHTS = Rights()
