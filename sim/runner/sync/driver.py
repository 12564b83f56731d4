"""The driver of synchronised rounds, on two time axes: world time for agents, and service time for model calls.

Tick k of an agent happens at k periods of world time, however long its calls take: they take service time only. A
policy (`policies`) decides which agents can begin their next tick. A barrier keeps all agents at the same tick; other
policies let agents run ahead as far as their perception allows. The policy changes how long the run takes in service
time (the makespan), but not its record: events carry the simulated time of their agent and are released in key order.
So every policy except `free` gives the same hash.

Work that is not declared as the agent's own or as spatial waits until all earlier events have happened. This applies to
timers of the world (sleeps, injections, samples) and to actions on shared data. Shared actions of a tick are applied in
the order of the agents, after all agents have decided. The kernel of the world runs up to the *low watermark*, the
earliest tick that some agent has not finished. Work beyond it runs ahead (`Kernel.ahead`).

In this package, `step` is the number of a tick.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sim.actors import AgentLoopManager, AgentState
from sim.base.errors import RunError
from sim.kernel import NS, Actor, Pause, Signal
from sim.kernel.codec import JsonObject
from sim.kernel.duration import MAX_NS
from sim.kernel.future_events import Entry
from sim.kernel.waits import sleep_ns
from sim.llm.service_time import ServiceTime, Work
from sim.runner.sync.frontier import Frontier
from sim.runner.sync.gate import SyncGate
from sim.runner.sync.metrics import ServiceMetrics
from sim.runner.sync.policies import LOW_WATERMARK, LogicalProcess, Oracle, ProcessState, SyncPolicy
from sim.runner.sync.reorder import ReorderBuffer
from sim.runner.sync.restricted_world import restrict
from sim.world import Action, Sighting, Space

PolicyMaker = Callable[[Mapping[str, LogicalProcess], Space | None, Callable[[], int]], SyncPolicy]
"""Creates the policy of a run from its processes, its space, and a function that returns the low watermark."""

_DECIDING, _ACTING = 1, 2  # deltas within a tick: timers of the world at 0, decisions at 1, actions at 2
_AT_ONCE = 64  # number of agents to check before the host gets a turn
_KEPT = 64  # number of finished ticks between two deletions of old positions


class SyncDriver:
    """Runs the loops of a world in synchronised rounds.

    Args:
        manager: the manager of the loops.
        service: the service time, in which model calls are answered.
        policy: creates the synchronisation policy.
        period_ns: world time between two ticks, in nanoseconds.
        until_ns: world time at which the run ends, in nanoseconds.
        fence: returns the next world time at which the scenario reads the whole world, for example for a sample.

    Attributes:
        metrics: measurements in service time.
        seen: (agent, tick) → the agents that it saw; None unless `study` was called.
    """

    def __init__(
        self,
        manager: AgentLoopManager,
        service: ServiceTime,
        policy: PolicyMaker,
        *,
        period_ns: int,
        until_ns: int,
        fence: Callable[[], int],
    ) -> None:
        self.metrics = ServiceMetrics(service.kernel)
        self.seen: dict[tuple[str, int], tuple[str, ...]] | None = None
        self._manager = manager
        self._world = manager.world
        self._kernel = manager.world.kernel
        self._service = service
        self._make_policy = policy
        self._period_ns = period_ns
        self._until_ns = until_ns
        self._fence = fence
        self._order = ReorderBuffer(self._kernel.recorder)
        self._processes: dict[str, LogicalProcess] = {}
        self._frontier = Frontier()
        self._caused: dict[int, list[Entry]] = {}  # time → kernel entries that agents which ran ahead caused
        self._queue: deque[LogicalProcess] = deque()  # ready processes for which the policy gives a verdict next
        self._paths = (-1, 0.0)  # (tick, length of the longest critical path to its beginning)
        self._low_watermark = 0
        self._forget_at = _KEPT
        self._base_ns = -1  # all entries of the world that are due up to this time have run
        self._acting: LogicalProcess | None = None  # the process whose work runs ahead now
        self._news = Signal(service.kernel)
        self._halted = False

    def study(self) -> None:
        """Collect in `seen` which agents each agent sees at each tick."""
        self.seen = {}

    def know(self, seen: Mapping[tuple[str, int], Sequence[str]]) -> None:
        """Use the policy `Oracle` with `seen` of an earlier run."""
        self._make_policy = lambda processes, space, low_watermark: Oracle(processes, space, low_watermark, seen)
        if self._world.space is not None:
            self._world.space.truth = seen

    def start(self) -> None:
        """Take control of the loops, which must have been started in tick mode."""
        space = self._world.space
        self._kernel.recorder = self._order
        self._service.kernel.recorder = self._order.inner  # its kernel only flushes, for live readers
        self._service.take = self._take
        for number, loop in enumerate(self._manager.loops.values()):
            history = None if space is None else space.histories.get(loop.agent_id)
            process = self._processes[loop.agent_id] = LogicalProcess(loop, number, history)
            loop.hold(SyncGate(self, process))
            loop.on_change = partial(self._frontier.note_change, process)
            restrict(loop.agent, partial(self.runs_ahead, process))
            self._make_ready(process, -(-loop.due_ns // self._period_ns))
        self._policy = self._make_policy(self._processes, space, lambda: self._low_watermark)
        if space is not None:
            space.on_look = self._looked
            space.strict = self._policy.strict
        self._service.kernel.spawn("world", self._run())

    def end(self, finished: bool) -> None:
        """Release the held events and restore the recorder.

        If the run was interrupted, events of agents that have run ahead are dropped, because a resume creates them
        again.
        """
        if finished:
            if not self._halted and self._until_ns > self._kernel.now:
                self._kernel.advance_to(self._until_ns)
            self._kernel.begin_anew()
            self._order.release()
        self._kernel.recorder = self._order.inner

    # -- the loop

    async def _run(self) -> None:
        # The main loop: start each process that can begin its tick, then run the world up to the low watermark.
        while not self._halted:
            for _ in range(min(_AT_ONCE, len(self._queue))):
                self._offer(self._queue.popleft())
            if self._make_progress():
                await sleep_ns(0)
            elif self.metrics.in_flight:
                await self._news.wait()
            else:
                break
        stuck = [
            process
            for process in self._processes.values()
            if process.state not in (ProcessState.OUT, ProcessState.AWAY)
        ]
        if stuck and not self._halted:
            raise RunError(
                f"deadlock: {len(stuck)} agents are blocked; the first is {stuck[0].agent_id}, at step {stuck[0].step}"
            )
        self._service.kernel.halt()

    def _offer(self, process: LogicalProcess) -> None:
        """Let a ready process begin its tick, or register it at what it must wait for."""
        if process.state is not ProcessState.READY:
            return
        time = process.step * self._period_ns
        if time >= self._until_ns:
            self._retire(process)
            return
        verdict = LOW_WATERMARK if self._base_ns < time and time >= self._fence() else self._policy.verdict(process)
        if isinstance(verdict, LogicalProcess):
            verdict.watchers.append(process)
        elif verdict is not None:
            self._frontier.wait_for_all(process)
        else:
            cluster = list(self._policy.cluster(process))
            for member in cluster:
                member.cluster = cluster if len(cluster) > 1 else []
                member.state = ProcessState.BUSY
                member.waited += self._service.kernel.now - member.since
            for member in tuple(cluster):  # a copy, because a member that must wait leaves the cluster
                self._begin(member)

    def _begin(self, process: LogicalProcess) -> None:
        """Run the iteration of an agent at its own time, up to its first wait."""
        process.time_ns = process.step * self._period_ns
        process.delta = _DECIDING
        process.admitted = False
        if process.loop.agent.reach not in ("own", "space"):
            process.path = self._path_of_all(process.step)
        self._ahead(process, process.loop.turn)

    def _path_of_all(self, step: int) -> float:
        """Return the length of the longest critical path of all processes to the beginning of `step`."""
        if self._paths[0] != step:
            self._paths = step, max(process.path_before(step) for process in self._processes.values())
        return self._paths[1]

    def _ahead(self, process: LogicalProcess, work: Callable[[], object]) -> None:
        """Run a piece of an agent's work at its own time, and update the state of its process."""
        before, self._acting = self._acting, process
        caused = self._kernel.ahead(process.time_ns, process.delta, process.loop.actor, work)
        self._acting = before
        if caused:
            self._caused.setdefault(process.time_ns, []).extend(caused)
        if process.state is ProcessState.BUSY and not process.serving:
            if process.loop.through:
                self._finished(process)
            else:
                self._left_to_world(process)

    def _left_to_world(self, process: LogicalProcess) -> None:
        """Set a process to away, because its agent waits for an event of the world."""
        self._frontier.leave(process)
        self._frontier.set_away(process)
        if process.cluster:
            cluster, process.cluster = process.cluster, []
            cluster.remove(process)
            self._uncouple(cluster)
        self._tell_watchers(process)

    def _resume(self, process: LogicalProcess, value: object) -> None:
        """Resume the iteration of an agent, at its own time."""
        self._ahead(process, lambda: self._kernel.resume_now(process.loop.actor, value))

    def _finished(self, process: LogicalProcess) -> None:
        """Handle the end of an iteration; in a cluster, complete the tick when all members have finished."""
        self._frontier.leave(process)  # processes at the gate of this tick need not wait for it
        if process.cluster:
            process.state = ProcessState.COUPLED
            process.since = self._service.kernel.now
            self._uncouple(process.cluster)
        else:
            self._completed(process)

    def _uncouple(self, cluster: list[LogicalProcess]) -> None:
        """Complete the ticks of all members of a cluster, if all have finished."""
        if any(member.state is not ProcessState.COUPLED for member in cluster):
            return
        for member in cluster:
            member.cluster = []
            member.waited += self._service.kernel.now - member.since
            self._completed(member)

    def _completed(self, process: LogicalProcess) -> None:
        """Complete the tick of a process, and set its next state from the state of its loop."""
        done, loop = process.step, process.loop
        process.note_path()
        if loop.state is AgentState.RUNNING:
            self._make_ready(process, max(done + 1, -(-loop.due_ns // self._period_ns)))
        elif loop.stopped:
            self._retire(process)
        else:
            self._frontier.set_away(process)
            self._stands_still(process, done + self._is_settled(done))

    def _make_ready(self, process: LogicalProcess, step: int) -> None:
        """Set a process to ready for a tick; its visible state does not change until then."""
        self._frontier.enter(process, step, ProcessState.READY)
        process.since = self._service.kernel.now
        self._queue.append(process)
        self._stands_still(process, step)

    def _retire(self, process: LogicalProcess) -> None:
        """Set a process to out: its agent has no further tick."""
        self._frontier.goes_out(process)
        self._stands_still(process, MAX_NS)

    def _stands_still(self, process: LogicalProcess, step: int) -> None:
        """Mark the visible state of an agent as known up to the beginning of `step`, and wake its watchers."""
        if process.history is not None and step > process.history.final:
            process.history.final = step
        self._tell_watchers(process)

    def _tell_watchers(self, process: LogicalProcess) -> None:
        """Queue the processes that waited for this process, for a new verdict."""
        if process.watchers:
            self._queue.extend(process.watchers)
            process.watchers = []

    # -- the time of the world

    def _make_progress(self) -> bool:
        """Advance the world, then run the next shared action; return whether there was progress."""
        before = self._low_watermark, self._base_ns
        self._advance()
        if self._queue or self._halted:
            return True
        process = self._frontier.next_at_gate(self._low_watermark)
        if process is not None:  # all agents have decided: run the first shared action
            self._frontier.enter(process, self._low_watermark, ProcessState.BUSY)
            process.admitted = True
            self._resume(process, None)
            return True
        return (self._low_watermark, self._base_ns) != before

    def _advance(self) -> None:
        """Run the world up to the low watermark, or to the end of the run.

        Agents that wake during this become ready, which lowers the low watermark to their tick.
        """
        period = self._period_ns
        self._look_after_sleepers(self._low_watermark + 1)  # an action may have woken them
        while not self._halted:
            low_watermark = self._frontier.lowest()
            end = self._until_ns if low_watermark is None else min(low_watermark * period + 1, self._until_ns)
            due, caused = self._kernel.next_time(), min(self._caused, default=MAX_NS)
            if caused < end - 1 and (due is None or caused < due):
                self._kernel.bring_in(caused, _ACTING, self._caused.pop(caused))
                self._let_run(caused + 1, caused // period + 1)
            elif due is not None and due < end:
                tick = -(-due // period)
                self._let_run(min(tick * period + 1, end), tick)
            else:
                self._reach(low_watermark, end - 1)
                return

    def _is_settled(self, step: int) -> bool:
        """Return whether all entries that agents caused in a tick have run: one can still stop a paused agent."""
        return not any(step * self._period_ns <= time < (step + 1) * self._period_ns for time in self._caused)

    def _let_run(self, limit: int, step: int) -> None:
        """Run the world up to a time; agents that wake during this become ready at `step`."""
        self._halted = self._kernel.run(limit) is Pause.HALTED
        self._look_after_sleepers(step)

    def _look_after_sleepers(self, step: int) -> None:
        """Make processes ready whose agents have woken, at `step` or when they are due; retire stopped ones."""
        for process in self._frontier.take_changed():
            loop = process.loop
            if loop.stopped:
                self._retire(process)
            elif loop.state is AgentState.RUNNING and loop.through:
                self._make_ready(process, max(step, -(-loop.due_ns // self._period_ns)))

    def _reach(self, low_watermark: int | None, time: int) -> None:
        """Set the low watermark: all entries of the world have run up to `time`, the beginning of its tick."""
        if low_watermark is None or time <= self._base_ns:
            self._base_ns = max(self._base_ns, time)
            return
        self._low_watermark, self._base_ns = low_watermark, time
        self._order.release(time)
        self._queue.extend(self._frontier.all_at(low_watermark))
        settled = self._is_settled(low_watermark)
        for process in self._frontier.away:
            self._stands_still(
                process, low_watermark + (settled and process.loop.through)
            )  # an agent in the middle of an iteration can still move in this tick
        if low_watermark >= self._forget_at:
            self._forget_at = low_watermark + _KEPT
            if self._world.space is not None:
                self._world.space.forget_before(low_watermark)
            for process in self._processes.values():
                process.forget_paths(low_watermark)

    # -- requests of agents

    def _take(self, actor: Actor, work: Work, alone: float) -> None:
        """Run work that an agent has handed over, such as a model call, in service time."""
        process = self._processes[actor.name]
        if self._acting is not process:
            # The world woke the agent in the middle of its iteration, so the process was away, and counted at no tick.
            # It is busy at the tick of the present from now on, which keeps the low watermark from passing it.
            process.time_ns, process.delta = self._kernel.now, _ACTING
            self._frontier.enter(process, process.time_ns // self._period_ns, ProcessState.BUSY)
            self._stands_still(process, process.step)
            self._kernel.pause()
        process.serving = True
        process.path += alone
        token = actor.token
        self.metrics.begins()

        async def serve() -> None:
            value: Any = None
            error: Exception | None = None
            try:
                value = await work()
            except Exception as failure:
                error = failure
            self.metrics.ends()
            process.serving = False
            if actor.token == token:
                self._resume(process, (value, error))
            else:  # the actor was cancelled during the service: the world delivers the cancellation
                self._left_to_world(process)
            self._news.fire()

        self._service.kernel.spawn(actor.name, serve())

    def _looked(self, agent: str, step: int, seen: Sequence[Sighting]) -> None:
        """Update the critical path of an agent that looks, and collect what it sees for `study`."""
        process = self._processes[agent]
        for shown in seen:
            process.path = max(process.path, self._processes[shown.agent].path_before(step))
        if self.seen is not None:
            self.seen[agent, step] = self.seen.get((agent, step), ()) + tuple(shown.agent for shown in seen)

    def must_wait(self, process: LogicalProcess, action: Action | None) -> bool:
        """Return whether an action uses shared data, so that it must wait for all earlier events."""
        if not self.runs_ahead(process):
            return False
        handler = None if action is None else self._world.actions.find(action.kind)
        return handler is not None and handler.scope == "shared"

    def runs_ahead(self, process: LogicalProcess) -> bool:
        """Return whether an agent runs ahead: it has not passed its gate, and the world has not reached its time."""
        return self._acting is process and not process.admitted

    def stands_at_gate(self, process: LogicalProcess) -> None:
        """Handle an agent that waits at its gate for its turn to execute a shared action."""
        self._frontier.to_gate(process)
        self._tell_watchers(process)

    def acts(self, process: LogicalProcess) -> None:
        """Handle an agent that begins to execute its decision."""
        process.delta = _ACTING
        if self._acting is process:
            self._kernel.delta = _ACTING

    def summary(self) -> JsonObject:
        """Return the measurements, JSON-like: see `RunResult.service`."""
        waited = sum(process.waited for process in self._processes.values()) / max(1, len(self._processes)) / NS
        path = max((process.path for process in self._processes.values()), default=0.0)
        return self.metrics.summary(waited, path)
