"""The events of interviews."""

from sim.events.event_type import EventData, event_type
from sim.record.views import VIEWS, view_of


@event_type("survey.answer")
class SurveyAnswered(EventData, frozen=True, gc=False, kw_only=True):
    """An agent was asked a question of a survey.

    Attributes:
        agent: the agent.
        answer: the text of the model; null if no model answered.
        cost_micro: what the answer cost, in millionths of the unit of money.
        error: why there is no answer, or no value; null if nothing is missing.
        model: the model that answered; empty if none did.
        question: the question.
        survey: the name of the survey.
        tokens: the tokens that the answer took.
        value: the option or the number in the answer; null if the question asks for none, or the text has none.
    """

    agent: str
    answer: str | None
    cost_micro: int
    error: str | None
    model: str
    question: str
    survey: str
    tokens: int
    value: str | int | float | None


VIEWS["surveys"] = view_of(
    SurveyAnswered,
    "One row an answer of an interview.",
    {
        "name": "$survey", "agent": "$agent", "question": "$question", "answer": "$answer",
        "option": "iif(json_type(data, '$.value') = 'text', $value, NULL)",
        "value": "iif(json_type(data, '$.value') IN ('integer', 'real'), $value, NULL)",
        "error": "$error", "model": "$model", "tokens": "$tokens", "cost": "$cost_micro / 1e6",
    },
)  # fmt: skip
