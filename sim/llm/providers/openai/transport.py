"""The HTTP transport of the real client. It bounds the size of responses, and passes on their headers.

Only this module and `provider` use `httpx2`. Endpoints are not trusted. Without these bounds, an endless or extremely
compressed response could fill the memory.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
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

POOLS: Final = 8
"""The most pools of connections. With 64 requests at once, as many as there are by default, each has eight of them."""

_BLANK = (b"\n\n", b"\r\n\r\n", b"\r\r")  # the separators of events
_OVERLAP = 3  # bytes of the last chunk in which a separator can begin


class TooLong(httpx2.TransportError):
    """A response has more bytes than is allowed, or is compressed."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A wrapper of transports that aborts responses that are too long. A request goes to the one with the fewest.

    Several transports, each with a pool of its own, take less time than one: a pool asks the system about each of its
    idle connections whenever a request begins or ends.

    Args:
        make: returns a transport that sends.
        on_headers: called with the headers of each response.
    """

    def __init__(
        self, make: Callable[[], httpx2.AsyncBaseTransport], on_headers: Callable[[httpx2.Headers], None]
    ) -> None:
        self._make = make
        self._inner: list[httpx2.AsyncBaseTransport] = []
        self._under_way: list[int] = []
        self._on_headers = on_headers

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        place = self._place()
        self._under_way[place] += 1
        try:
            response = await self._inner[place].handle_async_request(request)
        except BaseException:
            self._under_way[place] -= 1
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream), "it comes from an async transport"
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        is_file = request.method == "GET" and request.url.path.endswith("/content")
        stream = _BoundedStream(
            response.stream, events, MAX_FILE if is_file else MAX_BODY, ended=partial(self._end, place)
        )
        response.stream = stream
        self._on_headers(response.headers)
        if response.headers.get("content-encoding", "identity") != "identity":
            await stream.aclose()
            raise TooLong("the response is compressed, which was not asked for")
        return response

    def _place(self) -> int:
        """Return the transport with the fewest requests: a new one, if all have some and there may be more."""
        if len(self._inner) < POOLS and all(self._under_way):
            self._inner.append(self._make())
            self._under_way.append(0)
        return min(range(len(self._inner)), key=self._under_way.__getitem__)

    def _end(self, place: int) -> None:
        self._under_way[place] -= 1

    async def aclose(self) -> None:
        """Close the connections."""
        for transport in self._inner:
            await transport.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of one response, with a limit. `ended` is called once, when it is closed."""

    def __init__(self, inner: httpx2.AsyncByteStream, events: bool, most: int, *, ended: Callable[[], None]) -> None:
        self._inner = inner
        self._ended: Callable[[], None] | None = ended
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
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()
        await self._inner.aclose()
