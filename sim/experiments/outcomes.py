"""Which outcomes an experiment can have: a misspelled name is refused before any trial, or after the first one.

The names of metrics, of surveys and of what rules record are in the scenario, and the kinds of actions and the states
of agents are known. Agents in Python can record other observations; what these are called, the first trial shows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.actors import AgentState
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.scenario import Scenario
from sim.scenario.actions import action_kinds
from sim.tools.rights import Kinds

if TYPE_CHECKING:
    from sim.agents.interview import Question

COUNTS: Final = ("done_", "refused_", "agents_")
"""How the names of counts begin. A count that a trial does not have is 0."""

_MEAN: Final = "mean_"
_MISSING: Final = "missing_"
_SHOWN: Final = 20  # names in a hint


@attrs.frozen
class KnownOutcomes:
    """What is known about the outcomes of a scenario before it runs.

    Attributes:
        own: the outcomes that the scenario defines.
        whole: whether these are all its observations; agents in Python can record others.
        asked: by question of its surveys: the outcomes for which the text of the question stands.
    """

    own: tuple[str, ...]
    whole: bool
    asked: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, scenarios: Iterable[Scenario], kinds: Kinds | None = None) -> "KnownOutcomes":
        """Return what is known about the outcomes of a scenario, or of one in several variants."""
        own: dict[str, None] = {}
        asked: dict[str, dict[str, None]] = {}
        whole = True
        for scenario in scenarios:
            own |= dict.fromkeys(scenario.metrics.values)
            rules = (rule for entry in scenario.agents for rule in entry.rules)
            own |= dict.fromkeys(f"{_MEAN}{name}" for rule in rules for name in rule.record)
            for survey, number, questions in _questions(scenario):
                names = names_of_answers(survey, number, len(questions), questions[number - 1].options)
                own |= dict.fromkeys(names)
                asked.setdefault(questions[number - 1].ask, {}).update(dict.fromkeys(names[:-1]))
            whole = whole and not kinds and all(entry.kind == "policy" for entry in scenario.agents)
        return cls(tuple(own), whole, {ask: tuple(names) for ask, names in asked.items()})

    def check(self, outcomes: Sequence[str], code: Sequence[str] = ()) -> tuple[str, ...]:
        """Check the names of outcomes before the first trial.

        Args:
            outcomes: their names, or questions of surveys.
            code: modules that the scenario may import, which can define other actions.

        Returns:
            The names, with those of its answers instead of a question.

        Raises:
            UsageError: if the scenario cannot have one of them.
        """
        outcomes = [name for given in outcomes for name in self.asked.get(given, (given,))]
        for name in outcomes:
            can_be = not (self.whole and not code) and name.startswith((_MEAN, *COUNTS))
            if name not in self.own and not (can_be or is_count(name)):
                raise _unknown(f"the scenario has no outcome {name!r}", name, (*self.own, *self.asked))
        return tuple(dict.fromkeys(outcomes))

    def check_first(self, outcomes: Sequence[str], measured: Mapping[str, float | None]) -> None:
        """Check the names of outcomes after the first trial.

        Args:
            outcomes: their names.
            measured: the outcomes of the trial.

        Raises:
            UsageError: if the trial does not have one of them, and the scenario does not define it. What is defined may
                have no value in a trial, and a count that is missing is 0.
        """
        for name in outcomes:
            if name not in measured and name not in self.own and not is_count(name):
                raise _unknown(f"the first trial has no outcome {name!r}", name, (*self.own, *measured))


def _questions(scenario: Scenario) -> Iterator[tuple[str, int, Sequence["Question"]]]:
    """Yield the surveys of a scenario: the name, the place of a question in it, from 1, and all its questions."""
    for place, entry in enumerate(scenario.interventions):
        questions = () if entry.survey is None else entry.survey.questions
        for number, question in enumerate(questions, 1):
            if question.options or question.scale or question.number:
                yield entry.name or f"interventions[{place}]", number, questions


def names_of_answers(survey: str, number: int, of: int, options: Iterable[str]) -> list[str]:
    """Return the names of the outcomes of a question of a survey: its mean or its shares, then its missing answers.

    Args:
        survey: the name of the survey.
        number: the place of the question in it, from 1.
        of: how many questions it has.
        options: the options; none for a question whose answer is a number.
    """
    base = survey if of == 1 else f"{survey}.{number}"
    return [*([f"{base}={option}" for option in options] or [base]), f"{_MISSING}{base}"]


def answers_of(surveys: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the outcomes of `RunResult.surveys`: means, shares, and numbers of missing answers."""
    found: dict[str, float | None] = {}
    for row in surveys:
        if "mean" in row or "shares" in row:
            shares = row.get("shares", {})
            values = [*(shares.values() if shares else (row["mean"],)), row["missing"]]
            names = names_of_answers(row["survey"], row["number"], row["of"], shares)
            found |= dict(zip(names, values, strict=True))
    return found


def is_count(name: str) -> bool:
    """Return whether a name is that of a count of actions or agents."""
    done, refused, agents = COUNTS
    if name.startswith(agents):
        return name.removeprefix(agents) in tuple(AgentState)
    return name.startswith((done, refused)) and name.partition("_")[2] in action_kinds()


def _unknown(problem: str, name: str, known: Sequence[str]) -> UsageError:
    counts = [f"{prefix}{kind}" for prefix in COUNTS[:2] for kind in action_kinds()]
    every = list(dict.fromkeys((*known, *counts, *(f"{COUNTS[2]}{state}" for state in AgentState))))
    near = did_you_mean(name, every)
    names = list(dict.fromkeys(known))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"it has {', '.join(names[:_SHOWN])}{more}; " if names else ""
    counted = "counts are done_ACTION, refused_ACTION and agents_STATE"
    return UsageError(problem, hint=near or f"{there}{counted}")
