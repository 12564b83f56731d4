"""The functions that the rules of policy agents can call.

A world has one toolbox. An evaluation never waits, so the functions act for the agent that called `used_by` last.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from sim.agents.conversation.records import VISIBLE
from sim.agents.conversation.service import Conversations
from sim.expressions import PURE_FUNCTIONS, ExpressionError, did_you_mean
from sim.kernel.rng import Draws
from sim.resources import MICRO
from sim.world import World
from sim.world.calendar import calendar_functions

DRAWS: Final = frozenset({"chance", "uniform", "exponential", "gauss", "randint", "choice"})
"""Functions that draw random numbers; see `PolicyAgent.rng`."""

DRAWING: Final = DRAWS | {"richest"}
"""Functions that draw, or may draw: `richest` decides between places by chance."""


class User(Protocol):
    """The part of an agent that the toolbox uses."""

    agent_id: str

    @property
    def rng(self) -> Draws:
        """The random draws of the agent."""


class Toolbox:
    """Functions for rules, over a world and the agent whose rules are evaluated."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._user: User | None = None
        names = (
            *sorted(DRAWS), "neighbours", "nearby", "adjacent", "attribute", "free_places", "richest", "stock",
            "state_of", "agents", "remaining", "usage", "budget", "exists", "content", "level", "queue", "in_sight",
            "position", "holds", "conversation", "open_conversations", "my_tasks", "task",
        )  # fmt: skip
        own: dict[str, Callable[..., object]] = {name: getattr(self, name) for name in names}
        own |= calendar_functions(world)
        self._functions: Mapping[str, Callable[..., object]] = {**PURE_FUNCTIONS, **own}

    def used_by(self, user: User) -> Mapping[str, Callable[..., object]]:
        """Return the functions by name; they act for `user` until the next call of `used_by`."""
        self._user = user
        return self._functions

    @property
    def _rng(self) -> Draws:
        assert self._user is not None, "functions are handed out by used_by"
        return self._user.rng

    @property
    def _id(self) -> str:
        assert self._user is not None, "functions are handed out by used_by"
        return self._user.agent_id

    # -- random draws, from the draws of the user

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._rng.chance(probability)

    def uniform(self, low: float, high: float) -> float:
        """Return a uniformly distributed number between `low` and `high`."""
        return self._rng.uniform(low, high)

    def exponential(self, mean: float) -> float:
        """Return an exponentially distributed number with this mean."""
        if mean <= 0:
            raise ExpressionError(f"the mean of exponential must be above 0, not {mean:g}")
        return self._rng.exponential(mean)

    def gauss(self, mean: float, deviation: float) -> float:
        """Return a normally distributed number with mean `mean` and standard deviation `deviation`."""
        return self._rng.gauss(mean, deviation)

    def randint(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return self._rng.randint(low, high)

    def choice(self, items: Any) -> Any:
        """Return a random element of `items`, or None if there is none."""
        return self._rng.choice(items) if len(items) else None

    # -- the state of the world

    def neighbours(self) -> list[str]:
        """Return the other agents at the same place or one edge away."""
        return self._world.places.neighbours(self._id) if self._world.places else []

    def nearby(self) -> list[str]:
        """Return the other agents at the same place."""
        places = self._world.places
        here = places.where(self._id) if places else None
        return [id for id in places.at(here) if id != self._id] if places and here is not None else []

    def adjacent(self) -> list[str]:
        """Return the places one edge away."""
        places = self._world.places
        here = places.where(self._id) if places else None
        return places.adjacent(here) if places and here is not None else []

    def attribute(self, name: str, place: str | None = None) -> Any:
        """Return an attribute of a place, as its graph file gives it; by default of the agent's own place.

        None if the place has no such attribute.
        """
        places = self._world.places
        where = place if place is not None or places is None else places.where(self._id)
        return places.about(where).get(name) if places is not None and where is not None else None

    def free_places(self) -> list[str]:
        """Return the places where no agent stands."""
        return self._world.places.free() if self._world.places else []

    def stock(self, place: str) -> float:
        """Return how much there is to gather at a place."""
        return 0.0 if self._world.stocks is None else self._world.stocks.level(place)

    def richest(self, distance: Any) -> str | None:
        """Return the place where there is most to gather: the agent's own, or a free one in its row or column.

        Of several, the nearest is returned, and of equally near ones a random one. None for an agent without a place.

        Args:
            distance: how far the agent sees, in places.
        """
        if isinstance(distance, bool) or not isinstance(distance, int) or distance < 0:
            raise ExpressionError(f"the distance of richest is a whole number from 0, not {distance!r:.80}")
        places, stocks = self._world.places, self._world.stocks
        here = places.where(self._id) if places else None
        if places is None or stocks is None or here is None:
            return None
        most, found = stocks.level(here), [here]
        for ring in places.straight(here, distance):
            levels = [(stocks.level(place), place) for place in ring if places.is_free(place)]
            best = max((level for level, _ in levels), default=most)
            if best > most:
                most, found = best, [place for level, place in levels if level == best]
        return found[0] if len(found) == 1 else self._rng.choice(found)

    def state_of(self, agent: str, key: str) -> Any:
        """Return the present value of a state variable of another agent; None if the agent does not exist."""
        known = self._world.agents.get(agent)
        if known is None:
            return None
        if key not in known.state:
            raise ExpressionError(f"{agent} has no state variable {key!r}", hint=did_you_mean(str(key), known.state))
        value = known.state[key]
        return copy.deepcopy(value) if isinstance(value, dict | list) else value

    def in_sight(self) -> list[dict[str, Any]]:
        """Return what the agent sees in space: for each visible agent, `agent`, `position` and `doing`."""
        space = self._world.space
        seen = space.near(self._id) if space is not None and self._id in space.histories else ()
        return [{"agent": one.agent, "position": _plain(one.position), "doing": one.doing} for one in seen]

    def position(self) -> Any:
        """Return the position of the agent in space; None if it is not in space."""
        space = self._world.space
        return _plain(space.where(self._id)) if space is not None and self._id in space.histories else None

    def agents(self, group: str) -> list[str]:
        """Return the live agents of a group."""
        return self._world.group(group)

    def remaining(self, resource: str) -> float:
        """Return what the agent has left of a rate limit, budget or quota."""
        return self._world.remaining(self._id, resource)

    def usage(self, resource: str) -> float:
        """Return how many units of a rate limit the agent has used within its window."""
        return self._world.rate_tracker.get_usage(self._id, resource)

    def budget(self, name: str) -> float:
        """Return what the agent has left of a budget, in units."""
        return self._world.budgets.remaining(self._id, name) / MICRO

    def exists(self, artifact: str) -> bool:
        """Return whether an artifact exists."""
        return self._world.artifacts.get(artifact) is not None

    def content(self, artifact: str) -> Any:
        """Return the content of an artifact; None if it does not exist or the agent has no read access."""
        return self._world.readable(self._id, artifact)

    def level(self, pool: str) -> float:
        """Return the level of a pool: free slots, an amount, or a number of items."""
        return self._world.pools[pool].level

    def holds(self, pool: str) -> int:
        """Return the number of slots of a pool that the agent holds."""
        return self._world.held.get(self._id, {}).get(pool, 0)

    def my_tasks(self, status: str | None = None) -> list[dict[str, Any]]:
        """Return the open tasks of the agent, the most urgent first; with a status, only those."""
        return [task.to_json() for task in self._world.tasks.open(self._id, status)]

    def task(self, id: int) -> dict[str, Any] | None:
        """Return a task; None if it does not exist."""
        return next((task.to_json() for task in self._world.tasks.all() if task.id == id), None)

    def queue(self, pool: str) -> int:
        """Return the number of requests that wait at a pool."""
        return self._world.pools[pool].queue

    # -- conversations

    def conversation(self, id: str) -> dict[str, Any]:
        """Return a conversation: its place, and the texts and errors that a person sees, oldest first."""
        conversations = Conversations.of(self._world)
        found = conversations.find(id)
        texts = [message for message in conversations.thread(id) if message.role in VISIBLE]
        return {
            "id": id, "user": found.user, "platform": found.platform, "channel": found.channel, "thread": found.thread,
            "session": found.session, "summary": found.summary,
            "messages": [{"role": m.role, "author": m.author, "text": m.content} for m in texts],
        }  # fmt: skip

    def open_conversations(self) -> list[str]:
        """Return the ids of the conversations whose latest text is from a person, the longest waiting first."""
        return Conversations.of(self._world).open_conversations()


def _plain(position: Any) -> Any:
    return list(position) if isinstance(position, tuple) else position
