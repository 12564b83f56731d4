"""Recall by embeddings, which a function from outside makes."""

import pytest

from sim.base.errors import UsageError
from sim.kernel import NS, sleep
from sim.memory.index import SCALE

AXES = ("lawn", "price", "roof")


class Embedder:
    """Counts words on three axes, and notes what it was asked."""

    def __init__(self, seconds=0.0):
        self.asked = []
        self.seconds = seconds

    async def __call__(self, texts):
        self.asked.append(list(texts))
        if self.seconds:
            await sleep(self.seconds)
        return [[float(text.split().count(axis)) for axis in AXES] for text in texts]


def find(book, query, embed, **filters):
    """Return (number, score) of what is found."""
    hits = book.main(book.memories.recall_by_meaning("a", query, embed, **filters))
    return [(hit.memory.id, hit.score) for hit in hits]


def test_the_nearest_is_first_and_each_text_is_embedded_once(book):
    """The cosine ranks, ties go to the newest; a second recall embeds its query and what is new only."""
    for text in ("lawn lawn", "lawn price", "roof", "lawn"):
        book.add(text)
    embed = Embedder()
    assert find(book, "lawn", embed, limit=3) == [(4, SCALE), (1, SCALE), (2, 707107)]
    book.add("roof roof")
    assert find(book, "roof", embed, limit=2) == [(5, SCALE), (3, SCALE)]
    assert embed.asked == [["lawn", "lawn lawn", "lawn price", "roof", "lawn"], ["roof", "roof roof"]]


def test_the_scores_of_all_memories_are_those_of_recall(book):
    """`relevance_by_meaning` has the score of each memory, and shares the vectors."""
    for text in ("lawn lawn", "lawn price", "roof"):
        book.add(text)
    embed = Embedder()
    found = book.main(book.memories.relevance_by_meaning("a", "lawn", embed))
    assert found == {1: SCALE, 2: 707107, 3: 0}
    assert sorted(found.items()) == sorted(find(book, "lawn", embed))
    assert embed.asked == [["lawn", "lawn lawn", "lawn price", "roof"], ["lawn"]]


def test_filters_come_before_the_embedding(book):
    """What a filter leaves out is not sent; without anything to rank, nothing is."""
    book.add("lawn", kind="context")
    book.add("lawn", expires_ns=NS)
    book.at(1)
    embed = Embedder()
    assert find(book, "lawn", embed, kind="observation") == []
    assert embed.asked == []
    assert find(book, "lawn", embed) == [(1, SCALE)]
    assert embed.asked == [["lawn", "lawn"]]


def test_what_is_forgotten_meanwhile_is_not_found(book):
    """An embedding takes time; a memory that is deleted in that time is not in the result, and leaves no vector."""
    book.add("lawn")
    book.add("lawn lawn")
    book.lab.kernel.call_at(NS, lambda: book.memories.forget("a", 1), book.lab.kernel.scenario)
    assert find(book, "lawn", Embedder(5)) == [(2, SCALE)]
    book.do(lambda: book.memories.forget("a", 2))
    assert find(book, "lawn", Embedder()) == []


def test_a_text_without_direction_is_as_far_as_an_unrelated_one(book):
    """A vector of length 0 has the score 0."""
    book.add("nothing")
    assert find(book, "lawn", Embedder()) == [(1, 0)]


@pytest.mark.parametrize("vectors", [[[1.0]], [[1.0], [1.0, 2.0]], []])
def test_wrong_vectors_are_refused(book, vectors):
    """There must be a vector for each text, all of one length; otherwise nothing is kept."""
    book.add("lawn")

    async def embed(texts):
        return vectors

    with pytest.raises(UsageError, match="an embedding of 2 texts returned"):
        find(book, "lawn", embed)
    assert find(book, "lawn", Embedder()) == [(1, SCALE)]


def test_many_texts_are_sent_in_parts(book):
    """No call has more than 128 texts."""
    for _ in range(200):
        book.add("lawn")
    embed = Embedder()
    assert len(find(book, "lawn", embed, limit=100)) == 100
    assert [len(texts) for texts in embed.asked] == [128, 73]


def test_vectors_are_no_part_of_the_state(book):
    """Recall by meaning changes no digest."""
    book.add("lawn")
    state = book.memories.state()
    find(book, "lawn", Embedder())
    assert book.memories.state() == state
