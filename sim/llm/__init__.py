"""Language models: one service for all agents of a world, offline and free unless the operator says otherwise.

`port` (requests, answers, failures, protocols) and `wire` (their JSON); `models` (the service), `ask` (the action),
`toolcalls` (what may be executed), `spend` (money), `counts` (for observers), `views` (what is queried), `access` (what
the operator gives);
`router`, `prices`, `tokens`; `client` with `retry`, `breaker`, `governor` and `pace` (one layer of retries, on any
clock); `coreclock` (simulated time); the providers `scripted` with `pattern`, `simulated` with `server` and `parts`,
`faulty` around any of them, and at the edge, in real time, `edge` with `openai_provider`.
"""

from sim.llm import views  # noqa: F401  # registers them
from sim.llm.access import Access
from sim.llm.service import Models
from sim.llm.types import (
    Answer,
    ChatMessage,
    Completion,
    Delta,
    ModelError,
    ModelRequest,
    Sampling,
    TokenUsage,
    ToolCall,
    ToolSpec,
)

__all__ = [
    "Access",
    "Answer",
    "ChatMessage",
    "Completion",
    "Delta",
    "ModelError",
    "ModelRequest",
    "Models",
    "Sampling",
    "TokenUsage",
    "ToolCall",
    "ToolSpec",
]  # fmt: skip
