"""Injected faults: each kind, on schedule, on simulated and on real time."""

import math
from typing import Any

import anyio
import attrs
import pytest

from sim.base.errors import UsageError
from sim.kernel import NS, Kernel
from sim.llm.behaviour import Fault
from sim.llm.endpoint import EdgeClock
from sim.llm.providers.fault_injection import Faulty
from sim.llm.sim_clock import CoreClock
from sim.llm.streaming import parts_of
from sim.llm.types import ChatMessage, Completion, Delta, ModelError, ModelRequest, TokenUsage, ToolCall

HELLO = ModelRequest((ChatMessage("user", "hello"),), stream=True)
CALLS = (ToolCall("1", "look", "{}"), ToolCall("2", "find", '{"what": "everything", "where": ["here", "there"]}'))
ANSWER = Completion("one two three four five six seven", (), "end_turn", TokenUsage(10, 8), "m")
TOOLS = attrs.evolve(ANSWER, text="", tool_calls=CALLS, stop="tool_use")


class Good:
    """A provider without faults."""

    name = "good"

    def __init__(self, answer=ANSWER):
        self.answer = answer
        self.calls = 0

    async def complete(self, model, request, observe=None):
        self.calls += 1
        if observe is not None:
            for part in parts_of(self.answer, 4):
                for delta in part:
                    observe(delta)
        return self.answer


class Bench:
    """A kernel, a faulty provider on it, and one agent that asks."""

    def __init__(self, *faults, answer=ANSWER, seed=0):
        self.kernel = Kernel(seed)
        self.clock = CoreClock(self.kernel)
        self.inner = Good(answer)
        self.provider = Faulty(self.inner, faults, self.clock)
        self.seen: list[tuple[float, Delta]] = []

    def ask(self, count=1, *, every=0.0, model="m", within=math.inf):
        """Ask `count` times; return what came and how many seconds each took."""
        results: list[tuple[Any, float]] = []

        async def once():
            return await self.provider.complete(model, HELLO, lambda delta: self.seen.append((self.clock.now(), delta)))

        async def work():
            for number in range(count):
                await self.clock.sleep(number * every - self.clock.now())
                start = self.clock.now()
                try:
                    got: Any = await self.clock.within(within, once)
                except (ModelError, TimeoutError) as error:
                    got = error
                results.append((got, self.clock.now() - start))

        self.kernel.spawn("ann", work())
        self.kernel.run()
        return results


def test_without_faults_nothing_is_changed():
    """Answer, deltas and name are those of the inner provider."""
    bench = Bench()
    assert bench.ask() == [(ANSWER, 0)]
    assert "".join(delta.text for _, delta in bench.seen) == ANSWER.text
    assert bench.provider.name == "good"


@pytest.mark.parametrize("kind", ["rate_limit", "server", "overload", "network"])
def test_failures(kind):
    """The call fails with the class of error of its kind after its time; the inner provider is never asked."""
    bench = Bench(Fault(kind, retry_after=5.0, seconds=2.0))
    ((error, seconds),) = bench.ask()
    assert (error.kind, error.retry_after, seconds) == (kind, 5.0, 2.0)
    assert bench.inner.calls == 0


def test_a_hang_lasts_until_the_deadline():
    """No byte comes; the deadline of who asks ends it."""
    ((error, seconds),) = Bench(Fault("hang")).ask(within=120)
    assert isinstance(error, TimeoutError)
    assert seconds == 120


def test_a_hang_may_end_in_a_reset():
    """A hang with a length ends as an error of the network."""
    ((error, seconds),) = Bench(Fault("hang", seconds=60)).ask()
    assert (error.kind, seconds) == ("network", 60)


def test_a_slow_stream_drips():
    """The answer is whole but comes over 30 s, in drops."""
    bench = Bench(Fault("slow"))
    assert bench.ask() == [(ANSWER, 30)]
    times = [at for at, _ in bench.seen]
    assert "".join(delta.text for _, delta in bench.seen) == ANSWER.text
    assert len(set(times)) == len(times) > 2


def test_a_truncated_stream_is_an_error():
    """Only a part is seen, the call fails as incomplete, and what was spent is said, as an estimate."""
    bench = Bench(Fault("truncate"))
    results = bench.ask(200)
    assert {error.kind for error, _ in results} == {"incomplete"}
    assert all(error.usage.input_tokens == 10 and error.usage.estimated for error, _ in results)
    spent = [error.usage.output_tokens for error, _ in results]
    assert 0 <= min(spent) < 3
    assert max(spent) == 8
    assert len(bench.seen) < 200 * 4


def test_malformed_arguments_are_never_an_object():
    """The last call's arguments are cut, prose or a list; never can they be parsed, and a cut is said to be one."""
    results = Bench(Fault("malformed_arguments"), answer=TOOLS).ask(500)
    assert all(answer.tool_calls[-1].parsed() is None for answer, _ in results)
    assert all(answer.tool_calls[0] == CALLS[0] for answer, _ in results)
    texts = [answer.tool_calls[-1].arguments for answer, _ in results]
    assert len(set(texts)) > 20
    assert any(text.startswith("[") for text in texts)
    assert any(text.startswith("Sure") for text in texts)
    cuts = [answer for answer, _ in results if answer.stop == "max_tokens"]
    assert 120 < len(cuts) < 220
    assert all(CALLS[1].arguments.startswith(answer.tool_calls[-1].arguments) for answer in cuts)


def test_an_answer_without_calls_has_no_arguments_to_malform():
    """Malformed arguments leave plain answers alone."""
    assert Bench(Fault("malformed_arguments")).ask() == [(ANSWER, 0)]


def test_a_refusal_calls_no_tools():
    """A model that declines says so, calls nothing, and was paid for."""
    ((answer, _),) = Bench(Fault("refusal"), answer=TOOLS).ask()
    assert (answer.stop, answer.tool_calls, answer.usage) == ("refusal", (), TOOLS.usage)


def hit(*faults, count=100, model="m", seed=0):
    """Return at which seconds a call, one a second, fails."""
    results = Bench(*faults, seed=seed).ask(count, every=1.0, model=model)
    return [second for second, (got, _) in enumerate(results) if isinstance(got, ModelError)]


def test_faults_have_a_time():
    """A fault hits from its start until just before its end."""
    assert hit(Fault("server", start=10, end=13)) == [10, 11, 12]


def test_bursts_come_back():
    """Three seconds of every ten, from the 20th on."""
    seconds = [20, 21, 22, 30, 31, 32, 40, 41, 42]
    assert hit(Fault("rate_limit", start=20, end=50, every=10, lasting=3)) == seconds


def test_a_share_of_calls():
    """A share hits about as many calls, the same ones in each run with one seed."""
    some = hit(Fault("server", share=0.3), count=1000)
    assert 250 < len(some) < 350
    assert some == hit(Fault("server", share=0.3), count=1000)
    assert some != hit(Fault("server", share=0.3), count=1000, seed=1)


def test_a_fault_of_one_model():
    """A fault that names models hits only these."""
    assert hit(Fault("server", models=("m",)), count=3) == [0, 1, 2]
    assert hit(Fault("server", models=("m",)), count=3, model="other") == []


def test_the_first_that_hits_counts():
    """Of several active faults the first in the list hits."""
    ((error, _),) = Bench(Fault("server", start=5), Fault("overload"), Fault("network")).ask()
    assert error.kind == "overload"


def test_the_schedule_counts_from_the_making():
    """A provider that is made later begins its schedule then."""
    kernel = Kernel()
    clock = CoreClock(kernel)

    async def work():
        await clock.sleep(1000)
        provider = Faulty(Good(), [Fault("server", start=10, end=20)], clock)
        assert await provider.complete("m", HELLO) == ANSWER
        await clock.sleep(10)
        with pytest.raises(ModelError):
            await provider.complete("m", HELLO)

    kernel.spawn("ann", work())
    kernel.run()
    assert kernel.now == 1010 * NS


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 0}, {"share": 1.5}, {"share": math.nan}, {"start": -1}, {"start": 5, "end": 5}, {"every": 10},
        {"lasting": 10}, {"every": 10, "lasting": 11}, {"every": 10, "lasting": 0}, {"seconds": -1},
        {"retry_after": math.inf},
    ],
)  # fmt: skip
def test_a_schedule_makes_sense(wrong):
    """Shares, times and bursts that contradict themselves are refused."""
    with pytest.raises(UsageError, match=r"share|fault|burst"):
        Fault("server", **wrong)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_faults_in_real_time(backend):
    """In front of a real endpoint the same faults work on real time: bursts, slow streams, hangs."""
    anyio.run(in_real_time, backend=backend)


async def in_real_time():
    """Let calls hang, drip and fail, in milliseconds."""
    clock = EdgeClock()
    hang, drip, fail = Fault("hang", models=("h",)), Fault("slow", models=("s",), seconds=0.05), Fault("server")
    provider = Faulty(Good(), [hang, drip, fail], clock)
    with pytest.raises(TimeoutError):
        await clock.within(0.02, lambda: provider.complete("h", HELLO))
    seen: list[Delta] = []
    start = clock.now()
    assert await provider.complete("s", HELLO, seen.append) == ANSWER
    assert clock.now() - start >= 0.05
    assert "".join(delta.text for delta in seen) == ANSWER.text
    with pytest.raises(ModelError, match="500"):
        await provider.complete("other", HELLO)
