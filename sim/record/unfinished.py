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

UNFINISHED: Final = "unfinished.json"

VERBS: Final = {
    "think": "thinks", "text": "says", "tool_start": "calls", "tool_arguments": "calls", "tool_complete": "has called",
}  # fmt: skip
"""What the latest part of an unfinished answer can be, and what the agent does then."""

LONGEST: Final = 2000
"""Characters of an unfinished answer that are kept: its end."""

MOST: Final = 20
"""Calls under way that are kept, the latest."""

_DRAFT = ".unfinished.json.draft"
_LARGEST = 2**20  # bytes; a file that sim wrote is far smaller


@attrs.frozen
class UnfinishedAnswer:
    """The end of an unfinished answer.

    Args:
        agent: the agent for which the model answers.
        kind: what the latest part is: a key of `VERBS`.
        text: what was thought, said or called so far.
    """

    agent: str
    kind: str
    text: str

    @property
    def verb(self) -> str:
        """What the agent does, for its readers."""
        return VERBS[self.kind]


def write_unfinished(folder: Path, answers: Iterable[UnfinishedAnswer]) -> None:
    """Replace the file in one step, so that no reader sees a part of it.

    Raises:
        OSError: if it cannot be written.
    """
    rows = [attrs.astuple(one) for one in answers]
    draft = folder / _DRAFT
    draft.unlink(missing_ok=True)
    draft.touch(0o600, exist_ok=False)
    draft.write_bytes(json.dumps(rows).encode())
    draft.replace(folder / UNFINISHED)


def drop_unfinished(folder: Path) -> None:
    """Delete the file, if there is one."""
    for name in (UNFINISHED, _DRAFT):
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def read_unfinished(folder: Path) -> tuple[UnfinishedAnswer, ...]:
    """Return what models are saying in a run under way; empty if nothing is known. What does not fit is left out."""
    path = folder / UNFINISHED
    try:
        if path.is_symlink() or path.stat().st_size > _LARGEST:
            return ()
        rows: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ()
    answers = [_read(row) for row in rows[:MOST]] if isinstance(rows, list) else []
    return tuple(one for one in answers if one is not None)


def _read(row: Any) -> UnfinishedAnswer | None:
    if not isinstance(row, list) or len(row) != len(attrs.fields(UnfinishedAnswer)):
        return None
    if not all(isinstance(part, str) for part in row):
        return None
    agent, kind, text = row
    return UnfinishedAnswer(agent, kind, text[-LONGEST:]) if kind in VERBS else None
