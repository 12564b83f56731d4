"""The conversations of a run, as a person reads them."""

from typing import Any

from sim.agents.conversation.transcript import Transcript, Transcripts
from sim.inspect.report.room import Room

_CONVERSATIONS = 100
"""The most conversations that are shown, the first."""

_LINES = 200
"""The most lines of each conversation, the latest."""


def collector() -> Transcripts:
    """Return an empty collector, which keeps as much as the report shows."""
    return Transcripts(lines=_LINES, conversations=_CONVERSATIONS)


def to_json(found: Transcripts) -> dict[str, Any] | None:
    """Return the conversations for the page; None if there are none."""
    if not found.found:
        return None
    room = Room("conversation ID --limit 0")
    rows = [
        {
            "id": one.id, "place": one.place, "with": found.name(one.user), "began": one.started_ns / 1e9,
            "summary": room.take(one.summary), "total": one.total, "lines": _lines(one, room),
        }
        for one in found.found.values()
    ]  # fmt: skip
    return {"total": found.total, "rows": rows}


def _lines(transcript: Transcript, room: Room) -> list[dict[str, Any]]:
    return [
        {
            "time": line.time_ns / 1e9,
            "kind": line.kind,
            "name": line.name[:80],
            "text": room.take(line.text).splitlines(),
        }
        for line in transcript.lines
    ]
