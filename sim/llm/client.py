"""The client: one call from its first request to an answer, over retries and a chain of models.

For each request: the breaker lets it, the governor gives it its turn, the provider answers it within a time limit, and
the retry policy says what a failure means: wait and try again, step down to the next model of the chain, or give up.
The code is the same in real time (at the edge) and on simulated time (in the core): see `ClientClock`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import attrs

from sim.errors import SimError, UsageError
from sim.llm.limits.breaker import Breaker
from sim.llm.limits.governor import Governor, Limits, Permit
from sim.llm.limits.retry import OVER_ADVICE, RetryPolicy
from sim.llm.router import Target, step_down, steps_down
from sim.llm.tokens import APPROXIMATE, Tokenizer, count_request
from sim.llm.types import (
    Answer,
    Attempt,
    ClientClock,
    Completion,
    Delta,
    ModelError,
    ModelRequest,
    Observer,
    Provider,
    TokenUsage,
)

FIRST_GUESS = 256.0
"""Tokens that an answer is expected to have before any was seen."""

_MEMORY = 0.1  # the weight of the latest answer in the mean length of answers

_FREE = frozenset({"rate_limit", "overload", "quota", "auth", "not_found", "bad_request", "context_length"})
"""Failures before any token was spent."""


@attrs.define
class Endpoint:
    """One endpoint: who answers there, who may ask, and what is known about it."""

    provider: Provider
    governor: Governor
    breaker: Breaker
    mean_output: float = FIRST_GUESS

    def expect(self, request: ModelRequest, input_tokens: int) -> float:
        """Return the tokens that a request will probably cost."""
        most = request.sampling.max_tokens
        return input_tokens + (self.mean_output if most is None else min(self.mean_output, most))

    def learn(self, usage: TokenUsage) -> None:
        """Let an answer count in what is expected of the next."""
        self.mean_output += _MEMORY * (usage.output_tokens - self.mean_output)


def make_endpoint(clock: ClientClock, provider: Provider, limits: Limits | None = None) -> Endpoint:
    """Return an endpoint to `provider` with a governor and a breaker of its own."""
    return Endpoint(provider, Governor(clock, limits), Breaker(clock))


class Client:
    """Has requests answered. One for all agents of a run.

    Args:
        clock: time, real or simulated.
        endpoints: provider's name → its endpoint.
        policy: how often and how long a call tries.
        tokenizer: estimates what a request will cost.
        cost: (model, usage) → micro-units of money.
    """

    def __init__(
        self,
        clock: ClientClock,
        endpoints: Mapping[str, Endpoint],
        policy: RetryPolicy | None = None,
        *,
        tokenizer: Tokenizer = APPROXIMATE,
        cost: Callable[[str, TokenUsage], int] = lambda model, usage: 0,
    ) -> None:
        self.clock = clock
        self.endpoints = endpoints
        self.policy = policy or RetryPolicy()
        self.tokenizer = tokenizer
        self._cost = cost

    async def complete(
        self,
        chain: Sequence[Target],
        request: ModelRequest,
        *,
        agent: str,
        observe: Observer | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
    ) -> Answer:
        """Have `request` answered by the first model of `chain` that does.

        Args:
            chain: the models to ask, best first.
            request: what to ask.
            agent: who asks; the governor is fair among agents.
            observe: follows the answer while it comes; if a try fails of which it saw a part, it gets `discard`.
            on_attempt: called after each try.

        Raises:
            ModelError: the last failure, with all attempts, if nobody answers.
            UsageError: if the chain is empty, or names a provider that is not there.
        """
        missing = [target.provider for target in chain if target.provider not in self.endpoints]
        if missing or not chain:
            there = ", ".join(sorted(self.endpoints)) or "none"
            raise UsageError(f"a model of {missing[0] if missing else 'no provider'!r} was asked for; there is {there}")
        call = _Call(self, agent, request, observe, on_attempt)
        fallbacks: list[str] = []
        for position, target in enumerate(chain):
            below = len(chain) - position - 1
            tried = len(call.attempts)
            outcome = await call.ask(target, keep=below)
            if isinstance(outcome, Completion):
                cost = sum(self._cost(attempt.model, attempt.usage) for attempt in call.attempts if attempt.usage)
                return Answer(outcome, tuple(call.attempts), cost, tuple(fallbacks))
            if not below or not steps_down(outcome.kind) or call.is_spent:
                outcome.attempts = tuple(call.attempts)
                raise outcome
            fallbacks.append(step_down(target, chain[position + 1], outcome, len(call.attempts) - tried))
        raise AssertionError("the last model of a chain answers or raises")


class _Call:
    """One call under way."""

    def __init__(
        self,
        client: Client,
        agent: str,
        request: ModelRequest,
        observe: Observer | None,
        on_attempt: Callable[[Attempt], None] | None,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._policy = client.policy
        self._agent = agent
        self._request = request
        self._observe = observe
        self._on_attempt = on_attempt
        self._input_tokens = count_request(client.tokenizer, request)
        self.attempts: list[Attempt] = []
        self.spent = 0.0  # seconds of requests and of waiting between them

    @property
    def is_spent(self) -> bool:
        """Whether the call may make no further request, of whatever model."""
        return len(self.attempts) >= self._policy.requests or self.spent >= self._policy.deadline

    async def ask(self, target: Target, *, keep: int) -> Completion | ModelError:
        """Ask one model until it answers or is given up.

        Args:
            target: the model.
            keep: requests to leave for the models below it in the chain.
        """
        tries: Counter[str] = Counter()
        while True:
            permit = await self._turn(target, wait=keep == 0)
            if isinstance(permit, ModelError):
                return permit
            started = self._clock.now()
            outcome = await self._request_once(target, permit)
            seconds = self._clock.now() - started
            self.spent += seconds
            pause = None
            if isinstance(outcome, ModelError):
                tries[outcome.kind] += 1
                pause = self._pause(outcome, tries[outcome.kind], keep)
            self._note(target, outcome, seconds, pause or 0.0)
            if pause is None:
                return outcome
            await self._sleep(pause)

    def _pause(self, error: ModelError, tries: int, keep: int) -> float | None:
        """Return the seconds to wait before the same model is asked again, or None to give it up."""
        if len(self.attempts) + 1 + keep >= self._policy.requests:
            return None
        pause = self._policy.pause(error, tries, self._clock.random())
        return None if pause is None or self.spent + pause >= self._policy.deadline else pause

    async def _turn(self, target: Target, *, wait: bool) -> Permit | ModelError:
        """Wait for the breaker, if that is worth it, and for one's turn."""
        endpoint = self._client.endpoints[target.provider]
        while True:
            shut = endpoint.breaker.wait()
            if not shut:
                permit = await endpoint.governor.admit(self._agent, endpoint.expect(self._request, self._input_tokens))
                shut = endpoint.breaker.wait()  # it may have opened in the meantime
                if not shut:
                    return permit
                permit.close(0.0, answered=False)
            if not wait or self.spent + shut >= self._policy.deadline:
                return ModelError("overload", f"{target.provider} is left alone: it fails too often", retry_after=shut)
            await self._sleep(shut * (1 + OVER_ADVICE * self._clock.random()))

    async def _request_once(self, target: Target, permit: Permit) -> Completion | ModelError:
        """Make one request, and let the governor, the breaker and the mean learn from how it ends."""
        endpoint = self._client.endpoints[target.provider]
        watch = _Watch(self._observe)
        endpoint.breaker.begin()
        seconds = min(self._policy.timeout, max(1.0, self._policy.deadline - self.spent))
        outcome: Completion | ModelError
        try:
            outcome = await self._clock.within(
                seconds, lambda: endpoint.provider.complete(target.model, self._request, watch.observer)
            )
        except TimeoutError:
            outcome = ModelError("timeout", f"{target} did not answer within {seconds:g} s", usage=self._sent())
        except ModelError as error:
            outcome = error
        except BaseException as error:
            if isinstance(error, SimError) or not isinstance(error, Exception):
                permit.close(answered=False)
                raise
            outcome = _unforeseen(error, self._sent())
        if isinstance(outcome, ModelError):
            endpoint.breaker.record(outcome.kind)
            permit.close(_tokens(outcome), outcome)
            watch.discard(outcome)
        else:
            endpoint.breaker.record(None)
            endpoint.learn(outcome.usage)
            permit.close(outcome.usage.input_tokens + outcome.usage.output_tokens)
        return outcome

    def _sent(self) -> TokenUsage:
        """Return what a request takes of which nobody says what it took: it was sent, so its input is paid for."""
        return TokenUsage(self._input_tokens, 0, estimated=True)

    def _note(self, target: Target, outcome: Completion | ModelError, seconds: float, waited: float) -> None:
        failed = isinstance(outcome, ModelError)
        attempt = Attempt(
            provider=target.provider,
            model=target.model,
            outcome=outcome.kind if isinstance(outcome, ModelError) else "ok",
            seconds=seconds,
            waited=waited,
            detail=str(outcome) if failed else "",
            usage=outcome.usage,
        )
        self.attempts.append(attempt)
        if self._on_attempt is not None:
            self._on_attempt(attempt)

    async def _sleep(self, seconds: float) -> None:
        self.spent += seconds
        await self._clock.sleep(seconds)


class _Watch:
    """What an observer saw of one request."""

    def __init__(self, observe: Observer | None) -> None:
        self._observe = observe
        self._seen = False

    @property
    def observer(self) -> Observer | None:
        """What the provider tells of each part."""
        return None if self._observe is None else self._show

    def _show(self, part: Delta) -> None:
        assert self._observe is not None, "else the provider has no observer"
        self._seen = True
        self._observe(part)

    def discard(self, error: ModelError) -> None:
        """Say that the parts are thrown away, if there were any."""
        if self._seen:
            self._show(Delta("discard", error.kind))


def _tokens(error: ModelError) -> float | None:
    """Return the tokens that a failed request cost, None if nobody knows: one that was cut may have answered much."""
    if error.usage is not None and error.kind != "timeout":
        return error.usage.input_tokens + error.usage.output_tokens
    return 0.0 if error.kind in _FREE else None


def _unforeseen(error: Exception, usage: TokenUsage) -> ModelError:
    """Return what a fault of a provider or its libraries counts as: a try that failed, and is paid for.

    Its text may hold anything, also half a surrogate pair, which cannot be recorded.
    """
    message = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    failure = ModelError("server", message, usage=usage)
    failure.__cause__ = error
    return failure
