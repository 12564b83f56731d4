"""The action that calls a tool of the host program."""

import inspect
from typing import TYPE_CHECKING, Any

from sim.errors import Cancelled, RunError
from sim.kernel import Outcome, perform
from sim.kernel.codec import decode, encode
from sim.text import of_error
from sim.world.action import Refused, Values, action
from sim.world.tool import Tool, find_tool, is_async

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World


async def _wait_for_tool(world: "World", agent: "Inhabitant", tool: str, args: Any = None) -> Outcome | None:
    """Call an asynchronous tool as an effect and return its outcome; None if the tool is a plain function."""
    found = find_tool(world, tool)
    if not isinstance(found, Tool):
        if not is_async(found):
            return None
        found = Tool(found)
    outcome = await perform(found.effect(tool, args or {}))
    if outcome.kind == "error":
        raise Refused(f"the tool {tool!r} failed: {outcome.value['type']}: {outcome.value['message']}")
    if outcome.kind != "ok":
        raise Refused(f"the tool {tool!r} has not answered in time")
    return outcome


@action("use_tool", wait=_wait_for_tool, ends=True)
def use_tool(world: "World", agent: "Inhabitant", outcome: Outcome | None, tool: str, args: Values = None) -> Any:
    """Call a tool of the host program.

    Args:
        tool: the name of the tool.
        args: the arguments of the tool.
    """
    if outcome is not None:
        return outcome.value
    function = find_tool(world, tool)
    assert not isinstance(function, Tool), "a tool outside has been waited for"
    try:
        value = function(decode(encode(args or {})))  # a copy, so that the tool cannot change the original
    except (KeyboardInterrupt, MemoryError, RunError, Cancelled):
        raise  # these concern the process, the run or the agent, not the tool
    except BaseException as error:
        raise Refused(f"the tool {tool!r} failed: {of_error(error)}") from error
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise Refused(f"the tool {tool!r} returned an awaitable: define it with `async def`, or as sim.Tool(function)")
    return value
