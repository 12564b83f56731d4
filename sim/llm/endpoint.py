"""The client of real endpoints: real time (over anyio), connections, and pacing of requests (edge).

On asyncio, `aiolimiter` paces the requests. It needs an asyncio loop, so `ClockPacer` is used on trio. The governor
lets one waiter at a time use the pacer, so both behave alike.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import attrs
import sniffio

from sim.base.errors import SimError
from sim.kernel.rng import Stream
from sim.llm.access import Access
from sim.llm.batches.place import Place, Waiting
from sim.llm.batches.provider import BatchProvider
from sim.llm.capabilities import Can, Capabilities
from sim.llm.client import Client, Endpoint
from sim.llm.limits.breaker import Breaker
from sim.llm.limits.governor import Governor, Limits, ReportedLimits
from sim.llm.limits.pacing import SLACK, ClockPacer, Pacer
from sim.llm.limits.retry import RetryPolicy
from sim.llm.providers.openai.provider import OpenAIProvider
from sim.llm.router import Target, targets_of
from sim.llm.sending import Noted, TooLate
from sim.llm.tokens import APPROXIMATE, Tokenizer
from sim.llm.types import Answer, Attempt, ClientClock, ModelError, ModelRequest, Observer, Provider, TokenUsage, Wake

if TYPE_CHECKING:
    from sim.llm.workers.pool import EdgeWorkers, WorkerFigures
    from sim.llm.workers.provider import WorkerProvider

NO_LIMIT: Final = 3650 * 86400.0
"""Real seconds that a call may take if it is answered in batches, which have their own limit."""

_TIDYING: Final = 60.0  # real seconds


class LoopPacer:
    """A pacer that uses aiolimiter, in the time of the asyncio loop.

    Args:
        rate: places per second.
        slack: seconds of unused places that can be used at once.
    """

    def __init__(self, rate: float, slack: float = SLACK) -> None:
        from aiolimiter import AsyncLimiter

        places = max(1.0, rate * slack)
        self._limiter = AsyncLimiter(places, places / rate)

    async def acquire(self) -> None:
        """Wait for the next place."""
        await self._limiter.acquire()


class EdgeClock:
    """Real, monotonic time of the running loop. Use it inside a loop only.

    One clock belongs to one loop: it keeps the functions of the first one that it is used in, because anyio looks for
    the loop at each call, which takes longer than all else here.

    Args:
        seed: the seed of the jitter; None: a different one in each process, so that processes do not wait in step.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._stream = Stream(seed)
        self._time: Callable[[], float] | None = None
        self._event, self._scope = anyio.Event, anyio.CancelScope

    def now(self) -> float:
        """Return the time of the loop in seconds."""
        if self._time is None:
            self._time = getattr(anyio.lowlevel.current_token().native_token, "time", anyio.current_time)
            self._event, self._scope = type(anyio.Event()), type(anyio.CancelScope())
        return self._time()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`; no-op below 0."""
        await anyio.sleep(max(0.0, seconds))

    def wake(self) -> Wake:
        """Return a new event."""
        return self._event()

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._stream.random()

    async def within(self, seconds: float, work: Callable[[], Any]) -> Any:
        """Await `work()` for at most `seconds`. After that, cancel it and raise TooLate."""
        with Noted() as note:
            try:
                deadline = self.now() + seconds  # this finds the class of scopes
                with self._scope(deadline=deadline):
                    return await work()
            except TimeoutError:
                pass
            raise TooLate(note)

    def pacer(self, rate: float) -> Pacer:
        """Return a pacer for the running loop, with `rate` places per second."""
        return LoopPacer(rate) if sniffio.current_async_library() == "asyncio" else ClockPacer(self, rate)


class EdgeClient:
    """Sends requests to the endpoints of the operator. All agents of a run share one client.

    It connects at first use, and belongs to the loop of that use.

    Args:
        access: the endpoints, the keys, and the known limits.
        policy: how often and how long a call is tried.
        tokenizer: estimates reserved tokens, and the usage that an endpoint does not report.
        cost: maps a model and its usage to a cost in micro-units.
        wrap: wraps the provider, for example with the fault injection of a scenario.
        clock: real time; tests can set another clock.
        place: returns the run that batches belong to. It is called only if the operator has asked for batches.
        written_calls: the providers whose models write tool calls as text.
        declared: by provider: what the scenario says that its models can do.
        workers: makes the worker processes that the operator has asked for; None: requests are made in this process.

    Attributes:
        capabilities: what is known of the models; what endpoints say is known after `prepare`.
        ended: the requests that have ended, by outcome (`ok`, or a class of error), also of calls under way.
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
        place: Callable[[], Place] | None = None,
        written_calls: frozenset[str] = frozenset(),
        declared: Mapping[str, Can] = MappingProxyType({}),
        workers: "EdgeWorkers | None" = None,
    ) -> None:
        self.capabilities = Capabilities(declared)
        self._access = access
        self._written_calls = written_calls
        self.ended: dict[str, int] = {}
        self._wrap = wrap
        self._clock = clock or EdgeClock()
        self._endpoints: dict[str, Endpoint] = {}
        policy = policy or RetryPolicy()
        self._timeout = policy.timeout
        if access.batching:  # a batch has its own limits of time
            policy = attrs.evolve(policy, timeout=NO_LIMIT, deadline=NO_LIMIT)
        self._client = Client(
            self._clock, self._endpoints, policy, tokenizer=tokenizer, cost=cost, capabilities=self.capabilities,
            count=None if workers is None else workers.count,
        )  # fmt: skip
        self._place = place
        self._workers = workers
        self._providers = tuple(self._provider(name, tokenizer) for name in access.providers or ("openai",))

    def _provider(self, name: str, tokenizer: Tokenizer) -> "OpenAIProvider | BatchProvider | WorkerProvider":
        if self._workers is not None:
            from sim.llm.workers.provider import WorkerProvider  # only for those who ask for it

            return WorkerProvider(name, self._workers, lambda rates: self._endpoints[name].governor.learn(rates))
        online = OpenAIProvider(
            self._access.at(name),
            name=name,
            tokenizer=tokenizer,
            on_rates=lambda rates: self._endpoints[name].governor.learn(rates),
            timeout=self._timeout,
        )
        if not self._access.batching:
            return online
        assert self._place is not None, "who asks for batches says where the run is"
        others = lambda: sum(other.unsettled for other in self._batched if other.name != name)  # noqa: E731
        return BatchProvider(online, self._access.batching, self._place, others)

    @property
    def _batched(self) -> tuple[BatchProvider, ...]:
        return tuple(provider for provider in self._providers if isinstance(provider, BatchProvider))

    @property
    def waiting(self) -> Waiting | None:
        """What waits in batches, or None."""
        batches = [waiting for provider in self._batched if (waiting := provider.waiting) is not None]
        if not batches:
            return None
        return Waiting(
            sum(waiting.requests for waiting in batches),
            sum(waiting.batches for waiting in batches),
            min(waiting.since for waiting in batches),
        )

    async def tidy(self) -> None:
        """Cancel batches under way and delete the files of all batches: the run has ended."""
        with anyio.move_on_after(_TIDYING), suppress(SimError):
            for provider in self._batched:
                await provider.tidy()

    async def complete(
        self, chain: Sequence[Target], request: ModelRequest, *, agent: str, observe: Observer | None = None
    ) -> Answer:
        """Return the answer to `request`: see `Client.complete`."""
        if not self._endpoints:
            self._open()
        return await self._client.complete(chain, request, agent=agent, observe=observe, on_attempt=self._note)

    def _note(self, attempt: Attempt) -> None:
        self.ended[attempt.outcome] = self.ended.get(attempt.outcome, 0) + 1

    async def prepare(self) -> None:
        """Import the libraries before the first call, check that the endpoints can be reached, and note what they say
        of their models.

        Raises:
            UsageError, RunError: see `OpenAIProvider.probe`.
        """
        if not self._endpoints:
            self._open()
        if self._workers is None:
            self._client.tokenizer.count("")
            await self._look()
            return
        async with self._workers.opened():
            await self._look()

    async def _look(self) -> None:
        """Check that the endpoints can be reached, and note what they say of their models."""
        for provider in self._providers:
            await provider.probe()
            for target in targets_of(self._access):
                if target.provider == provider.name:
                    self.capabilities.said[target.provider, target.model] = await provider.said_of(target.model)
                    if self.capabilities.lacking(target, ("JSON schemas",)):
                        provider.without_formats(target.model)

    async def aclose(self) -> None:
        """Close the connections."""
        for provider in self._providers:
            await provider.aclose()
        if self._workers is not None:
            await self._workers.aclose()

    @property
    def workers(self) -> "WorkerFigures | None":
        """What there is to say of its worker processes; None: it has none."""
        return None if self._workers is None else self._workers.figures

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The endpoints by name; empty before the first use."""
        return self._endpoints

    @property
    def endpoint(self) -> Endpoint:
        """The first endpoint, with its governor and circuit breaker. It exists after the first use."""
        return self._endpoints[self._providers[0].name]

    def _open(self) -> None:
        for provider in self._providers:
            self._endpoints[provider.name] = self._endpoint(provider)

    def _endpoint(self, provider: "OpenAIProvider | BatchProvider | WorkerProvider") -> Endpoint:
        if isinstance(provider, BatchProvider):  # requests that wait in a batch are no load, and a refusal says nothing
            breaker = Breaker(self._clock, share=math.inf)
            return Endpoint(provider, _Open(self._clock), breaker, written_calls=provider.name in self._written_calls)
        access = self._access.at(provider.name)
        limits = Limits(access.requests_per_minute, access.tokens_per_minute, access.concurrency)
        governor = Governor(self._clock, limits, pacer=self._clock.pacer)
        return Endpoint(
            self._wrap(provider, self._clock), governor, Breaker(self._clock),
            written_calls=provider.name in self._written_calls,
        )  # fmt: skip


class _Open(Governor):
    """A governor that admits every request at once."""

    def settle(self, give_back: float, error: ModelError | None, *, answered: bool, since: float = 0.0) -> None:
        """End a request; its outcome changes no limit."""
        super().settle(give_back, None, answered=False)

    def learn(self, rates: ReportedLimits) -> None:
        """Ignore limits, which are about other requests."""
