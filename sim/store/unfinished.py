"""Edge: what models are saying at the moment, beside the run file, for who watches a run of another process.

The file has the unfinished answers of calls under way. It is provisional: no part of the record or of a hash, replaced
a few times a second, and deleted when the run ends. The whole answers are in the record.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

PARTIAL: Final = "partial.json"

KINDS: Final = ("think", "text", "tool_start", "tool_arguments", "tool_complete")
"""What the latest part of an unfinished answer can be."""

LONGEST: Final = 2000
"""Characters of an unfinished answer that are kept: its end."""

MOST: Final = 20
"""Calls under way that are kept, the latest."""

_DRAFT = ".partial.json.draft"
_LARGEST = 2**20  # bytes; a file that sim wrote is far smaller


@attrs.frozen
class Partial:
    """The end of an unfinished answer.

    Args:
        agent: the agent for which the model answers.
        kind: what the latest part is: one of `KINDS`.
        text: what was thought, said or called so far.
    """

    agent: str
    kind: str
    text: str


def write_partials(folder: Path, partials: Iterable[Partial]) -> None:
    """Replace the file in one step, so that no reader sees a part of it.

    Raises:
        OSError: if it cannot be written.
    """
    rows = [attrs.astuple(one) for one in partials]
    draft = folder / _DRAFT
    draft.unlink(missing_ok=True)
    draft.touch(0o600, exist_ok=False)
    draft.write_bytes(json.dumps(rows).encode())
    draft.replace(folder / PARTIAL)


def drop_partials(folder: Path) -> None:
    """Delete the file, if there is one."""
    for name in (PARTIAL, _DRAFT):
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def read_partials(folder: Path) -> tuple[Partial, ...]:
    """Return what models are saying in a run under way; empty if nothing is known. What does not fit is left out."""
    path = folder / PARTIAL
    try:
        if path.is_symlink() or path.stat().st_size > _LARGEST:
            return ()
        rows: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ()
    found = [_read(row) for row in rows[:MOST]] if isinstance(rows, list) else []
    return tuple(one for one in found if one is not None)


def _read(row: Any) -> Partial | None:
    if not isinstance(row, list) or len(row) != len(attrs.fields(Partial)):
        return None
    if not all(isinstance(part, str) for part in row):
        return None
    agent, kind, text = row
    return Partial(agent, kind, text[-LONGEST:]) if kind in KINDS else None
