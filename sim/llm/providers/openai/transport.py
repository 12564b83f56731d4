"""The HTTP transport of the real client: bounded responses, and a look at what the headers say about limits.

The only module besides `openai_provider` that knows `httpx2`. An endpoint is not trusted: without these bounds, one
that never ends its answer, or sends it compressed a thousandfold, would fill the memory.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final

import httpx2

MAX_BODY: Final = 8 * 2**20
"""Bytes of a body that comes at once."""

MAX_STREAM: Final = 64 * 2**20
"""Bytes of a streamed answer on the wire: about 200,000 tokens in chunks of 300 bytes."""

MAX_EVENT: Final = 2**20
"""Bytes of one event of a stream, which is held until it is complete."""

_BLANK = (b"\n\n", b"\r\n\r\n", b"\r\r")  # what ends an event
_OVERLAP = 3  # bytes of the last chunk that a blank line may begin in


class TooLong(httpx2.TransportError):
    """A response has more bytes than is allowed, or is compressed."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Passes on to a real transport, and breaks off responses that are too long.

    Args:
        inner: what sends.
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
        response.stream = _BoundedStream(response.stream, events)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of one response, up to the bounds."""

    def __init__(self, inner: httpx2.AsyncByteStream, events: bool) -> None:
        self._inner = inner
        self._chunks: AsyncIterator[bytes] = aiter(inner)
        self._events = events
        self._total = 0
        self._pending = 0  # bytes of the event that is not complete yet
        self._tail = b""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        self._total += len(chunk)
        most = MAX_STREAM if self._events else MAX_BODY
        if self._total > most:
            raise TooLong(f"the response has more than {most} bytes")
        if self._events:
            seen = self._tail + chunk
            end = max(seen.rfind(blank) for blank in _BLANK)
            self._pending = self._pending + len(chunk) if end < 0 else len(seen) - end
            if self._pending > MAX_EVENT:
                raise TooLong(f"one event of the stream has more than {MAX_EVENT} bytes")
            self._tail = seen[-_OVERLAP:]
        return chunk

    async def aclose(self) -> None:
        """Let the connection go."""
        await self._inner.aclose()
