"""The settings of generative agents: the section `generative` of a scenario."""

from collections.abc import Mapping
from typing import Annotated, Literal

import attrs

from sim.base.errors import UsageError
from sim.kernel import NS
from sim.kinds.town.trace import DAY_NS, STEP_NS
from sim.world.section import Duration, PositiveDuration, Range, Recipient

Variant = Literal["paper", "code"]
"""Which scores of memories: those of the paper, or those of the released code."""


@attrs.frozen
class Fact:
    """Something that one agent knows at the start, whose spread is measured.

    Args:
        agent: who knows it.
        text: what it remembers.
        words: the words that a memory must contain, in upper or lower case, to be evidence that its agent knows this.
        ask: the question of a survey, with the options yes and no, that asks for it.
        importance: of this memory, from 1 to 10.

    Raises:
        UsageError: if there are no words, or the text itself lacks one of them.
    """

    agent: Recipient
    text: str
    words: tuple[str, ...]
    ask: str
    importance: Annotated[int, Range(1, 10)] = 8

    def __attrs_post_init__(self) -> None:
        if not self.words:
            raise UsageError("words: without words, every memory would be evidence", hint="words: [mayor]")
        lacking = next((word for word in self.words if word.casefold() not in self.text.casefold()), None)
        if lacking is not None:
            raise UsageError(f"words: the text itself lacks {lacking!r:.60}", hint="use words of the text")


@attrs.frozen
class GenerativeSettings:
    """The town of generative agents, and how they remember.

    Args:
        begins: the time of day at which the run begins.
        look: the time between two looks around, a multiple of 10 s; the paper has 10 s.
        attention: how many of the agents in sight it notices at most, the nearest first.
        retention: how many of its latest observations it does not make again.
        variant: `paper`: recency falls by a factor for each hour since a memory was recalled, and the three scores have
            equal weights. `code`: as in the released code, by a factor for each rank, the memory that was recalled
            longest ago first, and with the weights 0.5, 3 and 2 of recency, relevance and importance.
        relevance: `words`: by BM25. `embeddings`: by the angle between embeddings, which need a model for them.
        recalled: the most memories that a recall returns.
        reflects: the sum of the importance of new memories above which an agent reflects.
        turns: the most turns of a talk, those of both speakers together.
        again: how long the same two agents begin no other talk; the released code has 800 steps.
        facts: what some agents know at the start, by name.
    """

    begins: Duration = 0
    look: PositiveDuration = 300 * NS
    attention: Annotated[int, Range(1, 100)] = 3
    retention: Annotated[int, Range(0, 1000)] = 5
    variant: Variant = "paper"
    relevance: Literal["words", "embeddings"] = "words"
    recalled: Annotated[int, Range(1, 100)] = 30
    reflects: Annotated[int, Range(1, 1_000_000)] = 150
    turns: Annotated[int, Range(1, 100)] = 8
    again: PositiveDuration = 8000 * NS
    facts: Mapping[str, Fact] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.look % STEP_NS or DAY_NS % self.look:
            hint = "for example 10s, 1m, 5m or 10m"
            raise UsageError("look: it is a multiple of 10s that divides a day", hint=hint)
        if self.begins % self.look or self.begins >= DAY_NS:
            raise UsageError("begins: it is a multiple of `look` below 24h", hint="begins: 6h")
