"""Errors of code that waits by asyncio, trio or anyio, which know no simulated time."""

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Final

from sim.base.errors import ForeignAwaitError

_OWN: Final = str(Path(__file__).parents[1])
"""The folder of the code of sim."""

_LIBRARIES: Final = frozenset(("anyio", "sniffio", "trio"))

_STANDARD: Final = str(Path(contextlib.__file__).parent)
"""The folder of the standard library. It may contain that of all other packages."""

_OUTSIDE: Final = (
    "no running event loop",
    "must be called from async context",
    "this must be called from the event loop",
    "There is no current event loop",
    "Not currently running on any asynchronous event loop",
    "unknown async library, or not in async context",
    "Already running asyncio in this thread",
    "Already running trio in this thread",
)
"""The beginnings of what these libraries say where none of them runs the code, and `anyio.run` in the host's thread."""

_NO_LOOP: Final = (
    "'NoneType' object has no attribute 'create_future'",
    "'RunContext' object has no attribute 'task'",
    "'RunContext' object has no attribute 'runner'",
)
"""What locks, events and queues of asyncio, and nurseries of trio, say there: they ask for the loop without a check."""

HINT: Final = (
    "write self.loop.sleep(...) and return, or await sim.sleep(...), or await perform(effect) for work outside of the"
    " simulation"
)


def foreign_place(error: BaseException) -> str | None:
    """Return the line of the code that waited by asyncio, trio or anyio, if the error says that it did."""
    if isinstance(error, RuntimeError):
        foreign = str(error).startswith(_OUTSIDE)
    elif isinstance(error, AttributeError):
        foreign = str(error) in _NO_LOOP
    else:
        foreign = isinstance(error, ForeignAwaitError)
    return _place(error.__traceback__) if foreign else None


def named(actor: str, error: BaseException) -> BaseException:
    """Return an error of an actor; if it has waited in a foreign way, one that names the actor and the line."""
    place = None if isinstance(error, ForeignAwaitError) else foreign_place(error)
    if place is None:
        return error
    foreign = ForeignAwaitError(f"{actor} awaited asyncio or trio, which know no simulated time, at {place}", hint=HINT)
    foreign.__cause__ = error
    return foreign.with_traceback(error.__traceback__)


def _place(traceback: TracebackType | None) -> str:
    """Return the last line of an agent's own code in a traceback, without the folder, which differs by machine."""
    place = "the agent"
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        folders = set(Path(file).parts)
        standard = file.startswith(_STANDARD) and "site-packages" not in folders
        if not (standard or file.startswith(_OWN) or _LIBRARIES & folders):
            place = f"{Path(file).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
