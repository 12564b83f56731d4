"""The modelled server: exact times, order, limits, and what cancelling leaves behind."""

import math
import statistics
from heapq import heappop, heappush
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.kernel import NS, Kernel
from sim.kernel.rng import Stream
from sim.kernel.waits import sleep_ns
from sim.llm.behaviour import ServerSpec
from sim.llm.providers.server import ModelServer
from sim.llm.types import ModelError

SIMPLE = ServerSpec(slots=2, prefill_rate=100, decode_rate=10, decode_total=None)


class Calls:
    """Calls to a server and what became of them."""

    def __init__(self, spec, seed=0):
        self.kernel = Kernel(seed)
        self.server = ModelServer(self.kernel, spec)
        self.served: dict[str, Any] = {}
        self.ended: list[tuple[str, float]] = []

    def add(self, name, reads, writes, at=0.0, priority=0.0, **options):
        """Let an agent make a call at a time (seconds)."""

        async def call():
            await sleep_ns(round(at * NS))
            try:
                self.served[name] = await self.server.serve(reads, writes, priority=priority, **options)
            except ModelError as error:
                self.served[name] = error
            self.ended.append((name, self.kernel.now / NS))

        return self.kernel.spawn(name, call(), on_exit=lambda *_: None)

    def run(self):
        """Run to the end and return when which call ended."""
        self.kernel.run()
        return dict(self.ended)


def test_a_call_that_is_alone():
    """200 tokens at 100 a second are read in 2 s, 30 at 10 a second written in 3 s."""
    calls = Calls(SIMPLE)
    calls.add("a", 200, 30)
    assert calls.run() == {"a": 5}
    served = calls.served["a"]
    assert (served.queued, served.prefill, served.decode, served.replica) == (0, 2, 3, 0)


def test_inputs_are_read_one_after_the_other_and_outputs_written_together():
    """The second call waits for the reader; then both write at full speed."""
    calls = Calls(SIMPLE)
    calls.add("a", 100, 30)
    calls.add("b", 100, 30)
    assert calls.run() == {"a": 4, "b": 5}


def test_the_third_waits_for_a_slot():
    """With two slots the third call begins when the first one ends."""
    calls = Calls(SIMPLE)
    for name in "abc":
        calls.add(name, 0, 30)
    assert calls.run() == {"a": 3, "b": 3, "c": 6}
    did = calls.server.statistics()
    assert (did.served, did.longest_queue, did.queue) == (3, 1, 0)
    assert (did.queued_seconds, did.longest_wait, did.busy_seconds) == (3, 3, 9)


def test_the_ceiling_is_shared_equally():
    """Two calls share 12 tokens a second; when one ends, the other goes on alone, at its own limit of 10."""
    calls = Calls(ServerSpec(slots=4, decode_rate=10, decode_total=12))
    calls.add("short", 0, 12)
    calls.add("long", 0, 32)
    assert calls.run() == pytest.approx({"short": 2, "long": 4}, abs=1e-6)


def test_who_comes_later_slows_the_others():
    """A call that has written 10 of 20 tokens alone needs twice as long for the rest when a second one comes."""
    calls = Calls(ServerSpec(slots=4, decode_rate=10, decode_total=10))
    calls.add("a", 0, 20)
    calls.add("b", 0, 20, at=1)
    assert calls.run() == pytest.approx({"a": 3, "b": 4}, abs=1e-6)


def test_a_cancelled_call_leaves_its_share_to_the_others():
    """Two calls share 10 tokens a second; at 2 s one is cancelled, and the other writes its last 10 in 1 s."""
    calls = Calls(ServerSpec(slots=4, decode_rate=10, decode_total=10))
    calls.add("stays", 0, 20)
    leaves = calls.add("leaves", 0, 15)

    async def canceller():
        await sleep_ns(2 * NS)
        calls.kernel.cancel(leaves)

    calls.kernel.spawn("canceller", canceller())
    assert calls.run() == pytest.approx({"stays": 3}, abs=1e-6)


def test_calls_go_to_the_replica_with_the_fewest():
    """Four calls on two replicas: two each, the first replica first."""
    calls = Calls(ServerSpec(replicas=2, slots=2))
    for name in "abcd":
        calls.add(name, 10, 10)
    calls.run()
    assert [calls.served[name].replica for name in "abcd"] == [0, 1, 0, 1]


def test_who_is_behind_goes_first():
    """The lowest priority number is served first, among equals who came first."""
    calls = Calls(ServerSpec(slots=1))
    for name, priority in (("first", 9), ("c", 3), ("b", 1), ("b2", 1), ("a", 0)):
        calls.add(name, 0, 60, priority=priority)
    calls.run()
    assert [name for name, _ in calls.ended] == ["first", "a", "b", "b2", "c"]


def test_an_output_in_parts_takes_as_long():
    """Following an answer in parts changes no time; the parts come evenly."""
    calls, seen = Calls(SIMPLE), []
    calls.add("a", 100, 31, parts=3, on_part=lambda part: seen.append((part, calls.kernel.now / NS)))
    assert calls.run() == pytest.approx({"a": 4.1}, abs=1e-6)
    assert [part for part, _ in seen] == [0, 1, 2]
    assert [time for _, time in seen] == pytest.approx([2.0, 3.0, 4.1], abs=1e-6)


WORK = st.tuples(st.integers(0, 500), st.integers(0, 300), st.floats(0, 20), st.integers(0, 3))


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(WORK, min_size=1, max_size=30),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([None, 15.0, 40.0]),
)
def test_work_is_conserved(work, replicas, slots, total):
    """Whatever comes: every call is served, none faster than alone, and no replica writes more than its ceiling."""
    spec = ServerSpec(replicas=replicas, slots=slots, prefill_rate=100, decode_rate=10, decode_total=total)
    calls = Calls(spec)
    for number, (reads, writes, at, priority) in enumerate(work):
        calls.add(f"{number}", reads, writes, at, priority)
    end = max(calls.run().values())
    did = calls.server.statistics()
    assert did.served == len(work)
    assert did.output_tokens == sum(writes for _, writes, _, _ in work)
    for number, (reads, writes, _, _) in enumerate(work):
        served = calls.served[f"{number}"]
        assert served.prefill >= reads / 100 - 1e-6
        assert served.decode >= writes / 10 - 1e-6
        assert served.decode <= writes / min(10, (total or math.inf) / slots) + 1e-6
    rate = replicas * min(slots * 10, total or math.inf)
    assert did.output_tokens <= rate * end + 1e-3
    assert did.busy_seconds <= replicas * slots * end + 1e-6
    assert all(replica.busy == 0 and not replica._ends for replica in calls.server._replicas)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200), st.floats(0, 30)), min_size=1, max_size=12))
def test_cancelled_calls_leave_nothing_behind(work):
    """Calls cancelled at any moment, in line, reading or writing, free their slot: later calls are as fast as ever."""
    calls = Calls(ServerSpec(slots=2, prefill_rate=100, decode_rate=10, decode_total=15))
    actors = [calls.add(f"{number}", reads, writes) for number, (reads, writes, _) in enumerate(work)]

    async def canceller():
        for at, number in sorted((at, number) for number, (_, _, at) in enumerate(work)):
            await sleep_ns(max(0, round(at * NS) - calls.kernel.now))
            calls.kernel.cancel(actors[number])

    calls.kernel.spawn("canceller", canceller())
    calls.add("last", 100, 30, at=10_000)
    assert calls.run()["last"] == pytest.approx(10_004)
    assert calls.server.statistics().queue == 0
    assert calls.server._slots.level == 2


@pytest.mark.proof
def test_one_machine_shared_equally_is_as_theory_says():
    """M/M/1 with processor sharing: at a load of 0.5 calls take 1 / (1 - 0.5) = 2 mean lengths, and nobody waits."""
    kernel, stream, at, served = Kernel(), Stream(1), 0.0, []
    server = ModelServer(kernel, ServerSpec(slots=1000, decode_rate=200, decode_total=200))

    async def call(at, tokens):
        await sleep_ns(at)
        served.append(await server.serve(0, tokens))

    for number in range(20_000):
        at += stream.expovariate(0.5)
        kernel.spawn(f"{number}", call(round(at * NS), max(1, round(stream.expovariate(1 / 200)))))
    kernel.run()
    assert max(one.queued for one in served) == 0
    assert statistics.fmean(one.decode for one in served) == pytest.approx(2, rel=0.03)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 200)), max_size=40), st.integers(1, 4))
def test_a_line_for_several_slots_is_as_theory_says(work, slots):
    """Without a ceiling each call begins when it comes or when the first slot is free, whichever is later."""
    calls = Calls(ServerSpec(slots=slots, decode_rate=10, decode_total=None))
    free = [0.0] * slots
    expected = {}
    for number, (at, writes) in enumerate(sorted(work)):
        calls.add(f"{number}", 0, writes, at=at)
        begin = max(heappop(free), at)
        expected[f"{number}"] = begin + writes / 10
        heappush(free, expected[f"{number}"])
    assert calls.run() == pytest.approx(expected, abs=1e-6)


def test_equal_runs_are_equal():
    """The same calls give the same times, to the nanosecond."""

    def run():
        calls = Calls(ServerSpec(slots=3, decode_total=100))
        for number in range(50):
            calls.add(f"{number}", 37 * number % 501, 11 * number % 97, at=number / 7, priority=number % 3)
        return list(calls.run().items())

    assert run() == run()


def test_a_full_queue_refuses():
    """One call more than may wait is refused as overload, and asked to come again."""
    calls = Calls(ServerSpec(slots=1, queue=1))
    for name in "abc":
        calls.add(name, 0, 60)
    calls.run()
    assert calls.served["c"].kind == "overload"
    assert calls.served["c"].retry_after > 0
    assert calls.server.statistics().refused == 1


def test_what_is_too_long_is_refused():
    """A call above the window, or above all that is let in in a minute, is refused for good."""
    calls = Calls(ServerSpec(context=100))
    calls.add("a", 90, 11)
    calls.add("b", 90, 10)
    calls.run()
    assert calls.served["a"].kind == "context_length"
    assert calls.served["b"].queued == 0
    calls = Calls(ServerSpec(tokens_per_minute=100))
    calls.add("a", 90, 11)
    calls.run()
    assert (calls.served["a"].kind, calls.served["a"].retry_after) == ("bad_request", None)


def test_limits_per_minute():
    """Beyond the limit a call is refused with the exact time after which it fits, and then it does."""
    calls = Calls(ServerSpec(slots=100, tokens_per_minute=600))
    calls.add("a", 300, 300)
    calls.add("b", 50, 50)
    calls.add("c", 50, 50, at=9.999)
    calls.add("d", 50, 50, at=10)
    calls.run()
    assert calls.served["b"].kind == "rate_limit"
    assert calls.served["b"].retry_after == pytest.approx(10)
    assert calls.served["c"].kind == "rate_limit"
    assert calls.served["d"].queued == 0
    assert calls.server.statistics().limited == 2


def test_requests_per_minute():
    """So it is for requests: 3 a minute are 3 at once, and then one every 20 s."""
    calls = Calls(ServerSpec(slots=100, requests_per_minute=3))
    for number, at in enumerate([0, 0, 0, 0, 20, 20]):
        calls.add(f"{number}", 1, 1, at=at)
    calls.run()
    assert [isinstance(calls.served[f"{number}"], ModelError) for number in range(6)] == [False] * 3 + [
        True,
        False,
        True,
    ]


def test_a_bucket_holds_one_minute():
    """An hour without calls gives no more than one minute's worth."""
    calls = Calls(ServerSpec(slots=100, tokens_per_minute=100))
    calls.add("a", 100, 0, at=3600)
    calls.add("b", 1, 0, at=3600)
    calls.run()
    assert calls.served["a"].queued == 0
    assert calls.served["b"].kind == "rate_limit"


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 0},
        {"slots": -1},
        {"prefill_rate": 0},
        {"decode_rate": math.nan},
        {"decode_total": 0},
        {"queue": -1},
    ],
)
def test_a_server_needs_something_to_work_with(wrong):
    """ReportedLimits and numbers that make no server are refused."""
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ServerSpec(**wrong)
