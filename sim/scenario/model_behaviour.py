"""Behaviour of `simulated` models, the latency of endpoints, and injected failures: parts of `models` in a scenario."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from sim.base.errors import UsageError
from sim.kernel import to_ns, to_seconds
from sim.llm import behaviour
from sim.llm.behaviour import FaultKind
from sim.llm.types import ErrorClass
from sim.scenario import fields as f
from sim.scenario.units import DURATION_SCHEMA, FieldError, Nanoseconds, PositiveNanoseconds, duration, wrong_as

_FAULT = behaviour.Fault("server")  # its kind has no default
_SERVER = behaviour.ServerSpec()
_SOON = behaviour.Failure("server", 0).after
_AFTER = f"seconds until the failure shows; default {_SOON.a:g}"

Share = Annotated[float, Field(ge=0, le=1)]


class Draw(f.ShortPart):
    """A distribution; exactly one of its keys."""

    short_form: ClassVar[JsonSchemaValue] = {"type": "number", "minimum": 0, "description": "a constant"}

    constant: Annotated[f.NotNegative | None, Field(description="always this number")] = None
    uniform: Annotated[tuple[f.NotNegative, f.NotNegative] | None, Field(strict=False, description="low, high")] = None
    exponential: Annotated[f.NotNegative | None, Field(description="mean")] = None
    lognormal: Annotated[
        tuple[f.NotNegative, f.NotNegative] | None, Field(strict=False, description="median, 95th percentile")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Read a single number as a constant."""
        if isinstance(data, int | float) and not isinstance(data, bool):
            return {"constant": data}
        return data

    @model_validator(mode="after")
    def _one(self) -> "Draw":
        forms = [name for name in Draw.model_fields if getattr(self, name) is not None]
        if len(forms) != 1:
            named = " and ".join(forms) or "none"
            raise FieldError(f"expected exactly one of {', '.join(Draw.model_fields)}, found {named}")
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise FieldError("expected [low, high] with low at most high")
        if self.lognormal is not None and not 0 < self.lognormal[0] <= self.lognormal[1]:
            raise FieldError("expected [median, p95] with 0 < median <= p95")
        return self

    def made(self) -> behaviour.Draw:
        """Return the distribution."""
        kind = next(name for name in Draw.model_fields if getattr(self, name) is not None)
        value = getattr(self, kind)
        return behaviour.Draw(kind, *value) if isinstance(value, tuple) else behaviour.Draw(kind, value)  # type: ignore[arg-type]


class Latency(Draw):
    """Simulated time that a call to an endpoint takes: a duration, or a distribution of seconds."""

    short_form: ClassVar[JsonSchemaValue] = DURATION_SCHEMA

    @model_validator(mode="before")
    @classmethod
    def _duration(cls, data: Any) -> Any:
        """Read a text as a constant duration."""
        return {"constant": to_seconds(duration(data))} if isinstance(data, str) else data


class Failure(f.Part):
    """One way in which simulated calls fail."""

    kind: Annotated[ErrorClass, Field(description="the error that the call ends with")]
    share: Annotated[Share, Field(description="of all calls")]
    after: Annotated[Draw | None, Field(description=_AFTER)] = None
    retry_after: Annotated[Nanoseconds | None, Field(description="the wait that the endpoint asks for")] = None

    def made(self) -> behaviour.Failure:
        """Return the failure."""
        after = {} if self.after is None else {"after": self.after.made()}
        return behaviour.Failure(self.kind, self.share, retry_after=_seconds(self.retry_after), **after)


class Server(f.Part):
    """A simulated server. The defaults are round figures for an 8-billion model on one large GPU."""

    replicas: Annotated[int, Field(ge=1, le=10_000, description="machines")] = _SERVER.replicas
    slots: Annotated[int, Field(ge=1, le=10_000, description="calls that one machine handles at once")] = _SERVER.slots
    prefill_rate: Annotated[f.Positive, Field(description="tokens per second that a machine reads")] = (
        _SERVER.prefill_rate
    )
    decode_rate: Annotated[f.Positive, Field(description="tokens per second that it writes for a single call")] = (
        _SERVER.decode_rate
    )
    decode_total: Annotated[
        f.Positive | None, Field(description="tokens per second for all its calls together; null: no limit")
    ] = _SERVER.decode_total
    queue: Annotated[int | None, Field(ge=0, description="calls that may wait; null: no limit")] = None
    context: Annotated[int | None, Field(ge=1, description="tokens that one call may have")] = None
    requests_per_minute: Annotated[f.Positive | None, Field(description="what is let in")] = None
    tokens_per_minute: Annotated[f.Positive | None, Field(description="the same for tokens")] = None

    def made(self) -> behaviour.ServerSpec:
        """Return the specification."""
        return behaviour.ServerSpec(**self.model_dump())


class Simulated(f.Part):
    """Behaviour of calls of `simulated` models: drawn times, or a simulated server."""

    first_token: Annotated[Draw | None, Field(description="seconds until the answer begins")] = None
    per_token: Annotated[Draw | None, Field(description="seconds for each token of the answer")] = None
    output_tokens: Annotated[
        Draw | Literal["requested"] | None,
        Field(description="length of answers; null: the length of the text; requested: the longest allowed"),
    ] = None
    failures: Annotated[
        tuple[Failure, ...],
        Field(strict=False, description="ways in which simulated calls fail, each with its share of the calls"),
    ] = ()
    server: Annotated[Server | None, Field(description="replaces the drawn times")] = None

    @model_validator(mode="after")
    def _sound(self) -> "Simulated":
        try:
            self.profile()
        except UsageError as error:
            raise wrong_as(error) from None
        return self

    def profile(self) -> behaviour.Profile:
        """Return the profile of calls, without the server."""
        draws = {name: getattr(self, name) for name in ("first_token", "per_token", "output_tokens")}
        arguments = {name: draw.made() if isinstance(draw, Draw) else draw for name, draw in draws.items() if draw}
        return behaviour.Profile(failures=tuple(failure.made() for failure in self.failures), **arguments)


class Fault(f.Part):
    """One injected failure of model calls, for every provider."""

    kind: Annotated[
        FaultKind,
        Field(description="what happens to the calls: rate_limit, hang (no answer ever arrives), slow, truncate, ..."),
    ]
    share: Annotated[float, Field(gt=0, le=1, description="share of the calls while it is active")] = _FAULT.share
    start: Annotated[Nanoseconds, Field(description="when it begins")] = to_ns(_FAULT.start)
    end: Annotated[PositiveNanoseconds | None, Field(description="when it ends; null: never")] = None
    every: Annotated[PositiveNanoseconds | None, Field(description="time from one burst to the next")] = None
    lasting: Annotated[PositiveNanoseconds | None, Field(description="length of a burst")] = None
    models: Annotated[tuple[str, ...], Field(strict=False, description="the models that it affects; default: all")] = ()
    retry_after: Annotated[Nanoseconds | None, Field(description="the wait that the endpoint asks for")] = None
    seconds: Annotated[Nanoseconds | None, Field(description="until it shows, breaks (hang) or is complete (slow)")] = (
        None
    )

    @model_validator(mode="after")
    def _sound(self) -> "Fault":
        try:
            self.made()
        except UsageError as error:
            raise wrong_as(error) from None
        return self

    def made(self) -> behaviour.Fault:
        """Return the fault."""
        times = {name: getattr(self, name) for name in ("start", "end", "every", "lasting", "retry_after", "seconds")}
        in_seconds = {name: to_seconds(time) for name, time in times.items() if time is not None}
        return behaviour.Fault(self.kind, self.share, models=self.models, **in_seconds)


def _seconds(time: int | None) -> float | None:
    return None if time is None else to_seconds(time)
