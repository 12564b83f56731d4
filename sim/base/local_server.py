"""HTTP servers in separate threads, for metrics and for pages. Part of the edge.

A WSGI application answers the requests. What stands before it refuses requests to foreign host names, if only this
machine is served, and requests without the secret of the address, if the pages are private: all users of a machine can
connect to its loopback address.

No client can keep others out. A request must arrive within `RECEIVING` seconds, however slowly its bytes come, and an
answer must be taken within `TAKING`. If all places are taken, a new client gets that of the one that has been sending
its request for the longest time.
"""

import io
import ipaddress
import logging
import secrets
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final, Literal, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIEnvironment

import attrs

from sim.base.errors import UsageError
from sim.base.text import plain

Start = Callable[..., Any]
"""What an application calls with the status and the headers of its answer."""

Application = Callable[[WSGIEnvironment, Start], Iterable[bytes]]
"""A WSGI application. Several threads may call it at the same time."""

LOOPBACK: Final = "127.0.0.1"

RECEIVING: Final = 10.0
"""Real seconds in which a client must have sent its whole request."""

TAKING: Final = 30.0
"""Real seconds in which a client must have taken its whole answer."""

MOST: Final = 16
"""The most clients that are served at the same time."""

_BACKLOG = 128  # connections that wait to be accepted, so that many clients at once do not delay one by a second
_POLL = 0.05  # interval in seconds at which the thread looks at deadlines, and whether to end
_LEAVING = 1.0  # seconds in which the thread of a client that was disconnected ends

_ANSWERED = "sim.answered"  # what is called when the answer to a request is there, as a variable of WSGI

_LOG = logging.getLogger("sim.server")


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
        private: whether the pages are for the one who started the server: then the address has a random secret, and
            requests without it are refused.
        clock: the time in seconds, for deadlines.

    Attributes:
        address: the actual address, with the selected port.
        url: where the pages are, without a slash at the end. It has the secret, if there is one.

    Raises:
        UsageError: if it cannot listen on the address.
    """

    def __init__(
        self,
        application: Application,
        address: Address,
        what: str,
        hint: str,
        *,
        private: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        secret = secrets.token_urlsafe(24) if private else ""
        faults = _Faults(what)
        try:
            self._http = _Http(_Guard(application, address.local, secret, faults), address, faults, clock)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no such host"
            raise UsageError(f"{what} cannot be served at {address.url}: {reason}", hint=hint) from error
        self.address = attrs.evolve(address, port=self._http.server_address[1])
        self.url = f"{self.address.url}/{secret}" if private else self.address.url
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL,), name=f"sim-{what}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Faults:
    """Logs internal errors. An error of every scrape is logged the 1st, 10th, 100th, ... time.

    Args:
        what: what is served.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def log(self, error: BaseException) -> None:
        """Log an error that is the fault of the server, not of a client."""
        last = traceback.extract_tb(error.__traceback__)[-1:]
        place = "".join(f" ({frame.filename}, line {frame.lineno})" for frame in last)
        with self._lock:
            self._counts[type(error).__name__ + place] += 1
            count = self._counts[type(error).__name__ + place]
        if str(count).strip("0") == "1":
            times = "" if count == 1 else f"; this is the {count:,}th time"
            _LOG.error("%s", plain(f"sim: error: {self._what}: {type(error).__name__}: {error!s:.300}{place}{times}"))


class _Guard:
    """An application before another one: it passes on what may be asked.

    Args:
        application: the other one.
        local: whether the host that a request names must be this machine.
        secret: with what the path of a request must begin, as in `/SECRET/`; empty: with anything.
        faults: where internal errors are logged.
    """

    def __init__(self, application: Application, local: bool, secret: str, faults: _Faults) -> None:
        self._application = application
        self._local = local
        self._secret = secret
        self._faults = faults

    def __call__(self, environ: WSGIEnvironment, start_response: Start) -> Iterable[bytes]:
        """Answer a request. The body of an answer to HEAD is left out."""

        def start(status: str, headers: list[tuple[str, str]], *error: object) -> Any:
            own = [("Server", "sim"), ("X-Content-Type-Options", "nosniff")]  # no version is revealed
            return start_response(status, [*headers, *own], *error)

        method = environ["REQUEST_METHOD"]
        body = self._page({**environ, "REQUEST_METHOD": "GET" if method == "HEAD" else method}, start)
        environ[_ANSWERED]()
        return [b""] if method == "HEAD" else body

    def _page(self, environ: WSGIEnvironment, start: Start) -> Iterable[bytes]:
        if self._local and not _names_this_machine(environ.get("HTTP_HOST", LOOPBACK)):
            return text_answer(start, HTTPStatus.FORBIDDEN, "this endpoint serves only requests to a local host name")
        if self._secret and not self._opened(environ):
            return text_answer(start, HTTPStatus.FORBIDDEN, "open the whole address that sim has printed")
        try:
            return list(self._application(environ, start))  # whole, so that no error is left for later
        except Exception as error:  # an internal error: the client shows its name
            self._faults.log(error)
            return text_answer(start, HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__)

    def _opened(self, environ: WSGIEnvironment) -> bool:
        """Take the secret off the path of a request, and return whether it was the right one."""
        secret, slash, path = environ["PATH_INFO"][1:].partition("/")
        environ["PATH_INFO"] = f"{slash}{path}"
        right = secrets.compare_digest(secret.encode(errors="replace"), self._secret.encode())  # in constant time
        return right and bool(slash)


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


Stage = Literal["receiving", "answering", "taking"]


@attrs.define(eq=False)
class _Client:
    """A connection.

    Attributes:
        connection: its socket.
        since: when its stage began.
        stage: `receiving` until its request is there, `answering` until its answer is there, `taking` until it has it.
        disconnected: whether it was disconnected here.
    """

    connection: socket
    since: float
    stage: Stage = "receiving"
    disconnected: bool = False

    def late(self, now: float) -> bool:
        """Return whether it has taken longer than a client may."""
        return self.stage != "answering" and now - self.since > (RECEIVING if self.stage == "receiving" else TAKING)

    def disconnect(self) -> None:
        """End the connection. The thread that serves it then fails at once, and ends."""
        self.disconnected = True
        with suppress(OSError):
            self.connection.shutdown(SHUT_RDWR)


class _Http(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False  # so that a slow client does not delay the end of a run
    allow_reuse_address = True
    request_queue_size = _BACKLOG

    def __init__(self, pages: _Guard, address: Address, faults: _Faults, clock: Callable[[], float]) -> None:
        self._free = threading.BoundedSemaphore(MOST)
        self._faults = faults
        self._clock = clock
        self._lock = threading.Lock()
        self._clients: dict[socket, _Client] = {}
        self.address_family = AF_INET6 if ":" in address.host else AF_INET
        super().__init__((address.host, address.port), _Request)
        self.set_app(pages)

    def server_bind(self) -> None:
        """Bind without a lookup of the host name, which can be slow and is not needed."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def service_actions(self) -> None:
        """Disconnect the clients that are late. `serve_forever` calls this all the time."""
        now = self._clock()
        with self._lock:
            late = [client for client in self._clients.values() if client.late(now)]
        for client in late:
            client.disconnect()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a client in a new thread, if need be in the place of another one.

        If no place becomes free, because all clients wait for answers, the new one is disconnected.
        """
        if not self._free.acquire(blocking=False):
            self._disconnect_oldest()
            if not self._free.acquire(timeout=_LEAVING):
                self.shutdown_request(request)
                return
        with self._lock:
            self._clients[request] = _Client(request, self._clock())
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # there is no thread for it
            self._forget(request)
            raise

    def _disconnect_oldest(self) -> None:
        """Disconnect the client that has been sending its request for the longest time; else, taking its answer."""
        with self._lock:
            clients = [client for client in self._clients.values() if client.stage != "answering"]
        if clients:
            min(clients, key=lambda client: (client.stage == "taking", client.since)).disconnect()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a client, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: socket) -> None:
        with self._lock:
            del self._clients[request]
        self._free.release()

    def reaches(self, request: socket, stage: Stage) -> None:
        """Note how far a client is.

        Raises:
            ConnectionAbortedError: if it was disconnected, so that what there is of its request is not the whole.
        """
        with self._lock:
            client = self._clients[request]
            if client.disconnected:
                raise ConnectionAbortedError
            client.stage, client.since = stage, self._clock()

    def server_close(self) -> None:
        """Close the socket, and disconnect the clients that have not sent their request yet."""
        super().server_close()
        with self._lock:
            waiting = [client for client in self._clients.values() if client.stage == "receiving"]
        for client in waiting:
            client.disconnect()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of the server. Those of connections are ignored, for example of a client that disconnects."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self._faults.log(error)


class _Request(WSGIRequestHandler):
    timeout = TAKING
    server: _Http

    def get_environ(self) -> WSGIEnvironment:
        """Return the request, which is there as a whole now."""
        self.server.reaches(self.request, "answering")
        return {**super().get_environ(), _ANSWERED: partial(self.server.reaches, self.request, "taking")}

    def version_string(self) -> str:
        """Return the `Server` header of refusals of what is no request, which must not reveal versions."""
        return "sim"

    def get_stderr(self) -> Any:
        """Return where errors are written: nowhere, for example when a client disconnects."""
        return io.StringIO()

    def log_message(self, *args: Any) -> None:
        """Log nothing: requests come every few seconds, and their text is not trusted."""
