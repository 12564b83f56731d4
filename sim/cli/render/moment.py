"""The state of a run at one moment, as text."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any

import click

from sim.base.text import number
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.table import print_pairs, print_table
from sim.kernel.codec import encode
from sim.kernel.duration import seconds_text
from sim.record import StoredRun
from sim.runner.moment import HEADINGS, Moment, waits_of
from sim.runner.moments import Place, ReplayCost, moment_of
from sim.runner.options import ReplayOptions

_LONG, _SHORT = 300, 100  # characters of a value in a line, and in a column


def print_moment(
    stored: StoredRun, place: Place, agent: str | None, options: Mapping[str, Any], limit: int | None, *, as_json: bool
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
        found = moment_of(stored, place, chosen, tell_cost)
    one = None if agent is None else found.agent(agent)
    if as_json:
        print_json(found.to_json() if one is None else {"time": found.time, "agent": agent, **one})
        return
    click.echo(plain(f"{stored.info.id} at {seconds_text(found.time)}, after {number(found.events)} events"))
    click.echo()
    _print_world(found, limit) if one is None or agent is None else _print_agent(agent, one, limit)


def chosen_options(options: Mapping[str, Any]) -> ReplayOptions:
    """Return the options of a replay; the modules that they allow can be imported then."""
    chosen = ReplayOptions.of(options)
    if chosen.allow:
        from sim.cli.run import allow_imports

        allow_imports()
    return chosen


def tell_cost(cost: ReplayCost) -> None:
    """Say on stderr what a replay costs, before it begins."""
    seconds = number(max(1, round(cost.seconds)))
    say(f"sim: a replay of about {number(cost.events)} events comes first: up to {seconds} s")
    if cost.changed:
        say(f"sim: warning: changed since the run was recorded: {plain(', '.join(cost.changed))}")
        say("hint: what is shown is compared with the record up to there; `sim replay --allow-change` compares all")


def _print_world(found: Moment, limit: int | None) -> None:
    rows = found.rows()
    print_table(
        HEADINGS,
        [(name, state, seconds_text(since), _cut(waits, _SHORT), mail, _cut(variables, _SHORT))
         for name, state, since, waits, mail, variables in rows[:limit]],
        named=True,
    )  # fmt: skip
    _print_more(len(rows), limit)
    shared = [(name, _text(value)) for name, value in _shared(found)]
    click.echo()
    print_pairs(shared)
    if found.ahead:
        click.echo()
        print_table(
            ("due", "whose", "what"),
            [(seconds_text(one["at"]), one["whose"], one["what"]) for one in found.ahead[:limit]],
        )
        _print_more(len(found.ahead), limit)


def _shared(found: Moment) -> Iterator[tuple[str, Any]]:
    """Yield what agents share, and what is not empty of it."""
    for name, value in found.world.items():
        if name not in ("time", "draws") and (told := _without_nothing(value)):
            yield name, told
    if found.metrics:
        yield (
            f"metrics at {seconds_text(found.metrics['time'])}",
            {name: value for name, value in found.metrics.items() if name != "time"},
        )


def _without_nothing(value: Any) -> Any:
    """Return a value without what is 0 or empty in it."""
    if not isinstance(value, dict):
        return value
    parts = {key: _without_nothing(part) for key, part in value.items()}
    return {key: part for key, part in parts.items() if part}


def _print_agent(name: str, one: Mapping[str, Any], limit: int | None) -> None:
    told = [
        ("agent", name + (f", of the entry {one['entry']}" if one["entry"] not in (None, name) else "")),
        ("kind", one["kind"]),
        ("state", f"{one['state']} since {seconds_text(one['since'])}"),
        ("waits for", "; ".join(waits_of(one))),
        ("iteration", f"{number(one['iterations'])}" + ("" if one["began"] is None else _since(one["began"]))),
        ("action", None if one["doing"] is None else f"{one['doing']} {_text(one['arguments'])}"),
        ("errors in a row", one["errors"] or None),
        ("woken last by", one["woken_by"]),
        ("place", one["place"]),
        ("in space", one["space"]),
        ("holds", {**one["holds"], **one["quotas"]}),
        ("balance", one["balance"]),
    ]
    print_pairs([(key, _text(value)) for key, value in told if value not in (None, "", {}, [])])
    _print_list("variables", ("variable", "value"), [(key, _text(v)) for key, v in one["variables"].items()], limit)
    letters = [(seconds_text(m["time"]), m["sender"], m["topic"], m["is"], _text(m["data"])) for m in one["letters"]]
    _print_list("messages", ("sent", "from", "topic", "read", "data"), letters, limit, one["mail"])
    _print_list("timers", ("due", "what"), [(seconds_text(t["at"]), t["what"]) for t in one["timers"]], limit)
    calls = [(c["number"], c["kind"], seconds_text(c["since"]), _text(c["request"])) for c in one["calls"]]
    _print_list("calls without an answer", ("number", "kind", "since", "request"), calls, limit)
    tasks = [(t["id"], t["status"], t["title"]) for t in one["tasks"]]
    _print_list("open tasks", ("task", "status", "title"), tasks, limit)
    more = one["more"].items() if isinstance(one["more"], dict) else []
    _print_list("more", ("part", "state"), [(key, _text(value)) for key, value in more], limit)


def _since(seconds: float) -> str:
    return f", under way since {seconds_text(seconds)}"


def _print_list(
    title: str, headings: tuple[str, ...], rows: list[tuple[Any, ...]], limit: int | None, total: int | None = None
) -> None:
    if rows:
        click.echo()
        click.secho(title, bold=True)
        print_table(headings, rows[:limit])
        _print_more(len(rows) if total is None else total, limit)


def _print_more(total: int, limit: int | None) -> None:
    if limit is not None and total > limit:
        say(f"sim: note: {number(total - limit)} more are left out; --limit 0 shows all")


def _text(value: Any) -> str:
    return _cut(value if isinstance(value, str) else encode(value).decode())


def _cut(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else f"{text[:most]} ... [{len(text) - most:,} more characters; --json has all]"
