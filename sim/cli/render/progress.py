"""Progress of a run, or of a bench, on stderr."""

import shutil
import sys
import time

from sim.base.text import number
from sim.cli.render.output import plain, say
from sim.cli.render.snapshot import waiting_text
from sim.host.watchdog import Stuck
from sim.runner import RunController
from sim.runner.progress import activity, calls, reached
from sim.runner.troubles import Troubles

LIVE_SECONDS = 0.1
PLAIN_SECONDS = 5.0
QUIET_SECONDS = 60.0
"""Between two lines outside a terminal, if none were asked for."""

WAITING_SECONDS = 60.0
_SHARE = 20
"""At most 1/20 of the time is spent on showing progress."""

CLEAR = "\r\x1b[K"


class StatusLine:
    """One line on stderr that is overwritten, or permanent lines.

    Args:
        live: whether stderr is a terminal, on which a line can be overwritten.
    """

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self._following = time.monotonic() + PLAIN_SECONDS

    def is_due(self) -> bool:
        """Return whether to show something: always on a terminal, otherwise once in `PLAIN_SECONDS`."""
        if not self.live and time.monotonic() < self._following:
            return False
        self._following = time.monotonic() + PLAIN_SECONDS
        return True

    def show(self, text: str) -> None:
        """Write `text`. It must be plain text already."""
        if self.live:
            columns = shutil.get_terminal_size().columns
            sys.stderr.write(f"{CLEAR}{text[: columns - 1]}")
            sys.stderr.flush()
        else:
            say(text)

    def clear(self) -> None:
        """Remove the line. Permanent lines remain."""
        if self.live:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()


def say_stuck(stuck: Stuck) -> None:
    """Report a step that does not yield. It is called from another thread, also in workers."""
    say(f"sim: warning: a step of {plain(stuck.actor)} has not yielded for {stuck.seconds:g} s; it is at:")
    for line in stuck.stack.rstrip().splitlines()[-2:]:  # the innermost frame: the agent's own code
        say(f"  {plain(line.strip())}")


class ProgressPrinter:
    """Shows the progress of a run at intervals, and at once what goes wrong.

    Args:
        live: whether stderr is a terminal, on which a line can be overwritten.
        often: whether there are lines every few seconds without a terminal; otherwise, there is one in a minute.
    """

    def __init__(self, *, live: bool, often: bool = False) -> None:
        self._line = StatusLine(live=live)
        self._pause = LIVE_SECONDS if live else PLAIN_SECONDS if often else QUIET_SECONDS
        self._began = time.monotonic()
        self._next = self._began + self._pause
        self._troubles = Troubles(self._began)
        self._looked = self._began

    def __call__(self, runner: RunController) -> None:
        """Show the progress of `runner`, if an update is due."""
        started = time.monotonic()
        self._warn(runner, started)
        if started < self._next:
            return
        self._line.show(self._text(runner, started))
        ended = time.monotonic()
        pause = self._pause
        if not self._line.live and waiting_text(runner):
            pause = max(pause, WAITING_SECONDS)
        self._next = ended + max(pause, (ended - started) * _SHARE)

    def _warn(self, runner: RunController, now: float) -> None:
        """Say what has begun to go wrong, at most once a second."""
        if now - self._looked < 1.0:
            return
        self._looked = now
        for trouble in self._troubles.new(runner, now):
            self.clear()
            say(f"sim: warning: {plain(trouble)}")

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()

    def stuck(self, stuck: Stuck) -> None:
        """Report a step that does not yield. It is called from another thread."""
        self.clear()
        say_stuck(stuck)

    def _text(self, runner: RunController, now: float) -> str:
        pace = runner.now / (now - self._began)
        waiting = f"; {text}" if (text := waiting_text(runner)) else ""
        return f"{reached(runner)}, {number(round(pace))} x real time, {activity(runner)}{calls(runner)}{waiting}"
