"""Derives the models of settings from attrs classes: those of sections, and those of kinds of agents.

See `sim.world.section` for how a class defines the keys of its settings.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import attrs
from pydantic import AfterValidator, Field, PlainValidator, TypeAdapter, ValidationInfo, create_model
from pydantic.json_schema import JsonSchemaValue

from sim.base.errors import UsageError
from sim.scenario import fields as f
from sim.scenario.units import FieldError, Nanoseconds, PositiveNanoseconds, shown, wrong_as
from sim.scenario.yaml_tree import Map, find_place
from sim.world.section import SECTIONS, Range, Reads, Setting, described


def _measurement(text: str) -> str:
    """Check the expression of an outcome; a validator."""
    from sim.agents.outcomes import Measurement  # only files with outcomes need it

    try:
        return Measurement.parse(text).text
    except UsageError as error:
        raise wrong_as(error) from None


_FIELDS: Final[Mapping[Setting, Any]] = {
    "call condition": f.CallCondition,
    "condition": f.Condition,
    "duration": Nanoseconds,
    "entry": Annotated[str, AfterValidator(f.DeclaredName("entry"))],
    "event filter": f.Where,
    "formula": f.ToolFormula,
    "json": f.Json,
    "level": f.Level,
    "measurement": Annotated[str, AfterValidator(_measurement)],
    "name": f.Name,
    "pattern": f.Pattern,
    "positive duration": PositiveNanoseconds,
    "recipient": Annotated[str, AfterValidator(f.DeclaredName("recipient"))],
    "topic": f.Topic,
    "work condition": f.WorkCondition,
    "work value": f.WorkValue,
}

if missing := set(get_args(Setting)).difference(_FIELDS):
    raise AssertionError(f"no field reads settings with the meaning {', '.join(sorted(missing))}")


def read_settings(settings: type, raw: Any, info: ValidationInfo) -> Any:
    """Return the settings that a part of a file gives; a validator.

    Args:
        settings: the class of the settings.
        raw: the part of the file.
        info: the context of the validation.

    Raises:
        FieldError, ValidationError: naming everything that is wrong.
    """
    if not isinstance(raw, dict):
        raise FieldError(f"expected a mapping, found {shown(raw)}")
    values = model_of(settings).model_validate(raw, context=info.context)
    return made(settings, {name: getattr(values, name) for name in type(values).model_fields}, raw)


def made(settings: type, values: Mapping[str, Any], raw: Any = None) -> Any:
    """Return settings with checked values.

    Args:
        settings: their class.
        values: their values by name.
        raw: the part of the file with them, for the places of errors.

    Raises:
        FieldError: if values contradict each other.
    """
    try:
        return settings(**values)
    except UsageError as error:
        raise _placed(error, raw) from None
    except (TypeError, ValueError) as error:  # of a validator of attrs
        raise FieldError(str(error.args[0] if error.args else error)) from None


def _placed(error: UsageError, raw: Any) -> FieldError:
    """Return an error of a class of settings with the place that its text begins with, such as `files.a.txt: ...`."""
    if not isinstance(raw, Map):
        return wrong_as(error)
    path, rest, _ = find_place(raw, str(error))
    return FieldError(rest, error.hint, path) if path and f": {rest}" in str(error) else wrong_as(error)


@cache
def model_of(settings: type) -> type[f.Part]:
    """Return the model of a class of settings."""
    return model_from(settings, {name: (field, default) for name, field, default in fields_of(settings)})


def fields_of(settings: type) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the validated type and the default of each setting of a class."""
    meant, hints = described(settings), get_type_hints(settings, include_extras=True)
    for attribute in attrs.fields(settings):
        if attribute.init:
            name = attribute.alias or attribute.name
            yield (
                name,
                Annotated[_field(hints[attribute.name]), Field(description=meant.get(name))],
                _default(attribute),
            )


def reads(settings: type, name: str) -> Setting | None:
    """Return the meaning of a setting whose type alone does not say how a file writes it; None for all others."""
    notes = get_args(get_type_hints(settings, include_extras=True).get(name))
    return next((note.setting for note in notes if isinstance(note, Reads)), None)


def model_from(settings: type, fields: dict[str, Any]) -> type[f.Part]:
    """Return a model of a class of settings with these fields."""
    doc = (settings.__doc__ or "").strip().split("\n\n", 1)[0].replace("\n", " ")
    model: type[f.Part] = create_model(settings.__name__, __base__=f.Part, __doc__=doc, **fields)
    return model


def _default(attribute: "attrs.Attribute[Any]") -> Any:
    default: Any = attribute.default
    if default is attrs.NOTHING:
        return ...
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, which the stubs call a function
        return Field(default_factory=default.factory)
    return default


def _field(annotation: Any) -> Any:
    """Return the type that validates a setting of an annotated type."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(parts[0], parts[1:])
    if origin in (Union, types.UnionType):
        return Union[tuple(_field(part) for part in parts)]  # noqa: UP007 - the parts are known at run time only
    if origin is tuple:
        return Annotated[tuple[_field(parts[0]), ...], Field(strict=False)]  # type: ignore[misc]  # a type made here
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[_field(parts[0]), _field(parts[1])]  # type: ignore[misc]  # a type made here
    if isinstance(annotation, type) and attrs.has(annotation):
        return _nested(annotation)
    return annotation


def _annotated(base: Any, notes: tuple[Any, ...]) -> Any:
    for note in notes:
        if isinstance(note, Reads):
            return _FIELDS[note.setting]
        if isinstance(note, Range):
            return Annotated[_field(base), Field(ge=note.least, le=note.most)]
    return _field(base)


def _nested(settings: type) -> Any:
    def read(raw: Any, info: ValidationInfo) -> Any:
        return read_settings(settings, raw, info)

    return Annotated[Any, PlainValidator(read), _SettingsSchema(settings)]


def _by_name(settings: type) -> Any:
    """Return the type of a mapping of settings by name, in which a text stands for the first of them."""
    first = attrs.fields(settings)[0].name

    def read(raw: Any, info: ValidationInfo) -> Any:
        if isinstance(raw, dict):
            return read_settings(settings, raw, info)
        if not isinstance(raw, str):
            raise FieldError(f"expected the {first} as a text, or a mapping, found {shown(raw)}")
        values = model_of(settings).model_validate({first: raw}, context=info.context)
        return made(settings, {name: getattr(values, name) for name in type(values).model_fields})

    return dict[f.Label, Annotated[Any, PlainValidator(read)]]


def section_schema(settings: type, handler: Any, *, by_name: bool = False) -> JsonSchemaValue:
    """Return the JSON Schema of settings; `handler` is that of the schema around it."""
    schema = model_schema(model_of(settings), handler)
    if not by_name:
        return schema
    about = {"description": schema["description"]} if "description" in schema else {}
    return {"type": "object", **about, "additionalProperties": {"anyOf": [{"type": "string"}, schema]}}


def model_schema(model: type[f.Part], handler: Any) -> JsonSchemaValue:
    """Return the JSON Schema of a model; `handler` is that of the schema around it."""
    schema: JsonSchemaValue = handler(TypeAdapter(model).core_schema)
    return schema


def late_model(module: str, name: str) -> Any:
    """Return the type of a part of a file whose model is imported when a file has the part.

    Args:
        module: the module of the model.
        name: its name there.
    """

    def model() -> type[f.Part]:
        model_class: type[f.Part] = getattr(import_module(module), name)
        return model_class

    def read(raw: Any, info: ValidationInfo) -> Any:
        return model().model_validate(raw, context=info.context)

    return Annotated[Any, PlainValidator(read), _LateSchema(model)]


@attrs.frozen
class _LateSchema:
    """Gives the JSON Schema of a model that is imported late."""

    model: Callable[[], type[f.Part]]

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> JsonSchemaValue:
        return model_schema(self.model(), handler)


@attrs.frozen
class _SettingsSchema:
    """Gives the JSON Schema of settings."""

    settings: type

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> JsonSchemaValue:
        return section_schema(self.settings, handler)


def read_sections(raw: Any, info: ValidationInfo) -> dict[str, Any]:
    """Return the settings of all sections in a part of a file, by key; a validator."""
    model = _sections_model(
        tuple((key, SECTIONS[key].settings, SECTIONS[key].by_name) for key in SECTIONS if key in raw)
    )
    read = model.model_validate(raw, context=info.context)
    return {key: getattr(read, key) for key in raw}


@cache
def _sections_model(sections: tuple[tuple[str, type, bool], ...]) -> type[f.Part]:
    """Return a model with one field for each section, so that an error has the key of its section in its path."""
    fields: dict[str, Any] = {
        key: (_by_name(settings) if by_name else _nested(settings), None) for key, settings, by_name in sections
    }
    model: type[f.Part] = create_model("Sections", __base__=f.Part, **fields)
    return model
