"""Checks values against a JSON Schema (draft 2020-12). Only this module uses `jsonschema`.

Neither schemas nor values are trusted: they come from scenarios, MCP servers and models. So `$ref` reaches only the
`$defs` of the schema itself, the levels and steps of a check are bounded, and `pattern`, `patternProperties`, `format`
and `unevaluated...` are information for the model: a regular expression of somebody else can take any time. The same
value and schema give the same sentence on every machine.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final

import attrs

from sim.base.errors import ActorError
from sim.base.numbers import is_number
from sim.kernel.codec import decode, encode

Path = tuple[str | int, ...]

MOST_STEPS: Final = 100_000
"""The most keywords that one check looks at. With `$ref`, a short schema can take any number of steps."""

MOST_NESTED: Final = 100
"""The most keywords within keywords of one check: fewer than Python's own limit, which depends on the caller."""

_DEEPEST: Final = 20
_MOST_FAULTS: Final = 100  # of which the sentence names the outermost
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_REFERENCE: Final = re.compile(r"#(?:/(\$defs|definitions)/([^/~%]{1,200}))?")
_UNCHECKED: Final = ("pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties")


class _Limit(Exception):
    """Why a value cannot be checked within the limits."""


@attrs.define
class _Effort:
    """How far a check is."""

    steps: int = 0
    nested: int = 0


_EFFORT: ContextVar[_Effort] = ContextVar("effort of a check")


def schema_fault(schema: Any, path: Path = ()) -> tuple[Path, str] | None:
    """Return the path and the description of the first fault of a schema, or None if it is valid.

    `true` and `false` are schemas below the top level. An unknown keyword is no fault.
    """
    fault = _plain_fault(schema, path)
    if fault is not None or isinstance(schema, bool) or not _has_more(schema):
        return fault
    try:
        whole = _normal(encode(schema))
    except ActorError:
        return path, "expected a JSON Schema, found a value that is not JSON"
    fault = _reference_fault(whole, whole, ()) or _library_fault(whole)
    return None if fault is None else ((*path, *fault[0]), fault[1])


def mismatch(value: Any, schema: Any, where: str) -> str | None:
    """Return how a value violates its schema, or None. A value that cannot be checked within the limits violates it.

    Args:
        value: the value, as JSON-like data.
        schema: the schema, without a fault.
        where: what the value is called in the sentence.
    """
    if not isinstance(schema, Mapping) or not schema:
        return None
    validator = _validator(encode(schema))
    token = _EFFORT.set(_Effort())
    try:
        errors = list(islice(validator.iter_errors(value), _MOST_FAULTS))
    except _Limit as error:
        return f"{where} cannot be checked: {error}"
    except (RecursionError, OverflowError, ValueError):  # a number with thousands of digits
        return f"{where} cannot be checked: a number is too large"
    finally:
        _EFFORT.reset(token)
    if not errors:
        return None
    return _sentence(min(errors, key=_rank), where)


# -- schemas


def _plain_fault(schema: Any, path: Path) -> tuple[Path, str] | None:
    """Return the first fault of the usual keywords, in words that say what to write."""
    if isinstance(schema, bool) and path:
        return None
    if not isinstance(schema, Mapping):
        return path, f"expected a JSON Schema such as {{type: string}}, found {schema!r:.60}"
    if len(path) > 2 * _DEEPEST or (not path and _is_deep(schema, 2 * _DEEPEST)):
        return path, f"expected a JSON Schema that is at most {_DEEPEST} levels deep"
    for keyword, (fits, expected) in _KEYWORDS.items():
        if keyword in schema and not fits(schema[keyword]):
            return (*path, keyword), f"expected {expected}, found {schema[keyword]!r:.60}"
    faults = (_plain_fault(part, (*path, *where)) for where, part in _parts(schema))
    return next((fault for fault in faults if fault is not None), None)


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name, part in schema.get("properties", {}).items():
        yield ("properties", name), part
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield (keyword,), schema[keyword]


def _is_deep(value: object, levels: int) -> bool:
    if not isinstance(value, Mapping | list | tuple):
        return False
    parts: Iterable[object] = value.values() if isinstance(value, Mapping) else value
    return not levels or any(_is_deep(part, levels - 1) for part in parts)


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list | tuple) and value else (value,)
    return all(isinstance(name, str) and name in _TYPES for name in names)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


_KEYWORDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_type, f"one or a list of {', '.join(_TYPES)}"),
    "enum": (_is_list, "a list of values"),
    "minimum": (is_number, "a number"),
    "maximum": (is_number, "a number"),
    "properties": (lambda value: isinstance(value, Mapping), "a JSON Schema by name"),
    "required": (lambda value: _is_list(value) and all(isinstance(name, str) for name in value), "a list of names"),
}
"""The usual keywords: a test of their value, and a description of the valid form."""

_SIMPLE: Final = {*_KEYWORDS, "items", "additionalProperties", "title", "description", "default", "examples", "format"}


def _has_more(schema: Any) -> bool:
    """Return whether a schema has keywords whose values only the library knows how to check."""
    return isinstance(schema, Mapping) and (
        not schema.keys() <= _SIMPLE or any(_has_more(part) for _, part in _parts(schema))
    )


def _normal(data: bytes) -> Any:
    """Return a schema as plain data, without what makes it another draft, or gives its parts addresses."""
    return _bare(decode(data))


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _bare(part)
        for key, part in value.items()
        if not (key.startswith("$") and key != "$ref" and isinstance(part, str))
    }


def _reference_fault(part: Any, whole: Any, path: Path) -> tuple[Path, str] | None:
    """Return the first `$ref` to something that is not the schema or one of its `$defs`."""
    if isinstance(part, dict):
        target = part.get("$ref")
        if isinstance(target, str):
            match = _REFERENCE.fullmatch(target)
            if match is None or (match[1] and match[2] not in whole.get(match[1], ())):
                return (
                    *path,
                    "$ref",
                ), f"expected #/$defs/NAME for one of the $defs of the schema, found {target!r:.60}"
        parts: Iterable[tuple[str | int, Any]] = part.items()
    else:
        parts = enumerate(part) if isinstance(part, list) else ()
    faults = (_reference_fault(inner, whole, (*path, key)) for key, inner in parts)
    return next((fault for fault in faults if fault is not None), None)


def _library_fault(whole: Any) -> tuple[Path, str] | None:
    import jsonschema
    from jsonschema_specifications import REGISTRY

    draft = jsonschema.Draft202012Validator
    errors = islice(draft(draft.META_SCHEMA, registry=REGISTRY).iter_errors(whole), _MOST_FAULTS)
    first = min(errors, key=lambda error: len(error.absolute_path), default=None)
    if first is None:
        return None
    expected = "what JSON Schema (draft 2020-12) allows here"
    if first.validator == "type":
        expected = _either(first.validator_value)
    elif first.validator == "minimum":
        expected = f"a number of at least {first.validator_value}"
    return tuple(first.absolute_path), f"expected {expected}, found {first.instance!r:.60}"


# -- values


@functools.lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Any:
    """Return the validator of a schema. It loads nothing: an empty registry has no schema but this one."""
    import referencing

    return _draft()(_normal(schema), registry=referencing.Registry())


@functools.cache
def _draft() -> Any:
    """Return draft 2020-12 with bounded effort, without what takes regular expressions."""
    import jsonschema

    draft = jsonschema.Draft202012Validator
    keywords = {name: _bounded(name, check) for name, check in draft.VALIDATORS.items()}
    return jsonschema.validators.extend(draft, {**keywords, **dict.fromkeys(_UNCHECKED, lambda *_: None)})


def _bounded(name: str, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def bounded(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        effort = _EFFORT.get()
        effort.steps += 1 + (len(instance) ** 2 // 50 if name == "uniqueItems" and isinstance(instance, list) else 0)
        if effort.steps > MOST_STEPS:
            raise _Limit(f"that takes more than {MOST_STEPS:,} steps")
        if effort.nested == MOST_NESTED:
            raise _Limit("there are too many levels")
        if name == "additionalProperties" and "patternProperties" in schema:
            return  # it is about the properties that no regular expression matches
        effort.nested += 1
        try:
            yield from check(validator, value, instance, schema) or ()
        finally:
            effort.nested -= 1

    return bounded


_WORDS: Mapping[str, Callable[[Any, Any], str]] = {
    "type": lambda kinds, value: f"must be {_either(kinds)}, not {type(value).__name__}",
    "enum": lambda values, _: f"must be one of {', '.join(map(str, values))}",
    "const": lambda wanted, _: f"must be {wanted!r:.80}",
    "minimum": lambda low, _: f"must be at least {low}",
    "maximum": lambda high, _: f"must be at most {high}",
    "exclusiveMinimum": lambda low, _: f"must be above {low}",
    "exclusiveMaximum": lambda high, _: f"must be below {high}",
    "multipleOf": lambda step, _: f"must be a multiple of {step}",
    "minLength": lambda least, _: f"must have at least {least} characters",
    "maxLength": lambda most, _: f"must have at most {most} characters",
    "minItems": lambda least, _: f"must have at least {least} items",
    "maxItems": lambda most, _: f"must have at most {most} items",
    "uniqueItems": lambda _, __: "must have no item twice",
    "minProperties": lambda least, _: f"must have at least {least} keys",
    "maxProperties": lambda most, _: f"must have at most {most} keys",
    "anyOf": lambda forms, _: f"must have one of the {len(forms)} forms of its schema",
    "oneOf": lambda forms, _: f"must have exactly one of the {len(forms)} forms of its schema",
    "not": lambda _, __: "has a form that its schema excludes",
}
"""The rest of a sentence about a value, by the keyword that it violates."""

_RANK: Final = {name: rank for rank, name in enumerate(("type", "enum", "const", "required", "additionalProperties"))}


def _rank(error: Any) -> tuple[int, int]:
    return len(error.absolute_path), _RANK.get(error.validator, len(_RANK))


def _sentence(error: Any, where: str) -> str:
    place, wanted, value = _place(where, error.absolute_path), error.validator_value, error.instance
    if error.validator == "required":
        absent = next(name for name in wanted if name not in value)
        return f"{place} lack {absent!r}" if place == "the arguments" else f"{place} lacks {absent!r}"
    if error.validator == "additionalProperties" and wanted is False:
        properties = error.schema.get("properties", {})
        return f"{place}: there is no {next(name for name in value if name not in properties)[:64]!r} here"
    if error.validator in ("minimum", "maximum") and {"minimum", "maximum"} <= error.schema.keys():
        return f"{place} must lie between {error.schema['minimum']} and {error.schema['maximum']}"
    words = _WORDS.get(error.validator)
    return f"{place} {words(wanted, value)}" if words else f"{place} does not fit {error.validator or 'its schema'}"


def _place(where: str, path: Iterable[str | int]) -> str:
    for depth, part in enumerate(path):
        name = f"[{part}]" if isinstance(part, int) else f".{part[:64]}"
        where = f"{where}{name}" if depth or isinstance(part, int) else name[1:]
    return where


def _either(kinds: str | list[str]) -> str:
    return kinds if isinstance(kinds, str) else " or ".join(kinds)
