"""A view of the world for an agent of a synchronised run: it allows only the access that the agent has declared."""

from collections.abc import Callable
from typing import Any

from sim.actors import Agent
from sim.base.errors import CausalityError
from sim.kernel import Kernel, Stream
from sim.kernel.rng import Draws
from sim.world import Action, ActionResult, World

_OWN = frozenset({"now", "observe", "services", "space"})
_OF_OTHERS = frozenset({"agents", "members"})  # states of other agents, which can be at another simulated time
_OF_KERNEL = frozenset({"acting", "emit", "now", "report"})


class RestrictedWorld:
    """The world with the access of one agent. Other access raises `CausalityError`.

    Args:
        world: the world.
        agent: the agent.
        ahead: returns whether the agent runs ahead of others: events with an earlier simulated time can still follow.
    """

    def __init__(self, world: World, agent: Agent, ahead: Callable[[], bool]) -> None:
        self._world = world
        self._agent = agent
        self._ahead = ahead
        self._open = agent.reach not in ("own", "space")

    @property
    def kernel(self) -> Any:
        """The kernel, with the access of the agent."""
        return self._world.kernel if self._open else _RestrictedKernel(self._world.kernel, self._refusal)

    def act(self, agent: Agent, action: Action) -> ActionResult:
        """Like `World.act`."""
        self._check(action)
        return self._world.act(agent, action)

    async def execute(self, agent: Agent, action: Action) -> ActionResult:
        """Like `World.execute`."""
        self._check(action)
        return await self._world.execute(agent, action)

    def stream(self, owner: str, purpose: str = "") -> Stream:
        """Return a random stream of this agent."""
        if owner != self._agent.agent_id and not self._open:
            raise self._refusal(f"the random stream of {owner!r}")
        return self._world.stream(owner, purpose)

    def draws(self, owner: str, purpose: str, *key: object) -> Draws:
        """Return keyed draws of this agent."""
        if owner != self._agent.agent_id and not self._open:
            raise self._refusal(f"the random draws of {owner!r}")
        return self._world.draws(owner, purpose, *key)

    def draws_now(self, owner: str, purpose: str = "", turn: int | None = None) -> Draws:
        """Return draws of this agent at the present moment."""
        if owner != self._agent.agent_id and not self._open:
            raise self._refusal(f"the random draws of {owner!r}")
        return self._world.draws_now(owner, purpose, turn)

    def _check(self, action: Action) -> None:
        handler = self._world.actions.find(action.kind)
        if handler is not None and handler.scope == "shared" and self._ahead():
            raise CausalityError(
                f"{self._agent.agent_id} does {action.kind}, which changes shared data, while it runs ahead of others",
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
                f"{agent.agent_id} uses {what}, but other agents may be at another time",
                hint="read what they show in space, or have them send messages",
            )
        return CausalityError(
            f"{agent.agent_id} uses {what}, which is shared, but {type(agent).__name__} says reach = {agent.reach!r}",
            hint="declare reach = 'shared': the agent then waits until all that is earlier has happened",
        )


class _RestrictedKernel:
    """The kernel with the access of an agent that can run ahead."""

    def __init__(self, kernel: Kernel, refusal: Callable[[str], CausalityError]) -> None:
        self._kernel = kernel
        self._refusal = refusal

    def __getattr__(self, name: str) -> Any:
        if name in _OF_KERNEL:
            return getattr(self._kernel, name)
        raise self._refusal(f"world.kernel.{name}")


def restrict(agent: Agent, ahead: Callable[[], bool]) -> None:
    """Restrict an agent to the access that it has declared; with `own` or `space` it receives no messages."""
    agent.world = RestrictedWorld(agent.world, agent, ahead)  # type: ignore[assignment]  # it has all methods that such an agent can use
    if agent.reach in ("own", "space"):
        agent.mailbox.close()
