"""The engine: what agents with language models share.

Modules: `core_loop` (the loop of model calls and tool calls), `calls` (the tool calls of an answer), `limits` (limits
and endings of the loop), `prompt` (prompts of escaped sections).
"""

from sim.agents.engine.calls import spec_of
from sim.agents.engine.core_loop import CoreLoop, LoopResult
from sim.agents.engine.limits import FINISHED, Ending, LoopLimits, limits_from
from sim.agents.engine.prompt import escape, prompt, section, time_context

__all__ = [
    "FINISHED", "CoreLoop", "Ending", "LoopLimits", "LoopResult", "escape", "limits_from", "prompt", "section",
    "spec_of", "time_context",
]  # fmt: skip
