"""The tick mode: the fallback behind `execution.use_autonomous_loops: false`.

The agents and their loops are the same as in autonomous mode; only the pacing differs. Tick k starts at k periods, or
when the barrier of tick k - 1 is passed, whichever is later. An agent that sleeps, is paused, backs off or waits in
line is skipped until the first tick at which it is due.
"""

from collections.abc import Iterable
from typing import Any, Literal

from sim.actors import AgentLoop, AgentLoopManager
from sim.kernel import Actor, Signal, first_of
from sim.kernel.actor import TICK
from sim.kernel.rng import hash_order
from sim.kernel.waits import sleep_ns

Concurrency = Literal["sequential", "parallel"]
"""Whether agents act one after another, each on the state left by its predecessors, or all decide first and then act.
"""


class _Start(Signal):
    """Releases the actions that were decided on in this tick."""

    __slots__ = ()
    ahead = False

    def wait(self, action: object = None) -> Any:
        """Wait until all agents have decided."""
        return super().wait()


class TickDriver:
    """Calls every loop once per tick.

    Args:
        manager: the manager of the loops.
        period_ns: simulated nanoseconds between two ticks.
        concurrency: `sequential` or `parallel`.
        shuffled: draw a new order for each tick instead of the order of declaration.
        refreshed: the limits whose windows start empty in each tick.
        groups: the groups in the order in which they act, before all other agents.

    Attributes:
        ticks: number of ticks that began.
        overruns: number of ticks that began late, because the previous barrier was passed late.
        refreshed: the limits whose windows start empty in each tick.
    """

    def __init__(
        self,
        manager: AgentLoopManager,
        period_ns: int,
        concurrency: Concurrency = "sequential",
        shuffled: bool = False,
        refreshed: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
    ) -> None:
        self.ticks = 0
        self.overruns = 0
        self._manager = manager
        self._kernel = manager.world.kernel
        self._period_ns = period_ns
        self._turns = self._parallel if concurrency == "parallel" else self._sequential
        self._shuffled = shuffled
        self._groups = groups
        self.refreshed = refreshed
        self._actor = Actor("tick", TICK)
        self._effect_ended = Signal(self._kernel)

    def start(self) -> Actor:
        """Start ticking now; return the actor of the ticks."""
        self._manager.ticking = True
        self._kernel.effects.on_end = self._on_effect
        self._kernel.begin(self._actor, self._run())
        return self._actor

    def _on_effect(self) -> None:
        with self._kernel.acting_as(self._kernel.supervisor):  # a measured effect ends while the kernel is paused
            self._effect_ended.fire()

    async def _run(self) -> None:
        # This is the loop of the tick mode.
        kernel, period = self._kernel, self._period_ns
        while True:
            due = self.ticks * period
            if due > kernel.now:
                await sleep_ns(due - kernel.now)
            elif due < kernel.now:
                self.overruns += 1
            self.ticks += 1
            for _ in range(
                2
            ):  # agents that wake at this instant take part: a sleep ends in round 0, a pause in round 1
                await sleep_ns(0)
            for resource in self.refreshed:
                self._manager.world.rate_tracker.refresh(resource)
            await self._turns(self._ordered())

    def _ordered(self) -> list[AgentLoop]:
        loops = self._in_groups(self._manager.loops.values())
        if not self._shuffled:
            return [loop for group in loops for loop in group]
        return [loop for group in loops for loop in self._shuffle(group)]

    def _in_groups(self, loops: Iterable[AgentLoop]) -> list[list[AgentLoop]]:
        """Return the loops of each group that has a place in the order, and then all others."""
        if not self._groups:
            return [list(loops)]
        ranks = {group: rank for rank, group in enumerate(self._groups)}
        by_rank: list[list[AgentLoop]] = [[] for _ in range(len(ranks) + 1)]
        world = self._manager.world
        for loop in loops:
            rank = min((ranks[group] for group in world.groups_of(loop.agent) if group in ranks), default=len(ranks))
            by_rank[rank].append(loop)
        return by_rank

    def _shuffle(self, loops: list[AgentLoop]) -> list[AgentLoop]:
        # By a hash of tick and agent, so that one agent more leaves the others in their order.
        named = {loop.agent_id: loop for loop in loops}
        return hash_order(named, "turn", self._kernel.seed, self.ticks, *self._kernel.order)

    async def _sequential(self, loops: list[AgentLoop]) -> None:
        self._begin_turns()
        for loop in loops:
            if loop.turn() and loop.actor.coro is not None:  # as `through` says, without a call
                await self._settled(loop)
                self._begin_turns()

    def _begin_turns(self) -> None:
        """Make the number of the tick the cause of what the next turns do, and not the turns before."""
        self._kernel.begin_anew(self._actor, self.ticks)

    async def _parallel(self, loops: list[AgentLoop]) -> None:
        """All decide on the state at the start of the tick, then the actions apply in order."""
        gates: list[tuple[AgentLoop, _Start]] = []
        self._begin_turns()
        for loop in loops:
            gate = _Start(self._kernel)
            loop.hold(gate)
            if loop.turn():
                gates.append((loop, gate))
            else:
                loop.hold(None)  # an iteration of an earlier tick must not wait for this one
        for loop, _ in gates:
            await self._settled(loop)
        for loop, gate in gates:
            loop.hold(None)
            gate.fire()
        for loop, _ in gates:
            await self._settled(loop)

    async def _settled(self, loop: AgentLoop) -> None:
        """Wait until the iteration has ended, or waits for something other than an effect.

        Anything else may be held by an agent whose turn comes later, so the barrier must not wait for it.
        """
        while not loop.through:
            if loop.actor.woken:
                await sleep_ns(0)
            elif self._kernel.effects.waits(loop.agent_id):
                await first_of(self._effect_ended, loop.when_stopped())
            else:
                return
