import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import drawn, has_room

ROOT = Path(__file__).parents[1]


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a folder in memory")
def test_files_are_in_memory_only_if_there_is_room(tmp_path):
    """Tests write in a folder in memory if it is there and has the room; a missing or a full one is not taken."""
    assert has_room(tmp_path, 1)
    assert not has_room(tmp_path, 2**70)
    assert not has_room(tmp_path / "missing", 1)


def test_each_commit_proves_in_an_order_of_its_own():
    """All files of proofs are in the order that a commit draws; over some commits each comes early."""
    names = [f"tests/proof/test_{number}.py" for number in range(100)]
    orders = [drawn(names, f"commit {number}") for number in range(20)]
    assert all(sorted(order) == sorted(names) for order in orders)
    assert {name for order in orders for name in order[:50]} == set(names)
    assert orders[3] == drawn(set(names), "commit 3")


PROOFS = """
import pytest

@pytest.mark.proof
def test_a(request):
    assert request.node.get_closest_marker("timeout").args == (900,)
"""


@pytest.mark.slow
def test_no_proof_begins_after_its_time(tmp_path):
    """What is left out for lack of time is skipped with the command that runs it, and so is counted.

    One that begins has a quarter of an hour, unless it says how long it takes.
    """
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/event_checks.py").write_bytes((ROOT / "tests/event_checks.py").read_bytes())
    (tmp_path / "test_a.py").write_text(PROOFS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = proof")
    for minutes, told in (("0", ["1 skipped", ".ci/campaign"]), ("1", ["1 passed"])):
        command = [sys.executable, "-m", "pytest", "-rs", "--proofs-for", minutes]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert all(text in done.stdout for text in told)
