"""A live display of a run in the terminal, redrawn a few times per second, or as lines of text."""

import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

import attrs

from sim.base.extras import need
from sim.base.text import number
from sim.cli.render.output import plain, say
from sim.cli.render.progress import PLAIN_SECONDS, ProgressPrinter
from sim.cli.render.snapshot import Level, RateMeter, Snapshot, pace_text, take_snapshot, time_text
from sim.cli.render.streams import Streams
from sim.runner import RunController

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live as RichLive
    from rich.table import Table
    from rich.text import Text

DRAW_SECONDS = 0.2
_SHARE = 20
"""At most 1/20 of the time is spent on drawing."""

_BAR = 24
_LEVELS, _LINES = 8, 12
_COLOURS = {
    "running": "green", "sleeping": "blue", "paused": "yellow", "starting": "magenta", "stopping": "white",
    "stopped": "bright_black",
}  # fmt: skip
_STATUS = {"running": "green", "finished": "green", "failed": "red", "killed": "red", "interrupted": "yellow"}


class Screen:
    """Draws snapshots: at a fixed place of a terminal, or as lines.

    Args:
        stream: the stream to draw on.
        terminal: whether the stream is a terminal. If not, lines go to stderr.

    Raises:
        UsageError: if it is a terminal, and the package that draws is not installed.
    """

    def __init__(self, stream: TextIO, *, terminal: bool) -> None:
        self.terminal = terminal
        self._stream = stream
        self._pulse = RateMeter()
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._live: RichLive | None = None
        if terminal:
            need("live", "the live display needs")
            picture(Snapshot("", "", 0, None, {}, {}), {}, [])
            _start(stream).stop()  # once now, with its imports, so that the time of the first drawing is representative

    def draw(self, look: Snapshot) -> None:
        """Show a snapshot."""
        rates = self._pulse.rates(look)
        self._lines.extend(text for text in look.newest[-_LINES:] if text not in self._lines)
        if not self.terminal:
            say(line_of(look, rates))
            return
        if self._live is None:
            self._live = _start(self._stream)
        room = self._live.console.height - 13 - min(_LEVELS, len(look.levels)) - len(look.errors)
        shown = list(self._lines)[-max(3, room) :]
        self._live.update(picture(look, rates, shown), refresh=True)

    def clear(self) -> None:
        """Remove the display. The next one appears below later output."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class LiveProgress(ProgressPrinter):
    """Shows a run of this process as a live display on stderr."""

    def __init__(self) -> None:
        super().__init__(live=False)
        self._screen = Screen(sys.stderr, terminal=sys.stderr.isatty() and sys.stdout.isatty())
        self._pause = DRAW_SECONDS if self._screen.terminal else PLAIN_SECONDS
        self._due = time.monotonic() + self._pause
        self._streams = Streams()

    def __call__(self, runner: RunController) -> None:
        """Show the run, if the next drawing is due."""
        started = time.monotonic()
        self._streams.follow(runner)
        self._warn(runner, started)
        if started < self._due:
            return
        self._screen.draw(attrs.evolve(take_snapshot(runner), streams=self._streams.lines()))
        ended = time.monotonic()
        self._due = ended + max(self._pause, (ended - started) * _SHARE)

    def clear(self) -> None:
        """Remove the display."""
        self._screen.clear()


def line_of(look: Snapshot, rates: Mapping[str, float]) -> str:
    """Return a snapshot as one line."""
    states = ", ".join(f"{number(count)} {state}" for state, count in look.states.items() if count)
    figures = [f"{number(look.figures[name])} {name}" for name in ("iterations", "events") if name in look.figures]
    return plain(", ".join(part for part in (_far(look), pace_text(rates), states, *figures) if part))


def picture(look: Snapshot, rates: Mapping[str, float], lines: list[str]) -> "RenderableType":
    """Return a snapshot as a rich object.

    Args:
        look: the snapshot.
        rates: the rates from `RateMeter`.
        lines: the latest events, as plain text.
    """
    from rich.box import ROUNDED
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table

    upper = Table.grid(expand=True, padding=(0, 3))
    upper.add_column(ratio=1)
    upper.add_column(ratio=1)
    upper.add_row(_states(look.states), _figures(look, rates))
    parts: list[RenderableType] = [_head(look, rates), _blank(), upper]
    if look.levels:
        parts += [_blank(), _levels(look.levels)]
    parts += [_text(f"! {plain(error)}", "red") for error in look.errors]
    if look.streams:
        parts += [_blank(), _text("answers that are arriving (provisional, not on record yet)", "bright_black")]
        parts += [_text(line, "cyan") for line in look.streams]
    if lines:
        parts += [_blank(), *(_text(line, "bright_black") for line in lines)]
    return Panel(Group(*parts), box=ROUNDED, border_style="bright_black", padding=(0, 1))


def _start(stream: TextIO) -> "RichLive":
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
    live.start()
    return live


def _text(text: str, style: str = "") -> "Text":
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _blank() -> "Text":
    return _text("")


def _far(look: Snapshot) -> str:
    if not look.until:
        return time_text(look.now)
    return f"{time_text(look.now)} of {time_text(look.until)} ({min(1.0, look.now / look.until):.0%})"


def _head(look: Snapshot, rates: Mapping[str, float]) -> "Table":
    from rich.table import Table

    head = Table.grid(expand=True, padding=(0, 2))
    head.add_column(ratio=1)
    head.add_column(justify="right", no_wrap=True)
    head.add_row(_text(plain(look.title), "bold"), _text(look.status, f"bold {_STATUS.get(look.status, '')}"))
    share = min(1.0, look.now / look.until) if look.until else 0.0
    far = _bar(share, _BAR * 2, "cyan") if look.until else _text("")
    far.append(f"  {_far(look)}")
    head.add_row(far, _text(pace_text(rates)))
    return head


def _states(states: Mapping[str, int]) -> "Table":
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    total = max(1, sum(states.values()))
    for state, count in states.items():
        if count:
            grid.add_row(
                _text(state), _bar(count / total, _BAR, _COLOURS.get(state, "white")), _text(number(count), "bold")
            )
    return grid


def _figures(look: Snapshot, rates: Mapping[str, float]) -> "Table":
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column(justify="right")
    for name, total in look.figures.items():
        style = "red" if total and name in ("errors", "refused") else "bold"
        rate = rates.get(name)
        grid.add_row(
            _text(name),
            _text(number(total), style),
            _text("" if rate is None else f"{number(round(rate, 0 if rate >= 10 else 1))}/s", "bright_black"),
        )
    return grid


def _levels(levels: tuple[Level, ...]) -> "Table":
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    for level in sorted(levels, key=lambda level: -level.share)[:_LEVELS]:
        colour = "red" if level.share >= 0.9 else "yellow" if level.share >= 0.7 else "green"
        grid.add_row(_text(plain(level.name)), _bar(level.share, _BAR, colour), _text(plain(level.text)))
    return grid


def _bar(share: float, width: int, colour: str) -> "Text":
    """Return a share as a bar, with a resolution of 1/8 character."""
    from rich.text import Text

    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    full, part = divmod(eighths, 8)
    body = "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")
    bar = Text(no_wrap=True)
    bar.append(body, colour)
    bar.append("·" * (width - len(body)), "bright_black")
    return bar
