"""The limits of the engine, and the reasons for which its loop ends."""

from typing import Annotated, Final, Literal

import attrs

from sim.kernel.duration import NS
from sim.world.section import PositiveDuration, Range

Ending = Literal[
    "natural_completion", "stop_tool", "decision", "max_iterations", "same_tool", "max_time", "history_length",
    "max_tokens", "max_cost", "invalid_answer", "model_error",
]  # fmt: skip
"""Why a loop of model calls ended.

- `natural_completion`: the model answered without tool calls;
- `stop_tool`: it called a tool after which the loop ends, such as `send_message`;
- `decision`: it called a tool that is not run, because the call itself is the answer;
- `max_iterations`, `same_tool`, `max_time`, `history_length`, `max_tokens`, `max_cost`: a limit was reached;
- `invalid_answer`: its answers could not be used, although it was told why;
- `model_error`: no model answered.
"""

FINISHED: Final = ("natural_completion", "stop_tool", "decision")
"""The endings with which the model has said what it wanted to say."""


@attrs.frozen
class LoopLimits:
    """The limits of one loop of model calls and tool calls. They are checked before each model call.

    Args:
        iterations: the most model calls.
        same_tool: how often the same tool may be called in a row; null: no limit.
        time: the longest simulated time of the loop.
        history: the most messages of the model history; null: no limit.
        tokens: the most tokens of all calls; null: no limit.
        cost: the most money for all calls; null: no limit.
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
