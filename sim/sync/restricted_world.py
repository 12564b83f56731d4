"""The world as an agent of a synchronised run may use it: as far as it has declared. Everything else raises."""

from collections.abc import Callable
from typing import Any

from sim.actors import Agent
from sim.errors import CausalityError
from sim.kernel import Kernel, Stream
from sim.kernel.rng import KeyedStream
from sim.world import Action, ActionResult, World

_OWN = frozenset({"now", "observe", "services", "space"})
_OF_OTHERS = frozenset({"agents", "members"})  # others' states, which are those of other times
_OF_KERNEL = frozenset({"acting", "emit", "now"})


class RestrictedWorld:
    """The world as one agent may use it.

    Args:
        world: the world.
        agent: the agent.
        ahead: returns whether the agent is ahead of events that are earlier in simulated time.
    """

    def __init__(self, world: World, agent: Agent, ahead: Callable[[], bool]) -> None:
        self._world = world
        self._agent = agent
        self._ahead = ahead
        self._open = agent.reach not in ("own", "space")

    @property
    def kernel(self) -> Any:
        """The kernel, as far as an agent may use it."""
        return self._world.kernel if self._open else _RestrictedKernel(self._world.kernel, self._refusal)

    def act(self, agent: Agent, action: Action) -> ActionResult:
        """As `World.act`."""
        self._check(action)
        return self._world.act(agent, action)

    async def execute(self, agent: Agent, action: Action) -> ActionResult:
        """As `World.execute`."""
        self._check(action)
        return await self._world.execute(agent, action)

    def stream(self, owner: str, purpose: str = "") -> Stream:
        """Return a random stream of the agent itself."""
        if owner != self._agent.agent_id and not self._open:
            raise self._refusal(f"the random stream of {owner!r}")
        return self._world.stream(owner, purpose)

    def draws(self, owner: str, purpose: str, *key: object) -> KeyedStream:
        """Return keyed draws of the agent itself."""
        if owner != self._agent.agent_id and not self._open:
            raise self._refusal(f"the random draws of {owner!r}")
        return self._world.draws(owner, purpose, *key)

    def _check(self, action: Action) -> None:
        handler = self._world.actions.find(action.kind)
        if handler is not None and handler.scope == "shared" and self._ahead():
            raise CausalityError(
                f"{self._agent.agent_id} does {action.kind}, which all share, while it runs ahead of others",
                hint="return the action from decide_action: it then waits until all that is earlier has happened",
            )

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or (self._open and name not in _OF_OTHERS):
            return getattr(self._world, name)
        raise self._refusal(f"world.{name}")

    def _refusal(self, what: str) -> CausalityError:
        agent = self._agent
        if self._open:
            return CausalityError(
                f"{agent.agent_id} uses {what}, and others may stand at another time",
                hint="read what they show in space, or have them send messages",
            )
        return CausalityError(
            f"{agent.agent_id} uses {what}, which all share, but {type(agent).__name__} says reach = {agent.reach!r}",
            hint="declare reach = 'shared': the agent then waits until all that is earlier has happened",
        )


class _RestrictedKernel:
    """The kernel of an agent that may run ahead."""

    def __init__(self, kernel: Kernel, refusal: Callable[[str], CausalityError]) -> None:
        self._kernel = kernel
        self._refusal = refusal

    def __getattr__(self, name: str) -> Any:
        if name in _OF_KERNEL:
            return getattr(self._kernel, name)
        raise self._refusal(f"world.kernel.{name}")


def restrict(agent: Agent, ahead: Callable[[], bool]) -> None:
    """Limit what an agent can use to what it has declared; without `reach = 'shared'` it gets no messages."""
    agent.world = RestrictedWorld(agent.world, agent, ahead)  # type: ignore[assignment]  # it has what such an agent may use
    if agent.reach in ("own", "space"):
        agent.mailbox.close()
