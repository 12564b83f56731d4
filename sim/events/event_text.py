"""The text of events, for lists of events and for the history of an agent."""

from collections.abc import Mapping
from typing import Any

from sim.kernel.codec import encode

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
