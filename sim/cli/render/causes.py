"""What led to an event of a run, and what it may have influenced, as text."""

import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypedDict

import click

from sim.base.errors import SimError, UsageError
from sim.base.shown import Keywords
from sim.base.text import number
from sim.cli.render.moment import chosen_options, tell_cost
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.table import print_table
from sim.events.event_text import event_line
from sim.inspect.compare.comparison import Comparison, compare
from sim.kernel.codec import decode
from sim.kernel.duration import seconds_text
from sim.kernel.rows import RecordedEvent
from sim.llm import Access
from sim.record import StoredRun, open_run
from sim.runner import branch
from sim.runner.causes import CausalStep, causes_of, influence_of
from sim.runner.options import ReplayOptions
from sim.runner.rebuild import models_asked

_OTHERS = {
    "start": "the start of the run",
    "outside": "from outside: an input, or the answer to a call",
    "unknown": "a step that the trace does not know",
}
_EVENT = "SELECT time_ns, delta, priority, source, counter, actor, topic, data FROM events WHERE id = ?"


def print_causes(stored: StoredRun, event: int, options: Keywords, limit: int | None, *, as_json: bool) -> None:
    """Replay a run up to an event with a trace, and print the steps that led to it.

    Args:
        stored: the run.
        event: the number of the event.
        options: of the replay; see `ReplayOptions`.
        limit: the most steps; None: all.
        as_json: whether to print one JSON object.
    """
    chosen = chosen_options(options)
    with redirect_stdout(sys.stderr):  # output of agents is not part of the result
        causes = causes_of(stored, event, chosen, most=limit, on_cost=tell_cost)
    if as_json:
        print_json(causes.to_json())
        return
    click.echo(f"event {event}: {_line(stored, event)}")
    names = {step.step: f"#{place}" for place, step in enumerate(causes.steps, 1)}
    for step in causes.steps:
        click.echo()
        _print_step(stored, step, names)
    click.echo()
    steps, sources = causes.ancestors
    click.echo(
        f"{number(steps)} of the {number(causes.of)} steps before it, of {number(sources)} agents and other sources,"
        " may have influenced it"
    )
    if causes.cut:
        say(f"sim: note: {number(causes.cut)} more steps are left out, and what led to them; --limit 0 shows all")


def _print_step(stored: StoredRun, step: CausalStep, names: Mapping[int, str]) -> None:
    made = ""
    if step.events is not None:
        first, last = step.events
        made = f", event {first}" if first == last else f", events {first} to {last}"
    click.secho(plain(f"{names[step.step]} {step.agent} at {seconds_text(step.time)}{made}"), bold=True)
    if step.folded:
        steps = "1 step" if step.folded == 1 else f"{number(step.folded)} steps"
        click.echo(f"   after {steps} of its own since {seconds_text(step.since)}, which took and read nothing")
    by = _OTHERS.get(step.by, "") or _named(step.cause, names)
    event = "" if step.woken is None else f", event {step.woken}: {_line(stored, step.woken)}"
    click.echo(plain(f"   caused by {by}{event}"))
    for at, taken in step.took:
        what = "a message" if taken is None else f"event {taken}: {_line(stored, taken)}"
        click.echo(plain(f"   took {what} ({_named(at, names)})"))
    if step.reads:
        listed = ", ".join(_named(one, names) for one in step.read)
        more = step.reads - len(step.read)
        click.echo(f"   read the state as of {listed}" + (f", and of {number(more)} more agents" if more else ""))
    for pool, at in step.used.items():
        click.echo(plain(f"   used the pool {pool} after {_named(at, names)}"))
    if step.drew:
        click.echo("   drew random numbers")


def _named(step: int | None, names: Mapping[int, str]) -> str:
    return names.get(-1 if step is None else step, "a step that is left out")


def _line(stored: StoredRun, event: int) -> str:
    """Return an event as one line."""
    rows = stored.query(_EVENT, (event,))
    if not rows:
        return ""
    *other_columns, data = rows[0]
    row = RecordedEvent._make((*other_columns, decode(data.encode()), (0, 0)))
    return plain(" ".join(event_line(row).split()))[:200]


def print_influence(stored: StoredRun, event: int, options: Keywords, limit: int | None, *, as_json: bool) -> None:
    """Replay a run with a trace, and print what an event may have influenced, and what differs without it.

    The arguments are those of `print_causes`; `limit` is the most agents, and the most differing events.
    """
    chosen = chosen_options(options)
    with redirect_stdout(sys.stderr):  # output of agents is not part of the result
        influence = influence_of(stored, event, chosen, on_cost=tell_cost)
        differs, why_not = _without(stored, event, chosen)
    if as_json:
        print_json({**influence.to_json(), "without": differs, "not_branched": why_not})
        return
    click.echo(f"event {event}: {_line(stored, event)}")
    click.echo()
    reached, later = influence.events
    events, agents = f"{number(reached)} of the {number(later)} later events", number(len(influence.agents))
    click.echo(
        f"it may have influenced {events}, and {agents} of {number(influence.sources)} agents and other sources:"
    )
    click.echo("through wake-ups, messages, states that were read, and pools. A step need not use what it took;")
    click.echo("accounts, limits, places and artifacts, which agents share as well, are not followed.")
    click.echo()
    rows = [(name, seconds_text(time)) for name, time in list(influence.agents.items())[:limit]]
    print_table(("agent", "first at"), rows, named=True)
    if limit is not None and len(influence.agents) > limit:
        say(f"sim: note: {number(len(influence.agents) - limit)} more are left out; --limit 0 shows all")
    click.echo()
    if differs is None:
        click.echo(plain(f"what differs without it is not known: {why_not}"))
        return
    if differs["first"] is None:
        click.echo("in a branch without it, nothing else differs")
        return
    click.echo("in a branch without it, this differs first")
    for which, line in zip(("with it", "without it"), differs["first"], strict=True):
        click.echo(f"   {which}: {line or 'nothing more'}")
    if differs["figures"]:
        click.echo()
        print_table(("what", "with it", "without it"), differs["figures"], named=True)


def _without(stored: StoredRun, event: int, options: ReplayOptions) -> tuple["_Differs | None", str | None]:
    """Return what differs in a branch without an event, or why there is none."""
    if Access(tuple(models_asked(stored.info.options))).outside:
        return None, f"the branch would ask language models; sim branch {stored.info.id} --without {event} does it"
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = branch(
                stored.path,
                without=(event,),
                out=Path(folder),
                allow_change=options.allow_change,
                allow=options.allow,
                allow_commands=options.allow_commands,
            )
        except UsageError as error:
            return None, str(error)
        except SimError as error:
            return None, f"the branch has failed: {error}"
        with open_run(Path(str(made.run))) as other:
            comparison = compare(stored, other, None)
    return _differences(comparison), None


def _seen(row: RecordedEvent | None) -> Any:
    return None if row is None else (row.time_ns, row.actor, row.topic, row.data)


class _Differs(TypedDict):
    """What a branch without an event has otherwise: the first line that differs, and figures of both."""

    first: tuple[str, str] | None
    figures: list[tuple[str, Any, Any]]


def _differences(comparison: Comparison) -> _Differs:
    """Return what differs first in a branch without an event, and the figures and the last samples that differ.

    The event itself, and the one that says that it was left out, do not count.
    """
    first = None
    for one, other in zip_longest(*(rows[1:] for rows in comparison.after)):
        if _seen(one) != _seen(other):
            first = (_short(one), _short(other))
            break
    last = {name: pairs["last"] for name, pairs in comparison.metrics.items() if "last" in pairs}
    pairs = {**comparison.figures, **last}
    figures = [(name, pair.left, pair.right) for name, pair in pairs.items() if pair.left != pair.right]
    return {"first": first, "figures": figures}


def _short(row: RecordedEvent | None) -> str:
    return "" if row is None else plain(" ".join(event_line(row).split()))[:200]
