"""A world with memories, whose time a test can set."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.kernel.codec import decode, encode
from sim.memory import Memories, Memory, MemorySettings
from sim.memory.settings import HOUR_NS
from tests.actors.helpers import Lab

Make = Callable[..., "Book"]


class Book:
    """The memories of a world, used from outside its agents."""

    def __init__(self, **settings: Any) -> None:
        self.lab = Lab()
        self.memories = Memories(self.lab.world, MemorySettings(**settings))
        self.lab.world.add_service(self.memories)

    def at(self, hours: float) -> None:
        """Let simulated time pass until so many hours from the start."""
        self.lab.kernel.advance_to(round(hours * HOUR_NS))

    def add(self, content: str = "a thing happened", agent: str = "a", **fields: Any) -> Memory:
        """Add a memory."""
        with self.lab.kernel.acting_as(self.lab.kernel.scenario):
            return self.memories.add(agent, content, **fields)

    def do(self, call: Callable[[], Any]) -> Any:
        """Call something as the scenario."""
        with self.lab.kernel.acting_as(self.lab.kernel.scenario):
            return call()

    def main(self, process: Any) -> Any:
        """Run a process to its end."""
        return self.lab.main(process)

    def contents(self, agent: str = "a") -> list[str]:
        """Return the texts that an agent remembers, oldest first."""
        return [memory.content for memory in self.memories.all(agent)]

    def events(self, topic: str) -> list[Any]:
        """Return the data of all events of a topic."""
        return [decode(encode(row.data)) for row in self.lab.rows(topic=topic)]


@pytest.fixture
def book() -> Book:
    """Memories with the default settings."""
    return Book()


@pytest.fixture
def make_book() -> Make:
    """Return a function that makes memories with other settings."""
    return Book
