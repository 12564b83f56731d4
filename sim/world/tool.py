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
    """A tool that works outside the simulation: each call is an effect, which is recorded and can be replayed.

    An `async def` function in `World.tools` is treated as a `Tool` with the default values below. A plain function
    there is called inside the simulation, so its result must depend on its arguments only.

    Args:
        call: called with the arguments, outside the simulation; returns JSON-like data. It should be async, because a
            plain function blocks everything else while it runs.
        latency: the simulated duration of a call; None: the measured real duration.
        safety: whether a call can be repeated after a crash: `pure`, `idempotent`, or `unsafe` (a person decides).
        timeout: real seconds after which a call fails.
        deadline: simulated time after which a call fails.
    """

    call: ToolFunction
    latency: Duration | None = None
    safety: Safety = "unsafe"
    timeout: float = 120.0
    deadline: Duration = "1h"

    def effect(self, name: str, arguments: Mapping[str, Any]) -> Effect:
        """Return the effect for a call with these arguments.

        Raises:
            UsageError: if a duration or the safety of this tool is invalid.
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
    """Return a tool of a world.

    Raises:
        Refused: if it does not exist; the message suggests the nearest name.
    """
    found = world.tools.get(name)
    if found is None:
        raise Refused(f"there is no tool {name!r}{near(name, world.tools)}")
    return found


def is_async(function: ToolFunction) -> bool:
    """Return whether a call of the tool returns a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - the tool can be an object with an async `__call__`
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
