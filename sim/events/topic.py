"""Topics are dotted words (`lead.created`); patterns are topics in which `*` stands for one word, `**` for any rest."""

import re
from functools import lru_cache

from sim.errors import UsageError

_WORD = r"[A-Za-z0-9_-]+"
_TOPIC = re.compile(rf"{_WORD}(\.{_WORD})*")
_PATTERN = re.compile(rf"(?:{_WORD}|\*)(?:\.(?:{_WORD}|\*))*(?:\.\*\*)?|\*\*")
_LONGEST = 200


def check_topic(topic: str) -> str:
    """Return `topic`.

    Raises:
        UsageError: if it is not dotted words of letters, digits, `_` and `-`.
    """
    if len(topic) > _LONGEST or not _TOPIC.fullmatch(topic):
        raise UsageError(f"{topic[:60]!r} is not a topic", hint="write dotted words, for instance lead.created")
    return topic


OWN_TOPICS = frozenset({
    "artifact.deleted", "artifact.invoked", "artifact.written", "ledger.transferred", "mailbox.dead_letters",
    "message.refused", "message.sent", "metric.sample", "observation", "place.entered", "task.created",
})  # fmt: skip
OWN_WORDS = frozenset({"action", "agent", "alert", "model", "pool"})
"""Topics, and first words of topics, under which the simulation itself says what happened. Reports, metrics and views
believe them, so no action of an agent may use them: it could forge the record.
"""


def check_free(topic: str) -> None:
    """Find out whether an agent may publish under `topic`.

    Raises:
        UsageError: if it is not a topic, or one of the simulation's own.
    """
    if check_topic(topic) in OWN_TOPICS or topic.partition(".")[0] in OWN_WORDS:
        raise UsageError(
            f"{topic!r} is not for agents: the simulation itself reports under it", hint="begin with another word"
        )


def check_pattern(pattern: str) -> str:
    """Return `pattern`.

    Raises:
        UsageError: if it is no topic in which whole words may be `*` and the end may be `**`.
    """
    if len(pattern) > _LONGEST or not _PATTERN.fullmatch(pattern):
        raise UsageError(f"{pattern[:60]!r} is not a topic pattern", hint="write for instance lead.* or lead.**")
    return pattern


@lru_cache(maxsize=65536)
def matches(pattern: str, topic: str) -> bool:
    """Whether `topic` is one of those that `pattern` stands for.

    `lead.*` matches what has exactly one more word, `lead.**` one or more. Linear in the number of words.
    """
    wanted = pattern.split(".")
    words = topic.split(".")
    if wanted[-1] == "**":
        wanted.pop()
        if len(words) <= len(wanted):
            return False
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in zip(wanted, words, strict=True))
