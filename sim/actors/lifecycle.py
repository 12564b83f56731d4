"""The lifecycle of an agent loop: its state machine, and every change of state from outside an iteration."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.error_reports import log_failure
from sim.actors.events import AgentFailed, DeadLetters, InterruptMissed, StateChanged
from sim.actors.state import SUCCESSORS, AgentState, PauseReason
from sim.actors.wake import Registration, WakeCondition, arm, check
from sim.base.errors import OutOfMemoryError, RunError
from sim.base.text import of_error, recordable_text
from sim.kernel import Actor, Duration, Exit, Fired, Latch, Signal, first_of, to_ns
from sim.kernel.ports import DONE, Call
from sim.world import World

TRAVEL: Final = "travel"
"""The reason for which an agent stops that goes to another island."""

_S = AgentState


class Phase(enum.Enum):
    """Whether an iteration is under way. This decides how a stop takes effect."""

    OUTSIDE = "between two iterations"
    INSIDE = "in an iteration"


class Lifecycle(ABC):
    """The state and the actor of a loop, and the methods that stop it, put it to sleep, wake it and pause it.

    Attributes:
        woken_by: what ended the last sleep: a condition type such as `time`, `timeout`, `wake`, `interrupt`, `error`,
            or empty.
        pause_reason: why the loop is paused, or None.
        held_ns: how long the operator has paused the loop in all, in simulated nanoseconds, without a pause under way.
        crash_reason: the error that crashed the loop, as in the event `agent.error`; None if it did not crash, or was
            started again.
        last_beat: the last sign of life, in simulated nanoseconds: the begin or end of an iteration, the begin or end
            of a sleep, or a call of `beat`.
        since_ns: when the present state, or the present wait of a sleep, began, in simulated nanoseconds.
        wakes_in_time: whether the present or last sleep has a time at which it ends at the latest.
        wakeups: how often the loop left SLEEPING or PAUSED.
        failures: number of failed iterations, and of errors in `on_start` and `on_stop`.
        under_way: whether the agent has left its island, and has not come to one that runs in this process.
        stops_on_arrival: whether it was stopped on its way.
        on_leaving: called before the mailbox closes, when the loop stops.
        on_stopped: called with the loop after it has stopped.
        on_change: called after each change of state, and after each iteration in tick mode.
    """

    __slots__ = (
        "_changed",
        "_due",
        "_ending",
        "_kernel",
        "_pause_wanted",
        "_phase",
        "_state",
        "_stop_reason",
        "_stopped",
        "_watchers",
        "actor",
        "agent",
        "agent_id",
        "config",
        "crash_reason",
        "failures",
        "held_ns",
        "last_beat",
        "on_change",
        "on_leaving",
        "on_stopped",
        "pause_reason",
        "since_ns",
        "stops_on_arrival",
        "under_way",
        "wakes_in_time",
        "wakeups",
        "woken_by",
        "world",
    )

    def __init__(self, agent: Agent, world: World, config: AgentLoopConfig) -> None:
        self.agent = agent
        self.agent_id = agent.agent_id
        self.world = world
        self.config = config
        self.woken_by = ""
        self.pause_reason: PauseReason | None = None
        self.crash_reason: str | None = None
        self.held_ns = 0
        self.failures = 0
        self.last_beat = 0
        self.since_ns = 0
        self.wakes_in_time = False
        self.under_way = False
        self.stops_on_arrival = False
        self.wakeups = 0
        self.on_leaving: Callable[[], None] | None = None
        self.on_stopped: Callable[[Any], None] | None = None
        self.on_change: Callable[[], None] | None = None
        self.actor: Actor = world.kernel.adopt(agent.agent_id)
        self.actor.listener = self
        self._kernel = world.kernel
        self._state = _S.STOPPED
        self._phase = Phase.OUTSIDE
        self._due = 0  # the earliest time at which the next iteration can begin
        self._ending: Registration | None = None  # the registered callback that will end a sleep or a pause
        self._changed: Signal | None = None
        self._stopped: Latch | None = None
        self._pause_wanted: PauseReason | None = None
        self._stop_reason = ""
        self._watchers: tuple[Callable[[str], object], ...] = ()  # of the host program; they change nothing in the run

    @property
    def state(self) -> AgentState:
        """The state of the loop."""
        return self._state

    @property
    def is_running(self) -> bool:
        """Whether the loop is running, sleeping or paused."""
        return self._state.live

    @property
    def through(self) -> bool:
        """Whether the actor of this loop has nothing to run and waits for nothing."""
        return self.actor.coro is None

    @property
    def expected_ns(self) -> int:
        """The later of the last sign of life and the due time of the next iteration, in simulated nanoseconds."""
        return max(self.last_beat, self._due)

    @property
    def phase(self) -> Phase:
        """Whether an iteration is under way."""
        return self._phase

    @property
    def pause_wanted(self) -> bool:
        """Whether the loop will be paused as soon as it is running and between two iterations."""
        return self._pause_wanted is not None

    @property
    def stop_reason(self) -> str:
        """Why the loop is stopping or has stopped, for example `crashed`; empty if it runs or was never started."""
        return self._stop_reason

    def beat(self) -> None:
        """Show a sign of life during a long iteration, so that the health monitor raises no alert."""
        self.last_beat = self._kernel.now

    async def stop(self, timeout: Duration = 5.0) -> None:
        """Stop the loop; the current iteration has `timeout` (simulated) to end, then it is cancelled.

        It is cancelled between two steps, so no step is left half done. Returns after the loop has stopped. If the
        agent itself calls it, it returns at once and the loop ends after the iteration.

        A host program can call it as well: it is then an input, which is recorded. While no run is under way, the call
        itself runs the world until the loop has stopped.
        """
        if self.world.hosted():
            if self.stopped and self.world.at_rest:
                return
            data = {"agent": self.agent_id, "timeout_ns": to_ns(timeout)}
            await self.world.call("stop", data, f"stop of {self.agent_id}")
            return
        self.request_stop("stop")
        if self._state is _S.STOPPED or self._kernel.current is self.actor:
            return
        stopped = self.when_stopped()
        ended: Fired = await first_of(stopped, timeout=timeout)
        if ended.index is None and not self.stopped:
            self._kernel.cancel(self.actor)
            await stopped.wait()

    def when_stopped(self) -> Latch:
        """Return the latch that is set while the loop is stopped; its value is the reason."""
        if self._stopped is None:
            self._stopped = Latch(self._kernel)
            if self.stopped:
                self._stopped.set(self._stop_reason)
        return self._stopped

    async def join(self) -> str:
        """Wait until the loop has stopped and return the reason; return at once if it is stopped or never started.

        A host program can call it as well. Beside a run, it waits for that run; while none is under way, it runs the
        world itself.

        Raises:
            UsageError: in a host program, if the run ends before the loop stops, or the loop can never stop.
        """
        if self.world.hosted():
            if self.stopped and self.world.at_rest:
                return self._stop_reason
            return str(await self.world.watch(f"join of {self.agent_id}", self._watch_stop))
        reason: str = await self.when_stopped().wait()
        return reason

    def _watch_stop(self, stopped: Callable[[str], object]) -> None:
        """Call `stopped` with the reason once the loop has stopped; at once if it is stopped."""
        if self.stopped:
            stopped(self._stop_reason)
        else:
            self._watchers += (stopped,)

    def interrupt(self, cause: object = None) -> bool:
        """Wake the agent if it sleeps; otherwise raise `Interrupt(cause)` where its iteration waits.

        The wait of the iteration is withdrawn without side effects. If the agent does not catch the interrupt, the
        iteration fails, as with any error.

        Returns:
            Whether the agent was interrupted. It is not interrupted while it is stopped, stopping, paused, or between
            two iterations. Interrupts of one instant arrive one after the other; those that are left when the
            iteration has ended are recorded as `agent.interrupt_missed`.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        answer = self.on_interrupt()
        return self._kernel.interrupt(self.actor, cause) if answer is None else answer

    def on_interrupt(self) -> bool | None:
        """Return None if an interrupt may be raised in the iteration; otherwise whether it has woken the agent.

        The kernel asks before it raises each interrupt, also one that had to wait for its turn.
        """
        outside = self._phase is Phase.OUTSIDE
        if self._state is _S.SLEEPING and outside:
            self.end_sleep("interrupt")
            return True
        paused = self._state is _S.PAUSED and self.pause_reason is not PauseReason.RESOURCES
        return False if outside or paused or self._state is _S.STOPPING else None

    def missed(self, interrupt: BaseException) -> None:
        """Record an interrupt that came after another one of the same instant, when the iteration had ended."""
        self._kernel.report(InterruptMissed(interrupt=of_error(interrupt)[:500]), self.agent_id)

    @property
    def stopped(self) -> bool:
        """Whether the loop has stopped."""
        return self._state is _S.STOPPED

    def request_stop(self, reason: str) -> None:
        """Begin to stop: at once between two iterations, otherwise after the current iteration."""
        if self._state in (_S.STOPPED, _S.STOPPING):
            if reason == TRAVEL:  # it may have been stopped in the iteration in which it leaves
                self.stops_on_arrival |= self._stop_reason != TRAVEL
            else:
                self.stops_on_arrival = self.under_way or self._stop_reason == TRAVEL
            return
        self._stop_reason = reason
        if self._ending is not None:
            self._settle()
        paused = self._state is _S.PAUSED  # in an iteration, the agent then waits for capacity and has not acted yet
        self._change(_S.STOPPING, reason)
        if self.actor.coro is None:
            self._finish()
        elif self._phase is Phase.OUTSIDE or paused or (self.world.pending and self._waits_for_others()):
            self._kernel.cancel(self.actor)

    def _waits_for_others(self) -> bool:
        """Return whether the agent waits in a line for other agents, perhaps for ever, and has not acted yet."""
        pending = self.world.pending.get(self.agent_id)
        return pending is not None and not pending.handler.ends

    def cancel(self) -> None:
        """Cancel the actor of the loop, if it has one that has not ended."""
        if self.actor.coro is not None:
            self._kernel.cancel(self.actor)

    def sleep(self, condition: WakeCondition) -> Call:
        """Put the agent to sleep until `condition` is met; in an iteration this takes effect at once.

        Events since the begin of the iteration can meet the condition, and so can anything from now on, even before
        the iteration has ended. For a sleeping agent the new condition replaces the old one. A stopping agent does not
        fall asleep.

        Returns:
            A call that need not be awaited. For a host program, whose call is an input, awaiting it waits until the
            agent sleeps.

        Raises:
            UsageError: if the condition cannot be armed in this world; the state of the agent does not change.
        """
        if self.world.outside():
            check(condition, self.world)
            data = {"agent": self.agent_id, "condition": condition.recorded()}
            return self.world.call("sleep", data, f"sleep of {self.agent_id}")
        self.sleep_now(condition)
        return DONE

    def sleep_now(self, condition: WakeCondition) -> None:
        """Do as `sleep`, inside the run."""
        if self._state is _S.STOPPING:
            return
        check(condition, self.world)
        if self._state is _S.SLEEPING:
            self._settle()
            self.since_ns = self._kernel.now
        else:
            self._change(_S.SLEEPING, condition.describe())
        self.agent.woken_event = None
        self.last_beat = self._kernel.now
        self.wakes_in_time = condition.ends_in_time
        armed = arm(condition, self.world, self.agent)
        if self._state is _S.SLEEPING:  # otherwise the condition was met at once
            self._ending = armed

    def wake(self) -> Call:
        """Wake a sleeping agent; has no effect on an agent that does not sleep. The call need not be awaited."""
        if self.world.outside() and not self.world.ended:
            return self.world.call("wake", {"agent": self.agent_id}, f"wake of {self.agent_id}")
        if self._state is _S.SLEEPING:
            self.end_sleep("wake")
        return DONE

    def pause(self, reason: PauseReason = PauseReason.OPERATOR) -> Call:
        """Pause the agent until `resume`: at once, or as soon as it is running and between two iterations.

        A host program pauses it as the operator. The call need not be awaited.
        """
        if self.world.outside():
            return self.world.call("pause", {"agent": self.agent_id}, f"pause of {self.agent_id}")
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        if self._state is _S.RUNNING and self._phase is Phase.OUTSIDE:
            self._pause(reason)
        elif self._state.live or self._state is _S.STARTING:
            self._pause_wanted = reason
        return DONE

    def resume(self) -> Call:
        """End a pause for errors, operator or approval. A pause for resources ends only when there is capacity.

        The call need not be awaited.
        """
        if self.world.outside():
            return self.world.call("resume", {"agent": self.agent_id}, f"resume of {self.agent_id}")
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        self.try_resume()
        return DONE

    def try_resume(self) -> bool:
        """Do as `resume`, inside the run.

        Returns:
            Whether a pause has ended, or one that was about to begin was called off.
        """
        wanted, self._pause_wanted = self._pause_wanted is not None, None
        if self._state is not _S.PAUSED or self.pause_reason is PauseReason.RESOURCES:
            return wanted
        if self.pause_reason is PauseReason.ERRORS:
            self._retry()
        else:
            self._unpause()
        return True

    def end_pause(self) -> bool:
        """End a pause by the operator only, and return as `resume`."""
        if self._state is _S.PAUSED and self.pause_reason is PauseReason.OPERATOR:
            return self.try_resume()
        wanted, self._pause_wanted = self._pause_wanted is not None, None
        return wanted

    def await_approval(self, detail: str) -> None:
        """Pause the agent until `approved`, also during an iteration."""
        if self._state is _S.RUNNING:
            self._pause(PauseReason.APPROVAL, detail)

    def approved(self) -> None:
        """End a pause for approval."""
        if self._state is _S.PAUSED and self.pause_reason is PauseReason.APPROVAL:
            self._unpause()

    @abstractmethod
    def _retry(self) -> None:
        """End a pause for errors."""

    # -- sleeping and pausing

    def _change_of_state(self) -> Signal:
        """Return the signal that is fired when a sleep or a pause ends."""
        if self._changed is None:
            self._changed = Signal(self._kernel)
        return self._changed

    def _pause(self, reason: PauseReason, detail: str = "") -> None:
        self.pause_reason = reason
        self._change(_S.PAUSED, f"{reason}:{detail}" if detail else reason)

    def _unpause(self) -> None:
        self._settle()
        if self.pause_reason is PauseReason.OPERATOR:
            self.held_ns += self._kernel.now - self.since_ns
        self._count_wakeup("paused", self.pause_reason or "")
        self._change(_S.RUNNING, self.pause_reason or "")
        self.pause_reason = None
        self._pause_if_wanted()
        self._notify()

    def end_sleep(self, cause: str) -> None:
        """Leave the sleep, because of `cause`: a condition type such as `time`, or `timeout`, `wake`, ..."""
        self._settle()
        self._count_wakeup("sleeping", cause)
        self.woken_by = cause
        self._change(_S.RUNNING, cause)
        if self._pause_wanted is not None:
            self._pause_if_wanted()
        if self._changed is not None:
            self._changed.fire()

    def _count_wakeup(self, left: str, cause: str) -> None:
        self.last_beat = self._kernel.now
        self.wakeups += 1
        counts = self.world.wakeup_counts
        counts[left, cause] = counts.get((left, cause), 0) + 1

    def _pause_if_wanted(self) -> None:
        if self._pause_wanted is not None and self._state is _S.RUNNING and self._phase is Phase.OUTSIDE:
            reason, self._pause_wanted = self._pause_wanted, None
            self._pause(reason)

    def _settle(self) -> None:
        """Cancel the registration that would have ended a sleep or a pause."""
        if self._ending is not None:
            if self._kernel.current is None:
                self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
            self._ending.cancel()
            self._ending = None

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.fire()

    # -- state

    def _change(self, after: AgentState, reason: object = "") -> None:
        kernel, before = self._kernel, self._state
        if kernel.current is None:
            kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        if after not in SUCCESSORS[before]:
            before.check(after, self.agent_id)  # raises
        self._state, self.since_ns = after, kernel.now
        changed = StateChanged(before=before, reason=reason, after=after)
        kernel.emit(changed.TOPIC, changed, self.agent_id)  # not `report`, which takes a call more
        if self.on_change is not None:
            self.on_change()

    def _ended(self, actor: Actor, exit: Exit) -> None:
        """Handle the end of the actor: it returned, crashed outside an iteration, or was cancelled or abandoned."""
        self._phase = Phase.OUTSIDE
        if exit.kind == "crashed":
            assert exit.error is not None, "a crash has an error"
            self.crash_reason = of_error(exit.error)
            self._count_failure(self.crash_reason, exit.error)
        elif exit.kind == "abandoned":
            self.crash_reason = recordable_text(str(exit.error))
            self._count_failure(self.crash_reason, exit.error)
        if self._state is not _S.STOPPING:
            self._settle()
            self._stop_reason = "crashed" if exit.kind in ("crashed", "abandoned") else self._stop_reason or "done"
            self._change(_S.STOPPING, self._stop_reason)
        self._finish()

    def _count_failure(self, error: str, raised: BaseException | None = None) -> None:
        """Record, log and count an error outside an iteration."""
        log_failure(self.agent_id, self.world, error, raised)
        self.failures += 1
        self.world.count_error(error, self.agent_id)
        self._kernel.report(AgentFailed(error=error[:500]), self.agent_id)

    def _finish(self) -> None:
        reason = self._stop_reason
        try:
            self.agent.on_stop()
        except (KeyboardInterrupt, RunError):
            raise  # these concern the process or the run, not the agent
        except MemoryError as error:
            raise OutOfMemoryError(self.agent_id, str(error)) from error  # otherwise the error would name the caller
        except BaseException as error:
            self._count_failure(f"on_stop: {of_error(error)}", error)
        self.world.crashes += reason == "crashed"
        if self.on_leaving is not None:
            self.on_leaving()
        dead = self.agent.mailbox.close()
        self.pause_reason = self._pause_wanted = None
        self.world.leave(self.agent)
        self._change(_S.STOPPED, reason)
        if dead:
            self._kernel.report(DeadLetters(count=dead), self.agent_id)
        if self._stopped is not None:
            self._stopped.set(reason)
        while self._watchers:
            last, self._watchers = self._watchers[-1], self._watchers[:-1]
            last(reason)
        self.world.running -= 1
        if self.on_stopped is not None:
            self.on_stopped(self)  # this can start the loop again
        if not self.world.running and self.world.on_all_stopped is not None:
            self.world.on_all_stopped()
