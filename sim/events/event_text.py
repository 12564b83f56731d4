"""The text of events, for lists of events and for the history of an agent."""

from typing import Any

from sim.base.text import plain
from sim.events.event_type import EventData, read_data
from sim.kernel.codec import encode
from sim.kernel.duration import seconds_text, to_seconds
from sim.kernel.rows import RecordedEvent

LONGEST = 200
"""The most characters of data in a text; the rest is cut off."""


def event_text(topic: str, data: Any, agent: str | None = None) -> tuple[str, ...]:
    """Return the text of an event, in parts of which some can be empty. It can contain untrusted text of agents.

    Args:
        topic: the topic of the event.
        data: the data of the event.
        agent: the agent in whose history the text appears; its name is omitted.
    """
    read = read_data(topic, data)
    text = read.describe(topic, agent) if isinstance(read, EventData) else None
    return (topic, short(data)) if text is None else text


def event_line(row: RecordedEvent, agent: str | None = None) -> str:
    """Return an event as a line of plain text: its time, its actor, and what happened.

    Args:
        row: the event.
        agent: the agent in whose history the line appears; its name is omitted.
    """
    time, name = seconds_text(to_seconds(row.time_ns)), row.actor
    what = " ".join(part for part in event_text(row.topic, row.data, agent) if part)
    who = "" if agent is not None else f"{name}  "
    return plain(f"{time:>14}  {who}{what}")


def short(data: Any, longest: int = LONGEST) -> str:
    """Return data as JSON text, cut off if it is long; empty for no data."""
    if data is None or data == {}:
        return ""
    text = encode(data).decode()
    return text if len(text) <= longest else f"{text[:longest]}..."
