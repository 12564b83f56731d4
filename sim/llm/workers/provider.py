"""A provider whose requests are made by worker processes (edge).

What has to be known of an endpoint as a whole stays here: whether its models keep a format, and the limits it reports.
"""

from collections.abc import Callable
from typing import cast

from sim.llm.capabilities import Can
from sim.llm.limits.governor import ReportedLimits
from sim.llm.providers.openai.formats import Formats
from sim.llm.types import Completion, ModelRequest, Observer
from sim.llm.workers.pool import EdgeWorkers


class WorkerProvider:
    """Answers requests through one endpoint, as `OpenAIProvider` does, with the workers of a run.

    Args:
        name: the provider name of its models.
        workers: the workers.
        on_rates: called with the limits that a response reports.
    """

    def __init__(self, name: str, workers: EdgeWorkers, on_rates: Callable[[ReportedLimits], None]) -> None:
        self.name = name
        self._workers = workers
        self._formats = Formats()
        workers.on_rates[name] = on_rates

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer a request.

        Raises:
            ModelError: if the request fails.
            Interrupted: if its worker ended before there was an outcome.
        """

        async def once(request: ModelRequest) -> Completion:
            return await self._workers.ask(self.name, model, request, observe)

        if request.preferred_format is not None:
            return await self._formats.complete(model, request, once)
        return await once(request)

    async def probe(self) -> None:
        """Check that the endpoint can be reached: see `Connection.probe`."""
        await self._workers.probe(self.name)

    async def said_of(self, model: str) -> Can:
        """Return what the endpoint says of a model: see `OpenAIProvider.said_of`."""
        return cast(Can, await self._workers.said_of(self.name, model))

    def without_formats(self, model: str) -> None:
        """Send no JSON Schema that is only preferred to a model, without trying."""
        self._formats.enforced[model] = False

    async def aclose(self) -> None:
        """Do nothing: the workers have the connections."""
