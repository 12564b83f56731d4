"""Recorded events as lines of text."""

from collections import deque
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import click

from sim.base.errors import UsageError
from sim.cli.render.output import print_json
from sim.cli.render.rows import say_rest
from sim.events.event_text import event_line
from sim.events.topic import check_pattern, matches
from sim.kernel.codec import Json
from sim.kernel.rows import RecordedEvent
from sim.record import StoredRun
from sim.record.rows import Row
from sim.world.events import MessageSent


def print_events(
    stored: StoredRun, *, agent: str | None, topic: str | None, first: int | None, last: int | None, as_json: bool
) -> None:
    """Print events, one a line; for the arguments see `choose`."""
    rows, count = choose(stored.rows(), agent=agent, topic=topic, first=first, last=last)
    if as_json:
        print_json({"count": count, "events": [event_json(row.whole()) for row in rows]})
        return
    for row in rows:
        click.echo(event_line(row.whole(), agent))
    if last is None:
        say_rest(len(rows), count)


def choose(
    rows: Iterable[Row], *, agent: str | None, topic: str | None, first: int | None, last: int | None
) -> tuple[list[Row], int]:
    """Return the selected events in order, and the number of all matching events.

    Args:
        rows: all events.
        agent: only events of this agent, and messages to it.
        topic: only topics that match this pattern.
        first: the most events from the beginning; None: all.
        last: the most events from the end; overrides `first`.

    Raises:
        UsageError: if the agent is not in the run, or the pattern is malformed.
    """
    if topic is not None:
        check_pattern(topic)
    actors: set[str] = set()
    matching = _matching(rows, agent, topic, actors)
    count = 0
    kept: deque[Row] = deque(maxlen=last)
    for row in matching:
        count += 1
        if last is not None or first is None or count <= first:
            kept.append(row)
    if agent is not None and agent not in actors:
        near = get_close_matches(agent, actors, 1)
        hint = f"did you mean {near[0]}?" if near else None
        raise UsageError(f"the run has no events of an agent {agent!r}", hint=hint)
    return list(kept), count


def event_json(row: RecordedEvent) -> dict[str, Json]:
    """Return an event as a JSON-like mapping."""
    return row._asdict()


def _matching(rows: Iterable[Row], agent: str | None, topic: str | None, actors: set[str]) -> Iterator[Row]:
    for row in rows:
        actors.add(row.actor)
        if agent is not None and row.actor != agent and not _is_to(row, agent):
            continue
        if topic is None or matches(topic, row.topic):
            yield row


def _is_to(row: Row, agent: str) -> bool:
    return row.topic == MessageSent.TOPIC and isinstance(sent := row.event, MessageSent) and sent.to == agent
