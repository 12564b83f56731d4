"""The program of a worker process: makes the calls of endpoints that its standard input asks for (edge).

`python -m sim.llm.workers.program` reads frames from standard input, and writes frames to standard output. It ends with
its input, so it does not outlive the run, and with any error of its own, so it is never alive without listening. One
thread reads, and says what it has read before any of it is carried out: a request that was not announced has not been
sent.
"""

import asyncio
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import anyio.abc

from sim.base.errors import SimError, UsageError
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
    Message,
    Numbered,
    Part,
    Ping,
    Pong,
    Probe,
    Rates,
    Ready,
    Refused,
    Said,
    Say,
    Sealed,
    Start,
    Taken,
    framed,
    read_to_worker,
)

_CHUNK: Final = 1 << 18  # bytes read at once
_GRACE: Final = 2.0  # seconds in which it must end after its input, whatever it does then
_GATHERED_FROM: Final = 5  # requests under way from which on outcomes are sent together
_TOGETHER: Final = 0.005  # seconds in which they are gathered: a model takes far longer

Write = Callable[[bytes], None]


class Output:
    """Writes frames to a stream, whole and in order, from any thread.

    Args:
        write: writes bytes, and waits until they are written.

    Attributes:
        many: whether frames wait a moment for others, so that the run reads several at once.
    """

    def __init__(self, write: Write) -> None:
        self.many = False
        self._write = write
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._drain, daemon=True).start()

    def now(self, frame: bytes) -> None:
        """Write a frame, and return when it is written."""
        with self._lock:
            self._write(frame)

    def later(self, frame: bytes) -> None:
        """Write a frame without waiting."""
        self._queue.put(frame)

    def _drain(self) -> None:
        while True:
            waiting = [self._queue.get()]
            if self.many:
                time.sleep(_TOGETHER)
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
        output: where frames are sent.
    """

    def __init__(self, start: Start, tokenizer: Tokenizer, output: Output) -> None:
        self._tokenizer = tokenizer
        self._output = output
        self._send = output.later
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._providers = {
            name: OpenAIProvider(
                Access(place.models, place.base_url, place.api_key, place.headers, concurrency=place.concurrency),
                name=name, tokenizer=tokenizer, on_rates=partial(self._report, name), timeout=start.timeout,
            )
            for name, place in start.places.items()
        }  # fmt: skip

    def take(self, message: Message, group: anyio.abc.TaskGroup) -> None:
        """Begin with what a message asks for."""
        if isinstance(message, Ask):
            scope = self._scopes[message.number] = anyio.CancelScope()
            self._output.many = len(self._scopes) >= _GATHERED_FROM
            group.start_soon(self._ask, message, scope)
        elif isinstance(message, Drop):
            if (dropped := self._scopes.get(message.number)) is not None:
                dropped.cancel()
        elif isinstance(message, Count):
            self._send(framed(Counted(message.number, count_request(self._tokenizer, message.request))))
        elif isinstance(message, Ping):
            self._send(framed(Pong()))
        elif isinstance(message, Probe | Say):
            group.start_soon(self._look, message)

    async def aclose(self) -> None:
        """Close all connections."""
        for provider in self._providers.values():
            await provider.aclose()

    async def _ask(self, ask: Ask, scope: anyio.CancelScope) -> None:
        frame = framed(Dropped(ask.number))
        try:
            with scope:
                frame = await self._outcome(ask)
        finally:
            del self._scopes[ask.number]
            self._output.many = len(self._scopes) >= _GATHERED_FROM
        self._send(frame)

    async def _outcome(self, ask: Ask) -> bytes:
        """Make a request, and return the frame with its outcome. Whatever fails, the run gets one."""

        def show(delta: Delta) -> None:
            self._send(framed(Part(ask.number, delta)))

        try:
            completion = await self._providers[ask.provider].once(ask.model, ask.request, show if ask.parts else None)
            return framed(Answered(ask.number, completion))  # a text that cannot be sent is a failure of this request
        except ModelError as error:
            failure = error
        except Exception as error:  # of a library, or of this program; the input was sent, and counts
            usage = TokenUsage(count_request(self._tokenizer, ask.request), 0, estimated=True)
            failure = ModelError("server", f"{type(error).__name__}: {error}", usage=usage)
        return framed(Failed.of(ask.number, failure))

    async def _look(self, message: Probe | Say) -> None:
        """Look at an endpoint, free of charge."""
        provider = self._providers[message.provider]
        try:
            if isinstance(message, Probe):
                await provider.probe()
                can: dict[str, bool] = {}
            else:
                can = {str(need): can_do for need, can_do in (await provider.said_of(message.model)).items()}
        except SimError as error:
            self._send(framed(Refused(message.number, isinstance(error, UsageError), str(error), error.hint)))
        else:
            self._send(framed(Said(message.number, can)))

    def _report(self, name: str, limits: ReportedLimits) -> None:
        self._send(framed(Rates(name, limits)))


async def serve(
    read: Callable[[], bytes],
    write: Write,
    abort: Callable[[], None] = lambda: None,
    opened: Callable[[bytes], bytes] = bytes,
) -> None:
    """Do what the frames that `read` returns ask for, until it returns none.

    Args:
        read: waits for bytes and returns them; none at the end.
        write: writes bytes, and waits until they are written.
        abort: ends the process at once. It is called if the event loop does not end in time after the input has.
        opened: returns what was sealed for this worker.

    Raises:
        ValueError: if what it reads is not a message.
    """
    output, inbox = Output(write), _Inbox(read)
    waiting = await anyio.to_thread.run_sync(inbox.take)
    if not waiting:
        return
    start = waiting.pop(0)
    if isinstance(start, Sealed):
        start = read_to_worker(opened(start.box))
    assert isinstance(start, Start), "it is the first message"
    tokenizer = exact(start.counted_as)
    tokenizer.count("")
    worker = Worker(start, tokenizer, output)
    _import_libraries()
    output.now(framed(Ready()))
    loop, arrived = asyncio.get_running_loop(), asyncio.Queue[list[Message] | Exception | None]()

    def hand_over(arrival: list[Message] | Exception | None) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(arrived.put_nowait, arrival)

    def listen() -> None:  # it never waits for the event loop, so it notices the end of the input in any case
        problem = None
        try:
            _listen(inbox, output, hand_over, waiting)
        except OSError:
            pass  # the run has gone
        except Exception as error:
            problem = error
        ending = threading.Timer(_GRACE, abort)  # the event loop can hang
        ending.daemon = True
        ending.start()
        hand_over(problem)

    async with anyio.create_task_group() as group:
        threading.Thread(target=listen, daemon=True).start()
        while isinstance(arrival := await arrived.get(), list):
            for message in arrival:
                worker.take(message, group)
        group.cancel_scope.cancel()
    await worker.aclose()
    if isinstance(arrival, Exception):
        raise arrival


class _Inbox:
    """Reads messages from a stream."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._frames = Frames()

    def take(self) -> list[Message]:
        """Wait for messages and return them; none at the end.

        Raises:
            ValueError: if something else comes.
        """
        while chunk := self._read():
            if messages := [read_to_worker(body) for body in self._frames.feed(chunk)]:
                return messages
        return []


def _listen(inbox: _Inbox, output: Output, hand_over: Callable[[list[Message]], None], messages: list[Message]) -> None:
    """Announce and hand over messages as they come, after those that are there already, until the end of the input."""
    while True:
        numbers = [message.number for message in messages if isinstance(message, Numbered)]
        if numbers:
            output.now(framed(Taken(max(numbers))))
        hand_over(messages)
        messages = inbox.take()
        if not messages:
            return


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
        anyio.run(serve, lambda: os.read(0, _CHUNK), write, partial(os._exit, 1))
    except OSError:  # the run has gone
        os._exit(1)


if __name__ == "__main__":
    main()
    sys.exit()
