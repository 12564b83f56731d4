"""Edge: a watchdog thread that reports a step that does not return.

Such a step (an endless loop, `time.sleep`) blocks the whole run. The report names the actor and shows its stack; the
step is not stopped. The deadlock detector of Temporal uses the same method and the same threshold of 2 s.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Self

import attrs

from sim.kernel.kernel import Kernel

THRESHOLD = 2.0
"""Default number of real seconds after which a step is reported."""


@attrs.frozen
class Stuck:
    """A step that does not return.

    Attributes:
        actor: the name of its actor.
        seconds: its duration so far in real seconds, at least.
        stack: its stack as text.
    """

    actor: str
    seconds: float
    stack: str


class Watchdog:
    """A context manager that watches the steps of a kernel.

    Args:
        kernel: the kernel to watch.
        report: a function that is called once for each stuck step, in the thread of the watchdog.
        threshold: the number of real seconds after which a step is reported.
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
