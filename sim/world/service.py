"""Services: parts of a world that hold state for agents of several kinds, such as tools, memories and conversations.

An agent keeps nothing of such state itself, so an agent object that is replaced behaves as the old one. A service has
a name. Its state is part of the final digest of a run, its numbers are metrics, and its summary is part of the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from sim.base.errors import UsageError
from sim.kernel.codec import JsonObject

if TYPE_CHECKING:
    from sim.world.world import World


@attrs.frozen
class Warned:
    """What a user of a run should know before trusting its numbers, in one sentence, and what to do about it."""

    text: str
    hint: str | None = None


class Service:
    """Base class of services. Override what applies.

    Attributes:
        name: the name of the service in its world.
        section: the key of the section that adds it to a scenario; empty: its name.
    """

    name: ClassVar[str]
    section: ClassVar[str] = ""

    def state(self) -> Any:
        """Return the state at the end of a run, JSON-like, for the digest; None if the digest should not have it."""

    def metrics(self) -> Mapping[str, float | None]:
        """Return the present numbers of the service by name, for metrics; None for one without a value, such as a mean
        of nothing. Scrapes call it from another thread.
        """
        return {}

    def summary(self) -> JsonObject:
        """Return the numbers of the service for the result of a run, JSON-like; empty: the result omits it."""
        return {}

    def warnings(self) -> Sequence[Warned]:
        """Return what the user should know at the end of a run; empty: nothing."""
        return ()

    @classmethod
    def of(cls, world: "World") -> Self:
        """Return the service of a world.

        Raises:
            UsageError: if the world has no such service.
        """
        service = world.services.get(cls.name)
        if not isinstance(service, cls):
            raise UsageError(f"this world has no {cls.name}", hint=f"add `{cls.section or cls.name}:` to the scenario")
        return service


def rows_of(summaries: Any) -> Iterator[tuple[str, str, str | int | float | None]]:
    """Yield service, name and value of each number in the summaries of services, which may come from a file."""
    for service, numbers in summaries.items() if isinstance(summaries, dict) else ():
        for name, value in _leaves(numbers, ""):
            yield str(service), name, value


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str | int | float | None]]:
    if isinstance(value, dict):
        for key, part in value.items():
            word = str(key) if "." in str(key) else str(key).replace("_", " ")
            yield from _leaves(part, f"{name} {word}".strip())
    elif isinstance(value, str | int | float) or value is None:
        yield name, value
