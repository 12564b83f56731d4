"""A recorded run in plain code: without an event loop, threads or a record of its own, so that it can be forked.

It repeats its record up to a moment, with the same draws, inputs and steps, and then continues from there, with other
draws if a seed is given. What a run needs from outside (answers of models at endpoints, tools, people) it cannot get:
such runs are not for plain code.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from sim.base.errors import RunError, UsageError
from sim.kernel import Pause
from sim.kernel.codec import JsonObject
from sim.kernel.duration import MAX_NS
from sim.kernel.effects import EffectHandle
from sim.kernel.ports import Arrival, NullRecorder
from sim.kernel.rows import EventRow
from sim.record.history import RunHistory
from sim.record.reader import StoredRun
from sim.record.verifying_recorder import VerifyingRecorder
from sim.runner.engine import controller
from sim.runner.options import ReplayOptions
from sim.runner.rebuild import RecordedSpec, check_not_running
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.spec import Kept
from sim.scenario.overrides import Override
from sim.world.edits import Edit

OUTSIDE: Final = "it needs an answer from outside ({kind} of {actor}), which a run in plain code cannot get"
BRANCH_IT: Final = "branch it instead: `sim branch` executes effects"


@attrs.frozen(order=True)
class StepMoment:
    """A moment of a run: between two of its steps.

    Attributes:
        time_ns: the simulated time, in nanoseconds.
        step: how many steps of this instant have run; 0: nothing that is due at this time has happened.
    """

    time_ns: int
    step: int = 0


class _Keeper(NullRecorder):
    """Takes the events of a plain run: keeps them until somebody asks, passes them on, or drops them."""

    def __init__(self) -> None:
        self.events = 0
        self.rows: list[EventRow] | None = []
        self.inner: VerifyingRecorder | None = None

    def event(self, row: EventRow, /) -> None:
        self.events += 1
        if self.inner is not None:
            self.inner.event(row)
        elif self.rows is not None:
            self.rows.append(row)

    def finish(self, status: Any, digest: JsonObject, sim_ns: int, summary: JsonObject) -> str:
        return "" if self.inner is None else self.inner.finish(status, digest, sim_ns, summary)

    def close(self) -> None:
        return

    def seal(self) -> None:
        return


class _Outside:
    """Stands for the edge: it notes what a run needs from outside, and ends the run."""

    def __init__(self, run: "PlainRun") -> None:
        self._run = run

    def start(self, handle: EffectHandle) -> bool:
        self._run.needs = OUTSIDE.format(kind=handle.effect.kind, actor=handle.actor.name)
        self._run.kernel.halt()
        return True

    def abandon(self, handle: EffectHandle) -> None:
        return


class PlainRun:
    """A finished run, built again from its record. It stands at its first moment.

    Args:
        stored: the run.
        again: the options of the replay.
        begun: called with the runner before the first step.

    Attributes:
        runner: what runs it.
        kernel: its kernel.
        needs: what it needs from outside, as a sentence; None: nothing so far.

    Raises:
        UsageError: if its agents are at different times (`execution.sync`).
        RunError: if it has not finished, needs an answer from outside, or its code has changed.
    """

    def __init__(
        self, stored: StoredRun, again: ReplayOptions, begun: Callable[[RunController], None] | None = None
    ) -> None:
        check_not_running(stored)
        if stored.info.status != "finished":
            raise RunError(f"{stored.path} has not finished, so that it has no outcome", hint="sim resume continues it")
        self.spec = RecordedSpec.from_record(stored, again, checked=True)
        self.spec.check_moment(stored.path, 0)
        simulation = self.spec.simulation
        self.needs: str | None = None
        self.kernel = simulation.world.kernel
        self._keeper = _Keeper()
        self._arrivals = _arrivals(stored)
        self._next = 0
        self._ended = False
        hosting = attrs.evolve(again, begun=begun, progress=None)
        self.runner = controller(self.spec, hosting, Kept(self._keeper, uid=stored.path.name))
        self.kernel.effects.performer = _Outside(self)
        self.runner.begin()

    @property
    def events(self) -> int:
        """How many events have been recorded so far."""
        return self._keeper.events

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of topics to which anything has subscribed or listened so far."""
        return tuple(self.runner.simulation.world.event_bus.patterns)

    # -- the past

    def verify(self, stored: StoredRun) -> None:
        """Compare everything from the start with the record from now on. Only the first moment can ask for it.

        Args:
            stored: the run, opened in this process.
        """
        keeper = self._keeper
        keeper.inner = VerifyingRecorder(RunHistory(stored), lambda: None)
        rows, keeper.rows = keeper.rows, None
        for row in rows or ():
            keeper.inner.event(row)

    def to(self, moment: StepMoment) -> None:
        """Repeat the run up to a moment from an earlier instant.

        Raises:
            DivergenceError: if it is verified, and differs from the record.
        """
        self._before(moment.time_ns)
        for _ in range(moment.step):
            if not self._step(moment.time_ns):
                return

    def steps_at(self, time_ns: int) -> int:
        """Return how many steps the instant has at which the run stands; it runs them."""
        self._before(time_ns)
        count = 0
        while self._step(time_ns):
            count += 1
        return count

    def through(self, time_ns: int, number: int) -> None:
        """Continue until a number of events have been recorded; the time of the last one is known."""
        self._before(time_ns)
        while self.events < number and self._step(time_ns):
            pass

    def to_next(self, here: StepMoment, there: StepMoment) -> None:
        """Go from a moment at which the run stands to a later one."""
        if there.time_ns == here.time_ns:
            for _ in range(there.step - here.step):
                self._step(there.time_ns)
            return
        while self._step(here.time_ns):
            pass
        self.to(there)

    def states(self) -> dict[str, dict[str, Any]]:
        """Return the state variables of all agents."""
        return {agent_id: dict(agent.state) for agent_id, agent in self.runner.simulation.world.agents.items()}

    def noted(self, work: Callable[[], object]) -> list[EventRow]:
        """Return the events of some work."""
        keeper = self._keeper
        keeper.inner, keeper.rows = None, []
        work()
        rows, keeper.rows = keeper.rows, None
        return rows

    def _step(self, time_ns: int) -> bool:
        """Run one step that is due at a time; return whether there was one."""
        while not self._ended:
            pause = self.kernel.run(time_ns + 1, 1)
            if pause is Pause.BUDGET:
                return True
            if pause is Pause.HALTED:
                self._ended = True
            elif not self._arrive(time_ns + 1):
                return False
        return False

    def _before(self, time_ns: int) -> None:
        """Run everything before a time."""
        while not self._ended and self.kernel.now < time_ns:
            arrival = self._arrivals[self._next] if self._next < len(self._arrivals) else None
            there = arrival is not None and arrival.time_ns < time_ns
            limit = arrival.time_ns + 1 if arrival is not None and there else time_ns
            pause = self.kernel.run(limit)
            if pause is Pause.HALTED:
                self._ended = True
            elif pause is Pause.BLOCKED:
                raise RunError(self.needs or "an answer from outside is missing", hint=BRANCH_IT)
            elif not there:
                due = self.kernel.next_time()
                if due is None or due >= time_ns:
                    if time_ns < MAX_NS and self.kernel.now < time_ns - 1:
                        self.kernel.advance_to(time_ns - 1)
                    return
            else:
                self._arrive(time_ns)

    def _arrive(self, before_ns: int) -> bool:
        """Apply the next inputs on record, if their time and round have come; return whether there were any."""
        first = self._arrivals[self._next] if self._next < len(self._arrivals) else None
        if first is None or first.time_ns >= before_ns:
            return False
        if self.kernel.now < first.time_ns:
            self.kernel.advance_to(first.time_ns)
        place = (first.time_ns, first.delta)
        while self._next < len(self._arrivals):
            arrival = self._arrivals[self._next]
            if (arrival.time_ns, arrival.delta) != place:
                break
            self.kernel.apply(arrival.kind, arrival.data)
            self._next += 1
        return True

    # -- what is other than on record

    def edit(self, edits: Sequence[Edit]) -> None:
        """Leave out or replace messages and published events from now on."""
        self.spec.edit(edits)

    def change(self, values: JsonObject) -> None:
        """Set live values, as an intervention does."""
        self.runner.live.change([Override.of(key, value) for key, value in values.items()])

    def pause(self, agents: Sequence[str]) -> None:
        """Pause agents for good."""
        with self.kernel.acting_as(self.kernel.supervisor):
            for agent_id in agents:
                loop = self.runner.simulation.manager.get_loop(agent_id)
                if loop is None:
                    raise UsageError(
                        f"there is no agent {agent_id!r:.60}", hint="`sim show RUN agents` has those of the run"
                    )
                loop.pause()

    def drop(self, places: Sequence[int]) -> None:
        """Carry out no interventions of the scenario at these places of its list, from the start of the run on."""
        if places:
            scenario = self.runner.simulation.scenario
            kept = [one for place, one in enumerate(scenario.interventions) if place not in places]
            self.runner.interventions.change(scenario.model_copy(update={"interventions": kept}), -1)

    def reseed(self, seed: int) -> None:
        """Use another seed for all draws from now on."""
        self.kernel.reseed(seed)

    def finish(self, *, quick: bool = True) -> RunResult:
        """Run to the end, and return the result.

        Args:
            quick: whether events are dropped, which is faster. Not for a run that is verified.

        Raises:
            RunError: if it needs an answer from outside.
        """
        until = self.spec.until_ns
        if quick:
            self._keeper.inner, self._keeper.rows = None, None
            if self.kernel.recorder is self._keeper:
                self.kernel.kept = frozenset()
            del self._arrivals[self._next :]  # what came from outside later is not repeated, as in a branch
        self._before(until)
        if self.needs is not None:
            raise RunError(self.needs, hint=BRANCH_IT)
        if not self._ended and until < MAX_NS:
            self.kernel.advance_to(until)
        self._end()
        if quick:
            return self.runner.outcome()
        return self.runner.finish("finished", self._keeper, run=None, backend="asyncio", wall_seconds=0.0)

    def _end(self) -> None:
        runner = self.runner
        runner.note_standstill()
        if runner.begin_end():
            self.kernel.run(self.kernel.now)
            if self.needs is not None:
                raise RunError(self.needs, hint=BRANCH_IT)
        runner.feed.sample_end()


def _arrivals(stored: StoredRun) -> list[Arrival]:
    """Return the inputs of a run from outside, in their order.

    Raises:
        RunError: if it has effects, such as calls of models at endpoints.
    """
    if reason := needs_outside(stored):
        raise RunError(f"{stored.path} cannot be run in plain code: {reason}", hint=BRANCH_IT)
    history, arrivals = RunHistory(stored), []
    while (arrival := history.next_arrival()) is not None:
        arrivals.append(arrival)
        history.arrived()
    return arrivals


def needs_outside(stored: StoredRun) -> str | None:
    """Return what a run got from outside, in a few words; None: nothing, so that it can be run in plain code."""
    rows = stored.query("SELECT kind, count(*) FROM effects GROUP BY kind ORDER BY kind LIMIT 3")
    return f"it had effects ({', '.join(f'{count} {kind}' for kind, count in rows)})" if rows else None
