"""The JSON Schema of scenario files says to editors what users may write, in their words."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from sim.scenario.loading import json_schema

schema_of_files = cache(json_schema)
INTERNAL = re.compile(r"``|:\w+:`|\b(Args|Attributes|Raises|Returns):|\bNone\b|\b(str|int|float|bool|dict|tuple)\b|\n")


def parts(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every part of a schema, with the path that leads to it."""
    if isinstance(schema, list):
        for part in schema:
            yield from parts(part, path)
    elif isinstance(schema, dict):
        yield path, schema
        for key, part in schema.items():
            if key in ("properties", "$defs"):
                for name, inner in part.items():
                    yield from parts(inner, f"{path}.{name}")
            elif key not in ("default", "enum", "const", "examples"):
                yield from parts(part, path)


@cache
def all_parts() -> list[tuple[str, dict[str, Any]]]:
    """Return every part of the schema of scenario files, with its path."""
    return list(parts(schema_of_files()))


def described(part: dict[str, Any]) -> bool:
    """Tell whether an editor has something to show for a property: of its own, or of what it refers to."""
    if "description" in part:
        return True
    if "$ref" in part:
        return described(schema_of_files()["$defs"][part["$ref"].rpartition("/")[2]])
    return any(described(one) for key in ("anyOf", "allOf", "oneOf") for one in part.get(key, ()))


def test_every_property_is_described():
    """An editor shows what each key means; the conditions on `kind` in `if` are no properties for users."""
    properties = [
        (f"{path}.{name}", part)
        for path, schema in all_parts()
        if not path.endswith(".kind") and set(schema) != {"properties"}
        for name, part in schema.get("properties", {}).items()
    ]
    assert len(properties) > 250
    assert [name for name, part in properties if "const" not in part and not described(part)] == []


@pytest.mark.parametrize("key", ["description", "title"])
def test_no_text_is_about_the_code(key):
    """What an editor shows is not made from the names, types and docstrings of the code."""
    texts = {path: schema[key] for path, schema in all_parts() if isinstance(schema.get(key), str)}
    assert len(texts) > 250 or key == "title"
    assert {path: text for path, text in texts.items() if INTERNAL.search(text) or key == "title"} == {}


def test_defaults_are_among_the_choices():
    """A default is written as users write it: one of the choices, where there are any."""
    wrong = [
        (path, schema["default"])
        for path, schema in all_parts()
        if "enum" in schema and "default" in schema and schema["default"] not in schema["enum"]
    ]
    assert wrong == []
    (level,) = (part for path, part in all_parts() if path == ".Agent.permission")
    assert (level["default"], level["enum"]) == ("user", ["guest", "user", "admin", "owner"])
