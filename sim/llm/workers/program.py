"""The program of a worker process: makes the calls of endpoints that its standard input asks for (edge).

`python -m sim.llm.workers.program` reads frames from standard input, and writes frames to standard output. It ends with
its input, so it never outlives the run. One thread reads, and says what it has read before any of it is carried out: a
request that was not announced has not been sent.
"""

import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
import anyio.abc
import anyio.from_thread
import anyio.lowlevel

from sim.base.errors import SimError, UsageError
from sim.kernel.codec import Record
from sim.llm.access import Access
from sim.llm.limits.governor import ReportedLimits
from sim.llm.providers.openai.provider import OpenAIProvider
from sim.llm.tokens import Tokenizer, count_request, exact
from sim.llm.types import Delta, ModelError, TokenUsage
from sim.llm.workers.messages import (
    Answered,
    Ask,
    Count,
    Counted,
    Drop,
    Dropped,
    Failed,
    Frames,
    Part,
    Probe,
    Rates,
    Ready,
    Refused,
    Said,
    Say,
    Start,
    Taken,
    framed,
    read_to_worker,
)

_CHUNK: Final = 1 << 18  # bytes read at once

Write = Callable[[bytes], None]


class Output:
    """Writes frames to a stream, whole and in order, from any thread.

    Args:
        write: writes bytes, and waits until they are written.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._drain, daemon=True).start()

    def now(self, message: Record) -> None:
        """Write a message, and return when it is written."""
        with self._lock:
            self._write(framed(message))

    def later(self, message: Record) -> None:
        """Write a message without waiting."""
        self._queue.put(framed(message))

    def _drain(self) -> None:
        while True:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            try:
                with self._lock:
                    self._write(b"".join(waiting))
            except OSError:  # the run has gone, and the input ends as well
                return


class Worker:
    """Carries out what it is asked for.

    Args:
        start: the endpoints and limits.
        tokenizer: counts tokens.
        send: sends a message without waiting.
    """

    def __init__(self, start: Start, tokenizer: Tokenizer, send: Callable[[Record], None]) -> None:
        self._tokenizer = tokenizer
        self._send = send
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._providers = {
            name: OpenAIProvider(
                Access(place.models, place.base_url, place.api_key, place.headers, concurrency=place.concurrency),
                name=name, tokenizer=tokenizer, on_rates=partial(self._report, name), timeout=start.timeout,
            )
            for name, place in start.places.items()
        }  # fmt: skip

    def take(self, message: Any, group: anyio.abc.TaskGroup) -> None:
        """Begin with what a message asks for."""
        if isinstance(message, Ask):
            scope = self._scopes[message.number] = anyio.CancelScope()
            group.start_soon(self._ask, message, scope)
        elif isinstance(message, Drop):
            if (dropped := self._scopes.get(message.number)) is not None:
                dropped.cancel()
        elif isinstance(message, Count):
            self._send(Counted(message.number, count_request(self._tokenizer, message.request)))
        else:
            group.start_soon(self._look, message)

    async def aclose(self) -> None:
        """Close all connections."""
        for provider in self._providers.values():
            await provider.aclose()

    async def _ask(self, ask: Ask, scope: anyio.CancelScope) -> None:
        outcome: Record = Dropped(ask.number)
        try:
            with scope:
                outcome = await self._outcome(ask)
        finally:
            del self._scopes[ask.number]
        self._send(outcome)

    async def _outcome(self, ask: Ask) -> Record:
        """Make a request. Whatever fails, the run gets an outcome."""

        def show(delta: Delta) -> None:
            self._send(Part(ask.number, delta))

        try:
            provider = self._providers[ask.provider]
            outcome: Record = Answered(
                ask.number, await provider.once(ask.model, ask.request, show if ask.parts else None)
            )
            framed(outcome)  # a text that cannot be sent is a failure of this request
        except ModelError as error:
            outcome = Failed.of(ask.number, error)
        except Exception as error:  # of a library, or of this program; the input was sent, and counts
            usage = TokenUsage(count_request(self._tokenizer, ask.request), 0, estimated=True)
            text = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
            outcome = Failed.of(ask.number, ModelError("server", text, usage=usage))
        return outcome

    async def _look(self, message: Probe | Say) -> None:
        """Look at an endpoint, free of charge."""
        provider = self._providers[message.provider]
        try:
            if isinstance(message, Probe):
                await provider.probe()
                can: dict[str, bool] = {}
            else:
                can = {str(need): known for need, known in (await provider.said_of(message.model)).items()}
        except SimError as error:
            self._send(Refused(message.number, isinstance(error, UsageError), str(error), error.hint))
        else:
            self._send(Said(message.number, can))

    def _report(self, name: str, limits: ReportedLimits) -> None:
        self._send(Rates(name, limits))


async def serve(read: Callable[[], bytes], write: Write) -> None:
    """Do what the frames that `read` returns ask for, until it returns none.

    Args:
        read: waits for bytes and returns them; none at the end.
        write: writes bytes, and waits until they are written.
    """
    output, frames = Output(write), Frames()
    waiting: list[Any] = []
    while not waiting:
        chunk = await anyio.to_thread.run_sync(read)
        if not chunk:
            return
        waiting += map(read_to_worker, frames.feed(chunk))
    start = waiting.pop(0)
    assert isinstance(start, Start), "it is the first message"
    tokenizer = exact(start.counted_as)
    tokenizer.count("")
    worker = Worker(start, tokenizer, output.later)
    _import_libraries()
    output.now(Ready())
    async with anyio.create_task_group() as group:
        door = anyio.lowlevel.current_token()

        def begin(messages: list[Any]) -> None:
            for message in messages:
                worker.take(message, group)

        def listen() -> None:
            messages = waiting
            with suppress(OSError):  # the run has gone
                while True:
                    if messages:
                        output.now(Taken(max(message.number for message in messages)))
                        anyio.from_thread.run_sync(begin, messages, token=door)
                    chunk = read()
                    if not chunk:
                        break
                    messages = [read_to_worker(body) for body in frames.feed(chunk)]
            anyio.from_thread.run_sync(group.cancel_scope.cancel, token=door)

        threading.Thread(target=listen, daemon=True).start()
        await anyio.sleep_forever()
    await worker.aclose()


def _import_libraries() -> None:
    """Import what the first request needs, so that it does not wait for it."""
    import httpx2  # noqa: F401
    import openai  # noqa: F401


def main() -> None:
    """Serve standard input and output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then closes the input
    logging.getLogger().addHandler(logging.NullHandler())  # traffic is not logged
    output = os.dup(1)
    os.dup2(2, 1)  # a forgotten `print` must not be read as a frame

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(output, view) :]

    try:
        anyio.run(serve, lambda: os.read(0, _CHUNK), write)
    except OSError:  # the run has gone
        os._exit(1)


if __name__ == "__main__":
    main()
    sys.exit()
