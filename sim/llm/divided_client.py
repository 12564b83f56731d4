"""A client of models that is divided, one in the core for each island: a call of one island meets only what calls of
that island have done.

Waits after a refusal, and the circuit breaker that opens after many failures, are shared by all who use an endpoint.
With one client for all, a failure on one island would at once hold up calls on others.
"""

from collections.abc import Callable, Mapping, Sequence

from sim.llm.client import Client, Endpoint
from sim.llm.router import Target
from sim.llm.types import Answer, ModelRequest, Observer


class DividedClient:
    """Sends each call to the client of the caller's island.

    Args:
        island_of: returns the island of an agent; None if it has none.
        make: makes the client of one island.
    """

    def __init__(self, island_of: Callable[[str], str | None], make: Callable[[], Client]) -> None:
        self._island_of = island_of
        self._make = make
        self._clients: dict[str, Client] = {}

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The endpoints in use, by name of the provider and island."""
        clients = self._clients.copy()
        return {
            f"{name} {island}": endpoint for island, one in clients.items() for name, endpoint in one.endpoints.items()
        }

    async def complete(
        self, chain: Sequence[Target], request: ModelRequest, *, agent: str, observe: Observer | None = None
    ) -> Answer:
        """Return the answer of the first model in `chain` that answers; see `Client.complete`."""
        island = self._island_of(agent) or ""
        if island not in self._clients:
            self._clients[island] = self._make()
        return await self._clients[island].complete(chain, request, agent=agent, observe=observe)
