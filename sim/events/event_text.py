"""The text of events, for lists of events and for the history of an agent."""

from collections.abc import Mapping
from typing import Any

from sim.base.text import plain
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
    known = data if isinstance(data, Mapping) else {}
    if topic == "agent.state":
        reason = known.get("reason")
        why = reason if isinstance(reason, str) else short(reason)
        return "state", f"{known.get('from')} > {known.get('to')}", f"({why})" if why else ""
    if topic == "message.sent":
        mine = known.get("sender") == agent
        other = f"to {known.get('to')}" if mine or agent is None else f"from {known.get('sender')}"
        return "message", other, str(known.get("topic") or ""), short(known.get("data"))
    if topic.startswith("action.") and known:
        return "action", topic.removeprefix("action."), short(known.get("arguments")), *_outcome(known)
    return topic, short(data)


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


def _outcome(action: Mapping[str, Any]) -> tuple[str, ...]:
    reason = f"({action['reasoning']})" if action.get("reasoning") else ""
    if not action.get("success"):
        return f"refused: {action.get('error')}", reason
    result = short(action.get("result"))
    return f"= {result}" if result else "", reason
