"""Which outcomes an experiment can have: a misspelled name is refused before any trial, or after the first one.

Outcomes that are expressions (see `sim.agents.outcomes`) are checked before any trial. Of the others, the names of
metrics, of surveys and of what rules record are in the scenario, and the kinds of actions and the states of agents are
known. Agents in Python can record other observations; what these are called, the first trial shows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from sim.actors import AgentState
from sim.agents.outcomes import (
    COUNTS,
    MISSING,
    OF_RECORDS,
    Measurement,
    OutcomeNames,
    OutcomeSettings,
    check_names,
    is_expression,
)
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.scenario import Scenario
from sim.scenario.actions import action_kinds
from sim.scenario.outcome_names import names_of, outcomes_of
from sim.tools.rights import Kinds

if TYPE_CHECKING:
    from sim.agents.interview import Question

_MEAN: Final = "mean_"
_SHOWN: Final = 20  # names in a hint
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


@attrs.frozen
class Definition:
    """An outcome that an expression defines.

    Attributes:
        name: its name; that of an expression without a name is its text.
        value: the expression.
        label, unit, scale: how figures show it; see `OutcomeSettings`.
    """

    name: str
    value: str
    label: str = ""
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"

    @property
    def measurement(self) -> Measurement:
        """The expression, checked."""
        return Measurement.parse(self.value)

    @property
    def shown(self) -> str:
        """How figures and tables call it: its label, with its unit."""
        return f"{self.label or self.name} ({self.unit})" if self.unit else self.label or self.name


@attrs.frozen
class Chosen:
    """The outcomes that matter to an experiment: their names, and what defines those that are expressions."""

    names: tuple[str, ...]
    definitions: tuple[Definition, ...] = ()

    @property
    def read_records(self) -> bool:
        """Whether one of them reads the record of a run."""
        return any(one.measurement.uses(OF_RECORDS) for one in self.definitions)


@attrs.frozen
class KnownOutcomes:
    """What is known about the outcomes of a scenario before it runs.

    Attributes:
        own: the outcomes that the scenario defines.
        whole: whether these are all its observations; agents in Python can record others.
        asked: by question of its surveys: the outcomes for which the text of the question stands.
        named: the outcomes that its section `outcomes` names.
        names: what expressions can use, in each variant.
    """

    own: tuple[str, ...]
    whole: bool
    asked: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    named: Mapping[str, OutcomeSettings] = attrs.field(factory=dict)
    names: tuple[OutcomeNames, ...] = ()

    @classmethod
    def of(cls, scenarios: Iterable[Scenario], kinds: Kinds | None = None) -> "KnownOutcomes":
        """Return what is known about the outcomes of a scenario, or of one in several variants."""
        own: dict[str, None] = {}
        asked: dict[str, dict[str, None]] = {}
        whole = True
        named: Mapping[str, OutcomeSettings] = {}
        variants: list[OutcomeNames] = []
        for scenario in scenarios:
            named = named or outcomes_of(scenario)
            variants.append(names_of(scenario))
            own |= dict.fromkeys(scenario.metrics.values)
            rules = (rule for entry in scenario.agents for rule in entry.rules)
            own |= dict.fromkeys(f"{_MEAN}{name}" for rule in rules for name in rule.record)
            for survey, number, questions in _questions(scenario):
                names = names_of_answers(survey, number, len(questions), questions[number - 1].options)
                own |= dict.fromkeys(names)
                asked.setdefault(questions[number - 1].ask, {}).update(dict.fromkeys(names[:-1]))
            whole = whole and not kinds and all(entry.kind == "policy" for entry in scenario.agents)
        answered = {ask: tuple(outcomes) for ask, outcomes in asked.items()}
        return cls(tuple(own), whole, answered, named, tuple(variants))

    def choose(self, outcomes: Sequence[str], code: Sequence[str] = ()) -> Chosen:
        """Return the outcomes that matter; by default those that the scenario names.

        Args:
            outcomes: names of outcomes, questions of surveys, expressions, and expressions with a name, such as
                `late=mean(gini, from=200s)`.
            code: modules that the scenario may import, which can define other actions.

        Raises:
            UsageError: if the scenario cannot have one of them.
        """
        names: dict[str, None] = {}
        definitions: dict[str, Definition] = {}
        for text in dict.fromkeys(outcomes or self.named):
            definition = self._definition(text, code)
            if definition is None:
                names |= dict.fromkeys(self.check((text,), code))
                continue
            if (before := definitions.setdefault(definition.name, definition)) != definition:
                raise UsageError(f"two outcomes are called {before.name}", hint="give one of them another name")
            names[definition.name] = None
        return Chosen(tuple(names), tuple(definitions.values()))

    def _definition(self, text: str, code: Sequence[str]) -> Definition | None:
        """Return what defines an outcome; None if it has no expression."""
        if text in self.named:
            settings = self.named[text]
            definition = Definition(text, settings.value, settings.label, settings.unit, settings.scale)
        elif text in self.own or text in self.asked or not is_expression(text):
            return None
        else:
            name, separator, value = text.partition("=")
            if not (separator and _NAME.fullmatch(name.strip()) and is_expression(value)):
                name, value = "", text
            measurement = Measurement.parse(value)
            definition = Definition(name.strip() or measurement.text, measurement.text)
        for names in self.names:
            check_names(definition.measurement, names)
        counts = (call.what for call in definition.measurement.calls if not call.function)
        self.check([name for name in counts if name.startswith(COUNTS)], code)
        return definition

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
        outcomes = [name for wanted in outcomes for name in self.asked.get(wanted, (wanted,))]
        for name in outcomes:
            can_be = not (self.whole and not code) and name.startswith((_MEAN, *COUNTS))
            if name not in self.own and not (can_be or is_count(name)):
                raise _unknown(f"the scenario has no outcome {name!r}", name, (*self.named, *self.own, *self.asked))
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
    return [*([f"{base}={option}" for option in options] or [base]), f"{MISSING}{base}"]


def answers_of(surveys: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the outcomes of `RunResult.surveys`: means, shares, and numbers of missing answers."""
    outcomes: dict[str, float | None] = {}
    for row in surveys:
        if "mean" in row or "shares" in row:
            shares = row.get("shares", {})
            values = [*(shares.values() if shares else (row["mean"],)), row["missing"]]
            names = names_of_answers(row["survey"], row["number"], row["of"], shares)
            outcomes |= dict(zip(names, values, strict=True))
    return outcomes


def is_count(name: str) -> bool:
    """Return whether a name is that of a count of actions or agents."""
    done, refused, agents = COUNTS
    if name.startswith(agents):
        return name.removeprefix(agents) in tuple(AgentState)
    return name.startswith((done, refused)) and name.partition("_")[2] in action_kinds()


def _unknown(problem: str, name: str, outcomes: Sequence[str]) -> UsageError:
    counts = [f"{prefix}{kind}" for prefix in COUNTS[:2] for kind in action_kinds()]
    every = list(dict.fromkeys((*outcomes, *counts, *(f"{COUNTS[2]}{state}" for state in AgentState))))
    near = did_you_mean(name, every)
    names = list(dict.fromkeys(outcomes))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"it has {', '.join(names[:_SHOWN])}{more}; " if names else ""
    counted = "counts are done_ACTION, refused_ACTION and agents_STATE"
    return UsageError(problem, hint=near or f"{there}{counted}")
