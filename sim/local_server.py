"""HTTP servers in separate threads, for metrics and for pages. Part of the edge.

A server on a loopback address refuses requests that do not name this machine. This prevents DNS rebinding: a web page
can let its own host name resolve to 127.0.0.1 and read the server through a browser on this machine, but it cannot
change the `Host` header.
"""

import ipaddress
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from typing import Any, Final, Protocol, Self

import attrs

from sim.errors import UsageError

LOOPBACK: Final = "127.0.0.1"

_PATIENCE = 10.0  # timeout of a client for sending its request or reading the response, in seconds
_POLL = 0.05  # interval at which the thread checks whether to end, in seconds
_MOST = 16  # maximum number of concurrent connections; further ones are closed


@attrs.frozen
class Address:
    """The address on which a server listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse `PORT`, `HOST:PORT` or `[HOST]:PORT`. Without a host, only this machine can connect.

        Raises:
            UsageError: if the text has none of these forms.
        """
        host, _, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise UsageError(
                f"{text[:80]!r} is not of the form [HOST:]PORT",
                hint="write an IPv6 address in brackets, for example [::1]:9464",
            )
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise UsageError(
                f"{text[:80]!r} is not of the form [HOST:]PORT",
                hint="write for example 9464, or 0.0.0.0:9464 for all networks",
            )
        return cls(host or LOOPBACK, int(port))

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return _is_local(self.host)

    @property
    def url(self) -> str:
        """The address as a URL."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@attrs.frozen
class Response:
    """What a server answers.

    Attributes:
        status: the status code.
        body: the body.
        content_type: the type of the body.
        headers: further headers.
    """

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = attrs.field(factory=dict)


class Site(Protocol):
    """Answers requests, in several threads at the same time."""

    def answer(self, path: str, query: str, accept: str) -> Response:
        """Return the response to a GET request.

        Args:
            path: the path, with `/` at its beginning.
            query: what follows after `?`.
            accept: the `Accept` header.
        """


class LocalServer:
    """Serves a site while it is used as a context manager.

    Args:
        site: answers the requests.
        address: the address to listen on; port 0 selects a free port.
        what: what is served, for errors, for example `metrics`.
        hint: how to choose a free port.

    Attributes:
        address: the actual address, with the selected port.

    Raises:
        UsageError: if it cannot listen on the address.
    """

    def __init__(self, site: Site, address: Address, what: str, hint: str) -> None:
        try:
            self._http = _Http(site, address)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no such host"
            raise UsageError(f"{what} cannot be served at {address.url}: {reason}", hint=hint) from error
        self.address = attrs.evolve(address, port=self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL,), name=f"sim-{what}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # so that a slow client does not delay the end of a run
    allow_reuse_address = True

    def __init__(self, site: Site, address: Address) -> None:
        self.site = site
        self.local = address.local
        self.free = threading.BoundedSemaphore(_MOST)
        self.address_family = AF_INET6 if ":" in address.host else AF_INET
        super().__init__((address.host, address.port), _Request)

    def server_bind(self) -> None:
        """Bind without a lookup of the host name, which can be slow and is not needed."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a client in a new thread, or close the connection if too many clients are served."""
        if self.free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a client, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections, for example of a client that disconnects."""


class _Request(BaseHTTPRequestHandler):
    server: _Http
    timeout = _PATIENCE

    def version_string(self) -> str:
        """Return the `Server` header of responses, which must not reveal versions."""
        return "sim"

    def do_GET(self) -> None:
        """Handle a GET or HEAD request."""
        path, _, query = self.path.partition("?")
        if self.server.local and not self._asks_for_this_machine():
            self._answer(Response(403, b"this endpoint serves only requests to a local host name\n"))
            return
        try:
            self._answer(self.server.site.answer(path, query, self.headers.get("Accept", "")))
        except Exception as error:  # an internal error: the client shows its name
            self._answer(Response(500, f"{type(error).__name__}\n".encode()))

    do_HEAD = do_GET  # noqa: N815  # the standard library's name

    def _asks_for_this_machine(self) -> bool:
        """Return whether the `Host` header of the request names this machine."""
        host = self.headers.get("Host", LOOPBACK)
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        return _is_local(name.strip("[]"))

    def _answer(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, *args: Any) -> None:
        """Log nothing: requests come every few seconds, and their text is not trusted."""
