"""Actions that control the loop of an agent.

An `AgentLoopManager` registers `sleep`, `rest` and `stop` in its world. `spawn` is registered for worlds that are built
from a scenario, and `travel` for those with islands.
"""

from typing import Annotated, Any

from sim.actors.wake import WakeCondition
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kernel.duration import to_ns, to_seconds
from sim.world import Refused, World
from sim.world.action import Means, Time, Values, action


@action("spawn", everywhere=False, draws=False)
def spawn(
    world: World, parent: Any, agent: Annotated[str, Means("entry")], count: int = 1, state: Values = None
) -> dict[str, Any]:
    """Start copies of an entry in `agents`.

    Args:
        agent: the name of the entry.
        count: the number of copies; with 0 there are none, and that is no failure.
        state: state variables that replace those of the entry.
    """
    assert world.spawner is not None, "it is provided together with this action"
    return {"agents": world.spawner(parent.agent_id, agent, count, state)}


@action("travel", last=True, everywhere=False, draws=False)
def travel(world: World, agent: Any, to: str, after: Time) -> dict[str, Any]:
    """Leave for another island, with state and mailbox.

    Args:
        to: the name of the island.
        after: how long the way takes.
    """
    islands: Any = world.services["islands"]
    return {"arrives": to_seconds(islands.depart(agent, to, after))}


@action("stop", permission=Permission.GUEST, last=True, everywhere=False, draws=False)
def stop(world: World, by: Any, agent: Annotated[str | None, Means("recipient")] = None) -> None:
    """Stop this agent, or another one, as a wolf that eats a sheep.

    Args:
        agent: the agent that stops; default: this agent.
    """
    if agent is None or agent == by.agent_id:
        by.shutdown()
        return
    other = world.agents.get(agent)
    if by.permission < Permission.USER:
        raise Refused("a guest can stop only itself")
    if other is None:
        raise Refused(f"there is no agent {agent!r} to stop")
    if not other.alive:
        raise Refused(f"{agent} has stopped already")
    other.shutdown()


@action("sleep", permission=Permission.GUEST, last=True, idle=True, everywhere=False, draws=False)
def sleep(world: World, agent: Any, condition: dict) -> None:  # type: ignore[type-arg]  # arguments need the bare type
    """Sleep until a wake condition is met.

    Args:
        condition: a mapping as for `WakeCondition.parse`; a rule gives its keys directly.
    """
    try:
        parsed = WakeCondition.parse(condition)
    except UsageError as error:
        raise Refused(str(error)) from error
    agent.loop.sleep_now(parsed)


@action("rest", permission=Permission.GUEST, scope="own", last=True, idle=True, everywhere=False, draws=False)
def rest(world: World, agent: Any, until: Time) -> None:
    """Begin no iteration before a given time, whatever happens; other agents can rely on it.

    Args:
        until: the simulated time, counted from the start of the run
    """
    try:
        agent.loop.rest(to_ns(until))
    except UsageError as error:
        raise Refused(f"rest: {error}") from error
