"""The memories of one agent, with an index of their words."""

from collections.abc import Iterator

from sim.memory.index import Index
from sim.memory.memory import Memory


class AgentMemories:
    """The memories of one agent, by number.

    Attributes:
        last: the number of the newest memory; 0 before the first.
        repeats: how often a memory was added, and when last in simulated nanoseconds, by number, if it was repeated.
        vectors: embeddings of contents by number, as far as they are known.
    """

    __slots__ = ("_held", "_index", "last", "repeats", "vectors")

    def __init__(self) -> None:
        self.last = 0
        self.repeats: dict[int, tuple[int, int]] = {}
        self.vectors: dict[int, tuple[float, ...]] = {}
        self._held: dict[int, Memory] = {}
        self._index: Index | None = None  # made by the first recall, because many agents never recall

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Memory]:
        return iter(self._held.values())

    def get(self, id: int) -> Memory | None:
        """Return a memory by its number, or None."""
        return self._held.get(id)

    def put(self, memory: Memory) -> None:
        """Add a memory, or replace the one with its number, whose content is the same."""
        if self._index is not None and memory.id not in self._held:
            self._index.add(memory.id, memory.content)
        self._held[memory.id] = memory
        self.last = max(self.last, memory.id)

    def remove(self, id: int) -> None:
        """Remove a memory."""
        del self._held[id]
        self.vectors.pop(id, None)
        self.repeats.pop(id, None)
        if self._index is not None:
            self._index.remove(id)

    @property
    def index(self) -> Index:
        """The index of the contents."""
        if self._index is None:
            self._index = Index()
            for memory in self._held.values():
                self._index.add(memory.id, memory.content)
        return self._index
