"""The loop of one agent: decide, act, learn, wait (seed 004).

The same object serves both modes. Autonomous: `start` gives it an actor of its own that runs `_run`. Tick: the
runner calls `turn` once a tick. Sleeping and pausing cost nothing in either: what ends them calls back.
"""

import math
import types
from collections.abc import Awaitable, Generator, Mapping
from typing import Any, Protocol

from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.lifecycle import Lifecycle, Phase
from sim.actors.mailbox import Mailbox
from sim.actors.state import AgentState, PauseReason
from sim.actors.supervisor import RestartLimit
from sim.actors.wake import WakeCondition
from sim.errors import CausalityError, Interrupt, LimitError, RunError
from sim.kernel import Actor, Duration, Exit, to_ns
from sim.kernel.codec import NOT_JSON_HINT, json_fault
from sim.text import of_error
from sim.world import Action, World


class Gate(Protocol):
    """What an iteration passes between deciding and executing."""

    @property
    def ahead(self) -> bool:
        """Whether what the agent does now may come before something that is earlier in simulated time."""

    def wait(self, action: Action | None, /) -> Awaitable[Any]:
        """Wait until the action may be executed."""


_S = AgentState
_PLAIN = frozenset((bool, int, str, type(None), list, tuple, dict))
_RUNNING, _STOPPING = AgentState.RUNNING, AgentState.STOPPING
_INSIDE, _OUTSIDE = Phase.INSIDE, Phase.OUTSIDE
_EXECUTE = (Agent.execute_action, World.execute)  # as they are here, whatever somebody puts in their place


def _looks_plain(state: object) -> bool:
    """Whether a state is JSON as far as the types of its variables tell; inside a list or dict it does not look."""
    if state.__class__ is not dict:
        return False
    for key, value in state.items():
        kind = value.__class__
        if key.__class__ is not str or (kind not in _PLAIN and not (kind is float and math.isfinite(value))):
            return False
    return True


class AgentLoop(Lifecycle):
    """Autonomous execution loop of a single agent.

    Made by `AgentLoopManager.create_loop`.

    Attributes:
        iteration_count: iterations begun.
        began_ns: when the latest iteration began, simulated nanoseconds.
        consecutive_errors: failures since the last iteration that worked; deciding to sleep or rest does not count.
    """

    __slots__ = (
        "_backoff_ns",
        "_direct",
        "_gate",
        "_greeted",
        "_rest_ns",
        "_restarts",
        "_start_ns",
        "_state_fault",
        "_ticking",
        "began_ns",
        "consecutive_errors",
        "iteration_count",
    )

    def __init__(self, agent: Agent, world: World, config: AgentLoopConfig) -> None:
        super().__init__(agent, world, config)
        self.iteration_count = 0
        self.began_ns = 0
        self.consecutive_errors = 0
        self._backoff_ns = config.min_delay_ns
        self._start_ns = 0
        self._state_fault: str | None = None
        self._rest_ns = 0
        self._restarts: RestartLimit | None = None
        self._gate: Gate | None = None
        self._direct = False  # whether nobody watches actions, so that those that take no time need no coroutine
        self._greeted = False
        self._ticking = False
        agent.attach(self, Mailbox(world.kernel, config.mailbox_size, config.mailbox_policy))

    def __repr__(self) -> str:
        return f"<AgentLoop {self.agent_id} {self._state} iterations={self.iteration_count}>"

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
        if self._stopped is not None:
            self._stopped.clear()
        self.agent.mailbox.reopen()
        self.world.enter(self.agent)
        self._greeted = self._ticking = False
        self.consecutive_errors = 0
        self.woken_by = self._stop_reason = ""
        self.crash_reason = None
        self._backoff_ns = self.config.min_delay_ns
        self._start_ns = delay_ns
        self._due = self._kernel.now + self._start_ns
        self.actor.on_exit = self._ended
        self.last_beat = self._kernel.now
        self._change(_S.STARTING)
        self.world.running += 1
        return True

    # -- the loop

    @types.coroutine
    def _run(self) -> Generator[Any, Any, None]:
        # This is the loop of every autonomous agent. A coroutine in the old spelling, because it can pause by a plain
        # `yield`: `await sleep_ns(...)` makes, and runs, a coroutine more for every iteration.
        if self._start_ns:
            yield self._start_ns
        self._change(_S.RUNNING)
        yield from self._greet()
        self._pause_if_wanted()
        kernel, tracker, agent = self._kernel, self.world.rate_tracker, self.agent
        while self._state is not _STOPPING and agent.alive:
            if self._state is not _RUNNING:
                yield from self._change_of_state()
            elif (wait := self._due - kernel.now) > 0:
                yield wait
            elif resource := tracker.blocked(self.agent_id):
                yield from self._without_capacity(resource)
            else:
                yield from self.iterate()
                if self._state is _RUNNING:  # a round at least: agents that never wait must be seen as a livelock
                    wait = self._due - kernel.now
                    yield wait if wait > 0 else 0

    async def _greet(self) -> None:
        await self.agent.on_start()  # which `yield from` would refuse if it is awaitable in another way
        own, worlds = self.agent.execute_action, self.world.execute
        self._direct = (getattr(own, "__func__", None), getattr(worlds, "__func__", None)) == _EXECUTE

    def turn(self) -> bool:
        """The tick mode's iteration: begin one now if the agent is due, and return whether it was.

        Its first step runs at once. If it has to wait, the agent stays busy, and is not due, until it is through.
        """
        if self._state is not _RUNNING or self.actor.coro is not None or self._kernel.now < self._due:
            return False
        if not self.agent.alive:
            self.request_stop("shutdown")
            return False
        tracker = self.world.rate_tracker
        resource = tracker.blocked(self.agent_id)
        if resource is None:
            self._kernel.begin_now(self.actor, self.iterate() if self._greeted else self._first_turn())
            return True
        if tracker.policy(resource) == "block":
            self._pause(PauseReason.RESOURCES, resource)
            self._watch_for(resource)
        return False

    def due_in_ticks(self, *, refreshed: bool) -> bool:
        """Return whether a tick, now or later, begins an iteration, or renews capacity that the agent is paused for."""
        if self._state is _RUNNING:
            return self.actor.coro is None
        return refreshed and self.pause_reason is PauseReason.RESOURCES

    async def _first_turn(self) -> None:
        self._greeted = True
        await self._greet()
        await self.iterate()

    def hold(self, gate: Gate | None) -> None:
        """Make iterations wait at `gate` between deciding and executing (tick mode, parallel)."""
        self._gate = gate

    async def iterate(self) -> None:  # noqa: C901 - written out on purpose: it is the hot path, and a call costs
        """One iteration: decide, execute, and draw the consequences."""
        agent, world, kernel = self.agent, self.world, self._kernel
        self.iteration_count += 1
        self.began_ns = self.last_beat = kernel.now
        bus = world.event_bus
        bus.marks[self.agent_id] = bus.sequence
        self._phase = _INSIDE
        error: str | None = None
        try:
            first = action = await agent.decide_action()
            if self._gate is not None:
                await self._at_gate(self._gate, action)
            while action is not None and agent.alive:
                charge = world.costs.fixed(action.kind) or world.dispatcher.price(action)
                if charge.budgets:
                    await self.until_funded(charge.budgets)
                rates = charge.rates
                short = world.rate_tracker.blocked_by(self.agent_id, rates) if rates else None
                if short is not None and self._waits_for(short):
                    await self._until_capacity(short, rates)
                handler = world.actions.find(action.kind)
                if self._direct and (handler is None or handler.wait is None):
                    result = world.dispatcher.apply(agent, action, handler)
                else:
                    result = await agent.execute_action(action)
                if not (result.success or result.skipped):
                    error = result.error or "the action failed"
                if not (agent.has_more and result.success) or self._state is _STOPPING:
                    break
                action = agent.next_action()
        except (MemoryError, RunError):
            raise  # they concern the process or the run, not this agent
        except (Exception, SystemExit) as raised:
            error = of_error(raised)
        finally:
            self._phase = _OUTSIDE
        error = error or (self._find_state_fault() if agent.state else None)
        self.last_beat = now = kernel.now
        if error is None:
            if self.consecutive_errors:
                self._succeeded(first, action)
            due = now if self._ticking else now + self.config.min_delay_ns
        else:
            self._failed(error)
            due = now + self._backoff_ns
        self._due = due if due >= self._rest_ns else self._rest_ns
        if self._pause_wanted is not None:
            self._pause_if_wanted()

    def _succeeded(self, first: Action | None, last: Action | None) -> None:
        """End a series of failures, unless the agent did nothing but sleep; what comes before a sleep succeeded."""
        if first is not last or not self._only_waits(last):
            self.consecutive_errors = 0
            self._backoff_ns = self.config.min_delay_ns

    def _find_state_fault(self) -> str | None:
        """Return what in the agent's state is not JSON.

        Deep inside it is looked for in iterations 1, 2, 4, 8, ... only: a state that grows by a part in each iteration
        would take longer and longer.
        """
        state, count = self.agent.state, self.iteration_count
        if count & (count - 1) and _looks_plain(state):
            return None
        fault = json_fault(state, "state")
        self._state_fault = None if fault is None else f"{fault}; {NOT_JSON_HINT}"
        return self._state_fault

    def check_state(self) -> None:
        """Count what is not JSON in the agent's state as a failure, unless that was done: for the end of a run."""
        before, fault = self._state_fault, json_fault(self.agent.state, "state")
        if fault is not None and (before is None or not before.startswith(fault)):
            self._count_failure(f"{fault}; {NOT_JSON_HINT}")

    async def _at_gate(self, gate: Gate, action: Action | None) -> None:
        self.world.waits.begin(self.agent_id)  # for others, which may be slow
        try:
            await gate.wait(action)
        finally:
            self.world.waits.end(self.agent_id)

    def rest(self, until_ns: int) -> None:
        """Begin no iteration before a simulated time (nanoseconds). Unlike sleep, nothing ends that earlier."""
        self._rest_ns = until_ns

    @property
    def due_ns(self) -> int:
        """Not before this time does the next iteration begin, simulated nanoseconds."""
        return self._due

    def request_stop(self, reason: str) -> None:
        """As `Lifecycle.request_stop`; who runs ahead of others must not stop of itself, for all may know who is there.

        Raises:
            CausalityError: if it does.
        """
        if self._gate is not None and self._gate.ahead and self._phase is Phase.INSIDE:
            raise CausalityError(
                f"{self.agent_id} stops while it runs ahead of others", hint="return Action('stop') from decide_action"
            )
        super().request_stop(reason)

    def sleep(self, condition: WakeCondition) -> None:
        """As `Lifecycle.sleep`; who runs ahead of others can only rest, for what would wake it has not happened yet.

        Raises:
            CausalityError: if it sleeps all the same.
        """
        if self._gate is not None and self._gate.ahead and self.agent.reach in ("own", "space"):
            raise CausalityError(
                f"{self.agent_id} falls asleep while it runs ahead of others",
                hint="return Action('sleep', ...) or Action('rest', ...) from decide_action",
            )
        super().sleep(condition)

    def _waits_for(self, resource: str) -> bool:
        """Whether capacity of `resource` is to be waited for before an action that takes more than there is."""
        return self.world.rate_tracker.policy(resource) == "block" and self._state is _RUNNING

    def _only_waits(self, action: Action | None) -> bool:
        """Whether an iteration did nothing but decide to wait: that is no proof that the agent works again."""
        handler = None if action is None else self.world.actions.find(action.kind)
        return self._state is _S.SLEEPING or (handler is not None and handler.idle)

    def _failed(self, error: str) -> None:
        """Back off: the delay doubles up to its maximum, and at the error limit the agent is paused."""
        self.failures += 1
        self.world.count_error(error, self.agent_id)
        self.consecutive_errors += 1
        self._backoff_ns = min(max(self._backoff_ns, 1) * 2, self.config.max_delay_ns)
        self._kernel.emit(
            "agent.error",
            {"error": error[:500], "consecutive": self.consecutive_errors, "delay_ns": self._backoff_ns},
            self.agent_id,
        )
        self._tell_agent(error)
        if self.consecutive_errors >= self.config.max_consecutive_errors:
            if self._state is _S.SLEEPING:  # it put itself to sleep and failed then: the error limit comes first
                self._woken("error")
            if self._state is _S.RUNNING:
                self._give_up(error)

    def _tell_agent(self, error: str) -> None:
        """Call the agent's `on_error`; a fault in it is recorded beside the error, which stays the one that counts."""
        self._phase = _INSIDE  # a stop takes effect when the iteration has ended, as everywhere in it
        try:
            self.agent.on_error(error)
        except (KeyboardInterrupt, MemoryError, RunError):
            raise  # they concern the process or the run
        except BaseException as fault:
            self._kernel.emit("agent.error", {"error": f"on_error: {of_error(fault)}"[:500]}, self.agent_id)
        finally:
            self._phase = _OUTSIDE

    def _give_up(self, error: str) -> None:
        """Pause for the cool-down, or stop as crashed when that has happened too often."""
        if not self.may_restart():
            self._kernel.emit("agent.crashed", {"errors": self.consecutive_errors}, self.agent_id)
            self.crash_reason = error
            self._stop_in_order("crashed")
            return
        self._pause(PauseReason.ERRORS)
        kernel = self._kernel
        self._ending = kernel.call_at(kernel.now + to_ns(self.config.cool_down), self._retry)

    def may_restart(self) -> bool:
        """Count a restart, and return whether it is within the restart limit."""
        if self._restarts is None:
            self._restarts = RestartLimit(self.config.max_restarts, to_ns(self.config.restart_period))
        return self._restarts.allow(self._kernel.now)

    def _stop_in_order(self, reason: str) -> None:
        """Stop now; who runs ahead of others stops when all that is earlier has happened, and is paused until then."""
        if self._gate is None or not self._gate.ahead:
            self.request_stop(reason)
            return
        self._pause(PauseReason.ERRORS)
        self._ending = self._kernel.call_at(self._kernel.now, lambda: self.request_stop(reason))

    def _retry(self) -> None:
        self.consecutive_errors = 0
        self._backoff_ns = self.config.min_delay_ns
        self._due = self._kernel.now
        self._unpause()

    async def _without_capacity(self, resource: str) -> None:
        """There is no capacity for an action: wait for it (block), or try again later (skip)."""
        if self.world.rate_tracker.policy(resource) == "skip":
            self._due = self._kernel.now + max(self.config.min_delay_ns, to_ns(self.config.resource_check_interval))
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
            self._have_resources()
            raise
        except Interrupt:  # in an iteration, which has not acted yet
            self._have_resources()
            raise
        self._have_resources()

    async def until_funded(self, needs: Mapping[str, int]) -> None:
        """Pause until the agent's budgets hold `needs` (micro-units by name): until they are renewed or raised.

        Raises:
            LimitError: if an amount is more than its budget is in all.
        """
        budgets = self.world.budgets
        short = budgets.lacking(self.agent_id, needs)
        if short is None:
            return
        if self._state is _S.RUNNING and needs[short] <= budgets.amount(short):
            self._pause(PauseReason.RESOURCES, short)
        try:
            await budgets.wait_for(self.agent_id, needs)
        except (LimitError, Interrupt):
            self._have_resources()
            raise
        self._have_resources()

    def _have_resources(self) -> None:
        if self._state is _S.PAUSED and self.pause_reason is PauseReason.RESOURCES:
            self._unpause()

    def _watch_for(self, resource: str) -> None:
        """End the pause when there is one unit of `resource`."""
        tracker = self.world.rate_tracker
        self._ending = tracker.on_level(self.agent_id, resource, 1, self._unpause, self.actor)

    def _turn_ended(self, actor: Actor, exit: Exit) -> None:
        """An iteration of the tick mode has ended; the loop ends with it if it should."""
        if self.on_change is not None:
            self.on_change()
        if exit.kind != "returned" or not self.agent.alive or self._state is _S.STOPPING:
            self._ended(actor, exit)
