"""The built-in kinds of action.

Each kind is one function with `@action`. The function makes all its checks before it changes the world.
"""

from typing import TYPE_CHECKING

from sim.base.permissions import Permission
from sim.world.action import action
from sim.world.actions import artifacts, messages, money, places, pools, tasks

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World

__all__ = ["artifacts", "messages", "money", "noop", "places", "pools", "tasks"]


@action("noop", permission=Permission.GUEST, scope="own", draws=False)
def noop(world: "World", agent: "Inhabitant") -> None:
    """Do nothing."""
