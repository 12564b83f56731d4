"""The part `models` of a scenario file: who answers what, what it costs, and which tools there are.

No key of it names an endpoint, a key or a header: these come from the operator alone. The scripted rules are in
`model_rules`, what `simulated` models are like and how models fail in `model_behaviour`.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from sim.kernel import to_text
from sim.llm.limits.retry import MOST_REQUESTS
from sim.llm.tool_calls import schema_fault
from sim.scenario import fields as f
from sim.scenario.model_behaviour import Fault, Simulated
from sim.scenario.model_rules import ModelRule, Names
from sim.scenario.units import MINUTE, FieldError, PositiveNanoseconds, shown


class Tool(f.Part):
    """A tool that models may call."""

    description: str
    parameters: Annotated[dict[f.StateKey, f.Json], Field(description="JSON Schema by parameter")] = Field(
        default_factory=dict
    )
    optional: Annotated[tuple[str, ...], Field(strict=False, description="parameters that may be left out")] = ()

    @model_validator(mode="after")
    def _known(self) -> "Tool":
        for name in self.optional:
            if name not in self.parameters:
                raise FieldError(f"optional names {name!r}, which is no parameter")
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
    """What a model costs, in units of money per million tokens."""

    input: f.NotNegative
    output: f.NotNegative
    cached: Annotated[f.NotNegative | None, Field(description="input found in a cache; default: as input")] = None
    context: Annotated[int | None, Field(ge=1, description="tokens it can read and write together")] = None


class Retry(f.Part):
    """How long and how often one call tries."""

    requests: Annotated[int, Field(ge=1, le=100, description="of a call at most, over all models of a chain")] = (
        MOST_REQUESTS
    )
    timeout: Annotated[PositiveNanoseconds, Field(description="for one request")] = 2 * MINUTE
    deadline: Annotated[PositiveNanoseconds, Field(description="for all of them and the waits between")] = 10 * MINUTE

    @model_validator(mode="after")
    def _fitting(self) -> "Retry":
        if self.timeout > self.deadline:
            raise FieldError(
                f"timeout is {to_text(self.timeout)} for one request, longer than deadline for the whole call, which is"
                f" {to_text(self.deadline)}: it would have no effect",
                f"set deadline to {to_text(self.timeout)} or more",
                ("timeout",),
            )
        return self


Tier = Annotated[str, AfterValidator(f.Refers("tier"))]
Asker = Annotated[str, AfterValidator(f.Refers("recipient"))]
UseOrAll = Annotated[str, StringConstraints(pattern=r"^(\*|[A-Za-z][A-Za-z0-9_.-]{0,63})$")]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]


class Models(f.Part):
    """The language models."""

    provider: Annotated[
        Literal["scripted", "simulated"], Field(description="who answers unless the operator says --model")
    ] = "scripted"
    max_tokens: Annotated[int, Field(ge=1, description="of an answer, unless the request says")] = 1024
    ceiling: Annotated[f.NotNegative | None, Field(description="money that the run may spend; null: any")] = None
    tiers: Annotated[dict[f.Name, Names], Field(description="a model, or a chain, the preferred first")] = Field(
        default_factory=dict
    )
    default: Annotated[Tier | None, Field(description="the tier of other uses; default: the first")] = None
    uses: Annotated[dict[f.Label, Tier], Field(description="the tier of a use")] = Field(default_factory=dict)
    agents: Annotated[
        dict[Asker, dict[UseOrAll, Tier]], Field(description="tiers by use, or *, of an agent or group")
    ] = Field(default_factory=dict)
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    retry: Retry = Retry()
    tools: dict[ToolName, Tool] = Field(default_factory=dict)
    rules: Annotated[tuple[ModelRule, ...], Field(strict=False, description="scripted answers")] = ()
    simulated: Simulated = Simulated()
    faults: Annotated[tuple[Fault, ...], Field(strict=False, description="what goes wrong, and when")] = ()
