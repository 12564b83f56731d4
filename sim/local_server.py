"""HTTP servers in separate threads, for metrics and for pages. Part of the edge.

A WSGI application answers the requests. What stands before it refuses requests to foreign host names, if only this
machine is served.
"""

import io
import ipaddress
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socket import AF_INET, AF_INET6
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import attrs

from sim.errors import UsageError

Start = Callable[..., Any]
"""What an application calls with the status and the headers of its answer."""

Application = Callable[[dict[str, Any], Start], Iterable[bytes]]
"""A WSGI application. Several threads may call it at the same time."""

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


class LocalServer:
    """Serves an application while it is used as a context manager.

    Args:
        application: answers the requests.
        address: the address to listen on; port 0 selects a free port.
        what: what is served, for errors, for example `metrics`.
        hint: how to choose a free port.

    Attributes:
        address: the actual address, with the selected port.

    Raises:
        UsageError: if it cannot listen on the address.
    """

    def __init__(self, application: Application, address: Address, what: str, hint: str) -> None:
        try:
            self._http = _Http(_Guard(application, address.local), address)
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


class _Guard:
    """An application before another one: it passes on requests to names of this machine, or all if it is not local."""

    def __init__(self, application: Application, local: bool) -> None:
        self._application = application
        self._local = local

    def __call__(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        """Answer a request. The body of an answer to HEAD is left out."""

        def start(status: str, headers: list[tuple[str, str]], *error: object) -> Any:
            own = [("Server", "sim"), ("X-Content-Type-Options", "nosniff")]  # no version is revealed
            return start_response(status, [*headers, *own], *error)

        method = environ["REQUEST_METHOD"]
        body = self._page({**environ, "REQUEST_METHOD": "GET" if method == "HEAD" else method}, start)
        return [b""] if method == "HEAD" else body

    def _page(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if self._local and not _names_this_machine(environ.get("HTTP_HOST", LOOPBACK)):
            return text_answer(start, HTTPStatus.FORBIDDEN, "this endpoint serves only requests to a local host name")
        try:
            return self._application(environ, start)
        except Exception as error:  # an internal error: the client shows its name
            return text_answer(start, HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__)


def text_answer(start: Start, status: HTTPStatus, text: str, kind: str = "text/plain") -> Iterable[bytes]:
    """Answer with a line of text.

    Args:
        start: see `Start`.
        status: the status.
        text: the text.
        kind: its type.
    """
    start(f"{status} {status.phrase}", [("Content-Type", f"{kind}; charset=utf-8")])
    return [f"{text}\n".encode()]


def _names_this_machine(host: str) -> bool:
    """Return whether a `Host` header names this machine.

    This prevents DNS rebinding: a web page can let its own host name resolve to 127.0.0.1 and read the server
    through a browser on this machine, but it cannot change the `Host` header.
    """
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return _is_local(name.strip("[]"))


class _Http(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False  # so that a slow client does not delay the end of a run
    allow_reuse_address = True

    def __init__(self, pages: _Guard, address: Address) -> None:
        self.free = threading.BoundedSemaphore(_MOST)
        self.address_family = AF_INET6 if ":" in address.host else AF_INET
        super().__init__((address.host, address.port), _Request)
        self.set_app(pages)

    def server_bind(self) -> None:
        """Bind without a lookup of the host name, which can be slow and is not needed."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

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


class _Request(WSGIRequestHandler):
    timeout = _PATIENCE

    def version_string(self) -> str:
        """Return the `Server` header of refusals of what is no request, which must not reveal versions."""
        return "sim"

    def get_stderr(self) -> Any:
        """Return where errors are written: nowhere, for example when a client disconnects."""
        return io.StringIO()

    def log_message(self, *args: Any) -> None:
        """Log nothing: requests come every few seconds, and their text is not trusted."""
