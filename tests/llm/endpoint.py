"""An OpenAI-compatible endpoint on a loopback port that fails on purpose: real sockets, own thread, own loop.

A script says how each request is answered. Nothing here knows the client.
"""

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self

import attrs

End = Literal["done", "cut", "reset", "hang", "endless"]
"""How a reply ends: whole; closed without the end of the body; by a reset; not at all, silent; without an end."""


@attrs.frozen
class Seen:
    """A request as it came in."""

    number: int  # from 0
    at: float  # monotonic seconds
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any


@attrs.frozen
class Reply:
    """What is sent back: one body, or the parts of a stream.

    Args:
        status: of the response.
        headers: beside those of the framing.
        body: JSON-like, or bytes as they are.
        events: parts of a stream; if there are any, there is no body.
        end: how it ends, after the last event or in the middle of the body.
        delay: seconds before the first byte.
        gap: seconds between events.
    """

    status: int = 200
    headers: Mapping[str, str] = {}
    body: Any = b""
    events: tuple[bytes, ...] = ()
    end: End = "done"
    delay: float = 0.0
    gap: float = 0.0


Script = Callable[[Seen], Reply]


class Endpoint:
    """The server; a context manager."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.probes: list[str] = []  # paths of what was only looked at
        self.listing: Callable[[str], Reply] = lambda path: Reply(body={"object": "list", "data": []})
        self.open = 0  # connections
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        handlers: set[asyncio.Task[None]] = set()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            handlers.add(task)
            self.open += 1
            try:
                await self._connection(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                self.open -= 1
                handlers.discard(task)
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(handlers):
            task.cancel()
        await asyncio.wait(handlers, timeout=5) if handlers else None

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            at = time.monotonic()
            value = json.loads(body) if body else None
            method, path = first.split(" ")[:2]
            if method == "GET":
                self.probes.append(path)
                if not await _send(self.listing(path), writer):
                    return
                continue
            seen = Seen(len(self.seen), at, path, headers, value)
            self.seen.append(seen)
            if not await _send(self.script(seen), writer):
                return


async def _send(reply: Reply, writer: asyncio.StreamWriter) -> bool:
    """Send a reply and tell whether the connection can be used again."""
    if reply.delay:
        await asyncio.sleep(reply.delay)
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    headers = {"date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()), **reply.headers}
    if reply.events or reply.end == "endless":
        headers |= {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    else:
        headers = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {reply.status} Because", *(f"{name}: {value}" for name, value in headers.items())]
    if reply.end != "hang" or reply.events:
        writer.write("\r\n".join([*lines, "", ""]).encode())
    if reply.events or reply.end == "endless":
        await _send_events(reply, writer)
    elif reply.end == "done":
        writer.write(body)
    else:
        writer.write(body[: len(body) // 2] if reply.end != "hang" else b"")
    await writer.drain()
    if reply.end == "hang":
        await asyncio.sleep(3600)
    if reply.end == "reset":
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return reply.end == "done"


async def _send_events(reply: Reply, writer: asyncio.StreamWriter) -> None:
    sent = 0
    while sent < len(reply.events) or reply.end == "endless":
        event = reply.events[min(sent, len(reply.events) - 1)]
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()
        sent += 1
        if reply.gap:
            await asyncio.sleep(reply.gap)
    if reply.end == "done":
        writer.write(b"0\r\n\r\n")


# -- what an endpoint says

USAGE = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}


def whole(
    text: str | None = "hello there",
    *,
    calls: Iterable[tuple[str, str]] = (),
    finish: str | None = None,
    usage: Any = USAGE,
    **message: Any,
) -> dict[str, Any]:
    """Return a response that comes at once; `calls` are (name, arguments)."""
    tool_calls = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {}), **message}
    finish = finish or ("tool_calls" if tool_calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "model": "served", "choices": [choice], "usage": usage}


def event(value: Any) -> bytes:
    """Return one event of a stream."""
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def streamed(
    text: str = "hello there",
    *,
    calls: Iterable[tuple[str, str]] = (),
    finish: str | None = None,
    usage: Any = USAGE,
    width: int = 4,
) -> tuple[bytes, ...]:
    """Return the events of an answer in pieces of `width` characters: the last three are the finish reason, the usage
    and `[DONE]`.
    """
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[start : start + width]} for start in range(0, len(text), width)]
    calls = list(calls)
    for place, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        first = {"index": place, "id": f"call_{place}", "type": "function", "function": function}
        deltas.append({"tool_calls": [first]})
        for start in range(0, len(arguments), width):
            part = {"index": place, "function": {"arguments": arguments[start : start + width]}}
            deltas.append({"tool_calls": [part]})
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": finish or ("tool_calls" if calls else "stop")}])
    chunks: list[dict[str, Any]] = [{"id": "x", "model": "served", "choices": choice} for choice in choices]
    chunks.append({"id": "x", "model": "served", "choices": [], "usage": usage})
    return (*map(event, chunks), event(b"[DONE]"))


def error(status: int, message: str = "no", *, code: Any = None, kind: str | None = None, **headers: str) -> Reply:
    """Return a refusal; underscores in the names of headers stand for hyphens."""
    body = {"error": {"message": message, "type": kind, "code": code, "param": None}}
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def fitting(seen: Seen, text: str = "hello there", **rest: Any) -> Reply:
    """Return an answer in the form that the request asks for."""
    if seen.body.get("stream"):
        return Reply(events=streamed(text, **rest))
    return Reply(body=whole(text, **rest))
