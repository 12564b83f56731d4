import socket

import pytest

from tests.conftest import in_sample


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.invalid", 80), ("2001:db8::1", 80)])
def test_network_is_off(address):
    """No test can reach another machine, by address or by name."""
    with pytest.raises(RuntimeError, match="only use loopback"):
        socket.create_connection(address, timeout=1)


def test_datagrams_are_off():
    """A datagram, which needs no connection, cannot leave this machine either."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        pytest.raises(RuntimeError, match="only use loopback"),
    ):
        sender.sendto(b"x", ("192.0.2.1", 9))


def test_loopback_is_on():
    """Servers of this machine can be tested."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("localhost", port), timeout=5) as client:
            client.sendall(b"x")


def test_commits_draw_halves_of_the_proofs():
    """A commit draws about half of the proofs, always the same ones; a few commits draw them all."""
    names = [f"tests/proof/test_a.py::test_{number}" for number in range(1000)]
    drawn = [{name for name in names if in_sample(name, f"commit {number}")} for number in range(20)]
    assert all(400 < len(some) < 600 for some in drawn)
    assert set().union(*drawn) == set(names)
    assert drawn[3] == {name for name in names if in_sample(name, "commit 3")}
