"""Patterns of scripted rules: what they match, what they keep, and that their time is linear."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.llm.pattern import MAX_WORD, Pattern


@pytest.mark.parametrize(
    ("pattern", "text", "kept"),
    [
        ("rain", "Will it RAIN?", {}),
        ("rain", "sun", None),
        ("is it * or *?", "Is it warm, or cold?", {}),
        ("buy {what}", "please buy milk, now", {"what": "milk"}),
        ("buy {what}", "please buy", None),
        ("{who} says: {what*}", "And then Ann says: stay here ", {"who": "Ann", "what": "stay here"}),
        ("agent-{n}", "I am agent-12.", {"n": "12"}),
        ("{pro} for, {contra} against", "so 3 for, 2 against it", {"pro": "3", "contra": "2"}),
        ("{before*}|{after*}", "a b|c", {"before": "a b", "after": "c"}),
        ("*", "", {}),
        ("{all*}", " x ", {"all": "x"}),
        ("a*b*c", "abcb", {}),
        ("a*b*c", "acb", None),
        ("{w}x", "abcx", None),  # a word is as long as it can be
        ("É", "é", None),  # only A to Z match in either case
        ("{a} {b}", "one  two three", {"a": "two", "b": "three"}),
    ],
)
def test_what_matches_and_what_is_kept(pattern, text, kept):
    """A pattern matches anywhere; a star is any text, a name one word, a name with a star any text."""
    assert Pattern.parse(pattern).match(text) == kept


@pytest.mark.parametrize("pattern", ["", "{", "a}b", "{1x}", "{x} {x}", "{a b}"])
def test_malformed_patterns_are_refused(pattern):
    """Braces stand for names only, and a name is kept once."""
    with pytest.raises(UsageError):
        Pattern.parse(pattern)


@given(st.lists(st.text("ab", max_size=4), min_size=1, max_size=5), st.text("ab", max_size=40))
def test_stars_match_as_a_regular_expression_does(pieces, text):
    """Texts with stars between them match exactly what `.*` matches: taking the first place loses nothing."""
    pattern = "*".join(pieces) or "*"
    expected = re.search(".*".join(map(re.escape, pieces)), text, re.DOTALL) is not None
    assert (Pattern.parse(pattern).match(text) is not None) is expected


def test_a_word_has_a_greatest_length():
    """Longer runs of letters are no words, so that trying one place takes a bounded time."""
    pattern = Pattern.parse("say {word}!")
    assert pattern.match("say " + "a" * MAX_WORD + "!") is not None
    assert pattern.match("say " + "a" * (MAX_WORD + 1) + "!") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a{w}b*a{w2}c", "a" * 50),
        ("*a" * 20 + "b", "a" * 50),
        ("{w} {v} {u}!", "x y " * 13),
        ("{w}!", "ab " * 17),
        ("aaaa{w}b", "a" * 50),
    ],
)
@pytest.mark.timeout(60)
def test_time_is_linear_in_the_text(pattern, text):
    """Ten times the text takes at most forty times as long, and soon, where backtracking would take for ever."""
    parsed = Pattern.parse(pattern)

    def seconds(copies: int) -> float:
        long = text * copies
        best = 1e9
        for _ in range(3):
            started = time.process_time()
            parsed.match(long)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(1000) < 40 * max(seconds(100), 1e-4)
