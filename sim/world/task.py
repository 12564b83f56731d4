"""Tasks: work items that agents create for themselves or others."""

import attrs

from sim.kernel.codec import Raw


@attrs.frozen
class Task:
    """One task: its title, its creator, its assignee (None: any agent), and its data as canonical JSON."""

    title: str
    creator: str
    assignee: str | None
    raw: Raw
