"""W6: the whole iteration of an agent, recorded in a run file on disk. An operation is one iteration.

State machine, rate check, decide, one action that changes the world (an artifact is written), two events. The measured
time ends when everything is on disk. SimPy's bare timer, which records nothing, is there for the ratio.
"""

import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.workload import MASK, MULTIPLIER, NS, Meter, Workload
from benchmarks.workloads.w1_timer import simpy as simpy_timer

W6 = Workload("W6", "recorded iterations", (1_000,), full=(10_000,))

W6.peer("simpy, bare timer", needs="simpy", speed=200_000)(simpy_timer)


@W6.peer("floor, same rows", speed=90_000)
def floor(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """What has to be done whoever does it: wake up in exact order, check a window, keep a content, record two events.

    No state machine, no registry of actions, no permissions, no prices, no bus, no errors, no checks of arguments.
    """
    from benchmarks.exact import Exact, sleep
    from sim.kernel.codec import Raw, encode
    from sim.record import RunHeader, RunRecorder, create_run

    root = Path(tempfile.mkdtemp(prefix="sim-benchmark-"))
    recorder = RunRecorder(create_run(root, RunHeader("benchmark", 1, "autonomous", "asyncio"), ""))
    kernel, written, done = Exact(), dict[str, tuple[Raw, int]](), 0

    async def writer(name: str, start: int) -> None:
        nonlocal done
        window = deque[int]()
        await sleep(start)
        for count in range(1, times + 1):
            arguments = {"artifact": name, "content": count}
            while window and window[0] <= kernel.now - 60 * NS:
                window.popleft()
            if len(window) < 100:
                raw, content = Raw(encode(arguments)), Raw(encode(count))
                version = written[name][1] + 1 if name in written else 1
                written[name] = content, version
                window.append(kernel.now)
                actor = kernel.current
                actor.counter = counter = actor.counter + 2
                fact = Raw(encode({"artifact": name, "version": version, "by": name}))
                deed = Raw(encode({"arguments": raw, "success": True, "result": {"version": version}}))
                key, cause = (kernel.now, 0, 0, actor.ordinal), (actor.ordinal, counter - 2)
                recorder.event((*key, counter - 1, name, "artifact.written", fact, cause))
                recorder.event((*key, counter, name, "action.write", deed, cause))
                done += 1
            await sleep(NS)

    state = 1
    for number in range(agents):
        state = state * MULTIPLIER + 1 & MASK
        kernel.spawn(number, writer(f"a{number}", 1 + state % (NS - 1)))
    kernel.run(0)
    meter.begin()
    kernel.run()
    durable(recorder)
    meter.end(done)
    recorder.close()
    shutil.rmtree(root)


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
    from sim.record import RunHeader, RunRecorder, create_run
    from sim.resources import Limit, Rate
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
        durable(recorder)
        meter.end(sum(loop.iteration_count for loop in manager.loops.values()))
        recorder.close()
    finally:
        shutil.rmtree(root)


def durable(recorder: Any) -> None:
    """Wait until all that was recorded is on disk."""
    recorder.flush()
    on_disk = threading.Event()
    recorder.durable(lambda error: on_disk.set())
    on_disk.wait()
