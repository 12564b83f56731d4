"""Crash points for tests: named places at which a test can kill the process, delay it, or make a write fail.

Production code calls `reach(name)`, which is a no-op unless a test has set `hook`. Between two crash points something
becomes durable or visible outside, so a crash at each of them is a separate case.
"""

from collections.abc import Callable
from typing import Final, Literal, get_args

Point = Literal[
    "run.drafted",  # the run folder has all its files, under a temporary hidden name
    "run.created",  # the run folder has its final name
    "writer.before",  # before a batch is written
    "writer.written",  # the batch is written, but not committed
    "writer.unnoted",  # the batch is committed, but the head file is not updated
    "writer.committed",  # the batch is committed, but not reported to the run
    "effect.started",  # the request is durable; the work is about to start
    "effect.done",  # the work is done, but its outcome is not recorded
    "effect.recorded",  # the outcome was passed to the writer
    "arrivals.applied",  # outcomes and inputs have their order, but are not durable
    "arrivals.durable",  # outcomes and inputs are durable, but no actor has seen them
    "batch.noted",  # a batch of model calls is planned and noted; nothing was sent
    "batch.uploaded",  # its file is uploaded, but that is not noted
    "batch.created",  # it is submitted, but that is not noted
    "batch.ended",  # its results were read, but no call has one
    "resume.claimed",  # a resumed run has its new epoch
    "resume.live",  # the whole record has been replayed
    "run.finishing",  # before the end of the run is written
    "run.finished",  # the end is written, but the write-ahead log is not merged
    "draft.made",  # an empty draft of an experiment, an archive or a page is there, and locked
    "files.drafted",  # files are whole, in a draft
    "files.replaced",  # one of them has its final name
    "results.drafted",  # the results of an experiment have their tables, in a draft
    "results.created",  # they have their final name
    "results.added",  # a trial is on record
    "archive.drafted",  # an archive is whole, in a draft
    "archive.created",  # it has its final name
    "archive.unpacked",  # a file of an archive is unpacked, in a draft
]

_OTHERS: Final = ("batch.", "draft.", "files.", "results.", "archive.")
POINTS: Final[tuple[Point, ...]] = tuple(point for point in get_args(Point) if not point.startswith(_OTHERS))
"""The crash points of a run that do not need batches of model calls."""

FILE_POINTS: Final[tuple[Point, ...]] = tuple(point for point in get_args(Point) if point.startswith(_OTHERS[1:]))
"""The crash points of experiments, archives and pages."""

hook: Callable[[Point], None] | None = None
"""Called at each crash point. It can kill the process, wait, or raise. Only tests set it."""


def reach(point: Point) -> None:
    """Call the hook, if there is one, for a crash point."""
    if hook is not None:
        hook(point)
