"""The scripted rules in `models` of a scenario: which requests they answer, and how."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema, model_validator

from sim.base.errors import UsageError
from sim.base.expressions import Expression
from sim.kernel import to_seconds
from sim.llm import rules
from sim.llm.names import NAMES
from sim.llm.pattern import Pattern
from sim.llm.types import ErrorClass, Role, StopReason
from sim.scenario import fields as f
from sim.scenario.scopes import Context
from sim.scenario.units import FieldError, Nanoseconds, shown, wrong_as
from sim.scenario.values import ValueTemplate
from sim.scenario.yaml_tree import Map

_PATTERNS = ("text", "system", "result")

_TEXT = {"type": "string", "description": "text; * matches any text, {name} captures a word, {name*} captures any text"}
_CALLS = {"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}, "minItems": 1}]}
_ONE_OR_MORE = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


def _pattern(value: Any) -> Pattern:
    if isinstance(value, Pattern):
        return value
    if not isinstance(value, str):
        raise FieldError(f"expected a pattern, found {shown(value)}")
    try:
        return Pattern.parse(value)
    except UsageError as error:
        raise wrong_as(error) from None


def _names(value: Any) -> tuple[str, ...]:
    """Return one text, or a list of texts, as a tuple."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(item, str) for item in listed):
        raise FieldError(f"expected text or a list of texts, found {shown(value)}")
    return tuple(listed)


def _recipients(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    return tuple(f.DeclaredName("recipient")(name, info) for name in _names(value))


def _tools(value: Any, context: Context | None) -> None:
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        if not isinstance(part, dict) or not part:
            raise FieldError(
                f"expected tools with their arguments, such as {{vote: {{choice: yes}}}}, found {shown(part)}"
            )
    for name, arguments in (item for part in parts for item in part.items()):
        f.named("tool")(name, context)
        if not isinstance(arguments, dict | str):
            raise FieldError(
                f"expected the arguments of {name} as a mapping or an expression, found {shown(arguments)}"
            )


Names = Annotated[tuple[str, ...], PlainValidator(_names), WithJsonSchema(_ONE_OR_MORE)]
"""One text, or a list of them."""

Askers = Annotated[tuple[str, ...], PlainValidator(_recipients), WithJsonSchema(_ONE_OR_MORE)]
PatternField = Annotated[Pattern, PlainValidator(_pattern), WithJsonSchema(_TEXT)]
Condition = Annotated[
    Expression, PlainValidator(f.ReadExpression("model")), WithJsonSchema({"type": ["string", "boolean"]})
]
Said = Annotated[ValueTemplate, PlainValidator(f.ReadValue("model")), WithJsonSchema({"description": "text, or ="})]
Called = Annotated[ValueTemplate, PlainValidator(f.ReadValue("model", _tools)), WithJsonSchema(_CALLS)]
Weight = Annotated[
    ValueTemplate, PlainValidator(f.ReadValue("model", f.check_number)), WithJsonSchema({"type": ["number", "string"]})
]


class Reply(f.Part):
    """One way to answer a request."""

    say: Annotated[Said | None, Field(description="the text")] = None
    call: Annotated[Called | None, Field(description="tools with their arguments, or a list of such")] = None
    fail: Annotated[ErrorClass | None, Field(description="fail in this way")] = None
    retry_after: Annotated[Nanoseconds | None, Field(description="the wait that a failure asks for")] = None
    stop: Annotated[StopReason | None, Field(description="why the answer ended")] = None
    weight: Annotated[Weight | None, Field(description="in choose: relative weight; default 1")] = None

    @model_validator(mode="after")
    def _consistent(self) -> "Reply":
        if self.fail is not None and (self.say is not None or self.call is not None or self.stop is not None):
            raise FieldError("fail excludes say, call and stop: a call that fails has no answer")
        if self.retry_after is not None and self.fail is None:
            raise FieldError("retry_after needs fail")
        return self


class ModelRule(Reply):
    """Conditions on a request, and the answer if they are met."""

    name: Annotated[str | None, Field(max_length=100, description="a name for readers")] = None
    agent: Annotated[Askers | None, Field(description="agents or groups that ask")] = None
    use: Annotated[Names | None, Field(description="what the call is for")] = None
    role: Annotated[Role | None, Field(description="of the last message")] = None
    text: Annotated[PatternField | None, Field(description="a pattern for the last message")] = None
    system: Annotated[PatternField | None, Field(description="a pattern for the system message")] = None
    result: Annotated[PatternField | None, Field(description="a pattern for the last tool result")] = None
    tool: Annotated[str | None, AfterValidator(f.DeclaredName("tool")), Field(description="a tool that is offered")] = (
        None
    )
    when: Annotated[Condition | None, Field(description="a condition")] = None
    choose: Annotated[
        tuple[Reply, ...] | None,
        Field(strict=False, min_length=1, description="several answers, one of which is drawn by weight"),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _note_kept(cls, data: Any, info: ValidationInfo) -> Any:
        """Tell the validators of expressions which names the patterns of this rule capture."""
        context = f.context_of(info)
        if context is not None and isinstance(data, Map):
            context.kept = _kept(data)
        return data

    @model_validator(mode="after")
    def _answers(self) -> "ModelRule":
        own = [name for name in ("say", "call", "fail", "stop") if getattr(self, name) is not None]
        if self.choose is not None and own:
            raise FieldError(f"choose excludes {' and '.join(own)}")
        if self.choose is None and not own:
            raise FieldError("expected say, call, fail or choose")
        if self.weight is not None:
            raise FieldError("weight belongs to a reply in choose")
        return self

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions that its expressions call."""
        values = [value for reply in self.choose or (self,) for value in (reply.say, reply.call, reply.weight) if value]
        expressions = [expression for value in values for expression in value.expressions]
        expressions += [self.when] if self.when else []
        return frozenset().union(*(expression.functions for expression in expressions))

    def made(self, number: int) -> rules.ScriptedRule:
        """Return the rule; without a name it is named by its `number`."""
        return rules.ScriptedRule(
            tuple(_scripted(reply) for reply in self.choose or (self,)),
            agents=self.agent or (),
            uses=self.use or (),
            role=self.role,
            text=self.text,
            system=self.system,
            result=self.result,
            tool=self.tool,
            when=self.when,
            name=self.name or f"models.rules[{number}]",
        )


def _scripted(reply: Reply) -> rules.Reply:
    retry_after = None if reply.retry_after is None else to_seconds(reply.retry_after)
    return rules.Reply(reply.say, reply.call, reply.fail, retry_after, reply.stop, reply.weight)


def _kept(data: Map) -> frozenset[str]:
    """Return the names that the patterns of a rule capture; malformed patterns are skipped.

    Raises:
        FieldError: if two of them capture the same name, or one a reserved name.
    """
    names: list[str] = []
    for key in _PATTERNS:
        value = data.get(key)
        if isinstance(value, str):
            try:
                names += Pattern.parse(value).names
            except UsageError:
                continue  # reported at its own place
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FieldError(f"two patterns of the rule capture {twice!r}")
    taken = next((name for name in names if name in NAMES), None)
    if taken is not None:
        raise FieldError(f"a pattern cannot capture {taken!r}: the name is reserved")
    return frozenset(names)
