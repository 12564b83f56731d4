"""The events of generative agents."""

from collections.abc import Mapping

from sim.events.event_type import Published, event_type
from sim.kernel.codec import ABSENT, Absent


@event_type("generative.planted")
class FactPlanted(Published, frozen=True, gc=False, kw_only=True):
    """An agent has a fact among its memories at the start, whose spread is measured.

    Attributes:
        agent: who knows it.
        ask: the question of surveys that asks for it.
        fact: its name.
        memory: the number of the memory.
        words: the words that a memory must have to be evidence of it.
    """

    agent: str
    ask: str
    fact: str
    memory: int
    words: list[str]


@event_type("generative.planned")
class Planned(Published, frozen=True, gc=False, kw_only=True):
    """An agent has made a plan.

    Attributes:
        agent: the agent.
        because: why it has changed a plan; empty for the first plan of a time.
        items: the plan, a line for each item.
        level: what is planned: `day`, `hour` or `minutes`.
        surplus: how many further lines were left out, because a plan has no more than 40 items; left out if none was.
        unreadable: how many lines of the model had no readable time or no words; if all, the plan of the longer time
            counts.
    """

    agent: str
    because: str
    items: list[str]
    level: str
    surplus: int | Absent = ABSENT
    unreadable: int


@event_type("generative.activity")
class ActivityBegun(Published, frozen=True, gc=False, kw_only=True):
    """An agent does something else than before.

    Attributes:
        agent: the agent.
        doing: what it does.
        place: where it does this, or is going to.
    """

    agent: str
    doing: str
    place: str


@event_type("generative.reacted")
class Reacted(Published, frozen=True, gc=False, kw_only=True):
    """An agent has decided what to do about somebody in sight.

    Attributes:
        agent: the agent.
        choice: what it does: `talk`, `change plans` or `continue`.
        to: whom it has seen.
    """

    agent: str
    choice: str
    to: str


@event_type("generative.talked")
class Talked(Published, frozen=True, gc=False, kw_only=True):
    """Two agents have talked.

    Attributes:
        agent: who began.
        conversation: the conversation that has what was said.
        ending: why it ended: `end`, if one had nothing to add; `turns`, if the limit was reached; `error`, if no model
            gave an answer.
        to: the other.
        turns: how many times the two have spoken, in all.
    """

    agent: str
    conversation: str
    ending: str
    to: str
    turns: int


@event_type("generative.reflected")
class Reflected(Published, frozen=True, gc=False, kw_only=True):
    """An agent has drawn conclusions from its memories.

    Attributes:
        agent: the agent.
        evidence: for each new memory, by its number, the numbers of those that it follows from.
        importance: the sum of the importance of the memories since the last time.
        questions: what it asked itself.
    """

    agent: str
    evidence: Mapping[str, list[int]]
    importance: int
    questions: list[str]


@event_type("generative.missed")
class AnswerMissed(Published, frozen=True, gc=False, kw_only=True):
    """No model gave a usable answer, so an agent has done without.

    Attributes:
        agent: the agent.
        error: why.
        instead: what was done instead.
        use: what was asked for.
    """

    agent: str
    error: str
    instead: str
    use: str
