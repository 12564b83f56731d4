"""JSON Schemas of tools, derived from the signature and docstring of a function, or from the definition of an action.

A parameter can be a text, a number, a flag, a list, a mapping, one of several literal values, or None.
"""

import inspect
import types
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from sim.base.errors import UsageError
from sim.kernel.codec import Json, JsonObject
from sim.world import ActionHandler
from sim.world.section import described

T = TypeVar("T")

OPEN: Final[JsonObject] = {"type": "object"}
"""The schema of any arguments."""


@attrs.frozen
class _Mark:
    """Marks a parameter that the runtime fills in."""


Given = Annotated[T, _Mark()]
"""The type of a parameter that the runtime fills in, such as `user: Given[str]`. Models do not see it."""

_NAMES: Final[Mapping[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}


@attrs.frozen
class ToolSignature:
    """What a function says about itself: its description, its parameters as JSON Schema, and what the runtime gives."""

    description: str
    parameters: JsonObject
    given: tuple[str, ...]


def signature_of(function: Callable[..., Any], name: str, injected: Collection[str] = ()) -> ToolSignature:
    """Return the signature of a function.

    Args:
        function: the function. Its docstring has a summary, and an entry under `Args:` for each parameter.
        name: the name of its tool, for errors.
        injected: names of parameters that the runtime fills in without the type `Given`.

    Raises:
        UsageError: if the docstring, or the type or the description of a parameter is missing or not valid.
    """
    summary = (inspect.getdoc(function) or "").partition("\n\nArgs:")[0].partition("\n\nReturns:")[0]
    if not summary:
        raise UsageError(f"the tool {name!r} has no docstring", hint="describe it in the first lines of one")
    hints, descriptions = get_type_hints(function, include_extras=True), described(function)
    properties: dict[str, Any] = {}
    required, filled_in = [], []
    for parameter in inspect.signature(function).parameters.values():
        key, annotation = parameter.name, hints.get(parameter.name)
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, _POSITIONAL):
            raise UsageError(f"the parameter {key!r} of the tool {name!r} cannot be given by name")
        marked = get_origin(annotation) is Annotated and any(isinstance(n, _Mark) for n in get_args(annotation)[1:])
        if marked or key in injected:
            filled_in.append(key)
            continue
        if not descriptions.get(key):
            raise UsageError(
                f"the parameter {key!r} of the tool {name!r} has no description",
                hint="add it under `Args:` in the docstring of the function",
            )
        properties[key] = {
            **_schema_of(annotation, f"the parameter {key!r} of the tool {name!r}"),
            "description": descriptions[key],
        }
        if parameter.default is inspect.Parameter.empty:
            required.append(key)
        else:
            properties[key]["default"] = parameter.default
    return ToolSignature(" ".join(summary.split()), _object(properties, required), tuple(filled_in))


_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY


def schema_of_action(handler: ActionHandler) -> JsonObject:
    """Return the JSON Schema of the arguments of an action."""
    properties: dict[str, Json] = {}
    for argument in handler.arguments():
        names = sorted({_NAMES[kind] for kind in argument.types if kind in _NAMES})
        kinds = {} if not names else {"type": names[0] if len(names) == 1 else "number"}
        properties[argument.name] = {**kinds, "description": argument.description}
    return _object(properties, [argument.name for argument in handler.arguments() if argument.required])


def _object(properties: JsonObject, required: list[str]) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema_of(annotation: Any, where: str) -> dict[str, Json]:
    """Return the JSON Schema of a type."""
    if annotation is Any:
        return {}
    if annotation in _NAMES:
        return {"type": _NAMES[annotation]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (list, tuple) and parts:
        return {"type": "array", "items": _schema_of(parts[0], where)}
    if origin in (dict, Mapping):
        return {"type": "object"}
    if origin in (Union, types.UnionType):
        inner = [_schema_of(part, where) for part in parts]
        if all(set(part) == {"type"} for part in inner):
            return {"type": [part["type"] for part in inner]}
    raise UsageError(
        f"{where} has the type {annotation!r:.60}, which has no JSON Schema here",
        hint="use str, int, float, bool, list[...], dict, Literal[...], or one of these or None",
    )
