"""Which memories go into a prompt, within a number of tokens."""

from collections.abc import Callable, Collection, Iterable

import attrs

from sim.memory.memory import Memory
from sim.memory.settings import MemorySettings

CountTokens = Callable[[str], int]
"""Returns the number of tokens of a text."""


@attrs.frozen
class LoadedMemories:
    """The memories for a prompt.

    Attributes:
        memories: the memories, oldest first.
        text: their lines; see `Memory.line`.
        tokens: the tokens of these lines.
        cut: how many more belong in the prompt, but did not fit.
    """

    memories: tuple[Memory, ...]
    text: str
    tokens: int
    cut: int


def belongs(memory: Memory, settings: MemorySettings, now_ns: int, active_tasks: Collection[int]) -> bool:
    """Return whether a memory belongs in the prompts of its agent.

    Those are the important ones, the recent ones, those of active tasks, and summaries.
    """
    if memory.archived or memory.expired(now_ns):
        return False
    return (
        memory.importance >= settings.important
        or memory.created_ns >= now_ns - settings.recent
        or memory.related_task_id in active_tasks
        or memory.source == "summary"
    )


def load(
    memories: Iterable[Memory],
    settings: MemorySettings,
    now_ns: int,
    count: CountTokens,
    tokens: int,
    active_tasks: Collection[int] = (),
) -> LoadedMemories:
    """Choose the memories for a prompt.

    The number of tokens decides: if those that belong in the prompt do not all fit, the least important is cut first,
    of equals the oldest. So none that is kept ranks below one that is cut. The exception is a memory that is too long
    even alone: it is cut before all others, because cutting these would not help.

    Args:
        memories: the memories of one agent.
        settings: says which belong in prompts.
        now_ns: the simulated time.
        count: counts the tokens of a text.
        tokens: the most tokens.
        active_tasks: the tasks whose memories belong in the prompt.
    """
    wanted = [memory for memory in memories if belongs(memory, settings, now_ns, active_tasks)]
    kept: list[Memory] = []
    used = 0
    for memory in sorted(wanted, key=_rank, reverse=True):
        size = count(f"{memory.line()}\n")
        if size > tokens:
            continue
        if used + size > tokens:
            break
        kept.append(memory)
        used += size
    kept.sort(key=lambda memory: memory.id)
    return LoadedMemories(tuple(kept), "\n".join(memory.line() for memory in kept), used, len(wanted) - len(kept))


def _rank(memory: Memory) -> tuple[int, int, int]:
    return memory.importance, memory.created_ns, memory.id
