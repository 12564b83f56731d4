"""The service behaves as a plain list of memories, for any sequence of calls."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sim.memory import Memory
from sim.memory.index import Index
from sim.memory.settings import DAY_NS
from tests.memory.conftest import Book

AGENTS = st.sampled_from(["a", "b"])
WORDS = st.sampled_from(["lawn", "price", "roof", "late"])
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


async def join(agent: str, memories: Any) -> str:
    """A summary that has all words."""
    return " ".join(memory.content for memory in memories)


class Memorise(RuleBasedStateMachine):
    """Adds, forgets, prunes and recalls, beside a list of what should be there."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Book(cap=6, originals="archive")
        self.known: dict[tuple[str, int], Memory] = {}
        self.day = 0

    @rule(agent=AGENTS, text=TEXTS, importance=st.integers(1, 10), days=st.none() | st.integers(0, 20))
    def add(self, agent: str, text: str, importance: int, days: int | None) -> None:
        """Add a memory."""
        expires = None if days is None else (self.day + days) * DAY_NS
        memory = self.book.add(text, agent, importance=importance, expires_ns=expires)
        assert (agent, memory.id) not in self.known
        self.known[agent, memory.id] = memory

    @rule(days=st.integers(1, 9))
    def wait(self, days: int) -> None:
        """Let days pass."""
        self.day += days
        self.book.at(24 * self.day)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """Forget one of the memories."""
        if self.known:
            agent, id = data.draw(st.sampled_from(sorted(self.known)))
            assert self.book.do(lambda: self.book.memories.forget(agent, id)) == self.known.pop((agent, id))

    @rule(works=st.booleans())
    def prune(self, works: bool) -> None:
        """Prune, with or without a summariser; take over what is left."""
        before = len(self.known)
        report = self.book.main(self.book.memories.prune(join if works else None))
        left = {(m.agent, m.id): m for agent in "ab" for m in self.book.memories.all(agent)}
        assert {memory.source for key, memory in left.items() if key not in self.known} <= {"summary"}
        assert len(left) == before - report.expired - report.capped + report.summaries
        assert all(memory.importance < 5 for memory in left.values() if memory.archived)
        self.known = left

    @rule(agent=AGENTS, query=TEXTS)
    def recall(self, agent: str, query: str) -> None:
        """Find the same as an index that was made just now."""
        fresh = Index()
        for (owner, id), memory in self.known.items():
            if owner == agent:
                fresh.add(id, memory.content)
        now = self.book.lab.kernel.now
        wanted = fresh.search(query, 3, lambda id: not self.known[agent, id].expired(now))
        hits = self.book.memories.recall(agent, query, limit=3)
        assert [(hit.memory.id, hit.score) for hit in hits] == wanted
        assert [hit.memory for hit in hits] == [self.known[agent, id] for id, _ in wanted]

    @invariant()
    def holds_what_is_known(self) -> None:
        """Nothing else is held, and the count is right."""
        now = self.book.lab.kernel.now
        found = {(m.agent, m.id): m for agent in "ab" for m in self.book.memories.all(agent)}
        assert found == {key: m for key, m in self.known.items() if not m.expired(now)}
        assert self.book.memories.metrics()["held"] == len(self.known)


Memorise.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


TestMemorise = pytest.mark.slow(Memorise.TestCase)
