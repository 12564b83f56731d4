"""Transcripts: conversations as a person reads them, made from the events of a run.

The events can be damaged or forged, and texts can be written by anybody: what does not fit is passed over, and what
shows the lines makes them harmless first.
"""

from collections import deque
from typing import Final, Literal

import attrs

from sim.agents.conversation.events import (
    ConversationStarted,
    ConversationSummarised,
    MessageRevised,
    MessageSaid,
    UserChanged,
    UserCreated,
)
from sim.events.event_type import EventData, Malformed
from sim.kernel.codec import encode
from sim.llm.types import json_value

LineKind = Literal["user", "assistant", "error", "tool"]
"""What a line of a transcript is: a text of a person or an agent, an error, or the use of a tool."""

_SPOKEN: Final[dict[str, LineKind]] = {"user": "user", "assistant": "assistant", "error": "error"}
"""What a line is whose text is that of the message, by the role of its author."""

_KNOWN_USERS: Final = 1_000_000
_MOST_CALLS: Final = 1000  # calls without a result that are remembered


@attrs.define
class TranscriptLine:
    """One line of a transcript.

    Attributes:
        number: the number of the message in its conversation.
        time_ns: when it was written, in simulated nanoseconds.
        kind: what it is.
        name: who wrote it, as others see the name.
        text: the text; for a tool, how it was used.
    """

    number: int
    time_ns: int
    kind: LineKind
    name: str
    text: str


@attrs.define
class Transcript:
    """One conversation.

    Attributes:
        id, user, platform, channel, thread, started_ns: see `Conversation`.
        summary: the latest summary; empty if there is none.
        lines: what a person sees, oldest first, at most as many as are kept.
        total: the number of lines, with those that are not kept.
    """

    id: str
    user: str
    platform: str
    channel: str
    thread: str | None
    started_ns: int
    lines: deque[TranscriptLine]
    summary: str = ""
    total: int = 0
    calls: dict[str, deque[TranscriptLine]] = attrs.field(
        factory=dict
    )  # id of a call → lines of the calls without a result

    @property
    def place(self) -> str:
        """Where it takes place."""
        return "/".join(part for part in (self.platform, self.channel, self.thread) if part)


class Transcripts:
    """Collects transcripts from the events of a run.

    Args:
        lines: the most lines that are kept of each conversation, the latest; None: all.
        conversations: the most conversations that are kept, the first; None: all.
        only: the id of the only conversation that is collected; None: all.

    Attributes:
        by_id: the transcripts by id.
        total: the number of conversations, with those that are not kept.
    """

    def __init__(self, *, lines: int | None = None, conversations: int | None = None, only: str | None = None) -> None:
        self.by_id: dict[str, Transcript] = {}
        self.total = 0
        self._lines, self._most, self._only = lines, conversations, only
        self._names: dict[str, str] = {}

    def name(self, author: str) -> str:
        """Return the name of a user or an agent, as others see it."""
        return self._names.get(author, author)

    def add(self, time_ns: int, data: EventData | Malformed | None) -> None:
        """Take in the data of an event."""
        match data:
            case UserCreated() | UserChanged():
                if len(self._names) < _KNOWN_USERS:
                    self._names[data.user] = data.links[0].get("platform_username", "") if data.links else ""
            case ConversationStarted():
                self._start(time_ns, data)
            case MessageSaid() | MessageRevised() | ConversationSummarised():
                transcript = self.by_id.get(data.conversation)
                if transcript is None:
                    return
                if isinstance(data, MessageSaid):
                    self._message(transcript, time_ns, data)
                elif isinstance(data, MessageRevised):
                    for line in transcript.lines:
                        if line.kind == "error" and line.number == data.id:
                            line.text = data.content
                else:
                    transcript.summary = data.summary
            case _:
                pass

    def _start(self, time_ns: int, data: ConversationStarted) -> None:
        id = data.conversation
        if id in self.by_id:
            return
        self.total += 1
        if self._only not in (None, id) or (self._most is not None and len(self.by_id) >= self._most):
            return
        self.by_id[id] = Transcript(
            id=id,
            user=data.user,
            platform=data.platform,
            channel=data.channel,
            thread=data.thread,
            started_ns=time_ns,
            lines=deque(maxlen=self._lines),
        )

    def _message(self, transcript: Transcript, time_ns: int, data: MessageSaid) -> None:
        role, content, about = data.role, data.content, data.metadata or {}
        call = str(about.get("tool_use_id"))
        if role == "tool_result":
            waiting = transcript.calls.get(call)
            if waiting:
                line = waiting.popleft()
                line.text += ": ok" if about.get("success", True) else ": failed"
                if not waiting:
                    del transcript.calls[call]
            return
        if data.audience in ("model", "none"):
            return
        name = self.name(data.author)
        if role == "tool_call":
            line = TranscriptLine(data.id, time_ns, "tool", name, f"used {about.get('tool')}({_arguments(content)})")
            if len(transcript.calls) < _MOST_CALLS:
                transcript.calls.setdefault(call, deque(maxlen=_MOST_CALLS)).append(line)
        elif (kind := _SPOKEN.get(role)) is not None:
            ending = f": {about['ending']}" if about.get("ending") else ""
            mark = f" [incomplete{ending}]" if about.get("incomplete") else ""
            line = TranscriptLine(data.id, time_ns, kind, name, f"{content}{mark}")
        else:
            return
        transcript.lines.append(line)
        transcript.total += 1


def _arguments(text: str) -> str:
    """Return the arguments of a call as `order=7, fast=true`; of what is no JSON object, the text itself."""
    try:
        arguments = json_value(text)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        text = ", ".join(f"{key}={encode(value).decode()}" for key, value in arguments.items())
    return text
