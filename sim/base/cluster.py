"""Joining a cluster of Ray (edge)."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs

from sim.base.errors import UsageError

LOCAL: Final = "local"
"""The address that has Ray begin a cluster on this machine."""

_JOINED: Final = 90.0
"""Seconds within which Ray must have joined."""

_REACHED: Final = 5.0
"""Seconds in which the head of a cluster has to take a connection. Ray itself tries for minutes."""


@attrs.frozen
class Membership:
    """That this process is in a cluster.

    Attributes:
        ray: the module.
    """

    ray: Any
    _ended: threading.Event | None = None

    def leave(self) -> None:
        """Leave the cluster, if this process has joined it for this."""
        if self._ended is not None:
            self.ray.shutdown()
            self._ended.set()


def join(address: str | None) -> Membership:
    """Join a Ray cluster, unless this process is in one already.

    Args:
        address: `HOST:PORT` of its head; `auto`: the one that runs on this machine; None: a new one on this machine.

    Raises:
        UsageError: if there is no cluster at the address.
    """
    import ray

    if ray.is_initialized():
        return Membership(ray)
    # without an address, Ray would join a cluster of RAY_ADDRESS, or one that runs on this machine
    given = address or LOCAL
    _reach(given)
    options: Any = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    problems: list[BaseException] = []
    begun, ended = threading.Event(), threading.Event()

    def begin() -> None:
        try:
            ray.init(address=given, **options)
        except BaseException as error:  # also a SystemExit: that of a thread ends nothing
            problems.append(error)
        begun.set()
        ended.wait()  # Linux kills what a thread has started when the thread ends, such as a cluster on this machine

    with _without_command_line(ray):
        # not in the main thread, where Ray would take over SIGTERM; and one that may never return must not keep us
        threading.Thread(target=begin, daemon=True).start()
        in_time = begun.wait(_JOINED)
    if not in_time:
        ended.set()
        raise UsageError(f"nothing at {given:.100} answers as a Ray cluster within {_JOINED:g} seconds", hint=_HINT)
    for error in problems:
        ended.set()
        if not isinstance(error, ConnectionError | ValueError):
            raise error
        reason = str(error).partition("\n")[0]
        raise UsageError(f"there is no Ray cluster at {given:.100}: {reason}", hint=_HINT) from error
    return Membership(ray, ended)


_HINT: Final = "give HOST:PORT as `ray start --head` prints it, or auto for the cluster that runs on this machine"


def _reach(address: str) -> None:
    """Check that something listens at an address with a port.

    Raises:
        UsageError: if nothing does.
    """
    host, colon, port = address.rpartition(":")
    if address.startswith("ray://"):
        raise UsageError(
            "an address that begins with ray:// is one of Ray's client server, not of a cluster", hint=_HINT
        )
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(f"there is no Ray cluster at {address:.100}: {error}", hint=_HINT) from error


@contextmanager
def _without_command_line(ray: Any) -> Iterator[None]:
    """Keep Ray from sending the command line of this process to the cluster: an option can hold a key."""
    utils = ray._private.utils
    named = utils.get_entrypoint_name
    utils.get_entrypoint_name = lambda: "sim"
    try:
        yield
    finally:
        utils.get_entrypoint_name = named
