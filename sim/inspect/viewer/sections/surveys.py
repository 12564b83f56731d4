"""The surveys of a run: for each question, what was answered at each time when it was asked, by all and by group."""

from collections import Counter

import attrs

from sim.agents.events import SurveyAnswered
from sim.events.coerce import figure
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.inspect.viewer.sections.outcome import uses_of
from sim.kernel.codec import JsonObject
from sim.scenario import Scenario

_QUESTIONS = 100
"""The most questions that are shown, the first."""

_TIMES = 200
"""The most times of each question that are shown, the first."""

_GROUPS = 12
"""The most groups with a row of their own; the rest is one row."""

_OPTIONS = 30
"""The most different answers of a question that are counted separately, beside those that the scenario lists."""

_LONGEST = 300
_ALL, _REST = "", "(other groups)"


@attrs.define
class _Tally:
    """Answers of a group at one time: how many, how many of them have no value, and what the others are."""

    answers: int = 0
    missing: int = 0
    chosen: Counter[str] = attrs.field(factory=Counter)
    numbers: int = 0
    total: float = 0.0


@attrs.define
class _Asked:
    """One question: its place in the survey, from 1 (0: not known), its form, and the answers by time and group."""

    survey: str
    question: str
    number: int
    options: dict[str, None]
    form: str
    times: dict[int, dict[str, _Tally]] = attrs.field(factory=dict)
    groups: dict[str, None] = attrs.field(factory=dict)
    left: int = 0  # answers at times that are not shown


class Surveys(Section):
    """Counts the answers to surveys."""

    title = "Surveys"
    place = 20
    topics = ("survey.answer",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._questions_left: dict[tuple[str, str], None] = {}
        self._forms = {} if folds.scenario is None else _forms(folds.scenario)

    def add(self, event: Event, data: Data) -> None:
        """Count an answer."""
        if not isinstance(data, SurveyAnswered):
            return
        time_ns = event.time_ns
        key = data.survey, data.question
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= _QUESTIONS:
                if len(self._questions_left) < _QUESTIONS:
                    self._questions_left[key] = None
                return
            number, options, form = self._forms.get(key, (0, (), ""))
            asked = self._asked[key] = _Asked(key[0][:80], key[1][:_LONGEST], number, dict.fromkeys(options), form)
        if time_ns not in asked.times and len(asked.times) >= _TIMES:
            asked.left += 1
            return
        tallies = asked.times.setdefault(time_ns, {_ALL: _Tally()})
        group = self.folds.groups.of(data.agent)[:80]
        if len(asked.groups) < _GROUPS:
            asked.groups[group] = None
        for name in (_ALL, group if group in asked.groups else _REST):
            _count(asked, tallies.setdefault(name, _Tally()), data)

    def to_json(self) -> Json:
        """Return the questions with the answers at each time, of all and by group; None if there are none."""
        if not self._asked:
            return None
        uses = uses_of(self.folds.scenario)
        rows: list[JsonObject] = [
            {
                "survey": asked.survey,
                "question": asked.question,
                "form": asked.form,
                "options": list(asked.options),
                "rows": list(_rows(asked)),
                "left": asked.left,
                "uses": uses.get((name, asked.number), []),
            }
            for (name, _), asked in self._asked.items()
        ]
        return {"questions": rows, "left": len(self._questions_left)}


def _forms(scenario: Scenario) -> dict[tuple[str, str], tuple[int, tuple[str, ...], str]]:
    """Return the place, the options, and the form in words of each question, by survey and question."""
    forms = {}
    for place, entry in enumerate(scenario.interventions):
        for number, asked in enumerate(() if entry.survey is None else entry.survey.questions, 1):
            form = "an option" if asked.options else "a number" if asked.number else "any text"
            if asked.scale:
                form = f"a whole number from {asked.scale[0]} to {asked.scale[1]}"
            forms[entry.name or f"interventions[{place}]", asked.ask] = (number, asked.options, form)
    return forms


def _count(asked: _Asked, tally: _Tally, data: SurveyAnswered) -> None:
    value = data.value
    tally.answers += 1
    tally.missing += data.error is not None
    if isinstance(value, str):
        option = value[:80]
        if option not in asked.options and len(asked.options) >= _OPTIONS:
            option = "(others)"
        asked.options.setdefault(option)
        tally.chosen[option] += 1
    elif (number := figure(value)) is not None:
        tally.numbers += 1
        tally.total += number


def _rows(asked: _Asked) -> list[dict[str, Json]]:
    """Return a row for all and for each group at each time; a mean of no answers is None."""
    several = len({name for tallies in asked.times.values() for name in tallies}) > 2
    return [
        {
            "time": time_ns / 1e9,
            "group": name,
            "answers": one.answers,
            "missing": one.missing,
            "counts": [one.chosen[option] for option in asked.options],
            "mean": one.total / one.numbers if one.numbers else None,
            "numbers": one.numbers,
        }
        for time_ns, tallies in asked.times.items()
        for name, one in tallies.items()
        if several or name == _ALL
    ]
