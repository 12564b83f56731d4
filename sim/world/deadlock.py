"""Names the agents that are blocked for ever, from what each of them waits for."""

from collections.abc import Iterable

from sim.world.dispatcher import PendingAction
from sim.world.world import World

_NAMED = 5
_AIMS = ("pool", "to")
"""Arguments of an action that name what it waits for."""


def deadlock(world: World) -> str | None:
    """Return which agents are blocked, in one sentence, when nothing is left to happen in a world.

    None: all agents that wait are waiting for work, which somebody outside could still give them.
    """
    blocked = list(world.pending.items())
    if all(pending.handler.awaits_work for _, pending in blocked):
        return None
    return _sentence(blocked)


def mutual_block(world: World) -> str | None:
    """Return which agents wait for room in each other's mailboxes, in one sentence, while others may still be active.

    None of them takes a message, because each waits for the next one in the circle.
    """
    waits = {agent: to for agent, pending in world.pending.items() if (to := _recipient(world, pending)) is not None}
    circle: dict[str, None] = {}
    for agent in waits:
        path: dict[str, None] = {}
        at = agent
        while at in waits and at not in path:
            path[at] = None
            at = waits[at]
        if at == agent:
            circle[agent] = None
    return _sentence([(agent, world.pending[agent]) for agent in circle]) if circle else None


def _recipient(world: World, pending: PendingAction) -> str | None:
    """Return the agent in whose mailbox an action waits for room."""
    to = pending.action.arguments.get("to") if pending.action.kind == "send" else None
    return to if isinstance(to, str) and to in world.agents else None


def _sentence(blocked: Iterable[tuple[str, PendingAction]]) -> str:
    agents = list(blocked)
    named = ", ".join(f"{agent} on {_aim(pending)}" for agent, pending in agents[:_NAMED])
    more = f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else ""
    count = "1 agent is" if len(agents) == 1 else f"{len(agents)} agents are"
    return f"deadlock: {count} blocked: {named}{more}"


def _aim(pending: PendingAction) -> str:
    action = pending.action
    aims = [action.arguments[name] for name in _AIMS if name in action.arguments]
    return f"{action.kind} `{aims[0]}`" if aims else str(action.kind)
