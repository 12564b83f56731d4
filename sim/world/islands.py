"""The section `islands` of a scenario: parts of a world between which only messages and events pass, and those late.

Each agent lives on one island. What agents share, such as a pool, has one home island. So what happens on an island
depends on nothing that happens on another one at the same time, and the islands of one world can run apart.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from sim.base.errors import CausalityError, UsageError
from sim.events import Event
from sim.events.topic import check_pattern, is_own, matches
from sim.kernel import Actor, Source, Timer
from sim.kernel.codec import JsonObject, Raw, Record, freeze
from sim.kernel.duration import to_ns, to_text
from sim.world.action import ActionHandler, Refused, near
from sim.world.actions.messages import arrive, send_later
from sim.world.island_bus import IslandBus
from sim.world.section import Entry, PositiveDuration, define_section, draws_nothing
from sim.world.service import Service
from sim.world.whereabouts import Carrier, Whereabouts

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World


@attrs.frozen
class TopicSettings:
    """How events of a topic reach other islands.

    Args:
        latency: how long after an event other islands hear of it; null: the latency of the islands.
    """

    latency: PositiveDuration | None = None


@attrs.frozen
class Homes:
    """The home islands of what no rule names, because its name is computed.

    Args:
        pools: the islands of pools, by the name of the pool.
        artifacts: the islands of artifacts, by id.
        accounts: the islands of accounts that belong to no agent, by name.
    """

    pools: Mapping[str, str] = attrs.field(factory=dict)
    artifacts: Mapping[str, str] = attrs.field(factory=dict)
    accounts: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class IslandSettings:
    """The islands of a world: messages and events pass between them with a latency, and nothing else does.

    Args:
        latency: the least time that anything takes from one island to another.
        of: by island, the entries of `agents` whose agents live there.
        by: by entry of `agents`, by what its agents are divided: a state variable, such as a column of its table, or
            `group`. Each agent lives on the island that has the name of its value at the start.
        topics: by topic, or pattern of topics: the events that other islands hear of, and when. All others are heard
            only on the island where they are published.
        home: the home islands of what no rule names.

    Raises:
        UsageError: if there is no island, an entry lives on two, one has no entry, a topic cannot be declared, or its
            latency is below that of the islands.
    """

    latency: PositiveDuration
    of: Mapping[str, tuple[Entry, ...]] = attrs.field(factory=dict)
    by: Mapping[str, str] = attrs.field(factory=dict)
    topics: Mapping[str, TopicSettings] = attrs.field(factory=dict)
    home: Homes = attrs.field(factory=Homes)
    entries: Mapping[str, str] = attrs.field(init=False)
    """By entry of `agents` that `of` names, its island."""

    @entries.default
    def _entries(self) -> Mapping[str, str]:
        homes: dict[str, str] = {}
        for island, entries in self.of.items():
            if island_named(island) is None:
                raise UsageError(f"of.{island!r:.80}: expected the name of an island, {A_NAME}")
            if not entries:
                raise UsageError(f"of.{island}: an island needs an entry of agents")
            for entry in entries:
                if entry in homes:
                    raise UsageError(
                        f"of.{island}: {entry!r} lives on {homes[entry]} already", hint="name each entry once"
                    )
                homes[entry] = island
        return homes

    def __attrs_post_init__(self) -> None:
        if not self.of and not self.by:
            raise UsageError("expected `of` or `by`", hint="such as `of: {north: [farmer]}`, or `by: {person: region}`")
        for pattern, topic in self.topics.items():
            check_pattern(pattern)
            if is_own(pattern):
                raise UsageError(f"topics.{pattern}: only the simulation itself publishes it, on one island")
            if topic.latency is not None and topic.latency < self.latency:
                raise UsageError(
                    f"topics.{pattern}.latency: {to_text(topic.latency)} is shorter than {to_text(self.latency)},"
                    " the latency of the islands"
                )

    def latency_of(self, topic: str) -> int | None:
        """Return after how many nanoseconds other islands hear of a topic; None: never."""
        for pattern, settings in self.topics.items():
            if matches(pattern, topic):
                return self.latency if settings.latency is None else settings.latency
        return None


def island_named(value: object) -> str | None:
    """Return the name of the island for a value by which agents are divided, or a key of `of`; None if it cannot name
    one: see `A_NAME`.
    """
    if isinstance(value, str):
        return value if 0 < len(value) <= _LONGEST and value == value.strip() and value.isprintable() else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


_LONGEST: Final = 64  # characters of the name of an island, as of an agent

A_NAME: Final = f"a text of 1 to {_LONGEST} printable characters without blanks at its ends, or a whole number"
"""What can name an island, in words."""

Thing = tuple[str, str]
"""What has a home island: its kind (`pools`, `artifacts`, `accounts`, `places`, `tasks`) and its name."""

CALLED: Final[Mapping[str, str]] = {
    "pools": "the pool {!r}", "artifacts": "the artifact {!r}", "accounts": "the account {!r}", "places": "the places",
    "tasks": "the tasks",
}  # fmt: skip
"""What a kind of thing with a home is called; `{!r}` stands for its name."""

ARGUMENTS: Final[Mapping[str, str]] = {
    "slots": "pools", "stock": "pools", "artifact": "artifacts", "new artifact": "artifacts", "account": "accounts",
}  # fmt: skip
"""By meaning of an argument of an action: the kind of thing that it names."""

OF_PLACES: Final = frozenset({"move", "gather", "change_place"})
OF_TASKS: Final = frozenset({"create_task", "update_task", "complete_task"})
"""The actions on places, and on tasks."""

ALLOWED: Final = OF_PLACES | OF_TASKS | frozenset({
    "noop", "sleep", "rest", "stop", "spawn", "travel", "send", "publish", "read", "write", "edit", "delete", "invoke",
    "transfer", "acquire", "release", "put", "get", "ask",
})  # fmt: skip
"""The actions that agents on islands can do."""


class Letter(Record, frozen=True, array_like=True):
    """A message, or an event of a declared topic, on its way to an island of another process.

    Attributes:
        what: a message, an event, or an agent that travels.
        due: when it arrives, in simulated nanoseconds.
        source, counter: its key in the order of that moment: the ordinal of its sender, and the counter of the event.
        island: the island to which it goes; of an event, the one where it was published.
        sender: the agent that sent or published it.
        to: the agent that receives it, or travels; empty for an event.
        topic, raw: its topic, and its data as canonical JSON; of an agent, what it takes along.
        time: when it was sent.
    """

    what: Literal["message", "event", "agent"]

    due: int
    source: int
    counter: int
    island: str
    sender: str
    to: str
    topic: str
    raw: Raw
    time: int


class Islands(Service):
    """The islands of a world.

    Args:
        world: the world.
        settings: the section of the scenario.

    Attributes:
        settings: the section of the scenario.
        names: the names of all islands.
        homes: the island of each thing that has one.
        groups: by group of agents, its islands.
        first: the agents that exist from the start, with their islands; empty until `begin` is called.
        local: the islands that run in this process.
        away: carries what goes to islands of other processes; None: there are none.
        carrier: stops and starts the loops of agents that travel.
    """

    name = "islands"

    def __init__(self, world: "World", settings: IslandSettings) -> None:
        self.settings = settings
        self.names = tuple(settings.of)
        self.homes: Mapping[Thing, str] = {}
        self.groups: dict[str, set[str]] = {}
        self.first: dict[str, str] = {}
        self.local = frozenset(self.names)
        self.away: Callable[[Letter], None] | None = None
        self._world = world
        self._where = Whereabouts(self.first)
        self.carrier: Carrier | None = None
        self._texts: dict[str, str] = {}  # the name of each island once, not for each agent

    def divide(self, names: tuple[str, ...]) -> None:
        """Say which islands there are. To be called before there are agents.

        Args:
            names: the names of all islands, also of those into which agents are divided.
        """
        self.names, self.local = names, frozenset(names)
        bus = self._world.event_bus
        assert isinstance(bus, IslandBus), "the section has made it"
        bus.divide(names)

    def begin(self, homes: Mapping[Thing, str], groups: Mapping[str, set[str]]) -> None:
        """Watch what agents do from now on, when all agents of the start exist.

        Args:
            homes: the island of each thing that has one.
            groups: by group of agents, its islands.
        """
        world = self._world
        self.homes = homes
        self.groups = {name: set(islands) for name, islands in groups.items()}
        for agent_id, agent in world.agents.items():
            island = self._home_of(agent)
            assert island is not None, "the check of the file has found an island for each agent"
            self.first[agent_id] = island
            self.groups.setdefault(agent.group, set()).add(island)
        for kind in ALLOWED:
            handler = world.actions.find(kind)
            if handler is not None:
                world.actions.replace(self._sending(handler) if kind == "send" else self._watched(handler))

    def island_of(self, name: str) -> str | None:
        """Return the island of an agent, also of one that is made during the run; None if no agent can have the name.
        Of one that travels, it is the island that it has left until it arrives.

        The name of an agent that is made begins with its entry, so that its island is known wherever it lives.
        """
        island = self._where.island_of(name)
        if island is None:
            agent = self._world.agents.get(name)
            entries = self.settings.entries
            if agent is not None:
                return self._home_of(agent)
            made = [entry for entry in entries if name.startswith(f"{entry}-")]
            island = entries[max(made, key=len)] if made else None
        return island

    def _seen_from(self, here: str | None, name: str) -> str | None:
        """Return where an island takes an agent to be; what happens there depends on nothing else."""
        return self._where.seen_from(here or "", name) if name in self.first else self.island_of(name)

    def _home_of(self, agent: "Inhabitant") -> str | None:
        """Return where an agent lives that was made just now."""
        entry = _entry(agent)
        key = self.settings.by.get(entry)
        if key is None:
            return self.settings.entries.get(entry)
        island = island_named(agent.group if key == "group" else agent.state.get(key))
        return None if island is None else self._texts.setdefault(island, island)

    def island_of_source(self, source: Source, topic: str) -> str | None:
        """Return the island of what causes something: of an agent; None for what comes from outside."""
        if topic.startswith("task."):
            return self.homes.get(("tasks", ""))  # their timers act for no agent of an island
        return self.island_of(source.name) if source.__class__ is Actor else None

    def check_thing(self, agent_id: str, kind: str, name: str) -> None:
        """Stop the run if an agent uses a thing of another island, or one without a home.

        Raises:
            CausalityError: naming the agent, both islands and the time.
        """
        here = self.island_of(agent_id)
        home = self.homes.get((kind, name))
        if kind == "accounts" and home is None:
            home = self._seen_from(here, name)
        if home == here:
            return
        called = CALLED[kind].format(name)
        if home is None:
            if kind != "artifacts" and not self._exists(kind, name):
                return  # there is no such thing, which the action reports
            raise self._stop(
                agent_id, f"uses {called}, whose home island is not known", f"name it in `islands.home.{kind}`"
            )
        hint = "send a message to an agent there"
        raise self._stop(agent_id, f"uses {called} of the island {home}", hint)

    def check_agent(self, agent_id: str, other: str, what: str) -> None:
        """Stop the run if `other` is an agent or a group of another island.

        Raises:
            CausalityError: naming both agents, both islands and the time.
        """
        here = self.island_of(agent_id)
        alone = self._seen_from(here, other)
        islands = self.groups.get(other, set())
        if alone is not None and (not islands or self._is_one(other)):
            islands = {alone}
        for island in sorted(islands - {here}):
            raise self._stop(agent_id, f"{what} {other} of the island {island}", "only messages and events pass")

    def check_limit(self, agent_id: str, name: str) -> None:
        """Raise a `CausalityError` if an agent reads what is left of a limit in which its island has no part."""
        if self._world.rate_tracker.lacks_part(agent_id, name):
            what = f"reads what is left of the limit {name!r}, in which this island has no part"
            raise self._stop(agent_id, what, f"have a rule of its agents name it, as in `remaining({name!r})`")

    def _is_one(self, name: str) -> bool:
        return name in self.first and [agent.agent_id for agent in self._world.members(name)] == [name]

    def _check_entry(self, agent_id: str, entry: str) -> None:
        there = self.settings.entries.get(entry)
        if there is not None and there != self.island_of(agent_id):
            raise self._stop(agent_id, f"spawns {entry} of the island {there}", "ask an agent there to spawn it")

    def _exists(self, kind: str, name: str) -> bool:
        return name in (self._world.pools if kind == "pools" else self._world.ledger)

    def _stop(self, agent_id: str, what: str, hint: str) -> CausalityError:
        at = to_text(self._world.kernel.now)
        return CausalityError(f"{agent_id} of the island {self.island_of(agent_id)} {what}, at {at}", hint=hint)

    # -- actions

    def _watched(self, handler: ActionHandler) -> ActionHandler:
        """Return an action that stops the run before it reaches another island."""
        arguments = {argument.name: argument.meaning for argument in handler.arguments()}
        kind = handler.kind

        def check(agent: "Inhabitant", argument_values: JsonObject) -> None:
            if kind in OF_PLACES or kind in OF_TASKS:
                self.check_thing(agent.agent_id, "places" if kind in OF_PLACES else "tasks", "")
            for name, value in argument_values.items():
                meaning = arguments.get(name)
                if not isinstance(value, str) or meaning is None:
                    continue
                if meaning in ARGUMENTS:
                    self.check_thing(agent.agent_id, ARGUMENTS[meaning], value)
                elif meaning == "recipient":
                    self.check_agent(agent.agent_id, value, f"does {kind} with")
                elif meaning == "entry":
                    self._check_entry(agent.agent_id, value)

        return _with_check(handler, check)

    def _sending(self, handler: ActionHandler) -> ActionHandler:
        """Return the action `send`, which reaches agents of other islands with a latency."""

        def ready(world: "World", agent: "Inhabitant", /, **arguments: Any) -> Any:
            far = self._far(agent.agent_id, arguments["to"], arguments.get("after"))
            return handler.ready(world, agent, **arguments) if far is None else far  # type: ignore[misc]  # `send` has it

        def wait(world: "World", agent: "Inhabitant", /, **arguments: Any) -> Any:
            far = self._far(agent.agent_id, arguments["to"], arguments.get("after"))
            return handler.wait(world, agent, **arguments) if far is None else _at_once(far)  # type: ignore[misc]

        def apply(world: "World", agent: "Inhabitant", receivers: list[str], /, **arguments: Any) -> Any:
            to, sender, topic = arguments["to"], agent.agent_id, arguments.get("topic", "")
            there = self._seen_from(self.island_of(sender), to) if to in self.first else None
            if there is None or arguments.get("after") is None:
                return handler.apply(world, agent, receivers, **arguments)
            source, now, away = world.kernel.acting(), world.kernel.now, self.away

            def post(to: str, due: int, raw: Raw) -> bool:
                if away is None or there in self.local:
                    return False
                key = (due, source.ordinal, source.counter, there)
                away(Letter("message", *key, sender=sender, to=to, topic=topic, raw=raw, time=now))
                return True

            try:
                delay = to_ns(arguments["after"])
            except UsageError as error:
                raise Refused(f"after is no duration: {error}") from error
            raw, arrives = freeze(arguments.get("data")), partial(self._deliver, there)
            return send_later(world, sender, receivers, topic, raw, delay, post=post, arrives=arrives)

        return attrs.evolve(handler, ready=ready, wait=wait, apply=_Signed(apply, handler.apply))

    # -- processes

    def split(self, local: Collection[str], away: Callable[[Letter], None]) -> None:
        """Have only some of the islands run in this process; `away` carries what goes to others.

        Args:
            local: the names of the islands of this process.
            away: called with each message, and with each event that is heard elsewhere.
        """
        bus = self._world.event_bus
        assert isinstance(bus, IslandBus), "the section has made it"
        self.local, self.away = frozenset(local), away
        bus.local = tuple(island for island in self.names if island in self.local)

        def tell(event: Event, due: int) -> None:
            source, counter = event.identity
            here = str(self.island_of(event.source))
            key = (due, source, counter, here)
            away(Letter("event", *key, sender=event.source, to="", topic=event.topic, raw=event.raw, time=event.time))

        bus.away = tell

    def receive(self, letter: Letter) -> None:
        """Let what another process sends arrive at its time, in the order that it has in one process."""
        world, kernel, bus = self._world, self._world.kernel, self._world.event_bus
        assert isinstance(bus, IslandBus), "the section has made it"
        if letter.what != "event":
            receiver = world.agents[letter.to]
            by = receiver.source or kernel.source_for(letter.to, "message")
            if letter.what == "agent":
                callback = partial(self._arrived, receiver, letter.island, letter.raw)
            else:
                mail = (world, letter.sender, letter.to, letter.topic, letter.raw)
                callback = partial(self._deliver, letter.island, *mail)
        else:
            identity = (letter.source, letter.counter)
            event = Event(0, letter.time, letter.sender, letter.topic, letter.raw, identity)
            by = kernel.source_for(letter.island, "arrival")
            callback = partial(bus.arrive, event, letter.island)
        kernel.calendar.push((letter.due, 0, letter.source, letter.counter, Timer(kernel, by, callback), 0))

    def _far(self, agent_id: str, to: str, after: Any) -> list[str] | None:
        """Return the receiver of a message to another island; None for one that stays on its island.

        Raises:
            CausalityError: if it would arrive too early, or goes to a group of another island.
            Refused: if the receiver was not there from the start.
        """
        here = self.island_of(agent_id)
        if to in self.groups and to not in self.first:
            self.check_agent(agent_id, to, "sends to the group")
            return None
        there = self._seen_from(here, to)
        if there is None or there == here:
            return None
        if to not in self.first:
            raise Refused(f"{to} lives on the island {there} and was not there from the start: {here} cannot know it")
        least, takes = self.settings.latency, 0
        try:
            takes = 0 if after is None else to_ns(after)
        except UsageError:
            return None  # the action reports that it is no duration
        if takes < least:
            raise self._stop(
                agent_id,
                f"sends to {to} of the island {there} with a latency of {to_text(takes)}, and messages between islands"
                f" take at least {to_text(least)}",
                f"write `after: {to_text(least)}` or more",
            )
        return [to]

    # -- agents that travel

    def depart(self, agent: "Inhabitant", to: str, after: Any) -> int:
        """Let an agent leave for an island, and return when it arrives, in simulated nanoseconds.

        Raises:
            CausalityError: if the way takes less than the latency of the islands.
            Refused: if there is no such island, the agent is there, or it has what cannot travel.
        """
        name, world, least = agent.agent_id, self._world, self.settings.latency
        try:
            takes = to_ns(after)
        except UsageError as error:
            raise Refused(f"after is no duration: {error}") from error
        if to not in self.names:
            raise Refused(f"there is no island {to!r:.80}{near(str(to), self.names)}")
        if to == self.island_of(name):
            raise Refused(f"{name} is on the island {to} already")
        if takes < least:
            raise self._stop(
                name, f"travels to {to} in {to_text(takes)}, and the way takes at least {to_text(least)}",
                f"write `after: {to_text(least)}` or more",
            )  # fmt: skip
        if name not in self.first:
            raise Refused(f"{name} was not there from the start, so other islands do not know it")
        for what in self._kept_here(agent):
            raise Refused(f"{name} {what}, which cannot travel")
        assert self.carrier is not None, "it is there with the action"
        due = world.kernel.now + takes
        self.carrier.leave(agent, partial(self._left, agent, to, due))
        return due

    def _kept_here(self, agent: "Inhabitant") -> Iterator[str]:
        """Yield what keeps an agent on its island, in words."""
        name, world = agent.agent_id, self._world
        if world.held.get(name):
            yield f"holds {', '.join(world.held[name])}"
        if world.balance(name):
            yield "has money"
        if world.places is not None and world.places.where(name) is not None:
            yield "is at a place"
        if world.tasks.open(name):
            yield "has open tasks"
        for id in world.artifacts.ids():
            artifact = world.artifacts.get(id)
            if artifact is not None and artifact.owner == name and artifact.price:
                yield f"owns {id}, which has a price"

    def _left(self, agent: "Inhabitant", to: str, due: int, pack: Callable[[int], Raw]) -> None:
        """Send an agent, whose loop has stopped, to another island.

        Args:
            agent: the agent.
            to: the island.
            due: when it arrives, in simulated nanoseconds.
            pack: returns what it takes along, for a counter of its source.
        """
        world, actor, name = self._world, agent.source, agent.agent_id
        assert actor is not None, "a loop has an actor"
        self._where.leave(name, str(self.island_of(name)), to)
        world.running += 1  # it is under way, so that the run does not end
        luggage = pack(actor.counter + 1)

        def reach() -> None:
            world.running -= 1
            self._arrived(agent, to, luggage)
            if not world.running and world.on_all_stopped is not None:
                world.on_all_stopped()  # it was stopped on its way, as all others are

        world.kernel.call_for(actor, due, reach, actor)
        if self.away is not None and to not in self.local:
            key = (due, actor.ordinal, actor.counter, to)
            self.away(Letter("agent", *key, sender=name, to=name, topic="", raw=luggage, time=world.kernel.now))

    def _arrived(self, agent: "Inhabitant", island: str, luggage: Raw) -> None:
        carrier, name = self.carrier, agent.agent_id
        assert carrier is not None, "otherwise no agent can travel"
        mail = self._where.arrive(name, island)
        if self._world.agents.get(name) is not agent:
            return  # it was removed on its way
        carrier.clear(agent)
        if island in self.local:
            carrier.start(agent, luggage)
            for sender, topic, raw in mail:
                arrive(self._world, sender, name, topic, Raw(raw))

    def _deliver(self, island: str, world: "World", sender: str, to: str, topic: str, raw: Raw) -> None:
        """Let a message arrive on an island. If its receiver has left, it follows, and takes the latency once more."""
        if self._seen_from(island, to) == island:
            arrive(world, sender, to, topic, raw)
            return
        then = self._where.next_of(island, to)
        if then is None:
            self._where.expect(island, to, (sender, topic, bytes(raw)))
            return
        kernel, post, receiver = world.kernel, world.kernel.source_for(island, "post"), world.agents[to]
        due = kernel.now + self.settings.latency
        if self.away is None or then in self.local:
            by = receiver.source or kernel.source_for(to, "message")
            kernel.call_for(by, due, partial(self._deliver, then, world, sender, to, topic=topic, raw=raw), post)
            return
        post.counter += 1
        key = (due, post.ordinal, post.counter, then)
        self.away(Letter("message", *key, sender=sender, to=to, topic=topic, raw=raw, time=kernel.now))


def _with_check(handler: ActionHandler, check: Any) -> ActionHandler:
    """Return a handler that calls `check` with the agent and the arguments before it waits or is applied."""

    def before(inner: Any, world: "World", agent: "Inhabitant", /, **arguments: Any) -> Any:
        check(agent, arguments)
        return inner(world, agent, **arguments)

    if handler.wait is not None:
        ready = None if handler.ready is None else partial(before, handler.ready)
        return attrs.evolve(handler, wait=partial(before, handler.wait), ready=ready)
    apply = partial(before, handler.apply)
    return attrs.evolve(handler, apply=_Signed(apply, handler.apply))


class _Signed:
    """A function with the signature and the docstring of another one, from which the arguments of an action follow."""

    def __init__(self, function: Any, like: Any) -> None:
        self._function = function
        self.__wrapped__ = like
        self.__doc__ = like.__doc__

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._function(*positional, **named)


async def _at_once(receivers: list[str]) -> list[str]:
    return receivers


def _entry(agent: "Inhabitant") -> str:
    return str(getattr(agent, "entry", ""))


def _make(world: "World", settings: IslandSettings) -> None:
    islands = Islands(world, settings)
    world.add_service(islands)
    bus = IslandBus(world.kernel, settings.of, islands.island_of_source, islands.island_of, settings.latency_of)
    bus.max_data_bytes = world.event_bus.max_data_bytes
    world.event_bus = bus


define_section("islands", IslandSettings, _make, draws=draws_nothing)
