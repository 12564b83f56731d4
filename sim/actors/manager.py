"""The manager of all agent loops of a world."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from sim.actors import actions
from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.inputs import Inputs, PersonAnswer
from sim.actors.loop import AgentLoop
from sim.actors.state import AgentState
from sim.errors import UsageError
from sim.kernel import Duration, to_duration, to_ns
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
        return Totals(
            self.loops + 1,
            self.iterations + loop.iteration_count,
            self.errors + loop.failures,
            self.wakeups + loop.wakeups,
            self.dropped + loop.agent.mailbox.dropped,
            self.dead + loop.agent.mailbox.dead,
            self.unmatched + loop.agent.mailbox.unmatched,
        )


class AgentLoopManager:
    """Creates, starts and stops the loops of a world, and registers the actions `sleep`, `rest` and `stop`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ticking = False  # whether loops that are created during the run start in tick mode
        self.kinds: dict[str, Callable[[str, World], Agent]] = {}  # name → constructor, for `Control.create_loop`
        self.entries: dict[str, Callable[[int, Mapping[str, Any]], object]] = {}  # name → spawner, for `Control.spawn`
        self.check_set: Callable[[Mapping[str, Any]], object] | None = None  # checks values, for `Control.set`
        self.ended: dict[str, Totals] = {}  # group → counts of its removed loops
        self.answers: dict[str, PersonAnswer] = {}  # by row of the inbox: what came of what a person asked for
        self.on_forgotten: Callable[[AgentLoop], None] | None = None  # called with each loop that is removed
        self._loops: dict[str, AgentLoop] = {}
        self._made = 0
        for handler in (actions.sleep, actions.rest, actions.stop):
            world.actions.register(handler)
        Inputs(self)

    def create_loop(self, agent: Agent, config: AgentLoopConfig | None = None) -> AgentLoop:
        """Create the loop of an agent and add the agent to the world.

        Raises:
            UsageError: if this agent, or another agent with the same name, already has a loop.
        """
        if agent.agent_id in self._loops:
            raise UsageError(f"there is a loop for agent {agent.agent_id!r} already")
        self.world.add(agent)
        loop = AgentLoop(agent, self.world, config or AgentLoopConfig())
        self._loops[agent.agent_id] = loop
        self._made += 1
        return loop

    def start(self, loop: AgentLoop) -> None:
        """Start a loop in the mode of this run."""
        loop.start_ticking() if self.ticking else loop.start_now()

    def remove_loop(self, agent_id: str) -> None:
        """Stop an agent and remove it from the world; only its counts are kept.

        Raises:
            UsageError: if there is no agent with this name.
        """
        loop = self._loops.get(agent_id)
        if loop is None:
            raise UsageError(f"there is no agent {agent_id!r} to remove{near(agent_id, self._loops)}")
        if loop.stopped:
            self._forget(loop)
        else:
            loop.on_stopped = self._forget
            loop.request_stop("removed")

    def request_stop_all(self) -> None:
        """Begin to stop all loops: at once between two iterations, otherwise after the current iteration."""
        for loop in list(self._loops.values()):
            loop.request_stop("stop")

    def start_spawned(self, loop: AgentLoop, delay_ns: int) -> None:
        """Start a loop that was created during the run; when it stops, it is removed and only its counts are kept."""
        loop.on_stopped = self._forget
        loop.start_ticking(delay_ns=delay_ns) if self.ticking else loop.start_now(delay_ns=delay_ns)

    def _forget(self, loop: AgentLoop) -> None:
        del self._loops[loop.agent_id]
        self.world.forget(loop.agent)
        self.ended[loop.agent.group] = self.ended.get(loop.agent.group, Totals()).plus(loop)
        if self.on_forgotten is not None:
            self.on_forgotten(loop)

    def check_states(self) -> None:
        """Count values that are not JSON in agents' states as failures, before the final state is recorded."""
        for loop in self._loops.values():
            if loop.agent.state:
                loop.check_state()

    async def start_all(self) -> None:
        """Start all stopped loops, in the order of their creation."""
        for loop in list(self._loops.values()):
            await loop.start()

    async def stop_all(self, timeout: Duration = 10.0) -> None:
        """Stop all loops at one instant; current iterations have `timeout` (simulated) to end, then are cancelled."""
        loops = [loop for loop in self._loops.values() if loop.state is not AgentState.STOPPED]
        deadline = self.world.kernel.now + to_ns(timeout)
        for loop in loops:
            loop.request_stop("stop")
        for loop in loops:
            await loop.stop(to_duration(max(0, deadline - self.world.kernel.now)))

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
