"""The client on simulated time: tries, waits, fallbacks, and what it records of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

import pytest
import trio

from sim.base.errors import UsageError
from sim.llm.client import Client, Endpoint, make_endpoint
from sim.llm.endpoint import EdgeClock
from sim.llm.limits.governor import Limits
from sim.llm.limits.retry import MOST_REQUESTS, RetryPolicy
from sim.llm.router import Target, steps_down
from sim.llm.tokens import APPROXIMATE, count_request
from sim.llm.types import (
    Answer,
    Attempt,
    ChatMessage,
    Completion,
    ErrorClass,
    ModelError,
    ModelRequest,
    Observer,
    Sampling,
    TokenUsage,
)
from tests.llm.timing import jump

ASK = ModelRequest((ChatMessage("user", "what is it? " * 10),), sampling=Sampling(max_tokens=50))
HERE, THERE, LAST = Target("here", "a"), Target("there", "b"), Target("last", "c")

Step = ErrorClass | ModelError | float | None
"""What one request comes to: an error, an answer (None), or an answer after some seconds."""


class Scripted:
    """A provider that follows a list of steps, and answers at once when that is at its end."""

    def __init__(self, name: str, steps: Iterable[Step] = ()) -> None:
        self.name = name
        self.times: list[float] = []
        self._steps: Iterator[Step] = iter(steps)

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Do the next step."""
        self.times.append(trio.current_time())
        step = next(self._steps, None)
        if isinstance(step, ModelError):
            raise step
        if isinstance(step, str):
            raise ModelError(step, f"{step} it is")
        await trio.sleep(step or 0.0)
        return Completion("it is", (), "end_turn", TokenUsage(30, 5), model)


def ask(
    *providers: Scripted,
    policy: RetryPolicy | None = None,
    limits: Limits | None = None,
    heard: list[Attempt] | None = None,
    request: ModelRequest = ASK,
) -> Answer:
    """Return the answer to one call over a chain of all providers."""

    async def main() -> Answer:
        clock = EdgeClock(1)
        endpoints = {provider.name: make_endpoint(clock, provider, limits) for provider in providers}
        client = Client(
            clock, endpoints, policy, cost=lambda model, usage: usage.input_tokens + 2 * usage.output_tokens
        )
        chain = [Target(provider.name, "abcdef"[place]) for place, provider in enumerate(providers)]
        return await client.complete(chain, request, agent="x", on_attempt=None if heard is None else heard.append)

    return jump(main)


def gives_up(*providers: Scripted, **rest: Any) -> ModelError:
    """Return the error that a call ends with."""
    with pytest.raises(ModelError) as caught:
        ask(*providers, **rest)
    return caught.value


def test_answer():
    """An answer comes with its one attempt and its cost."""
    answer = ask(Scripted("here", [2.0]))
    assert answer.completion.text == "it is"
    assert answer.attempts == (Attempt("here", "a", "ok", 2.0, usage=TokenUsage(30, 5)),)
    assert (answer.cost_micro, answer.fallbacks) == (40, ())


@pytest.mark.parametrize(
    ("kind", "requests"),
    [
        *[(kind, 1) for kind in ("quota", "bad_request", "context_length", "content", "auth")],
        *[(kind, 1 + 2) for kind in ("server", "timeout", "malformed")],
        *[(kind, 1 + 3) for kind in ("network", "incomplete")],
        *[(kind, 1 + 2 + 5) for kind in ("rate_limit", "overload")],
    ],
)
def test_requests_of_each_class(kind: ErrorClass, requests: int):
    """A class of errors has one request and the retries of its rule: the last error comes out."""
    provider = Scripted("here", [kind] * 9)
    failure = gives_up(provider)
    assert failure.kind == kind
    assert len(provider.times) == requests
    assert [attempt.outcome for attempt in failure.attempts] == [kind] * requests


def test_waits_at_least_as_long_as_asked():
    """Between a refusal that asks for 7 s and the next request lie 7 to 8.4 s: client and governor wait at once."""
    refusals = [ModelError("rate_limit", "later", retry_after=7.0)] * 3
    provider = Scripted("here", refusals)
    ask(provider)
    waits = [later - earlier for earlier, later in zip(provider.times, provider.times[1:], strict=False)]
    assert len(waits) == 3
    assert all(7 <= wait <= 8.41 for wait in waits)


def test_every_attempt_is_heard_and_kept():
    """Each try is reported when it is over, with its class, its time and the wait after it; the answer has them all."""
    heard: list[Attempt] = []
    answer = ask(Scripted("here", ["rate_limit", "server", None]), heard=heard)
    assert [attempt.outcome for attempt in heard] == ["rate_limit", "server", "ok"]
    assert tuple(heard) == answer.attempts
    waits = [attempt.waited or 0.0 for attempt in heard]
    assert waits[0] >= 1.5
    assert waits[1] >= 1.0
    assert waits[2] == 0
    assert "server it is" in heard[1].detail


def test_failed_tries_are_paid_for():
    """Tokens of a try that broke off count in the cost of the call."""
    broken = ModelError("incomplete", "cut", usage=TokenUsage(30, 2, estimated=True))
    assert ask(Scripted("here", [broken])).cost_micro == 34 + 40


# -- the time limits


def test_a_hanging_request_is_cut():
    """A request that never ends is cut at its time limit, and tried again twice."""
    provider = Scripted("here", [10_000.0] * 3)
    failure = gives_up(provider, policy=RetryPolicy(timeout=60))
    assert failure.kind == "timeout"
    assert [attempt.seconds for attempt in failure.attempts] == [60, 60, 60]


def test_deadline_of_a_call():
    """A call gives up when its deadline would be exceeded: it does not begin a wait that it cannot end."""
    refusals = [ModelError("rate_limit", "later", retry_after=40.0)] * 9
    provider = Scripted("here", refusals)
    failure = gives_up(provider, policy=RetryPolicy(deadline=100, requests=9))
    assert len(provider.times) == 3
    assert failure.retry_after == 40
    assert provider.times[-1] <= 100


def test_turns_are_not_counted():
    """Waiting for one's turn under a limit is no trying: a call may wait longer for it than its deadline is."""

    async def main() -> float:
        clock = EdgeClock(1)
        provider = Scripted("here")
        client = Client(clock, {"here": make_endpoint(clock, provider, Limits(1))}, RetryPolicy(deadline=30))
        for _ in range(4):
            await client.complete([HERE], ASK, agent="x")
        return trio.current_time()

    assert jump(main) > 120


@pytest.mark.parametrize(
    ("limits", "outcomes", "counted"),
    [
        (None, [], 0),
        (Limits(requests_per_minute=60), [], 0),
        (Limits(tokens_per_minute=1_000_000), [], 1),
        (Limits(tokens_per_minute=1_000_000), ["server"], 1),
        (None, ["server", "server"], 0),
        (None, [10_000.0], 1),
    ],
)
def test_tokens_are_counted_only_where_a_limit_or_a_price_needs_them(limits, outcomes, counted):
    """An exact count takes longer than the rest of a call, so a call is counted once at most: if its endpoint limits
    tokens, or if it was sent and cut off, so that nothing reports what it used.
    """

    class Counting:
        name = "counting"
        texts = 0

        def count(self, text: str) -> int:
            self.texts += 1
            return len(text)

    async def main() -> int:
        clock, tokenizer = EdgeClock(1), Counting()
        endpoint = make_endpoint(clock, Scripted("here", outcomes), limits)
        client = Client(clock, {"here": endpoint}, RetryPolicy(timeout=60), tokenizer=tokenizer)
        await client.complete([HERE], ASK, agent="x")
        return tokenizer.texts

    assert jump(main) == counted


def test_what_was_cut_is_paid_for():
    """A request that the time limit ends was sent: its input counts, estimated, in the attempt and in the cost."""
    answer = ask(Scripted("here", [10_000.0]), policy=RetryPolicy(timeout=60))
    usage = answer.attempts[0].usage
    assert usage is not None
    assert usage.estimated
    assert usage.input_tokens == count_request(APPROXIMATE, ASK)
    assert answer.cost_micro == usage.input_tokens + 40


# -- the chain


@pytest.mark.parametrize("kind", get_args(ErrorClass))
def test_steps_down_after_errors_that_another_model_may_not_have(kind: ErrorClass):
    """When a model is given up the next is asked, with the reason recorded; but not if the request is at fault."""
    first, second = Scripted("here", [kind] * 9), Scripted("there")
    if not steps_down(kind):
        assert gives_up(first, second).kind == kind
        assert second.times == []
        return
    answer = ask(first, second)
    assert answer.completion.model == "b"
    assert len(answer.fallbacks) == 1
    assert f"here:a → there:b: {kind} after" in answer.fallbacks[0]


def test_requests_are_left_for_the_models_below():
    """A chain of three has no more requests than one model, and each of its models gets one at least."""
    chain = [Scripted(name, ["rate_limit"] * 9) for name in ("here", "there", "last")]
    failure = gives_up(*chain)
    assert [len(provider.times) for provider in chain] == [6, 1, 1]
    assert len(failure.attempts) == MOST_REQUESTS == 8
    assert [attempt.provider for attempt in failure.attempts[5:]] == ["here", "there", "last"]


@pytest.mark.parametrize("kind", ["auth", "rate_limit"])
def test_a_long_chain_has_no_more_requests(kind: ErrorClass):
    """A chain that is longer than a call may make requests is gone down only as far as these reach."""
    chain = [Scripted(f"p{number}", [kind] * 9) for number in range(6)]
    failure = gives_up(*chain, policy=RetryPolicy(requests=4))
    assert [len(provider.times) for provider in chain] == [1, 1, 1, 1, 0, 0]
    assert len(failure.attempts) == 4


def test_an_open_breaker_steps_down_at_once():
    """A model whose endpoint is left alone is passed over without a request; the last of a chain waits instead."""

    async def main() -> None:
        clock = EdgeClock(1)
        first, second = Scripted("here", ["server"] * 10), Scripted("there")
        endpoints = {provider.name: make_endpoint(clock, provider) for provider in (first, second)}
        client = Client(clock, endpoints)
        while not endpoints["here"].breaker.is_open:
            await client.complete([HERE, THERE], ASK, agent="x")
        requests = len(first.times)
        answer = await client.complete([HERE, THERE], ASK, agent="x")
        assert len(first.times) == requests
        assert answer.fallbacks == ("here:a → there:b: overload after 0 tries",)
        answer = await client.complete([HERE], ASK, agent="x")
        assert answer.completion.model == "a"
        assert first.times[-1] - first.times[-2] >= 15
        assert not endpoints["here"].breaker.is_open

    jump(main)


def test_unknown_provider():
    """A chain that is empty, or names a provider that is not there, is the caller's error."""

    async def main() -> None:
        client = Client(EdgeClock(1), {})
        for chain in ([], [HERE]):
            with pytest.raises(UsageError, match="known: none"):
                await client.complete(chain, ASK, agent="x")

    jump(main)


# -- reservations


def test_what_is_reserved_follows_what_is_seen():
    """The expected length of answers follows the answers, within what the request allows."""

    async def main() -> None:
        clock = EdgeClock(1)
        provider = Scripted("here")
        way: Endpoint = make_endpoint(clock, provider)
        client = Client(clock, {"here": way})
        free = ModelRequest(ASK.messages)
        assert way.expect(free, 30) == 30 + 256
        assert way.expect(ASK, 30) == 30 + 50
        for _ in range(100):
            await client.complete([HERE], free, agent="x")
        assert way.expect(free, 30) == pytest.approx(35, abs=0.1)

    jump(main)


@pytest.mark.parametrize("how", ["cancel", "bug"])
def test_nothing_leaks(how: str):
    """A call that is cancelled, or breaks by a fault in a provider, gives its slot back."""

    class Broken(Scripted):
        async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
            await trio.sleep(1)
            raise ZeroDivisionError if how == "bug" else ModelError("network", "no")

    async def main() -> None:
        clock = EdgeClock(1)
        way = make_endpoint(clock, Broken("here"), Limits(concurrency=1))
        client = Client(clock, {"here": way})

        async def one() -> None:
            with trio.move_on_after(0.5 if how == "cancel" else 100):
                await client.complete([HERE], ASK, agent="x")

        for _ in range(3):
            if how == "cancel":
                await one()
            else:
                with pytest.raises(ModelError, match="ZeroDivisionError"):
                    await one()
        assert way.governor.statistics().in_flight == 0

    jump(main)


def test_a_fault_of_a_provider_is_a_try_that_is_paid_for():
    """What nobody foresaw in a provider is a failed request, billed for its input, with a text that can be recorded."""

    class Broken(Scripted):
        async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
            self.times.append(trio.current_time())
            raise ValueError("half a pair: \ud83d")

    broken = Broken("here")
    failure = gives_up(broken)
    assert failure.kind == "server"
    assert len(broken.times) == len(failure.attempts) == 3
    for attempt in failure.attempts:
        assert attempt.detail.encode().startswith(b"ValueError: half a pair")
        assert attempt.usage == TokenUsage(count_request(APPROXIMATE, ASK), 0, estimated=True)
    answer = ask(Broken("here"), Scripted("there"))
    assert answer.cost_micro == 3 * count_request(APPROXIMATE, ASK) + 40


def test_a_wrong_use_of_sim_is_no_failed_request():
    """An error of our own that says who did something wrong comes out as it is: no other try mends it."""

    class FieldError(Scripted):
        async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
            raise UsageError("wrong")

    with pytest.raises(UsageError, match="wrong"):
        ask(FieldError("here"))


def bare(call: Callable[[], Any]) -> None:
    """Drive a coroutine that must not suspend."""
    with pytest.raises(StopIteration):
        call().send(None)


def test_no_suspension_without_a_wait():
    """A call that nothing holds up does not suspend on a clock that costs nothing: so `scripted` takes no step."""

    class Still(EdgeClock):
        async def within(self, seconds: float, work: Callable[[], Any]) -> Any:
            return await work()

    class Prompt(Scripted):
        async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
            return Completion("it is", (), "end_turn", TokenUsage(30, 5), model)

    async def main() -> None:
        clock = Still(1)
        client = Client(clock, {"here": make_endpoint(clock, Prompt("here"))})
        bare(lambda: client.complete([HERE], ASK, agent="x"))

    jump(main)
