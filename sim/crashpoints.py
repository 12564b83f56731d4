"""Named places at which a process may be killed, a disk may be slow or a write may fail: for the proofs.

Production code calls `reach(name)`, which does nothing unless a test has set `hook`. The places are those between which
something becomes durable or visible outside, so a kill at each of them is a case of its own.
"""

from collections.abc import Callable
from typing import Final, Literal, get_args

Point = Literal[
    "run.drafted",  # all of a run's folder is there, under its hidden name
    "run.created",  # the folder of the run is complete
    "writer.before",  # a batch is about to be written
    "writer.written",  # it is written, and not committed
    "writer.unnoted",  # it is committed, and not noted outside the database
    "writer.committed",  # it is committed, and nobody knows yet
    "effect.started",  # its intent is durable, and its work is about to begin
    "effect.done",  # its work is done, and nothing of it is recorded
    "effect.recorded",  # its outcome was handed to the writer
    "arrivals.applied",  # outcomes and inputs have their place, and are not durable
    "arrivals.durable",  # they are durable, and no actor has seen them
    "resume.claimed",  # a resumed run has its new epoch
    "resume.live",  # all that was on record has been made again
    "run.finishing",  # the end is about to be written
    "run.finished",  # it is written, and the log not yet folded in
]

POINTS: Final[tuple[Point, ...]] = get_args(Point)

hook: Callable[[Point], None] | None = None
"""Called at each place; may kill the process, wait, or raise. Set by tests only."""


def reach(point: Point) -> None:
    """Say that `point` has been reached."""
    if hook is not None:
        hook(point)
