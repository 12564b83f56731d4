"""The manager of all agent loops of a world (seed 004)."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from sim.actors import actions
from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.inputs import Inputs
from sim.actors.loop import AgentLoop
from sim.actors.state import AgentState
from sim.errors import UsageError
from sim.kernel import Duration, to_ns, to_seconds
from sim.world import World
from sim.world.action import near


@attrs.frozen
class Totals:
    """What loops have done.

    Attributes:
        loops: how many they are.
        iterations: that were begun.
        errors: how many of these failed.
        wakeups: how often one left SLEEPING or PAUSED.
        dropped: messages that gave way to newer ones.
        dead: messages that were left, or came, when an agent had stopped.
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
        """Return the totals with one more loop."""
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
    """Makes, starts and stops the loops of a world, and teaches it the actions `sleep` and `stop`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ticking = False  # how loops that are made during the run are started
        self.kinds: dict[str, Callable[[str, World], Agent]] = {}  # what `Control.create_loop` can make, by name
        self.entries: dict[str, Callable[[int, Mapping[str, Any]], object]] = {}  # what `Control.spawn` starts, by name
        self.ended: dict[str, Totals] = {}  # of loops that are kept no more, by group
        self.on_forgotten: Callable[[AgentLoop], None] | None = None  # called with a loop that is kept no more
        self._loops: dict[str, AgentLoop] = {}
        self._made = 0
        for handler in (actions.sleep, actions.rest, actions.stop):
            world.actions.register(handler)
        Inputs(self)

    def create_loop(self, agent: Agent, config: AgentLoopConfig | None = None) -> AgentLoop:
        """Make the loop of an agent and let the agent into the world.

        Raises:
            UsageError: if the agent, or another of its name, has a loop already.
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
        """Take an agent out of the world: stop it, and keep only its counts.

        Raises:
            UsageError: if there is no such agent.
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
        """Begin to stop all loops: at once between two iterations, else when the present one ends."""
        for loop in list(self._loops.values()):
            loop.request_stop("stop")

    def start_spawned(self, loop: AgentLoop, delay_ns: int) -> None:
        """Start a loop that was made during the run; when it has stopped, only its counts are kept."""
        loop.on_stopped = self._forget
        loop.start_ticking(delay_ns=delay_ns) if self.ticking else loop.start_now(delay_ns=delay_ns)

    def _forget(self, loop: AgentLoop) -> None:
        del self._loops[loop.agent_id]
        self.world.forget(loop.agent)
        self.ended[loop.agent.group] = self.ended.get(loop.agent.group, Totals()).plus(loop)
        if self.on_forgotten is not None:
            self.on_forgotten(loop)

    def check_states(self) -> None:
        """Count what is not JSON in the states of agents as their failures, before the state at the end is recorded."""
        for loop in self._loops.values():
            if loop.agent.state:
                loop.check_state()

    async def start_all(self) -> None:
        """Start all loops that are stopped, in the order in which they were made."""
        for loop in list(self._loops.values()):
            await loop.start()

    async def stop_all(self, timeout: Duration = 10.0) -> None:
        """Stop all loops at one instant; iterations under way may end within `timeout` (simulated)."""
        loops = [loop for loop in self._loops.values() if loop.state is not AgentState.STOPPED]
        deadline = self.world.kernel.now + to_ns(timeout)
        for loop in loops:
            loop.request_stop("stop")
        for loop in loops:
            await loop.stop(to_seconds(max(0, deadline - self.world.kernel.now)))

    def get_loop(self, agent_id: str) -> AgentLoop | None:
        """Return the loop of an agent, or None."""
        return self._loops.get(agent_id)

    def get_all_states(self) -> dict[str, AgentState]:
        """Return the state of each loop by agent id."""
        return {agent_id: loop.state for agent_id, loop in self._loops.items()}

    @property
    def loops(self) -> Mapping[str, AgentLoop]:
        """All loops by agent id, in the order in which they were made."""
        return self._loops

    @property
    def running_count(self) -> int:
        """How many loops are running, sleeping or paused."""
        return sum(loop.is_running for loop in self._loops.values())

    @property
    def made(self) -> int:
        """How many loops were made."""
        return self._made

    def totals(self) -> "Totals":
        """Return what all loops have done, those that were made during the run and have stopped included."""
        totals = sum(self.ended.values(), Totals())
        for loop in self._loops.values():
            totals = totals.plus(loop)
        return totals

    def due_in_ticks(self, *, refreshed: bool) -> bool:
        """Return whether a tick, now or later, begins an iteration of any agent.

        Args:
            refreshed: ticks renew capacity, for which agents may be paused.
        """
        return any(loop.due_in_ticks(refreshed=refreshed) for loop in self._loops.values())

    def states(self) -> dict[str, int]:
        """Return how many loops are in each state."""
        counts = dict.fromkeys(AgentState, 0)
        counts[AgentState.STOPPED] = sum(ended.loops for ended in self.ended.values())
        for loop in self._loops.values():
            counts[loop.state] += 1
        return {str(state): count for state, count in counts.items()}
