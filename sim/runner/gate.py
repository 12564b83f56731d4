"""What an agent of a synchronised run passes between deciding and executing."""

from collections.abc import Generator
from typing import Any, Protocol

from sim.kernel import Actor, Kernel
from sim.kernel.waits import NOTHING
from sim.runner.seat import Seat
from sim.world import Action


class Keeper(Protocol):
    """Who lets agents through."""

    def must_wait(self, seat: Seat, action: Action | None, /) -> bool:
        """Return whether an action touches what all share, so that all that is earlier comes first."""

    def runs_ahead(self, seat: Seat, /) -> bool:
        """Return whether what an agent does now may come before something that is earlier."""

    def stands_at_gate(self, seat: Seat, /) -> None:
        """An agent waits for its turn."""

    def acts(self, seat: Seat, /) -> None:
        """An agent executes from now on what it has decided."""


class Gate:
    """The gate of one agent: it is a wait, and open to what is the agent's own or in space.

    Args:
        keeper: who lets it through.
        seat: whose gate it is.
    """

    __slots__ = ("_keeper", "_seat")

    def __init__(self, keeper: Keeper, seat: Seat) -> None:
        self._keeper = keeper
        self._seat = seat

    @property
    def ahead(self) -> bool:
        """Whether what the agent does now may come before something that is earlier."""
        return self._keeper.runs_ahead(self._seat)

    async def wait(self, action: Action | None) -> None:
        """Wait until all that is earlier has happened, if the action needs that."""
        if self._keeper.must_wait(self._seat, action):
            await self
        self._keeper.acts(self._seat)

    def __await__(self) -> Generator[Any, Any, None]:
        yield self

    def take(self) -> Any:
        """It is never open beforehand."""
        return NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Stand in line."""
        self._keeper.stands_at_gate(self._seat)

    def undo(self, value: Any) -> None:
        """Nothing was taken."""

    def leave(self) -> None:
        """Whoever is cancelled here is not resumed: its token has changed."""
