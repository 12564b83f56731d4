"""Topics and patterns."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.errors import UsageError
from sim.events import matches
from sim.events.event_type import EVENT_TYPES
from sim.events.topic import check_free, check_pattern, check_topic, is_own

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


@cache
def sources() -> dict[Path, ast.Module]:
    """Return each module of the package."""
    return {
        file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(Path(sim.__file__).parent.rglob("*.py"))
    }


def test_what_the_simulation_reports_under_is_not_for_agents() -> None:
    """Every topic of an event type is refused to agents; other topics beside them are free."""
    assert {"agent.state", "action.*", "observation", "ledger.transferred", "metric.sample"} <= set(EVENT_TYPES)
    for topic in EVENT_TYPES:
        with pytest.raises(UsageError, match="is not for agents"):
            check_free(topic.replace("*", "x"))
    for topic in ("memory.lost", "message.read", "lead.created", "agents", "actions.all"):
        check_free(topic)


@pytest.mark.slow
def test_each_event_of_the_simulation_has_an_event_type() -> None:
    """No module emits or publishes under a topic that it writes as text, nor a mapping that it makes there."""
    for file, tree in sources().items():
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
                named = any(isinstance(one, ast.Dict | ast.Constant) for one in call.args[:2])
                assert call.func.attr not in ("emit", "publish", "tell") or not named, (file, call.lineno)


@pytest.mark.slow
def test_no_other_list_of_these_topics_exists() -> None:
    """What the simulation publishes is listed once; other modules name the few that they read, or ask the list."""
    for file, tree in sources().items():
        if (file.parent.name, file.name) in (("base", "words.py"), ("events", "topic.py")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                texts = [one.value for one in node.elts if isinstance(one, ast.Constant)]
                own = [text for text in texts if isinstance(text, str) and is_own(text.removesuffix(".**"))]
                assert len(own) < 6 or len(own) < len(node.elts), (file, node.lineno)
