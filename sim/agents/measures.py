"""Measures of runs: what `sim score` finds out about agents, or about a whole run, by a query or by judges.

The section `score` of a scenario has them.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import attrs

from sim.agents.interview import Question
from sim.base.errors import UsageError
from sim.world.section import Range, define_section, draws_nothing

EVIDENCE: Final[Mapping[str, str]] = {
    "agent": """
        SELECT time, topic, data FROM events
        WHERE actor = :agent AND topic NOT GLOB 'agent.*' AND topic NOT GLOB 'model.*' ORDER BY id
    """,
    "run": """
        SELECT time, actor, topic, data FROM events
        WHERE topic NOT GLOB 'agent.*' AND topic NOT GLOB 'model.*' AND topic <> 'metric.sample' ORDER BY id
    """,
}
"""What judges see by default: what the agent did, or what all agents did."""


@attrs.frozen
class Measure:
    """One measure. It is given by a query, or by a question to judges, which are language models.

    Args:
        sql: a SELECT over the views of a run. For agents it returns rows of agent and value, for a run one value.
        ask: the question to the judges.
        options: the judges answer with one of these texts.
        scale: the judges answer with a whole number from the first to the second of two.
        number: whether the judges answer with a number.
        of: whether the agents are measured, or the run.
        agents: only these agents, by the names of their entries or their own; empty: all.
        judges: tiers of `models`, each of which is one judge; empty: the model of the use case `judge`.
        repeats: how often each judge is asked.
        evidence: a SELECT of what the judges see, one line for each row, with `:agent`; null: what the agent did.

    Raises:
        UsageError: if it has no query and no question, or both, or options of one with the other.
    """

    sql: str | None = None
    ask: str | None = None
    options: tuple[str, ...] = ()
    scale: tuple[int, ...] = ()
    number: bool = False
    of: Literal["agent", "run"] = "agent"
    agents: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    repeats: Annotated[int, Range(1, 100)] = 1
    evidence: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.sql is None) == (self.ask is None):
            raise UsageError("a measure has a query or a question", hint="give one of sql and ask")
        if self.sql is not None:
            if self.options or self.scale or self.number or self.judges or self.repeats > 1 or self.evidence:
                raise UsageError("a query needs no judges", hint="give sql, of and agents alone")
        elif not (self.options or self.scale or self.number):
            raise UsageError("the judges give numbers or options", hint="give one of scale, number and options")
        if self.of == "run" and self.agents:
            raise UsageError("a measure of the run has no agents", hint="leave `agents` out, or `of`")
        if self.ask is not None:
            self.question  # noqa: B018 - its own checks

    @property
    def question(self) -> Question:
        """The question to the judges."""
        return Question(self.ask or "", self.options, self.scale, self.number)

    @property
    def select(self) -> str:
        """The query of what the judges see."""
        return EVIDENCE[self.of] if self.evidence is None else self.evidence


@attrs.frozen
class ScoreSettings:
    """What `sim score` measures.

    Args:
        measures: the measures by name.
    """

    measures: Mapping[str, Measure] = attrs.field(factory=dict)


define_section("score", ScoreSettings, draws=draws_nothing)  # the record alone matters, so a world has nothing of it
