"""The simulated provider: time, tokens and failures from distributions, on streams of the agent that asks."""

import statistics
from typing import Any

import attrs
import pytest

from sim.base.errors import UsageError
from sim.kernel import NS, Kernel
from sim.kernel.ports import NullRecorder
from sim.kernel.rng import Stream
from sim.llm.behaviour import Draw, Failure, Profile, ServerSpec
from sim.llm.providers.server import ModelServer
from sim.llm.providers.simulated import Filler, Simulated
from sim.llm.types import ChatMessage, Completion, Delta, ModelError, ModelRequest, Sampling, TokenUsage, ToolCall

HELLO = ModelRequest((ChatMessage("user", "hello"),))
FIXED = Profile(first_token=Draw.constant(1), per_token=Draw.constant(0.1))


class Fixed:
    """A provider that always answers the same, or raises."""

    name = "fixed"

    def __init__(self, text="x" * 40, calls=(), error=None):
        self.answer = Completion(text, tuple(calls), "tool_use" if calls else "end_turn", TokenUsage(0, 0), "inner")
        self.error = error

    async def complete(self, model, request, observe=None):
        assert observe is None, "deltas would come twice"
        if self.error is not None:
            raise self.error
        return self.answer


def ask(provider, kernel, *requests, agent="ann", observe=None):
    """Make requests one after the other; return (what came, when in seconds) of each."""
    results: list[tuple[Any, float]] = []

    async def work():
        for request in requests:
            try:
                got: Any = await provider.complete("m", request, observe)
            except ModelError as error:
                got = error
            results.append((got, kernel.now / NS))

    kernel.spawn(agent, work())
    kernel.run()
    return results


def test_an_answer_takes_its_time():
    """One second to the first token, 0.1 s for each of 10; usage counts both ways, the model is the asked one."""
    kernel = Kernel()
    ((answer, at),) = ask(Simulated(kernel, FIXED, Fixed()), kernel, HELLO)
    assert at == 2
    assert answer == Completion("x" * 40, (), "end_turn", TokenUsage(8, 10), "m")


def test_lengths_can_be_drawn():
    """With a distribution of lengths, time and usage follow it, not the text: models think more than they show."""
    kernel = Kernel()
    profile = attrs.evolve(FIXED, output_tokens=Draw.constant(90))
    ((answer, at),) = ask(Simulated(kernel, profile, Fixed("short")), kernel, HELLO)
    assert (answer.text, answer.usage.output_tokens, at) == ("short", 90, 10)


def test_an_answer_is_cut_at_the_limit():
    """Above `max_tokens` the answer is cut, says so, takes less time and costs less; so are a call's arguments."""
    kernel = Kernel()
    limited = attrs.evolve(HELLO, sampling=Sampling(max_tokens=5))
    ((answer, at),) = ask(Simulated(kernel, FIXED, Fixed()), kernel, limited)
    assert (answer.text, answer.stop, answer.usage.output_tokens, at) == ("x" * 20, "max_tokens", 5, 1.5)
    kernel = Kernel()
    calls = [ToolCall("1", "find", '{"what": "everything"}')]
    ((answer, _),) = ask(Simulated(kernel, FIXED, Fixed("", calls)), kernel, limited)
    assert answer.stop == "max_tokens"
    assert answer.tool_calls[0].parsed() is None


def test_failures_come_as_often_as_they_are_said_to():
    """Of 4,000 calls about 20 % fail with one error and its wait, 10 % with the other, after the time they take."""
    kernel = Kernel(seed=1)
    failures = (
        Failure("rate_limit", 0.2, Draw.constant(0), retry_after=7.0),
        Failure("server", 0.1, Draw.constant(3)),
    )
    profile = Profile(Draw.constant(0), Draw.constant(0), failures=failures)
    results = [got for got, _ in ask(Simulated(kernel, profile, Fixed()), kernel, *[HELLO] * 4000)]
    limited = [got for got in results if isinstance(got, ModelError) and got.kind == "rate_limit"]
    broken = [got for got in results if isinstance(got, ModelError) and got.kind == "server"]
    assert 700 < len(limited) < 900
    assert 330 < len(broken) < 470
    assert {error.retry_after for error in limited} == {7.0}
    assert kernel.now == 3 * NS * len(broken)


def test_a_scripted_failure_takes_time_too():
    """An error of the inner provider passes, but not before the first token would have come."""
    kernel = Kernel()
    error = ModelError("content", "no")
    assert ask(Simulated(kernel, FIXED, Fixed(error=error)), kernel, HELLO) == [(error, 1)]


@pytest.mark.parametrize("shares", [(-0.1,), (1.1,), (0.6, 0.6)])
def test_shares_are_shares(shares):
    """Shares outside 0 to 1, alone or together, are refused."""
    with pytest.raises(UsageError, match="between 0 and 1"):
        Profile(failures=tuple(Failure("server", share) for share in shares))


class Trace(NullRecorder):
    """Keeps the events."""

    def __init__(self):
        self.rows: list[Any] = []

    def event(self, row, /):
        self.rows.append(row)


def population(observed, agents=20, slots=4):
    """Run agents that ask three times each, streaming; return all events, with their places in the order."""
    trace = Trace()
    kernel = Kernel(seed=3, recorder=trace)
    server = ModelServer(kernel, ServerSpec(slots=slots)) if slots else None
    provider = Simulated(kernel, Profile(), server=server)
    seen: list[Delta] = []

    async def work():
        for _ in range(3):
            answer = await provider.complete("m", attrs.evolve(HELLO, stream=True), seen.append if observed else None)
            kernel.emit("answered", answer.usage.output_tokens)

    for number in range(agents):
        kernel.spawn(f"agent-{number}", work())
    kernel.run()
    assert bool(seen) == observed
    return trace.rows


def test_who_watches_changes_nothing():
    """With observers and without, every event has the same content and the same place in the order."""
    rows = population(observed=True)
    assert len(rows) == 60
    assert rows == population(observed=False)


def test_one_more_agent_moves_no_other_s_draws():
    """When and how long the answers of an agent are does not depend on how many others ask, if they share no server."""

    def answers(rows):
        return [(row[0], row[7]) for row in rows if row[5] == "agent-0"]

    alone = answers(population(observed=False, agents=1, slots=0))
    assert len(alone) == 3
    assert alone == answers(population(observed=False, slots=0))


def test_streamed_parts_come_while_the_answer_is_written():
    """A follower sees the text in parts at even times, the whole of it, before the answer is there."""
    kernel = Kernel()
    seen = []
    provider = Simulated(kernel, FIXED, Fixed("abcdefgh" * 5))
    ask(provider, kernel, attrs.evolve(HELLO, stream=True), observe=lambda delta: seen.append((kernel.now / NS, delta)))
    assert "".join(delta.text for _, delta in seen) == "abcdefgh" * 5
    assert [at for at, _ in seen] == pytest.approx([1.125 + 0.125 * part for part in range(8)])


def test_the_server_decides_how_long_it_takes():
    """With a modelled server, time is its time: one slot serves three agents in turn, who is most behind first."""
    kernel = Kernel()
    spec = ServerSpec(slots=1, prefill_rate=8, decode_rate=10)  # 1 s to read 8 tokens, 1 s to write 10
    behind = {"a": 5.0, "b": 3.0, "c": 1.0}
    provider = Simulated(kernel, FIXED, Fixed(), server=ModelServer(kernel, spec), priority=behind.__getitem__)
    ended = []

    async def work(name):
        await provider.complete("m", HELLO)
        ended.append((name, kernel.now / NS))

    for name in behind:
        kernel.spawn(name, work(name))
    kernel.run()
    assert ended == [("a", 2), ("c", 4), ("b", 6)]


def test_filler_is_as_long_as_drawn():
    """Without an inner provider answers are nothing, of the drawn number of tokens."""
    kernel = Kernel()
    provider = Simulated(kernel, FIXED, Filler(kernel, Draw.constant(25)))
    ((answer, at),) = ask(provider, kernel, HELLO)
    assert (answer.usage.output_tokens, at) == (25, 3.5)


@pytest.mark.parametrize(
    ("draw", "median", "p95"),
    [
        (Draw.constant(3), 3, 3),
        (Draw.uniform(2, 4), 3, 3.9),
        (Draw.exponential(1), 0.693, 2.996),
        (Draw.lognormal(0.5, 1.5), 0.5, 1.5),
    ],
)
def test_distributions(draw, median, p95):
    """The samples have the median and the 95th percentile that the distribution says."""
    stream = Stream(5)
    samples = sorted(draw.sample(stream) for _ in range(20_000))
    assert statistics.median(samples) == pytest.approx(median, rel=0.05)
    assert samples[19_000] == pytest.approx(p95, rel=0.05)
    assert samples[0] >= 0


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        ("constant", -1, 0), ("constant", float("nan"), 0), ("uniform", 2, 1), ("exponential", float("inf"), 0),
        ("lognormal", 0, 1), ("lognormal", 2, 1),
    ],
)  # fmt: skip
def test_a_distribution_is_of_numbers_from_0(kind, a, b):
    """Distributions with negative, infinite or contradictory numbers are refused."""
    with pytest.raises(UsageError, match="distribution"):
        Draw(kind, a, b)
