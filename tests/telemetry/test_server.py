"""The endpoint: who may connect, and what it answers."""

import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client.metrics_core import Metric

from sim.errors import UsageError
from sim.telemetry import Address, Exporter, Server


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


def test_a_failing_scrape_says_so():
    """A fault in reading a run is a 500 with the kind of error, and nothing of its text."""

    class Broken(Exporter):
        def collect(self) -> Iterable[Metric]:
            raise RuntimeError("secret")

    with Server(Broken(), Address.parse("0")) as server:
        answer = ask(server, "/metrics")
        assert (answer.status, answer.read()) == (500, b"RuntimeError\n")


def test_clients_that_say_nothing_hold_up_nobody(server):
    """Silent and broken clients leave the endpoint usable, up to its bound, and do not hold up its end."""
    address = (server.address.host, server.address.port)
    silent = [socket.create_connection(address) for _ in range(10)]
    for connection in silent[:5]:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127")
    broken = socket.create_connection(address)
    broken.sendall(b"\x00\xff nonsense\r\n\r\n")
    assert broken.recv(1000)
    assert ask(server, "/metrics").status == 200
    assert threading.active_count() < 60
    for connection in [*silent, broken]:
        connection.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6():
    """An IPv6 address works as well."""
    try:
        with Server(Exporter(), Address.parse("[::1]:0")) as server:
            assert ask(server, "/healthz").status == 200
    except UsageError as error:
        pytest.skip(str(error))
