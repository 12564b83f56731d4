"""Synchronised rounds on two axes: world time, which each agent has for itself, and service time, when models answer.

Tick k of an agent happens at k periods of world time, however long its calls take: they take service time only. A
policy (`policies`) decides which agents may begin their next tick: a barrier, or one that lets agents run ahead as far
as their perception allows. Policies change how long the run takes on the axis of service time (the makespan), and
nothing else: events carry the agent's own time and are released in key order, so every policy gives the same hash.

What is not declared to be an agent's own or spatial waits until all that is earlier has happened: the world's timers
(sleeps, injections, samples), and the actions of a tick on what all share, which are applied in the order of the agents
when all have decided. The world's kernel runs up to the *low watermark*, the earliest tick that some agent still has to
do; work beyond it runs ahead (`Kernel.ahead`).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sim.actors import AgentLoopManager, AgentState
from sim.errors import RunError
from sim.kernel import NS, Actor, Pause, Signal
from sim.kernel.duration import MAX_NS
from sim.kernel.future_events import Entry
from sim.kernel.waits import sleep_ns
from sim.llm.service_time import ServiceTime, Work
from sim.sync.frontier import Frontier
from sim.sync.gate import Gate
from sim.sync.metrics import ServiceMetrics
from sim.sync.policies import LOW_WATERMARK, LogicalProcess, Oracle, ProcessState, SyncPolicy
from sim.sync.reorder import ReorderBuffer
from sim.sync.restricted_world import restrict
from sim.world import Action, Sighting, Space

PolicyMaker = Callable[[Mapping[str, LogicalProcess], Space | None, Callable[[], int]], SyncPolicy]
"""Makes the policy of a run from its processes, its space, and what returns the low watermark."""

_DECIDING, _ACTING = 1, 2  # deltas within a tick: first the world's own timers, then all decide, then all act
_AT_ONCE = 64  # agents that are looked at before the host gets a chance of a turn
_KEPT = 64  # steps that are done before what was shown in them is forgotten


class SyncDriver:
    """Drives the loops of a world in synchronised rounds.

    Args:
        manager: whose loops.
        service: the axis on which models answer.
        policy: makes the policy for who may begin.
        period_ns: world time between two ticks, nanoseconds.
        until_ns: world time at which the run ends.
        fence: returns the next world time at which the scenario looks at everything.

    Attributes:
        metrics: what was measured on the axis of service time.
        seen: (agent, step) → whom it saw; kept only if `study` was called.
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
        self._caused: dict[int, list[Entry]] = {}  # by time: what agents caused at that instant
        self._queue: deque[LogicalProcess] = deque()  # who is to be asked whether it may begin
        self._paths = (-1, 0.0)  # the longest chain of all that led to the beginning of a step
        self._low_watermark = 0
        self._forget_at = _KEPT
        self._base_ns = -1  # all of the world's own that is due up to here has run
        self._acting: LogicalProcess | None = None  # whose work is being run ahead
        self._news = Signal(service.kernel)
        self._halted = False

    def study(self) -> None:
        """Keep whom each agent sees at each step."""
        self.seen = {}

    def know(self, seen: Mapping[tuple[str, int], Sequence[str]]) -> None:
        """Run by an oracle's policy, which knows whom each agent will see."""
        self._make_policy = lambda processes, space, low_watermark: Oracle(processes, space, low_watermark, seen)
        if self._world.space is not None:
            self._world.space.truth = seen

    def start(self) -> None:
        """Take over the loops, which have been started for ticking."""
        space = self._world.space
        self._kernel.recorder = self._order
        self._service.kernel.recorder = self._order.inner  # nothing happens there, but it flushes for who follows
        self._service.take = self._take
        for number, loop in enumerate(self._manager.loops.values()):
            history = None if space is None else space.histories.get(loop.agent_id)
            process = self._processes[loop.agent_id] = LogicalProcess(loop, number, history)
            loop.hold(Gate(self, process))
            loop.on_change = partial(self._frontier.stirs, process)
            restrict(loop.agent, partial(self.runs_ahead, process))
            self._make_ready(process, -(-loop.due_ns // self._period_ns))
        self._policy = self._make_policy(self._processes, space, lambda: self._low_watermark)
        if space is not None:
            space.on_look = self._looked
            space.strict = self._policy.strict
        self._service.kernel.spawn("world", self._run())

    def end(self, finished: bool) -> None:
        """Hand over all events. Those of agents that have run ahead of a run that was interrupted are dropped: they are
        made again when it goes on.
        """
        if finished:
            if not self._halted and self._until_ns > self._kernel.now:
                self._kernel.advance_to(self._until_ns)
            self._kernel.begin_anew()
            self._order.release()
        self._kernel.recorder = self._order.inner

    # -- the loop

    async def _run(self) -> None:
        # This is the loop of a synchronised run: who may begin a step does, then the world goes on as far as all have.
        while not self._halted:
            for _ in range(min(_AT_ONCE, len(self._queue))):
                self._offer(self._queue.popleft())
            if self._go_on():
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
        """Let a process that is ready begin its step, or find out what it waits for."""
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
            for member in tuple(cluster):  # one that has to wait leaves the cluster
                self._begin(member)

    def _begin(self, process: LogicalProcess) -> None:
        """Run the first piece of an agent's iteration at its own time."""
        process.time_ns = process.step * self._period_ns
        process.delta = _DECIDING
        process.admitted = False
        if process.loop.agent.reach not in ("own", "space"):
            process.path = self._path_of_all(process.step)
        self._ahead(process, process.loop.turn)

    def _path_of_all(self, step: int) -> float:
        """Return the longest chain that led to anything at the beginning of `step`, which all have come to."""
        if self._paths[0] != step:
            self._paths = step, max(process.path_before(step) for process in self._processes.values())
        return self._paths[1]

    def _ahead(self, process: LogicalProcess, work: Callable[[], object]) -> None:
        """Run a piece of an agent's work at its own time, and see where that leads."""
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
        """An agent waits for something in the world: its time goes on there."""
        self._frontier.leave(process)
        self._frontier.goes_away(process)
        if process.cluster:
            cluster, process.cluster = process.cluster, []
            cluster.remove(process)
            self._uncouple(cluster)
        self._tell_watchers(process)

    def _resume(self, process: LogicalProcess, value: object) -> None:
        """Let an agent go on with its iteration, at its own time."""
        self._ahead(process, lambda: self._kernel.resume_now(process.loop.actor, value))

    def _finished(self, process: LogicalProcess) -> None:
        """An agent's iteration is through; with others that it is coupled to, when theirs are."""
        self._frontier.leave(process)  # who stands at the gate of this step need not wait for it
        if process.cluster:
            process.state = ProcessState.COUPLED
            process.since = self._service.kernel.now
            self._uncouple(process.cluster)
        else:
            self._completed(process)

    def _uncouple(self, cluster: list[LogicalProcess]) -> None:
        """Let those that step together go on, if all of them are through."""
        if any(member.state is not ProcessState.COUPLED for member in cluster):
            return
        for member in cluster:
            member.cluster = []
            member.waited += self._service.kernel.now - member.since
            self._completed(member)

    def _completed(self, process: LogicalProcess) -> None:
        """Count a step as done, and see what the agent does next."""
        done, loop = process.step, process.loop
        process.note_path()
        if loop.state is AgentState.RUNNING:
            self._make_ready(process, max(done + 1, -(-loop.due_ns // self._period_ns)))
        elif loop.stopped:
            self._retire(process)
        else:
            self._frontier.goes_away(process)
            self._stands_still(process, done + self._is_settled(done))

    def _make_ready(self, process: LogicalProcess, step: int) -> None:
        """Let an agent be ready for a step; until its beginning it shows what it has shown."""
        self._frontier.enter(process, step, ProcessState.READY)
        process.since = self._service.kernel.now
        self._queue.append(process)
        self._stands_still(process, step)

    def _retire(self, process: LogicalProcess) -> None:
        """An agent does no more steps."""
        self._frontier.goes_out(process)
        self._stands_still(process, MAX_NS)

    def _stands_still(self, process: LogicalProcess, step: int) -> None:
        """It is known now what an agent shows at the beginning of `step`: who waited for that may ask again."""
        if process.history is not None and step > process.history.known:
            process.history.known = step
        self._tell_watchers(process)

    def _tell_watchers(self, process: LogicalProcess) -> None:
        """Let those that waited for a process ask again."""
        if process.watchers:
            self._queue.extend(process.watchers)
            process.watchers = []

    # -- the world's own time

    def _go_on(self) -> bool:
        """Let the world go on, and then the next action on what all share; return whether anything came of it."""
        before = self._low_watermark, self._base_ns
        self._advance()
        if self._queue or self._halted:
            return True
        process = self._frontier.next_at_gate(self._low_watermark)
        if process is not None:  # all have decided: the first of those that change what all share does so
            self._frontier.enter(process, self._low_watermark, ProcessState.BUSY)
            process.admitted = True
            self._resume(process, None)
            return True
        return (self._low_watermark, self._base_ns) != before

    def _advance(self) -> None:
        """Let the world run up to the beginning of the earliest step that somebody has to do, or to the end.

        Agents that wake on the way are seated, and then that is as far as it goes.
        """
        period = self._period_ns
        self._look_after_sleepers(self._low_watermark + 1)  # somebody's action may have woken them
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
        """Whether nothing that agents caused in a step is still to come: it may end one that is paused until then."""
        return not any(step * self._period_ns <= time < (step + 1) * self._period_ns for time in self._caused)

    def _let_run(self, limit: int, step: int) -> None:
        """Run the world up to a time; who wakes on the way joins in at `step`."""
        self._halted = self._kernel.run(limit) is Pause.HALTED
        self._look_after_sleepers(step)

    def _look_after_sleepers(self, step: int) -> None:
        """LogicalProcess those that have woken, at `step` or when they are due."""
        for process in self._frontier.stirred():
            loop = process.loop
            if loop.stopped:
                self._retire(process)
            elif loop.state is AgentState.RUNNING and loop.through:
                self._make_ready(process, max(step, -(-loop.due_ns // self._period_ns)))

    def _reach(self, low_watermark: int | None, time: int) -> None:
        """All of the world's own has run up to `time`, the beginning of the step at the low watermark."""
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
            )  # who is in a line may yet move
        if low_watermark >= self._forget_at:
            self._forget_at = low_watermark + _KEPT
            if self._world.space is not None:
                self._world.space.forget_before(low_watermark)
            for process in self._processes.values():
                process.forget_paths(low_watermark)

    # -- what agents ask for

    def _take(self, actor: Actor, work: Work, alone: float) -> None:
        """Carry out what an agent has handed over, on the axis of service time."""
        process = self._processes[actor.name]
        if self._acting is not process:  # it is in the middle of an iteration, and the world's time has woken it
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
            else:  # it was cancelled meanwhile, which the world tells it
                self._left_to_world(process)
            self._news.fire()

        self._service.kernel.spawn(actor.name, serve())

    def _looked(self, agent: str, step: int, seen: Sequence[Sighting]) -> None:
        """Note on whom an agent's step depends."""
        process = self._processes[agent]
        for shown in seen:
            process.path = max(process.path, self._processes[shown.agent].path_before(step))
        if self.seen is not None:
            self.seen[agent, step] = self.seen.get((agent, step), ()) + tuple(shown.agent for shown in seen)

    def must_wait(self, process: LogicalProcess, action: Action | None) -> bool:
        """Return whether what an agent has decided touches what all share, so that all that is earlier comes first."""
        if not self.runs_ahead(process):
            return False
        handler = None if action is None else self._world.actions.find(action.kind)
        return handler is not None and handler.scope == "shared"

    def runs_ahead(self, process: LogicalProcess) -> bool:
        """Return whether what an agent does now may come before something that is earlier: neither is it its turn, nor
        has the world's own time come to it.
        """
        return self._acting is process and not process.admitted

    def stands_at_gate(self, process: LogicalProcess) -> None:
        """An agent waits for its turn to do something that all share."""
        self._frontier.to_gate(process)
        self._tell_watchers(process)

    def acts(self, process: LogicalProcess) -> None:
        """An agent executes from now on what it has decided."""
        process.delta = _ACTING
        if self._acting is process:
            self._kernel.delta = _ACTING

    def summary(self) -> Mapping[str, Any]:
        """Return what was measured, JSON-like: see `RunResult.service`."""
        waited = sum(process.waited for process in self._processes.values()) / max(1, len(self._processes)) / NS
        path = max((process.path for process in self._processes.values()), default=0.0)
        return self.metrics.summary(waited, path)
