"""The names of a view: agents, and what else is written to or about. Each has a number, in the order of appearance."""

from typing import Final, Literal, get_args

Role = Literal["other", "agent", "channel", "conversation", "user"]
"""What a name stands for."""

ROLES: Final = get_args(Role)
_AGENT: Final = ROLES.index("agent")
MOST_NAMES: Final = 50_000
MOST_TOPICS: Final = 5_000
REST: Final = "(further names)"


class NameTable:
    """Numbers for names. The same text can name an agent and a channel, so a name belongs to a kind of names.

    Attributes:
        labels: the names, by number.
        roles: what each stands for, as an index into `ROLES`.
    """

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.roles: list[int] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, name: str, kind: str = "actor", label: str | None = None, role: Role = "other") -> int:
        """Return the number of a name, which is new at its first use. Beyond `MOST_NAMES`, all names share one number.

        Args:
            name: the name.
            kind: the kind of names that it belongs to.
            label: what people see; None: the name.
            role: what it stands for, if it is new.
        """
        number = self._numbers.get((kind, name))
        if number is None:
            if len(self.labels) >= MOST_NAMES:
                kind, name, label = "rest", REST, REST
                if (kind, name) in self._numbers:
                    return self._numbers[kind, name]
            number = self._numbers[kind, name] = len(self.labels)
            self.labels.append(name if label is None else label)
            self.roles.append(ROLES.index(role))
        return number

    def actor_number(self, name: str) -> int | None:
        """Return the number of an actor that has appeared, or None."""
        return self._numbers.get(("actor", name))

    def is_agent(self, number: int) -> bool:
        """Return whether a name is that of an agent."""
        return self.roles[number] == _AGENT

    def make_agent(self, number: int) -> None:
        """Note that an actor is an agent: it has a loop."""
        self.roles[number] = _AGENT


class Topics:
    """Numbers for topics, in the order of appearance. Beyond `MOST_TOPICS`, all topics share one number."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, topic: str) -> int:
        """Return the number of a topic."""
        number = self._numbers.get(topic)
        if number is None:
            if len(self.labels) >= MOST_TOPICS:
                return len(self.labels) - 1
            number = self._numbers[topic] = len(self.labels)
            self.labels.append("(further topics)" if len(self.labels) == MOST_TOPICS - 1 else topic)
        return number
