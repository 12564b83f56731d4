"""Pruning: which memories are deleted or summarised, and the report of it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import attrs

from sim.memory.memory import Memory
from sim.memory.settings import MemorySettings

Summarise = Callable[[str, Sequence[Memory]], Awaitable[str]]
"""Returns a summary of memories of an agent, oldest first. It can take time, and can fail with any error."""

_NOTHING: Mapping[str, str] = {}


def expired(memories: Iterable[Memory], now_ns: int) -> list[Memory]:
    """Return the memories that have expired."""
    return [memory for memory in memories if memory.expired(now_ns)]


def fading(memories: Iterable[Memory], settings: MemorySettings, now_ns: int) -> list[Memory]:
    """Return the memories to summarise: old and of little importance. Important ones are never among them."""
    before = now_ns - settings.old
    return [m for m in memories if m.importance < settings.minor and m.created_ns < before and not m.archived]


def surplus(memories: Iterable[Memory], settings: MemorySettings) -> list[Memory]:
    """Return the memories above the cap: archived ones first, then the least important, of equals the oldest."""
    ranked = sorted(memories, key=lambda m: (not m.archived, m.importance, m.created_ns, m.id))
    return ranked[: max(len(ranked) - settings.cap, 0)]


@attrs.frozen
class PruneReport:
    """What pruning did.

    Attributes:
        expired: the number of memories that were deleted because they had expired.
        summarised: the number of memories for which a summary now stands.
        capped: the number of memories that were deleted because their agent had too many.
        summaries: the number of new summaries.
        important: how many important memories are among those that were deleted.
        failures: the agents whose memories could not be summarised, and why. Their memories are as before.
    """

    expired: int = 0
    summarised: int = 0
    capped: int = 0
    summaries: int = 0
    important: int = 0
    failures: Mapping[str, str] = attrs.field(default=_NOTHING)

    def __add__(self, other: "PruneReport") -> "PruneReport":
        return PruneReport(
            self.expired + other.expired,
            self.summarised + other.summarised,
            self.capped + other.capped,
            self.summaries + other.summaries,
            self.important + other.important,
            {**self.failures, **other.failures},
        )

    @property
    def pruned(self) -> int:
        """The number of memories that agents no longer have in mind."""
        return self.expired + self.summarised + self.capped

    @property
    def sentence(self) -> str:
        """The report in one sentence, for a log or a channel. Important losses and failures are named."""
        text = (
            f"Memory maintenance: pruned {_of(self.pruned, 'memory', 'memories')},"
            f" created {_of(self.summaries, 'summary', 'summaries')}"
        )
        if self.important:
            text += f"; {self.important} of the deleted ones were important"
        if self.failures:
            text += f"; no summary for {', '.join(self.failures)}, whose memories stay as they are"
        return text


def _of(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
