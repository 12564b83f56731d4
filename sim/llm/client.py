"""The client: one call from its first request to an answer, over retries and a chain of models.

Each request passes the circuit breaker, then waits for its turn at the governor. The provider answers it within a time
limit. After a failure the retry policy decides: wait and try again, use the next model of the chain (a fallback), or
give up. The same code runs in real time (at the edge) and in simulated time (in the core); see `ClientClock`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs

from sim.base.errors import SimError, UsageError
from sim.llm.capabilities import Capabilities
from sim.llm.limits.breaker import Breaker
from sim.llm.limits.governor import Governor, Limits, Permit
from sim.llm.limits.retry import OVER_ADVICE, RetryPolicy
from sim.llm.limits.spend import total_usage
from sim.llm.needs import lacking_in, needs_of
from sim.llm.reading import ReasoningFilter, read
from sim.llm.router import Target, step_down, steps_down
from sim.llm.sending import Interrupted, Sending, TooLate
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
"""Expected length of an answer in tokens before the first answer."""

_LONGEST_DETAIL: Final = 300

_MEMORY = 0.1  # weight of the latest answer in the moving average of answer lengths

_MOST_LOST: Final = 3  # requests of one call whose process ended; after more, it is likely that the call is why
_MOST_UNSENT: Final = 10  # requests of one call whose process ended before it had sent them

_FREE = frozenset({"rate_limit", "overload", "quota", "auth", "not_found", "bad_request", "context_length"})
"""Classes of errors that occur before any token is used."""


@attrs.define
class Endpoint:
    """One endpoint: its provider, governor, circuit breaker, and average answer length in tokens.

    `written_calls` says whether its models write tool calls as text.
    """

    provider: Provider
    governor: Governor
    breaker: Breaker
    mean_output: float = FIRST_GUESS
    written_calls: bool = False

    def expect(self, request: ModelRequest, input_tokens: int) -> float:
        """Return the expected tokens of a request and its answer."""
        most = request.sampling.max_tokens
        return input_tokens + (self.mean_output if most is None else min(self.mean_output, most))

    def learn(self, usage: TokenUsage) -> None:
        """Update the average answer length with one answer."""
        self.mean_output += _MEMORY * (usage.output_tokens - self.mean_output)


def make_endpoint(
    clock: ClientClock, provider: Provider, limits: Limits | None = None, *, written_calls: bool = False
) -> Endpoint:
    """Return an endpoint for `provider` with its own governor and circuit breaker."""
    return Endpoint(provider, Governor(clock, limits), Breaker(clock), written_calls=written_calls)


class Client:
    """Sends requests to endpoints. All agents of a run share one client.

    Args:
        clock: real or simulated time.
        endpoints: the endpoints by name of the provider.
        policy: how often and how long a call is tried.
        tokenizer: estimates the tokens of a request.
        cost: maps a model and its usage to a cost in micro-units.
        capabilities: what is known of the models; a model gets no request that it is known not to be able to answer.
        count: counts the tokens of a request elsewhere, as `tokenizer` does; if it returns None, they are counted here.
    """

    def __init__(
        self,
        clock: ClientClock,
        endpoints: Mapping[str, Endpoint],
        policy: RetryPolicy | None = None,
        *,
        tokenizer: Tokenizer = APPROXIMATE,
        cost: Callable[[str, TokenUsage], int] = lambda model, usage: 0,
        capabilities: Capabilities | None = None,
        count: Callable[[ModelRequest], Awaitable[int | None]] | None = None,
    ) -> None:
        self.capabilities = capabilities or Capabilities()
        self.clock = clock
        self.endpoints = endpoints
        self.policy = policy or RetryPolicy()
        self.tokenizer = tokenizer
        self.count = count
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
        """Return the answer of the first model in `chain` that answers.

        Args:
            chain: the models to try, best first.
            request: the request.
            agent: the caller; the governor is fair among agents.
            observe: called with each part of the answer. If an attempt fails after a part, it gets a `discard`.
            on_attempt: called after each attempt.

        Raises:
            ModelError: the last failure, with all attempts, if no model answers.
            UsageError: if the chain is empty or names an unknown provider.
        """
        missing = [target.provider for target in chain if target.provider not in self.endpoints]
        if missing or not chain:
            there = ", ".join(sorted(self.endpoints)) or "none"
            raise UsageError(f"unknown model provider {missing[0] if missing else 'no provider'!r}; known: {there}")
        call = _Call(self, agent, request, observe, on_attempt)
        fallbacks: list[str] = []
        for position, target in enumerate(chain):
            below = len(chain) - position - 1
            lacking = self.capabilities.lacking(target, needs_of(request))
            if lacking is not None and below:
                fallbacks.append(f"{target} → {chain[position + 1]}: {lacking}")
                continue
            if lacking is not None:
                raise call.with_attempts(lacking)
            tried = len(call.attempts)
            outcome = await call.ask(target, keep=below)
            if isinstance(outcome, Completion):
                cost = sum(self._cost(attempt.model, attempt.usage) for attempt in call.attempts if attempt.usage)
                return Answer(
                    outcome, tuple(call.attempts), cost, tuple(fallbacks), tuple(call.refused_formats), tuple(call.lost)
                )
            if not below or not steps_down(outcome.kind) or call.is_spent:
                raise call.with_attempts(outcome)
            fallbacks.append(step_down(target, chain[position + 1], outcome, len(call.attempts) - tried))
        raise AssertionError("the last model of a chain answers or raises")


class _Call:
    """One call in flight."""

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
        self._counts: dict[Tokenizer, int] = {}  # input tokens, by how they were counted
        self.attempts: list[Attempt] = []
        self.refused_formats: list[tuple[str, str]] = []
        self.lost: list[Attempt] = []
        self.unsent = 0  # requests whose process ended before it had sent them
        self.spent = 0.0  # seconds of requests and of waiting between them

    @property
    def is_spent(self) -> bool:
        """Whether the call can make no further request, to any model."""
        used_up = len(self.attempts) >= self._policy.requests or self._is_interrupted_too_often
        return used_up or self.spent >= self._policy.deadline

    def with_attempts(self, error: ModelError) -> ModelError:
        """Return the failure of the call, with what was tried."""
        error.attempts, error.refused_formats = tuple(self.attempts), tuple(self.refused_formats)
        error.lost = tuple(self.lost)
        return error

    async def ask(self, target: Target, *, keep: int) -> Completion | ModelError:
        """Send the request to one model until it answers or the retry policy gives up.

        Args:
            target: the model.
            keep: requests to leave for the later models of the chain.
        """
        tries: dict[str, int] = {}
        while True:
            permit = await self._turn(target, wait=keep == 0)
            if isinstance(permit, ModelError):
                return permit
            started = self._clock.now()
            try:
                outcome = await self._request_once(target, permit)
            except Interrupted as error:
                seconds = self._clock.now() - started
                self.spent += seconds
                self._lose(target, error, seconds)
                if self.is_spent:
                    return self._given_up(error)
                continue
            seconds = self._clock.now() - started
            self.spent += seconds
            pause = None
            if isinstance(outcome, ModelError):
                tries[outcome.kind] = tries.get(outcome.kind, 0) + 1
                pause = self._pause(outcome, tries[outcome.kind], keep)
            self._note(target, outcome, seconds, pause or 0.0)
            if pause is None:
                return outcome
            await self._sleep(pause)

    @property
    def _is_interrupted_too_often(self) -> bool:
        return len(self.lost) > _MOST_LOST or self.unsent > _MOST_UNSENT

    def _given_up(self, error: Interrupted) -> ModelError:
        """Return the failure of a call whose processes ended. `error` is about the last one."""
        times = len(self.lost) + self.unsent
        after = "" if self._is_interrupted_too_often else f" after {self.spent:.0f} s"
        return ModelError("network", f"{error}; the call was interrupted {times} times, and has no answer{after}")

    def _pause(self, error: ModelError, tries: int, keep: int) -> float | None:
        """Return the seconds to wait before the next request to this model, or None to give up."""
        if len(self.attempts) + 1 + keep >= self._policy.requests or lacking_in(error, self._request):
            return None
        pause = self._policy.pause(error, tries, self._clock.random(), immediate=self._request.immediate)
        return None if pause is None or self.spent + pause >= self._policy.deadline else pause

    async def _turn(self, target: Target, *, wait: bool) -> Permit | ModelError:
        """Wait for the circuit breaker (only if `wait` and within the deadline) and for a turn at the governor."""
        endpoint = self._client.endpoints[target.provider]
        while True:
            shut = endpoint.breaker.wait()
            if not shut:
                if self._client.count is not None and endpoint.governor.counts_tokens:
                    await self._count(self._client.count)
                permit = await endpoint.governor.admit(self._agent, self._expected(endpoint))
                shut = endpoint.breaker.wait()  # it can have opened during the wait
                if not shut:
                    return permit
                permit.close(0.0, answered=False)
            if not wait or self.spent + shut >= self._policy.deadline:
                return ModelError("overload", f"{target.provider} is left alone: it fails too often", retry_after=shut)
            await self._sleep(shut * (1 + OVER_ADVICE * self._clock.random()))

    async def _request_once(self, target: Target, permit: Permit) -> Completion | ModelError:
        """Make one request, and report its end to the governor, the circuit breaker and the average length."""
        endpoint = self._client.endpoints[target.provider]
        watch = _Watch(self._observe)
        endpoint.breaker.begin()
        seconds = min(self._policy.timeout, max(1.0, self._policy.deadline - self.spent))
        outcome: Completion | ModelError
        try:
            answer = await self._clock.within(
                seconds, lambda: endpoint.provider.complete(target.model, self._request, watch.observer)
            )
            self._note_format(target, answer)
            outcome = read(answer, self._request, written_calls=endpoint.written_calls)
            watch.end()
        except TimeoutError as error:
            note = error.sending if isinstance(error, TooLate) else Sending()
            self._note_format(target, note)
            if not note.sent:  # the endpoint has no part in it
                permit.close(0.0, answered=False)
                watch.discard("timeout")
                return ModelError("timeout", f"{target} was not asked within {seconds:g} s", usage=note.used)
            outcome = ModelError("timeout", f"{target} did not answer within {seconds:g} s", usage=self._used(note))
        except ModelError as error:
            self._note_format(target, error)
            outcome = error
        except BaseException as error:
            if isinstance(error, SimError) or not isinstance(error, Exception):
                unsent = isinstance(error, Interrupted) and not error.sending.sent
                permit.close(0.0 if unsent else None, answered=False)
                if isinstance(error, Interrupted):
                    watch.discard("interrupted")
                raise
            outcome = _unforeseen(error, self._sent())
        if isinstance(outcome, ModelError):
            if outcome.kind == "reasoning" and outcome.usage is not None:
                endpoint.learn(outcome.usage)
            endpoint.breaker.record(outcome.kind)
            permit.close(_tokens(outcome), outcome)
            watch.discard(outcome.kind)
        else:
            endpoint.breaker.record(None)
            endpoint.learn(outcome.usage)
            permit.close(outcome.usage.input_tokens + outcome.usage.output_tokens)
        return outcome

    def _note_format(self, target: Target, outcome: Completion | ModelError | Sending) -> None:
        if outcome.refused_format:
            self.refused_formats.append((str(target), outcome.refused_format))

    def _sent(self) -> TokenUsage:
        """Return the usage of a request without a reported usage: it was sent, so its input counts."""
        return TokenUsage(self._input_tokens(self._client.tokenizer), 0, estimated=True)

    def _used(self, note: Sending) -> TokenUsage | None:
        """Return the usage of an attempt without an outcome; None: it has sent nothing."""
        return total_usage((note.used, self._sent() if note.sent else None))

    def _expected(self, endpoint: Endpoint) -> float:
        """Return the expected tokens of the request and its answer: an exact count, which takes longer than all other
        work on a call, only where a limit needs it.
        """
        tokenizer = self._client.tokenizer if endpoint.governor.counts_tokens else APPROXIMATE
        return endpoint.expect(self._request, self._input_tokens(tokenizer))

    async def _count(self, count: Callable[[ModelRequest], Awaitable[int | None]]) -> None:
        """Have the exact count made elsewhere."""
        tokenizer = self._client.tokenizer
        if tokenizer is not APPROXIMATE and tokenizer not in self._counts:
            counted = await count(self._request)
            if counted is not None:
                self._counts[tokenizer] = counted

    def _input_tokens(self, tokenizer: Tokenizer) -> int:
        if tokenizer not in self._counts:
            self._counts[tokenizer] = count_request(tokenizer, self._request)
        return self._counts[tokenizer]

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

    def _lose(self, target: Target, error: Interrupted, seconds: float) -> None:
        """Note a request whose process ended. If it was sent, its answer is lost, and its input is billed."""
        self._note_format(target, error.sending)
        usage = self._used(error.sending)
        if usage is None:
            self.unsent += 1
            return
        detail = f"{error} before the answer arrived"
        attempt = Attempt(
            target.provider, target.model, "interrupted", seconds, detail=detail[:_LONGEST_DETAIL], usage=usage
        )
        self.lost.append(attempt)
        if self._on_attempt is not None:
            self._on_attempt(attempt)

    async def _sleep(self, seconds: float) -> None:
        self.spent += seconds
        await self._clock.sleep(seconds)


class _Watch:
    """Tracks whether an observer saw a part of one request's answer. It sees reasoning as such."""

    def __init__(self, observe: Observer | None) -> None:
        self._observe = observe
        self._filter = None if observe is None else ReasoningFilter(self._show)
        self._seen = False

    @property
    def observer(self) -> Observer | None:
        """The observer to pass to the provider, or None."""
        return self._filter

    def end(self) -> None:
        """Show what was held back until the end of the answer."""
        if self._filter is not None:
            self._filter.flush()

    def _show(self, part: Delta) -> None:
        assert self._observe is not None, "else the provider has no observer"
        self._seen = True
        self._observe(part)

    def discard(self, why: str) -> None:
        """Tell the observer that the parts it saw are invalid, if it saw any."""
        if self._seen:
            self._show(Delta("discard", why))


def _tokens(error: ModelError) -> float | None:
    """Return the tokens of a failed request, or None if unknown (an interrupted answer can have been long)."""
    if error.usage is not None and error.kind != "timeout":
        return error.usage.input_tokens + error.usage.output_tokens
    return 0.0 if error.kind in _FREE else None


def _unforeseen(error: Exception, usage: TokenUsage) -> ModelError:
    """Convert an unexpected error of a provider or a library to a failed attempt that is paid for.

    Its text can contain a lone surrogate, which cannot be recorded.
    """
    message = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    failure = ModelError("server", message, usage=usage)
    failure.__cause__ = error
    return failure
