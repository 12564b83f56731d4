"""A worker of a sweep that ends early: imported by name in workers."""

import os
import sys
import threading
from pathlib import Path


def work(job: tuple[str, int]) -> int:
    """Return the square of a number, or end the process first, or never end, or write to its stdout."""
    what, number = job
    if what == "die":
        os._exit(3)
    if what == "exit":
        sys.exit(1)
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "wait":
        threading.Event().wait()
    if what == "write":
        os.write(1, b"written past Python")
    if what.startswith("once "):
        mark = Path(what.removeprefix("once "))
        if not mark.exists():
            mark.touch()
            os._exit(3)
    return number * number
