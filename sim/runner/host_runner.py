"""Runs the agents of a world that a program built in Python, in autonomous or tick mode (edge)."""

from collections.abc import Mapping
from typing import Literal

import anyio
import attrs

from sim.actors import Agent, AgentLoopConfig, AgentLoopManager
from sim.actors.config import TICK_PERIOD
from sim.base.errors import SimError, UsageError
from sim.kernel import Duration, to_ns
from sim.runner.deadlock import DeadlockDetector
from sim.runner.runner import commonest
from sim.runner.tick import Concurrency, TickDriver
from sim.standalone import World


@attrs.frozen
class RunSummary:
    """What the agents of a world have done until now.

    Attributes:
        sim_seconds: the simulated time, in seconds since the start of the world.
        states: how many loops are in each state.
        iterations: iterations that began.
        errors: iterations that failed, and errors in `on_start` and `on_stop`.
        commonest_error: the commonest text of an error, with its count and the first agent that had it; None: no error.
        deadlock: which agents were blocked for ever when the run ended; None: none.
    """

    sim_seconds: float
    states: Mapping[str, int]
    iterations: int
    errors: int
    commonest_error: str | None
    deadlock: str | None


class SimulationRunner:
    """Runs the agents of a world: each by its own loop, or all of them tick by tick.

    It creates the loops of agents that were added with `World.add` and have none.

    Args:
        world: the world.
        use_autonomous_loops: whether each agent has a loop of its own. False: all agents act once per tick.
        config: the settings of the loops that the runner creates.
        period: in tick mode: simulated time from one tick to the next.
        concurrency: in tick mode: `sequential` or `parallel`; see `Concurrency`.
        order: in tick mode: `fixed`, the order of creation, or `shuffled`, a new one for each tick.

    Attributes:
        world: the world.
        loop_manager: the loops of its agents: the manager that the world has, or a new one.

    Raises:
        UsageError: if the period is 0, an option is none of its words, or the world or the settings are none.
    """

    def __init__(
        self,
        world: World,
        use_autonomous_loops: bool = True,
        *,
        config: AgentLoopConfig | None = None,
        period: Duration = TICK_PERIOD,
        concurrency: Concurrency = "sequential",
        order: Literal["fixed", "shuffled"] = "fixed",
    ) -> None:
        if not isinstance(world, World):
            raise UsageError(f"SimulationRunner needs a sim.World, not {world!r:.60}")
        if not isinstance(config, AgentLoopConfig | None):
            raise UsageError(f"the settings of loops are an AgentLoopConfig, not {config!r:.60}")
        if concurrency not in ("sequential", "parallel"):
            raise UsageError(f"concurrency is 'sequential' or 'parallel', not {concurrency!r:.60}")
        if order not in ("fixed", "shuffled"):
            raise UsageError(f"order is 'fixed' or 'shuffled', not {order!r:.60}")
        if to_ns(period) == 0:
            raise UsageError("the period of ticks must be above 0")
        self.world = world
        self.loop_manager = AgentLoopManager.of(world)
        self._config = config
        self._ticks: TickDriver | None = None
        if not use_autonomous_loops:
            self._ticks = TickDriver(self.loop_manager, to_ns(period), concurrency, order == "shuffled")
        self._standstill = DeadlockDetector(world)
        self._began = False

    async def run(self, duration: Duration | None = None) -> RunSummary:
        """Start all agents that are alive, run the world, and stop all agents.

        Args:
            duration: simulated time, from now on. None: until all agents have stopped, or the program cancels the call.

        Returns:
            What the agents have done. An error of an agent is in it, and logged; it does not end the run.

        Raises:
            UsageError: if a run is under way; if in tick mode an agent was started otherwise; or if the world was run
                before its agents had loops, or before its ticks began.
            RunError: see `World.run`.
        """
        world = self.world
        span = None if duration is None else to_ns(duration)
        await self._begin()
        timeout = 0.0  # after an error, or when it is cancelled: stop at once
        try:
            end = None if span is None else world.kernel.now + span
            if end is not None:
                await self.loop_manager.stop_at(end)
            await world.run(None if end is None else f"{end}ns")
            timeout = 10.0
        finally:
            await self._stop(timeout)
        return self.summary()

    def summary(self) -> RunSummary:
        """Return what the agents have done until now."""
        manager, totals = self.loop_manager, self.loop_manager.totals()
        return RunSummary(
            sim_seconds=self.world.now,
            states=manager.states(),
            iterations=totals.iterations,
            errors=totals.errors,
            commonest_error=commonest(self.world.errors),
            deadlock=self.world.deadlock,
        )

    async def _begin(self) -> None:
        manager, ticks = self.loop_manager, self._ticks
        if not self._began:
            agents = [agent for agent in self.world.agents.values() if isinstance(agent, Agent)]
            new = [agent for agent in agents if manager.get_loop(agent.agent_id) is None]
            if self.world.outside() and (new or ticks is not None):
                raise UsageError(
                    "this world was run already, so that SimulationRunner can make no "
                    + ("ticks" if ticks is not None else f"loop of {new[0].agent_id}")
                    + " in it",
                    hint="let SimulationRunner.run be its first run",
                )
            for agent in new:
                manager.create_loop(agent, self._config)
        if ticks is not None and not self._began:
            if started := [loop.agent_id for loop in manager.loops.values() if not loop.stopped]:
                raise UsageError(
                    f"{started[0]} was started already, so that it does not act tick by tick",
                    hint="do not start agents: in tick mode, SimulationRunner.run does",
                )
            self._standstill.own.append(ticks.start())
            self.world.still = self._stands_still
        self._began = True
        await manager.start_all(alive=True)

    def _stands_still(self) -> bool:
        """Whether only ticks are left, in which no agent acts: time stands still until a call of the program."""
        return not self.loop_manager.due_in_ticks(refreshed=False) and self._standstill.reached([])

    async def _stop(self, timeout: float) -> None:
        """Stop all agents, also when the run was cancelled or has failed."""
        try:
            with anyio.CancelScope(shield=True):
                await self.loop_manager.stop_all(timeout)
        except SimError:
            if timeout:  # otherwise the first error says more
                raise
