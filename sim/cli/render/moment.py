"""The state of a run at one moment, as text."""

import sys
from contextlib import redirect_stdout

import click

from sim.base.shown import Keywords
from sim.base.text import number
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.table import print_pairs, print_table
from sim.kernel.duration import seconds_text
from sim.record import StoredRun
from sim.runner.moment import HEADINGS, AgentThen, Moment
from sim.runner.moment_text import Listed, ahead_of, cut, facts_of, lists_of, shared_of, text_of
from sim.runner.moments import ReplayCost, RunPosition, moment_of
from sim.runner.options import ReplayOptions

_LONG, _SHORT = 300, 100  # characters of a value in a line, and in a column


def print_moment(
    stored: StoredRun, place: RunPosition, agent: str | None, options: Keywords, limit: int | None, *, as_json: bool
) -> None:
    """Replay a run up to a place, and print its state there.

    Args:
        stored: the run.
        place: the place.
        agent: the agent to print, whole; None: all, a line each, and what they share.
        options: of the replay; see `ReplayOptions`.
        limit: the most lines of each list; None: all.
        as_json: whether to print one JSON object.
    """
    chosen = chosen_options(options)
    with redirect_stdout(sys.stderr):  # output of agents is not part of the result
        moment = moment_of(stored, place, chosen, tell_cost)
    one = None if agent is None else moment.agent(agent)
    if as_json:
        print_json(moment.to_json() if one is None else {"time": moment.time, "agent": agent, **one})
        return
    click.echo(plain(f"{stored.info.id} at {seconds_text(moment.time)}, after {number(moment.events)} events"))
    click.echo()
    _print_world(moment, limit) if one is None or agent is None else _print_agent(agent, one, limit)


def chosen_options(options: Keywords) -> ReplayOptions:
    """Return the options of a replay; the modules that they allow can be imported then."""
    chosen = ReplayOptions.of(options)
    if chosen.allow:
        from sim.cli.run import import_from_here

        import_from_here()
    return chosen


def tell_cost(cost: ReplayCost) -> None:
    """Say on stderr what a replay costs, before it begins."""
    seconds = number(max(1, round(cost.seconds)))
    say(f"sim: a replay of about {number(cost.events)} events comes first: up to {seconds} s")
    if cost.answered:
        those = (
            "1 answer from outside is the one" if cost.answered == 1 else f"{number(cost.answered)} answers are those"
        )
        say(f"sim: {those} on record: no model, tool or person is asked")
    if cost.changed:
        say(f"sim: warning: changed since the run was recorded: {plain(', '.join(cost.changed))}")
        say("hint: what is shown is compared with the record up to there; `sim replay --allow-change` compares all")


def _print_world(moment: Moment, limit: int | None) -> None:
    rows = moment.rows()
    print_table(
        HEADINGS,
        [
            (name, state, seconds_text(since), cut(waits, _SHORT), mail, cut(variables, _SHORT))
            for name, state, since, waits, mail, variables in rows[:limit]
        ],
        named=True,
    )
    _print_more(len(rows), limit)
    shared = [(name, cut(text_of(value), _LONG)) for name, value in shared_of(moment)]
    click.echo()
    print_pairs(shared)
    if moment.ahead:
        click.echo()
        _print_rows(ahead_of(moment), limit)


def _print_agent(name: str, one: AgentThen, limit: int | None) -> None:
    print_pairs([(key, cut(text, _LONG)) for key, text in facts_of(name, one)])
    for listed in lists_of(one):
        click.echo()
        click.secho(listed.title, bold=True)
        _print_rows(listed, limit)


def _print_rows(listed: Listed, limit: int | None) -> None:
    rows = [[cut(cell, _LONG) if isinstance(cell, str) else cell for cell in row] for row in listed.rows[:limit]]
    print_table(listed.headings, rows)
    _print_more(listed.total, limit)


def _print_more(total: int, limit: int | None) -> None:
    if limit is not None and total > limit:
        say(f"sim: note: {number(total - limit)} more are left out; --limit 0 shows all")
