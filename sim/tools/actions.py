"""The action that calls a tool."""

from typing import Any

from sim.permissions import Permission
from sim.tools.registry import Ready, Tools
from sim.world import Inhabitant, World
from sim.world.action import Values, action


async def _prepare(
    world: World, agent: Inhabitant, tool: str, args: Any = None, on_behalf_of: str | None = None
) -> Ready:
    behalf = () if on_behalf_of is None else (on_behalf_of,)
    return await Tools.of(world).prepare(agent, tool, args, behalf)


@action("use_tool", permission=Permission.GUEST, wait=_prepare, ends=True, everywhere=False)
def use_tool(
    world: World,
    agent: Inhabitant,
    ready: Ready,
    tool: str,
    args: Values = None,
    on_behalf_of: str | None = None,
) -> Any:
    """Call a tool.

    Args:
        tool: the name of the tool.
        args: the arguments of the tool.
        on_behalf_of: an agent or user for whom the tool is called; the call needs that one's permission too.
    """
    return Tools.of(world).run(ready)
