"""The world: what agents share. It holds the parts; the dispatcher is the one way to change it."""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol

import attrs

from sim.errors import UsageError
from sim.events import EventBus
from sim.kernel import Actor, Kernel, Recorder, Stream, to_seconds
from sim.kernel.codec import recordable
from sim.kernel.ports import Intake
from sim.kernel.rng import KeyedStream
from sim.permissions import Permission
from sim.resources import MICRO, Budgets, Ledger, Pool, Quotas, RateTracker, Use
from sim.world.action import BUILT_IN, Action, ActionRegistry, ActionResult
from sim.world.actions.pools import give_back
from sim.world.artifact import Artifacts
from sim.world.costs import Costs
from sim.world.dispatcher import Dispatcher, Standing
from sim.world.message import Message
from sim.world.places import Places
from sim.world.space import Space
from sim.world.task import Task
from sim.world.tool import Tool, ToolFunction
from sim.world.waits import KnownWaits


class Inhabitant(Protocol):
    """What a world knows of an agent."""

    agent_id: str
    group: str
    permission: Permission
    alive: bool
    state: dict[str, Any]

    def receive(self, message: Message, /) -> str | None:
        """Take a message; return why it was refused, or None."""

    async def wait_for_room(self) -> None:
        """Wait until a message would be taken, if this agent's policy is to block."""

    def terminate(self, reason: str, /) -> None:
        """Stop now; an iteration under way is cancelled between two steps."""

    def state_for_digest(self) -> Any:
        """Return all that makes up the agent's state, JSON-like."""


_ALONE: dict[str, None] = {}  # the group of an agent that has none but itself: shared by all of them, never changed
_MANY_ERRORS = 1000  # different ones that are counted


class World:
    """One shared world.

    Args:
        seed: of all random streams.
        recorder: keeps what happens; by default nothing does.
        shuffled: break ties by hash instead of by order of declaration.
        max_deltas: rounds at one instant before it counts as a livelock.

    Attributes:
        dispatcher: the one way to change it, by actions.
        kernel, event_bus, rate_tracker, budgets, quotas, ledger, artifacts, costs, pools, places, space: its parts.
        agents: by id, in the order in which they came.
        actions: the kinds of action that agents can take.
        services: what higher layers offer to the code of agents, by name.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        recorder: Recorder | None = None,
        shuffled: bool = False,
        max_deltas: int = 10_000,
    ) -> None:
        self.kernel = Kernel(seed, shuffled=shuffled, max_deltas=max_deltas, recorder=recorder)
        self.event_bus = EventBus(self.kernel)
        self.rate_tracker = RateTracker(self.kernel)
        self.budgets = Budgets(self.kernel)
        self.quotas = Quotas()
        self.ledger = Ledger()
        self.artifacts = Artifacts()
        self.costs = Costs(self.rate_tracker, self.budgets, self.quotas)
        self.places: Places | None = None
        self.space: Space | None = None
        self.pools: dict[str, Pool] = {}
        self.agents: dict[str, Inhabitant] = {}
        self.actions = ActionRegistry()
        self.tools: dict[str, Tool | ToolFunction] = {}  # by name: see `Tool`
        self.services: dict[str, object] = {}
        self.tasks: dict[int, Task] = {}
        self.held: dict[str, dict[str, int]] = {}  # agent → pool → what it has acquired
        self.uses: dict[tuple[str, str], list[Use]] = {}  # (agent, pool) → its slots of a preemptive pool
        self.standing: dict[str, Standing] = {}  # agent → the action that it waits for
        self.waits = KnownWaits(self.kernel)
        self.observations: dict[str, array[float]] = {}
        self.messages = 0  # taken
        self.errors: dict[str, tuple[int, str]] = {}  # how often, and who had it first
        self.done: defaultdict[str, int] = defaultdict(int)  # how many actions were done, by kind
        self.refused: defaultdict[str, int] = defaultdict(int)
        self.wakeup_counts: dict[tuple[str, str], int] = {}  # by the state that was left, and the cause
        self.crashes = 0  # loops that were stopped because they failed too often, or ended in an error
        self.running = 0  # loops that have been started and have not stopped
        self.on_all_stopped: Callable[[], None] | None = None
        self._intake: Intake | None = None
        self._left_at: dict[str, str] = {}  # where stopped agents stood
        self._groups: dict[str, dict[str, None]] = {}
        self.dispatcher = Dispatcher(self)
        for handler in BUILT_IN.values():
            self.actions.register(handler)

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return to_seconds(self.kernel.now)

    # -- processes, and calls from outside

    def spawn(self, name: str, process: Coroutine[Any, Any, Any]) -> Actor:
        """Start a process, a plain coroutine, at this instant, and return its actor, for `join` and `interrupt`.

        An error that it does not catch, and that no actor waits for (`join`), ends the run.
        """
        return self.kernel.spawn(name, process)

    def interrupt(self, actor: Actor, cause: object = None) -> bool:
        """Raise `Interrupt(cause)` in a process where it waits; see `Kernel.interrupt`, and `AgentLoop.interrupt`.

        Returns:
            Whether it gets the interrupt: not if it has ended or is being cancelled.
        """
        return self.kernel.interrupt(actor, cause)

    def attach(self, intake: Intake) -> None:
        """Let calls from outside go through `intake`, the host that runs this world."""
        self._intake = intake

    def on_input(self, kind: str, handler: Callable[[Any], object]) -> None:
        """Say what a call from outside of this kind does: `handler` gets its data, and may change the world.

        By kind, and not by `submit`, so that a run that is made again from its record can do it again.
        """
        self.kernel.inputs[kind] = handler

    def submit(self, kind: str, data: object = None) -> None:
        """Queue a call from outside, from any thread: it is stamped, recorded, and applied inside the run.

        Args:
            kind: what it is; see `on_input`.
            data: JSON-like.

        Raises:
            UsageError: if there is no such kind, or no run.
            ActorError: if the data is not JSON-like.
        """
        if self._intake is None:
            raise UsageError("there is no run to submit to", hint="call submit while World.run is under way")
        self._intake.submit(kind, data)

    def close(self) -> None:
        """End a run: effects in flight are abandoned, and recorded so, and then all agents are stopped."""
        kernel = self.kernel
        with kernel.acting_as(kernel.supervisor):
            kernel.effects.abandon_all()
            for agent in list(self.agents.values()):
                agent.terminate("end")
        kernel.drain()

    def stream(self, owner: str, purpose: str = "") -> Stream:
        """Return the random stream of `owner` for `purpose`."""
        return self.kernel.streams.get(owner, purpose)

    def draws(self, owner: str, purpose: str, *key: object) -> KeyedStream:
        """Return the random draws of `owner` for one thing: they depend on the seed and the arguments alone."""
        return self.kernel.streams.at(owner, purpose, *key)

    def add(self, agent: Inhabitant) -> None:
        """Let an agent into the world.

        Raises:
            UsageError: if there is one of its id, or a group of that name.
        """
        if agent.agent_id in self.agents or agent.agent_id in self._groups:
            raise UsageError(f"the name {agent.agent_id!r} is taken already")
        self.agents[agent.agent_id] = agent
        if agent.group == agent.agent_id:
            self._groups[agent.group] = _ALONE
        else:
            if self._groups.get(agent.group, _ALONE) is _ALONE:
                self._groups[agent.group] = dict.fromkeys(self._ids(agent.group))
            self._groups[agent.group][agent.agent_id] = None
        self.rate_tracker.set_group(agent.agent_id, agent.group)

    def leave(self, agent: Inhabitant) -> None:
        """Let go of what a stopped agent held in pools, and take it off the map."""
        for name, amount in list(self.held.get(agent.agent_id, {}).items()):
            give_back(self, agent.agent_id, name, amount)
        if self.places is not None and (here := self.places.where(agent.agent_id)) is not None:
            self.places.remove(agent.agent_id)
            self._left_at[agent.agent_id] = here
        if self.space is not None:
            self.space.leave(agent.agent_id)

    def enter(self, agent: Inhabitant) -> None:
        """Put an agent that is started anew back where it stood when it stopped."""
        node = self._left_at.pop(agent.agent_id, None)
        if node is not None and self.places is not None:
            self.places.place(agent.agent_id, node)

    def group(self, name: str) -> list[str]:
        """Return the ids of a group's agents that are alive, in the order in which they came."""
        return [id for id in self._ids(name) if self.agents[id].alive]

    def balance(self, account: str) -> float:
        """Return the balance of an account in units; 0 if there is none."""
        return self.ledger.balance(account) / MICRO if account in self.ledger else 0.0

    def remaining(self, agent_id: str, name: str) -> float:
        """Return what is left to an agent of a rate limit, budget (units) or quota."""
        if name in self.budgets:
            return self.budgets.remaining(agent_id, name) / MICRO
        if name in self.quotas:
            return self.quotas.remaining(agent_id, name)
        return self.rate_tracker.get_remaining(agent_id, name)

    def readable(self, agent_id: str, artifact: str) -> Any:
        """Return the content of an artifact if the agent may read it, else None."""
        found = self.artifacts.get(artifact)
        agent = self.agents[agent_id]
        return found.content if found and found.allows(found.readers, agent_id, agent.group) else None

    def members(self, name: str) -> list[Inhabitant]:
        """Return a group's agents, stopped ones too, in the order in which they came."""
        return [self.agents[id] for id in self._ids(name)]

    def _ids(self, name: str) -> Collection[str]:
        ids = self._groups.get(name, _ALONE)
        return (name,) if ids is _ALONE and name in self.agents else ids

    def forget(self, agent: Inhabitant) -> None:
        """Drop a stopped agent that was made during the run: what it did stays in the record."""
        del self.agents[agent.agent_id]
        self._groups[agent.group].pop(agent.agent_id, None)
        self.rate_tracker.forget(agent.agent_id)
        self.event_bus.forget(agent.agent_id)
        self.waits.forget(agent.agent_id)
        self._left_at.pop(agent.agent_id, None)

    # -- actions: see `Dispatcher`

    def act(self, agent: Inhabitant, action: Action) -> ActionResult:
        """Check and apply an action in one step, and record what came of it."""
        return self.dispatcher.apply(agent, action, self.actions.find(action.kind))

    async def execute(self, agent: Inhabitant, action: Action) -> ActionResult:
        """Do an action that may take time or stand in line: wait first, then check and apply in one step.

        Cancelled while waiting, the action did not happen.
        """
        handler = self.actions.find(action.kind)
        if handler is None or handler.wait is None:
            return self.dispatcher.apply(agent, action, handler)
        return await self.dispatcher.wait_and_apply(agent, action, handler)

    # -- what is measured

    def count_error(self, error: str, agent_id: str) -> None:
        """Count a failed iteration by what went wrong, and remember who had it first."""
        count, first = self.errors.get(error, (0, agent_id))
        if count or len(self.errors) < _MANY_ERRORS:
            self.errors[error] = (count + 1, first)

    def observe(self, agent_id: str, name: str, value: float) -> None:
        """Record a number that an agent observed; the run's summary says how they are distributed."""
        number = float(value)  # refuses what cannot be recorded before anything is
        if name.__class__ is not str or not math.isfinite(number):
            raise UsageError(
                f"{agent_id}: an observation is a name and a finite number, not {name!r:.60}, {value!r:.60}"
            )
        kept = value if value.__class__ in (int, float) else number
        self.kernel.emit("observation", {"name": name, "value": kept}, agent_id)
        self.observations.setdefault(name, array("d")).append(number)

    def digest(self) -> Mapping[str, Any]:
        """Return the final state of everything, for the hash of the run."""
        space = {} if self.space is None else {"space": self.space.state()}
        return {
            **space,
            "agents": {id: agent.state_for_digest() for id, agent in sorted(self.agents.items())},
            "artifacts": self.artifacts.state(),
            "budgets": self.budgets.state(),
            "draws": self.kernel.streams.fingerprints(),
            "ledger": self.ledger.state(),
            "places": self.places.state() if self.places else {},
            "pools": {name: recordable(pool.state(), name) for name, pool in sorted(self.pools.items())},
            "quotas": self.quotas.state(),
            "rates": self.rate_tracker.state(),
            "tasks": {str(id): attrs.asdict(task) for id, task in self.tasks.items()},
            "time": self.kernel.now,
        }
