"""Progress of a run, or of a bench, on stderr."""

import shutil
import sys
import time

from sim.cli.render.output import plain, say
from sim.cli.render.snapshot import waiting_text
from sim.cli.render.summary import duration
from sim.cli.render.table import number
from sim.host.watchdog import Stuck
from sim.runner import SimulationRunner

LIVE_SECONDS = 0.1
PLAIN_SECONDS = 5.0
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


class Progress:
    """Shows the progress of a run at intervals.

    Args:
        live: whether stderr is a terminal, on which a line can be overwritten.
    """

    def __init__(self, *, live: bool) -> None:
        self._line = StatusLine(live=live)
        self._pause = LIVE_SECONDS if live else PLAIN_SECONDS
        self._began = time.monotonic()
        self._next = self._began + self._pause

    def __call__(self, runner: SimulationRunner) -> None:
        """Show the progress of `runner`, if an update is due."""
        started = time.monotonic()
        if started < self._next:
            return
        self._line.show(self._text(runner, started))
        ended = time.monotonic()
        pause = self._pause
        if not self._line.live and waiting_text(runner):
            pause = max(pause, WAITING_SECONDS)
        self._next = ended + max(pause, (ended - started) * _SHARE)

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()

    def stuck(self, stuck: Stuck) -> None:
        """Report a step that does not yield. It is called from another thread."""
        self.clear()
        say(f"sim: warning: a step of {plain(stuck.actor)} has not yielded for {stuck.seconds:g} s; it is at:")
        for line in stuck.stack.rstrip().splitlines()[-2:]:  # the innermost frame: the agent's own code
            say(f"  {plain(line.strip())}")

    def _text(self, runner: SimulationRunner, now: float) -> str:
        manager = runner.simulation.manager
        simulated, until = runner.simulation.world.now, runner.until
        limit = "" if until is None else f" of {duration(until)} ({simulated / until:.0%})"
        pace = simulated / (now - self._began)
        states = ", ".join(f"{number(count)} {state}" for state, count in manager.states().items() if count)
        return (
            f"{duration(round(simulated))}{limit}, "
            f"{number(round(pace))} x real time, {states}, {number(manager.totals().iterations)} iterations"
            f"{failures(runner)}{'; ' + waiting if (waiting := waiting_text(runner)) else ''}"
        )


def failures(runner: SimulationRunner) -> str:
    """Return the number of failed model calls as the end of a line; empty if none failed."""
    models = runner.simulation.models
    total = None if models is None else models.spend.total
    if total is None or not total.failed:
        return ""
    return f", {number(total.failed)} of {number(total.calls + total.failed)} model calls failed"
