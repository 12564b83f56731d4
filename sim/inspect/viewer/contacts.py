"""Who said something to whom: messages, conversations, channels, and what agents asked models inside a run.

Payments are contacts, too, so they are found in the same way, although nothing is said in them.
"""

from typing import Final, Literal, NamedTuple, get_args

from sim.events.coerce import mapping
from sim.inspect.viewer.names import NameTable
from sim.kernel.codec import JsonObject

ContactKind = Literal["message", "conversation", "channel", "model", "survey", "payment"]
KINDS: Final = get_args(ContactKind)
PAYMENT: Final = KINDS.index("payment")

_MOST_CONVERSATIONS: Final = 200_000


class Contact(NamedTuple):
    """One text that somebody wrote, or one payment.

    Attributes:
        kind: the kind, as an index into `KINDS`.
        source: the number of the name that wrote it.
        target: the number of the name to which it was written, or -1.
        place: the number of the conversation or channel in which it stands, or -1.
    """

    kind: int
    source: int
    target: int
    place: int


class Contacts:
    """Finds what was said in the events of a run.

    Args:
        names: receives the names.
    """

    def __init__(self, names: NameTable) -> None:
        self._names = names
        self._users: dict[str, int] = {}
        self._sides: dict[str, tuple[int, int]] = {}  # conversation → its user, and the agent that wrote last

    def of(self, actor: int, topic: str, data: JsonObject) -> Contact | None:
        """Return what was said in an event, or None. Events can be forged, so any value can be of any type."""
        names = self._names
        match topic:
            case "message.sent":
                return Contact(0, names.number(str(data.get("sender"))), names.number(str(data.get("to"))), -1)
            case "conversation.message":
                return self._conversation(actor, data)
            case "conversation.started":
                self._start(data)
            case "user.created" | "user.changed":
                self._user(data)
            case "channel.post":
                channel = names.number(str(data.get("channel")), "channel", role="channel")
                author = actor if names.is_agent(actor) else names.number(str(data.get("author")))  # often a title
                return Contact(2, author, channel, channel)
            case "action.ask":
                return Contact(3, actor, -1, -1)
            case "ledger.transferred":
                return Contact(PAYMENT, names.number(str(data.get("from"))), names.number(str(data.get("to"))), -1)
            case "survey.answer":
                return Contact(4, names.number(str(data.get("agent"))), -1, -1)
            case _:
                pass
        return None

    def _user(self, data: JsonObject) -> None:
        user, links = str(data.get("user")), data.get("links")
        first = mapping(links[0]) if isinstance(links, list) and links else {}
        label = str(first.get("platform_username") or user)
        if len(self._users) < _MOST_CONVERSATIONS:
            agent = self._names.actor_number(label)  # an agent that writes on a platform is named as its account there
            is_agent = agent is not None and self._names.is_agent(agent)
            self._users[user] = agent if is_agent and agent is not None else self._as_user(user, label)

    def _as_user(self, user: str, label: str | None = None) -> int:
        return self._names.number(user, "user", label, "user")

    def _start(self, data: JsonObject) -> None:
        id, user = str(data.get("conversation")), str(data.get("user"))
        if len(self._sides) < _MOST_CONVERSATIONS:
            self._sides[id] = (self._author(user), -1)

    def _author(self, author: str) -> int:
        number = self._users.get(author)
        if number is not None:
            return number
        return self._as_user(author) if author.startswith("user:") else self._names.number(author)

    def _conversation(self, actor: int, data: JsonObject) -> Contact:
        id, author = str(data.get("conversation")), self._author(str(data.get("author")))
        place = self._names.number(id, "conversation", role="conversation")
        user, agent = self._sides.get(id, (-1, -1))
        if data.get("role") == "user":
            other = actor if actor != author and self._names.is_agent(actor) else agent
        else:
            other = user
            if len(self._sides) < _MOST_CONVERSATIONS or id in self._sides:
                self._sides[id] = (user, author)
        return Contact(1, author, other, place)
