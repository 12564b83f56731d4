"""The client against real endpoints: real time over anyio, connections, and what paces requests (edge).

On asyncio the requests are paced by `aiolimiter`; it needs an asyncio loop, so on trio `ClockPacer` does it, first in,
first out. Both are asked by one waiter at a time, whom the governor chooses, so they differ in nothing else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import sniffio

from sim.kernel.rng import Stream
from sim.llm.access import Access
from sim.llm.client import Client, Endpoint
from sim.llm.limits.breaker import Breaker
from sim.llm.limits.governor import Governor, Limits
from sim.llm.limits.pacing import SLACK, ClockPacer, Pacer
from sim.llm.limits.retry import RetryPolicy
from sim.llm.providers.openai.provider import OpenAIProvider
from sim.llm.router import Target
from sim.llm.tokens import APPROXIMATE, Tokenizer
from sim.llm.types import Answer, ClientClock, ModelRequest, Observer, Provider, TokenUsage, Wake


class LoopPacer:
    """Paces with aiolimiter, in the time of the asyncio loop.

    Args:
        rate: places per second.
        slack: seconds whose places may be used at once.
    """

    def __init__(self, rate: float, slack: float = SLACK) -> None:
        from aiolimiter import AsyncLimiter

        places = max(1.0, rate * slack)
        self._limiter = AsyncLimiter(places, places / rate)

    async def acquire(self) -> None:
        """Wait for the next place."""
        await self._limiter.acquire()


class EdgeClock:
    """Real, monotonic time of the running loop; to be used inside one.

    Args:
        seed: of the jitter; None for another one in each process, so that processes do not wait in step.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._stream = Stream(seed)

    def now(self) -> float:
        """Return the loop's seconds."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(max(0.0, seconds))

    def wake(self) -> Wake:
        """Return something to wait for."""
        return anyio.Event()

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._stream.random()

    async def within(self, seconds: float, work: Callable[[], Any]) -> Any:
        """Await `work()` for at most `seconds`, else cancel it and raise TimeoutError."""
        with anyio.fail_after(None if math.isinf(seconds) else seconds):
            return await work()

    def pacer(self, rate: float) -> Pacer:
        """Return what paces requests on the running loop, at `rate` a second."""
        return LoopPacer(rate) if sniffio.current_async_library() == "asyncio" else ClockPacer(self, rate)


class EdgeClient:
    """Has requests answered by the operator's endpoints. One for all agents of a run.

    It belongs to the loop in which it is first used, and connects then.

    Args:
        access: the endpoints, the keys, and the limits as far as they are known.
        policy: how often and how long a call tries.
        tokenizer: estimates what is reserved, and what an endpoint does not report.
        cost: (model, usage) → micro-units of money.
        wrap: puts something around the provider, such as the faults of a scenario.
        clock: real time; another one for tests.
    """

    def __init__(
        self,
        access: Access,
        *,
        policy: RetryPolicy | None = None,
        tokenizer: Tokenizer = APPROXIMATE,
        cost: Callable[[str, TokenUsage], int] = lambda model, usage: 0,
        wrap: Callable[[Provider, ClientClock], Provider] = lambda provider, clock: provider,
        clock: EdgeClock | None = None,
    ) -> None:
        self._access = access
        self._wrap = wrap
        self._clock = clock or EdgeClock()
        self._endpoints: dict[str, Endpoint] = {}
        self._client = Client(self._clock, self._endpoints, policy, tokenizer=tokenizer, cost=cost)
        self._providers = tuple(self._provider(name, tokenizer) for name in access.providers or ("openai",))

    def _provider(self, name: str, tokenizer: Tokenizer) -> OpenAIProvider:
        return OpenAIProvider(
            self._access.at(name),
            name=name,
            tokenizer=tokenizer,
            on_rates=lambda rates: self._endpoints[name].governor.learn(rates),
            timeout=self._client.policy.timeout,
        )

    async def complete(
        self, chain: Sequence[Target], request: ModelRequest, *, agent: str, observe: Observer | None = None
    ) -> Answer:
        """Have `request` answered: see `Client.complete`."""
        if not self._endpoints:
            self._open()
        return await self._client.complete(chain, request, agent=agent, observe=observe)

    async def prepare(self) -> None:
        """Import the libraries, so that no call has to wait for that, and see that the endpoints are there.

        Raises:
            UsageError, RunError: see `OpenAIProvider.probe`.
        """
        if not self._endpoints:
            self._open()
        self._client.tokenizer.count("")
        for provider in self._providers:
            await provider.probe()

    async def aclose(self) -> None:
        """Close the connections."""
        for provider in self._providers:
            await provider.aclose()

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The way to each endpoint by its name; empty until something was asked."""
        return self._endpoints

    @property
    def endpoint(self) -> Endpoint:
        """The way to the first endpoint, once something was asked: what its governor and breaker do."""
        return self._endpoints[self._providers[0].name]

    def _open(self) -> None:
        for provider in self._providers:
            access = self._access.at(provider.name)
            limits = Limits(access.requests_per_minute, access.tokens_per_minute, access.concurrency)
            governor = Governor(self._clock, limits, pacer=self._clock.pacer)
            self._endpoints[provider.name] = Endpoint(self._wrap(provider, self._clock), governor, Breaker(self._clock))
