"""Tools: functions of the host program that agents call with the action `use_tool`."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from sim.kernel import Duration, Effect, to_ns
from sim.kernel.effects import Safety
from sim.world.action import Refused, near

if TYPE_CHECKING:
    from sim.world.world import World

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


def find_tool(world: "World", name: str) -> Tool | ToolFunction:
    """Return a tool of a world, or raise `Refused` with the nearest name."""
    found = world.tools.get(name)
    if found is None:
        raise Refused(f"there is no tool {name!r}{near(name, world.tools)}")
    return found


def is_async(function: ToolFunction) -> bool:
    """Whether calling a tool gives something to await."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object that is called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
