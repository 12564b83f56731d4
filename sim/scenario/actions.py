"""The actions of rules: how a scenario file writes them, and the records that they are read into.

The model of each kind is derived from its definition (`sim.world.action`). Only `sleep` is written differently: its
argument is a condition, whose parts take the place of arguments.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

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

from sim.actors.wake import CONDITIONS
from sim.base.expressions import Expression, did_you_mean
from sim.scenario import fields as f
from sim.scenario.meanings import FIELDS
from sim.scenario.sleep import SleepPart, SleepSpec, sleep_model
from sim.scenario.units import FieldError, shown
from sim.scenario.values import Filter, ValueTemplate
from sim.scenario.yaml_tree import Map
from sim.world.action import DEFINED, ActionHandler


@attrs.frozen
class Do:
    """One action of a rule.

    Attributes:
        kind: the kind of action.
        arguments: the given arguments by name. Empty for `sleep`.
        sleep: the wake condition, for `sleep` only.
    """

    kind: str
    arguments: Mapping[str, ValueTemplate] = attrs.field(factory=dict)
    sleep: SleepSpec | None = None


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
        read, field = FIELDS[argument.meaning], Field(description=argument.description)
        fields[argument.name] = Annotated[read, field] if argument.required else (Annotated[read | None, field], None)
    model = create_model(handler.kind, __base__=_Arguments, __doc__=handler.summary, **fields)
    model.either = handler.either
    return model


def _model(kinds: tuple[str, ...]) -> type[f.Part]:
    """Return the model of one action: its kind and its arguments."""
    applied = tuple(DEFINED[kind].apply for kind in kinds)  # a kind can be defined twice, in different definitions
    return _made_model(kinds, applied, tuple(CONDITIONS))


@cache
def _made_model(kinds: tuple[str, ...], applied: tuple[Any, ...], conditions: tuple[str, ...]) -> type[f.Part]:
    fields: dict[str, Any] = {
        kind: ((sleep_model() if kind == "sleep" else _arguments_of(DEFINED[kind])) | None, None) for kind in kinds
    }
    summary = "One action: its kind and its arguments."
    model: type[f.Part] = create_model("action", __base__=f.Part, __doc__=summary, **fields)
    return model


def action_kinds() -> tuple[str, ...]:
    """Return every kind of action that has been defined, also by a host program."""
    return tuple(DEFINED)


def _spread(raw: Any) -> Any:
    """Return short forms such as `noop` and `{stop: }` in the full form, with positions."""
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
    spread = _spread(raw)
    kind = next(iter(spread))
    kinds = (kind,) if kind in DEFINED else action_kinds()  # a file uses a few kinds, and each model takes time to make
    actions = _model(kinds).model_validate(spread, context=info.context)
    chosen = getattr(actions, kind)
    if isinstance(chosen, SleepPart):
        return Do(kind, {}, chosen.spec())
    arguments = ((name, getattr(chosen, name)) for name in type(chosen).model_fields)
    return Do(kind, {name: _value(value) for name, value in arguments if value is not None})


def _value(value: Any) -> Any:
    return Filter(value, frozenset({"item"})) if isinstance(value, Expression) else value


def action_kind(value: str) -> str:
    """Return the name of a kind of action; a validator.

    Raises:
        FieldError: if there is no such kind.
    """
    if value not in DEFINED:
        raise FieldError(f"there is no action {value[:80]!r}", did_you_mean(value, DEFINED))
    return value


class _ActionSchema:
    """Gives the JSON Schema of one action, for all kinds that are defined at the time of the call."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        kinds = action_kinds()
        one_of: Any = _model(kinds) | Literal[kinds]
        return handler(TypeAdapter(one_of).core_schema)


_One = Annotated[Do, PlainValidator(_do), _ActionSchema()]


def _listed(raw: Any) -> Any:
    return raw if isinstance(raw, list | tuple) else [raw]


def _in_order(actions: tuple[Do, ...]) -> tuple[Do, ...]:
    for number, action in enumerate(actions[:-1]):
        if DEFINED[action.kind].last and not (action.kind == "stop" and "agent" in action.arguments):
            raise FieldError(f"{action.kind} must be the last action, but is number {number + 1} of {len(actions)}")
    return actions


_MOST = 20

DoField = Annotated[
    tuple[_One, ...],
    Field(strict=False, min_length=1, max_length=_MOST),
    AfterValidator(_in_order),
    BeforeValidator(
        _listed, json_schema_input_type=_One | Annotated[list[_One], Field(min_length=1, max_length=_MOST)]
    ),
]
"""One action or a list: `{kind: arguments}` or only the kind in the file, `Do` in the model."""
