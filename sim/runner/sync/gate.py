"""The gate that an agent of a synchronised run passes between its decision and the execution."""

from collections.abc import Generator
from typing import Any, Protocol

from sim.kernel import Actor, Kernel
from sim.kernel.waits import NOTHING
from sim.runner.sync.policies import LogicalProcess
from sim.world import Action


class GateKeeper(Protocol):
    """The part of the driver that gates use."""

    def must_wait(self, process: LogicalProcess, action: Action | None, /) -> bool:
        """Return whether an action uses shared data, so that it must wait for all earlier events."""

    def runs_ahead(self, process: LogicalProcess, /) -> bool:
        """Return whether an agent runs ahead of others: events with an earlier simulated time can still follow."""

    def stands_at_gate(self, process: LogicalProcess, /) -> None:
        """Handle an agent that waits at its gate for its turn."""

    def acts(self, process: LogicalProcess, /) -> None:
        """Handle an agent that begins to execute its decision."""


class SyncGate:
    """The gate of one agent, as a wait. Actions on the agent's own data or in space pass at once.

    Args:
        keeper: decides which actions wait, and opens the gate.
        process: the process of the agent.
    """

    __slots__ = ("_keeper", "_process")

    def __init__(self, keeper: GateKeeper, process: LogicalProcess) -> None:
        self._keeper = keeper
        self._process = process

    @property
    def ahead(self) -> bool:
        """Whether the agent runs ahead of others: events with an earlier simulated time can still follow."""
        return self._keeper.runs_ahead(self._process)

    async def wait(self, action: Action | None) -> None:
        """Wait until all earlier events have happened, if the action uses shared data."""
        if self._keeper.must_wait(self._process, action):
            await self
        self._keeper.acts(self._process)

    def __await__(self) -> Generator[Any, Any, None]:
        yield self

    def take(self) -> Any:
        """Return `NOTHING`: an actor that comes here always waits."""
        return NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register the agent at its gate."""
        self._keeper.stands_at_gate(self._process)

    def undo(self, value: Any) -> None:
        """No-op: the gate hands over no value."""

    def leave(self) -> None:
        """No-op: a cancelled actor is not resumed, because its token has changed."""
