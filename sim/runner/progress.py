"""How far a run is, and a bar that shows it: in a terminal on stderr, and in a notebook below the cell (edge)."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

from sim.base.text import number, plain
from sim.kernel.duration import seconds_text
from sim.resources import MICRO
from sim.runner.options import Watcher
from sim.runner.runner import RunController

_BAR = 40  # columns
_ERASE = "\r\x1b[2K"  # the line of a terminal

Bar = Callable[[str, str, float | None], None]
"""Shows a bar: what it is about, a text, and how much of the whole is done (0 to 1; None: that is not known)."""


def reached(runner: RunController) -> str:
    """Return the simulated time, and how much of the whole it is: `1h of 4h (25%)`."""
    simulated, until = runner.now, runner.until
    limit = "" if until is None else f" of {seconds_text(until)} ({simulated / until:.0%})"
    return f"{seconds_text(round(simulated))}{limit}"


def activity(runner: RunController) -> str:
    """Return the number of agents in each state, of iterations, and of failed model calls."""
    figures = runner.figures()
    states = [f"{number(count)} {state}" for state, count in figures.states.items() if count]
    return ", ".join([*states, f"{number(figures.iterations)} iterations"]) + failures(runner)


def failures(runner: RunController) -> str:
    """Return the number of failed model calls as the end of a line; empty if none failed."""
    models = runner.simulation.models
    total = None if models is None else models.spend.total
    if total is None or not total.failed:
        return ""
    return f", {number(total.failed)} of {number(total.calls + total.failed)} model calls failed"


def calls(runner: RunController) -> str:
    """Return the model calls, their timeouts and cost, and the calls that wait, as the end of a line; empty if none."""
    models = runner.simulation.models
    if models is None or not (models.spend.models or models.counts.in_flight):
        return ""
    total, late = models.spend.total, models.outcomes().get("timeout", 0)
    parts = [f"{number(total.calls)} model calls"]
    parts += [f"{number(late)} timeouts"] if late else []
    parts += [f"{total.cost_micro / MICRO:.4g} spent"] if total.cost_micro else []
    parts += [f"{number(models.counts.in_flight)} calls in flight"] if models.counts.in_flight else []
    return ", " + ", ".join(parts)


@contextmanager
def shown(progress: Watcher | bool | None) -> Iterator[Watcher | None]:
    """Yield what shows the progress of a run: a function of the caller, or a bar that is removed at the end.

    There is no bar if stderr is neither a terminal nor a notebook, for instance in tests.

    Args:
        progress: a function, True for a bar, or None or False for nothing.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    with bar(wanted=progress) as show:
        if show is None:
            yield None
            return

        def report(runner: RunController) -> None:
            share = None if runner.until is None else runner.simulation.world.now / runner.until
            show(runner.simulation.scenario.name, f"{reached(runner)}, {activity(runner)}", share)

        yield report


@contextmanager
def bar(*, wanted: bool = True) -> Iterator[Bar | None]:
    """Yield a function that shows a bar, which is removed at the end; None if there is no place for one.

    Args:
        wanted: whether there is to be a bar at all.
    """
    if wanted and _in_notebook():
        with _notebook_bar() as show:
            yield show
    elif wanted and sys.stderr.isatty():
        with _terminal_bar() as show:
            yield show
    else:
        yield None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")  # it has been imported if this is a notebook
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def _terminal_bar() -> Iterator[Bar]:
    def write(text: str) -> None:
        sys.stderr.write(f"{_ERASE}{text}")
        sys.stderr.flush()

    def show(name: str, text: str, share: float | None) -> None:
        full = round(_BAR * min(1.0, share or 0.0))
        line = plain(f"{name} {'━' * full}{' ' * (_BAR - full)} {text}")
        write(line[: shutil.get_terminal_size().columns - 1])

    try:
        yield show
    finally:
        write("")


@contextmanager
def _notebook_bar() -> Iterator[Bar]:
    from sim.base.pages import tag

    handle = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)

    def show(name: str, text: str, share: float | None) -> None:
        made = tag("progress", value=share, max=1, style="width: 20em; vertical-align: middle")
        line = f"{name}: {text}"
        handle.update({"text/html": tag("div", made, " ", line), "text/plain": plain(line)}, raw=True)

    try:
        yield show
    finally:
        handle.update({"text/html": "", "text/plain": ""}, raw=True)
