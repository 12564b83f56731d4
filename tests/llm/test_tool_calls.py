"""No tool call is executed unless the tool was offered and its arguments fit."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.llm.tool_calls import fault_of, faults
from sim.llm.types import DEEPEST, Completion, TokenUsage, ToolCall, ToolSpec
from sim.world.json_schema import schema_fault

BUY = ToolSpec(
    "buy",
    "Buy something.",
    {
        "type": "object",
        "properties": {
            "what": {"type": "string", "enum": ["milk", "bread"]},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "notes": {"type": "array", "items": {"type": "string"}},
            "to": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
        },
        "required": ["what"],
        "additionalProperties": False,
    },
)
GOOD = {"what": "milk", "count": 2, "notes": ["cold"], "to": {"street": "Main"}}


def fault(arguments: str, name: str = "buy") -> str | None:
    """Return what is wrong with a call."""
    return fault_of(ToolCall("1", name, arguments), [BUY])


def test_a_good_call_has_no_fault():
    """Whole numbers may be written with a point; optional arguments may be left out."""
    assert fault(json.dumps(GOOD)) is None
    assert fault('{"what": "bread"}') is None
    assert fault('{"what": "bread", "count": 3.0}') is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "lack 'what'"),
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("null", "lack 'what'"),
        ('"null"', "lack 'what'"),
        ('"[1]"', "not a JSON object"),
        ("{}", "lack 'what'"),
        ('{"what": 1}', "what must be string"),
        ('{"what": "beer"}', "one of milk, bread"),
        ('{"what": "milk", "count": 0}', "between 1 and 9"),
        ('{"what": "milk", "count": 1.5}', "integer"),
        ('{"what": "milk", "count": true}', "integer"),
        ('{"what": "milk", "price": 1}', "no 'price'"),
        ('{"what": "milk", "notes": [1]}', "notes[0]"),
        ('{"what": "milk", "to": {}}', "street"),
    ],
)
def test_what_is_wrong_is_said(arguments, words):
    """The model is told in a sentence what does not fit."""
    assert words in (fault(arguments) or "")


def test_a_tool_that_was_not_offered_is_refused_with_the_nearest_name():
    """An unknown tool is never executed."""
    assert "buy" in (fault("{}", "bu") or "")


def test_every_prefix_of_the_arguments_is_refused():
    """Arguments that were cut off anywhere are never executed."""
    text = json.dumps(GOOD)
    assert all(fault(text[:end]) for end in range(len(text)))


def test_an_answer_that_was_cut_off_has_no_good_call():
    """Even arguments that can be read may lack their end."""
    call = ToolCall("1", "buy", '{"what": "milk"}')
    whole = Completion("", (call,), "tool_use", TokenUsage(1, 1), "m")
    assert faults(whole, [BUY]) == {}
    assert set(faults(attrs.evolve(whole, stop="max_tokens"), [BUY])) == {"1"}


def nested(levels: int) -> str:
    """Return arguments of so many levels, with brackets in texts that open none."""
    return '{"}[\\"[": "[[{{", "a": ' * levels + "1" + "}" * levels


@pytest.mark.slow
def test_deep_arguments_are_refused_at_a_fixed_depth():
    """The limit is the same however much of the stack is in use: else a replay could judge otherwise than its run.

    What is beside each other is not deep, nor are brackets in texts.
    """
    assert ToolCall("1", "buy", nested(DEEPEST)).parsed() is not None
    assert ToolCall("1", "buy", f'{{"a": [{"[1]," * 500}2]}}').parsed() is not None

    def under(frames: int) -> list[object]:
        if frames:
            return under(frames - 1)
        return [ToolCall("1", "buy", nested(levels)).parsed() for levels in (DEEPEST + 1, 900, 100_000)]

    assert under(0) == under(200) == [None] * 3


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ("string", ()),
        (True, ()),
        ({"type": "text"}, ("type",)),
        ({"type": {"a": "b"}}, ("type",)),
        ({"type": []}, ("type",)),
        ({"type": ["string", 5]}, ("type",)),
        ({"enum": 5}, ("enum",)),
        ({"minimum": "a"}, ("minimum",)),
        ({"maximum": True}, ("maximum",)),
        ({"properties": ["a"]}, ("properties",)),
        ({"required": "a"}, ("required",)),
        ({"required": [1]}, ("required",)),
        ({"properties": {"a": {"items": {"type": 3}}}}, ("properties", "a", "items", "type")),
        ({"items": "string"}, ("items",)),
        ({"additionalProperties": 0}, ("additionalProperties",)),
    ],
    ids=str,
)
def test_a_broken_schema_is_found(schema, where):
    """A keyword that is checked and has a value of the wrong form is named by its place, before a call breaks on it."""
    found = schema_fault(schema)
    assert found is not None
    assert found[0] == where


def test_good_schemas_have_no_fault():
    """Schemas as tools have them pass: with keywords that are not checked, and `true` or `false` below the top."""
    assert schema_fault(BUY.parameters) is None
    assert schema_fault({}) is None
    loose = {"type": ["string", "null"], "format": "date", "items": True, "additionalProperties": False, "x": 5}
    assert schema_fault(loose) is None


KEYWORDS = st.sampled_from(["type", "enum", "properties", "required", "items", "minimum", "additionalProperties"])
VALUES = st.none() | st.booleans() | st.integers(-1, 10) | st.sampled_from(["string", "object", "array", "milk"])
SCHEMAS = st.recursive(
    VALUES, lambda x: st.lists(x, max_size=2) | st.dictionaries(KEYWORDS, x, max_size=3), max_leaves=10
)


@pytest.mark.slow
@given(st.dictionaries(KEYWORDS, SCHEMAS, max_size=4))
def test_a_schema_without_a_fault_breaks_no_judgement(schema):
    """With any schema that passes, any arguments are judged."""
    if schema_fault(schema) is None:
        for text in ("{}", '{"items": 1}', '{"enum": ["milk", 2], "type": "x", "items": {"type": 1}}'):
            found = fault_of(ToolCall("1", "any", text), [ToolSpec("any", "", schema)])
            assert found is None or isinstance(found, str)


@given(st.text(max_size=60))
def test_any_text_is_judged(text):
    """Whatever a model sends as arguments, the judgement is a sentence or none; it never fails."""
    assert fault(text) is None or isinstance(fault(text), str)


KEYS = st.sampled_from(["what", "count", "notes", "to", "street", "x"])
PLAIN = st.none() | st.booleans() | st.integers(-1, 10) | st.sampled_from(["milk", "bread", "x"])
JSON = st.recursive(PLAIN, lambda x: st.lists(x, max_size=3) | st.dictionaries(KEYS, x, max_size=4), max_leaves=10)


@pytest.mark.slow
@given(st.dictionaries(KEYS, JSON, max_size=4) | JSON)
def test_what_passes_fits_the_schema(value):
    """What is let through has the types that the schema names."""
    if fault(json.dumps(value)) is None:
        assert value["what"] in ("milk", "bread")
        assert type(value.get("count", 1)) is int
        assert all(isinstance(note, str) for note in value.get("notes", []))
