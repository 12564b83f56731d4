"""Tools: functions of the host program that agents call with the action `use_tool`."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from sim.errors import Cancelled, RunError
from sim.kernel import Duration, Effect, Outcome, perform, to_ns
from sim.kernel.codec import decode, encode
from sim.kernel.effects import Safety
from sim.text import of_error
from sim.world.action import Refused, near

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World

ToolFunction = Callable[[Mapping[str, Any]], Any]


@attrs.frozen
class Tool:
    """A tool that does its work outside the simulation: each call is an effect, which is recorded and can be replayed.

    An `async def` function in `World.tools` is one with the values below; a plain function there is called inside
    the simulation, so it must depend on its arguments only.

    Args:
        call: called with the arguments, outside the simulation; returns JSON-like data. Best async: while a plain
            function works, nothing else does.
        latency: the simulated time that a call takes; None: simulated time follows real time meanwhile.
        safety: whether a call may be repeated after a crash: `pure`, `idempotent`, or `unsafe`: not without asking.
        timeout: real seconds after which a call has failed.
        deadline: simulated time after which a call has failed.
    """

    call: ToolFunction
    latency: Duration | None = None
    safety: Safety = "unsafe"
    timeout: float = 120.0
    deadline: Duration = "1h"

    def effect(self, name: str, arguments: Mapping[str, Any]) -> Effect:
        """Return the effect that a call with these arguments is.

        Raises:
            UsageError: if a time of this tool is no time, or its safety none.
        """
        return Effect(
            f"tool.{name}",
            arguments,
            lambda request, key: self.call(request),
            latency_ns=None if self.latency is None else to_ns(self.latency),
            deadline_ns=to_ns(self.deadline),
            timeout=self.timeout,
            safety=self.safety,
        )


async def wait_for_tool(world: "World", agent: "Inhabitant", tool: str, args: Any = None) -> Outcome | None:
    """Have a tool outside the simulation do its work; None for one that is a plain function."""
    found = _find(world, tool)
    if not isinstance(found, Tool):
        if not _is_async(found):
            return None
        found = Tool(found)
    outcome = await perform(found.effect(tool, args or {}))
    if outcome.kind == "error":
        raise Refused(f"the tool {tool!r} failed: {outcome.value['type']}: {outcome.value['message']}")
    if outcome.kind != "ok":
        raise Refused(f"the tool {tool!r} has not answered in time")
    return outcome


def use_tool(world: "World", agent: "Inhabitant", outcome: Outcome | None, tool: str, args: Any = None) -> Any:
    """Return what a tool returned, or call it now if it is a plain function."""
    if outcome is not None:
        return outcome.value
    function = _find(world, tool)
    assert not isinstance(function, Tool), "a tool outside has been waited for"
    try:
        value = function(decode(encode(args or {})))  # a copy: what a tool does to it stays there
    except (KeyboardInterrupt, MemoryError, RunError, Cancelled):
        raise  # they concern the process, the run or the agent
    except BaseException as error:
        raise Refused(f"the tool {tool!r} failed: {of_error(error)}") from error
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise Refused(f"the tool {tool!r} returned an awaitable: define it with `async def`, or as sim.Tool(function)")
    return value


def _find(world: "World", name: str) -> Tool | ToolFunction:
    found = world.tools.get(name)
    if found is None:
        raise Refused(f"there is no tool {name!r}{near(name, world.tools)}")
    return found


def _is_async(function: ToolFunction) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - an object that is called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
