"""The names that the outcomes of a scenario can use, and the check of its section `outcomes`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sim.agents.outcomes import Measurement, OutcomeNames, OutcomeSettings, SurveyQuestion, check_names
from sim.base.errors import Problem
from sim.base.expressions import ExpressionError
from sim.scenario.schema import Scenario
from sim.scenario.yaml_tree import Map

if TYPE_CHECKING:
    from sim.agents.measures import Measure


def outcomes_of(scenario: Scenario) -> Mapping[str, OutcomeSettings]:
    """Return the outcomes that a scenario names."""
    outcomes: Mapping[str, OutcomeSettings] = scenario.sections.get("outcomes", {})
    return outcomes


def names_of(scenario: Scenario) -> OutcomeNames:
    """Return the names that outcomes of a scenario can use."""
    entries = scenario.agents
    single = (entry.name for entry in entries)
    many = (name for entry in entries for name in entry.agent_names())
    score = scenario.sections.get("score")
    measures: Mapping[str, Measure] = {} if score is None else score.measures
    surveys = {}
    for place, entry in enumerate(scenario.interventions):
        if entry.survey is not None:
            surveys[entry.name or f"interventions[{place}]"] = tuple(
                SurveyQuestion(question.options, bool(question.scale) or question.number)
                for question in entry.survey.questions
            )
    records = [f"mean_{name}" for entry in entries for rule in entry.rules for name in rule.record]
    answers = [f"{survey}{suffix}" for survey, asked in surveys.items() for suffix in _answers(asked)]
    return OutcomeNames(
        metrics=tuple(scenario.metrics.values),
        others=(*records, *answers) if all(entry.kind == "policy" for entry in entries) else None,
        surveys=surveys,
        groups=tuple(dict.fromkeys((*single, *(entry.group_name for entry in entries), *many))),
        measures={name: measure.options for name, measure in measures.items()},
        pools={name: pool.kind for name, pool in scenario.pools.items()},
        synchronised=scenario.execution.sync is not None,
    )


def _answers(questions: Sequence[SurveyQuestion]) -> Iterator[str]:
    """Yield what follows the name of a survey in the outcomes of its questions, as far as that is a name."""
    for number, asked in enumerate(questions, 1):
        if asked.is_number:
            yield "" if len(questions) == 1 else f".{number}"


def check_outcomes(tree: Map, scenario: Scenario) -> Iterator[Problem]:
    """Yield the outcomes of a scenario that use a name which it does not have."""
    section = tree.get("outcomes")
    if not isinstance(section, Map):
        return
    names = names_of(scenario)
    for key, settings in outcomes_of(scenario).items():
        written = section[key]
        mark = written.values_at["value"] if isinstance(written, Map) else section.values_at[key]
        path = f"outcomes.{key}.value" if isinstance(written, Map) else f"outcomes.{key}"
        try:
            check_names(Measurement.parse(settings.value), names)
        except ExpressionError as error:
            yield mark.problem(f"{path}: {error}", error.hint)
