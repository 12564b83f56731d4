"""The world: the parts that all agents of a run share. Agents change it through the dispatcher only."""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from sim.base.errors import NameTakenError, UsageError
from sim.base.permissions import Permission
from sim.events import EventBus
from sim.kernel import Actor, Kernel, Recorder, Source, Stream, to_seconds
from sim.kernel.calendar import Calendar
from sim.kernel.codec import recordable
from sim.kernel.kernel import release_all
from sim.kernel.order import MAX_DELTAS
from sim.kernel.ports import Call, Intake
from sim.kernel.rng import Draws
from sim.resources import MICRO, Budgets, Ledger, Pool, Quotas, RateTracker, Use
from sim.world.action import BUILT_IN, Action, ActionRegistry, ActionResult
from sim.world.actions.pools import give_back
from sim.world.artifact import Artifacts
from sim.world.costs import Costs
from sim.world.dispatcher import Dispatcher, PendingAction
from sim.world.events import Observed
from sim.world.message import Message
from sim.world.place_variables import PlaceVariables
from sim.world.places import Places
from sim.world.service import Service
from sim.world.space import Space
from sim.world.stocks import Stocks
from sim.world.tasks import Tasks
from sim.world.waits import ActiveWaits


class Inhabitant(Protocol):
    """The part of an agent that the world uses."""

    agent_id: str
    group: str
    permission: Permission
    alive: bool  # whoever changes it calls `World.life_changed`
    state: dict[str, Any]

    @property
    def source(self) -> Source | None:
        """The source of what the agent causes; None if it has no loop."""

    def receive(self, message: Message, /) -> str | None:
        """Accept a message and return None, or return the reason for refusing it."""

    def has_room(self) -> bool:
        """Return whether `wait_for_room` would return at once."""

    async def wait_for_room(self) -> None:
        """Wait until the mailbox has room, if its policy is `block`."""

    def shutdown(self) -> object:
        """Stop after the current iteration; between two iterations, at once."""

    def terminate(self, reason: str, /) -> None:
        """Stop at once; the current iteration is cancelled where it waits."""

    def state_for_digest(self) -> Any:
        """Return the part of the final digest that describes the agent, JSON-like."""


_ALONE: dict[str, None] = {}  # shared by all groups with one agent of the same name, to save memory; never modified
_MANY_ERRORS = 1000  # how many distinct error texts are counted


def _nowhere(agent_id: str) -> Sequence[str]:
    """Return the neighbours of an agent in a world without places."""
    return []


class World:
    """The world of one run.

    Args:
        seed: the seed of all random streams.
        recorder: records the run; None: nothing is recorded.
        shuffled: whether ties in the order of steps are broken by a hash instead of by the order of declaration.
        order: with `shuffled`, which of the orders of this seed.
        max_deltas: how many deltas one instant can have before it counts as a livelock.

    Attributes:
        dispatcher: applies actions, the one way in which agents change the world.
        kernel, event_bus, rate_tracker, budgets, quotas, ledger, artifacts, costs, pools, places, stocks, variables,
            space: the parts.
        around: returns `Places.around` of an agent, and no names if the world has no places: rules ask for it most.
        calendar: the civil time of the run; None if it has none.
        agents: all agents by id, in the order in which they were added.
        actions: the kinds of action that agents can use.
        services: parts that hold state for agents of several kinds, by name.
        spawner: starts copies of an entry of a scenario, for the action `spawn`; None without a scenario.
        loop_manager: the manager of the loops of its agents, an `AgentLoopManager`; None until there is one.
        on_hold: whether somebody outside has paused the run: its host lets no simulated time pass.
        ended: whether the run is over for good, so that nothing can change any more.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        recorder: Recorder | None = None,
        shuffled: bool = False,
        order: int = 0,
        max_deltas: int = MAX_DELTAS,
    ) -> None:
        self.kernel = Kernel(seed, shuffled=shuffled, order=order, max_deltas=max_deltas, recorder=recorder)
        self.event_bus = EventBus(self.kernel)
        self.rate_tracker = RateTracker(self.kernel)
        self.budgets = Budgets(self.kernel)
        self.quotas = Quotas(self.kernel)
        self.ledger = Ledger(self.kernel)
        self.artifacts = Artifacts(self.kernel)
        self.costs = Costs(self.rate_tracker, self.budgets, self.quotas)
        self.calendar: Calendar | None = None
        self._places: Places | None = None
        self.around: Callable[[str], Sequence[str]] = _nowhere
        self.stocks: Stocks | None = None
        self.variables: PlaceVariables | None = None
        self._space: Space | None = None
        self.pools: dict[str, Pool] = {}
        self.agents: dict[str, Inhabitant] = {}
        self.actions = ActionRegistry()
        self.services: dict[str, Service] = {}
        self.tasks = Tasks(self)
        self.add_service(self.tasks)
        self.spawner: Callable[..., list[str]] | None = None
        self.held: dict[str, dict[str, int]] = {}  # agent → pool → number of acquired slots
        self.uses: dict[tuple[str, str], list[Use]] = {}  # (agent, pool) → its slots of a preemptive pool
        self.pending: dict[str, PendingAction] = {}  # agent → its waiting action
        self.waits = ActiveWaits(self.kernel)
        self.observations: dict[str, array[float]] = {}
        self.messages = 0  # number of delivered messages
        self.under_way = 0  # number of messages that were sent, and have not arrived
        self.errors: dict[str, tuple[int, str]] = {}  # error text → count, first agent that had it
        self.done: defaultdict[str, int] = defaultdict(int)  # kind → number of successful actions
        self.refused: defaultdict[str, int] = defaultdict(int)
        self.wakeup_counts: dict[tuple[str, str], int] = {}  # (state that was left, cause) → count
        self.crashes = 0  # number of crashes of agents
        self.running = 0  # number of loops that were started and have not stopped
        self.on_all_stopped: Callable[[], None] | None = None
        self.loop_manager: object = None
        self.on_hold = False
        self.ended = False
        self._intake: Intake | None = None
        self._checks: dict[str, Callable[[Any], object]] = {}  # by kind of input
        self._left_at: dict[str, str] = {}  # stopped agent → its last place
        self._groups: dict[str, dict[str, None]] = {}
        self._whole: dict[str, str] = {}  # agent → the group of its whole entry, if a table gives it one of its own
        self._living: dict[str, list[str]] = {}  # group → its live agents, until one is added, removed or shut down
        self._born: dict[str, str] = {}  # agent that was created during the run → the owner of its draws
        self.dispatcher = Dispatcher(self)
        for handler in BUILT_IN.imported().values():
            self.actions.register(handler)

    @property
    def now(self) -> float:
        """Simulated seconds since the start of the run."""
        return to_seconds(self.kernel.now)

    @property
    def places(self) -> Places | None:
        """Where agents stand; None: the world has no places."""
        return self._places

    @places.setter
    def places(self, places: Places | None) -> None:
        if places is not None:
            places.gate = self.kernel
        self._places = places
        self.around = _nowhere if places is None else places.around

    @property
    def space(self) -> Space | None:
        """The space in which agents see each other; None: the world has none."""
        return self._space

    @space.setter
    def space(self, space: Space | None) -> None:
        if space is not None:
            space.gate = self.kernel
        self._space = space

    # -- processes and inputs

    def spawn(self, name: str, process: Coroutine[Any, Any, Any]) -> Actor:
        """Start a process at the present simulated time and return its actor, for `join` and `interrupt`.

        A process is a plain coroutine. An error that it does not catch ends the run, unless an actor waits for the
        process with `join`.
        """
        return self.kernel.spawn(name, process)

    def interrupt(self, actor: Actor, cause: object = None) -> bool:
        """Raise `Interrupt(cause)` in a process at the place where it waits; for agents see `AgentLoop.interrupt`.

        Returns:
            Whether the process gets the interrupt: False if it has ended or is being cancelled.
        """
        return self.kernel.interrupt(actor, cause)

    def attach(self, intake: Intake) -> None:
        """Set the `intake` that queues the inputs to this world; the host that runs the world provides it."""
        self._intake = intake

    def on_input(
        self, kind: str, handler: Callable[[Any], object], check: Callable[[Any], object] | None = None
    ) -> None:
        """Register the handler for a kind of input: it gets the data of the input and can change the world.

        Handlers are registered by kind, not passed to `submit`, so that a replay can apply recorded inputs again.

        Args:
            kind: the kind of input.
            handler: called with the data inside the run.
            check: called with the data by `submit`, in any thread; it raises `UsageError` for data that is refused.
        """
        self.kernel.inputs[kind] = handler
        if check is not None:
            self._checks[kind] = check

    def submit(self, kind: str, data: object = None) -> None:
        """Queue an input, from any thread. It gets a simulated time, is recorded, and is applied inside the run.

        Args:
            kind: the kind of input; see `on_input`.
            data: the data of the input, JSON-like.

        Raises:
            UsageError: if the kind is not registered, its data is refused, or no run is under way.
            ActorError: if the data is not JSON-like.
        """
        if self._intake is None:
            raise UsageError("there is no run to submit an input to", hint="call submit while World.run is under way")
        if kind in self._checks:
            self._checks[kind](data)
        self._intake.submit(kind, data)

    def outside(self) -> bool:
        """Whether the caller is not part of the run: no step, but the host program, perhaps in another thread."""
        intake = self._intake
        return intake is not None and (self.kernel.current is None or intake.in_other_thread())

    def hosted(self) -> bool:
        """Whether the caller is the host program, also before the first run: it cannot await a wait of the kernel."""
        return not self.kernel.running or self.outside()

    @property
    def at_rest(self) -> bool:
        """Whether no call of the host program is queued: before the first run, and when the run is over."""
        return self.ended or not self.outside()

    def call(self, kind: str, data: object, name: str) -> Call:
        """Submit an input of the host program, and return its call, which can be awaited until it has taken effect.

        Args:
            kind: the kind of input.
            data: its data, JSON-like.
            name: what was called, for messages.

        Raises:
            UsageError, ActorError: as `submit`.
        """
        if (intake := self._take_in()) is None:
            self.kernel.acting()  # raises what to do instead
            raise UsageError(f"there is no run to which {name} could be submitted")
        if kind in self._checks:
            self._checks[kind](data)
        return intake.call(kind, data, name)

    def watch(self, name: str, register: Callable[[Callable[[Any], object]], object]) -> Call:
        """Return a wait of the host program; `register` gets the function that the run calls with its value."""
        if (intake := self._take_in()) is None:
            raise UsageError(f"there is no run in which {name} could end")
        return intake.watch(name, register)

    def _take_in(self) -> Intake | None:
        """Return what queues the inputs to this world, or None."""
        return self._intake

    def close(self) -> None:
        """End a run: record all effects in flight as abandoned, then stop all agents."""
        kernel = self.kernel
        kernel.begin_anew()
        with kernel.surroundings():
            with kernel.acting_as(kernel.supervisor):
                kernel.effects.abandon_all()
            for agent in list(self.agents.values()):
                with kernel.acting_as(
                    agent.source or kernel.supervisor
                ):  # so that no key depends on how many others there are
                    agent.terminate("end")
        kernel.drain()

    def stream(self, owner: str, purpose: str = "") -> Stream:
        """Return the random stream of `owner` for `purpose`."""
        return self.kernel.streams.get(owner, purpose)

    def draws(self, owner: str, purpose: str, *key: object) -> Draws:
        """Return the keyed draws of `owner`: they depend on the seed, the owner, the purpose and the key only."""
        return self.kernel.streams.at(self._born.get(owner, owner), purpose, *key)

    def draws_now(self, owner: str, purpose: str = "", turn: int | None = None) -> Draws:
        """Return the draws of `owner` for `purpose` at the present moment; see `Draws.moment`.

        They do not depend on what was drawn at other moments. What an agent draws is therefore the same in two worlds
        that differ in something it did not meet, or met at other moments.

        Args:
            owner: the name of an agent, or of a part of the world.
            purpose: what the draws are for.
            turn: calls with the same turn at one time continue the same draws; None: each call has draws of its own.
        """
        kernel = self.kernel
        return kernel.streams.draws(self._born.get(owner, owner), purpose).moment(kernel.now, turn)

    def draws_as(self, agent_id: str) -> str:
        """Return the owner of the draws of an agent: its birth if it was created during the run, else its name."""
        return self._born.get(agent_id, agent_id)

    def is_born(self, agent_id: str, birth: str | None) -> None:
        """Have an agent that is created during the run draw by its birth, not by its name; None: it is not created.

        A name counts the earlier births of the same parent; `birth` must not depend on them.
        """
        if birth is None:
            self._born.pop(agent_id, None)
        else:
            self._born[agent_id] = birth

    def add(self, agent: Inhabitant) -> None:
        """Add an agent to the world.

        Raises:
            NameTakenError: if an agent or a group with its name exists.
        """
        if self.kernel.current is None:
            self.kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        if agent.agent_id in self.agents or agent.agent_id in self._groups:
            raise NameTakenError(f"the name {agent.agent_id!r} is taken already")
        self.agents[agent.agent_id] = agent
        self._living.pop(agent.group, None)
        self._living.pop(agent.agent_id, None)
        if agent.group == agent.agent_id:
            self._groups[agent.group] = _ALONE
        else:
            if self._groups.get(agent.group, _ALONE) is _ALONE:
                self._groups[agent.group] = dict.fromkeys(self._ids(agent.group))
            self._groups[agent.group][agent.agent_id] = None
        self.rate_tracker.set_group(agent.agent_id, agent.group)

    def add_service(self, service: Service) -> None:
        """Add a service to the world.

        Raises:
            UsageError: if there is one of its name.
        """
        if service.name in self.services:
            raise UsageError(f"this world already has {service.name}")
        self.services[service.name] = service

    def leave(self, agent: Inhabitant) -> None:
        """Release all slots that a stopped agent holds, and remove it from places and space."""
        if agent.agent_id in self.held:
            for name, amount in list(self.held[agent.agent_id].items()):
                give_back(self, agent, name, amount)
        source, places = agent.source, self._places
        if source is not None and source.held is not None:
            release_all(source)  # those that its own code acquired
        if places is not None and (here := places.where(agent.agent_id)) is not None:
            places.remove(agent.agent_id)
            self._left_at[agent.agent_id] = here
        if self._space is not None:
            self._space.leave(agent.agent_id)

    def enter(self, agent: Inhabitant) -> None:
        """Put an agent that starts again back at the place where it stopped."""
        node = self._left_at.pop(agent.agent_id, None)
        if node is not None and self._places is not None:
            self._places.place(agent.agent_id, node)

    def group(self, name: str) -> list[str]:
        """Return the ids of the live agents of a group, in the order in which they were added."""
        intake = self._intake  # in place, as `outside`: agents ask this in their iterations
        if intake is not None and (self.kernel.current is None or intake.in_other_thread()):
            # a host program reads at once what it has set
            return [id for id in self._ids(name) if self.agents[id].alive]
        living = self._living.get(name)
        return list(self.living(name) if living is None else living)

    def living(self, group: str) -> Sequence[str]:
        """Return what `group` returns, for a step of the run that only reads it: the list belongs to this world."""
        living = self._living.get(group)
        if living is None:
            living = [id for id in self._ids(group) if self.agents[id].alive]
            if living:  # an expression can ask for any name
                self._living[group] = living
        return living

    def add_to_group(self, agent: Inhabitant, group: str) -> None:
        """Have an agent belong to a second group as well: that of its entry, where a table gives it one of its own."""
        if group != agent.group:
            self._whole[agent.agent_id] = group
            self._groups.setdefault(group, {})[agent.agent_id] = None
            self._living.pop(group, None)

    def groups_of(self, agent: Inhabitant) -> tuple[str, ...]:
        """Return the groups to which an agent belongs: its own, and that of its entry if it is another one."""
        whole = self._whole.get(agent.agent_id)
        return (agent.group,) if whole is None else (agent.group, whole)

    def in_group(self, agent: Inhabitant, group: str) -> bool:
        """Return whether an agent belongs to a group."""
        return agent.group == group or self._whole.get(agent.agent_id) == group

    def life_changed(self, agent: Inhabitant) -> None:
        """Note that an agent has been shut down, or lives again."""
        self._living.pop(agent.group, None)
        if self._whole and agent.agent_id in self._whole:
            self._living.pop(self._whole[agent.agent_id], None)

    def balance(self, account: str) -> float:
        """Return the balance of an account in units; 0 if the account does not exist."""
        return (self.ledger.find(account) or 0) / MICRO

    def remaining(self, agent_id: str, name: str) -> float:
        """Return what an agent has left of a budget (in units), a quota or a rate limit."""
        if name in self.budgets:
            return self.budgets.remaining(agent_id, name) / MICRO
        if name in self.quotas:
            return self.quotas.remaining(agent_id, name)
        return self.rate_tracker.get_remaining(agent_id, name)

    def readable(self, agent_id: str, artifact: str) -> Any:
        """Return the content of an artifact if the agent has read access, otherwise None."""
        stored = self.artifacts.get(artifact)
        agent = self.agents[agent_id]
        return stored.content if stored and stored.allows(stored.readers, agent_id, self.groups_of(agent)) else None

    def members(self, name: str) -> list[Inhabitant]:
        """Return the agents of a group, including stopped ones, in the order in which they were added."""
        return [self.agents[id] for id in self._ids(name)]

    def _ids(self, name: str) -> Collection[str]:
        ids = self._groups.get(name, _ALONE)
        return (name,) if ids is _ALONE and name in self.agents else ids

    def forget(self, agent: Inhabitant) -> None:
        """Remove a stopped agent; the record keeps its events."""
        del self.agents[agent.agent_id]
        self._living.pop(agent.group, None)
        self._living.pop(agent.agent_id, None)
        self._groups[agent.group].pop(agent.agent_id, None)
        if (whole := self._whole.pop(agent.agent_id, None)) is not None:
            self._living.pop(whole, None)
            self._groups[whole].pop(agent.agent_id, None)
        self.rate_tracker.forget(agent.agent_id)
        self.event_bus.forget(agent.agent_id)
        self.waits.forget(agent.agent_id)
        self._left_at.pop(agent.agent_id, None)
        self.kernel.streams.forget(self._born.pop(agent.agent_id, agent.agent_id))

    # -- actions (see `Dispatcher`)

    def act(self, agent: Inhabitant, action: Action) -> ActionResult:
        """Check and apply an action in one step, and record the result."""
        return self.dispatcher.apply(agent, action, self.actions.find(action.kind))

    async def execute(self, agent: Inhabitant, action: Action) -> ActionResult:
        """Execute an action that can wait: first wait, then check and apply it in one step.

        An action that is cancelled during its wait has no effect.
        """
        handler = self.actions.find(action.kind)
        if handler is None or handler.wait is None:
            return self.dispatcher.apply(agent, action, handler)
        return await self.dispatcher.wait_and_apply(agent, action, handler)

    # -- measurements

    def count_error(self, error: str, agent_id: str) -> None:
        """Count a failure by its error text, and keep the first agent that had it."""
        count, first = self.errors.get(error, (0, agent_id))
        if count or len(self.errors) < _MANY_ERRORS:
            self.errors[error] = (count + 1, first)

    def observe(self, agent_id: str, name: str, value: float) -> None:
        """Record an observation of an agent; the result of the run has the distribution of each name.

        Raises:
            UsageError: if the name is not a string, or the value is not finite.
        """
        number = float(value)  # raises for a value that is not a number, before anything is recorded
        if name.__class__ is not str or not math.isfinite(number):
            raise UsageError(
                f"{agent_id}: an observation is a name and a finite number, not {name!r:.60}, {value!r:.60}"
            )
        kept = value if value.__class__ in (int, float) else number
        self.kernel.emit(Observed.TOPIC, Observed(name=name, value=kept), agent_id)
        self.observations.setdefault(name, array("d")).append(number)

    def service_states(self) -> Mapping[str, Any]:
        """Return the states of all services that have one, as the digest has them."""
        states = {name: service.state() for name, service in sorted(self.services.items())}
        return {name: recordable(state, name) for name, state in states.items() if state is not None}

    def digest(self) -> Mapping[str, Any]:
        """Return the final state of all parts, for the hash of the run."""
        space = {} if self.space is None else {"space": self.space.state()}
        services = self.service_states()
        stocks = {} if self.stocks is None else {"stocks": self.stocks.state()}
        variables = {} if self.variables is None else {"variables": self.variables.state()}
        return {
            **space,
            **stocks,
            **variables,
            **({"services": services} if services else {}),
            "agents": {id: agent.state_for_digest() for id, agent in sorted(self.agents.items())},
            "artifacts": self.artifacts.state(),
            "budgets": self.budgets.state(),
            "draws": self.kernel.streams.fingerprints(),
            "ledger": self.ledger.state(),
            "places": self.places.state() if self.places else {},
            "pools": {name: recordable(pool.state(), name) for name, pool in sorted(self.pools.items())},
            "quotas": self.quotas.state(),
            "rates": self.rate_tracker.state(),
            "tasks": self.tasks.records(),
            "time": self.kernel.now,
        }
