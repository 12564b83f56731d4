"""Effects that act and then fail, return what cannot be kept, or are cancelled while their record is written."""

import gc
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sim.host.effect_tasks import LARGEST_RESULT
from sim.host.host import Host
from sim.kernel import NS, Effect, Kernel, perform
from sim.kernel.effects import Outcome
from sim.kernel.ports import Durable, NullRecorder
from sim.kernel.rows import ResultRow

both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Results(NullRecorder):
    """Keeps the outcomes on record."""

    def __init__(self) -> None:
        self.results: list[ResultRow] = []

    def result(self, row: ResultRow, /) -> None:
        self.results.append(row)


def outcome_of(effect: Effect, backend: str = "asyncio") -> tuple[Outcome, list[ResultRow]]:
    """Return the outcome that an actor gets, and what is on record."""
    recorder = Results()
    kernel = Kernel(recorder=recorder)
    got: list[Outcome] = []

    async def ask() -> None:
        got.append(await perform(effect))

    kernel.spawn("asker", ask())
    anyio.run(Host(kernel).run, 10 * NS, backend=backend)
    (outcome,) = got
    return outcome, recorder.results


@both_hosts
def test_an_effect_that_acts_and_then_times_out_is_done_once(backend: str):
    """An unsafe effect that has acted before it times out is not tried again: its agent learns that it timed out."""
    done: list[str] = []

    async def act(request: Any, key: str) -> None:
        done.append(key)
        await anyio.sleep_forever()

    outcome, results = outcome_of(Effect("pay", {}, act, timeout=0.05, safety="unsafe"), backend)

    assert outcome.kind == "timeout"
    assert len(done) == 1
    assert [row[2] for row in results] == ["timeout"]


@both_hosts
def test_a_simulated_deadline_ends_an_effect_that_has_acted(backend: str):
    """The same with a deadline in simulated time: done once, then stopped, and its late answer is nothing."""
    done: list[str] = []

    async def act(request: Any, key: str) -> None:
        done.append(key)
        await anyio.sleep_forever()

    outcome, results = outcome_of(Effect("pay", {}, act, deadline_ns=NS // 20, safety="unsafe"), backend)

    assert outcome.kind == "timeout"
    assert len(done) == 1
    assert results == []


class NoException(BaseException):
    """What libraries derive from BaseException for their own control flow."""


@pytest.mark.parametrize("latency_ns", [None, 5])
@both_hosts
def test_an_effect_may_raise_anything(backend: str, latency_ns: int | None):
    """Whatever an effect raises, also what is no Exception, is an outcome on record, and the run goes on."""

    async def fail(request: Any, key: str) -> None:
        raise NoException("no\udc80 text")

    outcome, results = outcome_of(Effect("tool", {}, fail, latency_ns=latency_ns), backend)

    assert outcome.kind == "error"
    assert outcome.value["type"] == "NoException"
    assert [row[2] for row in results] == ["error"]


@pytest.mark.parametrize(("value", "kept"), [(b"\x00\xff", "AP8="), ({2, 1}, [1, 2]), (float("nan"), None)])
def test_a_binary_result_is_kept_as_text(value: Any, kept: object):
    """Bytes become base64, a set a sorted list, NaN null: an actor gets live what it gets in a replay."""
    outcome, results = outcome_of(Effect("tool", {}, lambda request, key: value))
    assert outcome == Outcome("ok", kept)
    assert results[0][3] == kept


def test_a_result_that_is_no_json_is_an_error():
    """Another object cannot be recorded: the outcome is an error that names its type."""
    outcome, _ = outcome_of(Effect("tool", {}, lambda request, key: object()))
    assert outcome.kind == "error"
    assert "object" in outcome.value["message"]


def test_a_result_of_100_mb_is_refused():
    """A result beyond the bound is not kept: the error tells its size and its hash, so that it can be found again."""
    outcome, results = outcome_of(Effect("tool", {}, lambda request, key: "x" * 100_000_000))
    assert outcome.kind == "error"
    assert outcome.value["type"] == "ResultTooLarge"
    assert "100000002 bytes" in outcome.value["message"]
    assert str(LARGEST_RESULT) in outcome.value["message"]
    assert "sha256 " in outcome.value["message"]
    assert len(str(results)) < 1000


def test_a_result_at_the_bound_is_kept():
    """The bound itself is allowed."""
    outcome, _ = outcome_of(Effect("tool", {}, lambda request, key: "x" * (LARGEST_RESULT - 2)))
    assert outcome.kind == "ok"


class SlowDisk(NullRecorder):
    """A recorder whose commits take a moment, in another thread; the test opens the gate."""

    def __init__(self) -> None:
        self.asked = 0
        self.told = 0
        self.threads: list[threading.Thread] = []

    def durable(self, then: Durable) -> None:
        self.asked += 1

        def commit() -> None:
            self.told += 1
            then(None)

        thread = threading.Timer(0.02, commit)
        self.threads.append(thread)
        thread.start()


@pytest.mark.parametrize("after", range(4))
@both_hosts
def test_cancelled_while_a_commit_is_under_way(backend: str, after: int):
    """A host program that is cancelled while it waits for a commit leaves the commit alone: it ends by itself."""
    recorder = SlowDisk()
    kernel = Kernel(recorder=recorder)

    async def ask() -> None:
        for _ in range(10):
            await perform(Effect("tool", {}, lambda request, key: None, latency_ns=1))

    kernel.spawn("asker", ask())

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while recorder.asked <= after:
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()

            group.start_soon(watch)
            await Host(kernel).run(10 * NS)

    anyio.run(main, backend=backend)
    for thread in recorder.threads:
        thread.join()
    assert recorder.asked == recorder.told == after + 1
    assert not kernel.effects.in_flight


@both_hosts
def test_a_collector_that_never_rests_loses_nothing(backend: str):
    """The kernel holds all actors, and the host all work: a garbage collector that runs all the time takes nothing."""
    kernel = Kernel()
    got: list[int] = []

    async def work(request: Any, key: str) -> Any:
        await anyio.sleep(0.001)
        gc.collect(0)
        return request

    async def ask(number: int) -> None:
        for _ in range(5):
            outcome = await perform(Effect("tool", number, work, latency_ns=1))
            got.append(outcome.value)

    for number in range(20):
        kernel.spawn("asker", ask(number))
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        anyio.run(Host(kernel).run, 10 * NS, backend=backend)
    finally:
        gc.set_threshold(*before)
    assert sorted(got) == sorted(list(range(20)) * 5)
