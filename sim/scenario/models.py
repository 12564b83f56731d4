"""The part `models` of a scenario file: tiers, prices, tools, retries.

No key of it names an endpoint, an API key or a header: only the operator gives these. Scripted rules are in
`model_rules`, the behaviour of `simulated` models, latencies and injected failures in `model_behaviour`.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic.json_schema import JsonSchemaValue

from sim.base.expressions import did_you_mean
from sim.kernel import to_ns, to_text
from sim.llm.access import known_providers
from sim.llm.defaults import MAX_TOKENS
from sim.llm.limits.retry import RetryPolicy
from sim.scenario import fields as f
from sim.scenario.model_behaviour import Draw, Fault, Latency, Simulated
from sim.scenario.model_rules import ModelRule, Names
from sim.scenario.units import HOUR, FieldError, PositiveNanoseconds, shown
from sim.world.json_schema import schema_fault

_NO_LIMIT = 10 * 366 * 24 * HOUR


class Tool(f.Part):
    """A tool that models may call."""

    description: Annotated[str, Field(description="what it does, for models")]
    parameters: Annotated[dict[f.StateKey, f.Json], Field(description="JSON Schema by parameter")] = Field(
        default_factory=dict
    )
    optional: Annotated[tuple[str, ...], Field(strict=False, description="names of optional parameters")] = ()

    @model_validator(mode="after")
    def _checked(self) -> "Tool":
        for name in self.optional:
            if name not in self.parameters:
                raise FieldError(f"optional names {name!r}, which is not a parameter")
        for name, schema in self.parameters.items():
            if not isinstance(schema, dict):
                message = f"expected a JSON Schema such as {{type: string}}, found {shown(schema)}"
                raise FieldError(message, None, ("parameters", name))
            fault = schema_fault(schema)
            if fault is not None:
                path, message = fault
                raise FieldError(message, None, ("parameters", name, *path))
        return self


class ModelPrice(f.Part):
    """The price of a model, in units of money per million tokens."""

    input: Annotated[f.NotNegative, Field(description="money per million tokens that the model reads")]
    output: Annotated[f.NotNegative, Field(description="money per million tokens that the model writes")]
    cached: Annotated[f.NotNegative | None, Field(description="price of cached input; default: as input")] = None
    context: Annotated[int | None, Field(ge=1, description="size of its context in tokens")] = None


class Endpoint(f.Part):
    """What is special about an endpoint, and what its models can do, where it does not say so or is wrong."""

    tool_calls: Annotated[
        Literal["native", "text"],
        Field(description="text: calls that a model writes as text, such as <tool_call>, are calls as well"),
    ] = "native"
    tools: Annotated[bool | None, Field(description="whether its models can call tools; default: as it says")] = None
    json_schemas: Annotated[
        bool | None, Field(description="whether its models keep JSON Schemas; default: as it says")
    ] = None
    streams: Annotated[bool | None, Field(description="whether it can stream; default: as it says")] = None


class Ceiling(f.ShortPart):
    """What a run may spend on models at most; a call that could exceed it is not made."""

    short_form: ClassVar[JsonSchemaValue] = {"type": "number", "minimum": 0, "description": "money"}

    money: Annotated[f.NotNegative | None, Field(description="money; null: no limit")] = None
    tokens: Annotated[int | None, Field(ge=0, description="tokens, input and output together; null: no limit")] = None
    shares: Annotated[
        dict[str, f.Positive] | None,
        Field(min_length=1, description="with islands: by island, its share of the money and the tokens"),
    ] = None

    @model_validator(mode="after")
    def _divides(self) -> "Ceiling":
        if self.shares is not None and self.money is None and self.tokens is None:
            raise FieldError(
                "shares divide the money and the tokens among islands, and this ceiling has neither",
                "leave out shares, or give the ceiling `money` or `tokens`",
                ("shares",),
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Read a single number as money."""
        return {"money": data} if isinstance(data, int | float) and not isinstance(data, bool) else data


_RETRY = RetryPolicy()


class Retry(f.Part):
    """Limits of the attempts of one call."""

    requests: Annotated[int, Field(ge=1, le=100, description="most requests of one call, over its chain of models")] = (
        _RETRY.requests
    )
    timeout: Annotated[PositiveNanoseconds, Field(description="for one request")] = to_ns(_RETRY.timeout)
    deadline: Annotated[PositiveNanoseconds, Field(description="for the whole call, with all waits")] = to_ns(
        _RETRY.deadline
    )

    @model_validator(mode="after")
    def _fitting(self) -> "Retry":
        if self.timeout > self.deadline:
            raise FieldError(
                f"timeout is {to_text(self.timeout)} for one request, longer than deadline for the whole call"
                f" ({to_text(self.deadline)}): it would have no effect",
                f"set deadline to {to_text(self.timeout)} or more",
                ("timeout",),
            )
        return self


Tier = Annotated[str, AfterValidator(f.DeclaredName("tier"))]
Asker = Annotated[str, AfterValidator(f.DeclaredName("recipient"))]
UseOrAll = Annotated[str, StringConstraints(pattern=r"^(\*|[A-Za-z][A-Za-z0-9_.-]{0,63})$")]
Provider = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]


class Models(f.Part):
    """The language models."""

    provider: Annotated[
        Literal["scripted", "simulated"], Field(description="the provider, unless the operator gives --model")
    ] = "scripted"
    max_tokens: Annotated[int, Field(ge=1, description="longest answer, unless the request sets it")] = MAX_TOKENS
    ceiling: Annotated[
        Ceiling | None, Field(description="what the run may spend: money, or {money, tokens}; null: no limit")
    ] = None
    tiers: Annotated[dict[f.Name, Names], Field(description="a model, or a chain in order of preference")] = Field(
        default_factory=dict
    )
    default: Annotated[Tier | None, Field(description="the tier of all other uses; default: the first")] = None
    uses: Annotated[dict[f.Label, Tier], Field(description="the tier of a use")] = Field(default_factory=dict)
    agents: Annotated[
        dict[Asker, dict[UseOrAll, Tier]], Field(description="tiers by use, or *, of an agent or group")
    ] = Field(default_factory=dict)
    prices: Annotated[
        dict[str, ModelPrice],
        Field(description="by model (small or scripted:small): what its tokens cost; default: a list of the package"),
    ] = Field(default_factory=dict)
    endpoints: Annotated[
        dict[Provider, Endpoint], Field(description="by provider, such as openai or ollama: what is special about it")
    ] = Field(default_factory=dict)
    retry: Retry = Retry()
    latency: Annotated[
        Latency | None, Field(description="simulated time of a call to an endpoint; null: its real time")
    ] = None
    tools: Annotated[dict[ToolName, Tool], Field(description="by name: tools that models may call")] = Field(
        default_factory=dict
    )
    rules: Annotated[tuple[ModelRule, ...], Field(strict=False, description="scripted answers")] = ()
    simulated: Simulated = Simulated()
    faults: Annotated[tuple[Fault, ...], Field(strict=False, description="injected failures")] = ()

    @model_validator(mode="after")
    def _priced(self) -> "Models":
        """Check that each price is that of one model, and that a model of this provider exists."""
        seen: dict[str, str] = {}
        for name in self.prices:
            model = self._model_of(name)
            if (other := seen.setdefault(model, name)) != name:
                raise FieldError(f"the model {model!r} has two prices: {other} and {name}", None, ("prices", name))
            if model != name and name.startswith(f"{self.provider}:") and model not in self.named:
                message = f"there is no {self.provider} model {model!r:.80} in `tiers`, so its price has no effect"
                hint = did_you_mean(model, self.named) or f"there are: {', '.join(self.named)}"
                raise FieldError(message, hint, ("prices", name))
        return self

    @property
    def named(self) -> list[str]:
        """The models that the tiers name; without tiers, the only one, which has the name of the provider."""
        return list(dict.fromkeys(model for chain in self.tiers.values() for model in chain)) or [self.provider]

    @property
    def priced(self) -> dict[str, ModelPrice]:
        """The prices by name of the model alone, which a price can give with its provider, such as `scripted:small`."""
        return {self._model_of(name): price for name, price in self.prices.items()}

    def _model_of(self, name: str) -> str:
        provider, _, model = name.partition(":")
        providers = known_providers(self.endpoints)
        return model if model and provider in providers and name not in self.named else name

    def with_known_latency(self) -> "Models":
        """Return models whose simulated calls take the modelled latency of calls to endpoints, for an estimate."""
        modelled = {"first_token": self.latency, "per_token": Draw(constant=0), "server": None}
        patient = {"timeout": _NO_LIMIT, "deadline": _NO_LIMIT}  # the limits of `retry` are in real time
        return self.model_copy(
            update={
                "simulated": self.simulated.model_copy(update=modelled),
                "retry": self.retry.model_copy(update=patient),
            }
        )
