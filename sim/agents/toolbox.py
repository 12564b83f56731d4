"""The functions that the rules of policy agents can call.

One toolbox serves a world. An evaluation never waits, so the agent on whose behalf functions are called is simply
the one that asked last.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sim.expressions import PURE_FUNCTIONS, ExpressionError, did_you_mean
from sim.kernel import Stream
from sim.resources import MICRO
from sim.world import World


class User(Protocol):
    """Who uses the toolbox."""

    agent_id: str

    @property
    def rng(self) -> Stream:
        """The agent's own random draws."""


class Toolbox:
    """Functions over a world and the agent that asks."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._user: User | None = None
        names = (
            "chance", "uniform", "exponential", "gauss", "randint", "choice", "neighbours", "nearby", "adjacent",
            "free_places", "state_of", "agents", "remaining", "usage", "budget", "exists", "content", "level",
            "queue", "in_sight", "position", "holds",
        )  # fmt: skip
        own: dict[str, Callable[..., object]] = {name: getattr(self, name) for name in names}
        self._functions: Mapping[str, Callable[..., object]] = {**PURE_FUNCTIONS, **own}

    def used_by(self, user: User) -> Mapping[str, Callable[..., object]]:
        """Return the functions, to be called on behalf of `user` until somebody else asks."""
        self._user = user
        return self._functions

    @property
    def _rng(self) -> Stream:
        assert self._user is not None, "functions are handed out by used_by"
        return self._user.rng

    @property
    def _id(self) -> str:
        assert self._user is not None, "functions are handed out by used_by"
        return self._user.agent_id

    # -- chance: each draws on behalf of the agent that asks

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self._rng.random() < probability

    def uniform(self, low: float, high: float) -> float:
        """A number between two others."""
        return low + (high - low) * self._rng.random()

    def exponential(self, mean: float) -> float:
        """An exponentially distributed number with this mean."""
        if mean <= 0:
            raise ExpressionError(f"the mean of exponential must be above 0, not {mean:g}")
        return self._rng.expovariate(1 / mean)

    def gauss(self, mean: float, deviation: float) -> float:
        """A normally distributed number."""
        return self._rng.gauss(mean, deviation)

    def randint(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return self._rng.randint(low, high)

    def choice(self, items: Any) -> Any:
        """One of several; None of nothing."""
        return self._rng.choice(items) if len(items) else None

    # -- the world around

    def neighbours(self) -> list[str]:
        """The agents at the same place or one edge away."""
        return self._world.places.neighbours(self._id) if self._world.places else []

    def nearby(self) -> list[str]:
        """The other agents at the same place."""
        places = self._world.places
        here = places.where(self._id) if places else None
        return [id for id in places.at(here) if id != self._id] if places and here is not None else []

    def adjacent(self) -> list[str]:
        """The places one edge away."""
        places = self._world.places
        here = places.where(self._id) if places else None
        return places.adjacent(here) if places and here is not None else []

    def free_places(self) -> list[str]:
        """The places where no agent stands."""
        return self._world.places.free() if self._world.places else []

    def state_of(self, agent: str, key: str) -> Any:
        """A state variable of another agent, as it is now; None if there is no such agent."""
        known = self._world.agents.get(agent)
        if known is None:
            return None
        if key not in known.state:
            raise ExpressionError(f"{agent} has no state variable {key!r}", hint=did_you_mean(str(key), known.state))
        value = known.state[key]
        return copy.deepcopy(value) if isinstance(value, dict | list) else value

    def in_sight(self) -> list[dict[str, Any]]:
        """What the agent sees of others in space: `agent`, `position`, `doing`; as they were when this step began."""
        space = self._world.space
        seen = space.near(self._id) if space is not None and self._id in space.histories else ()
        return [{"agent": one.agent, "position": _plain(one.position), "doing": one.doing} for one in seen]

    def position(self) -> Any:
        """Where the agent is in space; None if it is not."""
        space = self._world.space
        return _plain(space.where(self._id)) if space is not None and self._id in space.histories else None

    def agents(self, group: str) -> list[str]:
        """The living agents of a group."""
        return self._world.group(group)

    def remaining(self, resource: str) -> float:
        """What is left to the agent of a limit, budget or quota."""
        return self._world.remaining(self._id, resource)

    def usage(self, resource: str) -> float:
        """What the agent has used of a rate limit within its window."""
        return self._world.rate_tracker.get_usage(self._id, resource)

    def budget(self, name: str) -> float:
        """What is left to the agent of a budget."""
        return self._world.budgets.remaining(self._id, name) / MICRO

    def exists(self, artifact: str) -> bool:
        """Whether there is such an artifact."""
        return self._world.artifacts.get(artifact) is not None

    def content(self, artifact: str) -> Any:
        """The content of an artifact that the agent may read; None if there is none."""
        return self._world.readable(self._id, artifact)

    def level(self, pool: str) -> float:
        """What a pool holds: free slots, an amount, or a number of items."""
        return self._world.pools[pool].level

    def holds(self, pool: str) -> int:
        """How many slots of a pool the agent holds."""
        return self._world.held.get(self._id, {}).get(pool, 0)

    def queue(self, pool: str) -> int:
        """How many wait at a pool."""
        return self._world.pools[pool].queue


def _plain(position: Any) -> Any:
    return list(position) if isinstance(position, tuple) else position
