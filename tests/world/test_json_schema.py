"""Checks of values against JSON Schemas that nobody vouches for."""

from itertools import pairwise

import pytest

from sim.world.json_schema import MOST_STEPS, mismatch, schema_fault

TREE = {
    "$defs": {"node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}},
    "$ref": "#/$defs/node",
}


def said(value, schema):
    """Return what is said of a value as the arguments of a call; the schema has no fault."""
    assert schema_fault(schema) is None
    return mismatch(value, schema, "the arguments")


@pytest.mark.parametrize(
    ("part", "good", "bad", "sentence"),
    [
        ({"type": "string"}, "a", 1, "x must be string, not int"),
        ({"type": ["string", "null"]}, None, True, "x must be string or null, not bool"),
        ({"type": "integer"}, 2.0, 2.5, "x must be integer, not float"),
        ({"enum": ["a", 1]}, 1, True, "x must be one of a, 1"),
        ({"const": 5}, 5, 6, "x must be 5"),
        ({"minimum": 1, "maximum": 9}, 9, 10, "x must lie between 1 and 9"),
        ({"minimum": 1}, 1, 0, "x must be at least 1"),
        ({"exclusiveMinimum": 1}, 2, 1, "x must be above 1"),
        ({"exclusiveMaximum": 1}, 0, 1, "x must be below 1"),
        ({"multipleOf": 5}, 10, 7, "x must be a multiple of 5"),
        ({"minLength": 2}, "ab", "a", "x must have at least 2 characters"),
        ({"maxLength": 2}, "ab", "abc", "x must have at most 2 characters"),
        ({"minItems": 1}, [1], [], "x must have at least 1 items"),
        ({"maxItems": 1}, [1], [1, 2], "x must have at most 1 items"),
        ({"uniqueItems": True}, [1, 2], [1, 1], "x must have no item twice"),
        ({"items": {"type": "string"}}, ["a"], ["a", 1], "x[1] must be string, not int"),
        ({"prefixItems": [{"const": 1}], "items": False}, [1], [1, 2], "x does not fit items"),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "x must have at most 1 keys"),
        ({"required": ["a"]}, {"a": 1}, {}, "x lacks 'a'"),
        (
            {"properties": {"a": {"properties": {"b": {"type": "null"}}}}},
            {},
            {"a": {"b": 1}},
            "x.a.b must be null, not int",
        ),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}, "x: there is no 'b' here"),
        ({"additionalProperties": {"type": "integer"}}, {"b": 1}, {"b": ""}, "x.b must be integer, not str"),
        ({"anyOf": [{"type": "string"}, {"const": 1}]}, 1, 2, "x must have one of the 2 forms of its schema"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 5}]}, 7, 3, "x must have exactly one of the 2 forms of its schema"),
        ({"allOf": [{"minimum": 1}, {"maximum": 5}]}, 3, 7, "x must be at most 5"),
        ({"not": {"type": "null"}}, 1, None, "x has a form that its schema excludes"),
        ({"if": {"const": 1}, "else": {"type": "string"}}, "a", 2, "x must be string, not int"),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, "x does not fit dependentRequired"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) and "type" not in value else None,
)
def test_each_keyword_is_checked(part, good, bad, sentence):
    """What violates a keyword is named by its place, with what was expected."""
    schema = {"type": "object", "properties": {"x": part}}
    assert said({"x": good}, schema) is None
    assert said({"x": bad}, schema) == sentence


def test_the_outermost_fault_is_told():
    """Of several faults, the sentence names one of the outermost: a missing argument before a wrong part of another."""
    schema = {"properties": {"a": {"properties": {"b": {"type": "null"}}}, "c": {}}, "required": ["c"]}
    assert said({"a": {"b": 1}}, schema) == "the arguments lack 'c'"
    assert said([], {"type": "object", **schema}) == "the arguments must be object, not list"


def test_a_schema_can_refer_to_its_own_parts():
    """`$ref` leads to the `$defs` of the schema, also of values within values of any number of levels."""
    assert said({"left": {"left": {"n": 1}}}, TREE) is None
    assert said({"left": {"left": {"n": "1"}}}, TREE) == "left.left.n must be integer, not str"
    older = {"definitions": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/definitions/a"}}}
    assert said({"x": 1}, older) == "x must be string, not int"


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:9/schema", "https://json-schema.org/draft/2020-12/schema", "file:///etc/passwd", "other.json",
        "#/$defs/absent", "#anchor", "#/properties/x", "#/$defs/a/b", "#/$defs/a%2Fb", "//host/x", "",
    ],
)  # fmt: skip
def test_nothing_outside_of_a_schema_is_loaded(target, monkeypatch):
    """A reference to anything but the schema and its `$defs` is a fault, and nothing is opened for it."""
    monkeypatch.setattr("urllib.request.urlopen", None)
    schema = {"properties": {"x": {"$ref": target}}, "$defs": {"a": {}}, "$id": "http://127.0.0.1:9/"}
    found = schema_fault(schema)
    assert found == (
        ("properties", "x", "$ref"),
        f"expected #/$defs/NAME for one of the $defs of the schema, found {target!r}",
    )


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"minLength": "a"}, ("minLength",)),
        ({"maxItems": -1}, ("maxItems",)),
        ({"anyOf": {}}, ("anyOf",)),
        ({"properties": {"a": {"allOf": [{"type": "text"}]}}}, ("properties", "a", "allOf", 0, "type")),
        ({"$defs": {"a": 5}}, ("$defs", "a")),
        ({"not": 1}, ("not",)),
    ],
)
def test_the_fault_of_a_schema_has_its_place(schema, place):
    """A keyword of the wrong form is a fault of the schema, at its place, before a value is checked."""
    found = schema_fault(schema)
    assert found is not None
    assert found[0] == place
    assert found[1].startswith("expected ")


def test_regular_expressions_take_no_time():
    """A pattern that takes exponential time is not tried, whatever draft the schema claims to be of."""
    slow = "^(a+)+$"
    for claimed in ({}, {"$schema": "http://json-schema.org/draft-07/schema#"}):
        schema = {
            **claimed,
            "properties": {"x": {**claimed, "type": "string", "pattern": slow}},
            "patternProperties": {slow: {"type": "null"}},
            "additionalProperties": False,
        }
        assert said({"x": "a" * 50 + "!", "a" * 50 + "!": 1}, schema) is None


@pytest.mark.slow
def test_an_explosion_of_references_is_refused():
    """A schema of a few lines that takes 2 to the power of 30 steps, or never ends, is refused after fewer."""
    names = [f"d{n}" for n in range(31)]
    doubled = {name: {"allOf": [{"$ref": f"#/$defs/{after}"}] * 2} for name, after in pairwise(names)}
    schema = {"$defs": {**doubled, "d30": {"type": "object"}}, "$ref": "#/$defs/d0"}
    assert said({}, schema) == f"the arguments cannot be checked: that takes more than {MOST_STEPS:,} steps"
    endless = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    assert said({}, endless) == "the arguments cannot be checked: there are too many levels"
    many = said({"x": [{"n": n} for n in range(100_000)]}, {"properties": {"x": {"uniqueItems": True}}})
    assert many is not None
    assert "steps" in many


def test_the_levels_of_a_value_are_bounded_wherever_it_is_checked():
    """How deep a value may be does not depend on who asks: it is far below Python's own limit."""
    value: dict[str, object] = {}
    for _ in range(5000):
        value = {"left": value}

    def under(frames: int) -> str | None:
        return under(frames - 1) if frames else said(value, TREE)

    assert under(0) == under(300) == "the arguments cannot be checked: there are too many levels"


def test_large_numbers_are_no_trouble():
    """A number that no float holds is judged, or refused in a sentence."""
    found = said({"x": 10**400}, {"properties": {"x": {"multipleOf": 0.1}}})
    assert found is None or found.startswith(("x must", "the arguments cannot"))
    found = said({"x": 10**5000}, {"properties": {"x": {"type": "string"}}})
    assert found is None or found.startswith(("x must", "the arguments cannot"))
