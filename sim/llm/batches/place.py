"""The run that batches belong to, and what waits in them."""

from pathlib import Path

import attrs

from sim.kernel.ports import Background
from sim.llm.batches.notes import Notes


@attrs.frozen
class Place:
    """Where the batches of a run are served and noted.

    Args:
        run: the name of the run.
        background: runs work beside the run, and knows when the run cannot continue without answers.
        notes: what the run notes of its batches.
    """

    run: str
    background: Background
    notes: Notes

    @classmethod
    def of(cls, run: str, background: Background, folder: Path | None) -> "Place":
        """Return the place of a run, with the notes in its folder, if it has one.

        Raises:
            RunError: if the notes are damaged, or cannot be used.
        """
        return cls(run, background, Notes(run, folder))


@attrs.frozen
class Waiting:
    """What is under way: the number of requests in batches, the number of batches, and since when the oldest one waits.

    `since` is Unix time in seconds.
    """

    requests: int
    batches: int
    since: float
