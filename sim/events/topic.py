"""Topics and patterns.

A topic consists of words with dots in between (`lead.created`). In a pattern, `*` stands for one word, and a final `**`
for one or more words.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sim.base.errors import UsageError

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


_WHOLE: Final[Mapping[str, tuple[str, ...]]] = {
    "action": (), "agent": (), "alert": (), "audit": (), "gate": (), "goals": (), "intervention": (), "model": (),
    "pool": (), "sop": (), "survey": (), "task": (), "user": (),
    "chat": ("budget_opened", "budget_reset", "file", "job", "location", "response", "tokens"),
    "conversation": (
        "message", "removed", "revised", "session_ended", "started", "summarized", "summary_failed", "withheld",
    ),
    "execution": (
        "added", "approved", "confidence", "denied", "ended", "escalated", "file", "resumed", "retry", "returned",
        "started", "step",
    ),
}  # fmt: skip
"""The words that are reserved with all topics that begin with them. If topics follow, these are all that there are."""

_SINGLE: Final[Mapping[str, tuple[str, ...]]] = {
    "artifact": ("deleted", "invoked", "written"),
    "channel": ("post",),
    "event": ("suppressed",),
    "ledger": ("transferred",),
    "mailbox": ("dead_letters",),
    "memory": ("added", "forgotten", "pruned", "repeated", "summarised"),
    "message": ("refused", "sent", "suppressed"),
    "metric": ("sample",),
    "observation": ("",),
    "place": ("entered",),
    "session": ("archived",),
    "state": ("sample",),
}
"""The words of which only these topics are reserved; an empty one is the word itself."""


def _topics(of: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(f"{word}.{rest}".removesuffix(".") for word, own in of.items() for rest in own)


OWN_WORDS: Final = frozenset(_WHOLE)
"""The words that are reserved, with all topics that begin with them."""

COMPLETE_TOPICS: Final = _topics(_WHOLE)
"""The topics of reserved words of which all are known. A rule that waits for another one of theirs waits for ever."""

OWN_TOPICS: Final = COMPLETE_TOPICS | _topics(_SINGLE)
"""The topics that are listed one by one, of those that the simulation itself publishes.

Reports, metrics and views rely on them. No action of an agent may use them, because it could falsify the record.
"""


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
