"""Language models: one service for all agents of a world. It is offline and free unless the operator configures models.

- Data: `types` (requests, answers, errors, protocols), `serialization` (their JSON), `streaming` (answers in parts).
- Calls: `service` (the service of a world), `ask` (the action), `answers` and `tool_calls` (checks of answers),
  `embeddings`, `counts` (for observers), `views` (SQL views).
- Models: `access` (settings of the operator), `router`, `prices`, `tokens`.
- Client: `client` on any clock, with the limits in `limits` (`retry`, `breaker`, `governor`, `pacing`, `spend`);
  `sim_clock` and `service_time` (simulated time), `endpoint` (real time, at the edge).
- Batches, in `batches`: requests that an endpoint answers later, at a lower price.
- Providers, in `providers`: `scripted` with `pattern`, `simulated` with `server`, `fault_injection`, `openai`.
"""

from typing import TYPE_CHECKING

from sim.late import late_names

if TYPE_CHECKING:
    from sim.llm.access import Access
    from sim.llm.batches.settings import Batching
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
    "Batching",
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

_HOMES = {
    "access": "Access",
    "batches.settings": "Batching",
    "service": "Models",
    "types": "Answer ChatMessage Completion Delta ModelError ModelRequest Sampling TokenUsage ToolCall ToolSpec",
}

if not TYPE_CHECKING:
    __getattr__ = late_names(__name__, _HOMES)
