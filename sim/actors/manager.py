"""The manager of all agent loops of a world."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Final, Literal

import attrs

from sim.actors import actions
from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.inputs import Inputs, PersonAnswer
from sim.actors.loop import AgentLoop
from sim.actors.mailbox import Unmatched
from sim.actors.state import AgentState
from sim.base.errors import NameTakenError, UsageError
from sim.kernel import Duration, Timer, to_duration, to_ns
from sim.kernel.codec import JsonObject
from sim.kernel.ports import DONE, Call
from sim.world import World
from sim.world.action import near


@attrs.frozen
class Totals:
    """Counts over a set of loops.

    Attributes:
        loops: number of loops.
        iterations: iterations that began.
        errors: failures, as in `Lifecycle.failures`.
        wakeups: how often a loop left SLEEPING or PAUSED.
        dropped: messages that a full mailbox dropped to accept newer ones.
        dead: dead letters: messages that were in a mailbox when its agent stopped, or arrived later.
        unmatched: messages that no rule used.
    """

    loops: int = 0
    iterations: int = 0
    errors: int = 0
    wakeups: int = 0
    dropped: int = 0
    dead: int = 0
    unmatched: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Totals(*(mine + theirs for mine, theirs in pairs))

    def plus(self, loop: AgentLoop) -> "Totals":
        """Return the totals with the counts of one more loop."""
        mailbox = loop.agent.mailbox
        return Totals(
            loops=self.loops + 1,
            iterations=self.iterations + loop.iteration_count,
            errors=self.errors + loop.failures,
            wakeups=self.wakeups + loop.wakeups,
            dropped=self.dropped + mailbox.dropped,
            dead=self.dead + mailbox.dead,
            unmatched=self.unmatched + mailbox.unmatched,
        )


_NO_TOTALS: Final = Totals()

Why = Literal["no rule", "dropped", "failed", "waiting"]
"""Why messages were not read: no rule can read them, `unmatched: drop` or `fail`, or they waited to the end."""

MOST_UNREAD: Final = 100
"""The most rows of unread messages; further ones are counted in one row."""


@attrs.frozen
class UnreadMessages:
    """Messages of one topic that the agents of one entry did not read.

    Attributes:
        agent: the scenario entry of the agents, or the name of an agent without one; `...`: of several.
        topic: their topic; `...`: of several.
        count: how many they are.
        why: why they were not read.
    """

    agent: str
    topic: str
    count: int
    why: Why


class AgentLoopManager:
    """Creates, starts and stops the loops of a world, and registers the actions `sleep`, `rest` and `stop`."""

    def __init__(self, world: World) -> None:
        if not isinstance(world, World):
            raise UsageError(f"a manager of loops needs a world, not {world!r:.60}")
        if world.loop_manager is not None:
            raise UsageError("this world already has a manager of loops", hint="AgentLoopManager.of(world) returns it")
        self.world = world
        self.ticking = False  # whether loops that are created during the run start in tick mode
        self.kinds: dict[str, Callable[[str, World], Agent]] = {}  # name → constructor, for `Control.create_loop`
        self.entries: dict[str, Callable[[int, JsonObject], object]] = {}  # name → spawner, for `Control.spawn`
        self.check_set: Callable[[JsonObject], object] | None = None  # checks values, for `Control.set`
        self.ended: dict[str, Totals] = {}  # group → counts of its removed loops
        self._unread: dict[tuple[str, str, Why], int] = {}  # what removed loops did not read
        self.answers: dict[str, PersonAnswer] = {}  # by row of the inbox: the outcomes of requests of people
        self.on_forgotten: Callable[[AgentLoop], None] | None = None  # called with each loop that is removed
        self._loops: dict[str, AgentLoop] = {}
        self._made = 0
        self._stop_timer: Timer | None = None
        for handler in (actions.sleep, actions.rest, actions.stop):
            world.actions.register(handler)
        Inputs(self)
        world.loop_manager = self

    @classmethod
    def of(cls, world: World) -> "AgentLoopManager":
        """Return the manager of a world; make one if it has none."""
        manager = getattr(world, "loop_manager", None)
        return manager if isinstance(manager, cls) else cls(world)

    def create_loop(self, agent: Agent, config: AgentLoopConfig | None = None) -> AgentLoop:
        """Create the loop of an agent and add the agent to the world.

        Raises:
            NameTakenError: if this agent, or another agent with the same name, already has a loop.
            UsageError: if it is no agent of this world, or `config` is no `AgentLoopConfig`.
        """
        if not isinstance(agent, Agent):
            raise UsageError(
                f"create_loop needs an agent, not {agent!r:.60}", hint='write create_loop(Worker("ann", world))'
            )
        if agent.world is not self.world:
            raise UsageError(f"{agent.agent_id} is an agent of another world than this manager")
        if config is not None and not isinstance(config, AgentLoopConfig):
            raise UsageError(
                f"the settings of a loop are an AgentLoopConfig, not {config!r:.60}",
                hint="write create_loop(agent, sim.AgentLoopConfig(min_loop_delay=1))",
            )
        self.world.kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        if agent.agent_id in self._loops:
            raise NameTakenError(f"there is a loop for agent {agent.agent_id!r} already")
        return self.admit(agent, config or AgentLoopConfig())

    def admit(self, agent: Agent, config: AgentLoopConfig) -> AgentLoop:
        """Do as `create_loop` for an agent that was made for this world, and has no loop."""
        if self.world.agents.get(agent.agent_id) is not agent:  # else a program has added it without a loop
            self.world.add(agent)
        loop = self._loops[agent.agent_id] = AgentLoop(agent, self.world, config)
        self._made += 1
        return loop

    def start(self, loop: AgentLoop, *, delay_ns: int = 0) -> None:
        """Start a loop in the mode of this run, `delay_ns` simulated nanoseconds before its first iteration."""
        loop.start_ticking(delay_ns=delay_ns) if self.ticking else loop.start_now(delay_ns=delay_ns)

    def remove_loop(self, agent_id: str) -> Call:
        """Stop an agent and remove it from the world; only its counts are kept. The call need not be awaited.

        Raises:
            UsageError: if there is no agent with this name.
        """
        loop = self._loops.get(agent_id)
        if loop is None:
            raise UsageError(f"there is no agent {agent_id!r} to remove{near(agent_id, self._loops)}")
        if self.world.outside():
            return self.world.call("remove_loop", {"agent": agent_id}, f"removal of {agent_id}")
        self.world.kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        if loop.stopped:
            self._forget(loop)
        else:
            loop.on_stopped = self._forget
            loop.request_stop("removed")
        return DONE

    def request_stop_all(self) -> None:
        """Begin to stop all loops: at once between two iterations, otherwise after the current iteration."""
        kernel, divided = self.world.kernel, "islands" in self.world.services
        for loop in list(self._loops.values()):
            # On islands, no key depends on how many agents there are on others.
            with kernel.acting_as(kernel.source_for(loop.agent_id, "host")) if divided else nullcontext():
                loop.request_stop("stop")

    def start_spawned(self, loop: AgentLoop, delay_ns: int) -> None:
        """Start a loop that was created during the run; when it stops, it is removed and only its counts are kept."""
        loop.on_stopped = self._forget
        self.start(loop, delay_ns=delay_ns)

    def _forget(self, loop: AgentLoop) -> None:
        """Remove an agent that has stopped. A program that has kept it can still ask it, and its loop."""
        del self._loops[loop.agent_id]
        self.world.forget(loop.agent)
        if loop.agent.mailbox.offered is not None:
            _count_unread(self._unread, loop)
        self.ended[loop.agent.group] = self.ended.get(loop.agent.group, _NO_TOTALS).plus(loop)
        if self.on_forgotten is not None:
            self.on_forgotten(loop)

    def check_states(self) -> None:
        """Count values that are not JSON in agents' states as failures, before the final state is recorded."""
        kernel = self.world.kernel
        kernel.begin_anew()
        for loop in self._loops.values():
            if loop.agent.state:
                with kernel.acting_as(loop.actor):
                    loop.check_state()

    async def start_all(self, *, alive: bool = False) -> None:
        """Start all stopped loops, in the order of their creation, in the mode of this run.

        Args:
            alive: leave out agents that were shut down.
        """
        for loop in list(self._loops.values()):
            if not loop.stopped or (alive and not loop.agent.alive):
                continue
            if self.world.outside():
                await loop.start()
            else:
                with self.world.kernel.acting_as(loop.actor):  # so that no key depends on how many others there are
                    self.start(loop)

    async def stop_all(self, timeout: Duration = 10.0) -> None:
        """Stop all loops at one instant; current iterations have `timeout` (simulated) to end, then are cancelled.

        A host program can call it as well, as `AgentLoop.stop`.
        """
        if self.world.hosted():
            if self.world.at_rest and all(loop.stopped for loop in self._loops.values()):
                return
            await self.world.call("stop_all", {"timeout_ns": to_ns(timeout)}, "stop of all agents")
            return
        if self._stop_timer is not None:
            self._stop_timer.cancel()
            self._stop_timer = None
        loops = [loop for loop in self._loops.values() if loop.state is not AgentState.STOPPED]
        deadline = self.world.kernel.now + to_ns(timeout)
        for loop in loops:
            loop.request_stop("stop")
        for loop in loops:
            await loop.stop(to_duration(max(0, deadline - self.world.kernel.now)))

    async def stop_at(self, time_ns: int) -> None:
        """Begin to stop all loops at a simulated time (nanoseconds), before anything else that is due then.

        An earlier `stop_all` calls it off.
        """
        if self.world.outside():
            await self.world.call("stop_at", {"time_ns": time_ns}, "stop of all agents")
        else:
            self.request_stop_at(time_ns)

    def request_stop_at(self, time_ns: int) -> None:
        """Do as `stop_at`, inside the run."""
        self._stop_timer = self.world.kernel.call_at(time_ns, self.request_stop_all, priority=-1)

    def get_loop(self, agent_id: str) -> AgentLoop | None:
        """Return the loop of an agent, or None."""
        return self._loops.get(agent_id)

    def get_all_states(self) -> dict[str, AgentState]:
        """Return the state of each loop by agent id."""
        return {agent_id: loop.state for agent_id, loop in self._loops.items()}

    @property
    def loops(self) -> Mapping[str, AgentLoop]:
        """All loops by agent id, in the order of their creation."""
        return self._loops

    @property
    def running_count(self) -> int:
        """The number of loops that are running, sleeping or paused."""
        return sum(loop.is_running for loop in self._loops.values())

    @property
    def made(self) -> int:
        """The number of loops that were created."""
        return self._made

    def totals(self) -> "Totals":
        """Return the counts over all loops, including removed ones."""
        totals = sum(self.ended.values(), Totals())
        for loop in self._loops.values():
            totals = totals.plus(loop)
        return totals

    def unread(self) -> list[UnreadMessages]:
        """Return the messages that agents did not read, the most frequent first, also of removed loops."""
        counts = dict(self._unread)
        for loop in self._loops.values():
            _count_unread(counts, loop)
        rows = [UnreadMessages(agent, topic, count, why) for (agent, topic, why), count in counts.items() if count]
        rows.sort(key=lambda row: (-row.count, row.agent, row.topic, row.why))
        shown, others = rows[:MOST_UNREAD], rows[MOST_UNREAD:]
        for why in dict.fromkeys(row.why for row in others):
            shown.append(UnreadMessages("...", "...", sum(row.count for row in others if row.why == why), why))
        return shown

    def held_up(self) -> dict[str, int]:
        """Return how many senders wait for room that only messages which no rule has read could give, by receiver."""
        return {name: count for name, loop in self._loops.items() if (count := loop.agent.mailbox.held_up)}

    def due_in_ticks(self, *, refreshed: bool) -> bool:
        """Return whether a tick, now or later, begins an iteration of any agent.

        Args:
            refreshed: whether ticks renew capacity for which agents are paused.
        """
        return any(loop.due_in_ticks(refreshed=refreshed) for loop in self._loops.values())

    def states(self) -> dict[str, int]:
        """Return the number of loops in each state."""
        counts = dict.fromkeys(AgentState, 0)
        counts[AgentState.STOPPED] = sum(ended.loops for ended in self.ended.values())
        for loop in self._loops.values():
            counts[loop.state] += 1
        return {str(state): count for state, count in counts.items()}


_WHY: Final[Mapping[Unmatched, Why]] = {"keep": "no rule", "drop": "dropped", "fail": "failed"}


def _count_unread(counts: dict[tuple[str, str, Why], int], loop: AgentLoop) -> None:
    """Add the messages that the agent of a loop did not read, by entry, topic and reason."""
    offered = loop.agent.mailbox.offered
    if offered is None:
        return
    agent = loop.agent.entry or loop.agent_id
    reasons: tuple[tuple[Why, dict[str, int]], ...] = (
        (_WHY[loop.config.unmatched], offered.unread),
        ("waiting", offered.left),
    )
    for why, topics in reasons:
        for topic, count in topics.items():
            key: tuple[str, str, Why] = (agent, topic, why)
            counts[key] = counts.get(key, 0) + count
