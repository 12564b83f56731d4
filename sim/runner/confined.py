"""What an agent that runs ahead may use of the world: what is its own, and space. All else is refused by name."""

from typing import Any

from sim.actors import Agent
from sim.errors import CausalityError
from sim.kernel import Stream
from sim.world import World

_OWN = frozenset({"act", "execute", "kernel", "now", "services", "space"})


class Confined:
    """Stands in for the world of one agent.

    Args:
        world: the world.
        agent: whose it is.
    """

    def __init__(self, world: World, agent: Agent) -> None:
        self._world = world
        self._agent = agent

    def stream(self, owner: str, purpose: str = "") -> Stream:
        """Return a random stream of the agent itself."""
        if owner != self._agent.agent_id:
            raise self._refusal(f"the random stream of {owner!r}")
        return self._world.stream(owner, purpose)

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


def confine(agent: Agent) -> None:
    """Let an agent reach no farther than it has declared; messages are shared too, so it gets none."""
    agent.world = Confined(agent.world, agent)  # type: ignore[assignment]  # it has what such an agent may use
    agent.mailbox.close()
