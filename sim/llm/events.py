"""The events of model calls."""

from sim.events.event_type import EventData, event_type
from sim.kernel.codec import ABSENT, Absent, JsonObject


@event_type("model.attempt")
class ModelAttempted(EventData, frozen=True, gc=False, kw_only=True):
    """One attempt to get an answer from one model. What is not known is left out.

    Attributes:
        detail: what went wrong.
        model: the model.
        number: its number in the call, from 1.
        outcome: `ok`, or a class of error.
        provider: the provider.
        seconds: how long it took, in real seconds.
        usage: the tokens: `input_tokens`, `output_tokens`, `cached_tokens`, `reasoning_tokens` above 0, and whether
            they are `estimated`.
        waited: how long was waited after it, in real seconds.
    """

    detail: str | Absent = ABSENT
    model: str
    number: int
    outcome: str
    provider: str
    seconds: float | Absent = ABSENT
    usage: JsonObject | Absent = ABSENT
    waited: float | Absent = ABSENT


@event_type("model.call")
class ModelCalled(EventData, frozen=True, gc=False, kw_only=True):
    """A call of a model has ended. What is not known is left out.

    Attributes:
        attempts: the number of requests.
        cached_tokens: the input tokens that were read from a cache of the provider.
        cost_micro: what it cost, in millionths of the unit of money.
        effect: the number of the effect that made it, among those of its actor; missing of models in the run itself.
        effect_of: the actor of the effect, if it is not the agent.
        error: why it failed, if it did: a class of error.
        estimated: whether the tokens are estimated.
        fallbacks: why models were passed over, of a call that succeeded.
        group: the group of the agent.
        input_tokens: the tokens of the request.
        message: the text of the error.
        model: the model.
        output_tokens: the tokens of the answer.
        planned_cost_micro: what it could cost at most, in millionths of the unit of money.
        planned_tokens: the tokens that it could use at most.
        provider: the provider.
        reasoning_tokens: the tokens of the answer in which the model thought, if above 0.
        seconds: how long it took, in simulated seconds.
        stop: why the answer ended.
        tier: the tier that was asked for; null: none.
        use: what the call was for.
    """

    attempts: int
    cached_tokens: int | Absent = ABSENT
    cost_micro: int
    effect: int | Absent = ABSENT
    effect_of: str | Absent = ABSENT
    error: str | Absent = ABSENT
    estimated: bool | Absent = ABSENT
    fallbacks: list[str] | Absent = ABSENT
    group: str
    input_tokens: int | Absent = ABSENT
    message: str | Absent = ABSENT
    model: str
    output_tokens: int | Absent = ABSENT
    planned_cost_micro: int
    planned_tokens: int
    provider: str
    reasoning_tokens: int | Absent = ABSENT
    seconds: float
    stop: str | Absent = ABSENT
    tier: str | None
    use: str
