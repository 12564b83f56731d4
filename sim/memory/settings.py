"""The settings of memories: the section `memory` of a scenario."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import attrs

from sim.base.errors import UsageError
from sim.world.section import PositiveDuration, Range

HOUR_NS: Final = 3600 * 10**9
DAY_NS: Final = 24 * HOUR_NS

KINDS: Final[Mapping[str, int]] = MappingProxyType(
    {"observation": 5, "context": 6, "working_note": 4, "decision_log": 7}
)
"""The kinds of memories and their default importance: something noticed; background for decisions; a note on work in
progress; a judgment call and its reasons."""

Importance = Annotated[int, Range(1, 10)]
Count = Annotated[int, Range(1, 1_000_000)]


def _with_context(kinds: Mapping[str, int]) -> Mapping[str, int]:
    """Return the kinds with the one of summaries, which every run needs."""
    return {**kinds, **{name: KINDS[name] for name in ("context",) if name not in kinds}}


@attrs.frozen
class MemorySettings:
    """What agents remember, and how long.

    Args:
        kinds: the kinds of memories, with the importance that one has unless it is given. Kinds of agents that need
            others bring them; `context` is always one, because summaries are of this kind.
        longest: the most characters of a memory, and of the summary of a session; a longer text is refused.
        most: the most memories of one agent; more are refused until some are pruned or forgotten.
        cap: the most memories of one agent that pruning leaves, the least important go first, of these the oldest.
        tokens: the most tokens of the memories in one prompt.
        important: the importance from which on a memory belongs in every prompt and is never summarised.
        recent: the age up to which every memory belongs in prompts.
        old: the age from which on memories of little importance are summarised.
        minor: the importance below which old memories are summarised.
        batch: the fewest such memories of an agent that are summarised; fewer wait for more.
        originals: what happens to memories that were summarised: `delete`, or `archive`, which keeps them for recall.
        hits: how many results recall and the search in sessions return by default.
        session_bytes: the most bytes of the messages of one archived session, as JSON.

    Raises:
        UsageError: if the bounds contradict each other.
    """

    kinds: Mapping[str, Importance] = attrs.field(factory=lambda: dict(KINDS), converter=_with_context)
    longest: Annotated[int, Range(1, 100_000)] = 2_000
    most: Count = 10_000
    cap: Count = 100
    tokens: Count = 2_000
    important: Importance = 8
    recent: PositiveDuration = DAY_NS
    old: PositiveDuration = 7 * DAY_NS
    minor: Importance = 5
    batch: Count = 1
    originals: Literal["delete", "archive"] = "delete"
    hits: Annotated[int, Range(1, 100)] = 5
    session_bytes: Count = 1_000_000

    def __attrs_post_init__(self) -> None:
        if self.minor > self.important:
            raise UsageError(
                f"memories below importance {self.minor} are summarised, but those from {self.important} on never are",
                hint="set `minor` to at most `important`",
            )
        if self.cap > self.most:
            raise UsageError(
                f"pruning leaves {self.cap} memories, but an agent has {self.most} at most",
                hint="set `cap` to at most `most`",
            )
