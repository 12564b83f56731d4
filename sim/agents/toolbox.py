"""The functions that the rules of policy agents can call.

A world has one toolbox. An evaluation never waits, so the functions act for one agent at a time: `acts_for`.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from sim.base.errors import UsageError
from sim.base.expressions import (
    PURE_FUNCTIONS,
    Expression,
    ExpressionError,
    Refers,
    did_you_mean,
    functions_at,
    rule_function,
)
from sim.base.expressions.limits import SCALARS
from sim.kernel.codec import Json
from sim.kernel.rng import Draws
from sim.resources import MICRO
from sim.world import Inhabitant, World
from sim.world.calendar import calendar_functions

if TYPE_CHECKING:
    from sim.agents.conversation.service import Conversations

_ABSENT: Final = object()  # a default that is not given


class ToolboxAgent(Protocol):
    """The part of an agent that the toolbox uses."""

    agent_id: str

    @property
    def rng(self) -> Draws:
        """The random draws of the agent."""


class Toolbox:
    """Functions for rules, over a world and the agent whose rules are evaluated.

    Attributes:
        functions: the functions by name.
        shared: by their names, those whose lists need no copy where they are only read: they belong to the world.
        acts_for: the agent for which the functions act; set before each evaluation.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.acts_for: ToolboxAgent
        names = [name for name in functions_at("agent") if hasattr(self, name)]
        own: dict[str, Callable[..., object]] = {name: getattr(self, name) for name in names}
        own |= calendar_functions(world)
        self.functions: Mapping[str, Callable[..., object]] = {**PURE_FUNCTIONS, **own}
        self.shared: Mapping[str, Callable[..., object]] = {
            "agents": world.living,
            "neighbours": self._neighbours,
            "free_places": self._free_places,
        }

    def used_by(self, user: ToolboxAgent) -> Mapping[str, Callable[..., object]]:
        """Return the functions by name; they act for `user` until `acts_for` is set again."""
        self.acts_for = user
        return self.functions

    def add(self, name: str, function: Callable[..., object]) -> None:
        """Give expressions one more function. To be called before rules are compiled."""
        self.functions = {**self.functions, name: function}

    def watch(self, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put something around a function, for a rule that keeps its list and for one that only reads it.

        To be called before rules are compiled.

        Args:
            name: the name of the function.
            wrap: returns what takes the place of a function. It is called for each form that the function has.
        """
        self.functions = {**self.functions, name: wrap(self.functions[name])}
        if name in self.shared:
            self.shared = {**self.shared, name: wrap(self.shared[name])}

    def is_own(self, name: str) -> bool:
        """Return whether a function is that of this class, without anything around it."""
        return getattr(self.functions.get(name), "__func__", None) is _ORIGINALS.get(name)

    @property
    def agents_by_name(self) -> Mapping[str, Inhabitant]:
        """The agents of the world by name, in one mapping for the whole run."""
        return self._world.agents

    @property
    def _id(self) -> str:
        return self.acts_for.agent_id

    @property
    def user(self) -> str:
        """The id of the agent for which the functions act."""
        return self._id

    # -- random draws, from the draws of the user

    @rule_function(place=("agent", "start"), senses="nothing", draws=True)
    def chance(self, probability: float) -> bool:
        """Return true with probability `probability`; draws depend on the seed, the agent and the simulated time; in a
        `when`, if a message waits that it may read, on the message.
        """
        return self.acts_for.rng.chance(probability)

    @rule_function(place=("agent", "start"), senses="nothing", draws=True)
    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return self.acts_for.rng.uniform(low, high)

    @rule_function(place=("agent", "start"), senses="nothing", draws=True)
    def exponential(self, mean: float) -> float:
        """Return an exponentially distributed number with this mean."""
        if mean <= 0:
            raise ExpressionError(f"the mean of exponential must be above 0, not {mean:g}")
        return self.acts_for.rng.exponential(mean)

    @rule_function(place=("agent", "start"), senses="nothing", draws=True)
    def gauss(self, mean: float, deviation: float) -> float:
        """Return a normally distributed number."""
        return self.acts_for.rng.gauss(mean, deviation)

    @rule_function(place=("agent", "start"), senses="nothing", draws=True)
    def randint(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both ends included."""
        return self.acts_for.rng.randint(low, high)

    @rule_function(place=("agent", "start"), senses="nothing", draws=True)
    def choice(self, items: Any) -> Any:
        """Return a random item, or none if there are no items."""
        return self.acts_for.rng.choice(items) if len(items) else None

    # -- the state of the world

    @rule_function(place="agent")
    def neighbours(self, group: Annotated[str | None, Refers("group")] = None, radius: Any = 1) -> list[str]:
        """Return the other agents at the agent's place or up to `radius` (1) edges away, the nearest first; with a
        group, those of the group, as in `neighbours(group='sheep', radius=2)`.
        """
        return list(self._neighbours(group, radius))

    def _neighbours(self, group: str | None = None, radius: Any = 1) -> Sequence[str]:
        world, agent = self._world, self.acts_for.agent_id
        if radius == 1:
            neighbours = world.around(agent)
        else:
            neighbours = world.places.others_within(agent, _whole(radius)) if world.places is not None else []
        return neighbours if group is None else self._of_group(neighbours, group)

    def _of_group(self, agents: Sequence[str], group: str) -> list[str]:
        world = self._world
        return [id for id in agents if world.in_group(world.agents[id], group)]

    @rule_function(place="agent")
    def nearby(self, group: Annotated[str | None, Refers("group")] = None) -> list[str]:
        """Return the other agents at the agent's place; with a group, those of the group."""
        places = self._world.places
        here = places.where(self._id) if places else None
        others = [id for id in places.at(here) if id != self._id] if places and here is not None else []
        return others if group is None else self._of_group(others, group)

    @rule_function(place="agent")
    def adjacent(self, radius: Any = 1) -> list[str]:
        """Return the places up to `radius` (1) edges away, the nearest first, without the agent's own."""
        places = self._world.places
        here = places.where(self._id) if places else None
        if places is None or here is None:
            return []
        return places.adjacent(here) if radius == 1 else places.within(here, _whole(radius))[1:]

    @rule_function(place="agent")
    def attribute(self, name: str, place: str | None = None) -> Any:
        """Return an attribute of a place, by default of the agent's own, that a [graph file](#graph-files) gives; none
        if it has none.
        """
        places = self._world.places
        where = place if place is not None or places is None else places.where(self._id)
        return places.about(where).get(name) if places is not None and where is not None else None

    @rule_function(place="agent")
    def free_places(self, radius: Any = None) -> list[str]:
        """Return the places where no agent stands; with a radius, those up to so many edges from the agent's place."""
        return list(self._free_places(radius))

    def _free_places(self, radius: Any = None) -> Sequence[str]:
        places = self._world.places
        if places is None or radius is None:
            return places.all_free() if places else []
        here = places.where(self._id)
        return [] if here is None else [node for node in places.within(here, _whole(radius)) if places.is_free(node)]

    @rule_function(place="agent")
    def variable(self, name: Annotated[str, Refers("variable")], place: Annotated[Any, Refers("place")] = None) -> Any:
        """Return a variable of a place, by default of the agent's own; none if it is at no place."""
        places, variables = self._world.places, self._world.variables
        if places is None or variables is None or name not in variables:
            raise ExpressionError(f"places have no variable {name!r:.80}")
        node = places.where(self._id) if place is None else places.named(place)
        if node is None:
            return None
        value = variables.get(name, node)
        return _copy(value) if isinstance(value, dict | list) else value

    @rule_function(place="agent", needs=("stock",))
    def stock(self, place: Annotated[str, Refers("place")]) -> float:
        """Return how much there is to gather at a place."""
        return 0.0 if self._world.stocks is None else self._world.stocks.level(place)

    @rule_function(place="agent", draws=True, needs=("stock", "grid"))
    def richest(self, distance: Any) -> str | None:
        """Return of the agent's own place and the free ones up to that far away in its row and column of a grid, that
        with most to gather; of several the nearest, and of equally near ones a random one.

        None for an agent without a place.

        Args:
            distance: how far the agent sees, in places.
        """
        if isinstance(distance, bool) or not isinstance(distance, int) or distance < 0:
            raise ExpressionError(f"the distance of richest is a whole number from 0, not {distance!r:.80}")
        places, stocks = self._world.places, self._world.stocks
        here = places.where(self._id) if places else None
        if places is None or stocks is None or here is None:
            return None
        richest = stocks.richest(here, places.straight(here, distance), places.is_free)
        return richest[0] if len(richest) == 1 else self.acts_for.rng.choice(richest)

    @rule_function(place="agent")
    def state_of(
        self, agent: Annotated[str, Refers("agent")], key: Annotated[str, Refers("state")], default: Any = _ABSENT
    ) -> Any:
        """Return the current value of a state variable of another agent, or none if there is no such agent; with a
        default, that if there is no such agent or it has no such variable.
        """
        other = self._world.agents.get(agent)
        if other is None:
            return None if default is _ABSENT else default
        state = other.state
        if key not in state:
            if default is not _ABSENT:
                return default
            raise ExpressionError(f"{agent} has no state variable {key!r}", hint=did_you_mean(str(key), state))
        value = state[key]
        if value.__class__ in SCALARS:  # most values: without the call of isinstance
            return value
        return _copy(value) if isinstance(value, dict | list) else value

    @rule_function(place="agent")
    def group_of(self, agent: Annotated[str, Refers("agent")]) -> str | None:
        """Return the group of an agent, or none if there is no such agent."""
        other = self._world.agents.get(agent)
        return None if other is None else other.group

    @rule_function(place="agent")
    def place_of(self, agent: Annotated[str, Refers("agent")]) -> str | None:
        """Return the place of an agent, or none if it has none."""
        return self._world.places.where(agent) if self._world.places else None

    @rule_function(place="agent", senses="space")
    def in_sight(self) -> list[dict[str, Json]]:
        """Return the agents that the agent sees in space, as a list of `agent`, `position`, `doing`."""
        space = self._world.space
        seen = space.near(self._id) if space is not None and self._id in space.histories else ()
        return [{"agent": one.agent, "position": _plain(one.position), "doing": one.doing} for one in seen]

    @rule_function(place="agent", senses="space")
    def position(self) -> Any:
        """Return the agent's own position in space, or none."""
        space = self._world.space
        return _plain(space.where(self._id)) if space is not None and self._id in space.histories else None

    @rule_function(place="agent")
    def agents(self, group: Annotated[str, Refers("group")]) -> list[str]:
        """Return the living agents of a group."""
        return self._world.group(group)

    @rule_function(place="agent")
    def remaining(self, resource: Annotated[str, Refers("resource")]) -> float:
        """Return how much of a limit, budget or quota the agent has left."""
        return self._world.remaining(self._id, resource)

    @rule_function(place="agent")
    def usage(self, resource: Annotated[str, Refers("resource")]) -> float:
        """Return the agent's use of a limit within its window."""
        return self._world.rate_tracker.get_usage(self._id, resource)

    @rule_function(place="agent")
    def budget(self, name: Annotated[str, Refers("budget")]) -> float:
        """Return how much the agent has left of a budget, in units."""
        return self._world.budgets.remaining(self._id, name) / MICRO

    @rule_function(place="agent")
    def exists(self, artifact: Annotated[str, Refers("artifact")]) -> bool:
        """Return whether the artifact exists."""
        return self._world.artifacts.get(artifact) is not None

    @rule_function(place="agent")
    def content(self, artifact: Annotated[str, Refers("artifact")]) -> Any:
        """Return the content of an artifact, or none if there is none or the agent may not read it."""
        return self._world.readable(self._id, artifact)

    @rule_function(place="agent")
    def level(self, pool: Annotated[str, Refers("pool")]) -> float:
        """Return free slots, amount or number of items of a pool."""
        return self._world.pools[pool].level

    @rule_function(place="agent")
    def holds(self, pool: Annotated[str, Refers("slots")]) -> int:
        """Return the number of slots of a pool that the agent holds."""
        return self._world.held.get(self._id, {}).get(pool, 0)

    @rule_function(place="agent")
    def my_tasks(self, status: str | None = None) -> list[dict[str, Json]]:
        """Return the open tasks of the agent, or those with a status, the most urgent first; each has `id`, `title`,
        `status`, `priority`, `assignee`, `due`, `data`, `result` and the other arguments of `create_task`.
        """
        return [task.to_json() for task in self._world.tasks.open(self._id, status)]

    @rule_function(place="agent")
    def task(self, id: int) -> dict[str, Json] | None:
        """Return a task, or none if there is no such task."""
        return next((task.to_json() for task in self._world.tasks.all() if task.id == id), None)

    @rule_function(place="agent")
    def queue(self, pool: Annotated[str, Refers("pool")]) -> int:
        """Return the number of agents that wait at a pool."""
        return self._world.pools[pool].queue

    # -- conversations

    @rule_function(place="agent")
    def conversation(self, id: str) -> dict[str, Json]:
        """Return a conversation: `user`, `platform`, `channel`, `thread`, `session`, `summary`, and `messages`, the
        texts and errors that a person sees, oldest first, a list of `role`, `author`, `text`.
        """
        from sim.agents.conversation.records import VISIBLE

        conversations = _conversations(self._world)
        conversation = conversations.find(id)
        texts = [message for message in conversations.thread(id) if message.role in VISIBLE]
        return {
            "id": id, "user": conversation.user, "platform": conversation.platform, "channel": conversation.channel,
            "thread": conversation.thread, "session": conversation.session, "summary": conversation.summary,
            "messages": [{"role": m.role, "author": m.author, "text": m.content} for m in texts],
        }  # fmt: skip

    @rule_function(place="agent")
    def open_conversations(self) -> list[str]:
        """Return the ids of the conversations whose latest text is from a person, the longest waiting first."""
        return _conversations(self._world).open_conversations()


def _conversations(world: World) -> "Conversations":
    from sim.agents.conversation.service import Conversations  # the import is slow

    return Conversations.of(world)


def _copy(value: Any) -> Any:
    """Return a copy of a value of a state, whose lists and mappings its agent may change later."""
    if value.__class__ is list:
        return [part if part.__class__ in SCALARS else _copy(part) for part in value]
    if value.__class__ is dict:
        return {key: part if part.__class__ in SCALARS else _copy(part) for key, part in value.items()}
    return copy.deepcopy(value)


def _whole(radius: Any) -> int:
    if isinstance(radius, bool) or not isinstance(radius, int) or radius < 0:
        raise ExpressionError(f"a radius is a whole number of edges from 0, not {radius!r:.80}")
    return radius


_ORIGINALS: Final = dict(vars(Toolbox))  # to detect that a function was patched


def _plain(position: Any) -> Any:
    return list(position) if isinstance(position, tuple) else position


def agent_expression(text: str, names: Collection[str], where: str) -> Expression:
    """Return an expression of a setting, in which an agent can use the functions of rules.

    Args:
        text: the expression; a leading `=` is optional.
        names: the names that it can use.
        where: where it stands, for the error.

    Raises:
        UsageError: if it is none, or uses a name or function that there is not.
    """
    try:
        return Expression.parse(text.removeprefix("="), names, {*PURE_FUNCTIONS, *functions_at("agent")})
    except ExpressionError as error:
        raise UsageError(f"{where}: {error}", hint=error.hint) from None


DRAWS: Final = frozenset(name for name, function in functions_at("agent").items() if function.draws)
"""Functions that draw random numbers, or may draw, as `richest` between equal places; see `PolicyAgent.rng`."""
