"""Reports a step that does not yield: a thread looks at the kernel from outside (edge).

A step may block the whole run (an endless loop, `time.sleep`). Temporal's deadlock detector uses the same
means and a threshold of 2 s. The report names the actor and shows where it is; nothing is killed.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Self

import attrs

from sim.kernel.kernel import Kernel

THRESHOLD = 2.0
"""Real seconds that a step may take before it is reported."""


@attrs.frozen
class Stuck:
    """A step that does not yield: whose it is, for how long (real seconds, at least), its stack as text."""

    actor: str
    seconds: float
    stack: str


class Watchdog:
    """Watches one kernel while it is used as a context manager.

    Args:
        kernel: whose steps are watched.
        report: called from the watching thread with what was found, once for each stuck step.
        threshold: real seconds.
    """

    def __init__(self, kernel: Kernel, report: Callable[[Stuck], None], threshold: float = THRESHOLD) -> None:
        self._kernel = kernel
        self._report = report
        self._threshold = threshold
        self._stop = threading.Event()
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="sim-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._watched = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        seen: object = None
        reported: object = None
        while not self._stop.wait(self._threshold):
            step = self._kernel.step_under_way()
            if step is not None and step is seen and step is not reported:
                reported = step
                self._report(self._describe())
            seen = step

    def _describe(self) -> Stuck:
        source = self._kernel.current
        frame = sys._current_frames().get(self._watched)
        stack = "".join(traceback.format_stack(frame)[-8:]) if frame else ""
        return Stuck(source.name if source else "kernel", self._threshold, stack)
