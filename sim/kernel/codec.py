"""Canonical JSON (sorted keys, UTF-8): the encoding of everything that is recorded.

It is canonical so that the bytes, and therefore the hash of a run, depend on the values only. This is the only module
that imports `msgspec`.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
import msgspec

from sim.base.errors import ActorError

T = TypeVar("T")

Raw = msgspec.Raw
"""Bytes that are already canonical JSON. `encode` copies them unchanged."""

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:
    Json = Any  # libraries that read annotations at run time would check each part, which takes time
"""A JSON value. What it is in each case is asked with `isinstance`."""

JsonObject: TypeAlias = Mapping[str, Json]
"""A JSON object."""

Record = msgspec.Struct
"""The base class of small records that are created in each iteration (`class X(Record, frozen=True)`).

Creating one takes a fifth of the time of a named tuple and a tenth of the time of a frozen attrs class. It is encoded
as a JSON object. The encoding is canonical only if the fields are declared in alphabetical order.
"""


class Fact(Record, frozen=True, gc=False):
    """The base class of internal records whose fields are only numbers and text that is valid JSON.

    Such a record cannot change or fail to encode, so it is encoded when it is stored, not when it is created.
    """


Absent = msgspec.UnsetType
ABSENT = msgspec.UNSET
"""The value of a field that is omitted from the JSON of its record."""

changed = msgspec.structs.replace
"""Return a copy of a record with other values of the fields that are given by name."""

json_field = msgspec.field
"""Declare a field of a record whose key in JSON is another word: `json_field(name="topic")`."""

as_dict = msgspec.structs.asdict
"""Return the fields of a record as a new dict."""

_encode = encode_unchecked = msgspec.json.Encoder(order="deterministic").encode
"""`encode`, with the errors of msgspec as they are."""
_encode_in_order = msgspec.json.Encoder().encode
_items = msgspec.json.Decoder(list[Raw]).decode
_decode = msgspec.json.Decoder().decode


def encode(value: object) -> bytes:
    """Return `value` as canonical JSON.

    Raises:
        ActorError: if the value, or a part of it, is not a JSON value.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(value, error) from error


def freeze(value: object) -> Raw:
    """Return a snapshot of `value` as canonical JSON that can be recorded.

    Raises:
        ActorError: if the value, or a part of it, is not a JSON value.
    """
    try:
        return Raw(_encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(value, error) from error


NOT_JSON_HINT = "use finite numbers, text, booleans, None, lists, and dicts with text as keys"


def hash_of(value: object) -> str:
    """Return the SHA-256 (64 hex digits) of the canonical JSON of a value, in which the order of keys does not matter.

    Raises:
        ActorError: if the value is not JSON-like.
    """
    return hashlib.sha256(encode(value)).hexdigest()


def _not_json(value: object, error: Exception) -> ActorError:
    fault = json_fault(value, "the value") or f"the value is not JSON: {error}"
    return ActorError(f"a recorded value must be JSON-like, but {fault}", hint=NOT_JSON_HINT)


def json_fault(value: object, name: str) -> str | None:
    """Describe the first part of `value` that is not JSON, for example `state['friends'] is a set, which is not JSON`.

    This is stricter than `encode`, which writes a set as a list and NaN as null. It is also slower, because it visits
    each part in Python.

    Args:
        value: the value to check.
        name: the name of the value in the description.

    Returns:
        The description, or None if the value is JSON.
    """
    try:
        return _fault(value, name)
    except RecursionError:
        return f"{name} contains itself, or is nested too deeply"


def _fault(value: object, path: str) -> str | None:
    if isinstance(value, Record):
        value = {key: part for key, part in as_dict(value).items() if part is not ABSENT}  # as it is encoded
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                return f"{path} has a key that is {_kind(key)}, and keys must be text"
            if not _is_leaf(key) and (fault := _fault(key, f"a key of {path}")):
                return fault
            if not _is_leaf(inner) and (fault := _fault(inner, f"{path}[{key[:60]!r}]")):
                return fault
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            if not _is_leaf(inner) and (fault := _fault(inner, f"{path}[{index}]")):
                return fault
    elif isinstance(value, float):
        return None if math.isfinite(value) else f"{path} is {value!r}, which is not JSON"
    elif isinstance(value, set | frozenset) or not _can_encode(value):
        what = "text with half a surrogate pair" if isinstance(value, str) else _kind(value)
        return f"{path} is {what}, which is not JSON"
    return None


def _is_leaf(value: object) -> bool:
    """Return quickly whether a value is certainly JSON and has no parts, as most values."""
    kind = value.__class__
    return kind is int or kind is bool or value is None or (kind is str and value.isascii())  # type: ignore[attr-defined]


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _can_encode(value: object) -> bool:
    try:
        _encode(value)
    except (TypeError, ValueError):
        return False
    return True


def recordable(value: object, name: str) -> object:
    """Return `value` if it can be encoded, else a description of the faulty part: `{"not_json": ...}`."""
    try:
        _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return {"not_json": json_fault(value, name) or str(error)}
    return value


def decode_as(data: bytes, kind: type[T]) -> T:
    """Return the attrs object that JSON stands for. Its fields are checked against the types of the class.

    Args:
        data: the JSON.
        kind: the class.

    Raises:
        ValueError: if it is not JSON, or a field is missing, not known, or has another type.
    """
    try:
        value = _decode(data)
        made = msgspec.convert(value, kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    fields = {field.name for field in attrs.fields(kind)}  # type: ignore[arg-type]
    for name in value:
        if name not in fields:
            raise ValueError(f"there is no field {name!r:.60}")
    return made


def as_sent(value: object) -> bytes:
    """Return a value as JSON for another process, its keys in their order. It is not canonical, so it is not recorded.

    Raises:
        ValueError: if the value, or a part of it, is not a JSON value.
    """
    try:
        return _encode_in_order(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def reader(kind: Any) -> Callable[[bytes], Any]:
    """Return what reads a value of a type that `as_sent` wrote. It raises ValueError for any other bytes."""
    decode = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error

    return read


def converted(value: object, kind: type[T]) -> T:
    """Return the record of a class that a JSON value stands for. What the class has no field for is left out.

    Raises:
        ValueError: if a field is missing or has another type.
    """
    try:
        return msgspec.convert(value, kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def json_kinds(kind: type[Record]) -> dict[str, Any]:
    """Return the types of the fields of a class of records by their keys in JSON."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


def json_keys(kind: type[Record]) -> dict[str, str]:
    """Return the fields of a class of records in the order of their declaration, each with its key in JSON."""
    return {field.name: field.encode_name for field in msgspec.structs.fields(kind)}


def decode(data: bytes | Raw) -> Any:
    """Decode canonical JSON into a new value."""
    return _decode(data)


def json_items(body: bytes) -> list[bytes]:
    """Return the encoded items of a JSON list that is given without its brackets."""
    return [bytes(item) for item in _items(b"[" + body + b"]")]
