"""Channels of a run, as a person reads them."""

import click

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.table import print_table
from sim.cli.render.transcript import clock_of
from sim.record import StoredRun

_COUNTS = "SELECT channel, count(*), min(time_ns), max(time_ns) FROM channel_posts GROUP BY channel ORDER BY channel"
_POSTS = "SELECT time_ns, author, text FROM channel_posts WHERE channel = ? ORDER BY id"


def print_channels(stored: StoredRun, as_json: bool) -> None:
    """Print a line for each channel of a run."""
    clock = clock_of(stored)
    rows = [(name, count, clock(first), clock(last)) for name, count, first, last in stored.query(_COUNTS)]
    if as_json:
        print_json({"channels": [dict(zip(("channel", "posts", "first", "last"), row, strict=True)) for row in rows]})
    elif rows:
        print_table(["channel", "posts", "first", "last"], rows, exact=True)
    else:
        say("sim: no employee posted anything")


def print_channel(stored: StoredRun, channel: str, last: int | None, as_json: bool) -> None:
    """Print the posts of a channel, as in `[#ops-log] Marketing Agent: Loop completed.`

    Args:
        stored: the run.
        channel: the channel, with or without `#`.
        last: the most posts, the latest; None: all.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: if the run has no such channel.
    """
    name = channel if channel.startswith("#") else f"#{channel}"
    posts = stored.query(_POSTS, (name,))
    if not posts:
        channels = [row[0] for row in stored.query(_COUNTS)]
        hint = did_you_mean(name, channels) or (
            "`sim show RUN channel` lists all" if channels else "no employee posted anything"
        )
        raise UsageError(f"the run has no channel {name[:60]!r}", hint=hint)
    shown, clock = posts[-last:] if last else posts, clock_of(stored)
    if as_json:
        lines = [{"time_ns": time, "at": clock(time), "author": author, "text": text} for time, author, text in shown]
        print_json({"channel": name, "total": len(posts), "posts": lines})
        return
    for time_ns, author, text in shown:
        first, *more = text.splitlines() or [""]
        # A warning names its employee itself; a heartbeat begins with it.
        said = first if first.startswith(("WARNING", f"{author}:")) else f"{author}: {first}"
        click.echo(plain(f"{clock(time_ns)}  [{name}] {said}"))
        for line in more:
            click.echo(plain(line))
    if len(shown) < len(posts):
        say(f"sim: the latest {len(shown):,} of {len(posts):,} posts shown; --limit 0 shows all")
