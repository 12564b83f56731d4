"""Synchronised rounds on two axes: world time, which each agent has for itself, and service time, when models answer.

Tick k of an agent happens at k periods of world time, whatever its calls take: they take service time only. Who may
begin its next tick is what a rule decides (`seat`): a barrier, or one that lets agents run ahead as far as what they
can see allows. Rules change how long the whole takes on the axis of service time (the makespan), and nothing else:
events carry the agent's own time and are released in key order, so the hash of the run is that of the barrier's.

What is not declared to be an agent's own or spatial waits until all that is earlier has happened: the world's timers
(sleeps, injections, samples), and the actions of a tick on what all share, which are applied in the order of the agents
when all have decided. The world's kernel runs up to the *low watermark*, the earliest tick that somebody still has to
do; pieces of work beyond it are run ahead (`Kernel.ahead`).
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
from sim.llm.servicetime import ServiceTime, Work
from sim.runner.confined import confine
from sim.runner.gate import Gate
from sim.runner.inorder import InOrder
from sim.runner.roll import Roll
from sim.runner.seat import LOW, Oracle, Phase, Rule, Seat
from sim.runner.usage import Usage
from sim.world import Action, Sighting, Space

RuleMaker = Callable[[Mapping[str, Seat], Space | None, Callable[[], int]], Rule]
"""Makes the rule of a run from its seats, its space, and what returns the low watermark."""

_DECIDING, _ACTING = 1, 2  # deltas within a tick: first the world's own timers, then all decide, then all act
_AT_ONCE = 64  # agents that are looked at before the host gets a chance of a turn
_KEPT = 64  # steps that are done before what was shown in them is forgotten


class SyncDriver:
    """Drives the loops of a world in synchronised rounds.

    Args:
        manager: whose loops.
        service: the axis on which models answer.
        rule: makes the rule for who may begin.
        period_ns: world time between two ticks, nanoseconds.
        until_ns: world time at which the run ends.
        fence: returns the next world time at which the scenario looks at everything.

    Attributes:
        usage: what was measured on the axis of service time.
        seen: (agent, step) → whom it saw; kept only if `study` was called.
    """

    def __init__(
        self,
        manager: AgentLoopManager,
        service: ServiceTime,
        rule: RuleMaker,
        *,
        period_ns: int,
        until_ns: int,
        fence: Callable[[], int],
    ) -> None:
        self.usage = Usage(service.kernel)
        self.seen: dict[tuple[str, int], tuple[str, ...]] | None = None
        self._manager = manager
        self._world = manager.world
        self._kernel = manager.world.kernel
        self._service = service
        self._make_rule = rule
        self._period_ns = period_ns
        self._until_ns = until_ns
        self._fence = fence
        self._order = InOrder(self._kernel.recorder)
        self._seats: dict[str, Seat] = {}
        self._roll = Roll()
        self._caused: dict[int, list[Entry]] = {}  # by time: what agents caused at that instant
        self._queue: deque[Seat] = deque()  # who is to be asked whether it may begin
        self._paths = (-1, 0.0)  # the longest chain of all that led to the beginning of a step
        self._low = 0
        self._forget_at = _KEPT
        self._base_ns = -1  # all of the world's own that is due up to here has run
        self._acting: Seat | None = None  # whose work is being run ahead
        self._news = Signal(service.kernel)
        self._halted = False

    def study(self) -> None:
        """Keep whom each agent sees at each step."""
        self.seen = {}

    def know(self, seen: Mapping[tuple[str, int], Sequence[str]]) -> None:
        """Run by an oracle's rule, which knows whom each agent will see."""
        self._make_rule = lambda seats, space, low: Oracle(seats, space, low, seen)
        if self._world.space is not None:
            self._world.space.truth = seen

    def start(self) -> None:
        """Take over the loops, which have been started for ticking."""
        space = self._world.space
        self._kernel.recorder = self._order
        self._service.kernel.recorder = self._order.inner  # nothing happens there, but it flushes for who follows
        self._service.take = self._take
        for number, loop in enumerate(self._manager.loops.values()):
            track = None if space is None else space.tracks.get(loop.agent_id)
            seat = self._seats[loop.agent_id] = Seat(loop, number, track)
            loop.hold(Gate(self, seat))
            loop.on_change = partial(self._roll.stirs, seat)
            confine(loop.agent, partial(self.runs_ahead, seat))
            self._seat_at(seat, -(-loop.due_ns // self._period_ns))
        self._rule = self._make_rule(self._seats, space, lambda: self._low)
        if space is not None:
            space.on_look = self._looked
            space.strict = self._rule.strict
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
            elif self.usage.in_flight:
                await self._news.wait()
            else:
                break
        stuck = [seat for seat in self._seats.values() if seat.phase not in (Phase.OUT, Phase.AWAY)]
        if stuck and not self._halted:
            raise RunError(f"nobody can go on: {stuck[0].agent_id} waits at step {stuck[0].step}, {len(stuck)} in all")
        self._service.kernel.halt()

    def _offer(self, seat: Seat) -> None:
        """Let a seat that is ready begin its step, or find out what it waits for."""
        if seat.phase is not Phase.READY:
            return
        time = seat.step * self._period_ns
        if time >= self._until_ns:
            self._retire(seat)
            return
        verdict = LOW if self._base_ns < time and time >= self._fence() else self._rule.verdict(seat)
        if isinstance(verdict, Seat):
            verdict.watchers.append(seat)
        elif verdict is not None:
            self._roll.wait_for_all(seat)
        else:
            crew = list(self._rule.crew(seat))
            for member in crew:
                member.crew = crew if len(crew) > 1 else []
                member.phase = Phase.BUSY
                member.waited += self._service.kernel.now - member.since
            for member in tuple(crew):  # one that has to wait leaves the crew
                self._begin(member)

    def _begin(self, seat: Seat) -> None:
        """Run the first piece of an agent's iteration at its own time."""
        seat.time_ns = seat.step * self._period_ns
        seat.delta = _DECIDING
        seat.admitted = False
        if seat.loop.agent.reach not in ("own", "space"):
            seat.path = self._path_of_all(seat.step)
        self._ahead(seat, seat.loop.turn)

    def _path_of_all(self, step: int) -> float:
        """Return the longest chain that led to anything at the beginning of `step`, which all have come to."""
        if self._paths[0] != step:
            self._paths = step, max(seat.path_before(step) for seat in self._seats.values())
        return self._paths[1]

    def _ahead(self, seat: Seat, work: Callable[[], object]) -> None:
        """Run a piece of an agent's work at its own time, and see where that leads."""
        before, self._acting = self._acting, seat
        caused = self._kernel.ahead(seat.time_ns, seat.delta, seat.loop.actor, work)
        self._acting = before
        if caused:
            self._caused.setdefault(seat.time_ns, []).extend(caused)
        if seat.phase is Phase.BUSY and not seat.serving:
            if seat.loop.through:
                self._finished(seat)
            else:
                self._left_to_world(seat)

    def _left_to_world(self, seat: Seat) -> None:
        """An agent waits for something in the world: its time goes on there."""
        self._roll.unseat(seat)
        self._roll.goes_away(seat)
        if seat.crew:
            crew, seat.crew = seat.crew, []
            crew.remove(seat)
            self._uncouple(crew)
        self._tell_watchers(seat)

    def _resume(self, seat: Seat, value: object) -> None:
        """Let an agent go on with its iteration, at its own time."""
        self._ahead(seat, lambda: self._kernel.resume_now(seat.loop.actor, value))

    def _finished(self, seat: Seat) -> None:
        """An agent's iteration is through; with others that it is coupled to, when theirs are."""
        self._roll.unseat(seat)  # who stands at the gate of this step need not wait for it
        if seat.crew:
            seat.phase = Phase.COUPLED
            seat.since = self._service.kernel.now
            self._uncouple(seat.crew)
        else:
            self._completed(seat)

    def _uncouple(self, crew: list[Seat]) -> None:
        """Let those that step together go on, if all of them are through."""
        if any(member.phase is not Phase.COUPLED for member in crew):
            return
        for member in crew:
            member.crew = []
            member.waited += self._service.kernel.now - member.since
            self._completed(member)

    def _completed(self, seat: Seat) -> None:
        """Count a step as done, and see what the agent does next."""
        done, loop = seat.step, seat.loop
        seat.note_path()
        if loop.state is AgentState.RUNNING:
            self._seat_at(seat, max(done + 1, -(-loop.due_ns // self._period_ns)))
        elif loop.stopped:
            self._retire(seat)
        else:
            self._roll.goes_away(seat)
            self._stands_still(seat, done + self._is_settled(done))

    def _seat_at(self, seat: Seat, step: int) -> None:
        """Let an agent be ready for a step; until its beginning it shows what it has shown."""
        self._roll.seat(seat, step, Phase.READY)
        seat.since = self._service.kernel.now
        self._queue.append(seat)
        self._stands_still(seat, step)

    def _retire(self, seat: Seat) -> None:
        """An agent does no more steps."""
        self._roll.goes_out(seat)
        self._stands_still(seat, MAX_NS)

    def _stands_still(self, seat: Seat, step: int) -> None:
        """It is known now what an agent shows at the beginning of `step`: who waited for that may ask again."""
        if seat.track is not None and step > seat.track.known:
            seat.track.known = step
        self._tell_watchers(seat)

    def _tell_watchers(self, seat: Seat) -> None:
        """Let those that waited for a seat ask again."""
        if seat.watchers:
            self._queue.extend(seat.watchers)
            seat.watchers = []

    # -- the world's own time

    def _go_on(self) -> bool:
        """Let the world go on, and then the next action on what all share; return whether anything came of it."""
        before = self._low, self._base_ns
        self._advance()
        if self._queue or self._halted:
            return True
        seat = self._roll.next_at_gate(self._low)
        if seat is not None:  # all have decided: the first of those that change what all share does so
            self._roll.seat(seat, self._low, Phase.BUSY)
            seat.admitted = True
            self._resume(seat, None)
            return True
        return (self._low, self._base_ns) != before

    def _advance(self) -> None:
        """Let the world run up to the beginning of the earliest step that somebody has to do, or to the end.

        Agents that wake on the way are seated, and then that is as far as it goes.
        """
        period = self._period_ns
        self._look_after_sleepers(self._low + 1)  # somebody's action may have woken them
        while not self._halted:
            low = self._roll.lowest()
            end = self._until_ns if low is None else min(low * period + 1, self._until_ns)
            due, caused = self._kernel.next_time(), min(self._caused, default=MAX_NS)
            if caused < end - 1 and (due is None or caused < due):
                self._kernel.bring_in(caused, _ACTING, self._caused.pop(caused))
                self._let_run(caused + 1, caused // period + 1)
            elif due is not None and due < end:
                tick = -(-due // period)
                self._let_run(min(tick * period + 1, end), tick)
            else:
                self._reach(low, end - 1)
                return

    def _is_settled(self, step: int) -> bool:
        """Whether nothing that agents caused in a step is still to come: it may end one that is paused until then."""
        return not any(step * self._period_ns <= time < (step + 1) * self._period_ns for time in self._caused)

    def _let_run(self, limit: int, step: int) -> None:
        """Run the world up to a time; who wakes on the way joins in at `step`."""
        self._halted = self._kernel.run(limit) is Pause.HALTED
        self._look_after_sleepers(step)

    def _look_after_sleepers(self, step: int) -> None:
        """Seat those that have woken, at `step` or when they are due."""
        for seat in self._roll.stirred():
            loop = seat.loop
            if loop.stopped:
                self._retire(seat)
            elif loop.state is AgentState.RUNNING and loop.through:
                self._seat_at(seat, max(step, -(-loop.due_ns // self._period_ns)))

    def _reach(self, low: int | None, time: int) -> None:
        """All of the world's own has run up to `time`, the beginning of step `low`."""
        if low is None or time <= self._base_ns:
            self._base_ns = max(self._base_ns, time)
            return
        self._low, self._base_ns = low, time
        self._order.release(time)
        self._queue.extend(self._roll.all_at(low))
        settled = self._is_settled(low)
        for seat in self._roll.away:
            self._stands_still(seat, low + (settled and seat.loop.through))  # who is in a line may yet move
        if low >= self._forget_at:
            self._forget_at = low + _KEPT
            if self._world.space is not None:
                self._world.space.forget_before(low)
            for seat in self._seats.values():
                seat.forget_paths(low)

    # -- what agents ask for

    def _take(self, actor: Actor, work: Work, alone: float) -> None:
        """Carry out what an agent has handed over, on the axis of service time."""
        seat = self._seats[actor.name]
        if self._acting is not seat:  # it is in the middle of an iteration, and the world's time has woken it
            seat.time_ns, seat.delta = self._kernel.now, _ACTING
            self._roll.seat(seat, seat.time_ns // self._period_ns, Phase.BUSY)
            self._stands_still(seat, seat.step)
            self._kernel.pause()
        seat.serving = True
        seat.path += alone
        token = actor.token
        self.usage.begins()

        async def serve() -> None:
            value: Any = None
            error: Exception | None = None
            try:
                value = await work()
            except Exception as failure:
                error = failure
            self.usage.ends()
            seat.serving = False
            if actor.token == token:
                self._resume(seat, (value, error))
            else:  # it was cancelled meanwhile, which the world tells it
                self._left_to_world(seat)
            self._news.fire()

        self._service.kernel.spawn(actor.name, serve())

    def _looked(self, agent: str, step: int, seen: Sequence[Sighting]) -> None:
        """Note on whom an agent's step depends."""
        seat = self._seats[agent]
        for shown in seen:
            seat.path = max(seat.path, self._seats[shown.agent].path_before(step))
        if self.seen is not None:
            self.seen[agent, step] = self.seen.get((agent, step), ()) + tuple(shown.agent for shown in seen)

    def must_wait(self, seat: Seat, action: Action | None) -> bool:
        """Return whether what an agent has decided touches what all share, so that all that is earlier comes first."""
        if not self.runs_ahead(seat):
            return False
        handler = None if action is None else self._world.actions.find(action.kind)
        return handler is not None and handler.scope == "shared"

    def runs_ahead(self, seat: Seat) -> bool:
        """Return whether what an agent does now may come before something that is earlier: neither is it its turn, nor
        has the world's own time come to it.
        """
        return self._acting is seat and not seat.admitted

    def stands_at_gate(self, seat: Seat) -> None:
        """An agent waits for its turn to do something that all share."""
        self._roll.to_gate(seat)
        self._tell_watchers(seat)

    def acts(self, seat: Seat) -> None:
        """An agent executes from now on what it has decided."""
        seat.delta = _ACTING
        if self._acting is seat:
            self._kernel.delta = _ACTING

    def summary(self) -> Mapping[str, Any]:
        """Return what was measured, JSON-like: see `RunResult.service`."""
        waited = sum(seat.waited for seat in self._seats.values()) / max(1, len(self._seats)) / NS
        path = max((seat.path for seat in self._seats.values()), default=0.0)
        return self.usage.summary(waited, path)
