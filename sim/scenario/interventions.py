"""The interventions of a scenario file: what is done to a run from outside at given times."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue

from sim.agents.interview import Question
from sim.base.errors import UsageError
from sim.base.expressions import Expression
from sim.events.topic import check_free, check_pattern
from sim.kernel.codec import Json
from sim.scenario import fields as f
from sim.scenario.schedule import END, Scheduled
from sim.scenario.scopes import Context
from sim.scenario.settings import read_settings, section_schema
from sim.scenario.units import FieldError, PositiveNanoseconds, shown, wrong_as

ALL = "all"

_AGENTS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
    "description": "all, or the names of agents, entries or groups",
}


def _agents(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    names = value if isinstance(value, list | tuple) else [value]
    if not names or not all(isinstance(name, str) for name in names):
        raise FieldError(f"expected all, or the names of agents, entries or groups, found {shown(value)}")
    context = f.context_of(info)
    for name in names:
        if name != ALL and context is not None:
            try:
                context.symbols.entries_of(name)
            except UsageError as error:
                raise wrong_as(error) from None
    return () if ALL in names else tuple(names)


def _free(topic: str) -> str:
    try:
        check_free(topic)
    except UsageError as error:
        raise wrong_as(error) from None
    return topic


def _pattern(pattern: str) -> str:
    try:
        check_pattern(pattern)
        check_free(pattern.replace("*", "x"))
    except UsageError as error:
        raise wrong_as(error) from None
    return pattern


Agents = Annotated[tuple[str, ...], PlainValidator(_agents), WithJsonSchema(_AGENTS)]
"""Names of agents, entries and groups; empty: all agents."""

Condition = Annotated[
    Expression,
    PlainValidator(f.ReadExpression("intervention")),
    WithJsonSchema({"type": ["string", "boolean"], "description": "an expression over each agent"}),
]


class Publication(f.Part):
    """Publish an event."""

    topic: Annotated[f.Topic, AfterValidator(_free), Field(description="the topic of the event")]
    data: Annotated[f.Json, Field(description="any value that the event carries")] = None


class Sending(f.Part):
    """Send a message to each of some agents."""

    to: Annotated[Agents | None, Field(description="default: the agents of the intervention")] = None
    topic: Annotated[str, Field(max_length=200, description="the topic of the message")] = ""
    data: Annotated[f.Json, Field(description="any value that the message carries")] = None


class Pausing(f.Part):
    """Pause agents."""

    agents: Annotated[
        Agents | None,
        Field(
            description="whom to pause: all, or names of agents, entries or groups; default: those of the intervention"
        ),
    ] = None
    for_: Annotated[
        PositiveNanoseconds | None, Field(alias="for", description="for how long; default: until `resume`")
    ] = None


class Resuming(f.Part):
    """End the pauses of agents."""

    agents: Annotated[
        Agents | None,
        Field(description="whose pauses end: all, or names of agents, entries or groups; default: as for the pause"),
    ] = None


class Catching(f.Part):
    """Which messages or published events are meant."""

    message: Annotated[str | None, Field(max_length=200, description="messages with this topic; *: all messages")] = (
        None
    )
    event: Annotated[
        Annotated[str, AfterValidator(_pattern)] | None,
        Field(description="published events whose topic matches this pattern"),
    ] = None
    from_: Annotated[
        Agents | None,
        Field(alias="from", description="only of these agents, that exist then; default: whoever sends or publishes"),
    ] = None
    to: Annotated[Agents | None, Field(description="only messages to these agents, that exist then")] = None
    count: Annotated[int | None, Field(ge=1, description="how many of them; default: all")] = None
    for_: Annotated[
        PositiveNanoseconds | None, Field(alias="for", description="for how long; default: until the end")
    ] = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Catching":
        if (self.message is None) == (self.event is None):
            raise FieldError("expected message or event, and one of them only")
        if self.event is not None and self.to is not None:
            raise FieldError("an event is published for all, so it has no `to`")
        return self


class Suppression(Catching):
    """Leave out messages or published events: they do not arrive, and their senders do not notice."""


class Replacement(Catching):
    """Give messages or published events other data."""

    data: Annotated[f.Json, Field(description="the data that they have instead")]


def _question(value: Any, info: ValidationInfo) -> Question:
    if isinstance(value, Question):
        return value
    if not isinstance(value, str):
        question: Question = read_settings(Question, value, info)
        return question
    try:
        return Question(value)
    except UsageError as error:
        raise wrong_as(error) from None


class _QuestionSchema:
    """Gives the JSON Schema of a question."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, section_schema(Question, handler)]}


QuestionField = Annotated[Question, PlainValidator(_question), _QuestionSchema()]


class Survey(f.Part):
    """Ask agents questions that they do not notice."""

    agents: Annotated[
        Agents | None,
        Field(
            description="whom to ask: all, or names of agents, entries or groups; default: those of the intervention"
        ),
    ] = None
    questions: Annotated[
        tuple[QuestionField, ...],
        Field(
            strict=False,
            min_length=1,
            max_length=100,
            description="the questions: texts, or mappings with an id and the form of the answer",
        ),
    ]


class Intervention(Scheduled):
    """Something that is done to a run from outside at given times."""

    name: Annotated[f.Label | None, Field(description="for the record; default: its number")] = None
    agents: Annotated[Agents | None, Field(description="whom it concerns; default: all")] = None
    where: Annotated[Condition | None, Field(description="only agents for which this is true")] = None
    set: Annotated[
        dict[str, f.Json] | None, Field(min_length=1, description="new values of live parameters, by their keys")
    ] = None
    publish: Publication | None = None
    send: Sending | None = None
    pause: Pausing | None = None
    resume: Resuming | None = None
    survey: Survey | None = None
    suppress: Suppression | None = None
    replace: Replacement | None = None

    verbs: ClassVar[tuple[str, ...]] = (
        "set", "publish", "send", "pause", "resume", "survey", "suppress", "replace",
    )  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _note_state(cls, data: Any, info: ValidationInfo) -> Any:
        """Tell the validator of `where` which state variables the agents can have."""
        context = f.context_of(info)
        if context is not None and isinstance(data, dict):
            context.state = frozenset(_states(data, context))
        return data

    @model_validator(mode="after")
    def _one(self) -> "Intervention":
        verbs = [name for name in self.verbs if getattr(self, name) is not None]
        if len(verbs) != 1:
            raise FieldError(f"expected one of {', '.join(self.verbs)}, found {' and '.join(verbs) or 'none'}")
        if self.at == END and verbs[0] in ("pause", "resume"):
            raise FieldError(f"agents do not act any more at the end, so {verbs[0]} would change nothing")
        if self.agents is not None and self._own_agents is not None:
            raise FieldError(f"the agents are given twice: as agents, and in {verbs[0]}")
        if self.catching is not None and (self.agents is not None or self.where is not None):
            raise FieldError(f"{verbs[0]} has no agents and no where", "say whose with from and to")
        if self.at == END and self.catching is not None:
            raise FieldError(f"nothing is sent or published after the end, so {verbs[0]} would change nothing")
        if self.publish is not None and (self.agents is not None or self.where is not None):
            raise FieldError("an event is published for all, so publish has no agents and no where")
        return self

    @property
    def verb(self) -> str:
        """What it does."""
        return next(name for name in self.verbs if getattr(self, name) is not None)

    @property
    def catching(self) -> Catching | None:
        """Which messages or events it suppresses or replaces."""
        return self.suppress or self.replace

    @property
    def selects(self) -> bool:
        """Whether it names whom it concerns."""
        return self.where is not None or self.agents is not None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The names of agents, entries and groups that it concerns; empty: all agents."""
        own = self._own_agents
        return (self.agents or ()) if own is None else own

    @property
    def _own_agents(self) -> tuple[str, ...] | None:
        """The agents that the part of the verb names."""
        if self.send is not None:
            return self.send.to
        part = self.pause or self.resume or self.survey
        return None if part is None else part.agents


def _states(data: dict[str, Json], context: Context) -> Iterator[str]:
    """Yield the state variables of the agents that an intervention names, as far as they are known."""
    parts = [data, *(part for part in data.values() if isinstance(part, dict))]
    named = [part[key] for part in parts for key in ("agents", "to") if key in part]
    names = [name for value in named for name in (value if isinstance(value, list) else [value])]
    symbols = context.symbols
    for name in [name for name in names if isinstance(name, str) and name != ALL] or symbols.entries:
        try:
            entries = symbols.entries_of(name)
        except UsageError:
            continue  # reported at its own place
        for entry in entries:
            yield from symbols.states[entry]
