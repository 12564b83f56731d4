"""The gate that an agent of a synchronised run passes between deciding and executing."""

from collections.abc import Generator
from typing import Any, Protocol

from sim.kernel import Actor, Kernel
from sim.kernel.waits import NOTHING
from sim.sync.policies import LogicalProcess
from sim.world import Action


class GateKeeper(Protocol):
    """Opens the gates."""

    def must_wait(self, process: LogicalProcess, action: Action | None, /) -> bool:
        """Return whether an action changes shared state, so that everything earlier has to happen first."""

    def runs_ahead(self, process: LogicalProcess, /) -> bool:
        """Return whether an agent is ahead of events that are earlier in simulated time."""

    def stands_at_gate(self, process: LogicalProcess, /) -> None:
        """An agent waits for its turn."""

    def acts(self, process: LogicalProcess, /) -> None:
        """An agent executes from now on what it has decided."""


class Gate:
    """The gate of one agent, as a wait. Actions on the agent's own state or in space pass at once.

    Args:
        keeper: opens the gate.
        process: that the gate belongs to.
    """

    __slots__ = ("_keeper", "_process")

    def __init__(self, keeper: GateKeeper, process: LogicalProcess) -> None:
        self._keeper = keeper
        self._process = process

    @property
    def ahead(self) -> bool:
        """Whether the agent is ahead of events that are earlier in simulated time."""
        return self._keeper.runs_ahead(self._process)

    async def wait(self, action: Action | None) -> None:
        """Wait until everything earlier has happened, if the action needs that."""
        if self._keeper.must_wait(self._process, action):
            await self
        self._keeper.acts(self._process)

    def __await__(self) -> Generator[Any, Any, None]:
        yield self

    def take(self) -> Any:
        """It is never open beforehand."""
        return NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Wait at the gate."""
        self._keeper.stands_at_gate(self._process)

    def undo(self, value: Any) -> None:
        """Nothing was taken."""

    def leave(self) -> None:
        """No-op: a cancelled actor is not resumed, because its token has changed."""
