"""Topics and patterns."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.errors import UsageError
from sim.events import matches
from sim.events.topic import check_free, check_pattern, check_topic

TABLE = [
    ("lead.created", "lead.created", True),
    ("lead.created", "lead.create", False),
    ("lead.*", "lead.created", True),
    ("lead.*", "lead", False),
    ("lead.*", "lead.created.late", False),
    ("lead.*", "leads.created", False),
    ("*", "lead", True),
    ("*", "lead.created", False),
    ("*.created", "lead.created", True),
    ("*.*", "lead.created", True),
    ("lead.*.late", "lead.created.late", True),
    ("lead.*.late", "lead.created.early", False),
    ("lead.**", "lead.created", True),
    ("lead.**", "lead.created.late", True),
    ("lead.**", "lead", False),
    ("**", "lead", True),
    ("**", "lead.created.late", True),
    ("*.**", "lead.created", True),
    ("*.**", "lead", False),
]


@pytest.mark.parametrize(("pattern", "topic", "expected"), TABLE)
def test_table(pattern: str, topic: str, expected: bool) -> None:
    """`*` stands for one word, a final `**` for one or more."""
    assert matches(check_pattern(pattern), check_topic(topic)) is expected


words = st.sampled_from(["a", "b", "ab", "a-b", "A_1"])
topics = st.lists(words, min_size=1, max_size=5).map(".".join)
patterns = st.builds(
    lambda parts, rest: ".".join([*parts, *(["**"] if rest or not parts else [])]),
    st.lists(words | st.just("*"), max_size=4),
    st.booleans(),
)


@given(patterns, topics)
def test_against_a_regular_expression(pattern: str, topic: str) -> None:
    """Matching agrees with the same pattern written as a regular expression."""
    word = r"[^.]+"
    parts = [rf"{word}(\.{word})*" if p == "**" else word if p == "*" else re.escape(p) for p in pattern.split(".")]
    assert matches(pattern, topic) == bool(re.fullmatch(r"\.".join(parts), topic))


@pytest.mark.parametrize("bad", ["", ".", "a.", ".a", "a..b", "a b", "a.*", "**", "ä", "a/b", "x" * 201, "a\n"])
def test_bad_topics(bad: str) -> None:
    """A topic is dotted words of letters, digits, `_` and `-`, of at most 200 characters."""
    with pytest.raises(UsageError, match="is not a topic"):
        check_topic(bad)


@pytest.mark.parametrize("bad", ["", "a.", "***", "**.a", "a.**.b", "a*", "*a", "a b", "x" * 201, "*\n"])
def test_bad_patterns(bad: str) -> None:
    """In a pattern only whole words may be `*`, and only the end `**`."""
    with pytest.raises(UsageError, match="is not a topic pattern"):
        check_pattern(bad)


def emitted() -> set[str]:
    """Return the topics, or their beginnings, under which the sources of the simulation emit and publish."""
    found = set[str]()
    for file in Path(sim.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
                topic = call.args[0].values[0] if isinstance(call.args[0], ast.JoinedStr) else call.args[0]
                if call.func.attr in ("emit", "publish", "tell") and isinstance(topic, ast.Constant):
                    found.add(str(topic.value))
    return found


def test_what_the_simulation_reports_under_is_not_for_agents() -> None:
    """Every topic that the simulation itself emits is refused to agents; other topics beside them are free."""
    topics = emitted()
    assert {"agent.state", "action.", "observation", "ledger.transferred", "metric.sample"} <= topics
    for topic in topics:
        with pytest.raises(UsageError, match="is not for agents"):
            check_free(f"{topic}x" if topic.endswith(".") else topic)
    for topic in ("memory.lost", "message.read", "lead.created", "agents", "actions.all"):
        check_free(topic)
