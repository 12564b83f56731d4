"""Edge: connections to MCP servers by the official client. `sim.tools.mcp` imports this module when it is needed.

Only this module imports `mcp`. The client's own transports inherit variables of the environment, and take answers of
any size; these do not.
"""

import base64
import hashlib
import logging
import os
import shutil
import signal
import sys
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import anyio
import anyio.abc
import httpx2
import mcp_types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from sim.kernel.codec import encode
from sim.tools.mcp import McpServer

LONGEST_MESSAGE: Final = 8 * 2**20
"""The most bytes of one message of a server."""

MOST_STRAY_LINES: Final = 20
"""Lines on standard output that are no messages, such as a forgotten `print`. After more, the server is given up."""

_GRACE = 1.0
"""Seconds in which a server must end after its standard input was closed, and again after SIGTERM."""

if sys.platform == "win32":
    _KILL: Final = signal.SIGTERM
else:
    _KILL = signal.SIGKILL

_KEPT_ERRORS = 2000
"""Bytes of a server's standard error that are kept, to say why it ended."""

logging.getLogger("mcp").addHandler(logging.NullHandler())  # untrusted text must not reach the terminal


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

    @property
    def ended(self) -> bool:
        """Whether it cannot be used any more."""
        return self.client is None or self.closed.is_set()

    def end(self, fault: str) -> None:
        """Give the connection up. The first reason counts."""
        self.fault = self.fault or fault
        self.closed.set()

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
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

    async def tools(self, most: int) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return at most `most` tools: name, description, and JSON Schema of the arguments."""
        assert self.client is not None
        found: list[tuple[str, str, Mapping[str, Any]]] = []
        cursor: str | None = None
        while True:
            with self._losses():
                page = await self.client.list_tools(cursor=cursor)
            found += [(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
            if len(found) > most or (page.next_cursor is not None and not page.tools):
                raise ValueError(f"it has more than {most} tools")
            cursor = page.next_cursor
            if cursor is None:
                return found


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
    except* Exception as errors:  # with `*`: a cancellation can come together with errors, and must go on
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

    Streams of events are bounded by the client, event by event.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
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
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream, self._connection)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._inner:
            total += len(chunk)
            if total > LONGEST_MESSAGE:
                self._connection.end(f"it sent a message of more than {LONGEST_MESSAGE} bytes")
                raise httpx2.TransportError(self._connection.fault)
            yield chunk

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
        self._errors = b""
        self._stray = 0
        self._process: anyio.abc.Process

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """Start the process; at the end, end it with its process group."""
        program, *arguments = self._server.arguments
        self._process = await anyio.open_process(
            [shutil.which(program) or program, *arguments], env=dict(self._server.environment), start_new_session=True
        )
        # A second Ctrl-C can end the event loop, and what would end the server with it.
        abandoned = weakref.finalize(self, _signal_group, self._process.pid, _KILL)
        inbox_end, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, outbox_end = anyio.create_memory_object_stream[SessionMessage](0)
        async with inbox_end, inbox, outbox, outbox_end, anyio.create_task_group() as group:
            group.start_soon(self._receive, inbox_end)
            group.start_soon(self._send, outbox_end)
            group.start_soon(self._collect_errors)
            try:
                yield inbox, outbox
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop()
                    abandoned.detach()
                group.cancel_scope.cancel()

    async def _receive(self, inbox: Any) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        fault = ""
        lines = _Lines()
        async with inbox:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                async for chunk in stdout:
                    for line in lines.feed(chunk):
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
        try:
            return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._stray += bool(line.strip())
            return None

    async def _why_it_ended(self) -> str:
        """Return how the process ended, with the last line of its standard error."""
        with anyio.move_on_after(_GRACE):
            await self._process.wait()
        lines = self._errors.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        code = self._process.returncode
        how = "it closed its output" if code is None else f"it ended with exit code {code}"
        return f"{how}: {last}" if last else how

    async def _send(self, outbox: Any) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for item in outbox:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(text.encode() + b"\n")

    async def _collect_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for chunk in stderr:
                self._errors = (self._errors + chunk)[-_KEPT_ERRORS:]

    async def _stop(self) -> None:
        """Close standard input, and end what does not end by itself, with its whole process group."""
        process = self._process
        assert process.stdin is not None
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
        if not await self._ended_in(_GRACE):
            _signal_group(process.pid, signal.SIGTERM)
            await self._ended_in(_GRACE)
        _signal_group(process.pid, _KILL)
        with anyio.move_on_after(_GRACE):
            await process.aclose()

    async def _ended_in(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._process.wait()
        return self._process.returncode is not None


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a server, with its process group if there are groups."""
    with suppress(OSError):
        if sys.platform == "win32":
            os.kill(pid, number)
        else:
            os.killpg(pid, number)  # it leads its own group


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
