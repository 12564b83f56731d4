"""The gate of a played run: the host asks it between two instants whether the run continues. Part of the edge."""

import threading
import time
from collections.abc import Callable
from typing import Final, Literal, cast

import attrs

from sim.record import RunRecorder
from sim.runner import RunController

UPDATES: Final = 30
"""The most times a second that events are handed to the writer, and a window is updated."""

Kind = Literal["event", "tick", "agent"]
"""How far a step goes: to the end of the instant of the next event on record, of the next tick, or in which an agent
does something next."""


@attrs.frozen
class PendingStep:
    """A step that is asked for.

    Attributes:
        kind: how far it goes.
        agent: the agent, if it goes to what an agent does next.
        events: the number of events when it began.
        begun: how many iterations the agent had begun then.
        until_ns: to which simulated time (nanoseconds) it goes, if it goes to a tick.
    """

    kind: Kind
    agent: str
    events: int
    begun: int
    until_ns: int


class PlayGate:
    """Lets a run continue or holds it, from any thread.

    Args:
        runner: the run, before its first step.
        news: called, from any thread, when there is something new on disk or the run is held.

    Attributes:
        going: whether the run is to continue.
        speed: simulated seconds per real second; None is as fast as it can.
        went: whether it ever continued after its first instant.
    """

    def __init__(self, runner: RunController, news: Callable[[], None]) -> None:
        self._runner = runner
        self._news = news
        self._host = runner.host
        self._on_hold = runner.host.held  # whether people hold it from a terminal
        self._recorder = cast(RunRecorder, runner.simulation.world.kernel.recorder)
        self._lock = threading.Lock()
        self._step: PendingStep | None = None
        self._seen = 0  # the number of events when the gate was last asked
        self._flushed = (-1, 0.0)  # the number of events that the writer has, and since when
        self._passing = False
        self._asked = 0
        self.going = False
        self.went = False
        self.speed = runner.speed
        runner.host.held = self._held

    # -- from any thread

    def go(self) -> None:
        """Let the run continue."""
        self._let(None)

    def step(self, kind: Kind, agent: str = "") -> None:
        """Let the run continue to the end of a step.

        Args:
            kind: how far.
            agent: the agent, with the kind `agent`.
        """
        loop = self._runner.simulation.manager.get_loop(agent)
        period = self._runner.simulation.scenario.execution.tick.period
        now = self._host.kernel.now
        until = (now // period + 1) * period
        self._let(PendingStep(kind, agent, self._recorder.events, 0 if loop is None else loop.iteration_count, until))

    def hold(self) -> None:
        """Hold the run at the end of the present instant."""
        with self._lock:
            self._step, self.going = None, False
        self._host.look_up()

    def pace(self, speed: float | None) -> None:
        """Change the speed: simulated seconds per real second; None is as fast as it can."""
        self.speed = speed
        self._host.look_up()

    def _let(self, step: PendingStep | None) -> None:
        with self._lock:
            self._step, self.going, self.went = step, True, True
        self._host.look_up()

    # -- in the thread of the run

    def _held(self) -> bool:
        self._asked += 1
        with self._lock:
            step, going = self._step, self.going
            if step is not None and self._done(step):
                step, going = None, False
                self._step, self.going = step, going
        self._seen = self._recorder.events
        held = not going or self._on_hold()
        self._host.by_instant = step is not None
        pace = None if step is not None else self.speed
        if not held and (not self._passing or self._host.pacer.speed != pace):
            self._host.pacer.pace(pace)  # real time that has passed while it was held never becomes simulated time
        ended = self._passing and held
        self._passing = not held
        if self._asked > 1:
            self._flush(at_once=held, again=ended)
        return held

    def _done(self, step: PendingStep) -> bool:
        events = self._recorder.events
        if step.kind == "event":
            return events > step.events
        if step.kind == "tick":
            due = self._host.kernel.next_time()
            return self._host.kernel.now >= step.until_ns if due is None else due > step.until_ns
        loop = self._runner.simulation.manager.get_loop(step.agent)
        if loop is None or loop.iteration_count > step.begun:
            return True
        return any(row[5] == step.agent for row in self._recorder.latest(events - self._seen))

    def _flush(self, *, at_once: bool, again: bool) -> None:
        """Hand the events so far to the writer, if there are new ones and enough time has passed."""
        events, now = self._recorder.events, time.monotonic()
        flushed, since = self._flushed
        if not again and (events == flushed or (not at_once and now - since < 1 / UPDATES)):
            return
        self._flushed = events, now
        self._recorder.flush()
        self._recorder.durable(lambda _: self._news())
