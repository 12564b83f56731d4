"""The runner: runs a simulation from its beginning to its end, in autonomous or tick mode."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import attrs

from sim.actors import HealthMonitor
from sim.agents.metric_functions import without_numbers
from sim.base.errors import LimitError, UsageError
from sim.host.host import Host
from sim.kernel import Kernel, Pause, to_seconds
from sim.kernel.codec import JsonObject
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.effects import EffectHandle
from sim.kernel.ports import History, Recorder
from sim.record.files import Mode
from sim.runner.deadlock import DeadlockDetector
from sim.runner.figures import Elsewhere, Figures, figures_of
from sim.runner.interventions import Interventions
from sim.runner.result import Distribution, RunResult
from sim.runner.scenario_timers import ScenarioTimers
from sim.runner.tick import TickDriver
from sim.scenario import Scenario
from sim.scenario.assembly.build import Simulation
from sim.scenario.assembly.live_parameters import LiveParameters
from sim.scenario.assembly.world_builder import limits_per_tick
from sim.scenario.lost_events import may_lose_events
from sim.scenario.never import never_happens
from sim.scenario.overrides import Override
from sim.world import Warned

if TYPE_CHECKING:
    from sim.runner.sync.driver import SyncDriver

Status = Literal["finished", "interrupted"]

STANDSTILL_NS = NS
"""Interval at which a run without a time limit checks whether anything is left to happen: one simulated second."""


class RunSink(Recorder, Protocol):
    """The recorder of a runner."""

    @property
    def events(self) -> int:
        """Number of recorded events."""

    def finish(self, status: Any, digest: JsonObject, sim_ns: int, summary: JsonObject) -> str:
        """Close the record and return the hash of the run."""

    def close(self) -> None:
        """Close the record of a run that was not continued; it stays as it is."""

    def seal(self) -> None:
        """Drop all events from now on: the current step is being interrupted."""


def check_rounds(scenario: Scenario, mode: Mode, speed: float | None) -> None:
    """Refuse options that contradict `execution.sync` or islands.

    Args:
        scenario: a checked scenario.
        mode: the mode of the run.
        speed: simulated seconds per real second; None jumps from event to event.

    Raises:
        UsageError: if mode or clock contradict it.
    """
    sync, hint = scenario.execution.sync, "--set execution.sync=null turns it off"
    if sync is not None and mode == "autonomous":
        raise UsageError(f"execution.sync: {sync} needs the tick mode", hint=hint)
    if sync is not None and speed is not None:
        raise UsageError(f"execution.sync: {sync} needs the virtual clock, not the wall clock", hint=hint)
    if mode == "tick" and "islands" in scenario.sections:
        raise UsageError("islands need autonomous loops: in tick mode, all agents act in one round")


class RunController:
    """Runs one simulation from its beginning.

    Args:
        simulation: a world built from a scenario.
        until_ns: simulated nanoseconds at which the run ends; `MAX_NS` without a time limit.
        mode: autonomous loops, or ticks.
        speed: simulated seconds per real second; None jumps from event to event.
        progress: called with the runner about every tenth of a second, while the kernel is paused.
        history: the record of this run, which is replayed first.
        live: called with the runner and the in-doubt effects after the replay; the run continues if it returns true.

    Attributes:
        host: the host, which takes calls from outside.
        live: the live parameters.
        deadlock: which agents are blocked forever at the end, in one sentence; None if there are none.
        health: the health monitor, if the scenario has one.
        interrupted_by: the limit that interrupted the run, if one did.
        sync: the driver of synchronised rounds, with `execution.sync`.
        speed: simulated seconds per real second; None jumps.
        after_instant: called after each instant; the run ends if it returns true. None: there is nothing to do then.
        shards: the run as its shards report it; None: its agents are in this process.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        until_ns: int,
        mode: Mode,
        speed: float | None = None,
        progress: Callable[["RunController"], None] | None = None,
        history: History | None = None,
        live: Callable[["RunController", list[EffectHandle]], bool] | None = None,
    ) -> None:
        self.simulation = simulation
        self.mode = mode
        self.until_ns = until_ns
        self.speed = speed
        self.deadlock: str | None = None
        self.ending: Callable[[], object] | None = None
        self.after_instant: Callable[[], object] | None = None
        self._held_up: Mapping[str, int] = {}  # receiver → senders that wait behind messages that no rule has read
        self.health: HealthMonitor | None = None
        self._world = simulation.world
        self._manager = simulation.manager
        report = None if progress is None else (lambda: progress(self))
        self.live = LiveParameters(simulation)
        self.feed = ScenarioTimers(simulation)
        self.interventions = Interventions(simulation, self.live)
        self._standstill = DeadlockDetector(simulation.world)
        self.sync = self._synchroniser()
        going = None if live is None else (lambda doubtful: live(self, doubtful))
        world = simulation.world
        self.host = Host(
            self.clockwork, speed=speed, progress=report, history=history, live=going, held=lambda: world.on_hold
        )
        simulation.world.attach(self.host)
        tick, shuffled = simulation.scenario.execution.tick, simulation.scenario.execution.tick.order == "shuffled"
        self.ticks = TickDriver(
            simulation.manager,
            tick.period,
            tick.concurrency,
            shuffled,
            refreshed=simulation.per_tick,
            groups=tick.groups,
        )
        self.live.on_change += [self.feed.change, self.interventions.change, self._refresh]
        simulation.world.on_input("parameters", self._set)
        simulation.manager.check_set = self._check_set
        self.interrupted_by: str | None = None
        self.shards: Elsewhere | None = None
        self._begun = False
        self._seed = simulation.world.kernel.seed  # a branch may change it during the run

    def _refresh(self, scenario: Scenario, _: int) -> None:
        self.ticks.refreshed = limits_per_tick(scenario)

    def _check_set(self, values: JsonObject) -> None:
        """Check values for live parameters that somebody outside wants to set."""
        if self.sync is not None:
            raise UsageError("a run with execution.sync has no live parameters", hint="run it without")
        self.live.check([Override.of(key, value) for key, value in values.items()])

    def _set(self, data: Mapping[str, Any]) -> str | None:
        """Set live parameters to values from outside; return why it was refused, or None."""
        try:
            self.live.change([Override.of(key, value) for key, value in data["set"].items()])
        except (UsageError, LimitError) as error:
            return str(error)
        return None

    def _synchroniser(self) -> "SyncDriver | None":
        execution, service = self.simulation.scenario.execution, self.simulation.service
        if execution.sync is None or service is None:
            return None
        from sim.runner.sync.driver import SyncDriver  # the import is slow
        from sim.runner.sync.policies import POLICIES

        check_rounds(self.simulation.scenario, self.mode, self.speed)
        return SyncDriver(
            self._manager,
            service,
            POLICIES[execution.sync],
            period_ns=execution.tick.period,
            until_ns=self.until_ns,
            fence=self.feed.next_time,
        )

    @property
    def clockwork(self) -> Kernel:
        """The kernel that the host runs: the world's own, or with `execution.sync` that of service time."""
        service = self.simulation.service
        return self._world.kernel if self.sync is None or service is None else service.kernel

    def begin(self) -> None:
        """Start the agents and the timers of the scenario; `run` calls it if it was not called before."""
        self._begun = True
        self._world.on_all_stopped = self._all_stopped
        standstill = self._standstill
        self.feed.start()
        self.interventions.start()
        for loop, delay_ns in self.simulation.starts:
            with self._world.kernel.acting_as(loop.actor):  # so that no key depends on how many others there are
                if self.mode == "tick":
                    loop.start_ticking(delay_ns=delay_ns)
                else:
                    loop.start_now(delay_ns=delay_ns)
        if self.sync is not None:
            self.sync.start()
        elif self.mode == "tick":
            standstill.own.append(self.ticks.start())
        variables = self._world.variables
        if variables is not None and (ticker := variables.start()) is not None:
            standstill.own.append(ticker)
        health = self.simulation.scenario.execution.health
        if health is not None:
            self.health = HealthMonitor(
                self._manager, health.every, health.cure, lock_ns=health.lock, asleep_ns=health.asleep
            )
            standstill.own.append(self.health.start())
        if self.until is None:
            self._look_for_standstill()

    @property
    def now(self) -> float:
        """How far the run is, in simulated seconds."""
        return self._world.now if self.shards is None else self.shards.now

    @property
    def recorder(self) -> Recorder:
        """What keeps the events of the run."""
        return self._world.kernel.recorder if self.shards is None else self.shards.keeper

    def figures(self) -> Figures:
        """Return what agents have done so far, and their states; on shards, as they were when it was last read."""
        return figures_of(self.simulation) if self.shards is None else self.shards.figures

    @property
    def until(self) -> float | None:
        """The time limit in simulated seconds; None if there is none."""
        return None if self.until_ns == MAX_NS else to_seconds(self.until_ns)

    def _look_for_standstill(self) -> None:
        """End a run without a time limit when only its own timers are left, which repeat without end."""
        kernel = self._world.kernel

        def look() -> None:
            if self._stands_still():
                kernel.halt()

        self._standstill.own.append(kernel.call_every(STANDSTILL_NS, look, kernel.supervisor))

    def _stands_still(self) -> bool:
        if self.mode == "tick" and self._manager.due_in_ticks(refreshed=bool(self.ticks.refreshed)):
            return False
        stop = self.simulation.scenario.stop
        timed = stop is not None and "now" in stop.when.names  # a sample may end the run then
        return self._standstill.reached([None if timed else self.feed.sampler, *self.interventions.harmless])

    def _all_stopped(self) -> None:
        """End the run: the timers and events that are left cannot start an agent."""
        self.feed.stopped_by = "all agents have stopped"
        self._world.kernel.halt()

    async def run(self) -> Status:
        """Run until the time limit, the stop condition, or `host.suspend()`."""
        if not self._begun:
            self.begin()
        async with self.host:
            pause = await self.host.run(self.until_ns if self.sync is None else MAX_NS, self.after_instant)
            interrupted = pause is Pause.BUDGET
            if self.sync is not None:
                self.sync.end(finished=not interrupted)
            if not interrupted:
                self.note_standstill()
                interrupted = await self._end() is Pause.BUDGET
        return "interrupted" if interrupted else "finished"

    async def _end(self) -> Pause | None:
        """Do what the scenario has `at: end`, and sample the final state. Return why the kernel paused, if it ran.

        Agents do not act any more: only the answers of surveys are waited for.
        """
        pause = None
        if self.begin_end():
            pause = await self.host.run(self._world.kernel.now)
        if pause is not Pause.BUDGET:
            self.feed.sample_end()
        return pause

    def begin_end(self) -> bool:
        """Begin what the scenario has `at: end`; return whether answers of surveys are waited for, and nothing else."""
        kernel = self._world.kernel
        self.feed.publish_end()
        asked = self.interventions.carry_out_end()
        if not asked:
            return False
        with kernel.acting_as(kernel.supervisor):
            kernel.effects.abandon_all()
        kernel.keep_only(asked)
        return True

    def note_standstill(self) -> None:
        """Note, at the end, whether agents are blocked for ever."""
        if self.sync is None and self.feed.stopped_by is None and self._stands_still():
            self.deadlock = self._standstill.deadlock()
            if self.until is None:
                self.feed.stopped_by = "nothing is left to do" if self.deadlock is None else "deadlock"

    def finish(
        self, status: Status, keeper: RunSink, *, run: str | None, backend: str, wall_seconds: float
    ) -> RunResult:
        """End the run and return its result.

        Effects in flight are abandoned, and recorded as such, before the agents stop. An interrupted run stops no
        agent, since it may be resumed.
        """
        kernel = self._world.kernel
        if self.ending is not None:
            self.ending()
        if status == "finished":
            self._manager.check_states()
        states, digest = self._manager.states(), self._world.digest()
        self._held_up = self._manager.held_up()
        self._world.on_all_stopped = None
        if status == "finished":
            self._world.close()
            if services := self._world.service_states():  # the end of an agent can withdraw what it asked a person
                digest = {**digest, "services": services}
        fields = self._summary(status, states)
        hash = keeper.finish(status, digest, kernel.now, fields)
        return RunResult(run=run, backend=backend, hash=hash, events=keeper.events, wall_seconds=wall_seconds, **fields)

    def outcome(self) -> RunResult:
        """Return the result of a run that has reached its end and of which nothing is recorded, without its hash.

        It costs less than `finish`. The world stays as it is.
        """
        if self.ending is not None:
            self.ending()
        fields = self._summary("finished", self._manager.states())
        return RunResult(run=None, backend="asyncio", hash="", events=0, wall_seconds=0.0, **fields)

    def _summary(self, status: Status, states: Mapping[str, int]) -> dict[str, Any]:
        world, totals = self._world, self._manager.totals()
        done = dict(sorted(world.done.items()))
        return {
            "scenario": self.simulation.scenario.name,
            "mode": self.mode,
            "seed": self._seed,
            "status": status,
            "never": self._never(),
            "warnings": self._warnings(),
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
            "unread": [attrs.asdict(row) for row in self._manager.unread()],
            "dropped": totals.dropped,
            "under_way": world.under_way,
            "deadlock": self.deadlock,
            "commonest_error": commonest(world.errors),
            "messages": world.messages,
            "kinds": done,
            "metrics": {"time": self.feed.times, **self.feed.samples} if self.feed.times else {},
            "observations": {n: Distribution.of(v) for n, v in sorted(world.observations.items())},
            "surveys": self.interventions.surveys(),
            "recording": self.simulation.scenario.recording.level,
            "overruns": self.ticks.overruns,
            "models": self._models(),
            "services": self._services(),
            "service": {}
            if self.sync is None
            else {"sync": self.simulation.scenario.execution.sync, **self.sync.summary()},
        }

    def _warnings(self) -> list[JsonObject]:
        """Return what should be known before the numbers are trusted."""
        lost = may_lose_events(self.simulation.scenario) if self.mode == "tick" and self.sync is None else ()
        warnings = [Warned(problem.message, problem.hint) for problem in lost]
        warnings += [one for service in self._world.services.values() for one in service.warnings()]
        if self._held_up and self.deadlock is None:
            warnings.append(_behind_unread(self._held_up))
        warnings += without_numbers(self._world, self.simulation.scenario.metrics.values, self.feed.samples)
        return [attrs.asdict(one) for one in warnings]

    def _never(self) -> list[str]:
        """Return what could not happen in the run, such as an event that was due after its end."""
        problems = never_happens(self.simulation.scenario, self.until_ns)
        return [problem.message for problem in problems]

    def _refusal(self) -> str | None:
        return None if self.simulation.models is None else self.simulation.models.refusal

    def _services(self) -> JsonObject:
        """Return the summary of each service that has one; that of the models is a field of its own."""
        services = self.simulation.world.services
        summaries = {name: service.summary() for name, service in sorted(services.items()) if name != "models"}
        return {name: summary for name, summary in summaries.items() if summary}

    def _models(self) -> JsonObject:
        return {} if self.simulation.models is None else self.simulation.models.summary()


def commonest(errors: Mapping[str, tuple[int, str]]) -> str | None:
    """Return the commonest text of an error, with its count and the first agent that had it; None: no error."""
    if not errors:
        return None
    error, (count, first) = max(errors.items(), key=lambda item: item[1][0])
    return f"{count} x {error[:300]} (first in {first})"


_SHOWN: Final = 3


def _behind_unread(held_up: Mapping[str, int]) -> Warned:
    """Return a warning of agents that wait to send, because messages that no rule reads now fill a mailbox."""
    named = ", ".join(f"{count} for {to}" for to, count in list(held_up.items())[:_SHOWN])
    more = f" and {len(held_up) - _SHOWN} more" if len(held_up) > _SHOWN else ""
    return Warned(
        f"at the end agents wait to send, because messages that no rule has read fill mailboxes: {named}{more}",
        "a larger `mailbox_size` has room for more; with `unmatched: drop` an agent drops what no rule reads now",
    )
