"""How far a run is, and a bar that shows it: in a terminal on stderr, and in a notebook below the cell (edge)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from sim.kernel.duration import seconds_text
from sim.runner.options import Watcher
from sim.runner.runner import SimulationRunner
from sim.text import number, plain


def reached(runner: SimulationRunner) -> str:
    """Return the simulated time, and how much of the whole it is: `1h of 4h (25%)`."""
    simulated, until = runner.simulation.world.now, runner.until
    limit = "" if until is None else f" of {seconds_text(until)} ({simulated / until:.0%})"
    return f"{seconds_text(round(simulated))}{limit}"


def activity(runner: SimulationRunner) -> str:
    """Return the number of agents in each state, of iterations, and of failed model calls."""
    manager = runner.simulation.manager
    states = [f"{number(count)} {state}" for state, count in manager.states().items() if count]
    return ", ".join([*states, f"{number(manager.totals().iterations)} iterations"]) + failures(runner)


def failures(runner: SimulationRunner) -> str:
    """Return the number of failed model calls as the end of a line; empty if none failed."""
    models = runner.simulation.models
    total = None if models is None else models.spend.total
    if total is None or not total.failed:
        return ""
    return f", {number(total.failed)} of {number(total.calls + total.failed)} model calls failed"


@contextmanager
def shown(progress: Watcher | bool | None) -> Iterator[Watcher | None]:
    """Yield what shows the progress of a run: a function of the caller, or a bar that is removed at the end.

    There is no bar if stderr is neither a terminal nor a notebook, for instance in tests.

    Args:
        progress: a function, True for a bar, or None or False for nothing.
    """
    if not isinstance(progress, bool):
        yield progress
    elif progress and _in_notebook():
        with _notebook_bar() as bar:
            yield bar
    elif progress and sys.stderr.isatty():
        with _terminal_bar() as bar:
            yield bar
    else:
        yield None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")  # it has been imported if this is a notebook
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def _terminal_bar() -> Iterator[Watcher]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[told]}", markup=False),
    )
    console = Console(stderr=True)
    bar = Progress(
        *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    )
    with bar:
        task = bar.add_task("", told="", total=None)

        def show(runner: SimulationRunner) -> None:
            bar.update(
                task, description=plain(runner.simulation.scenario.name), told=f"{reached(runner)}, {activity(runner)}",
                completed=runner.simulation.world.now, total=runner.until, refresh=True,
            )  # fmt: skip

        yield show


@contextmanager
def _notebook_bar() -> Iterator[Watcher]:
    from sim.pages import tag

    handle = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)

    def show(runner: SimulationRunner) -> None:
        told = f"{runner.simulation.scenario.name}: {reached(runner)}, {activity(runner)}"
        value = None if runner.until is None else runner.simulation.world.now / runner.until
        bar = tag("progress", value=value, max=1, style="width: 20em; vertical-align: middle")
        handle.update({"text/html": tag("div", bar, " ", told), "text/plain": plain(told)}, raw=True)

    try:
        yield show
    finally:
        handle.update({"text/html": "", "text/plain": ""}, raw=True)
