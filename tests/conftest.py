"""For the whole suite: no network but this machine, and one hypothesis profile."""

import gc
import ipaddress
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Deadlines measure the machine, not the code. In CI the same examples are tried every time.
settings.register_profile("sim", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("sim")

_BEGAN = time.monotonic()

# With SIM_PLAIN=1, hide what is compiled. A variable and no option: the fixtures of the folders that the command
# line names import `sim` before any option is known, and the workers of xdist inherit it.
PLAIN = "SIM_PLAIN" in os.environ
if PLAIN:
    sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # so the import fails, as if it were not there


def has_room(folder: Path, room: int) -> bool:
    """Tell whether tests can write a number of bytes in a folder, and run programs there."""
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free >= room


# Records are written durably: on a disk, tests would wait for it longer than for what they test.
_MEMORY = Path("/dev/shm")  # noqa: S108 - no file has a fixed name there
if sys.platform == "linux" and has_room(_MEMORY, 4 * 2**30):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# In the background of a script Ctrl-C is ignored, which the processes that tests start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Many tests start processes, which take twice as long if each compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def _is_this_machine(host: object) -> bool:
    """Tell whether `host` is None, `localhost` or a loopback address."""
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name)).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Raise when Python is about to look up or to contact another machine."""
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        if not isinstance(address, tuple):  # a Unix socket, or none for a socket that is already connected
            return
        host = address[0]
    else:
        return
    if not _is_this_machine(host):
        raise RuntimeError(f"a test tried to reach {host!r}; tests may only use loopback addresses")


sys.addaudithook(_refuse_network)


def drawn(names: Iterable[str], commit: str) -> list[str]:
    """Return names of files in an order that depends on the commit: what is left out at the end differs each time."""
    return sorted(names, key=lambda name: zlib.crc32(f"{commit} {name}".encode()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse names that each worker has otherwise, and give proofs time.

    If not all proofs can run, put files in the order of the commit.
    """
    if changing := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(
            f"the name of a test has an address, so no two workers agree; give it ids: {changing[0]}"
        )
    for item in items:
        if item.get_closest_marker("proof") and not item.get_closest_marker("timeout"):
            # A signal that comes while code of an agent runs counts as the agent's failure, so the test would fail with
            # another reason, or pass. Proofs take minutes on a busy machine.
            item.add_marker(pytest.mark.timeout(900))
    if config.getoption("--proofs-for") is None:
        return
    command = ["git", "-C", str(config.rootpath), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    names = {item: item.nodeid.partition("::")[0] for item in items}  # relative, so that each clone draws the same
    places = {name: place for place, name in enumerate(drawn(set(names.values()), commit))}
    items.sort(key=lambda item: places[names[item]])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compare recorded events with their types, but where time is measured; end proofs in time."""
    from tests.event_checks import CHECKS  # not before SIM_PLAIN is read

    CHECKS.active = not item.get_closest_marker("proof") and "benchmarks" not in item.path.parts
    minutes = item.config.getoption("--proofs-for")
    if minutes is not None and time.monotonic() > _BEGAN + 60 * minutes:
        pytest.skip("the time for proofs is over; .ci/campaign runs all")


@pytest.fixture(autouse=True)
def _events_fit_their_types() -> Iterator[None]:
    """Fail the test in which an event was recorded that does not fit its event type."""
    from tests.event_checks import CHECKS

    yield
    faults, CHECKS.faults = CHECKS.faults, []
    assert not faults, "\n".join(faults[:5])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let proofs end in time."""
    parser.addoption("--proofs-for", type=float, metavar="MINUTES", help="begin no test after this time, and skip it")


def pytest_sessionstart() -> None:
    """Collect no garbage while tests are collected: nearly all that is made stays."""
    gc.disable()
    from tests.event_checks import CHECKS

    CHECKS.install()


def pytest_collection_finish() -> None:
    """Leave thousands of tests out of each collection of garbage until the end: of these some tests make many."""
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Have a worker more than cores: some tests wait for other processes or for real time."""
    return (os.cpu_count() or 1) + 1
