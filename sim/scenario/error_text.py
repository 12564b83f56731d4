"""The words for the errors of pydantic, as they are shown for a scenario file."""

from typing import Any, Final

from sim.base.expressions import did_you_mean
from sim.scenario.units import shown
from sim.scenario.yaml_tree import Map

_EXPECTED: Final = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "greater_than": "a value of more than {gt}",
    "greater_than_equal": "a value of at least {ge}",
    "less_than_equal": "a value of at most {le}",
    "string_pattern_mismatch": "text of the form {pattern}",
    "string_too_long": "text of at most {max_length} characters",
    "too_short": "a list of at least {min_length} items",
    "literal_error": "{expected}",
}


def words_of(kind: str, step: object, value: object, context: Any, here: object = None) -> tuple[str, str | None]:
    """Return the message and the hint for one kind of error of pydantic.

    Args:
        kind: the kind.
        step: the last step of the path to the value.
        value: the value.
        context: what pydantic says about the error.
        here: the innermost collection of the file.
    """
    if kind == "missing":
        return f"the key {step!r} is missing", None
    if kind == "extra_forbidden":
        allowed = here.allowed if isinstance(here, Map) else ()
        empty = None if here is None else "no keys are known here"
        keys = f"known keys: {', '.join(allowed)}" if allowed else empty
        return f"unknown key {str(step)[:80]!r}", did_you_mean(str(step), allowed) or keys
    if kind == "ours":
        return str(context["error"]), context["error"].hint
    if kind not in _EXPECTED:
        return f"{context.get('error', 'this value is not allowed')}, found {shown(value)}", None
    expected = _EXPECTED[kind].format(**context)
    choices = _choices(expected) if kind == "literal_error" and isinstance(value, str) else []
    return f"expected {expected}, found {shown(value)}", did_you_mean(str(value), choices)


def _choices(expected: str) -> list[str]:
    return [word.strip().strip("'") for word in expected.replace(" or ", ",").split(",")]
