"""Past sessions of conversations with their summaries, found again by their words: the archive of a memory."""

from collections.abc import Iterator, Sequence
from typing import Any

from sim.base.errors import LimitError, UsageError
from sim.events.event_type import Published, event_type
from sim.kernel.codec import JsonObject, Raw, Record, decode, freeze
from sim.memory.index import Index
from sim.memory.time_frame import TimeFrame

_NOT_SEARCHED = frozenset({"id", "role", "tool_call_id"})  # values that are no words of anybody


@event_type("session.archived")
class ArchivedSession(Published, frozen=True, gc=False, kw_only=True):
    """One archived session.

    Attributes:
        agent: the agent whose session it was.
        completed_ns, started_ns: when it ended and began, in simulated nanoseconds.
        message_count, token_count: how many messages it has, and about how many tokens these have.
        reason: why it ended, such as `session_timeout`.
        session: the id that its owner gave it.
        summary: what it was about, in a few sentences.
    """

    agent: str
    completed_ns: int
    message_count: int
    reason: str
    session: str
    started_ns: int
    summary: str
    token_count: int


class SessionHit(Record, frozen=True):
    """A session that a search found, and its score in millionths (0: the search had no words)."""

    session: ArchivedSession
    score: int


class SessionArchive:
    """The archived sessions of one agent, in the order in which they were archived."""

    __slots__ = ("_index", "_messages", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[str, ArchivedSession] = {}
        self._messages: dict[str, Raw] = {}
        self._index: Index | None = None  # made by the first search

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session: str) -> ArchivedSession | None:
        """Return a session by its id, or None."""
        return self._sessions.get(session)

    def messages(self, session: str) -> list[Any]:
        """Return the messages of a session, as new values.

        Raises:
            UsageError: if there is no such session.
        """
        if session not in self._messages:
            raise UsageError(f"there is no archived session {session!r:.80}")
        messages: list[Any] = decode(self._messages[session])
        return messages

    def add(self, session: ArchivedSession, messages: Raw) -> None:
        """Add a session."""
        self._sessions[session.session] = session
        self._messages[session.session] = messages
        if self._index is not None:
            self._index.add(len(self._sessions), _text(session, messages))

    def latest(self, limit: int) -> tuple[ArchivedSession, ...]:
        """Return the latest sessions, oldest first, as they belong in a prompt."""
        return tuple(self._sessions.values())[-limit:]

    def search(self, query: str, frame: TimeFrame | None, limit: int) -> list[SessionHit]:
        """Return the sessions with words of a query in their summary or messages: best first, at equal scores newest.

        Args:
            query: the words; without any, the newest sessions are returned.
            frame: when the session ended; None: at any time.
            limit: the most results.
        """
        sessions = list(self._sessions.values())

        def keep(number: int) -> bool:
            return frame is None or frame[0] <= sessions[number - 1].completed_ns < frame[1]

        if self._index is None:
            self._index = Index()
            for number, session in enumerate(sessions, 1):
                self._index.add(number, _text(session, self._messages[session.session]))
        return [SessionHit(sessions[number - 1], score) for number, score in self._index.search(query, limit, keep)]

    def state(self) -> list[Any]:
        """Return all sessions with their messages, for the digest."""
        return [[session, self._messages[id]] for id, session in self._sessions.items()]


def freeze_messages(messages: Sequence[JsonObject], most_bytes: int, owner: str) -> Raw:
    """Return messages as canonical JSON.

    Raises:
        ActorError: if they are not JSON-like.
        LimitError: if they have too many bytes.
    """
    raw = freeze(list(messages))
    if len(raw) > most_bytes:
        raise LimitError(
            "session_bytes", len(raw), most_bytes, owner, hint="archive more often, or raise memory.session_bytes"
        )
    return raw


def _text(session: ArchivedSession, messages: Raw) -> str:
    return "\n".join([session.summary, *_strings(decode(messages))])


def _strings(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value, except keys, roles and ids. The depth is limited by the decoder."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(part for key, part in value.items() if key not in _NOT_SEARCHED)
