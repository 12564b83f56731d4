"""The whereabouts of agents that travel between islands, as each island knows them.

An island knows who is there, and where those went who have left it. Of all others it knows where they were at the
start. So what an island does with a message depends on nothing that happens elsewhere at the same time.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sim.kernel.codec import Raw

Key = tuple[str, str]
"""An island, and an agent."""

Mail = tuple[str, str, bytes]
"""The sender, the topic and the data of a message."""


class Carrier(Protocol):
    """What stops and starts the loops of agents that travel."""

    def leave(self, agent: Any, left: Callable[[Callable[[int], Raw]], None], /) -> None:
        """Stop an agent after its iteration, and call `left` then with what packs its luggage."""

    def clear(self, agent: Any, /) -> None:
        """Forget the counts of an agent that has arrived."""

    def start(self, agent: Any, luggage: Raw, /) -> None:
        """Start an agent with what it has taken along."""


class Whereabouts:
    """Where agents are.

    Args:
        first: the agents that exist from the start, with their islands.
    """

    def __init__(self, first: Mapping[str, str]) -> None:
        self._first = first
        self._moved: dict[str, str] = {}  # agents that have arrived somewhere, with the island
        self._under_way: set[str] = set()  # those that have left, and have not arrived
        self._went: dict[Key, str] = {}  # where agents went that have left an island
        self._expected: dict[Key, list[Mail]] = {}  # what waits on an island for an agent that is under way to it

    def island_of(self, agent_id: str) -> str | None:
        """Return the island of an agent; of one that is under way, the island that it has left."""
        return self._moved.get(agent_id) or self._first.get(agent_id)

    def seen_from(self, island: str, agent_id: str) -> str | None:
        """Return where an island takes an agent to be: the island itself if, and only if, the agent is there."""
        if self.island_of(agent_id) == island and agent_id not in self._under_way:
            return island
        return self._went.get((island, agent_id)) or self._first.get(agent_id)

    def leave(self, agent_id: str, island: str, to: str) -> None:
        """Note that an agent leaves an island."""
        self._under_way.add(agent_id)
        self._went[island, agent_id] = to

    def arrive(self, agent_id: str, island: str) -> list[Mail]:
        """Note that an agent arrives, and return the messages that came before it."""
        self._under_way.discard(agent_id)
        self._went.pop((island, agent_id), None)
        self._moved[agent_id] = island
        return self._expected.pop((island, agent_id), [])

    def next_of(self, island: str, agent_id: str) -> str | None:
        """Return where an agent went that has left an island; None: it has not been there, so it is under way to it."""
        return self._went.get((island, agent_id))

    def expect(self, island: str, agent_id: str, mail: Mail) -> None:
        """Keep a message for an agent that is under way to an island."""
        self._expected.setdefault((island, agent_id), []).append(mail)
