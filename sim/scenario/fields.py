"""Types of fields that several models share. Validation also checks the names that a field refers to."""

import ast
import json
import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, Literal

import attrs
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from sim.base.errors import UsageError
from sim.base.expressions import Expression, ExpressionError, did_you_mean
from sim.base.permissions import Permission
from sim.events.topic import check_free, check_pattern
from sim.scenario.scopes import RESERVED, Context, Place, functions_of
from sim.scenario.symbols import Kind
from sim.scenario.units import FieldError, duration, shown, wrong_as
from sim.scenario.values import PartError, ValueTemplate, compile_value, is_expression
from sim.scenario.yaml_tree import Map
from sim.world.artifact import access_hint

_ANY = {"description": "a value; text that starts with = is an expression"}
_EXPRESSION = {"type": ["string", "boolean"], "description": "an expression"}
_NUMBER = {
    "type": ["number", "string"],
    "description": "a number, or an expression (text that starts with =)",
}
_WHOLE_NUMBER = {
    "type": ["integer", "string"],
    "description": "a whole number, or an expression (text that starts with =)",
}
_FLAG = {"type": ["boolean", "string"], "description": "true, false or an expression (text that starts with =)"}
_TEXT = {"type": "string", "description": "text, or an expression (text that starts with =)"}
_TIME = {
    "type": ["number", "string"],
    "description": "seconds, text such as 5m, or an expression giving seconds",
}


class Part(BaseModel):
    """A mapping in a scenario file: strict types, no unknown keys, immutable."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _note_keys(cls, data: Any) -> Any:
        """Store the allowed keys in the mapping, so that an error can suggest the nearest one."""
        if isinstance(data, Map):
            data.allowed = tuple(field.alias or name for name, field in cls.model_fields.items())
        return data


class ShortPart(Part):
    """A mapping that can be written shorter, as a value that stands for one of its keys."""

    short_form: ClassVar[JsonSchemaValue]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> JsonSchemaValue:
        return {"anyOf": [cls.short_form, handler(schema)]}


def context_of(info: ValidationInfo) -> Context | None:
    """Return the names that the file declares, or None if a model is made without a file."""
    return info.context if isinstance(info.context, Context) else None


_FORMULA: Final = re.compile(r"[A-Za-z]\w*\(| (?:[-+*/%<>]|[=!<>]=|//|and|or|in) |\w[+*/]\w")
"""What is in a text that may be a call of a function or an operation; a hyphen within a word is not."""


@attrs.frozen
class ReadExpression:
    """Reads a text that is always an expression; the leading = is optional."""

    place: Place

    def __call__(self, value: Any, info: ValidationInfo) -> Expression:
        """Return the expression; see PlainValidator."""
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(value, str):
            raise FieldError(f"expected an expression, found {shown(value)}")
        try:
            expression = Expression.parse(value[1:] if is_expression(value) else value)
            if context := context_of(info):
                context.check(self.place, expression)
        except UsageError as error:
            raise wrong_as(error) from None
        return expression


@attrs.frozen
class ReadValue:
    """Reads a value that is literal or contains expressions; `literal` checks a literal value."""

    place: Place
    literal: Callable[[Any, Context | None], None] | None = None

    def __call__(self, value: Any, info: ValidationInfo) -> ValueTemplate:
        """Return the value; see PlainValidator."""
        context = context_of(info)
        try:
            compiled = compile_value(value, self._check(context), lambda text: self._refuse_formula(text, context))
            if compiled.constant and self.literal is not None:
                self.literal(compiled.raw, context)
        except PartError as error:
            raise wrong_as(error, error.path) from None
        except UsageError as error:
            raise wrong_as(error) from None
        if self.literal is not None and not compiled.constant and compiled.expression is None:
            self.literal(compiled.raw, context)
        return compiled

    def _refuse_formula(self, text: str, context: Context | None) -> None:
        """Refuse a text that must be an expression, as `uniform(0, 1)` or `n + 1`: a `=` before it is missing.

        That is the call of a function, or an operation on names that all exist here.

        Raises:
            ExpressionError: if it is one.
        """
        if not _FORMULA.search(text):
            return
        try:
            expression = Expression.parse(text)
            tree = expression.tree
            if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
                meant = tree.func.id in functions_of(self.place)
            else:
                meant = context is not None and self._is_operation(expression, context)
        except UsageError:
            return
        if meant:
            raise ExpressionError(
                f"{shown(text)} would stay a text, because a `=` before it is missing",
                hint=f"put `=` before it: {json.dumps(f'={text}')}; or, to mean the text: {json.dumps(f'={text!r}')}",
            )

    def _is_operation(self, expression: Expression, context: Context) -> bool:
        """Return whether an expression computes something from names that exist here; raise if one of them does not."""
        if not expression.names or not isinstance(expression.tree, ast.BinOp | ast.BoolOp | ast.Compare):
            return False
        context.check(self.place, expression)
        return True

    def _check(self, context: Context | None) -> Callable[[Expression], None] | None:
        return None if context is None else lambda expression: context.check(self.place, expression)


def check_number(value: Any, context: Context | None) -> None:
    """Check that a literal is a number from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(f"expected a number or an expression, found {shown(value)}")
    if value < 0:
        raise FieldError(f"expected a number of at least 0, found {value}")


def _whole_number(value: Any, context: Context | None) -> None:
    check_number(value, context)
    if not isinstance(value, int):
        raise FieldError(f"expected a whole number or an expression, found {value}")


def _flag(value: Any, context: Context | None) -> None:
    if not isinstance(value, bool):
        raise FieldError(f"expected true, false or an expression, found {shown(value)}")


def _text(value: Any, context: Context | None) -> None:
    if not isinstance(value, str):
        raise FieldError(f"expected text or an expression, found {shown(value)}")


def _time(value: Any, context: Context | None) -> None:
    duration(value)


def _mapping(value: Any, context: Context | None) -> None:
    if not isinstance(value, dict):
        raise FieldError(f"expected a mapping or an expression, found {shown(value)}")


def _place(value: Any, context: Context | None) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise FieldError(f"expected the name of a place or an expression, found {shown(value)}")
    if isinstance(value, str) or context is None or not 0 <= value < len(context.symbols.places or ()):
        _refer("place", str(value), context)


def _refer(kind: Kind, value: str, context: Context | None) -> None:
    if context is None:
        return
    try:
        context.symbols.require(kind, value)
    except UsageError as error:
        raise wrong_as(error) from None


def named(kind: Kind) -> Callable[[Any, Context | None], None]:
    """Return a check that a literal value is a declared name of this kind."""

    def check(value: Any, context: Context | None) -> None:
        _text(value, context)
        _refer(kind, value, context)

    return check


@attrs.frozen
class DeclaredName:
    """Checks that a text is a declared name of this kind."""

    kind: Kind

    def __call__(self, value: str, info: ValidationInfo) -> str:
        """Return the text; see AfterValidator."""
        _refer(self.kind, value, context_of(info))
        return value


def _tools(value: Any, context: Context | None) -> None:
    if not isinstance(value, list):
        raise FieldError(f"expected a list of tools or an expression, found {shown(value)}")
    for name in value:
        if not is_expression(name):
            named("tool")(name, context)


def _answer_schema(value: Any, context: Context | None) -> None:
    from sim.llm.answers import answer_schema_fault  # the import is slow

    fault = answer_schema_fault(value)
    if fault is not None:
        raise FieldError(fault[1], None, fault[0])


def _extra_body(value: Any, context: Context | None) -> None:
    from sim.llm.answers import extra_body_fault  # the import is slow

    fault = extra_body_fault(value)
    if fault is not None:
        raise FieldError(fault)


def _history(value: Any, context: Context | None) -> None:
    _text(value, context)
    if context is not None and value not in context.state:
        raise FieldError(f"the agent has no state {value!r} for a history", did_you_mean(value, context.state))


def _pattern(value: str) -> str:
    try:
        return check_pattern(value)
    except UsageError as error:
        raise wrong_as(error) from None


def _free_topic(value: Any, context: Context | None) -> None:
    _text(value, context)
    check_free(value)


def _pattern_value(value: Any, context: Context | None) -> None:
    _text(value, context)
    _pattern(value)


def _state_key(value: str) -> str:
    if value in RESERVED:
        raise FieldError(f"the name {value!r} is reserved in expressions; choose another name")
    return value


def _declared_state(value: str, info: ValidationInfo) -> str:
    context = context_of(info)
    if context is not None and value not in context.state:
        raise FieldError(f"the agent has no state {value!r} to set", did_you_mean(value, context.state))
    return value


def _let_key(value: str, info: ValidationInfo) -> str:
    context = context_of(info)
    if context is not None and value in context.state:
        raise FieldError(f"the agent has a state variable {value!r} already; choose another name")
    return _state_key(value)


LEVELS: Final = [level.name.lower() for level in Permission]
"""The names of the levels of trust."""


def _permission(value: Any) -> Permission:
    if isinstance(value, Permission):
        return value
    try:
        return Permission.parse(value if isinstance(value, str) else str(value))
    except UsageError as error:
        raise wrong_as(error) from None


Audience = Literal["all", "owner"] | tuple[str, ...]
"""Who has access to an artifact: all, its owner, or the listed agents and groups."""


def _audience(value: Any, info: ValidationInfo) -> Audience:
    if value in ("all", "owner"):
        return "all" if value == "all" else "owner"
    _listed(value, context_of(info), evaluated=False)
    return tuple(value)


def _audience_value(value: Any, context: Context | None) -> None:
    if value not in ("all", "owner"):
        _listed(value, context, evaluated=True)


def _listed(value: Any, context: Context | None, *, evaluated: bool) -> None:
    """Check that a value is a list of agents and groups; where it is evaluated, expressions in it are checked then."""
    if not isinstance(value, list | tuple):
        message = f"expected all, owner or a list of agents and groups, found {shown(value)}"
        raise FieldError(message, access_hint(value))
    for name in value:
        if not isinstance(name, str):
            raise FieldError(f"expected a list of names of agents and groups, found {shown(name)} in it")
        if evaluated and is_expression(name):
            continue
        try:
            _refer("recipient", name, context)
        except FieldError as error:
            others = [""] * (len(value) - 1)  # they count, and are not read: an agent may be named `all` or `me`
            raise FieldError(str(error), access_hint([name, *others]) or error.hint) from None


def _formula(value: Any, info: ValidationInfo) -> Expression:
    return ReadExpression("formula")(value, info)


def _formula_value(value: Any, info: ValidationInfo) -> ValueTemplate:
    """Check a formula given to an action; it stays text, because it is evaluated at each invocation."""
    return ValueTemplate(_formula(value, info).text, True)


def plain(value: Any) -> Any:
    """Return a tree as ordinary dicts and lists."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
"""Name of an agent, group, account, pool, artifact or resource."""
StateKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$"), AfterValidator(_state_key)]
LetKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$"), AfterValidator(_let_key)]
SetKey = Annotated[str, AfterValidator(_declared_state)]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
Topic = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=200)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Resource = Annotated[str, AfterValidator(DeclaredName("resource"))]
Limit = Annotated[str, AfterValidator(DeclaredName("limit"))]
Json = Annotated[Any, PlainValidator(plain), WithJsonSchema({"description": "any value"})]
Level = Annotated[
    Permission,
    PlainValidator(_permission),
    WithJsonSchema({"enum": LEVELS}),
]
Readers = Annotated[
    Audience,
    PlainValidator(_audience),
    WithJsonSchema({"anyOf": [{"enum": ["all", "owner"]}, {"type": "array", "items": {"type": "string"}}]}),
]

Condition = Annotated[Expression, PlainValidator(ReadExpression("agent")), WithJsonSchema(_EXPRESSION)]
WorldExpression = Annotated[Expression, PlainValidator(ReadExpression("world")), WithJsonSchema(_EXPRESSION)]
Where = Annotated[Expression, PlainValidator(ReadExpression("where")), WithJsonSchema(_EXPRESSION)]
PropertyExpression = Annotated[Expression, PlainValidator(ReadExpression("property")), WithJsonSchema(_EXPRESSION)]
OccurrenceFilter = Annotated[Expression, PlainValidator(ReadExpression("occurrence")), WithJsonSchema(_EXPRESSION)]
AnswerFilter = Annotated[Expression, PlainValidator(ReadExpression("answer")), WithJsonSchema(_EXPRESSION)]
WorkCondition = Annotated[Expression, PlainValidator(ReadExpression("work")), WithJsonSchema(_EXPRESSION)]
WorkValue = Annotated[ValueTemplate, PlainValidator(ReadValue("work")), WithJsonSchema(_ANY)]
CallCondition = Annotated[Expression, PlainValidator(ReadExpression("call")), WithJsonSchema(_EXPRESSION)]
ItemFilter = Annotated[Expression, PlainValidator(ReadExpression("item")), WithJsonSchema(_EXPRESSION)]
Formula = Annotated[Expression, PlainValidator(_formula), WithJsonSchema(_EXPRESSION)]
ToolFormula = Annotated[Expression, PlainValidator(ReadExpression("tool")), WithJsonSchema(_EXPRESSION)]

Value = Annotated[ValueTemplate, PlainValidator(ReadValue("agent")), WithJsonSchema(_ANY)]
NumberValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", check_number)), WithJsonSchema(_NUMBER)]
WholeNumberValue = Annotated[
    ValueTemplate, PlainValidator(ReadValue("agent", _whole_number)), WithJsonSchema(_WHOLE_NUMBER)
]
FlagValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _flag)), WithJsonSchema(_FLAG)]
TextValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _text)), WithJsonSchema(_TEXT)]
TopicValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _free_topic)), WithJsonSchema(_TEXT)]
PatternValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _pattern_value)), WithJsonSchema(_TEXT)]
TimeValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _time)), WithJsonSchema(_TIME)]
MappingValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _mapping)), WithJsonSchema(_ANY)]
AudienceValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _audience_value)), WithJsonSchema(_ANY)]
FormulaValue = Annotated[ValueTemplate, PlainValidator(_formula_value), WithJsonSchema(_EXPRESSION)]
PlaceValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _place)), WithJsonSchema(_ANY)]
RecipientValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", named("recipient"))), WithJsonSchema(_TEXT)]
AccountValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", named("account"))), WithJsonSchema(_TEXT)]
ArtifactValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", named("artifact"))), WithJsonSchema(_TEXT)]
EntryValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", named("entry"))), WithJsonSchema(_TEXT)]
SlotsValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", named("slots"))), WithJsonSchema(_TEXT)]
StockValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", named("stock"))), WithJsonSchema(_TEXT)]
TierValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", named("tier"))), WithJsonSchema(_TEXT)]
ToolsValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _tools)), WithJsonSchema(_ANY)]
SchemaValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _answer_schema)), WithJsonSchema(_ANY)]
ExtraBodyValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _extra_body)), WithJsonSchema(_ANY)]
HistoryValue = Annotated[ValueTemplate, PlainValidator(ReadValue("agent", _history)), WithJsonSchema(_TEXT)]

StartValue = Annotated[ValueTemplate, PlainValidator(ReadValue("entry")), WithJsonSchema(_ANY)]
StartTime = Annotated[ValueTemplate, PlainValidator(ReadValue("entry", _time)), WithJsonSchema(_TIME)]
StartNumber = Annotated[ValueTemplate, PlainValidator(ReadValue("entry", check_number)), WithJsonSchema(_NUMBER)]
StartPlace = Annotated[ValueTemplate, PlainValidator(ReadValue("entry", _place)), WithJsonSchema(_ANY)]
PlaceNumber = Annotated[ValueTemplate, PlainValidator(ReadValue("place", check_number)), WithJsonSchema(_NUMBER)]
SiteValue = Annotated[ValueTemplate, PlainValidator(ReadValue("site")), WithJsonSchema(_ANY)]
SiteCondition = Annotated[Expression, PlainValidator(ReadExpression("site")), WithJsonSchema(_EXPRESSION)]
CostValue = Annotated[ValueTemplate, PlainValidator(ReadValue("cost", check_number)), WithJsonSchema(_NUMBER)]

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
