"""The index ranks as plain BM25 does, whatever was added and removed before."""

import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.memory.index import K1, MOST_WORDS, SCALE, B, Index, weight, words_of

WORDS = st.sampled_from(["lead", "lawn", "Lead", "price", "late", "straße", "STRASSE", "x", "42"])
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def naive(texts: dict[int, str], query: str) -> dict[int, int]:
    """BM25 as in its definition, over all texts, without an index."""
    lists = {id: words_of(text) for id, text in texts.items()}
    total = sum(map(len, lists.values()))
    scores: Counter[int] = Counter()
    for word in set(words_of(query)):
        found = sum(word in words for words in lists.values())
        for id, words in lists.items():
            times = words.count(word)
            if times:
                rarity = math.log(1 + (len(lists) - found + 0.5) / (found + 0.5))
                length = 1 - B + B * len(words) * len(lists) / total
                scores[id] += round(SCALE * rarity * times * (K1 + 1) / (times + K1 * length))
    return dict(scores) if words_of(query) else dict.fromkeys(texts, 0)


@pytest.mark.slow
@given(st.lists(TEXTS, max_size=20), st.data(), TEXTS)
def test_the_index_equals_bm25_without_an_index(texts, data, query):
    """After any adding and removing, scores are those of BM25 computed from nothing over the remaining texts."""
    index, left = Index(), dict(enumerate(texts))
    for id, text in left.items():
        index.add(id, text)
    for id in data.draw(st.sets(st.sampled_from(range(len(texts)))) if texts else st.just(set())):
        index.remove(id)
        del left[id]
    assert index.scores(query) == naive(left, query)
    assert len(index) == len(left)
    limit = data.draw(st.integers(1, 5))
    ranked = sorted(((score, id) for id, score in naive(left, query).items()), reverse=True)
    assert index.search(query, limit) == [(id, score) for score, id in ranked[:limit]]
    even = [(id, score) for score, id in ranked if id % 2 == 0]
    assert index.search(query, limit, lambda id: id % 2 == 0) == even[:limit]


@pytest.mark.slow
@given(st.lists(TEXTS, min_size=1, max_size=8), TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_the_words_of_a_query_does_not_matter(texts, query, random):
    """A score is a sum of whole numbers, so the order and the repetition of words change nothing."""
    index = Index()
    for id, text in enumerate(texts):
        index.add(id, text)
    mixed = query.split() * 2
    random.shuffle(mixed)
    assert index.scores(" ".join(mixed)) == index.scores(query)


@pytest.mark.slow
@given(st.lists(TEXTS, max_size=10))
def test_removing_all_leaves_nothing(texts):
    """An index from which all texts were removed holds no word of them."""
    index = Index()
    for id, text in enumerate(texts):
        index.add(id, text)
    for id in range(len(texts)):
        index.remove(id)
    assert (index._groups, index._texts, +index._containing, index._total) == ({}, {}, Counter(), 0)
    assert not index._containing


def test_a_worked_example():
    """Two texts of two words each, one of which has the word once: log(1 + 1.5/1.5) times 2.2/2.2."""
    assert weight(texts=2, containing=1, times=1, length=2, total=4) == round(SCALE * math.log(2))
    assert Fraction(weight(2, 1, 1, 2, 4), SCALE) == Fraction(693147, 1_000_000)


def test_a_rare_word_counts_more_and_a_short_text_wins():
    """The rarer of two words decides; of two texts with a word, the shorter is the better."""
    index = Index()
    for id, text in enumerate(["the lawn", "the lead and the price", "the late answer of the lead", "the"]):
        index.add(id, text)
    assert [id for id, _ in index.search("the lawn", 4)] == [0, 3, 1, 2]
    assert [id for id, _ in index.search("lead", 4)] == [1, 2]


def test_equal_scores_are_ordered_newest_first():
    """Texts with the same words have the same score, and the later one is first."""
    index = Index()
    for id in (3, 1, 2):
        index.add(id, "same words")
    assert [id for id, _ in index.search("words", 2)] == [3, 2]


def test_words_are_compared_without_case():
    """Words are runs of letters, digits and underscores, compared after case folding."""
    assert words_of("Straße 42, don't: lead_id") == ["strasse", "42", "don", "t", "lead_id"]
    index = Index()
    index.add(1, "STRASSE")
    assert index.search("straße", 1)


def test_a_query_without_words_finds_the_newest_and_unknown_words_find_nothing():
    """An empty query is no filter; a query whose words nobody wrote has no result."""
    index = Index()
    for id in range(4):
        index.add(id, f"text {id}")
    assert index.search(" ?! ", 2) == [(3, 0), (2, 0)]
    assert index.search("unknown", 2) == []


def test_a_long_query_counts_its_rarest_words():
    """Of more distinct words than count, the rarest do: a long query takes bounded time and still finds."""
    index = Index()
    for id in range(3):
        index.add(id, " ".join(f"w{n}" for n in range(MOST_WORDS + 5)))
    index.add(9, "needle")
    query = " ".join([*(f"w{n}" for n in range(MOST_WORDS + 5)), "needle"])
    assert 9 in index.scores(query)
    assert len(index._rarest(query)) == MOST_WORDS
