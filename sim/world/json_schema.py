"""Checks values against a JSON Schema.

These keywords are checked: `type`, `enum`, `properties`, `required`, `items`, `minimum`, `maximum`,
`additionalProperties: false`. Other keywords are information for the model and are not checked.
"""

from collections.abc import Callable, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip

_DEEPEST = 20


def schema_fault(schema: Any, path: tuple[str | int, ...] = ()) -> tuple[tuple[str | int, ...], str] | None:
    """Return the path and the description of the first fault of a schema, or None if it is valid.

    Only the checked keywords must be valid. `true` and `false` are schemas below the top level.
    """
    if isinstance(schema, bool) and path:
        return None
    if not isinstance(schema, Mapping):
        return path, f"expected a JSON Schema such as {{type: string}}, found {schema!r:.60}"
    if len(path) > 2 * _DEEPEST:
        return path, f"expected a JSON Schema that is at most {_DEEPEST} levels deep"
    for keyword, (fits, expected) in _KEYWORDS.items():
        if keyword in schema and not fits(schema[keyword]):
            return (*path, keyword), f"expected {expected}, found {schema[keyword]!r:.60}"
    parts: list[tuple[tuple[str, ...], Any]] = [
        (("properties", name), part) for name, part in schema.get("properties", {}).items()
    ]
    parts += [((keyword,), schema[keyword]) for keyword in ("items", "additionalProperties") if keyword in schema]
    faults = (schema_fault(part, (*path, *where)) for where, part in parts)
    return next((fault for fault in faults if fault is not None), None)


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list | tuple) and value else (value,)
    return all(isinstance(name, str) and name in _TYPES for name in names)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KEYWORDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_type, f"one or a list of {', '.join(_TYPES)}"),
    "enum": (_is_list, "a list of values"),
    "minimum": (_is_number, "a number"),
    "maximum": (_is_number, "a number"),
    "properties": (lambda value: isinstance(value, Mapping), "a JSON Schema by name"),
    "required": (lambda value: _is_list(value) and all(isinstance(name, str) for name in value), "a list of names"),
}
"""The checked keywords: a test of their value, and a description of the valid form."""


def mismatch(value: Any, schema: Any, where: str, depth: int = 0) -> str | None:
    """Return how a value violates its schema, or None.

    Args:
        value: the value.
        schema: the schema.
        where: what the value is called in the sentence.
        depth: the nesting level of the value.
    """
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds or ()
    if names and not any(_is(value, name) for name in names):
        return f"{where} must be {' or '.join(names)}, not {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            return f"{where} must lie between {low} and {high}"
    if isinstance(value, dict):
        return _object(value, schema, where, depth)
    if isinstance(value, list):
        parts = (mismatch(part, schema.get("items"), f"{where}[{i}]", depth + 1) for i, part in enumerate(value))
        return next((fault for fault in parts if fault), None)
    return None


def _object(value: dict[str, Any], schema: Mapping[str, Any], where: str, depth: int) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} lack {name!r}" if where == "the arguments" else f"{where} lacks {name!r}"
    for name, part in value.items():
        if name not in properties and schema.get("additionalProperties") is False:
            return f"{where}: there is no {name[:64]!r} here"
        fault = mismatch(part, properties.get(name), name if depth == 0 else f"{where}.{name}", depth + 1)
        if fault is not None:
            return fault
    return None


def _is(value: object, name: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(str(name), (object,)))
