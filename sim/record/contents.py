"""Deduplicated storage of requests: a request is split into parts, and each part is stored once.

Each request of a conversation repeats the whole conversation. If requests were stored whole, the file would grow with
the square of the length of the conversation. Therefore each item of a list, and each long text, is stored once, by the
hash of its content. The request keeps a skeleton with references: `{"$": [i, n]}` stands for parts i to i + n - 1.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from sim.kernel.codec import decode, encode

_MARK = "$"
_ITEM = 64  # minimum length in bytes of an item of a list that is stored as a part
_TEXT = 256  # minimum length in bytes of a text that is stored as a part
_LONGEST_SIGN = 6  # maximum length in bytes of a character in JSON: \u001f
_MOST = 10_000_000  # maximum number of parts of one request, with repetitions


def split(value: Any) -> tuple[bytes, list[bytes]]:
    """Return the skeleton of a JSON value and its parts, all as canonical JSON."""
    parts: list[bytes] = []
    return encode(_skeleton(value, parts)), parts


def join(skeleton: bytes, parts: Sequence[Any]) -> Any:
    """Restore the value that `split` has split.

    Args:
        skeleton: as JSON.
        parts: the values of the parts. They become parts of the value that is returned.

    Raises:
        ValueError, LookupError: if the skeleton does not match the parts.
    """
    return _Joint(parts).value(decode(skeleton))


def content_hash(part: bytes) -> str:
    """Return the hash (64 hex digits) that identifies a part."""
    return hashlib.sha256(part).hexdigest()


def _skeleton(value: Any, parts: list[bytes]) -> Any:
    if isinstance(value, dict) and _MARK not in value:
        return {key: _skeleton(inner, parts) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        items: list[Any] = []
        for item in value:
            _add(items, _part(item, parts, _ITEM))
        return items
    if isinstance(value, str | dict):
        return _part(value, parts, _TEXT)
    return value


def _part(value: Any, parts: list[bytes], least: int) -> Any:
    if isinstance(value, str) and _LONGEST_SIGN * len(value) + 2 < least:
        return value
    body = encode(value)
    if len(body) < least and not (isinstance(value, dict) and _MARK in value):
        return value
    parts.append(body)
    return {_MARK: [len(parts) - 1, 1]}


def _add(items: list[Any], item: Any) -> None:
    """Append `item` to `items`, or merge it with the last item if both are references."""
    if _is_mark(item) and items and _is_mark(items[-1]):
        items[-1][_MARK][1] += 1
    else:
        items.append(item)


def _is_mark(value: Any) -> bool:
    return isinstance(value, dict) and _MARK in value


class _Joint:
    """Restores a value from its parts. The number of parts is limited, because a malicious file may repeat them."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self._used = 0

    def value(self, skeleton: Any) -> Any:
        """Return the value of a skeleton."""
        if _is_mark(skeleton):
            return self._take(skeleton)[0]
        if isinstance(skeleton, dict):
            return {key: self.value(inner) for key, inner in skeleton.items()}
        if isinstance(skeleton, list):
            items: list[Any] = []
            for item in skeleton:
                items.extend(self._take(item) if _is_mark(item) else (item,))
            return items
        return skeleton

    def _take(self, mark: dict[str, Any]) -> Sequence[Any]:
        first, count = mark[_MARK]
        self._used += count
        if self._used > _MOST:
            raise ValueError(f"a request has more than {_MOST:,} parts")
        return self._parts[first : first + count]
