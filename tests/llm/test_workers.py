"""Worker processes for model calls: answers, order and record are those of one process, also if workers are killed.

Most tests run the program of a worker in a thread, over a socket, because a process takes a second to start.
"""

import json
import pprint
import re
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import click
import pytest

import sim
from sim.base.child import variables
from sim.base.errors import RunError, UsageError
from sim.base.source import package_hash
from sim.cli import verbs
from sim.cli.render.model_costs import _print_workers
from sim.kernel.codec import as_sent
from sim.llm.access import Access
from sim.llm.batches.settings import Batching
from sim.llm.client import Client, make_endpoint
from sim.llm.endpoint import EdgeClient, EdgeClock
from sim.llm.limits.retry import RetryPolicy
from sim.llm.providers.openai.formats import Formats
from sim.llm.router import Target
from sim.llm.sending import Interrupted, Sending
from sim.llm.tokens import APPROXIMATE, count_request, exact
from sim.llm.types import (
    Answer,
    ChatMessage,
    Completion,
    Delta,
    ModelError,
    ModelRequest,
    Sampling,
    TokenUsage,
    ToolSpec,
)
from sim.llm.workers.messages import (
    LONGEST,
    Answered,
    Ask,
    Frames,
    Place,
    Ready,
    Sealed,
    Start,
    Taken,
    framed,
    read_from_worker,
    read_to_worker,
)
from sim.llm.workers.pool import MOST_IN_VAIN, EdgeWorkers, _Slot, edge_workers
from sim.llm.workers.program import Output, Worker, serve
from sim.llm.workers.ray_actor import WorkerActor, greeting
from sim.llm.workers.sealing import Seal, sealed
from sim.runner.options import HostOptions
from tests.killing import ROOT
from tests.llm.endpoint import Endpoint, Reply, Script, Seen, error, fitting, streamed, whole

KEY = "sk-a-key-of-the-operator"
MODEL = Target("openai", "m")
BRIEF = RetryPolicy(immediate_delay=0.001, longest=0.001)
ASK = ModelRequest((ChatMessage("system", "be brief"), ChatMessage("user", "what is it?")))
TOOL = ToolSpec("look", "looks", {"type": "object", "properties": {"at": {"type": "string"}}})
SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")


class ThreadLink:
    """A worker whose program runs in a thread; `kill` ends it in the middle of what it does."""

    keeps = True

    def __init__(self) -> None:
        self.stuck = False  # whether it reads nothing
        self.deaf = False  # whether its input is closed
        self._own, self._other = socket.socketpair()
        self._own.setblocking(False)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            anyio.run(serve, lambda: self._other.recv(1 << 18), self._other.sendall)
        self._other.close()

    def first(self, start: Start) -> bytes:
        return framed(start)

    def kill(self) -> None:
        with suppress(OSError):  # it has ended before
            self._other.shutdown(socket.SHUT_RDWR)

    def say(self, data: bytes) -> None:
        """Send bytes that are not of the program."""
        self._other.sendall(data)

    async def send(self, data: bytes) -> bool:
        if self.stuck:
            await anyio.sleep_forever()
        if self.deaf:
            return False
        view = memoryview(data)
        while view:
            try:
                await anyio.wait_writable(self._own)
                view = view[self._own.send(view) :]
            except (OSError, anyio.ClosedResourceError):
                return False
        return True

    async def receive(self) -> bytes:
        try:
            await anyio.wait_readable(self._own)
            return self._own.recv(1 << 18)
        except (OSError, anyio.ClosedResourceError):
            return b""

    async def collect_errors(self) -> None:
        return

    async def ended(self) -> str:
        return "was ended by signal 9"

    async def close(self) -> None:
        with suppress(OSError):
            self._other.shutdown(socket.SHUT_RDWR)
        if self._own.fileno() >= 0:
            anyio.notify_closing(self._own)
        self._own.close()


class Threads:
    """Starts workers in threads, and notes them in a list; `dead`: they end at once."""

    def __init__(self, links: list[ThreadLink], *, dead: bool = False) -> None:
        self._started = links
        self._dead = dead

    async def open(self, cut: Callable[[str], str]) -> ThreadLink:
        self._started.append(ThreadLink())
        if self._dead:
            self._started[-1].kill()
        return self._started[-1]

    async def close(self) -> None:
        return


class Beside:
    """Runs work beside a test."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        self._group.start_soon(work)

    async def idle(self) -> int:
        return 0


@attrs.define
class Bench:
    """A client with workers, beside an endpoint."""

    client: EdgeClient
    workers: EdgeWorkers
    endpoint: Endpoint
    links: list[ThreadLink]

    async def ask(self, request: ModelRequest = ASK, **options: Any) -> Answer:
        return await self.client.complete((MODEL,), request, agent="ann", **options)


def with_workers(
    check: Callable[[Bench], Awaitable[None]], script: Script, count: int = 2, backend: str = "asyncio", **given: Any
) -> None:
    """Run a test with a client that has workers."""
    links: list[ThreadLink] = []

    async def main() -> None:
        with Endpoint(script) as endpoint:
            policy = given.pop("policy", BRIEF)
            access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY, edge_workers=count, **given)
            async with anyio.create_task_group() as group:
                workers = edge_workers(access, policy.timeout, "m", lambda: Beside(group))
                workers._links = Threads(links)
                client = EdgeClient(access, policy=policy, tokenizer=exact("m"), workers=workers)
                try:
                    await client.prepare()
                    await check(Bench(client, workers, endpoint, links))
                finally:
                    group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await client.aclose()

    anyio.run(main, backend=backend)


def without(script: Script, request: ModelRequest, observe: Any = None, **given: Any) -> Any:
    """Return the outcome of a request that this process makes itself."""

    async def main() -> Any:
        with Endpoint(script) as endpoint:
            access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY)
            client = EdgeClient(access, tokenizer=exact("m"), **{"policy": BRIEF, **given})
            try:
                return await outcome(client.complete((MODEL,), request, agent="ann", observe=observe))
            finally:
                await client.aclose()

    return anyio.run(main)


async def outcome(calling: Awaitable[Answer]) -> Any:
    """Return what a call gives, as plain values without durations."""
    try:
        answer = await calling
    except ModelError as failure:
        return failure.kind, str(failure), failure.hint, failure.usage, tried(failure.attempts), failure.refused_formats
    return answer.completion, tried(answer.attempts), answer.refused_formats


def numbered(script: Script, start: int) -> Script:
    """Return a script that counts its requests from 0."""
    return lambda seen: script(attrs.evolve(seen, number=seen.number - start))


def sent() -> TokenUsage:
    """Return what a request costs whose answer was lost."""
    return TokenUsage(count_request(exact("m"), ASK), 0, estimated=True)


def held_until(go_on: anyio.Event) -> Script:
    """Return a script that answers no request before an event."""
    return lambda seen: YES(seen) if go_on.is_set() else Reply(end="hang")


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    while not condition():  # noqa: ASYNC110  # it is so in another thread
        await anyio.sleep(0.001)


def tried(attempts: Any) -> list[Any]:
    """Return attempts without durations."""
    return [attrs.evolve(attempt, seconds=None, waited=None) for attempt in attempts]


def YES(seen: Seen) -> Reply:  # noqa: N802
    """Answer at once."""
    return Reply(body=whole("yes"))


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "the \u20ac door"}'}}
CASES: dict[str, tuple[Script, ModelRequest]] = {
    "text": (lambda seen: Reply(body=whole("it is \ud83d\ude00 an owl")), ASK),
    "half a pair": (lambda seen: Reply(body=whole("it is \ud83d an owl")), ASK),
    "no usage": (lambda seen: Reply(body=whole("an owl, or so", usage=None)), ASK),
    "stream": (lambda seen: Reply(events=streamed("it is an owl")), attrs.evolve(ASK, stream=True)),
    "tools": (lambda seen: Reply(body=whole("", tool_calls=[CALL])), attrs.evolve(ASK, tools=(TOOL,))),
    "schema": (lambda seen: Reply(body=whole('{"b": "x", "a": "y"}')), attrs.evolve(ASK, response_format=SCHEMA)),
    "preferred": (lambda seen: Reply(body=whole('{"b": "x"}')), attrs.evolve(ASK, preferred_format=SCHEMA)),
    "format refused": (
        lambda seen: error(400, "no response_format") if "response_format" in seen.body else Reply(body=whole("{}")),
        attrs.evolve(ASK, preferred_format=SCHEMA),
    ),
    "large number": (
        lambda seen: Reply(body=whole(json.dumps(seen.body["z"]))), attrs.evolve(ASK, extra_body={"z": 2**70})
    ),
    "settings": (
        lambda seen: Reply(body=whole(json.dumps(seen.body))),
        attrs.evolve(ASK, sampling=Sampling(0.5, 0.9, 7, ("end",), 3), extra_body={"z": [1, None], "a": {"y": 1}}),
    ),
    "vectors": (
        lambda seen: Reply(body={"data": [{"index": 0, "embedding": [0.5, -1.0]}], "usage": {"prompt_tokens": 3}}),
        ModelRequest((), texts=("an owl",), use="embed"),
    ),
    "auth": (lambda seen: error(401, f"the key {KEY} is wrong"), ASK),
    "refused": (lambda seen: error(400, "no"), ASK),
    "no JSON": (lambda seen: Reply(body=b"<html>"), attrs.evolve(ASK, immediate=True)),
    "key in the answer": (lambda seen: Reply(body=whole(f"the key is {KEY}")), ASK),
    "retried": (lambda seen: YES(seen) if seen.number else Reply(503, {"retry-after": "0"}), ASK),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_workers_give_what_this_process_gives(backend):
    """Answers, failures, attempts, usage and parts of answers are equal with workers and without, for each shape."""
    expected: dict[str, Any] = {}
    for name, (script, request) in CASES.items():
        parts: list[Delta] = []
        expected[name] = (without(script, request, parts.append if name == "stream" else None), parts)

    async def check(bench: Bench) -> None:
        for name, (script, request) in CASES.items():
            bench.endpoint.script = numbered(script, len(bench.endpoint.seen))
            bench.client._open()  # what is known of the endpoint so far must not matter
            bench.client._providers[0]._formats = Formats()  # type: ignore[union-attr]
            parts: list[Delta] = []
            observe = parts.append if name == "stream" else None
            assert (await outcome(bench.ask(request, observe=observe)), parts) == expected[name], name
            assert bench.endpoint.seen[-1].headers["authorization"] == f"Bearer {KEY}"

    with_workers(check, CASES["text"][0], backend=backend)


def test_a_killed_worker_is_replaced_and_its_requests_are_sent_again():
    """Each request that a killed worker had sent is one more attempt; one that it had not sent costs nothing."""

    async def check(bench: Bench) -> None:
        for victim in (0, 1):
            held = anyio.Event()
            bench.endpoint.script = held_until(held)
            bench.endpoint.seen.clear()
            answers: list[Answer] = []

            async def call(answers: list[Answer] = answers) -> None:
                answers.append(await bench.ask(attrs.evolve(ASK, immediate=True)))

            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(call)
                await until(lambda: len(bench.endpoint.seen) == 4)
                held.set()
                for link in bench.links[-2:]:
                    link.kill()
            assert [len(answer.lost) for answer in answers] == [1, 1, 1, 1]
            assert {attempt.outcome for answer in answers for attempt in answer.lost} == {"interrupted"}
            assert {attempt.usage for answer in answers for attempt in answer.lost} == {sent()}
            assert all(len(answer.attempts) == 1 for answer in answers), "an interrupted request is no failed attempt"
            assert all(KEY not in answer.lost[0].detail for answer in answers)
            assert len(bench.endpoint.seen) == 8, "each answer took two requests, and no request is unaccounted for"
            assert bench.workers.figures.replaced == 2 * (victim + 1)
            assert bench.workers.figures.interrupted == 4 * (victim + 1)

    with_workers(check, YES)


def test_a_request_that_was_not_sent_is_free():
    """A worker that ends before it has read a request has not sent it: it is sent again, and nothing is billed."""

    async def check(bench: Bench) -> None:
        slot = bench.workers._slots[0]
        await bench.ask()
        async with anyio.create_task_group() as group:
            answers: list[Answer] = []

            async def call() -> None:
                answers.append(await bench.ask())

            bench.links[0].stuck = True
            group.start_soon(call)
            while not slot.calls:
                await anyio.lowlevel.checkpoint()
            bench.links[0].kill()
        assert answers[0].lost == ()
        assert len(bench.endpoint.seen) == 2

    with_workers(check, YES, count=1)


def test_a_request_that_kills_each_worker_fails():
    """A call whose workers end one after another fails with one sentence, and does not end the run."""

    async def check(bench: Bench) -> None:
        def script(seen: Seen) -> Reply:
            bench.links[-1].kill()
            return Reply(end="hang")

        bench.endpoint.script = script
        with pytest.raises(ModelError, match=r"the worker process was ended by signal 9.*4 times") as found:
            await bench.ask()
        assert found.value.kind == "network"
        assert KEY not in str(found.value)
        assert len(found.value.lost) == 4

    with_workers(check, YES, count=1)


def test_workers_that_end_again_and_again_end_the_run():
    """Workers that end without any answer are replaced a limited number of times; then the run has failed."""

    async def check(bench: Bench) -> None:
        bench.workers._links = Threads([], dead=True)
        bench.links[0].kill()
        await bench.ask()

    with pytest.raises(BaseExceptionGroup) as found:
        with_workers(check, lambda seen: Reply(end="hang"), count=1)
    (error,) = found.value.exceptions
    assert isinstance(error, RunError)
    assert str(error) == (
        f"{MOST_IN_VAIN + 1} worker processes for model calls have ended one after another, and none of them had"
        " answered anything; the last one was ended by signal 9"
    )


def test_a_cancelled_call_cancels_its_request():
    """A call that is no longer needed ends its request at the endpoint, and gives back its place."""

    async def check(bench: Bench) -> None:
        with anyio.move_on_after(5) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(bench.ask)
                await until(lambda: bench.endpoint.seen)
                group.cancel_scope.cancel()
            await until(lambda: not bench.workers._slots[0].calls)
        assert not scope.cancelled_caught
        bench.endpoint.script = YES
        assert (await bench.ask()).completion.text == "yes"

    with_workers(check, lambda seen: Reply(end="hang"), count=1, concurrency=1)


def test_a_request_without_an_answer_times_out():
    """The time limit of a request holds with workers, too, and its input is billed."""

    async def check(bench: Bench) -> None:
        with pytest.raises(ModelError) as found:
            await bench.ask(attrs.evolve(ASK, immediate=True))
        assert (found.value.kind, found.value.usage) == ("timeout", sent())

    policy = RetryPolicy(timeout=0.05, requests=1)
    with_workers(check, lambda seen: Reply(end="hang"), count=1, policy=policy)


def test_a_slow_worker_slows_its_own_calls():
    """A worker that does not answer keeps the calls that it has; all others are made by the other one, in order."""

    async def check(bench: Bench) -> None:
        slow, quick = bench.workers._slots
        bench.links[0].stuck = True
        async with anyio.create_task_group() as group:
            done: list[int] = []

            async def call(number: int) -> None:
                await bench.ask(ModelRequest((ChatMessage("user", str(number)),)))
                done.append(number)

            for number in range(20):
                group.start_soon(call, number)
            await until(lambda: len(done) == 18)
            assert (slow.calls, quick.calls) == (2, 0)
            group.cancel_scope.cancel()
        asked = [int(seen.body["messages"][0]["content"]) for seen in bench.endpoint.seen]
        assert sorted(asked) == sorted(done)
        assert len(asked) == 18

    with_workers(check, YES, concurrency=4)


def test_requests_reach_the_endpoint_in_order():
    """With one request at a time, workers send requests in the order of the calls, also if they count tokens first."""

    async def check(bench: Bench) -> None:
        async with anyio.create_task_group() as group:
            for number in range(12):
                request = ModelRequest((ChatMessage("user", f"{number} {'word ' * (number % 3)}"),))
                group.start_soon(bench.ask, request)
        asked = [int(seen.body["messages"][0]["content"].split()[0]) for seen in bench.endpoint.seen]
        assert asked == list(range(12))

    with_workers(check, YES, concurrency=1, tokens_per_minute=10**6)


def test_tokens_for_a_limit_are_counted_by_workers(monkeypatch):
    """Where a limit needs exact counts, a worker counts; without an answer in time, the run counts the same itself."""
    counts: list[int | None] = []

    async def check(bench: Bench) -> None:
        counts.append(await bench.workers.count(ASK))
        bench.links[0].stuck = True
        monkeypatch.setattr("sim.llm.workers.pool._COUNTING", 0.01)
        counts.append(await bench.workers.count(ASK))

        assert bench.workers.figures.counted_late == 1, "which is said, because it takes the time of the run"

    with_workers(check, YES, count=1)
    assert counts == [count_request(exact("m"), ASK), None]


def test_a_request_that_cannot_be_sent_takes_no_place_and_is_free(monkeypatch):
    """A request that is too long for a frame fails at once, without a usage, and leaves the places to others."""

    async def check(bench: Bench) -> None:
        monkeypatch.setattr("sim.llm.workers.messages.LONGEST", 2000)
        why = r"cannot be sent to a worker process: it takes \d+ bytes, of at most 2000"
        for _ in range(3):
            with pytest.raises(ModelError, match=why) as found:
                await bench.ask(ModelRequest((ChatMessage("user", "x" * 2000),)))
            assert (found.value.kind, [attempt.usage for attempt in found.value.attempts]) == ("bad_request", [None])
        assert (bench.workers._slots[0].calls, bench.workers._slots[0].asked) == (0, {})
        assert (await bench.ask()).completion.text == "yes"

    with_workers(check, YES, count=1, concurrency=1)


def test_a_worker_that_does_not_answer_is_killed(monkeypatch):
    """A worker that is alive but hangs is replaced, and its call is made by the next one."""

    async def check(bench: Bench) -> None:
        monkeypatch.setattr("sim.llm.workers.pool._BEAT", 0.001)
        bench.links[0].stuck = True
        answers: list[Answer] = []

        async def call() -> None:
            answers.append(await bench.ask())

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: bench.workers.figures.replaced)
            monkeypatch.setattr("sim.llm.workers.pool._BEAT", 5.0)
        assert answers[0].lost == ()
        assert bench.workers.figures.replaced == 1

    with_workers(check, YES, count=1)


def test_a_worker_that_is_slow_to_answer_is_not_killed(monkeypatch):
    """A worker answers that it is alive while its requests wait for their endpoint, however long."""

    async def check(bench: Bench) -> None:
        monkeypatch.setattr("sim.llm.workers.pool._BEAT", 0.05)
        monkeypatch.setattr("sim.llm.workers.pool._SILENT", 30)
        answers = []
        held = anyio.Event()
        bench.endpoint.script = lambda seen: Reply(delay=2.0, body=whole("yes"))

        async def call() -> None:
            answers.append(await bench.ask())
            held.set()

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            before = bench.workers._slots[0].heard
            await held.wait()
        assert bench.workers._slots[0].heard > before + 3, "it was asked"
        assert (bench.workers.figures.replaced, answers[0].lost) == (0, ())

    with_workers(check, YES, count=1)


def test_only_what_a_worker_has_got_counts_when_time_is_over():
    """Of calls that take too long, those that were handed to a worker count their input; others were never sent."""

    async def check(bench: Bench) -> None:
        slot = bench.workers._slots[0]
        handed = slot.handed
        bench.links[0].stuck = True
        failures: list[ModelError] = []

        async def call(text: str) -> None:
            with pytest.raises(ModelError) as found:
                await bench.ask(ModelRequest((ChatMessage("user", text),), immediate=True))
            failures.append(found.value)

        async with anyio.create_task_group() as group:
            group.start_soon(call, "first")
            await until(lambda: slot.handed > handed)
            group.start_soon(call, "second")
            await until(lambda: slot.outbox)
        assert [failure.kind for failure in failures] == ["timeout", "timeout"]
        assert [failure.usage is None for failure in failures] == [False, True], failures
        assert "was not asked within" in str(failures[1])
        assert slot.calls == 1, "the worker does not have the second"
        assert bench.client.endpoint.breaker.wait() == 0.0

    with_workers(check, YES, count=1, policy=RetryPolicy(timeout=0.2, requests=1))


def test_after_something_else_than_messages_what_was_handed_over_counts():
    """If a worker sends bytes that are no message, its announcements are lost: all that it has got may have been sent,
    and what it has not got was not. What it sent is shown without secrets.
    """
    noises = [b"\xff" * 8, framed(Taken(10**6)), _frame(f'["{KEY}", 1]'.encode()), _frame(b"[" * 10**5)]

    async def check(bench: Bench) -> None:
        slot = bench.workers._slots[0]
        for noise in noises:
            answers: list[Answer] = []

            async def call(answers: list[Answer] = answers) -> None:
                answers.append(await bench.ask())

            await until(lambda: slot.state == "ready")
            link, handed = bench.links[-1], slot.handed
            link.stuck = True
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await until(lambda handed=handed: slot.handed > handed)  # type: ignore[misc]
                group.start_soon(call)
                await until(lambda: slot.outbox)
                link.say(noise)
            assert sorted(len(answer.lost) for answer in answers) == [0, 1]
            details = [attempt.detail for answer in answers for attempt in answer.lost]
            assert all("sent something else than a message" in detail and KEY not in detail for detail in details)

    with_workers(check, YES, count=1)


def test_a_refused_format_is_counted_if_its_second_request_is_lost():
    """The usage of a request that was refused with its format counts, also if the worker ends, or time is over, during
    the request without it.
    """
    refused = {"choices": "no"}
    request = attrs.evolve(ASK, preferred_format=SCHEMA, immediate=True)
    both = TokenUsage(2 * count_request(exact("m"), request), 0, estimated=True)

    async def check(bench: Bench) -> None:
        def script(seen: Seen) -> Reply:
            if seen.number == 1:
                bench.links[-1].kill()
                return Reply(end="hang")
            return Reply(body=refused) if "response_format" in seen.body else YES(seen)

        bench.endpoint.script = script
        answer = await bench.ask(request)
        assert [attempt.usage for attempt in answer.lost] == [both]
        assert len(answer.refused_formats) == 2

    with_workers(check, YES, count=1)

    async def late(bench: Bench) -> None:
        bench.endpoint.script = lambda seen: Reply(body=refused) if seen.number == 0 else Reply(end="hang")
        with pytest.raises(ModelError) as found:
            await bench.ask(request)
        assert (found.value.kind, found.value.usage, len(found.value.refused_formats)) == ("timeout", both, 1)

    with_workers(late, YES, count=1, policy=RetryPolicy(timeout=3.0, requests=1))


def test_an_observer_that_fails_fails_its_call():
    """An error of who watches an answer is the failure of that call and of no other, as in one process."""

    def watch(part: Delta) -> None:
        if part.kind == "text":
            raise ZeroDivisionError("no")

    script = lambda seen: fitting(seen, "it is an owl")  # noqa: E731
    expected = without(script, ASK, watch, policy=RetryPolicy(requests=1))

    async def check(bench: Bench) -> None:
        assert await outcome(bench.ask(observe=watch)) == expected
        assert (await bench.ask()).completion.text == "it is an owl"

    with_workers(check, script, count=1, policy=RetryPolicy(requests=1))


def test_a_worker_that_takes_nothing_any_more_is_replaced():
    """If a worker cannot be written to and has not ended, it is ended, and its calls are made by the next one."""

    async def check(bench: Bench) -> None:
        bench.links[0].deaf = True
        assert (await bench.ask()).lost == ()
        assert bench.workers.figures.replaced == 1

    with_workers(check, YES, count=1)


def test_a_worker_that_has_ended_gets_no_calls():
    """From its end on, and until its replacement is ready, the place of a worker is given no call."""

    async def check(bench: Bench) -> None:
        first, second = bench.workers._slots
        ending, ended = anyio.Event(), anyio.Event()

        async def slowly() -> str:
            ending.set()
            await ended.wait()
            return "was ended by signal 9"

        bench.links[0].ended = slowly  # type: ignore[method-assign]
        await bench.ask()  # from the first call on, ends are noticed
        bench.links[0].kill()
        await ending.wait()
        assert (first.state, second.state) == ("ended", "ready")
        for _ in range(4):
            assert (await bench.ask()).lost == ()
        assert len(bench.endpoint.seen) == 5
        ended.set()
        while first.state != "ready":
            assert (await bench.ask()).lost == ()

    with_workers(check, YES)


def test_closed_workers_are_not_replaced():
    """Workers that are closed while they are listened to end, and no other takes their place."""

    async def check(bench: Bench) -> None:
        await bench.ask()
        await bench.client.aclose()
        await until(lambda: all(slot.state == "absent" for slot in bench.workers._slots))
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert (len(bench.links), bench.workers.figures.replaced) == (2, 0)

    with_workers(check, YES)


def test_parts_of_an_interrupted_answer_are_taken_back():
    """Who watches an answer is told that the parts of an interrupted request do not count."""
    parts: list[str] = []

    async def check(bench: Bench) -> None:
        def watch(part: Delta) -> None:
            parts.append(part.kind)
            if part.kind == "text" and len(parts) == 1:
                bench.links[-1].kill()

        assert (await bench.ask(observe=watch)).completion.text == "it is an owl"

    with_workers(check, lambda seen: Reply(events=streamed("it is an owl"), gap=0.02), count=1)
    assert parts[0] == "text"
    assert parts.count("discard") == 1
    assert parts[-1] == "text"


def test_frames_are_read_however_they_arrive():
    """Messages survive any split of the bytes, and a frame that is too long to be one is refused."""
    asks = [Ask(number, "openai", "m", attrs.evolve(ASK, tools=(TOOL,)), True) for number in range(3)]
    stream = b"".join(map(framed, asks))
    for size in (1, 7, 100, len(stream)):
        frames = Frames()
        chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [read_to_worker(body) for chunk in chunks for body in frames.feed(chunk)] == asks
    with pytest.raises(ValueError, match="a frame of"):
        list(Frames().feed((LONGEST + 1).to_bytes(4, "big")))


def test_a_worker_gets_no_variable_of_the_operator():
    """The variables of a worker are those that Python needs to start; keys are in none of them."""
    own = {"PATH": "/bin", "OPENAI_API_KEY": KEY, "MY_KEY": KEY, "HOME": "/home/x"}
    assert set(variables(own)) == {"PATH", "PYTHONPATH"}


def test_batches_have_no_workers():
    """Worker processes for calls that are answered in batches are refused."""
    with pytest.raises(UsageError, match="batches, which take a few requests only"):
        Access(("openai:m",), edge_workers=1, batching=Batching())


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Interrupting:
    """A provider whose process ends before it has sent a request.

    Args:
        seconds: how long that takes.
    """

    name = "openai"

    def __init__(self, seconds: float) -> None:
        self.asked = 0
        self._seconds = seconds

    async def complete(self, model: str, request: ModelRequest, observe: Any = None) -> Completion:
        self.asked += 1
        await anyio.sleep(self._seconds)
        raise Interrupted("was ended by signal 9", Sending(sent=False))


@pytest.mark.parametrize(
    ("seconds", "most", "why"), [(0.0, 11, "interrupted 11 times"), (0.04, 5, r"has no answer after \d+ s")]
)
def test_interruptions_of_requests_that_were_not_sent_are_bounded(seconds, most, why):
    """A call whose requests are never sent ends after eleven of them, or at its deadline, and has used nothing."""
    provider = Interrupting(seconds)

    async def main() -> None:
        clock = EdgeClock()
        client = Client(clock, {"openai": make_endpoint(clock, provider)}, RetryPolicy(deadline=0.1, timeout=0.1))
        with pytest.raises(ModelError, match=why) as found:
            await client.complete((MODEL,), ASK, agent="ann")
        assert (found.value.kind, found.value.usage, found.value.lost) == ("network", None, ())

    anyio.run(main)
    assert 1 <= provider.asked <= most


SECRETS = (Place("http://a", KEY, {"x": KEY}, (), 1), Start({"openai": Place(None, KEY, {}, (), 1)}, 1.0, "m"))


@pytest.mark.parametrize("message", SECRETS)
def test_no_form_of_a_message_shows_a_key(message):
    """Neither `repr` nor what rich and pprint print of messages with keys, and of the outbox for them, has a key."""
    slot = _Slot(0)
    if isinstance(message, Start):
        slot.put(framed(message))
        slot.frames._parts.extend(framed(message))
    for shown in (message, slot):
        attributes = list(shown.__rich_repr__()) if hasattr(shown, "__rich_repr__") else []
        assert KEY not in f"{shown!r} {shown} {attributes!r} {pprint.pformat(shown)}"


def test_verbs_that_call_models_have_the_option():
    """Each command that runs something has --edge-workers, from the one field that declares it; the page names them."""
    context = click.Context(verbs)
    found: dict[str | None, Any] = {}
    for name in verbs.list_commands(context):
        command = verbs.get_command(context, name)
        assert command is not None
        options = {option.name: option.default for option in command.params}
        if "edge_workers" in options:
            found[name] = options["edge_workers"]
    assert found == dict.fromkeys(("run", "resume", "replay", "branch", "ask", "sweep", "fit", "bench"), 0)
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    named = page[page.index("count tokens. `sim run`") : page.index("take the option.")]
    assert {*re.findall(r"`(?:sim )?(\w+)`", named)} | {"replay"} == found.keys()


def test_workers_without_calls_are_refused():
    """Worker processes for a run without models at endpoints are a mistake, as are numbers that cannot be."""
    with pytest.raises(UsageError, match="no model is at an endpoint"):
        sim.run({"name": "quiet", "until": "1s", "agents": [{"name": "one"}]}, edge_workers=2)
    wrong: list[Any] = [-1, 65, True, 1.5, "-1", "65", "2@", "2@dask", "@ray", "65@ray", "", "9" * 5000]
    for count in wrong:
        with pytest.raises(UsageError, match="there are 0 to 64 worker processes, or 1@ray to 64@ray, but not"):
            HostOptions(edge_workers=count)


def test_the_summary_says_what_workers_could_not_do(capsys):
    """Below the table of costs, it says how many workers ended, what that may cost, and what the run did itself."""
    none = {"on_ray": False, "replaced": 0, "missing": 0, "interrupted": 0, "counted_late": 0}
    _print_workers({**none, "processes": 2})
    assert capsys.readouterr().out == "calls were made by 2 worker processes\n"
    _print_workers({**none, "processes": 3, "on_ray": True, "replaced": 2, "missing": 1})
    where, ended = capsys.readouterr().out.splitlines()
    assert where == "calls were made by 3 worker processes on a Ray cluster"
    assert ended.startswith(
        "2 ended and were replaced, 1 ended and had no replacement by the end of the run; 0 requests"
    )
    _print_workers({**none, "processes": 1, "replaced": 1, "interrupted": 3, "counted_late": 1})
    assert capsys.readouterr().out.splitlines()[1:] == [
        "1 of them ended and was replaced; 3 requests without an answer by then may be billed by the endpoint",
        "1 count of tokens was made by the process of the run, because no worker process made it in time",
        "hint: with more --edge-workers, each of them has less to do",
    ]


def test_an_actor_of_a_cluster_speaks_as_a_process_does():
    """What is a worker on a cluster takes and returns bytes only, answers as others do, and says why it has ended."""
    actor = WorkerActor(lambda: None)
    public, code = greeting(actor.hello())
    assert code == package_hash()
    with Endpoint(YES) as endpoint:
        start = Start({"openai": Place(endpoint.url, KEY, {}, (), 1)}, 60.0, "m")
        box = sealed(as_sent(start), public)
        assert KEY.encode() not in box
        assert actor.put(framed(Sealed(box))) == b""
        frames = Frames()
        assert [read_from_worker(body) for body in frames.feed(actor.take())] == [Ready()]
        actor.put(framed(Ask(1, "openai", "m", ASK, False)))
        got: list[Any] = []
        while not any(isinstance(one, Answered) for one in got):
            got += [read_from_worker(body) for body in frames.feed(actor.take())]
        assert got[0] == Taken(1)
        assert got[-1].completion.text == "yes"
        assert endpoint.seen[-1].headers["authorization"] == f"Bearer {KEY}"
    actor.put(b"")
    assert (actor.take(), actor.take(), actor.why()) == (b"", b"", b"")


def test_a_sealed_message_is_for_one_worker():
    """A worker that gets the keys of another one cannot read them, and ends with an error that shows none of them."""
    other, actor = Seal(), WorkerActor(lambda: None)
    actor.put(framed(Sealed(sealed(as_sent(SECRETS[1]), other.public))))
    assert actor.take() == b""
    assert actor.why().startswith(b"ended with an error: InvalidTag")
    assert other.opened(sealed(as_sent(SECRETS[1]), other.public)) == as_sent(SECRETS[1])


def test_workers_on_a_cluster_need_its_address():
    """`N@ray` without a cluster, a cluster without `N@ray`, and what is neither, are refused in one sentence."""
    assert (
        HostOptions(edge_workers="2").edge_workers,
        HostOptions(edge_workers="2@ray", ray="auto").edge_processes,
    ) == (2, 2)
    for given, sentence in (
        ({"edge_workers": "2@ray"}, "worker processes are to be on a Ray cluster, but none is given"),
        ({"edge_workers": 2, "ray": "auto"}, "a Ray cluster is given, but no worker process is to be on it"),
        ({"ray": "auto"}, "a Ray cluster is given, but no worker process is to be on it"),
        (
            {"edge_workers": "0@ray", "ray": "auto"},
            "there are 0 to 64 worker processes, or 1@ray to 64@ray, but not '0@ray'",
        ),
    ):
        with pytest.raises(UsageError) as found:
            HostOptions(**given)
        assert str(found.value) == sentence


def test_outcomes_of_many_requests_are_written_together():
    """Frames that are sent while many requests are under way wait for others; those of a few are written at once."""
    written, first = list[bytes](), threading.Event()

    def write(data: bytes) -> None:
        written.append(data)
        first.set()

    output = Output(write)
    output.later(b"a")
    assert first.wait(20)
    output.many = True
    first.clear()
    for frame in (b"b", b"c", b"d"):
        output.later(frame)
    assert first.wait(20)
    assert written[0] == b"a"
    assert b"".join(written).startswith(b"ab")
    while b"".join(written) != b"abcd":
        assert first.wait(20)


def test_a_worker_knows_when_it_has_many_requests():
    """From five requests under way on, outcomes are sent together, and below that at once."""

    async def main() -> None:
        output = Output(lambda data: None)
        place = Place("http://127.0.0.1:9/v1", "none", {}, ("m",), 8)
        worker = Worker(Start({"openai": place}, 1.0, "m"), APPROXIMATE, output)
        request = ModelRequest((ChatMessage("user", "hello"),))
        async with anyio.create_task_group() as group:
            for number in range(5):
                assert not output.many
                worker.take(Ask(number, "openai", "m", request, False), group)
            assert output.many
        assert not output.many
        await worker.aclose()

    anyio.run(main)
