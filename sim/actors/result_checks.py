"""Checks what the methods of an agent return, and says what to return instead."""

import inspect

from sim.actors.agent import Agent
from sim.base.errors import ActorError
from sim.world import Action, ActionResult


def check_decision(agent: Agent, decision: object, method: str = "decide_action") -> None:
    """Check what decided on an action.

    A mapping is refused as well: an action is one record, whose keys are checked when it is made, and a second form
    would have its own spelling of each key.

    Raises:
        ActorError: if it is neither an `Action` nor None.
    """
    if not isinstance(decision, Action):
        hint = "return sim.Action(kind, arguments), whose execution returns a sim.ActionResult"
        raise _wrong(agent, method, decision, "a sim.Action or None", hint)


def check_result(agent: Agent, result: object) -> None:
    """Check what executed an action.

    Raises:
        ActorError: if it is not an `ActionResult`.
    """
    if not isinstance(result, ActionResult):
        hint = (
            "return what `await super().execute_action(action)` returns, or"
            " sim.ActionResult(success=True, data=...) or sim.ActionResult(success=False, error=...)"
        )
        raise _wrong(agent, "execute_action", result, "a sim.ActionResult", hint)


def _wrong(agent: Agent, method: str, value: object, expected: str, hint: str) -> ActorError:
    what = "None" if value is None else f"a {type(value).__name__}"
    if inspect.iscoroutine(value):
        value.close()  # otherwise Python warns that it was never awaited, which this error says already
        hint = "write `await` before the call that returned it"
    elif isinstance(value, dict):
        hint = f"{hint}; the keys of a dict could not be checked"
    return ActorError(f"{agent.agent_id}.{method} returned {what}, not {expected}; {hint}")
