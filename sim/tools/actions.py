"""The action that calls a tool."""

from typing import Any

from sim.base.permissions import Permission
from sim.tools.registry import CheckedCall, Tools
from sim.world import Inhabitant, Refused, World
from sim.world.action import Values, action


async def _prepare(
    world: World, agent: Inhabitant, tool: str, args: Any = None, on_behalf_of: Any = None
) -> CheckedCall:
    return await Tools.of(world).prepare(agent, tool, args, _names(on_behalf_of))


def _names(behalf: Any) -> tuple[str, ...]:
    names = (behalf,) if isinstance(behalf, str) else () if behalf is None else behalf
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Refused(f"on_behalf_of is a name or a list of names, not {behalf!r:.60}")
    return tuple(names)


@action("use_tool", permission=Permission.GUEST, wait=_prepare, ends=True, everywhere=False, draws=False)
def use_tool(
    world: World,
    agent: Inhabitant,
    ready: CheckedCall,
    tool: str,
    args: Values = None,
    on_behalf_of: Any = None,
) -> Any:
    """Call a tool.

    Args:
        tool: the name of the tool.
        args: the arguments of the tool.
        on_behalf_of: the agent or user for whom the tool is called, or a list; the call needs their permission too.
    """
    return Tools.of(world).run(ready)
