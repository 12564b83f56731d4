"""The loop of one agent: decide, execute, update the backoff, wait.

The same class serves both modes. In autonomous mode, `start` starts an actor that runs `_run`. In tick mode, the runner
calls `turn` once per tick. Sleeping and paused agents are not polled: a registered callback ends the sleep or pause.
So an agent that sleeps costs no time, as in SimPy and other simulators of processes, while the schedulers of Mesa and
NetLogo ask every agent in each step.

The order of decide and act is that of reactive agents (Russell and Norvig, "Artificial intelligence: a modern
approach"). Errors of an agent are its own: it tries again after a growing delay, is paused after several in a row, and
is restarted within a limit, as supervisors of Erlang/OTP restart processes.

An iteration exists twice. `iterate_now` calls what needs no waiting, and `iterate` is the coroutine that continues from
where it must wait. A coroutine alone would be enough, and was the first form; but for an action that takes no time it
costs several coroutines, which is a large part of an iteration. The doubt is that both must do the same. Therefore
`iterate_now` hands over to the place in `iterate` at which it must wait, and tests compare agents that wait with agents
that do not.

Not chosen: a task of asyncio or trio for each agent (see `sim.kernel.kernel`), and to ask sleeping agents in each round
whether they wake, which costs as much for a thousand sleeping agents as for a thousand awake ones.
"""

import logging
import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from functools import lru_cache
from typing import Any, Protocol

from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.error_reports import log_failure
from sim.actors.error_text import failure_text
from sim.actors.events import AgentCrashed, AgentFailed
from sim.actors.lifecycle import Lifecycle, Phase
from sim.actors.mailbox import Mailbox
from sim.actors.result_checks import check_decision, check_result
from sim.actors.state import AgentState, PauseReason
from sim.actors.supervisor import RestartLimit
from sim.actors.wake import WakeCondition
from sim.base.errors import CausalityError, Interrupt, LimitError, RunError
from sim.base.text import of_error, recordable_text
from sim.kernel import Actor, Duration, Exit, to_ns
from sim.kernel.codec import NOT_JSON_HINT, json_fault
from sim.kernel.compiled import core
from sim.kernel.coroutines import resume
from sim.world import Action, ActionResult, World
from sim.world.costs import FREE, Charge


class IterationGate(Protocol):
    """A gate that each iteration passes after `decide_action` and before its action is executed."""

    @property
    def ahead(self) -> bool:
        """Whether the agent runs ahead of others: events with an earlier simulated time can still follow."""

    def wait(self, action: Action | None, /) -> Awaitable[Any]:
        """Wait until the action is allowed to execute."""


_LOG = logging.getLogger("sim.actors")
_S = AgentState
_PLAIN = frozenset((bool, int, str, type(None), list, tuple, dict))
_WITH_PARTS = frozenset((list, tuple, dict))
_RUNNING, _STOPPING = AgentState.RUNNING, AgentState.STOPPING
_INSIDE, _OUTSIDE = Phase.INSIDE, Phase.OUTSIDE
_EXECUTE = (Agent.execute_action, World.execute)  # the originals, to detect that a method was overridden or patched


def _plainness(state: object) -> int:
    """Return how plain a state is.

    Returns:
        2: all variables are numbers, booleans, None or ASCII text, so that nothing in it has to be looked at.
        1: they have JSON types at the top level; nested values are not checked.
        0: one of them has not.
    """
    if state.__class__ is not dict:
        return 0
    plainness = 2
    for key, value in state.items():
        kind = value.__class__
        if key.__class__ is not str or (kind not in _PLAIN and not (kind is float and math.isfinite(value))):
            return 0
        if kind in _WITH_PARTS or not (key.isascii() and (kind is not str or value.isascii())):
            plainness = 1
    return plainness


plainness = _plainness if core is None else core.plainness


@lru_cache(maxsize=1024)
def _decides_now(kind: type, *_methods: object) -> bool:
    """Return whether `decide_now` of a class says what its `decide_action` says, which can be that of a subclass.

    Args:
        kind: the class.
        _methods: both methods, since a class can get others.
    """
    now, later = _owner(kind, "decide_now"), _owner(kind, "decide_action")
    return now is not Agent and issubclass(now, later)


def _owner(kind: type, name: str) -> type:
    """Return the class that defines a method of a class."""
    return next(base for base in kind.__mro__ if name in base.__dict__)


def _ended(actor: Actor, exit: Exit) -> None:
    """End the loop behind an actor; one function for all, where each would have a bound method."""
    loop: Any = actor.listener
    loop._ended(actor, exit)


class AgentLoop(Lifecycle):
    """The execution loop of one agent, in either mode.

    `AgentLoopManager.create_loop` creates it.

    Attributes:
        iteration_count: number of iterations that began.
        began_ns: when the latest iteration began, in simulated nanoseconds.
        state_fault: the latest fault that was found in the state of the agent; None if there was none.
        consecutive_errors: failures since the last successful iteration. An iteration that only decides to sleep or
            rest does not count as successful.
    """

    __slots__ = (
        "_backoff_ns",
        "_decide",
        "_direct",
        "_follow",
        "_gate",
        "_greeted",
        "_rest_ns",
        "_restarts",
        "_ticking",
        "began_ns",
        "consecutive_errors",
        "iteration_count",
        "state_fault",
    )

    def __init__(self, agent: Agent, world: World, config: AgentLoopConfig) -> None:
        super().__init__(agent, world, config)
        self.iteration_count = 0
        self.began_ns = 0
        self.consecutive_errors = 0
        self._backoff_ns = config.min_delay_ns
        self.state_fault: str | None = None
        self._rest_ns = 0
        self._restarts: RestartLimit | None = None
        self._gate: IterationGate | None = None
        self._decide: Callable[[], Action | None] | None = None  # `decide_now`, if the agent has it
        self._follow: Callable[[ActionResult], None] | None = None  # `after_action`, if the agent has it
        self._direct = False  # whether `execute` is not overridden, so that instant actions need no coroutine
        self._greeted = False
        self._ticking = False
        agent.attach(self, Mailbox(world.kernel, config.mailbox_size, config.mailbox_policy))

    def __repr__(self) -> str:
        return f"<AgentLoop {self.agent_id} {self._state} iterations={self.iteration_count}>"

    async def start(self, *, delay: Duration = 0) -> None:
        """Start the loop. A loop that is not stopped is left as it is, and a warning is logged.

        A host program can call it as well, before a run, between two runs and beside one.

        Args:
            delay: simulated time before the first iteration.
        """
        if self.world.outside():
            data = {"agent": self.agent_id, "delay_ns": to_ns(delay)}
            await self.world.call("start", data, f"start of {self.agent_id}")
            return
        self.warn_if_started()
        self.start_now(delay_ns=to_ns(delay))

    def warn_if_started(self) -> None:
        """Log a warning if the loop is not stopped, because a start then has no effect."""
        if self._state is not _S.STOPPED or self.under_way:
            state = "on its way to another island" if self.under_way else f"{self._state} already"
            _LOG.warning("%s is %s, so that starting it has no effect", self.agent_id, state)

    def start_now(self, *, delay_ns: int = 0) -> None:
        """Start the loop like `start`, for code that cannot await."""
        if self._begin(delay_ns):
            self._kernel.begin(self.actor, self._run(delay_ns))

    def begin_elsewhere(self) -> None:
        """Forget what held only where the agent was before it travelled: rests, and restarts in a row."""
        self._rest_ns, self._restarts = 0, None

    def start_ticking(self, *, delay_ns: int = 0) -> None:
        """Start the loop in tick mode: the runner calls `turn` for each iteration."""
        if self._begin(delay_ns):
            self._ticking = True
            self.actor.on_exit = self._turn_ended
            self._change(_S.RUNNING)

    def _begin(self, delay_ns: int) -> bool:
        if self._state is not _S.STOPPED or self.under_way:
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
        self._due = self._kernel.now + delay_ns
        self.actor.on_exit = _ended
        self.last_beat = self._kernel.now
        self._change(_S.STARTING)
        self.world.running += 1
        return True

    # -- the loop

    @types.coroutine
    def _run(self, delay_ns: int) -> Generator[Any, Any, None]:
        # This is the loop of every autonomous agent. It is a generator-based coroutine because a plain `yield` can
        # pause it: `await sleep_ns(...)` would create and run one more coroutine for every iteration.
        if delay_ns:
            yield delay_ns
        self._change(_S.RUNNING)
        if self.agent.starts_at_once():
            self._look_at_methods()
        else:
            yield from self._greet()
        if self._pause_wanted is not None:
            self._pause_if_wanted()
        kernel, tracker, agent = self._kernel, self.world.rate_tracker, self.agent
        while self._state is not _STOPPING and agent._alive and (not agent._own_alive or agent.alive):
            if self._state is not _RUNNING:
                yield from self._change_of_state().wait()
            elif (wait := self._due - kernel.now) > 0:
                yield wait
            elif resource := tracker.blocked(self.agent_id):
                yield from self._without_capacity(resource)
            else:
                rest = self.iterate_now()
                if rest is not None:
                    yield from rest
                if self._state is _RUNNING:  # yield at least once, so that agents that never wait count as a livelock
                    wait = self._due - kernel.now
                    yield wait if wait > 0 else 0

    async def _greet(self) -> None:
        await self.agent.on_start()  # `yield from` would not accept every kind of awaitable
        self._look_at_methods()

    def _look_at_methods(self) -> None:
        """Find out which methods of the agent an iteration has to call."""
        own, worlds = self.agent.execute_action, self.world.execute
        self._direct = (getattr(own, "__func__", None), getattr(worlds, "__func__", None)) == _EXECUTE
        agent, kind = self.agent, type(self.agent)
        self._follow = None if kind.after_action is Agent.after_action else agent.after_action
        # A subclass, or an object, can have another `decide_action`; `__dict__` would be made by looking at it.
        decide: Any = agent.decide_action
        own_method = getattr(decide, "__self__", None) is agent and decide.__func__ is kind.decide_action
        self._decide = (
            agent.decide_now if own_method and _decides_now(kind, kind.decide_now, kind.decide_action) else None
        )

    def turn(self) -> bool:
        """Begin an iteration in tick mode if the agent is due, and return whether it was due.

        The first step of the iteration runs at once. If the iteration waits, the agent is not due until it has ended.
        """
        if self._state is not _RUNNING or self.actor.coro is not None or self._kernel.now < self._due:
            return False
        agent = self.agent
        if not (agent._alive and (not agent._own_alive or agent.alive)):
            self.request_stop("shutdown")
            return False
        resource = self.world.rate_tracker.blocked(self.agent_id)
        if resource is None:
            if self._greeted:
                self._kernel.run_now(self.actor, self.iterate_now)
            else:
                self._kernel.begin_now(self.actor, self._first_turn())
            return True
        self._hold_back(resource)
        return False

    def _hold_back(self, resource: str) -> None:
        """Begin no iteration in this tick, because a resource has no capacity."""
        if self.world.rate_tracker.policy(resource) == "block":
            self._pause(PauseReason.RESOURCES, resource)
            self._watch_for(resource)

    def due_in_ticks(self, *, refreshed: bool) -> bool:
        """Return whether a tick, now or later, begins an iteration or renews capacity that the agent is paused for."""
        if self._state is _RUNNING:
            return self.actor.coro is None
        return refreshed and self.pause_reason is PauseReason.RESOURCES

    async def _first_turn(self) -> None:
        self._greeted = True
        await self._greet()
        await self.iterate()

    def hold(self, gate: IterationGate | None) -> None:
        """Make iterations wait at `gate` between the decision and its execution (tick mode, parallel decisions)."""
        self._gate = gate

    def iterate_now(self) -> Coroutine[Any, Any, None] | None:  # noqa: C901 - the hot path, and calls are slow
        """Run one iteration, as far as this is possible without waiting, and return the rest of it; None: it has ended.

        Coroutines of the agent are run up to their first wait, and the rest continues from there.
        """
        if self._gate is not None:
            return self.iterate()
        agent, world = self.agent, self.world
        self.iteration_count += 1
        self.began_ns = self.last_beat = self._kernel.now
        bus = world.event_bus
        bus.marks[self.agent_id] = bus.sequence
        self._phase = _INSIDE
        first = action = rest = None
        error: str | None = None
        try:
            if self._decide is not None:
                first = action = self._decide()
            else:
                decision: Any = agent.decide_action()
                if decision.__class__ is not types.CoroutineType:
                    rest = self.iterate(decision=decision)
                    return rest
                try:
                    request = decision.send(None)
                except StopIteration as decided:
                    first = action = decided.value
                else:
                    rest = self.iterate(decision=resume(decision, request))
                    return rest
            if action is not None and action.__class__ is not Action:
                check_decision(agent, action)
            while action is not None and agent._alive and (not agent._own_alive or agent.alive):
                handler = world.actions.find(action.kind)
                price = world.costs.fixed(action.kind)
                waits = price is not FREE and (price is None or self._is_short(price))
                if waits or not self._direct or handler is None:
                    rest = self.iterate(first=first, action=action)
                    return rest
                if handler.wait is None:
                    result = world.dispatcher.apply(agent, action, handler)
                else:
                    begun = world.dispatcher.begin(agent, action, handler)
                    if begun.__class__ is not ActionResult:
                        rest = self.iterate(first=first, action=action, acting=begun)
                        return rest
                    result = begun
                if self._follow is not None:
                    self._follow(result)
                if not result.success:
                    error = self._failure_of(action, result)
                    break
                if not agent.has_more or self._state is _STOPPING:
                    break
                action = self._next()
        except (MemoryError, RunError):
            raise  # these concern the process or the run, not this agent
        except (Exception, SystemExit) as raised:
            error = self._raised(raised)
        finally:
            if rest is None:
                self._phase = _OUTSIDE
                if self.agent_id in bus.marks:  # it may have left meanwhile; `pop` would be a call
                    del bus.marks[self.agent_id]
        self._iterated(first, action, error)
        return None

    async def iterate(  # noqa: C901 - as `iterate_now`
        self,
        *,
        first: Action | None = None,
        action: Action | None = None,
        acting: Any = None,
        decision: Awaitable[Any] | None = None,
    ) -> None:
        """Run one iteration: decide, execute the actions, and set the time of the next iteration.

        Args:
            first, action: of an iteration that has begun and waits now: its first action, and the one that waits.
            acting: the rest of that action, if it has begun.
            decision: of an iteration that has begun: the decision for which it waits now.
        """
        agent, world = self.agent, self.world
        bus = world.event_bus
        if action is None and decision is None:
            self.iteration_count += 1
            self.began_ns = self.last_beat = self._kernel.now
            bus.marks[self.agent_id] = bus.sequence
        self._phase = _INSIDE
        error: str | None = None
        try:
            if action is None:
                first = action = await (agent.decide_action() if decision is None else decision)
                if action is not None and action.__class__ is not Action:
                    check_decision(agent, action)
                if self._gate is not None:
                    await self._at_gate(self._gate, action)
            while action is not None and agent._alive and (not agent._own_alive or agent.alive):
                if acting is None and not self._is_free(action):
                    await self._until_paid(action)
                handler = world.actions.find(action.kind)
                if self._direct and (handler is None or handler.wait is None):
                    result = world.dispatcher.apply(agent, action, handler)
                else:
                    result = await (agent.execute_action(action) if acting is None else acting)
                    acting = None
                    if result.__class__ is not ActionResult:
                        check_result(agent, result)
                if self._follow is not None:
                    self._follow(result)
                if not result.success:
                    error = self._failure_of(action, result)
                    break
                if not agent.has_more or self._state is _STOPPING:
                    break
                action = self._next()
        except (MemoryError, RunError):
            raise  # these concern the process or the run, not this agent
        except (Exception, SystemExit) as raised:
            error = self._raised(raised)
        finally:
            self._phase = _OUTSIDE
            if self.agent_id in bus.marks:  # it may have left meanwhile; `pop` would be a call
                del bus.marks[self.agent_id]
        self._iterated(first, action, error)

    def _raised(self, raised: BaseException) -> str:
        """Log what an iteration has raised, and return why it has failed."""
        error = failure_text(raised)
        log_failure(self.agent_id, self.world, error, raised)
        return error

    def _is_free(self, action: Action) -> bool:
        """Return whether an action has no price for which its agent may have to wait."""
        return self.world.costs.fixed(action.kind) is FREE

    def _is_short(self, price: Charge) -> bool:
        """Return whether the agent cannot pay a price now, so that it may have to wait."""
        world = self.world
        if price.budgets and world.budgets.lacking(self.agent_id, price.budgets) is not None:
            return True
        return bool(price.rates) and world.rate_tracker.blocked_by(self.agent_id, price.rates) is not None

    async def _until_paid(self, action: Action) -> None:
        """Wait until the agent can pay an action."""
        world = self.world
        charge = world.costs.fixed(action.kind) or world.dispatcher.price(action)
        if charge.budgets:
            await self.until_funded(charge.budgets)
        rates = charge.rates
        short = world.rate_tracker.blocked_by(self.agent_id, rates) if rates else None
        if short is not None and self._waits_for(short):
            await self._until_capacity(short, rates)

    def _failure_of(self, action: Action, result: ActionResult) -> str | None:
        """Log that an action did not succeed, and return why the iteration has failed; None if it has not."""
        if result.skipped:
            return None
        error = result.error or "the action failed"
        log_failure(self.agent_id, self.world, f"{action.kind}: {error}", None)
        return error

    def _next(self) -> Action | None:
        action = self.agent.next_action()
        if action is not None and action.__class__ is not Action:
            check_decision(self.agent, action, "next_action")
        return action

    def _iterated(self, first: Action | None, last: Action | None, error: str | None) -> None:
        """End an iteration: look at the state of the agent, and set the time of the next iteration."""
        if error is None:
            error = self._find_state_fault() if self.agent.state else None
        self.last_beat = now = self._kernel.now
        if error is None:
            if self.consecutive_errors:
                self._succeeded(first, last)
            due = now if self._ticking else now + self.config.min_delay_ns
        else:
            self._failed(error)
            due = now + self._backoff_ns
        self._due = due if due >= self._rest_ns else self._rest_ns
        if self._pause_wanted is not None:
            self._pause_if_wanted()

    def _succeeded(self, first: Action | None, last: Action | None) -> None:
        """End a series of failures, unless the only action was to sleep or rest; an action before it has succeeded."""
        if first is not last or not self._only_waits(last):
            self.consecutive_errors = 0
            self._backoff_ns = self.config.min_delay_ns

    def _find_state_fault(self) -> str | None:
        """Return an error text for a value in the agent's state that is not JSON, or None.

        Nested values are checked only in iterations 1, 2, 4, 8, ...: checking a growing state in each iteration would
        take quadratic time.
        """
        state, count = self.agent.state, self.iteration_count
        plain = plainness(state)
        if plain == 2 or (plain and count & (count - 1)):
            return None
        fault = json_fault(state, "state")
        self.state_fault = None if fault is None else f"{fault}; {NOT_JSON_HINT}"
        return self.state_fault

    def check_state(self) -> None:
        """At the end of a run, count a value in the state that is not JSON as a failure, unless already counted."""
        before, fault = self.state_fault, json_fault(self.agent.state, "state")
        if fault is not None and (before is None or not before.startswith(fault)):
            self._count_failure(f"{fault}; {NOT_JSON_HINT}")

    async def _at_gate(self, gate: IterationGate, action: Action | None) -> None:
        self.world.waits.begin(self.agent_id)  # a known wait, so that the health monitor raises no alert
        try:
            await gate.wait(action)
        finally:
            self.world.waits.end(self.agent_id)

    def rest(self, until_ns: int) -> None:
        """Begin no iteration before a simulated time (nanoseconds). Unlike a sleep, a rest cannot end earlier."""
        self._rest_ns = until_ns

    @property
    def due_ns(self) -> int:
        """The earliest time at which the next iteration can begin, in simulated nanoseconds."""
        return self._due

    def request_stop(self, reason: str) -> None:
        """Begin to stop, as `Lifecycle.request_stop`.

        Raises:
            CausalityError: if the agent does this in an iteration while it runs ahead of others. Any agent can read
                which agents exist, so a stop must not take effect before its simulated time.
        """
        if self._gate is not None and self._gate.ahead and self._phase is Phase.INSIDE:
            raise CausalityError(
                f"{self.agent_id} stops while it runs ahead of others", hint="return Action('stop') from decide_action"
            )
        super().request_stop(reason)

    def sleep_now(self, condition: WakeCondition) -> None:
        """Put the agent to sleep, as `Lifecycle.sleep_now`.

        Raises:
            CausalityError: if the agent runs ahead of others. Earlier events that would wake it can still follow, so
                it can only rest.
        """
        if self._gate is not None and self._gate.ahead and self.agent.reach in ("own", "space"):
            raise CausalityError(
                f"{self.agent_id} falls asleep while it runs ahead of others",
                hint="return Action('sleep', ...) or Action('rest', ...) from decide_action",
            )
        super().sleep_now(condition)

    def _waits_for(self, resource: str) -> bool:
        """Return whether the agent must wait for capacity of `resource` before an action."""
        return self.world.rate_tracker.policy(resource) == "block" and self._state is _RUNNING

    def _only_waits(self, action: Action | None) -> bool:
        """Return whether an iteration only decided to wait: this does not show that the agent works again."""
        handler = None if action is None else self.world.actions.find(action.kind)
        return self._state is _S.SLEEPING or (handler is not None and handler.idle)

    def _failed(self, error: str) -> None:
        """Record a failure and double the delay up to its maximum; at the error limit, pause or stop the agent."""
        error = recordable_text(error)
        self.failures += 1
        self.world.count_error(error, self.agent_id)
        self.consecutive_errors += 1
        self._backoff_ns = min(max(self._backoff_ns, 1) * 2, self.config.max_delay_ns)
        failed = AgentFailed(consecutive=self.consecutive_errors, delay_ns=self._backoff_ns, error=error[:500])
        self._kernel.report(failed, self.agent_id)
        self._tell_agent(error)
        if self.consecutive_errors >= self.config.max_consecutive_errors:
            if self._state is _S.SLEEPING:  # the agent fell asleep and then failed: the error limit takes precedence
                self.end_sleep("error")
            if self._state is _S.RUNNING:
                self._give_up(error)

    def _tell_agent(self, error: str) -> None:
        """Call `on_error` of the agent; an error in it is recorded, but does not count as a failure."""
        self._phase = _INSIDE  # so that a stop takes effect after the iteration, as elsewhere in an iteration
        try:
            self.agent.on_error(error)
        except (KeyboardInterrupt, MemoryError, RunError):
            raise  # these concern the process or the run, not this agent
        except BaseException as fault:
            text = f"on_error: {of_error(fault)}"
            log_failure(self.agent_id, self.world, text, fault)
            self._kernel.report(AgentFailed(error=text[:500]), self.agent_id)
        finally:
            self._phase = _OUTSIDE

    def _give_up(self, error: str) -> None:
        """Pause for the cool-down, or stop as crashed if the restart limit is exceeded."""
        if not self.may_restart():
            self._kernel.report(AgentCrashed(errors=self.consecutive_errors), self.agent_id)
            self.crash_reason = error
            self._stop_in_order("crashed")
            return
        self._pause(PauseReason.ERRORS)
        kernel = self._kernel
        self._ending = kernel.call_at(kernel.now + to_ns(self.config.cool_down), self._retry)

    def may_restart(self) -> bool:
        """Count a restart and return whether it is within the restart limit."""
        if self._restarts is None:
            self._restarts = RestartLimit(self.config.max_restarts, to_ns(self.config.restart_period))
        return self._restarts.allow(self._kernel.now)

    def _stop_in_order(self, reason: str) -> None:
        """Stop now; an agent that runs ahead of others is paused and stops once all earlier events have happened."""
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
        """Handle a lack of capacity: wait for it (policy `block`), or try again later (policy `skip`)."""
        if self.world.rate_tracker.policy(resource) == "skip":
            self._due = self._kernel.now + max(self.config.min_delay_ns, to_ns(self.config.resource_check_interval))
        else:
            await self._until_capacity(resource, {resource: 1})

    async def _until_capacity(self, resource: str, costs: Mapping[str, int]) -> None:
        """Pause until the rate tracker grants the capacity, first come first served."""
        self._pause(PauseReason.RESOURCES, resource)
        try:
            await self.world.rate_tracker.wait_for_capacity(self.agent_id, costs)
        except LimitError:  # the amount exceeds the limit, so it can never be granted
            if self._phase is Phase.OUTSIDE:
                self._watch_for(resource)  # until the limit is raised
                return
            self._have_resources()
            raise
        except Interrupt:  # in an iteration that has not acted yet
            self._have_resources()
            raise
        self._have_resources()

    async def until_funded(self, needs: Mapping[str, int]) -> None:
        """Pause until the agent's budgets cover `needs` (budget name → micro-units), after a renewal or a raise.

        Raises:
            LimitError: if an amount exceeds the whole budget.
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
        """Register a callback that ends the pause when one unit of `resource` is available."""
        tracker = self.world.rate_tracker
        self._ending = tracker.on_level(self.agent_id, resource, 1, self._unpause, self.actor)

    def _turn_ended(self, actor: Actor, exit: Exit) -> None:
        """Handle the end of an iteration in tick mode; end the loop if the agent stops or has crashed."""
        if self.on_change is not None:
            self.on_change()
        agent = self.agent  # in place, as in all of this loop: a call takes longer than to look
        alive = agent._alive and (not agent._own_alive or agent.alive)
        if exit.kind != "returned" or not alive or self._state is _STOPPING:
            self._ended(actor, exit)


if core is not None:
    _SLOTS = (
        "_decide", "_direct", "_due", "_follow", "_gate", "_greeted", "_kernel", "_pause_wanted", "_phase", "_rest_ns",
        "_state", "_ticking", "actor", "agent", "agent_id", "began_ns", "config", "consecutive_errors",
        "iteration_count", "last_beat", "on_change", "world",
    )  # fmt: skip
    _USED_IN_C = {
        "running": _RUNNING, "stopping": _STOPPING, "inside": _INSIDE, "outside": _OUTSIDE, "action": Action,
        "agent": Agent, "result": ActionResult, "free": FREE, "run_error": RunError, "check_decision": check_decision,
        "resume": resume, "turn_ended": AgentLoop._turn_ended,
    }  # fmt: skip
    _LAYOUT = {name.lstrip("_"): getattr(AgentLoop, name) for name in _SLOTS}
    core.take_over_loops(AgentLoop, {**_LAYOUT, "agent_alive": vars(Agent)["_alive"]}, _USED_IN_C)
