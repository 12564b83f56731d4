"""Topics and patterns.

A topic consists of words with dots in between (`lead.created`). In a pattern, `*` stands for one word, and a final `**`
for one or more words.
"""

import re
from functools import lru_cache
from typing import Final

from sim.base.errors import UsageError
from sim.base.words import EVENTS

_WORD = r"[A-Za-z0-9_-]+"
_TOPIC = re.compile(rf"{_WORD}(\.{_WORD})*")
_PATTERN = re.compile(rf"(?:{_WORD}|\*)(?:\.(?:{_WORD}|\*))*(?:\.\*\*)?|\*\*")
_LONGEST = 200


def check_topic(topic: str) -> str:
    """Check a topic and return it.

    Raises:
        UsageError: if it does not consist of words of letters, digits, `_` and `-` with dots in between.
    """
    if len(topic) > _LONGEST or not _TOPIC.fullmatch(topic):
        raise UsageError(f"{topic[:60]!r} is not a topic", hint="write dotted words, for instance lead.created")
    return topic


OWN_WORDS: Final = frozenset({
    "action", "agent", "alert", "audit", "chat", "conversation", "execution", "gate", "goals", "intervention", "model",
    "pool", "sop", "survey", "task", "user",
})  # fmt: skip
"""The words that are reserved, with all topics that begin with them."""

OWN_TOPICS: Final = frozenset(topic for topic in EVENTS if not topic.endswith("*"))
"""The topics of the events of the simulation itself, but those of actions, which others define.

Reports, metrics and views rely on them. No action of an agent may use them, because it could falsify the record.
"""

COMPLETE_TOPICS: Final = frozenset(topic for topic in OWN_TOPICS if topic.partition(".")[0] in OWN_WORDS)
"""The topics of reserved words, but of actions. A rule that waits for another one of theirs waits for ever."""


def is_own(topic: str) -> bool:
    """Return whether only the simulation itself publishes under a topic."""
    return topic in OWN_TOPICS or topic.partition(".")[0] in OWN_WORDS


def check_free(topic: str) -> None:
    """Check that an agent may publish under `topic`.

    Raises:
        UsageError: if it is not a topic, or is reserved for the simulation.
    """
    if is_own(check_topic(topic)):
        raise UsageError(
            f"{topic!r} is not for agents: the simulation itself reports under it", hint="begin with another word"
        )


@lru_cache(maxsize=4096)
def check_pattern(pattern: str) -> str:
    """Check a pattern and return it.

    Raises:
        UsageError: if it is not a topic in which whole words may be `*` and the last one may be `**`.
    """
    if len(pattern) > _LONGEST or not _PATTERN.fullmatch(pattern):
        raise UsageError(f"{pattern[:60]!r} is not a topic pattern", hint="write for instance lead.* or lead.**")
    return pattern


@lru_cache(maxsize=65536)
def matches(pattern: str, topic: str) -> bool:
    """Return whether `topic` matches `pattern`, in time linear in the number of words.

    `lead.*` matches topics with exactly one more word, `lead.**` with one or more.
    """
    wanted = pattern.split(".")
    words = topic.split(".")
    if wanted[-1] == "**":
        wanted.pop()
        if len(words) <= len(wanted):
            return False
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in zip(wanted, words, strict=True))
