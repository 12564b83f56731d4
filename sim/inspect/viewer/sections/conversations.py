"""The conversations of a run, as a person reads them."""

from sim.agents.conversation.transcript import Transcript, Transcripts
from sim.inspect.viewer.room import Room
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.kernel.codec import JsonObject

_CONVERSATIONS = 100
"""The most conversations that are shown, the first."""

_LINES = 200
"""The most lines of each conversation, the latest."""


class Conversations(Section):
    """Collects conversations."""

    title = "Conversations"
    place = 120
    topics = ("conversation.*", "user.*")

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._transcripts = Transcripts(lines=_LINES, conversations=_CONVERSATIONS)

    def add(self, event: Event, data: Data) -> None:
        """Take in an event of a conversation, or of a person."""
        self._transcripts.add(event.time_ns, data)

    def to_json(self) -> Json:
        """Return the conversations; None if there are none."""
        transcripts = self._transcripts
        if not transcripts.by_id:
            return None
        room = Room("conversation ID --limit 0")
        rows: list[JsonObject] = [
            {
                "id": one.id,
                "place": one.place,
                "with": transcripts.name(one.user),
                "began": one.started_ns / 1e9,
                "summary": room.take(one.summary),
                "total": one.total,
                "lines": _lines(one, room),
            }
            for one in transcripts.by_id.values()
        ]
        return {"total": transcripts.total, "rows": rows}


def _lines(transcript: Transcript, room: Room) -> list[dict[str, Json]]:
    return [
        {
            "time": line.time_ns / 1e9,
            "kind": line.kind,
            "name": line.name[:80],
            "text": room.take(line.text).splitlines(),
        }
        for line in transcript.lines
    ]
