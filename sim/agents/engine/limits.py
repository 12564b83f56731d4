"""The limits of the engine, and the reasons for which its loop ends."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import attrs

from sim.base.errors import LimitError, UsageError
from sim.base.expressions import did_you_mean
from sim.kernel import to_ns
from sim.kernel.duration import NS
from sim.llm.service import CALLS, COST, TOKENS, Skipped
from sim.llm.types import ModelError
from sim.world.section import PositiveDuration, Range

Ending = Literal[
    "natural_completion", "stop_tool", "decision", "max_iterations", "same_tool", "max_time", "history_length",
    "max_tokens", "max_cost", "user_budget", "task_cost", "llm_calls", "llm_tokens", "llm_cost", "other_limit", "quota",
    "invalid_answer", "model_error",
]  # fmt: skip
"""Why a loop of model calls ended.

- `natural_completion`: the model answered without tool calls;
- `stop_tool`: it called a tool after which the loop ends, such as `send_message`;
- `decision`: it called a tool that is not run, because the call itself is the answer;
- `max_iterations`, `same_tool`, `max_time`, `history_length`, `max_tokens`, `max_cost`: a limit of the loop;
- `user_budget`, `task_cost`: the tokens of the user, or the cost limit of the task, have no room for the next call;
- `llm_calls`, `llm_tokens`, `llm_cost`: the limit or budget of this name in the scenario has none;
- `other_limit`: another limit has none, which the error names;
- `quota`: the ceiling of the run, or a hard limit of an account, refused the next call;
- `invalid_answer`: its answers could not be used, although it was informed why;
- `model_error`: no model answered.
"""

FINISHED: Final = ("natural_completion", "stop_tool", "decision")
"""The endings with which the model has said what it wanted to say."""

USER_BUDGET: Final = "tokens of the user"
"""The kind of the `LimitError` when the token budget of a user has no room for a call."""

TASK_COST: Final = "cost of the task"
"""The kind of the `LimitError` when the cost limit of a task has no room for a call."""

_BY_KIND: Final[Mapping[str, Ending]] = {
    USER_BUDGET: "user_budget", TASK_COST: "task_cost", CALLS: "llm_calls", TOKENS: "llm_tokens", COST: "llm_cost",
}  # fmt: skip


def ending_of(error: ModelError | LimitError) -> Ending:
    """Return the ending of a loop whose next model call was refused, or that no model answered."""
    if isinstance(error, LimitError):
        return _BY_KIND.get(error.kind, "other_limit")
    return "quota" if error.kind == "quota" else "model_error"


RETRYABLE: Final = ("rate_limit", "overload", "server", "network", "timeout", "incomplete", "malformed", "empty")
"""Classes of errors after which the same request may succeed later."""


def passes(error: object) -> bool:
    """Return whether a call that was refused or failed can succeed later, as it is."""
    return isinstance(error, Skipped) or (isinstance(error, ModelError) and error.kind in RETRYABLE)


LEAST_ANSWER: Final = 16
"""The fewest tokens of an answer for which it is worth asking."""


def least_answer(max_tokens: int) -> int:
    """Return the fewest tokens of an answer, by the most that it may have."""
    return min(LEAST_ANSWER, max_tokens)


@attrs.frozen
class LoopLimits:
    """The limits of one loop of model calls and tool calls. They are checked before each model call.

    Args:
        iterations: the most model calls.
        same_tool: how often the same tool may be called in a row; null: no limit.
        time: the longest simulated time of the loop.
        history: the most messages of the model history; null: no limit.
        tokens: the most tokens of all calls; null: no limit.
        cost: the most money for all calls; 0: none is made; null: no limit.
        invalid_answers: how many answers are tolerated of which nothing can be used.
        result_length: how many characters of a tool's result the model sees.
    """

    iterations: Annotated[int, Range(1, 1000)] = 20
    same_tool: Annotated[int, Range(1, 1000)] | None = 5
    time: PositiveDuration = 600 * NS
    history: Annotated[int, Range(2, 100_000)] | None = None
    tokens: Annotated[int, Range(1)] | None = None
    cost: Annotated[float, Range(0)] | None = None
    invalid_answers: Annotated[int, Range(0, 20)] = 2
    result_length: Annotated[int, Range(100, 1_000_000)] = 8000


def limits_from(limits: object, base: LoopLimits) -> LoopLimits:
    """Return limits of which some are given, as a rule of an agent gives them.

    Args:
        limits: values by name.
        base: the others.

    Raises:
        UsageError: if a name is unknown, or a value is not one that a scenario file could give.
    """
    if not isinstance(limits, Mapping):
        raise UsageError(f"limits is a mapping, not {limits!r:.60}", hint="write {iterations: 30}")
    types = get_type_hints(LoopLimits, include_extras=True)
    for name in limits:
        if name not in types:
            raise UsageError(f"there is no limit {str(name)[:60]!r}", hint=did_you_mean(str(name), types))
    return attrs.evolve(base, **{name: _read(name, value, types[name]) for name, value in limits.items()})


def _read(name: str, value: Any, annotation: Any) -> Any:
    """Return the value of one limit, checked by the type of the setting."""
    if name == "time":
        time = to_ns(value)
        if time <= 0:
            raise UsageError("the limit time is above 0")
        return time
    options = get_args(annotation) if type(None) in get_args(annotation) else (annotation,)
    if value is None and len(options) > 1:
        return None
    kind, bounds = get_args(options[0])[:2]
    numbers = (int, float) if kind is float else (int,)
    good = isinstance(value, numbers) and not isinstance(value, bool)
    if not good or value < (bounds.least or 0) or (bounds.most is not None and value > bounds.most):
        most = "" if bounds.most is None else f" to {bounds.most:,}"
        what = "number" if kind is float else "whole number"
        raise UsageError(f"the limit {name} is a {what} from {bounds.least or 0:,}{most}, not {value!r:.40}")
    return value
