"""The loop of one agent: decide, act, learn, wait (seed 004).

The same object serves both modes. Autonomous: `start` gives it an actor of its own that runs `_run`. Tick: the
runner calls `turn` once a tick. Sleeping and pausing cost nothing in either: what ends them calls back.
"""

import enum
from collections.abc import Callable, Mapping

from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.mailbox import Mailbox
from sim.actors.state import AgentState, PauseReason
from sim.actors.supervisor import RestartLimit
from sim.actors.wake import WakeCondition, arm
from sim.errors import LimitError
from sim.kernel import Actor, Duration, Exit, Fired, Signal, first_of, to_ns
from sim.kernel.waits import sleep_ns
from sim.world import Action, ActionResult, World

_S = AgentState


class Phase(enum.Enum):
    """What the agent's actor is doing: it decides how a stop reaches it."""

    OUTSIDE = "between two iterations"
    INSIDE = "in an iteration"


class AgentLoop:
    """Autonomous execution loop of a single agent.

    Made by `AgentLoopManager.create_loop`.

    Attributes:
        iteration_count: iterations begun.
        failures: iterations that failed.
        consecutive_errors: failures since the last success.
        woken_by: what ended the last sleep: `time`, `event`, `resource`, `message`, `timeout`, `wake`, or empty.
        pause_reason: why it is paused, or None.
        last_beat: when an iteration last began or ended, or the agent woke, simulated nanoseconds.
        wakeups: how often it left SLEEPING or PAUSED.
    """

    __slots__ = (
        "_backoff_ns",
        "_changed",
        "_disarm",
        "_due",
        "_gate",
        "_greeted",
        "_kernel",
        "_max_ns",
        "_min_ns",
        "_pause_wanted",
        "_phase",
        "_restarts",
        "_start_ns",
        "_state",
        "_stop_reason",
        "_stopped",
        "_ticking",
        "actor",
        "agent",
        "agent_id",
        "config",
        "consecutive_errors",
        "failures",
        "iteration_count",
        "last_beat",
        "on_stopped",
        "pause_reason",
        "wakeups",
        "woken_by",
        "world",
    )  # fmt: skip

    def __init__(self, agent: Agent, world: World, config: AgentLoopConfig) -> None:
        self.agent = agent
        self.agent_id = agent.agent_id
        self.world = world
        self.config = config
        self.iteration_count = 0
        self.failures = 0
        self.consecutive_errors = 0
        self.woken_by = ""
        self.pause_reason: PauseReason | None = None
        self.last_beat = 0
        self.wakeups = 0
        self.on_stopped: Callable[[AgentLoop], None] | None = None
        self._kernel = world.kernel
        self.actor: Actor = world.kernel.adopt(agent.agent_id)
        self._state = _S.STOPPED
        self._phase = Phase.OUTSIDE
        self._min_ns = config.min_delay_ns
        self._max_ns = config.max_delay_ns
        self._backoff_ns = self._min_ns
        self._due = 0  # not before this time does the next iteration begin
        self._start_ns = 0
        self._disarm: Callable[[], None] | None = None
        self._changed: Signal | None = None
        self._stopped: Signal | None = None
        self._pause_wanted: PauseReason | None = None
        self._restarts: RestartLimit | None = None
        self._stop_reason = ""
        self._gate: Signal | None = None
        self._greeted = False
        self._ticking = False
        agent.attach(self, Mailbox(world.kernel, config.mailbox_size, config.mailbox_policy))

    def __repr__(self) -> str:
        return f"<AgentLoop {self.agent_id} {self._state} iterations={self.iteration_count}>"

    @property
    def state(self) -> AgentState:
        """Where the loop is."""
        return self._state

    @property
    def is_running(self) -> bool:
        """Whether it is running, sleeping or paused (seed 004)."""
        return self._state.live

    @property
    def through(self) -> bool:
        """Whether no step of this loop is under way or waits."""
        return self.actor.coro is None

    @property
    def expected_ns(self) -> int:
        """When the loop last had to show a sign of life, simulated nanoseconds."""
        return max(self.last_beat, self._due)

    # -- control

    async def start(self, *, delay: Duration = 0) -> None:
        """Start the loop; a loop that is not stopped is left alone.

        Args:
            delay: simulated time before the first iteration.
        """
        self.start_now(delay_ns=to_ns(delay))

    def start_now(self, *, delay_ns: int = 0) -> None:
        """As `start`, for code that cannot await."""
        if self._begin(delay_ns):
            self._kernel.begin(self.actor, self._run())

    def start_ticking(self, *, delay_ns: int = 0) -> None:
        """Start the loop for the tick mode: it runs when the runner calls `turn`."""
        if self._begin(delay_ns):
            self._ticking = True
            self.actor.on_exit = self._turn_ended
            self._change(_S.RUNNING)

    def _begin(self, delay_ns: int) -> bool:
        if self._state is not _S.STOPPED:
            return False
        self.agent.mailbox.reopen()
        self._greeted = self._ticking = False
        self.consecutive_errors = 0
        self.woken_by = self._stop_reason = ""
        self._backoff_ns = self._min_ns
        self._start_ns = delay_ns
        self._due = self._kernel.now + self._start_ns
        self.actor.on_exit = self._ended
        self.last_beat = self._kernel.now
        self._change(_S.STARTING)
        return True

    async def stop(self, timeout: Duration = 5.0) -> None:
        """Stop the loop: an iteration under way may end within `timeout` (simulated), then it is cancelled.

        Cancelled between two steps, so nothing is left half done. Returns when the loop has stopped; called by the
        agent itself it returns at once and the loop ends after the iteration.
        """
        self.request_stop("stop")
        if self._state is _S.STOPPED or self._kernel.current is self.actor:
            return
        stopped = self.when_stopped()
        ended: Fired = await first_of(stopped, timeout_ns=to_ns(timeout))
        if ended.index is None and not self.stopped:
            self._kernel.cancel(self.actor)
            await stopped.wait()

    def when_stopped(self) -> Signal:
        """Return the signal that is fired each time the loop has stopped."""
        if self._stopped is None:
            self._stopped = Signal(self._kernel)
        return self._stopped

    @property
    def stopped(self) -> bool:
        """Whether the loop has stopped."""
        return self._state is _S.STOPPED

    def request_stop(self, reason: str) -> None:
        """Begin to stop: at once between two iterations, else when the present one ends."""
        if self._state in (_S.STOPPED, _S.STOPPING):
            return
        self._stop_reason = reason
        self._settle()
        self._change(_S.STOPPING, reason)
        if self.actor.coro is None:
            self._finish()
        elif self._phase is Phase.OUTSIDE:
            self._kernel.cancel(self.actor)

    def cancel(self) -> None:
        """Cancel what is under way, if anything is."""
        if self.actor.coro is not None:
            self._kernel.cancel(self.actor)

    def sleep(self, condition: WakeCondition) -> None:
        """Put the agent to sleep until `condition` is met; within an iteration it takes effect at once.

        What happens from now on counts, even before the iteration has ended; so do events since it began. A sleeping
        agent gets the new condition in place of the old; one that is stopping does not sleep.
        """
        if self._state is _S.STOPPING:
            return
        if self._state is _S.SLEEPING:
            self._settle()
        else:
            self._change(_S.SLEEPING, condition.describe())
        self.agent.woken_event = None
        disarm = arm(condition, self.world, self.agent, self._woken)
        if self._state is _S.SLEEPING:  # else it was met at once
            self._disarm = disarm

    def wake(self) -> None:
        """Wake a sleeping agent; one that does not sleep is left alone."""
        if self._state is _S.SLEEPING:
            self._woken("wake")

    def pause(self, reason: PauseReason = PauseReason.OPERATOR) -> None:
        """Pause the agent until `resume`: now if it runs and is between two iterations, else as soon as it is."""
        if self._state is _S.RUNNING and self._phase is Phase.OUTSIDE:
            self._pause(reason)
        elif self._state.live or self._state is _S.STARTING:
            self._pause_wanted = reason

    def resume(self) -> None:
        """End a pause for errors, operator or approval; for resources, only their return does."""
        self._pause_wanted = None
        if self._state is not _S.PAUSED:
            return
        if self.pause_reason is PauseReason.ERRORS:
            self._retry()
        elif self.pause_reason is not PauseReason.RESOURCES:
            self._unpause()

    # -- the loop

    async def _run(self) -> None:
        # This is the loop of every autonomous agent.
        if self._start_ns:
            await sleep_ns(self._start_ns)
        self._change(_S.RUNNING)
        await self.agent.on_start()
        self._pause_if_wanted()
        kernel, tracker = self._kernel, self.world.rate_tracker
        while self._state is not _S.STOPPING and self.agent.alive:
            if self._state is not _S.RUNNING:
                await self._change_of_state()
            elif kernel.now < self._due:
                await sleep_ns(self._due - kernel.now)
            elif resource := tracker.blocked(self.agent_id):
                await self._without_capacity(resource)
            else:
                await self.iterate()
                if (
                    self._due <= kernel.now and self._state is _S.RUNNING
                ):  # a round at least, so that agents that never wait are seen as a livelock
                    await sleep_ns(0)

    def turn(self) -> bool:
        """The tick mode's iteration: begin one now if the agent is due, and return whether it was.

        Its first step runs at once. If it has to wait, the agent stays busy, and is not due, until it is through.
        """
        if self._state is not _S.RUNNING or self.actor.coro is not None or self._kernel.now < self._due:
            return False
        if not self.agent.alive:
            self.request_stop("shutdown")
            return False
        tracker = self.world.rate_tracker
        resource = tracker.blocked(self.agent_id)
        if resource is None:
            self._kernel.begin_now(self.actor, self._turn())
            return True
        if tracker.policy(resource) == "block":
            self._pause(PauseReason.RESOURCES, resource)
            self._watch_for(resource)
        return False

    async def _turn(self) -> None:
        if not self._greeted:
            self._greeted = True
            await self.agent.on_start()
        await self.iterate()

    def hold(self, gate: Signal | None) -> None:
        """Make iterations wait at `gate` between deciding and executing (tick mode, parallel)."""
        self._gate = gate

    async def iterate(self) -> None:
        """One iteration: decide, execute, and draw the consequences."""
        agent = self.agent
        self.iteration_count += 1
        self.last_beat = self._kernel.now
        self.world.event_bus.mark(self.agent_id)
        self._phase = Phase.INSIDE
        error: str | None = None
        try:
            action = await agent.decide_action()
            if self._gate is not None:
                await self._gate.wait()
            if action is not None and agent.alive:
                result = await self._execute(action)
                if not (result.success or result.skipped):
                    error = result.error or "the action failed"
        except MemoryError:
            raise  # it concerns the process
        except (Exception, SystemExit) as raised:
            error = f"{type(raised).__name__}: {raised}"
        finally:
            self._phase = Phase.OUTSIDE
        self.last_beat = self._kernel.now
        if error is None:
            self.consecutive_errors = 0
            self._backoff_ns = self._min_ns
        else:
            self._failed(error)
        self._due = self._kernel.now + (0 if self._ticking and error is None else self._backoff_ns)
        self._pause_if_wanted()

    async def _execute(self, action: Action) -> ActionResult:
        """Execute, first waiting for capacity if the action's limits block."""
        charge = self.world.price(action)
        if charge.rates:
            tracker = self.world.rate_tracker
            resource = tracker.blocked_by(self.agent_id, charge.rates)
            if resource is not None and tracker.policy(resource) == "block" and self._state is _S.RUNNING:
                await self._until_capacity(resource, charge.rates)
        return await self.agent.execute_action(action)

    def _failed(self, error: str) -> None:
        """Back off: the delay doubles up to its maximum, and at the error limit the agent is paused."""
        self.failures += 1
        self.consecutive_errors += 1
        self._backoff_ns = min(max(self._backoff_ns, 1) * 2, self._max_ns)
        self._kernel.emit(
            "agent.error",
            {"error": error[:500], "consecutive": self.consecutive_errors, "delay_ns": self._backoff_ns},
            self.agent_id,
        )
        if self.consecutive_errors >= self.config.max_consecutive_errors and self._state is _S.RUNNING:
            self._give_up()

    def _give_up(self) -> None:
        """Pause for the cool-down, or stop as crashed when that has happened too often."""
        if self._restarts is None:
            self._restarts = RestartLimit(self.config.max_restarts, to_ns(self.config.restart_period))
        if not self._restarts.allow(self._kernel.now):
            self._kernel.emit("agent.crashed", {"errors": self.consecutive_errors}, self.agent_id)
            self.request_stop("crashed")
            return
        self._pause(PauseReason.ERRORS)
        kernel = self._kernel
        self._disarm = kernel.call_at(kernel.now + to_ns(self.config.cool_down), self._retry).cancel

    def _retry(self) -> None:
        self.consecutive_errors = 0
        self._backoff_ns = self._min_ns
        self._due = self._kernel.now
        self._unpause()

    # -- waiting

    async def _change_of_state(self) -> None:
        """Wait, asleep or paused, until something changes the state."""
        if self._changed is None:
            self._changed = Signal(self._kernel)
        await self._changed.wait()

    async def _without_capacity(self, resource: str) -> None:
        """There is no capacity for an action: wait for it (block), or try again later (skip)."""
        if self.world.rate_tracker.policy(resource) == "skip":
            self._due = self._kernel.now + max(self._min_ns, to_ns(self.config.resource_check_interval))
        else:
            await self._until_capacity(resource, {resource: 1})

    async def _until_capacity(self, resource: str, costs: Mapping[str, int]) -> None:
        """Pause until the tracker says that capacity is back: exactly then, first come first served."""
        self._pause(PauseReason.RESOURCES, resource)
        try:
            await self.world.rate_tracker.wait_for_capacity(self.agent_id, costs)
        except LimitError:  # so much never fits
            if self._phase is Phase.OUTSIDE:
                self._watch_for(resource)  # until somebody raises the limit
                return
            if self._state is _S.PAUSED:
                self._unpause()
            raise
        if self._state is _S.PAUSED and self.pause_reason is PauseReason.RESOURCES:
            self._unpause()

    def _watch_for(self, resource: str) -> None:
        """End the pause when there is one unit of `resource`."""
        self._disarm = self.world.rate_tracker.on_level(self.agent_id, resource, 1, self._unpause).cancel

    def _pause(self, reason: PauseReason, detail: str = "") -> None:
        self.pause_reason = reason
        self._change(_S.PAUSED, f"{reason}:{detail}" if detail else reason)

    def _unpause(self) -> None:
        self._settle()
        self.last_beat = self._kernel.now
        self.wakeups += 1
        self._change(_S.RUNNING, self.pause_reason or "")
        self.pause_reason = None
        self._pause_if_wanted()
        self._notify()

    def _woken(self, cause: str) -> None:
        self._settle()
        self.last_beat = self._kernel.now
        self.woken_by = cause
        self.wakeups += 1
        self._change(_S.RUNNING, cause)
        self._pause_if_wanted()
        self._notify()

    def _pause_if_wanted(self) -> None:
        if self._pause_wanted is not None and self._state is _S.RUNNING and self._phase is Phase.OUTSIDE:
            reason, self._pause_wanted = self._pause_wanted, None
            self._pause(reason)

    def _settle(self) -> None:
        """Take back what would have ended a sleep or a pause."""
        if self._disarm is not None:
            self._kernel.acting()  # refuse a call from outside before anything has changed
            self._disarm()
            self._disarm = None

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.fire()

    # -- state

    def _change(self, after: AgentState, reason: object = "") -> None:
        self._kernel.acting()  # refuse a call from outside before anything has changed
        before = self._state
        before.check(after, self.agent_id)
        self._state = after
        self._kernel.emit("agent.state", {"from": before, "to": after, "reason": reason}, self.agent_id)

    def _ended(self, actor: Actor, exit: Exit) -> None:
        """The actor has ended: by itself, by a crash outside an iteration, or cancelled."""
        self._phase = Phase.OUTSIDE
        if exit.kind == "crashed":
            self._kernel.emit("agent.error", {"error": f"{type(exit.error).__name__}: {exit.error}"}, self.agent_id)
        if self._state is not _S.STOPPING:
            self._settle()
            self._change(
                _S.STOPPING,
                "crashed" if exit.kind in ("crashed", "abandoned") else self._stop_reason or "done",
            )
        self._finish()

    def _turn_ended(self, actor: Actor, exit: Exit) -> None:
        """An iteration of the tick mode has ended; the loop ends with it if it should."""
        if exit.kind != "returned" or not self.agent.alive or self._state is _S.STOPPING:
            self._ended(actor, exit)

    def _finish(self) -> None:
        reason = self._stop_reason
        try:
            self.agent.on_stop()
        except (KeyboardInterrupt, MemoryError):
            raise  # they concern the process
        except BaseException as error:
            self._kernel.emit("agent.error", {"error": f"on_stop: {type(error).__name__}: {error}"}, self.agent_id)
        dead = self.agent.mailbox.close()
        self.pause_reason = self._pause_wanted = None
        self.world.leave(self.agent)
        self._change(_S.STOPPED, reason)
        if dead:
            self._kernel.emit("mailbox.dead_letters", {"count": dead}, self.agent_id)
        if self._stopped is not None:
            self._stopped.fire()
        if self.on_stopped is not None:
            self.on_stopped(self)
