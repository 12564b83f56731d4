"""The kinds of action that every world has. Each is one function with `@action`; it makes all its checks, and only then
changes the world.
"""

from typing import TYPE_CHECKING

from sim.permissions import Permission
from sim.world.action import action
from sim.world.actions import artifacts, messages, money, places, pools, tools

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World

__all__ = ["artifacts", "messages", "money", "noop", "places", "pools", "tools"]


@action("noop", permission=Permission.GUEST, scope="own")
def noop(world: "World", agent: "Inhabitant") -> None:
    """Do nothing."""
