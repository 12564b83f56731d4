"""Tasks: what an agent wants done, by itself or another."""

import attrs

from sim.kernel.codec import Raw


@attrs.frozen
class Task:
    """Something to be done: its title, who made it, whose it is, and data as canonical JSON."""

    title: str
    creator: str
    assignee: str | None
    raw: Raw
