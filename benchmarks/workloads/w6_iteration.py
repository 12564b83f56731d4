"""W6: the whole iteration of an agent, recorded in a run file on disk. An operation is one iteration.

State machine, rate check, decide, one action that changes the world (an artifact is written), two events. The measured
time ends when everything is on disk. SimPy's bare timer, which records nothing, is there for the ratio.
"""

import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.workload import MASK, MULTIPLIER, NS, Meter, Workload
from benchmarks.workloads.w1_timer import simpy as simpy_timer

W6 = Workload("W6", "recorded iterations", (1_000,), full=(10_000,))

W6.peer("simpy, bare timer", needs="simpy", speed=200_000)(simpy_timer)


@W6.peer("sim", speed=40_000)
def sim(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Every action takes a unit of a limited resource: checked, and consumed."""
    iterate(meter, agents, times, priced=True)


@W6.peer("sim, nothing consumed", speed=60_000)
def sim_check_only(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A limit is checked before each iteration, but the action takes nothing of it."""
    iterate(meter, agents, times, priced=False)


def iterate(meter: Meter, agents: int, times: int, *, priced: bool) -> None:
    """Run autonomous loops, one iteration a second each."""

    def start(world: Any, manager: Any) -> None:
        state = 1
        for loop in manager.loops.values():
            state = state * MULTIPLIER + 1 & MASK
            loop.start_now(delay_ns=1 + state % (NS - 1))

    recorded(meter, agents, times, start, priced=priced)


def recorded(meter: Meter, agents: int, times: int, start: Callable[[Any, Any], None], *, priced: bool = True) -> None:
    """Make a world of agents that write, record it, and measure it from the start until all is on disk."""
    from sim.actors import Agent, AgentLoopConfig, AgentLoopManager
    from sim.resources import Limit, Rate
    from sim.store import RunHeader, RunRecorder, create_run
    from sim.world import Action, World

    class Writer(Agent):
        count = 0

        async def decide_action(self) -> Action:
            self.count += 1
            return Action("write", {"artifact": self.agent_id, "content": self.count})

    root = Path(tempfile.mkdtemp(prefix="sim-benchmark-"))
    try:
        recorder = RunRecorder(create_run(root, RunHeader("benchmark", 1, "autonomous", "asyncio"), ""))
        world = World(1, recorder=recorder)
        manager = AgentLoopManager(world)
        world.rate_tracker.set_limit("disk_writes", Limit(agent=Rate(100, 60 * NS)))
        if priced:
            world.costs.set_price("write", "disk_writes", "rate", 1)
        config = AgentLoopConfig(min_loop_delay=1.0)
        for number in range(agents):
            manager.create_loop(Writer(f"a{number}", world), config)
        start(world, manager)
        meter.begin()
        world.kernel.run(times * NS)
        recorder.flush()
        durable = threading.Event()
        recorder.durable(lambda error: durable.set())
        durable.wait()
        meter.end(sum(loop.iteration_count for loop in manager.loops.values()))
        recorder.close()
    finally:
        shutil.rmtree(root)
