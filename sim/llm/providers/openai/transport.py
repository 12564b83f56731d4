"""The HTTP transport of the real client. It bounds the size of responses, and passes on their headers.

Only this module and `provider` use `httpx2`. Endpoints are not trusted. Without these bounds, an endless or extremely
compressed response could fill the memory.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final

import httpx2

MAX_BODY: Final = 8 * 2**20
"""The most bytes of a body that is not a stream."""

MAX_FILE: Final = 4 * 2**30
"""The most bytes of a file with the answers of a batch, which is read line by line."""

MAX_STREAM: Final = 64 * 2**20
"""The most bytes of a streamed answer: about 200,000 tokens in chunks of 300 bytes."""

MAX_EVENT: Final = 2**20
"""The most bytes of one event of a stream. An event is buffered until it is complete."""

_BLANK = (b"\n\n", b"\r\n\r\n", b"\r\r")  # the separators of events
_OVERLAP = 3  # bytes of the last chunk in which a separator can begin


class TooLong(httpx2.TransportError):
    """A response has more bytes than is allowed, or is compressed."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A wrapper of a transport that aborts responses that are too long.

    Args:
        inner: the transport that sends.
        on_headers: called with the headers of each response.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, on_headers: Callable[[httpx2.Headers], None]) -> None:
        self._inner = inner
        self._on_headers = on_headers

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        response = await self._inner.handle_async_request(request)
        self._on_headers(response.headers)
        assert isinstance(response.stream, httpx2.AsyncByteStream), "it comes from an async transport"
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.stream.aclose()
            raise TooLong("the response is compressed, which was not asked for")
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        is_file = request.method == "GET" and request.url.path.endswith("/content")
        response.stream = _BoundedStream(response.stream, events, MAX_FILE if is_file else MAX_BODY)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of one response, with a limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, events: bool, most: int) -> None:
        self._inner = inner
        self._chunks: AsyncIterator[bytes] = aiter(inner)
        self._events = events
        self._most = MAX_STREAM if events else most
        self._total = 0
        self._pending = 0  # bytes of the event that is not complete yet
        self._tail = b""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        self._total += len(chunk)
        if self._total > self._most:
            raise TooLong(f"the response has more than {self._most} bytes")
        if self._events:
            seen = self._tail + chunk
            end = max(seen.rfind(blank) for blank in _BLANK)
            self._pending = self._pending + len(chunk) if end < 0 else len(seen) - end
            if self._pending > MAX_EVENT:
                raise TooLong(f"one event of the stream has more than {MAX_EVENT} bytes")
            self._tail = seen[-_OVERLAP:]
        return chunk

    async def aclose(self) -> None:
        """Release the connection."""
        await self._inner.aclose()
