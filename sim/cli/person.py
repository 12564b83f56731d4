"""Shared code of the commands by which a person takes part in a run, such as `tell`, `set`, `approve` and `pause`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sim.base.errors import RunError, UsageError
from sim.cli.render.output import plain, print_json
from sim.kernel.duration import seconds_text
from sim.record.inbox import InboxAnswer, Verb, ask, await_answer, status_of

Command = TypeVar("Command", bound=Callable[..., Any])

WAIT = 10.0
"""Default time in seconds that a command waits until the run has taken in what was asked."""


def wait_options(command: Command) -> Command:
    """Add the options that say how long to wait for the answer."""
    wait = click.option(
        "--wait",
        type=click.FloatRange(0, 86_400),
        default=WAIT,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait until the run has taken it in.",
    )
    none = click.option("--no-wait", is_flag=True, help="Do not wait for the answer.")
    return wait(none(command))


def ask_run(folder: Path, verb: Verb, done: str, *, wait: float, no_wait: bool, as_json: bool, **arguments: Any) -> int:
    """Ask something of a run that is under way, print the outcome, and return the exit code.

    Args:
        folder: the run folder.
        verb: what is asked.
        done: what happens then, in words; the simulated time is added.
        wait: how long to wait for the answer, in seconds.
        no_wait: do not wait.
        as_json: print JSON.
        arguments: those of the method of `Control`.

    Raises:
        UsageError: if the run is not under way, or there is no such agent or gate. Nothing has changed then.
        RunError: if the run refused it, or did not take it in.
    """
    key = ask(folder, verb, **arguments)
    if no_wait:
        _print(folder, key, None, "written; the run takes it in when it can", as_json=as_json)
        return 0
    answer = await_answer(folder, key, wait)
    if answer is None:
        raise _unanswered(folder, wait)
    if answer.outcome == "wrong":
        raise UsageError(answer.reason or "", hint=answer.hint)
    if answer.outcome == "refused":
        raise RunError(f"refused: {answer.reason}{'' if answer.time_ns is None else f' (at {_time(answer)})'}")
    _print(folder, key, answer, f"{done} (at {_time(answer)})", as_json=as_json)
    return 0


def _print(folder: Path, key: str, answer: InboxAnswer | None, words: str, *, as_json: bool) -> None:
    if not as_json:
        click.echo(plain(words))
        return
    time = None if answer is None or answer.time_ns is None else answer.time_ns / 1e9
    outcome = "written" if answer is None else answer.outcome
    print_json({"run": folder, "request": key, "outcome": outcome, "time": time})


def _time(answer: InboxAnswer) -> str:
    return seconds_text((answer.time_ns or 0) / 1e9)


def _unanswered(folder: Path, wait: float) -> RunError:
    status = status_of(folder)
    if status == "running":
        return RunError(
            f"{folder} has not taken it in within {wait:g} s, but will as soon as it can",
            hint="a step of an agent may take long, or the process hangs; --wait SECONDS waits longer",
        )
    if status == "finished":
        return RunError(f"{folder} has finished before it took this in: nothing was changed")
    hint = f"it takes it in when you continue it: sim resume {folder}"
    return RunError(f"{folder} was {status} before it took this in", hint=hint)
