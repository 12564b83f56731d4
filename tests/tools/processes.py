"""The processes of this machine, for tests of what must not be left behind."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def processes_with(token: str) -> list[str]:
    """Return the processes of this machine that have `token` among their arguments, other than this one."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and folder.name != str(os.getpid()):
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in line:
                found.append(folder.name)
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until `condition` holds, at most `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come true in {seconds} seconds"
        time.sleep(0.02)
