"""Requests of effects, taken apart so that each part is stored once.

The requests of a conversation repeat its history: stored whole, a file would grow with the square of what was said. So
each item of a list, and each long text, is stored once, by the hash of its content, and a request keeps only where they
belong: `{"$": [i, n]}` stands for parts i to i + n - 1.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from sim.kernel.codec import decode, encode

_MARK = "$"
_ITEM = 64  # bytes from which an item of a list is a part
_TEXT = 256  # bytes from which a text is a part
_MOST = 10_000_000  # parts that one request may be made of, counted each time


def split(value: Any) -> tuple[bytes, list[bytes]]:
    """Return the skeleton of a JSON-like value, and its parts, both as canonical JSON."""
    parts: list[bytes] = []
    return encode(_skeleton(value, parts)), parts


def join(skeleton: bytes, parts: Sequence[bytes]) -> Any:
    """Return the value that `split` took apart.

    Raises:
        ValueError, LookupError: if the skeleton does not belong to the parts.
    """
    return _Joint([decode(part) for part in parts]).value(decode(skeleton))


def content_hash(part: bytes) -> str:
    """Return the hash by which a part is found (64 hex digits)."""
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
    body = encode(value)
    if len(body) < least and not (isinstance(value, dict) and _MARK in value):
        return value
    parts.append(body)
    return {_MARK: [len(parts) - 1, 1]}


def _add(items: list[Any], item: Any) -> None:
    """Append `item`; a part that follows another one of the list joins it."""
    if _is_mark(item) and items and _is_mark(items[-1]):
        items[-1][_MARK][1] += 1
    else:
        items.append(item)


def _is_mark(value: Any) -> bool:
    return isinstance(value, dict) and _MARK in value


class _Joint:
    """Puts a value together from parts, and stops before it grows beyond all measure: the file may be made to."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self._used = 0

    def value(self, skeleton: Any) -> Any:
        """Return what a skeleton stands for."""
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
            raise ValueError("a request of too many parts")
        return self._parts[first : first + count]
