"""The endpoint that Prometheus scrapes: `/metrics` and `/healthz`, in threads of its own (edge)."""

import ipaddress
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from typing import Any, Final, Self

import attrs

from sim.errors import UsageError
from sim.telemetry.exporter import Exporter

LOOPBACK: Final = "127.0.0.1"

_PATIENCE = 10.0  # seconds that a client may take to say what it wants, or to read the answer
_POLL = 0.05  # seconds after which the thread sees that it shall end
_MOST = 16  # clients that are served at once; the others are turned away


@attrs.frozen
class Address:
    """Where the endpoint listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `PORT`, `HOST:PORT` or `[HOST]:PORT`; without a host only this machine can connect.

        Raises:
            UsageError: if it is none of these.
        """
        host, _, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise UsageError(f"{text[:80]!r} is no [HOST:]PORT", hint="an IPv6 address stands in brackets: [::1]:9464")
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise UsageError(f"{text[:80]!r} is no [HOST:]PORT", hint="such as 9464, or 0.0.0.0:9464 for all networks")
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


class Server:
    """Serves one exporter while it is used as a context manager.

    Args:
        exporter: what is served.
        address: where; port 0 takes any that is free.

    Attributes:
        address: where it listens in fact.
    """

    def __init__(self, exporter: Exporter, address: Address) -> None:
        try:
            self._http = _Http(exporter, address)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no such host"
            raise UsageError(
                f"metrics cannot be served at {address.url}: {reason}", hint="--metrics 0 takes a free port"
            ) from error
        self.address = attrs.evolve(address, port=self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL,), name="sim-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that reads slowly does not hold up the end of a run
    allow_reuse_address = True

    def __init__(self, exporter: Exporter, address: Address) -> None:
        self.exporter = exporter
        self.local = address.local
        self.free = threading.BoundedSemaphore(_MOST)
        self.address_family = AF_INET6 if ":" in address.host else AF_INET
        super().__init__((address.host, address.port), _Request)

    def server_bind(self) -> None:
        """Bind without asking the resolver for a name, which may take long and is used for nothing."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a client in a thread of its own, if not too many are served."""
        if self.free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go of a client that went away, without a word."""


class _Request(BaseHTTPRequestHandler):
    server: _Http
    timeout = _PATIENCE

    def version_string(self) -> str:
        """Return what the answer says of the program: no versions."""
        return "sim"

    def do_GET(self) -> None:
        """Answer."""
        path = self.path.partition("?")[0]
        if self.server.local and not self._asks_for_this_machine():
            self._answer(403, b"this endpoint is for this machine only\n", "text/plain; charset=utf-8")
        elif path == "/metrics":
            self._metrics()
        elif path == "/healthz":
            well, answer = self.server.exporter.health()
            self._answer(200 if well else 503, json.dumps(answer).encode() + b"\n", "application/json")
        else:
            self._answer(404, b"there are /metrics and /healthz\n", "text/plain; charset=utf-8")

    def _metrics(self) -> None:
        try:
            body, content_type = self.server.exporter.exposition(self.headers.get("Accept", ""))
        except Exception as error:  # a fault of ours: Prometheus shows it beside the target
            self._answer(500, f"{type(error).__name__}\n".encode(), "text/plain; charset=utf-8")
        else:
            self._answer(200, body, content_type)

    do_HEAD = do_GET  # noqa: N815  # the standard library's name

    def _asks_for_this_machine(self) -> bool:
        """Whether the name that was asked for is this machine's.

        A web page can have its own name resolve to 127.0.0.1 (DNS rebinding), and then read what a browser of this
        machine may read; but it cannot change the name.
        """
        host = self.headers.get("Host", LOOPBACK)
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        return _is_local(name.strip("[]"))

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Log nothing: requests come every few seconds, and their text is the client's."""
