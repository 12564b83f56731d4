"""Markdown of a description: words and values of a scenario, which stay text, whatever they contain."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sim.base.text import plain

_LONGEST: Final = 2000  # characters of a value


def by_author(what: str) -> str:
    """Return the mark of something that only the author can write."""
    return f"*To be written by the author: {what}.*"


def words(value: Any) -> str:
    """Return a text as words of a sentence: without line breaks, and without signs that Markdown reads."""
    text, more = _cut(plain("" if value is None else " ".join(str(value).split())))
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text) + more


def code(value: Any) -> str:
    """Return a value as code: in one line, with a mark that does not occur in it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text, more = _cut(plain(" ".join(text.split())))
    text = text.replace("|", "\\|")
    mark = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return (f"{mark}{text}{mark}" if mark == "`" else f"{mark} {text} {mark}") + more


def _cut(text: str) -> tuple[str, str]:
    left = len(text) - _LONGEST
    return (text, "") if left <= 0 else (text[:_LONGEST], f" (cut here; {left:,} more characters are in the scenario)")


def codes(values: Iterable[Any]) -> str:
    """Return values as code, with commas."""
    return ", ".join(map(code, values))


def listed(parts: Iterable[str]) -> str:
    """Return phrases as a list in a sentence: with commas, and `and` before the last one."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table of cells that are Markdown, and a blank line; nothing without rows."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    if lines:
        yield from (f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |", *lines, "")


def pairs(head: tuple[str, str], rows: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """Yield a table of names and values."""
    yield from table(head, ((words(key), code(value)) for key, value in rows))


def quoted(lines: Iterable[str]) -> str:
    """Return lines as a quotation."""
    return "\n".join(f"> {plain(line).replace('<', '&lt;')}".rstrip() for line in lines)


def comment_of(text: str) -> str:
    """Return the comment at the beginning of a scenario, without the line for editors, as a quotation."""
    lines = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if line and "yaml-language-server" not in line:
            lines.append(line.lstrip("# "))
    return quoted(lines)
