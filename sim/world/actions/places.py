"""The actions that move an agent in space or between places, and that take what grows at a place."""

import copy
import math
from typing import TYPE_CHECKING, Annotated, Any

from sim.base.errors import UsageError
from sim.kernel.waits import NOTHING, sleep_ns
from sim.world.action import Means, PlaceName, Refused, action
from sim.world.events import PlaceEntered

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World


@action("walk", scope="space", draws=False)
def walk(world: "World", agent: "Inhabitant", to: Any = None, doing: str = "", met: Any = None) -> None:
    """Move to a position in space and show an activity, from the next step on.

    Args:
        to: [x, y], or the name of a place; default: stay
        doing: the activity that others see.
        met: data for the record only
    """
    space = world.space
    if space is None:
        raise Refused("there is no space to walk in")
    try:
        space.show(agent.agent_id, space.where(agent.agent_id) if to is None else to, doing)
    except UsageError as error:
        raise Refused(str(error)) from error


def _way(world: "World", agent: "Inhabitant", to: Any) -> tuple[str, int]:
    """Return where an agent is, and the time of the shortest path from there, in nanoseconds.

    Raises:
        Refused: if there is no such path.
    """
    if world.places is None:
        raise Refused("this world has no places")
    place = world.places.named(to)
    start = world.places.where(agent.agent_id)
    time = None if place is None else 0 if start is None else world.places.travel_ns(start, place)
    if time is None or place is None:
        raise Refused(f"no way leads from {start!r} to {to!r}")
    return start or "", time


def _arrives_at_once(world: "World", agent: "Inhabitant", to: Any) -> Any:
    """Return what `_travel` returns without waiting, or NOTHING."""
    if world.places is None or not world.places.instant:
        return NOTHING  # so that no path is searched twice
    start, time = _way(world, agent, to)
    return NOTHING if time else start


async def _travel(world: "World", agent: "Inhabitant", to: Any) -> str:
    start, time = _way(world, agent, to)
    if time:
        await sleep_ns(time)
    return start


@action("move", wait=_travel, ready=_arrives_at_once, ends=True, draws=False)
def move(world: "World", agent: "Inhabitant", start: str, to: PlaceName) -> dict[str, str]:
    """Travel to another place; this takes the travel time of the shortest path.

    Args:
        to: the name of the place.
    """
    assert world.places is not None, "travelling comes first and needs places"
    to = world.places.named(to) or ""
    world.places.place(agent.agent_id, to)
    world.event_bus.report(PlaceEntered(agent=agent.agent_id, start=start, to=to))
    return {"from": start, "to": to}


@action("change_place", draws=False)
def change_place(world: "World", agent: "Inhabitant", values: dict, place: PlaceName = None) -> None:  # type: ignore[type-arg]  # arguments need the bare type
    """Set variables of the place where the agent stands, or of another one.

    Args:
        values: the new values by variable.
        place: the place; default: that of the agent
    """
    variables, places = world.variables, world.places
    if variables is None or places is None:
        raise Refused("the places of this world have no variables")
    here = places.where(agent.agent_id) if place is None else places.named(place)
    if here is None:
        raise Refused("the agent is at no place" if place is None else f"there is no place {place!r:.80}")
    for name in values:
        if name not in variables:
            raise Refused(f"places have no variable {name!r:.80}: there are {', '.join(variables.names)}")
    variables.set(here, copy.deepcopy(values))


@action("gather", draws=False)
def gather(world: "World", agent: "Inhabitant", amount: Annotated[Any, Means("number")] = None) -> dict[str, float]:
    """Take the stock of the place where the agent stands, which grows back.

    Args:
        amount: the most that is taken, in units; default: all that is there
    """
    here = None if world.places is None else world.places.where(agent.agent_id)
    if world.stocks is None or here is None:
        raise Refused("there is nothing to gather: " + ("the agent is at no place" if world.stocks else "no stocks"))
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if amount is not None and not (number and 0 < amount < math.inf):
        raise Refused(f"gather: amount must be a number above 0, not {amount!r:.80}")
    return {"amount": world.stocks.take(here, amount)}
