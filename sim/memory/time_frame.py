"""Time frames: which span of simulated time words such as `last_week` mean."""

from collections.abc import Callable
from typing import Final

from sim.errors import UsageError
from sim.memory.settings import DAY_NS

TimeFrame = tuple[int, int]
"""Simulated nanoseconds: from the first, before the second."""

ReadTimeFrame = Callable[[str, int], TimeFrame]
"""Returns the time frame that words mean at a simulated time (nanoseconds); a calendar of the world can give one.

It must know `today`, `last_week` and `last_month`, and can know dates. It raises `UsageError` for other words.
"""

WEEK_NS: Final = 7 * DAY_NS
MONTH_NS: Final = 30 * DAY_NS


def simulated_time_frame(words: str, now_ns: int) -> TimeFrame:
    """Return a time frame for a world without a calendar, where a day begins every 24 hours from the start of the run.

    `today` is the present day so far, `last_week` the seven days and `last_month` the thirty days up to now.

    Raises:
        UsageError: if it is another word, or a date.
    """
    begins = {"today": now_ns // DAY_NS * DAY_NS, "last_week": now_ns - WEEK_NS, "last_month": now_ns - MONTH_NS}
    if words not in begins:
        raise UsageError(
            f"{words!r:.60} is not a time frame of this world",
            hint=f"use one of {', '.join(begins)}; dates need a calendar in the scenario",
        )
    return max(begins[words], 0), now_ns + 1
