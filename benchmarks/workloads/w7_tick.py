"""W7: tick mode against Mesa's step. An operation is one agent's turn in one tick."""

from typing import Any

from benchmarks.workload import NS, Meter, Workload
from benchmarks.workloads.w6_iteration import recorded

W7 = Workload("W7", "turns in ticks", (1_000,), full=(10_000,), bases=("mesa, do", "floor"))


@W7.peer("floor", needs="builtins", speed=10_000_000)
def floor(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A loop that calls a method of each object."""
    steppers = [_Stepper() for _ in range(agents)]
    meter.begin()
    for _ in range(times):
        for one in steppers:
            one.step()
    meter.end(sum(one.steps for one in steppers))


@W7.peer("mesa, do", needs="mesa", speed=1_000_000)
def mesa_do(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Mesa's step of all agents in order: no time, no waiting, no record."""
    _mesa(meter, lib, agents, times, "do")


@W7.peer("mesa, shuffle_do", needs="mesa", speed=700_000)
def mesa_shuffle(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same in an order drawn again for each step."""
    _mesa(meter, lib, agents, times, "shuffle_do")


def _mesa(meter: Meter, lib: Any, agents: int, times: int, how: str) -> None:
    class TimeSlicer(lib.Agent):  # type: ignore[misc]  # a class that is known at run time only
        steps = 0

        def step(self) -> None:
            self.steps += 1

    model = lib.Model(seed=1)
    TimeSlicer.create_agents(model, agents)
    do = getattr(model.agents, how)
    meter.begin()
    for _ in range(times):
        do("step")
    meter.end(sum(one.steps for one in model.agents))


@W7.peer("sim, one actor calls all", speed=5_000_000)
def sim_callbacks(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Bare callbacks, as in Mesa: one actor sleeps a period and calls every object."""
    from sim.kernel import Kernel
    from sim.kernel.waits import sleep_ns

    kernel = Kernel()
    steppers = [_Stepper() for _ in range(agents)]

    async def tick() -> None:
        for _ in range(times):
            await sleep_ns(NS)
            for one in steppers:
                one.step()

    kernel.spawn("tick", tick())
    meter.begin()
    kernel.run()
    meter.end(sum(one.steps for one in steppers))


@W7.peer("sim, a timer each", speed=250_000)
def sim_timers(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Bare callbacks that each have a place in the order: every object sets a timer for its next step."""
    from sim.kernel import Kernel

    kernel = Kernel()
    call_at, scenario = kernel.call_at, kernel.scenario

    class TimeSlicer(_Stepper):
        def step(self) -> None:
            self.steps += 1
            if self.steps < times:
                call_at(kernel.now + NS, self.step, scenario)

    steppers = [TimeSlicer() for _ in range(agents)]
    for one in steppers:
        call_at(NS, one.step, scenario)
    meter.begin()
    kernel.run()
    meter.end(sum(one.steps for one in steppers))


@W7.peer("sim, a ticker each", speed=700_000)
def sim_tickers(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same with a timer that repeats itself."""
    from sim.kernel import Kernel

    kernel = Kernel()
    steppers = [_Stepper() for _ in range(agents)]
    for one in steppers:
        kernel.call_every(NS, one.step)
    meter.begin()
    kernel.run(NS * times + 1)
    meter.end(sum(one.steps for one in steppers))


@W7.peer("sim, recorded", speed=40_000)
def sim_recorded(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The full iteration of W6 in tick mode: same agents, same record."""
    from sim.runner.tick import TickDriver

    def start(world: Any, manager: Any) -> None:
        for loop in manager.loops.values():
            loop.start_ticking()
        TickDriver(manager, NS).start()

    recorded(meter, agents, times, start)


class _Stepper:
    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
