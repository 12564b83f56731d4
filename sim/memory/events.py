"""The events of memories that were added before; `memory` and `archive` have those of new ones."""

from sim.events.event_type import Published, event_type


@event_type("memory.repeated")
class MemoryRepeated(Published, frozen=True, gc=False, kw_only=True):
    """A memory that was added before was added once more.

    Attributes:
        agent: the agent that has it.
        count: how often it was added by now.
        id: its number among the memories of its agent.
    """

    agent: str
    count: int
    id: int


@event_type("memory.forgotten")
class MemoriesForgotten(Published, frozen=True, gc=False, kw_only=True):
    """An agent has deleted memories.

    Attributes:
        agent: the agent.
        ids: the numbers of the memories.
    """

    agent: str
    ids: list[int]


@event_type("memory.pruned")
class MemoriesPruned(Published, frozen=True, gc=False, kw_only=True):
    """Memories were deleted.

    Attributes:
        agent: the agent that had them.
        ids: the numbers of the memories.
        reason: why: `expired`, or `cap`, if there were too many.
    """

    agent: str
    ids: list[int]
    reason: str


@event_type("memory.summarised")
class MemoriesSummarised(Published, frozen=True, gc=False, kw_only=True):
    """A summary stands for memories.

    Attributes:
        agent: the agent that has them.
        ids: the numbers of the memories.
        originals: what becomes of them: `archive` or `delete`.
        summary: the number of the memory that is the summary.
    """

    agent: str
    ids: list[int]
    originals: str
    summary: int
