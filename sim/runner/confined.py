"""What an agent that runs ahead may use of the world: what is its own, and space. All else is refused by name."""

from collections.abc import Callable
from typing import Any

from sim.actors import Agent
from sim.errors import CausalityError
from sim.kernel import Stream
from sim.world import Action, ActionResult, World

_OWN = frozenset({"kernel", "now", "services", "space"})


class Confined:
    """Stands in for the world of one agent.

    Args:
        world: the world.
        agent: whose it is.
        may_share: whether all that is earlier has happened, so that the agent may do now what all share.
    """

    def __init__(self, world: World, agent: Agent, may_share: Callable[[], bool]) -> None:
        self._world = world
        self._agent = agent
        self._may_share = may_share

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
        if owner != self._agent.agent_id:
            raise self._refusal(f"the random stream of {owner!r}")
        return self._world.stream(owner, purpose)

    def _check(self, action: Action) -> None:
        handler = self._world.actions.find(action.kind)
        if handler is not None and handler.scope == "shared" and not self._may_share():
            raise CausalityError(
                f"{self._agent.agent_id} does {action.kind}, which all share, while it runs ahead of others",
                hint="return the action from decide_action: it then waits until all that is earlier has happened",
            )

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:
            return getattr(self._world, name)
        raise self._refusal(f"world.{name}")

    def _refusal(self, what: str) -> CausalityError:
        agent = self._agent
        return CausalityError(
            f"{agent.agent_id} uses {what}, which all share, but {type(agent).__name__} says reach = {agent.reach!r}",
            hint="declare reach = 'shared': the agent then waits until all that is earlier has happened",
        )


def confine(agent: Agent, may_share: Callable[[], bool]) -> None:
    """Let an agent reach no farther than it has declared; messages are shared too, so it gets none."""
    agent.world = Confined(agent.world, agent, may_share)  # type: ignore[assignment]  # it has what such an agent may use
    agent.mailbox.close()
