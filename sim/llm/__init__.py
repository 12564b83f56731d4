"""Language models: one service for all agents of a world, offline and free unless the operator configures models.

May import: `actors`, `host` and below. Read first: `service.py` (the service), `types.py` (requests and answers),
`client.py` (retries and limits, on any clock).
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

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
    __getattr__, __dir__ = late_names(__name__, _HOMES)
