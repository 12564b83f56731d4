"""A worker of a sweep that ends early: imported by name in workers."""

import os
from pathlib import Path


def work(job: tuple[str, int]) -> int:
    """Return the square of a number; `die` ends the process, and leaves a mark so that it dies as often as told."""
    what, number = job
    if what == "die":
        os._exit(3)
    if what.startswith("once "):
        mark = Path(what.removeprefix("once "))
        if not mark.exists():
            mark.touch()
            os._exit(3)
    return number * number
