"""The dispatcher: checks an action, waits for what it needs, applies it in one step, and records the result.

Every action passes this one place, as every access passes a reference monitor (Anderson, "Computer security technology
planning study", 1972): permission, arguments, size and price are checked here and in no handler. A handler that checks
for itself can forget a check, and then nothing else makes it.

The price is reserved before the wait, and taken or given back after it. An agent that cannot pay is refused at once, so
it never holds a place in a line that it could not use. The doubt about it: what is reserved for a long wait is missing
for others in the meantime. To take the price only after the wait would let more agents wait than can pay, and refuse
some of them at the end.

A refusal is a result and no exception, because it is a part of the model: agents decide by it, and it is on record.
Exceptions of a handler are such results too; only those that concern the run or the process leave this module.

A handler makes all checks first and then changes the world, in one step without an await, so that neither a lock nor a
transaction is needed. The doubt is that only tests ensure this order, and only for the actions of `sim`: a handler of a
program that raises after its first change leaves that change. To undo it was not chosen, because it takes a copy of
what is changed, or a log of changes, at each action.

Not chosen either: handlers that agents call directly, and checks in decorators of handlers. Both are simpler, but then
what is checked depends on the way by which an action comes, from a rule, a tool, a program or a person.
"""

from collections.abc import Awaitable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import attrs

from sim.base.errors import Interrupt, RunError, SimError
from sim.base.text import of_error, recordable_text
from sim.events.bus import too_much
from sim.kernel.codec import ABSENT, Fact, Raw, as_dict, decode, encode_unchecked, freeze
from sim.kernel.compiled import core
from sim.kernel.coroutines import resume
from sim.kernel.waits import NOTHING
from sim.world.action import ANY, Action, ActionHandler, ActionResult, Refused
from sim.world.costs import FREE, Charge, ChargeHold
from sim.world.events import ActionTaken

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World


@attrs.frozen
class PendingAction:
    """A waiting action and its handler."""

    action: Action
    handler: ActionHandler


class Dispatcher:
    """Executes the actions of the agents of a world.

    Args:
        world: the world that the actions change.

    Attributes:
        only_seen: whether an action that succeeded is recorded only if it has waited, caused an event or woken someone.
    """

    __slots__ = ("_world", "only_seen")

    def __init__(self, world: "World") -> None:
        self._world = world
        self.only_seen = False

    def price(self, action: Action) -> Charge:
        """Return the charge for an action."""
        return self._world.costs.price(action.kind, action.arguments)

    async def wait_and_apply(self, agent: "Inhabitant", action: Action, handler: ActionHandler) -> ActionResult:
        """Reserve the price of an action, wait for what it needs, then apply it."""
        result = self.begin(agent, action, handler)
        return result if isinstance(result, ActionResult) else await result

    def begin(
        self, agent: "Inhabitant", action: Action, handler: ActionHandler
    ) -> ActionResult | Coroutine[Any, Any, ActionResult]:
        """Do as `wait_and_apply`, as far as this is possible without waiting.

        Returns:
            The result, if there was nothing to wait for; otherwise the rest of the action.
        """
        world, raw = self._world, freeze(action.arguments)
        try:
            charge = self._admit(agent, action, handler, len(raw))  # an agent that cannot pay must not wait in line
        except Refused as refusal:
            return self._refuse(agent, action, raw, refusal)
        if handler.ready is not None and charge is FREE:
            try:
                granted = handler.ready(world, agent, **action.arguments)
            except (Interrupt, MemoryError, RunError):
                raise
            except Exception as error:
                return self._refuse(agent, action, raw, error)
            if granted is not NOTHING:
                world.waits.passed(agent.agent_id)
                return self._finish(agent, action, handler, granted, None, raw)
        return self._wait(agent, action, handler, raw, charge)

    def _wait(
        self, agent: "Inhabitant", action: Action, handler: ActionHandler, raw: Raw, charge: Charge
    ) -> ActionResult | Coroutine[Any, Any, ActionResult]:
        """Reserve the price of an action that was admitted, and begin its wait; see `begin`."""
        world = self._world
        held = world.costs.hold(agent.agent_id, charge)
        outer = world.pending.get(agent.agent_id)  # the call of a tool that executes this action
        world.pending[agent.agent_id] = PendingAction(action, handler)
        world.waits.begin(agent.agent_id)
        rest: Awaitable[Any] | None = None
        try:
            wait: Any = handler.wait(world, agent, **action.arguments)  # type: ignore[misc]  # not None here
            if wait.__class__ is not CoroutineType:
                rest = wait
            else:
                try:
                    rest = resume(wait, wait.send(None))
                except StopIteration as ended:
                    granted = ended.value
        except BaseException as error:
            held.release()
            if not isinstance(error, Exception) or isinstance(error, Interrupt | MemoryError | RunError):
                raise
            return self._refuse(agent, action, raw, error)
        finally:
            if rest is None:
                self._waited(agent, outer)
        if rest is not None:
            return self._continue(agent, PendingAction(action, handler), raw, held, (outer, rest))
        return self._finish(agent, action, handler, granted, held)

    async def _continue(
        self,
        agent: "Inhabitant",
        pending: PendingAction,
        raw: Raw,
        held: ChargeHold,
        wait: tuple[PendingAction | None, Awaitable[Any]],
    ) -> ActionResult:
        """Wait for what an action needs, then apply it; `wait` is the action around it, and what is awaited."""
        outer, rest = wait
        try:
            granted = await rest
        except BaseException as error:
            held.release()
            if not isinstance(error, Exception) or isinstance(error, Interrupt | MemoryError | RunError):
                raise
            return self._refuse(agent, pending.action, raw, error)
        finally:
            self._waited(agent, outer)
        return self._finish(agent, pending.action, pending.handler, granted, held)

    def _waited(self, agent: "Inhabitant", outer: PendingAction | None) -> None:
        world = self._world
        if outer is None:
            world.pending.pop(agent.agent_id, None)
        else:
            world.pending[agent.agent_id] = outer
        world.waits.end(agent.agent_id)

    def _finish(
        self,
        agent: "Inhabitant",
        action: Action,
        handler: ActionHandler,
        granted: Any,
        held: ChargeHold | None,
        raw: Raw | None = None,
    ) -> ActionResult:
        """Apply an action after its wait; if it is refused, undo the wait and release the reserved price.

        Args:
            agent, action, handler, granted: see `apply`.
            held: the reserved price; None: it costs nothing.
            raw: see `apply`.
        """
        done = False
        try:
            result = self.apply(agent, action, handler, (granted,), raw)
            done = result.success
        finally:
            if done:
                if held is not None:
                    held.settle()
            else:
                if held is not None:
                    held.release()
                if handler.undo is not None:
                    handler.undo(self._world, agent, granted, **action.arguments)
        return result

    def apply(
        self,
        agent: "Inhabitant",
        action: Action,
        handler: ActionHandler | None,
        granted: tuple[Any, ...] = (),
        raw: Raw | None = None,
    ) -> ActionResult:
        """Check and apply an action in one step, and record the result.

        Args:
            agent, action: the agent and its action.
            handler: the handler of the action, or None if its kind does not exist.
            granted: the result of the wait, as a tuple with one item; empty if there was no wait. After a wait the
                price is already reserved.
            raw: the arguments as JSON, if the action has been admitted in this step and costs nothing.
        """
        world, arguments, only_seen = self._world, action.arguments, self.only_seen
        admitted = raw is not None
        if raw is None:
            raw = freeze(arguments)
        before = world.kernel.acting().counter if only_seen else 0
        charge = FREE
        try:
            if handler is None:
                handler = world.actions.get(action.kind)  # raises `Refused` with the nearest name
            if handler.wait is not None and not granted:
                raise Refused(f"{action.kind} takes time: it has to be awaited (execute)")
            if not admitted:
                charge = self._admit(agent, action, handler, len(raw), paid=bool(granted))
            if granted:
                data = handler.apply(world, agent, *granted, **arguments)
            else:  # most actions; a call without `*granted` is faster
                data = handler.apply(world, agent, **arguments)
            reasoning = action.reasoning or ABSENT
            outcome = ActionTaken(arguments=raw, reasoning=reasoning, result=data, success=True)
            # What cannot change and can always be encoded is encoded later, with others.
            fact = data.__class__.__base__ is Fact  # `isinstance` takes three times as long
            late = reasoning is ABSENT and (fact or data is None)
            kept = outcome if late else freeze(outcome)
        except (MemoryError, RunError):
            raise  # these concern the process or the run, not the action
        except Exception as error:  # any error of a handler, so that the attempt is recorded
            return self._refuse(agent, action, raw, error)
        if charge is not FREE:
            world.costs.take(agent.agent_id, charge, arguments.get("artifact"))
        if only_seen and (handler.idle or (not granted and world.kernel.acting().counter == before)):
            world.kernel.pass_over(handler.topic, kept, agent.agent_id)
        else:
            world.kernel.emit(handler.topic, kept, agent.agent_id)
        world.done[handler.kind] += 1
        if fact:
            data = as_dict(data)
        elif data.__class__ is Raw:
            data = decode(data)
        return ActionResult(True, data)

    def _admit(
        self, agent: "Inhabitant", action: Action, handler: ActionHandler, size: int, *, paid: bool = False
    ) -> Charge:
        """Check permission, arguments, size and price of an action, and return its charge.

        Raises:
            Refused: if a check fails; the message names the check.
        """
        world, kind = self._world, action.kind
        if agent.permission < handler.permission:
            raise handler.forbidden()
        handler.check(action.arguments)
        if size > world.event_bus.max_data_bytes:
            raise self._too_much(agent, action, size)
        charge = FREE if paid else world.costs.fixed(kind) or world.costs.charge(kind, size)
        if charge is FREE:
            return charge
        if charge.beyond_rates or world.rate_tracker.blocked_by(agent.agent_id, charge.rates) is not None:
            lack = world.costs.lacking(agent.agent_id, charge, action.arguments.get("artifact"))
            if lack is not None:
                raise Refused(lack.text, skip=lack.skip)
        return charge

    def _refuse(self, agent: "Inhabitant", action: Action, raw: Raw, error: Exception) -> ActionResult:
        world, own = self._world, isinstance(error, Refused | SimError)
        reason = recordable_text(str(error)) if own else of_error(error)
        if len(raw) > world.event_bus.max_data_bytes:
            raw = freeze({"bytes": len(raw)})  # arguments that are too large are not recorded
        outcome = ActionTaken(arguments=raw, error=reason, reasoning=action.reasoning or ABSENT, success=False)
        world.kernel.emit(f"action.{action.kind}", freeze(outcome), agent.agent_id)
        world.refused[action.kind] += 1
        return ActionResult(False, error=reason, skipped=isinstance(error, Refused) and error.skip)

    def _too_much(self, agent: "Inhabitant", action: Action, size: int) -> Refused:
        topic = action.arguments.get("topic")
        what = f"{agent.agent_id}: the action {action.kind}" + (f" with topic {topic!r}" if topic else "")
        return Refused(str(too_much(what, size, self._world.event_bus.max_data_bytes)))


if core is not None:
    _HANDLER = ("allowed", "apply", "kind", "permission", "ready", "required", "topic", "undo", "wait")
    _USED_IN_C = {
        "action": Action, "any": ANY, "as_dict": as_dict, "charge": Charge, "decode": decode,
        "encode": encode_unchecked, "fact": Fact, "free": FREE, "freeze": freeze, "handler": ActionHandler,
        "interrupt": Interrupt, "nothing": NOTHING, "raw": Raw, "result": ActionResult, "run_error": RunError,
        "taken": ActionTaken,
    }  # fmt: skip
    core.take_over_actions(
        Dispatcher,
        {"only_seen": vars(Dispatcher)["only_seen"], "world": vars(Dispatcher)["_world"]},
        {name: getattr(ActionHandler, name) for name in _HANDLER},
        {name: getattr(Action, name) for name in ("arguments", "kind", "reasoning")},
        {name: getattr(Charge, name) for name in ("beyond_rates", "rates")},
        _USED_IN_C,
    )
