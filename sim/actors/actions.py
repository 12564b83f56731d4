"""Actions that concern the loop of an agent. A world has them once an `AgentLoopManager` is there."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from sim.actors.wake import WakeCondition
from sim.errors import UsageError
from sim.kernel.duration import to_ns
from sim.permissions import Permission
from sim.world import Refused, World
from sim.world.action import Means, Time, Values, action

Spawner = Callable[[str, str, int, Mapping[str, Any] | None], list[str]]
"""Starts copies: called with who spawns, the entry, how many, and state; returns their names."""


@action("spawn", everywhere=False)
def spawn(
    world: World, parent: Any, agent: Annotated[str, Means("entry")], count: int = 1, state: Values = None
) -> dict[str, Any]:
    """Start copies of an entry in `agents`.

    Args:
        agent: the name of the entry.
        count: how many copies.
        state: state variables that differ from those of the entry.
    """
    spawner: Any = world.services["spawn"]  # there since this action is
    return {"agents": spawner(parent.agent_id, agent, count, state)}


@action("stop", permission=Permission.GUEST, last=True, everywhere=False)
def stop(world: World, agent: Any) -> None:
    """Stop this agent."""
    agent.shutdown()


@action("sleep", permission=Permission.GUEST, last=True, idle=True, everywhere=False)
def sleep(world: World, agent: Any, condition: dict) -> None:  # type: ignore[type-arg]  # the schema wants the bare type
    """Sleep until something happens.

    Args:
        condition: what `WakeCondition.parse` takes; a rule gives it without this name.
    """
    try:
        parsed = WakeCondition.parse(condition)
    except UsageError as error:
        raise Refused(str(error)) from error
    agent.loop.sleep(parsed)


@action("rest", permission=Permission.GUEST, scope="own", last=True, idle=True, everywhere=False)
def rest(world: World, agent: Any, until: Time) -> None:
    """Do nothing before a moment, whatever happens; others can rely on it.

    Args:
        until: counted from the start of the run
    """
    try:
        agent.loop.rest(to_ns(until))
    except UsageError as error:
        raise Refused(f"rest: {error}") from error
