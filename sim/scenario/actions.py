"""What a rule may do: how a scenario file gives the arguments of actions, and the records that they become.

The model of each kind is derived from its definition (`sim.world.action`). `sleep` alone is written otherwise: its
argument is a condition, whose parts stand in the place of arguments.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

import attrs
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    TypeAdapter,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from sim.actors.actions import rest, sleep, spawn, stop
from sim.expressions import Expression, did_you_mean
from sim.llm.ask import ask
from sim.scenario import fields as f
from sim.scenario.units import FieldError, shown
from sim.scenario.values import Filter, ValueTemplate
from sim.scenario.yaml_tree import Map
from sim.world.action import DEFINED, ActionHandler, Meaning

_OF_HIGHER_LAYERS = (ask, rest, sleep, spawn, stop)  # named here, so that they are defined beside those of the world

SleepKind = Literal["time", "until", "event", "resource", "message", "any", "all"]


@attrs.frozen
class SleepSpec:
    """What an agent sleeps for.

    Attributes:
        kind: what ends the sleep.
        time: `time`: how long; `until`: the moment. Seconds or duration text when evaluated, else None.
        pattern: `event`: the topics, as text when evaluated.
        where: `event`: which events of these topics, or None for all.
        resource: `resource`: its name.
        at_least: `resource`: how much of it must be left.
        parts: `any` and `all`: the conditions.
        timeout: after how long the sleep ends anyway (seconds or duration text), or None.
    """

    kind: SleepKind
    time: ValueTemplate | None = None
    pattern: ValueTemplate | None = None
    where: Expression | None = None
    resource: str | None = None
    at_least: ValueTemplate | None = None
    parts: "tuple[SleepSpec, ...]" = ()
    timeout: ValueTemplate | None = None


@attrs.frozen
class Do:
    """One action of a rule.

    Attributes:
        kind: which action.
        arguments: its arguments as given; absent ones are not in it. Empty for `sleep`.
        sleep: what to sleep for, only for `sleep`.
    """

    kind: str
    arguments: Mapping[str, ValueTemplate] = attrs.field(factory=dict)
    sleep: SleepSpec | None = None


class _Sleep(f.Part):
    """Sleep until something happens; exactly one of for, until, event, resource, message, any, all."""

    for_: Annotated[f.TimeValue | None, Field(alias="for", description="how long")] = None
    until: Annotated[f.TimeValue | None, Field(description="a moment, counted from the start of the run")] = None
    event: Annotated[f.PatternValue | None, Field(description="topics, for instance rain.*")] = None
    where: Annotated[f.Where | None, Field(description="which of these events")] = None
    resource: Annotated[f.Limit | None, Field(description="a rate limit")] = None
    at_least: Annotated[f.NumberValue | None, Field(description="how much of it must be left")] = None
    message: Annotated[Literal[True] | None, Field(description="a message")] = None
    any: "Annotated[tuple[_Sleep, ...] | None, Field(strict=False, min_length=1)]" = None
    all: "Annotated[tuple[_Sleep, ...] | None, Field(strict=False, min_length=1)]" = None
    timeout: Annotated[f.TimeValue | None, Field(description="after how long to wake anyway")] = None

    @model_validator(mode="after")
    def _one(self) -> "_Sleep":
        heads = [name for name in _HEADS if getattr(self, name) is not None]
        if len(heads) != 1:
            found = " and ".join(name.rstrip("_") for name in heads) or "none"
            raise FieldError(f"expected exactly one of {', '.join(_HEADS.values())}, found {found}")
        if self.where is not None and self.event is None:
            raise FieldError("where goes together with event")
        if (self.at_least is None) != (self.resource is None):
            raise FieldError("resource and at_least go together")
        return self

    def spec(self) -> SleepSpec:
        """Return the condition as a record."""
        head = next(name for name in _HEADS if getattr(self, name) is not None)
        return SleepSpec(
            kind="time" if head == "for_" else head,  # type: ignore[arg-type]  # the other names are the kinds
            time=self.for_ or self.until,
            pattern=self.event,
            where=self.where,
            resource=self.resource,
            at_least=self.at_least,
            parts=tuple(part.spec() for part in self.any or self.all or ()),
            timeout=self.timeout,
        )


_HEADS = {name: name.rstrip("_") for name in ("for_", "until", "event", "resource", "message", "any", "all")}


_FIELDS: Final[Mapping[Meaning, Any]] = {
    "account": f.AccountValue,
    "answer schema": f.SchemaValue,
    "artifact": f.ArtifactValue,
    "audience": f.AudienceValue,
    "entry": f.EntryValue,
    "extra body": f.ExtraBodyValue,
    "formula": f.FormulaValue,
    "history": f.HistoryValue,
    "item filter": f.ItemFilter,
    "mapping": f.MappingValue,
    "number": f.NumberValue,
    "pattern": f.PatternValue,
    "place": f.PlaceValue,
    "recipient": f.RecipientValue,
    "slots": f.SlotsValue,
    "stock": f.StockValue,
    "text": f.TextValue,
    "tier": f.TierValue,
    "time": f.TimeValue,
    "tools": f.ToolsValue,
    "topic": f.TopicValue,
    "value": f.Value,
}
"""How a scenario file reads an argument, by what it means."""

if missing := set(get_args(Meaning)).difference(_FIELDS):
    raise AssertionError(f"no field reads arguments that mean {', '.join(sorted(missing))}")


class _Arguments(f.Part):
    """The arguments of an action."""

    either: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.either and sum(getattr(self, name) is not None for name in self.either) != 1:
            raise FieldError("expected either " + " or ".join(f"{name} ({what})" for name, what in self.either.items()))
        return self


def _arguments_of(handler: ActionHandler) -> type[_Arguments]:
    """Return the model of the arguments that a rule gives to a kind of action."""
    fields: dict[str, Any] = {}
    for argument in handler.arguments():
        read, told = _FIELDS[argument.meaning], Field(description=argument.description)
        fields[argument.name] = Annotated[read, told] if argument.required else (Annotated[read | None, told], None)
    model = create_model(handler.kind, __base__=_Arguments, __doc__=handler.summary, **fields)
    model.either = handler.either
    return model


@cache
def _model(kinds: tuple[str, ...]) -> type[f.Part]:
    """Return the model of one action: its kind and its arguments."""
    fields: dict[str, Any] = {
        kind: ((_Sleep if kind == "sleep" else _arguments_of(DEFINED[kind])) | None, None) for kind in kinds
    }
    told = "One action: its kind and its arguments."
    model: type[f.Part] = create_model("action", __base__=f.Part, __doc__=told, **fields)
    return model


def action_kinds() -> tuple[str, ...]:
    """Return every kind of action that has been defined, also by a host program."""
    return tuple(DEFINED)


def _spread(raw: Any) -> Any:
    """Return `noop` and `{stop: }` in the full form, with the position kept."""
    if isinstance(raw, str):
        return {action_kind(raw): {}}
    if not isinstance(raw, dict):
        raise FieldError(f"expected an action such as noop or {{send: ...}}, found {shown(raw)}")
    if len(raw) != 1:
        raise FieldError(f"expected one action, found {', '.join(map(str, raw)) or 'none'}")
    kind, arguments = next(iter(raw.items()))
    if arguments is None:
        return {kind: {}}
    if isinstance(raw, Map):
        raw.allowed = action_kinds()
    return raw


def _do(raw: Any, info: ValidationInfo) -> Do:
    kinds = action_kinds()
    actions = _model(kinds).model_validate(_spread(raw), context=info.context)
    kind = next(name for name in kinds if getattr(actions, name) is not None)
    chosen = getattr(actions, kind)
    if isinstance(chosen, _Sleep):
        return Do(kind, {}, chosen.spec())
    given = ((name, getattr(chosen, name)) for name in type(chosen).model_fields)
    return Do(kind, {name: _value(value) for name, value in given if value is not None})


def _value(value: Any) -> Any:
    return Filter(value, frozenset({"item"})) if isinstance(value, Expression) else value


def action_kind(value: str) -> str:
    """Check the name of a kind of action; for validators."""
    if value not in DEFINED:
        raise FieldError(f"there is no action {value[:80]!r}", did_you_mean(value, DEFINED))
    return value


class _ActionSchema:
    """Gives the JSON Schema of one action: that of the kinds that are defined when it is asked for."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        kinds = action_kinds()
        one_of: Any = _model(kinds) | Literal[kinds]
        return handler(TypeAdapter(one_of).core_schema)


_One = Annotated[Do, PlainValidator(_do), _ActionSchema()]


def _listed(raw: Any) -> Any:
    return raw if isinstance(raw, list | tuple) else [raw]


def _in_order(actions: tuple[Do, ...]) -> tuple[Do, ...]:
    for number, action in enumerate(actions[:-1]):
        if action.kind in _LAST:
            raise FieldError(f"{action.kind} must be the last action, and it is number {number + 1} of {len(actions)}")
    return actions


_LAST = ("sleep", "rest", "stop")
_MOST = 20

DoField = Annotated[
    tuple[_One, ...],
    Field(strict=False, min_length=1, max_length=_MOST),
    AfterValidator(_in_order),
    BeforeValidator(
        _listed, json_schema_input_type=_One | Annotated[list[_One], Field(min_length=1, max_length=_MOST)]
    ),
]
"""Actions in order, or one: `{kind: arguments}` or a bare kind in the file, `Do` in the model."""
