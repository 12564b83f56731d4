"""One memory of an agent."""

from typing import Literal, get_args

from sim.base.errors import UsageError
from sim.events.event_type import Published, event_type
from sim.kernel.codec import as_dict

Source = Literal["agent", "tool", "person", "model", "summary"]
"""Where the text of a memory comes from. Text is data: its source is kept beside it, and no text grants anything.

`agent`: the agent itself. `tool`, `person`, `model`: the result of a tool, what a person wrote, what a model extracted.
`summary`: a summary of older memories.
"""

SOURCES: tuple[str, ...] = get_args(Source)

LEAST, MOST = 1, 10
"""The bounds of importance."""


@event_type("memory.added")
class Memory(Published, frozen=True, gc=False, kw_only=True):
    """A memory. A change creates a new record.

    Attributes:
        agent: the id of the agent that has it.
        archived: whether a summary stands for it: it is found by recall, and no longer loaded into prompts.
        content: the text.
        created_ns: when it was added, in simulated nanoseconds.
        expires_ns: the simulated time after which it is no longer found, or None.
        id: its number among the memories of its agent, from 1; never used again.
        importance: from 1 (least) to 10.
        kind: its kind, such as `observation`.
        related_task_id: the task that it belongs to, or None.
        source: where the text comes from.
    """

    agent: str
    archived: bool = False
    content: str
    created_ns: int
    expires_ns: int | None = None
    id: int
    importance: int
    kind: str
    related_task_id: int | None = None
    source: Source

    def expired(self, now_ns: int) -> bool:
        """Return whether it has expired at a simulated time: from the nanosecond after `expires_ns`."""
        return self.expires_ns is not None and self.expires_ns < now_ns

    def as_archived(self) -> "Memory":
        """Return the record with `archived` set."""
        return Memory(**{**as_dict(self), "archived": True})

    def line(self) -> str:
        """Return the memory as one line of a prompt, with kind, importance and source before the text.

        White space in the text becomes single spaces, so that no text can look like two memories. What else the text
        might pretend to be is a matter of the prompt, which has to escape it.
        """
        return f"- [{self.kind}, importance {self.importance}, from {self.source}] {' '.join(self.content.split())}"


def check_importance(importance: object) -> int:
    """Return an importance.

    Raises:
        UsageError: if it is not a whole number from 1 to 10.
    """
    if importance.__class__ is not int or not LEAST <= importance <= MOST:
        raise UsageError(f"an importance is a whole number from {LEAST} to {MOST}, not {importance!r:.60}")
    return importance
