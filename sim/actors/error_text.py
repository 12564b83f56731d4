"""What is said of an iteration that failed."""

from sim.base.text import of_error
from sim.kernel.foreign import foreign_place


def failure_text(error: BaseException) -> str:
    """Return the type and message of what an agent has raised, as it is recorded.

    If the agent has awaited asyncio or trio, the text says where, and what to write instead.
    """
    place = foreign_place(error)
    if place is None:
        return of_error(error)
    return (
        f"ForeignAwaitError: {place} waits by asyncio or trio, which know no simulated time;"
        " write self.loop.sleep(...) and return, or await perform(effect) for work outside of the simulation"
    )
