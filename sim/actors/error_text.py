"""What is said of an iteration that failed."""

from pathlib import Path
from types import TracebackType
from typing import Final

from sim.errors import ForeignAwaitError
from sim.text import of_error

_OWN: Final = str(Path(__file__).parents[1])
"""The folder of the code of sim."""

_OUTSIDE: Final = ("no running event loop", "must be called from async context")
"""What asyncio and trio say where none of them runs the code."""


def failure_text(error: BaseException) -> str:
    """Return the type and message of what an agent has raised, as it is recorded.

    If the agent has awaited asyncio or trio, the text says where, and what to write instead.
    """
    foreign = isinstance(error, ForeignAwaitError) or (isinstance(error, RuntimeError) and str(error) in _OUTSIDE)
    if not foreign:
        return of_error(error)
    return (
        f"ForeignAwaitError: {_place(error.__traceback__)} waits by asyncio or trio, which know no simulated time;"
        " write self.loop.sleep(...) and return, or await perform(effect) for work outside of the simulation"
    )


def _place(traceback: TracebackType | None) -> str:
    """Return the last line of an agent's own code in a traceback, without the folder, which differs by machine."""
    found = "the agent"
    while traceback is not None:
        code = traceback.tb_frame.f_code
        folder = Path(code.co_filename).parts
        if not code.co_filename.startswith(_OWN) and not {"asyncio", "trio"} & set(folder):
            found = f"{Path(code.co_filename).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
