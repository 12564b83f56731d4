"""Edge: connections to MCP servers by the official client. `sim.tools.mcp` imports this module when it is needed.

Only this module imports `mcp`. The client's own transports inherit variables of the environment, and take answers of
any size; these do not.
"""

import base64
import hashlib
import json
import logging
import os
import shutil
import ssl
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

import anyio
import anyio.abc
import httpx2
import mcp_types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from sim.base.child import Child, kill_group
from sim.kernel.codec import Json, JsonObject, encode
from sim.tools.mcp import McpServer

LONGEST_MESSAGE: Final = 8 * 2**20
"""The most bytes of one message of a server."""

MOST_STRAY_LINES: Final = 20
"""Lines on standard output that are no messages, such as a forgotten `print`. After more, the server is given up."""

MOST_MESSAGES: Final = 5_000
"""Messages that a server may send at once, answers and notes together; 100 more each second."""

MOST_BYTES: Final = 64 * 2**20
"""Bytes that a server may send at once; 8 MiB more each second."""

_SESSION = str(Path("mcp", "client", "session.py"))

_GRACE = 1.0
"""Seconds in which a server must end after its standard input was closed, and again after SIGTERM."""

logging.getLogger("mcp").addHandler(logging.NullHandler())  # untrusted text must not reach the terminal
# The library also writes to a logger whose name others may use, with a traceback for each message that is wrong.
logging.getLogger("client").addFilter(lambda record: not record.pathname.endswith(_SESSION))


class _Flow:
    """How much a server may send: so much at once, and a little each second, as a leaky bucket."""

    def __init__(self) -> None:
        self._messages, self._bytes = 0.0, 0.0
        self._at = anyio.current_time()

    def add(self, messages: int, size: int) -> bool:
        """Count what was sent, and return whether it is too much."""
        now = anyio.current_time()
        seconds, self._at = now - self._at, now
        self._messages = max(0.0, self._messages - MOST_MESSAGES / 50 * seconds) + messages
        self._bytes = max(0.0, self._bytes - MOST_BYTES / 8 * seconds) + size
        return self._messages > MOST_MESSAGES or self._bytes > MOST_BYTES


class Connection:
    """An open connection to a server.

    Attributes:
        client: the client, once the connection is open.
        closed: set when it cannot be used any more.
        fault: why, as part of a sentence.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.closed = anyio.Event()
        self.client: Client | None = None
        self._flow = _Flow()

    def count(self, messages: int, size: int) -> None:
        """Count what the server sends, and give the connection up if that is too much."""
        if self._flow.add(messages, size):
            self.end(f"it sends more than {MOST_MESSAGES:,} messages or {MOST_BYTES:,} bytes at once")

    @property
    def ended(self) -> bool:
        """Whether it cannot be used any more."""
        return self.client is None or self.closed.is_set()

    def end(self, fault: str) -> None:
        """Give the connection up. The first reason counts."""
        self.fault = self.fault or fault
        self.closed.set()

    async def call(self, tool: str, arguments: dict[str, Json]) -> tuple[bool, str]:
        """Return whether the tool reports an error, and its answer as text."""
        assert self.client is not None
        with self._losses():
            result = await self.client.call_tool(tool, arguments)
        text = "\n".join(_block(block) for block in result.content)
        if not result.content and result.structured_content is not None:
            text = encode(result.structured_content).decode()
        return result.is_error, text

    @contextmanager
    def _losses(self) -> Iterator[None]:
        """Give the connection up when a call finds that it is lost, so that the next call makes a new one."""
        try:
            yield
        except MCPError as error:
            if error.code == mcp_types.CONNECTION_CLOSED:
                self.end("the connection was lost")
            raise

    async def tools(self, most: int) -> list[tuple[str, str, JsonObject]]:
        """Return at most `most` tools: name, description, and JSON Schema of the arguments."""
        assert self.client is not None
        tools: list[tuple[str, str, JsonObject]] = []
        cursor: str | None = None
        while True:
            with self._losses():
                page = await self.client.list_tools(cursor=cursor)
            tools += [(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
            if len(tools) > most or (page.next_cursor is not None and not page.tools):
                raise ValueError(f"it has more than {most} tools")
            cursor = page.next_cursor
            if cursor is None:
                return tools


async def keep(server: McpServer, *, task_status: anyio.abc.TaskStatus[Connection]) -> None:
    """Open a connection, report it, and keep it until it ends or this task is cancelled. It raises no error.

    The client has tasks of its own, and an error in one of them must not end the run.
    """
    connection = Connection()
    transport = _over_http(server, connection) if server.url is not None else _over_pipes(server, connection)
    scope = anyio.CancelScope(deadline=anyio.current_time() + server.timeout)
    try:
        with scope:
            async with Client(transport, cache=None) as client:
                scope.deadline = float("inf")  # from here on, each call has its own
                connection.client = client
                task_status.started(connection)
                await connection.closed.wait()
    except* Exception as errors:  # with `*`: a cancellation can come together with errors, and must be passed on
        connection.end(_reason(errors))
    if scope.cancelled_caught:
        connection.end(f"it did not start in {server.timeout:g} seconds")
    connection.end("the connection was closed")
    if connection.client is None:
        task_status.started(connection)


def _reason(error: BaseException) -> str:
    """Return the text of the first error of a group that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _block(block: mcp_types.ContentBlock) -> str:
    """Return a part of an answer as text. Bytes are named by type, size and hash."""
    if isinstance(block, mcp_types.TextContent):
        return block.text
    if isinstance(block, mcp_types.ResourceLink):
        return f"[link to {block.uri}]"
    if isinstance(block, mcp_types.EmbeddedResource):
        resource = block.resource
        if isinstance(resource, mcp_types.TextResourceContents):
            return resource.text
        return _bytes(resource.mime_type or "bytes", resource.blob)
    return _bytes(block.mime_type, block.data)


def _bytes(kind: str, data: str) -> str:
    raw = base64.b64decode(data.encode(errors="replace"), validate=True)
    return f"[{kind}, {len(raw)} bytes, sha256 {hashlib.sha256(raw).hexdigest()}]"


# -- over HTTP


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """HTTP without compressed or endless answers, which end the connection.

    The length of one event in a stream of events is bounded by the client.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))  # no certificates: no address of ours has TLS
        self._connection = connection

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except httpx2.NetworkError as error:
            self._connection.end(f"it cannot be reached ({type(error).__name__})")
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream), "it comes from an async transport"
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.stream.aclose()
            self._connection.end("the answer is compressed, which was not asked for")
            raise httpx2.TransportError(self._connection.fault)
        kind = response.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            response.stream = _BoundedEvents(response.stream, self._connection)
        else:
            answers = response.is_success and kind.startswith("application/json")
            asked = _object(request.content).get("id") if answers else None
            response.stream = _BoundedStream(response.stream, self._connection, asked)
        return response


def _object(message: bytes | bytearray) -> dict[str, Json]:
    """Return a message as a JSON object; an empty one if it is none."""
    try:
        value = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class _BoundedEvents(httpx2.AsyncByteStream):
    """A stream of messages."""

    def __init__(self, inner: httpx2.AsyncByteStream, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._connection.count(chunk.count(b"data:"), len(chunk))
            if self._connection.closed.is_set():
                raise httpx2.TransportError(self._connection.fault)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """One message: the answer to the request `asked`, if that is not None."""

    def __init__(self, inner: httpx2.AsyncByteStream, connection: Connection, asked: object) -> None:
        self._inner = inner
        self._connection = connection
        self._asked = asked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole = bytearray()
        async for chunk in self._inner:
            whole += chunk
            if len(whole) > LONGEST_MESSAGE:
                self._give_up(f"it sent a message of more than {LONGEST_MESSAGE} bytes")
        answer = _object(whole)
        if self._asked is not None and answer and answer.get("id") != self._asked:
            self._give_up("it sent something other than the answer to the request")
        yield bytes(whole)

    def _give_up(self, fault: str) -> NoReturn:
        self._connection.end(fault)
        raise httpx2.TransportError(fault)

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def _over_http(server: McpServer, connection: Connection) -> AsyncIterator[Any]:
    """Connect to a server on this machine: without proxies, and without following it to another place."""
    assert server.url is not None
    timeout = httpx2.Timeout(server.timeout, read=None)  # events may be rare; each call has its own limit
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx2.AsyncClient(
                transport=_BoundedTransport(connection),
                trust_env=False,
                timeout=timeout,
                headers={"accept-encoding": "identity"},
            )
        )
        yield await stack.enter_async_context(streamable_http_client(server.url, http_client=client))


# -- over standard input and output


def _over_pipes(server: McpServer, connection: Connection) -> AbstractAsyncContextManager[Any]:
    """Start a server, and return its streams of messages."""
    return _Pipes(server, connection).open()


class _Pipes:
    """A server process: one message a line, in both directions."""

    def __init__(self, server: McpServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._stray = 0
        self._child: Child

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """Start the process; at the end, end it with its process group."""
        program, *arguments = self._server.arguments
        command = [_absolute(shutil.which(program) or program), *map(_absolute, arguments)]
        with TemporaryDirectory(prefix="sim-mcp-", ignore_cleanup_errors=True) as own:
            folder = self._server.folder or own
            self._child = await Child.start("its program", command, environment=self._server.environment, folder=folder)
            async with self._streams() as streams:
                yield streams

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        # A second Ctrl-C can end the event loop, and what would end the server with it.
        abandoned = weakref.finalize(self, kill_group, self._child.pid)
        inbox_end, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, outbox_end = anyio.create_memory_object_stream[SessionMessage](0)
        async with inbox_end, inbox, outbox, outbox_end, anyio.create_task_group() as group:
            group.start_soon(self._receive, inbox_end)
            group.start_soon(self._send, outbox_end)
            group.start_soon(self._child.collect_errors)
            try:
                yield inbox, outbox
            finally:
                await self._child.close(_GRACE, terminate=True)
                abandoned.detach()
                group.cancel_scope.cancel()

    async def _receive(self, inbox: Any) -> None:
        fault = ""
        lines = _Lines()
        async with inbox:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # of the inbox
                while chunk := await self._child.receive():
                    complete = lines.feed(chunk)
                    self._connection.count(len(complete), len(chunk))
                    for line in complete:
                        if self._connection.closed.is_set():
                            return
                        if (message := self._parse(line)) is not None:
                            await inbox.send(SessionMessage(message))
                    if lines.length > LONGEST_MESSAGE:
                        fault = f"it sent a message of more than {LONGEST_MESSAGE} bytes"
                        break
                    if self._stray > MOST_STRAY_LINES:
                        fault = "it sends something other than messages of the protocol"
                        break
            self._connection.end(fault or await self._why_it_ended())

    def _parse(self, line: bytes) -> mcp_types.JSONRPCMessage | None:
        """Return the message of a line; None: it is none, such as a line of a forgotten `print`.

        What should be a message and cannot be parsed may be the answer that is waited for, and no other will come.
        """
        if not line.strip():
            return None
        try:
            return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._stray += 1
            if line.lstrip().startswith(b"{") and (b'"jsonrpc"' in line or b'"id"' in line):
                self._connection.end(f"it sent a message that cannot be parsed: {line[:200].decode(errors='replace')}")
            return None

    async def _why_it_ended(self) -> str:
        """Return how the process ended, with the last line of its standard error."""
        await self._child.ended_in(_GRACE)
        return f"it {self._child.how()}"

    async def _send(self, outbox: Any) -> None:
        async for item in outbox:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            if not await self._child.send(text.encode() + b"\n"):
                return


def _absolute(argument: str) -> str:
    """Return the path of a file or a folder that an argument names as one, seen from here; else the argument."""
    named = "/" in argument or os.sep in argument or "." in argument
    try:
        return os.path.abspath(argument) if named and os.path.exists(argument) else argument  # noqa: PTH100, PTH110
    except (OSError, ValueError):
        return argument


class _Lines:
    """Splits a stream of bytes into lines, in time that grows with its length only.

    Attributes:
        length: bytes of the line that is not complete yet.
    """

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete with `chunk`."""
        *complete, rest = chunk.split(b"\n")
        if complete:
            complete[0] = b"".join((*self._parts, complete[0]))
            self._parts, self.length = [], 0
        self._parts.append(rest)
        self.length += len(rest)
        return complete
