"""The endpoint: who may connect, and what it answers."""

import gzip
import http.client
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric

from sim.base.errors import UsageError
from sim.base.local_server import MOST, RECEIVING, TAKING, LocalServer, Start
from sim.inspect.telemetry import Address, Exporter, Server


@pytest.fixture
def server() -> Iterator[Server]:
    """An endpoint without a run."""
    with Server(Exporter(), Address.parse("0")) as server:
        yield server


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    """Return the answer to one request."""
    connection = http.client.HTTPConnection(server.address.host, server.address.port, timeout=10)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


@pytest.mark.parametrize(
    ("text", "host", "port", "url"),
    [
        ("9464", "127.0.0.1", 9464, "http://127.0.0.1:9464"),
        (":9464", "127.0.0.1", 9464, "http://127.0.0.1:9464"),
        ("0.0.0.0:1", "0.0.0.0", 1, "http://0.0.0.0:1"),  # noqa: S104  # only read
        ("localhost:0", "localhost", 0, "http://localhost:0"),
        ("[::1]:9464", "::1", 9464, "http://[::1]:9464"),
    ],
)
def test_addresses(text, host, port, url):
    """Without a host only this machine can connect."""
    address = Address.parse(text)
    assert (address.host, address.port, address.url) == (host, port, url)
    assert address.local == (not host.startswith("0"))


@pytest.mark.parametrize("text", ["", "x", "host:", "1:2:3", "::1", "70000", "-1", "1.5", "٣", "a b:c"])
def test_what_is_no_address_is_refused(text):
    """Anything but a port, or a host and a port, is wrong usage."""
    with pytest.raises(UsageError, match="HOST"):
        Address.parse(text)


def test_what_cannot_be_bound_is_wrong_usage():
    """An address that this machine has not is said in one sentence."""
    with pytest.raises(UsageError, match=r"metrics cannot be served at http://192\.0\.2\.1:0: \w+"):
        Server(Exporter(), Address.parse("192.0.2.1:0"))


def test_a_port_that_is_taken(server):
    """A second run on the same port is told so before it begins."""
    with pytest.raises(UsageError, match="in use"):
        Server(Exporter(), server.address)


def test_only_this_machine_can_connect(server):
    """The socket is bound to the loopback address, not to all."""
    assert server._http.socket.getsockname()[0] == "127.0.0.1"


def test_pages(server):
    """There are two pages, without a body for HEAD; others are not found, and nothing can be changed."""
    metrics = ask(server, "/metrics?x=1")
    assert (metrics.status, metrics.getheader("Server")) == (200, "sim")
    assert b"sim_run_status" in metrics.read()
    assert ask(server, "/metrics", "HEAD").read() == b""
    health = ask(server, "/healthz")
    assert (health.status, json.loads(health.read())["status"]) == (200, "starting")
    assert ask(server, "/").status == 404
    assert ask(server, "/../etc/passwd").status == 404
    for method in ("POST", "PUT", "DELETE"):
        for page in ("/metrics", "/healthz"):
            assert ask(server, page, method).status == 405


def test_a_client_gets_the_format_and_the_encoding_that_it_asks_for(server):
    """OpenMetrics for who asks for it, compressed by gzip for who accepts that, and otherwise the text format."""
    plain = ask(server, "/metrics")
    assert plain.getheader("Content-Type", "").startswith("text/plain")
    assert plain.getheader("Content-Encoding") is None
    answer = ask(server, "/metrics", Accept="application/openmetrics-text;version=1.0.0", **{"Accept-Encoding": "gzip"})
    assert answer.getheader("Content-Type", "").startswith("application/openmetrics-text")
    assert answer.getheader("Content-Encoding") == "gzip"
    assert gzip.decompress(answer.read()).endswith(b"# EOF\n")


def test_a_failed_run_is_not_healthy():
    """/healthz answers 503 once the run has failed."""
    exporter = Exporter()
    exporter.ended("failed")
    with Server(exporter, Address.parse("0")) as server:
        assert ask(server, "/healthz").status == 503
        assert ask(server, "/metrics").status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200), ("127.0.0.1", 200), ("localhost:1", 200), ("[::1]:1", 200), ("[::1]", 200),
        ("evil.example", 403), ("evil.example:9464", 403), ("127.0.0.1.evil.example", 403), ("192.168.1.5:9464", 403),
        ("", 403),
    ],
)  # fmt: skip
def test_a_foreign_name_is_refused(server, host, status):
    """A page whose name was made to lead to this machine (DNS rebinding) reads nothing."""
    answer = ask(server, "/metrics", Host=host)
    assert answer.status == status
    assert (b"sim_" in answer.read()) == (status == 200)


def test_other_networks_may_use_any_name():
    """An endpoint that the operator opened can be reached by whatever name the network gives it."""
    with Server(Exporter(), Address.parse("0.0.0.0:0")) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=10)
        connection.request("GET", "/metrics", headers={"Host": "sim.example:9464"})
        assert connection.getresponse().status == 200


def test_a_failing_scrape_says_so(caplog):
    """A fault in reading a run is a 500 with the kind of error and nothing of its text, logged, but not each time."""

    class Broken(Exporter):
        def collect(self) -> Iterable[Metric]:
            raise RuntimeError("secret\x1b")

    with Server(Broken(), Address.parse("0")) as server:
        answer = ask(server, "/metrics")
        assert (answer.status, answer.read()) == (500, b"RuntimeError\n")
        for _ in range(11):
            ask(server, "/metrics").read()
    first, tenth = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(r"sim: error: metrics: RuntimeError: secret\\x1b \(.*test_server\.py, line \d+\)", first)
    assert tenth == f"{first}; this is the 10th time"


def test_slow_clients_keep_no_other_out(server):
    """Of many clients that do not complete their requests, the oldest ones make room for a scrape; threads are few."""
    address = (server.address.host, server.address.port)
    slow = [socket.create_connection(address, timeout=10) for _ in range(4 * MOST)]
    for connection in slow[::2]:
        with suppress(OSError):  # it is one of those that were disconnected
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127")
    broken = socket.create_connection(address, timeout=10)
    broken.sendall(b"\x00\xff nonsense\r\n\r\n")
    assert broken.recv(1000)
    for _ in range(2 * MOST):
        assert ask(server, "/metrics").status == 200
    assert len(serving()) <= MOST
    assert {receive(connection) for connection in slow[: 3 * MOST]} == {b""}
    for connection in [*slow, broken]:
        connection.close()


def receive(connection: socket.socket) -> bytes:
    """Return the next bytes from a server, or none if it has disconnected."""
    with suppress(ConnectionResetError):
        return connection.recv(2**20)
    return b""


class Clock:
    """A time that passes as the test sets it, and by a step each time that someone asks."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self._step = step

    def __call__(self) -> float:
        self.now += self._step
        return self.now


def test_a_request_has_a_deadline_as_a_whole():
    """A client that sends a byte now and then is disconnected when its time is over, though it is never silent."""
    clock = Clock(step=RECEIVING / 10)
    with LocalServer(Exporter().application, Address.parse("0"), "metrics", "", clock=clock) as server:
        client = socket.create_connection((server.address.host, server.address.port), timeout=0.05)
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
        for _ in range(200):
            try:
                client.sendall(b"x")
                rest = receive(client)
            except TimeoutError:
                continue
            except OSError:
                rest = b""
            break
        assert rest == b""
        assert clock.now > RECEIVING
        client.close()


def test_an_answer_must_be_taken_in_time():
    """A client that does not read its answer is disconnected; while the answer is made, no deadline holds."""
    clock, size = Clock(), 2**26

    def application(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        clock.now += 1000 * TAKING
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"x" * size]

    with LocalServer(application, Address.parse("0"), "metrics", "", clock=clock) as server:
        client = socket.create_connection((server.address.host, server.address.port), timeout=10)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(8) == b"HTTP/1.0"
        clock.now += TAKING + 1
        for thread in serving():
            thread.join(10)
        assert not serving()
        assert 0 < sum(map(len, iter(lambda: receive(client), b""))) < size
        client.close()


def serving() -> list[threading.Thread]:
    """Return the threads that serve clients."""
    return [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]


def test_clients_that_wait_for_answers_are_not_disconnected_for_others():
    """If all places are taken by clients whose answers are being made, a new client is disconnected, and no other."""
    entered, go_on = threading.Semaphore(0), threading.Event()

    def application(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        entered.release()
        go_on.wait(30)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"done"]

    with LocalServer(application, Address.parse("0"), "metrics", "") as server:
        address = (server.address.host, server.address.port)
        clients = [socket.create_connection(address, timeout=10) for _ in range(MOST)]
        for client in clients:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        for _ in clients:
            assert entered.acquire(timeout=10)
        with socket.create_connection(address, timeout=10) as late:
            assert receive(late) == b""
        go_on.set()
        for client in clients:
            assert b"".join(iter(lambda: client.recv(1000), b"")).endswith(b"done")  # noqa: B023  # called at once
            client.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6():
    """An IPv6 address works as well."""
    try:
        with Server(Exporter(), Address.parse("[::1]:0")) as server:
            assert ask(server, "/healthz").status == 200
    except UsageError as error:
        pytest.skip(str(error))
