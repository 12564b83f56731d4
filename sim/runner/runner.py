"""The runner: drives a simulation in autonomous or tick mode (seed 004, `SimulationRunner`)."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from sim.actors import HealthMonitor
from sim.assembly.build import Simulation
from sim.errors import UsageError
from sim.host.host import Host
from sim.kernel import Kernel, Pause, to_seconds
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.effects import EffectHandle
from sim.kernel.ports import History, Recorder
from sim.runner.deadlock import DeadlockDetector
from sim.runner.result import Distribution, RunResult
from sim.runner.scenario_timers import ScenarioTimers
from sim.runner.tick import TickDriver
from sim.scenario import Scenario
from sim.sync.driver import SyncDriver
from sim.sync.policies import POLICIES

Mode = Literal["autonomous", "tick"]
Status = Literal["finished", "interrupted"]

STANDSTILL_NS = NS
"""How often a run without a time limit looks whether anything is left to happen: each simulated second."""


class RunSink(Recorder, Protocol):
    """What a runner records with."""

    @property
    def events(self) -> int:
        """How many events it got."""

    def finish(self, status: Any, digest: Mapping[str, Any], sim_ns: int, summary: Mapping[str, Any]) -> str:
        """Close the record and return the hash of the run."""

    def close(self) -> None:
        """Close the record of a run that did not go on; what is there stays as it is."""

    def seal(self) -> None:
        """Drop all events that are recorded from now on: the step under way is being interrupted."""


def check_rounds(scenario: Scenario, mode: Mode, speed: float | None) -> None:
    """Refuse to run a scenario with `execution.sync` in a way that has no meaning for it.

    Args:
        scenario: a verifying_recorder scenario.
        mode: how it is to be run.
        speed: simulated seconds a second, None to jump from event to event.

    Raises:
        UsageError: naming what does not go together.
    """
    sync, hint = scenario.execution.sync, "--set execution.sync=null does without"
    if sync is not None and mode == "autonomous":
        raise UsageError(f"execution.sync: {sync} goes with the tick mode", hint=hint)
    if sync is not None and speed is not None:
        raise UsageError(f"execution.sync: {sync} does not go together with the wall clock", hint=hint)


class SimulationRunner:
    """Runs one simulation from its beginning.

    Args:
        simulation: a world built from a scenario.
        until_ns: simulated nanoseconds at which the run ends; `MAX_NS` without a time limit.
        mode: autonomous loops, or ticks.
        speed: simulated seconds per real second; None jumps from event to event.
        progress: called now and then with the runner, while the kernel is paused.
        history: what is on record of this run, to be made again first.
        live: called with the runner, and the effects in doubt, when that has been done; the run goes on if it says so.

    Attributes:
        host: the door for calls from outside.
        deadlock: which agents are blocked for ever at the end, in one sentence; None if none are.
        health: who looks for silent agents, if the scenario wants it.
        interrupted_by: the limit that interrupted the run, if one did.
        sync: who lets agents go on in their own time, with `execution.sync`.
        speed: simulated seconds per real second; None jumps.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        until_ns: int,
        mode: Mode,
        speed: float | None = None,
        progress: Callable[["SimulationRunner"], None] | None = None,
        history: History | None = None,
        live: Callable[["SimulationRunner", list[EffectHandle]], bool] | None = None,
    ) -> None:
        self.simulation = simulation
        self.mode = mode
        self.until_ns = until_ns
        self.speed = speed
        self.deadlock: str | None = None
        self.health: HealthMonitor | None = None
        self._world = simulation.world
        self._manager = simulation.manager
        told = None if progress is None else (lambda: progress(self))
        self.feed = ScenarioTimers(simulation)
        self._standstill = DeadlockDetector(simulation.world)
        self.sync = self._synchroniser()
        going = None if live is None else (lambda doubtful: live(self, doubtful))
        self.host = Host(self.clockwork, speed=speed, progress=told, history=history, live=going)
        simulation.world.attach(self.host)
        tick, shuffled = simulation.scenario.execution.tick, simulation.scenario.execution.tick.order == "shuffled"
        self.ticks = TickDriver(
            simulation.manager, tick.period, tick.concurrency, shuffled, refreshed=simulation.per_tick
        )
        self.interrupted_by: str | None = None
        self._begun = False
        self._seed = simulation.world.kernel.seed  # a branch may change it on the way

    def _synchroniser(self) -> SyncDriver | None:
        execution, service = self.simulation.scenario.execution, self.simulation.service
        if execution.sync is None or service is None:
            return None
        check_rounds(self.simulation.scenario, self.mode, self.speed)
        return SyncDriver(
            self._manager, service, POLICIES[execution.sync], period_ns=execution.tick.period, until_ns=self.until_ns,
            fence=self.feed.next_time,
        )  # fmt: skip

    @property
    def clockwork(self) -> Kernel:
        """The kernel that the host runs: the world's own, or with `execution.sync` that of service time."""
        service = self.simulation.service
        return self._world.kernel if self.sync is None or service is None else service.kernel

    def begin(self) -> None:
        """Start the agents and the scenario's own timers; `run` does it if it was not done."""
        self._begun = True
        self._world.on_all_stopped = self._all_stopped
        standstill = self._standstill
        self.feed.start()
        for loop, delay_ns in self.simulation.starts:
            if self.mode == "tick":
                loop.start_ticking(delay_ns=delay_ns)
            else:
                loop.start_now(delay_ns=delay_ns)
        if self.sync is not None:
            self.sync.start()
        elif self.mode == "tick":
            standstill.own.append(self.ticks.start())
        health = self.simulation.scenario.execution.health
        if health is not None:
            self.health = HealthMonitor(
                self._manager, health.every, health.cure, lock_ns=health.lock, asleep_ns=health.asleep
            )
            standstill.own.append(self.health.start())
        if self.until is None:
            self._look_for_standstill()

    @property
    def until(self) -> float | None:
        """When the run ends at the latest, simulated seconds; None without a time limit."""
        return None if self.until_ns == MAX_NS else to_seconds(self.until_ns)

    def _look_for_standstill(self) -> None:
        """End a run without a time limit when only its own timers are left, which would never end."""
        kernel = self._world.kernel

        def look() -> None:
            if self._stands_still():
                kernel.halt()

        self._standstill.own.append(kernel.call_every(STANDSTILL_NS, look, kernel.supervisor))

    def _stands_still(self) -> bool:
        if self.mode == "tick" and self._manager.due_in_ticks(refreshed=bool(self.ticks.refreshed)):
            return False
        stop = self.simulation.scenario.stop
        timed = stop is not None and "now" in stop.when.names  # then a sample may end the run
        return self._standstill.reached(None if timed else self.feed.sampler)

    def _all_stopped(self) -> None:
        """End the run: what is left, timers of the scenario and events, can start no agent again."""
        self.feed.stopped_by = "all agents have stopped"
        self._world.kernel.halt()

    async def run(self) -> Status:
        """Run until the time limit, the stop condition, or `host.suspend()`."""
        if not self._begun:
            self.begin()
        async with self.host:
            pause = await self.host.run(self.until_ns if self.sync is None else MAX_NS)
        interrupted = pause is Pause.BUDGET
        if self.sync is not None:
            self.sync.end(finished=not interrupted)
        if not interrupted:
            self._note_standstill()
            self.feed.sample_end()
        return "interrupted" if interrupted else "finished"

    def _note_standstill(self) -> None:
        if self.sync is None and self.feed.stopped_by is None and self._stands_still():
            self.deadlock = self._standstill.deadlock()
            if self.until is None:
                self.feed.stopped_by = "nothing is left to do" if self.deadlock is None else "deadlock"

    def finish(
        self, status: Status, keeper: RunSink, *, run: str | None, backend: str, wall_seconds: float
    ) -> RunResult:
        """End the run and sum it up.

        At the end effects in flight are abandoned, and recorded so, before the stop events of the agents. A run that
        was interrupted changes no agent.
        """
        kernel = self._world.kernel
        if status == "finished":
            with kernel.acting_as(kernel.supervisor):
                self._manager.check_states()
        states, digest = self._manager.states(), self._world.digest()
        self._world.on_all_stopped = None
        if status == "finished":
            self._world.close()
        fields = self._summary(status, states)
        hash = keeper.finish(status, digest, kernel.now, fields)
        return RunResult(run=run, backend=backend, hash=hash, events=keeper.events, wall_seconds=wall_seconds, **fields)

    def _summary(self, status: Status, states: Mapping[str, int]) -> dict[str, Any]:
        world, totals = self._world, self._manager.totals()
        done = dict(sorted(world.done.items()))
        return {
            "scenario": self.simulation.scenario.name,
            "mode": self.mode,
            "seed": self._seed,
            "status": status,
            "stopped_by": self.feed.stopped_by
            or self._refusal()
            or (self.interrupted_by if status == "interrupted" else None),
            "sim_seconds": world.now,
            "agents": self._manager.made,
            "iterations": totals.iterations,
            "actions": sum(done.values()),
            "refused": dict(sorted(world.refused.items())),
            "states": states,
            "wakeups": totals.wakeups,
            "errors": totals.errors,
            "unmatched": totals.unmatched,
            "deadlock": self.deadlock,
            "commonest_error": _commonest(world.errors),
            "messages": world.messages,
            "kinds": done,
            "metrics": {"time": self.feed.times, **self.feed.samples} if self.feed.times else {},
            "observations": {n: Distribution.of(v) for n, v in sorted(world.observations.items())},
            "overruns": self.ticks.overruns,
            "models": self._models(),
            "service": {}
            if self.sync is None
            else {"sync": self.simulation.scenario.execution.sync, **self.sync.summary()},
        }

    def _refusal(self) -> str | None:
        return None if self.simulation.models is None else self.simulation.models.refusal

    def _models(self) -> Mapping[str, Any]:
        return {} if self.simulation.models is None else self.simulation.models.summary()


def _commonest(errors: Mapping[str, tuple[int, str]]) -> str | None:
    if not errors:
        return None
    error, (count, first) = max(errors.items(), key=lambda item: item[1][0])
    return f"{count} x {error[:300]} (first in {first})"
