"""The params of a class of agents: read with a scenario, and completed for each agent.

A class of agents declares them as a class `Params`; see `sim.actors.Agent`. In a file, each value is a literal, which
is checked with the file, or an expression, which is evaluated and checked for each agent as it is created.
"""

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

import attrs
from pydantic import ConfigDict, TypeAdapter, ValidationError, ValidationInfo, WrapValidator
from pydantic.json_schema import JsonSchemaValue

from sim.base.errors import UsageError
from sim.kernel.codec import JsonObject
from sim.scenario import fields as f
from sim.scenario.error_text import words_of
from sim.scenario.scopes import Context
from sim.scenario.settings import fields_of, made, model_from, reads
from sim.scenario.units import FieldError, shown
from sim.scenario.values import ValueTemplate, is_expression

_READ = f.ReadValue("start")
_EXPRESSIONS = ("call condition", "condition", "event filter", "formula", "work condition", "work value")
"""Values that are expressions themselves, and are not evaluated for each agent."""


@attrs.frozen
class ParamsTemplate:
    """The params of the agents of one entry.

    Attributes:
        declared: the class of the params.
        constants: the values that are the same for all agents, by name.
        computed: the values that are evaluated for each agent, by name.
        shared: the params of every agent, if nothing is computed.
        context: what the check of values needs from the rest of the file.
    """

    declared: type
    constants: JsonObject
    computed: Mapping[str, ValueTemplate]
    shared: Any
    context: Context | None

    def of(self, compute: Callable[[str, ValueTemplate, Callable[[Any], Any]], Any]) -> Any:
        """Return the params of one agent.

        Args:
            compute: called with a name, its value, and a function that checks what the value gives.

        Raises:
            UsageError: if a value cannot be evaluated, or is not one that the class takes.
        """
        if not self.computed:
            try:
                hash(self.shared)
            except TypeError:  # a mapping in it, say, which an agent could change for all others
                return copy.deepcopy(self.shared)
            return self.shared
        own = {name: compute(name, value, self._check(name)) for name, value in self.computed.items()}
        try:
            return made(self.declared, {**self.constants, **own})
        except FieldError as error:
            raise UsageError(str(error), hint=error.hint) from None

    @property
    def shared_values(self) -> Mapping[str, Any]:
        """The values that are the same for all agents, by name, with the defaults."""
        return self.constants if self.computed else attrs.asdict(self.shared, recurse=False)

    def _check(self, name: str) -> Callable[[Any], Any]:
        def check(value: Any) -> Any:
            try:
                return _adapter(self.declared, name).validate_python(value, context=self.context)
            except ValidationError as error:
                detail = error.errors(include_url=False)[0]
                error_context, kind = detail.get("ctx", {}), detail["type"]
                kind = "ours" if isinstance(error_context.get("error"), FieldError) else kind
                message, hint = words_of(kind, (name, *detail["loc"])[-1], detail["input"], error_context)
                raise UsageError(message, hint=hint) from None

        return check


def read_params(declared: type, raw: Any, info: ValidationInfo) -> ParamsTemplate:
    """Return the params that an entry of a file gives; a validator.

    Args:
        declared: the class of the params.
        raw: the part of the file.
        info: the context of the validation.

    Raises:
        FieldError, ValidationError: naming everything that is wrong.
    """
    if not isinstance(raw, dict):
        raise FieldError(f"expected a mapping, found {shown(raw)}")
    values = params_model(declared).model_validate(raw, context=info.context)
    return _template(declared, {name: getattr(values, name) for name in type(values).model_fields}, f.context_of(info))


def default_params(declared: type) -> ParamsTemplate:
    """Return the params of an entry that gives none.

    Raises:
        UsageError: if one has no default.
    """
    missing = [name for name, _, default in fields_of(declared) if default is ...]
    if missing:
        raise UsageError(f"expected params with {' and '.join(missing)}, found none")
    return ParamsTemplate(declared, {}, {}, declared(), None)


def _template(declared: type, values: Mapping[str, Any], context: Context | None) -> ParamsTemplate:
    computed = {name: value.value for name, value in values.items() if isinstance(value, _Computed)}
    constants = {name: value for name, value in values.items() if name not in computed}
    shared = None if computed else made(declared, constants)
    return ParamsTemplate(declared, constants, computed, shared, None if context is None else Context(context.symbols))


@cache
def params_model(declared: type) -> type[f.Part]:
    """Return the model of a class of params in a file: each value can be an expression."""
    fields: dict[str, Any] = {}
    for name, field, default in fields_of(declared):
        notes = () if reads(declared, name) in _EXPRESSIONS else (_OR_EXPRESSION, _EXPRESSION_SCHEMA)
        fields[name] = (Annotated[(field, *notes)] if notes else field, default)
    return model_from(declared, fields)


@cache
def _adapter(declared: type, name: str) -> TypeAdapter[Any]:
    """Return what checks the value of an expression."""
    (field,) = [field for own, field, _ in fields_of(declared) if own == name]
    return TypeAdapter(field, config=ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False))


def _or_expression(value: Any, handler: Callable[[Any], Any], info: ValidationInfo) -> Any:
    return _Computed(_READ(value, info)) if _is_computed(value) else handler(value)


def _is_computed(value: Any) -> bool:
    """Return whether a value has an expression at any depth."""
    if isinstance(value, dict | list):
        return any(map(_is_computed, value.values() if isinstance(value, dict) else value))
    return is_expression(value)


@attrs.frozen
class _Computed:
    """A value that is evaluated for each agent."""

    value: ValueTemplate


class _ExpressionSchema:
    """Adds to the JSON Schema of a value that it can be an expression."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> JsonSchemaValue:
        value_schema: JsonSchemaValue = handler(schema)
        return {"anyOf": [value_schema, {"type": "string", "pattern": "^=([^=]|$)", "description": "an expression"}]}


_OR_EXPRESSION = WrapValidator(_or_expression)
_EXPRESSION_SCHEMA = _ExpressionSchema()
