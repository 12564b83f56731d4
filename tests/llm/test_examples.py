"""Small values for JSON Schemas, as the answers of offline models."""

import pytest

from sim.llm.answers import example
from sim.world.json_schema import mismatch, schema_fault


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]},
        {"enum": ["x", "y"]},
        {"const": {"a": [1]}},
        {"type": ["null", "string"]},
        {"type": "string", "minLength": 9},
        {"type": "string", "maxLength": 2},
        {"type": "array", "minItems": 2, "items": {"type": "boolean"}},
        {"type": "integer", "minimum": -5},
        {"type": "integer", "maximum": -5},
        {"type": "integer", "exclusiveMinimum": 5, "multipleOf": 4},
        {"type": "number", "exclusiveMaximum": -5},
        {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]},
        {"oneOf": [{"const": 1}, {"const": 2}]},
        {"allOf": [{"type": "integer"}, {"minimum": 7}]},
        {"$defs": {"a": {"properties": {"n": {"const": 3}}, "required": ["n"]}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
    ],
    ids=str,
)
def test_an_example_fits_its_schema(schema):
    """What a simulated model without rules answers is valid."""
    assert schema_fault(schema) is None
    assert mismatch(example(schema), schema, "the answer") is None


def test_an_example_of_an_endless_schema_ends():
    """A schema that demands itself without end has an example all the same; it is finite, and does not fit."""
    endless = {"properties": {name: {"$ref": "#"} for name in "abcde"}, "required": ["a"]}
    assert len(str(example(endless))) < 1_000_000
    assert isinstance(example({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}), str)
