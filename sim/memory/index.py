"""A small index of texts that is ranked by BM25, for one agent's memories or sessions.

The formula is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the
1 inside the logarithm that Lucene adds, so that no weight is negative. The weight of a word in a text is rounded to a
millionth before weights are added. So scores are whole numbers, and their sum does not depend on the order of words.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

K1: Final = 1.2
"""How soon further occurrences of a word in one text stop to matter; the default of Lucene."""

B: Final = 0.75
"""How much the length of a text matters, from 0 to 1; the default of Lucene."""

SCALE: Final = 1_000_000
"""Units of a score in one unit of BM25."""

MOST_WORDS: Final = 64
"""The most distinct words of a query that count, so that a query cannot take unlimited time."""

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, without regard to case: runs of letters, digits and underscores."""
    return _WORD.findall(text.casefold())


def weight(texts: int, containing: int, times: int, length: int, total: int) -> int:
    """Return the weight of one word in one text, in units of `SCALE`.

    Args:
        texts: the number of texts.
        containing: the number of texts with the word.
        times: how often the text has the word.
        length: the number of words of the text.
        total: the number of words of all texts.
    """
    rarity = math.log(1 + (texts - containing + 0.5) / (containing + 0.5))
    return round(SCALE * rarity * times * (K1 + 1) / (times + K1 * (1 - B + B * length * texts / total)))


class Index:
    """An inverted index of texts by number.

    A text that is added or removed changes only the entries of its own words. Texts with a word are grouped by what
    their weight depends on (how often they have it, and their length), so that a weight is computed once a group.
    """

    __slots__ = ("_containing", "_groups", "_texts", "_total")

    def __init__(self) -> None:
        self._texts: dict[int, Counter[str]] = {}
        self._groups: dict[str, dict[tuple[int, int], dict[int, None]]] = {}  # word → (times, length) → texts
        self._containing: Counter[str] = Counter()  # word → number of texts with it
        self._total = 0

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, id: int, text: str) -> None:
        """Add a text under a number that is not in use."""
        assert id not in self._texts, "a text is added once"
        words = words_of(text)
        self._texts[id] = counts = Counter(words)
        self._total += len(words)
        for word, times in counts.items():
            self._containing[word] += 1
            self._groups.setdefault(word, {}).setdefault((times, len(words)), {})[id] = None

    def remove(self, id: int) -> None:
        """Remove a text."""
        counts = self._texts.pop(id)
        length = counts.total()
        self._total -= length
        for word, times in counts.items():
            groups = self._groups[word]
            group = groups[times, length]
            del group[id]
            self._containing[word] -= 1
            if not group:
                del groups[times, length]
            if not groups:
                del self._groups[word], self._containing[word]

    def scores(self, query: str) -> dict[int, int]:
        """Return the score of each text that has a word of the query; all texts have 0 for a query without words."""
        if not _WORD.search(query):
            return dict.fromkeys(self._texts, 0)
        scores: dict[int, int] = {}
        score_of = scores.get
        for word in self._rarest(query):
            containing = self._containing[word]
            for (times, length), group in self._groups[word].items():
                worth = weight(len(self._texts), containing, times, length, self._total)
                for id in group:
                    scores[id] = score_of(id, 0) + worth
        return scores

    def search(self, query: str, limit: int, keep: Callable[[int], bool] | None = None) -> list[tuple[int, int]]:
        """Return the best (number, score), best first; of equal scores the higher number, which is the newer text.

        Args:
            query: the words to look for; a text needs one of them. Without words, the newest texts are found.
            limit: the most results.
            keep: which texts count; None: all.
        """
        best: list[tuple[int, int]] = []
        for id, score in self.scores(query).items():
            if (len(best) < limit or (score, id) > best[0]) and (keep is None or keep(id)):  # few need the slow `keep`
                heapq.heappush(best, (score, id))
                if len(best) > limit:
                    heapq.heappop(best)
        return [(id, score) for score, id in sorted(best, reverse=True)]

    def _rarest(self, query: str) -> Sequence[str]:
        """Return the distinct words of a query that occur in a text; of too many, the rarest."""
        words = [word for word in dict.fromkeys(words_of(query)) if word in self._containing]
        if len(words) > MOST_WORDS:
            words = sorted(words, key=lambda word: (self._containing[word], word))[:MOST_WORDS]
        return words
