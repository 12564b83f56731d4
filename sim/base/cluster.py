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


@attrs.define(eq=False)
class _Stay:
    """That Ray runs in this process because of `join`: who is a member, and whether it has ended."""

    members: list["Membership"] = attrs.field(factory=list)
    ended: threading.Event = attrs.field(factory=threading.Event)


_LOCK: Final = threading.Lock()
_STAYS: Final[list[_Stay]] = []  # that of this process, if there is one; changed with the lock


@attrs.frozen(eq=False)
class Membership:
    """That this process is in a cluster.

    Attributes:
        ray: the module.
    """

    ray: Any
    _stay: _Stay | None = None

    def leave(self) -> None:
        """Leave the cluster, if this process has joined it for this and for nothing else."""
        stay = self._stay
        with _LOCK:
            if stay is None or self not in stay.members:
                return
            stay.members.remove(self)
            if not stay.members:
                _STAYS.clear()
                self.ray.shutdown()
                stay.ended.set()


def join(address: str | None) -> Membership:
    """Join a Ray cluster, unless this process is in it already.

    Args:
        address: `HOST:PORT` of its head; `auto`: the one that runs on this machine; None: a new one on this machine.
            If this process is in a cluster, that one is meant by `auto` and None.

    Raises:
        UsageError: if there is no cluster at the address, or this process is in another one.
    """
    import ray

    with _LOCK:
        if ray.is_initialized():
            _check_joined(ray, address)
        else:
            _STAYS[:] = [_begin(ray, address or LOCAL)]
        stay = _STAYS[0] if _STAYS else None  # None: the host program has joined, and will leave
        membership = Membership(ray, stay)
        if stay is not None:
            stay.members.append(membership)
        return membership


def _begin(ray: Any, address: str) -> _Stay:
    """Let Ray join a cluster. It gets an address in any case, as it would look for a cluster without one."""
    _reach(address)
    options: Any = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    problems: list[BaseException] = []
    stay, begun, given_up = _Stay(), threading.Event(), threading.Event()

    def begin() -> None:
        try:
            with _without_command_line(ray):
                ray.init(address=address, **options)
        except BaseException as error:  # also a SystemExit: that of a thread ends nothing
            problems.append(error)
        begun.set()
        stay.ended.wait()  # Linux kills what a thread has started when it ends, such as a cluster on this machine
        if given_up.is_set() and not problems:  # joined too late: no member will leave
            with _LOCK:
                if not _STAYS:
                    ray.shutdown()

    # not in the main thread, where Ray would take over SIGTERM; and one that may never return must not keep us
    threading.Thread(target=begin, daemon=True).start()
    if not begun.wait(_JOINED):
        given_up.set()
        stay.ended.set()
        raise UsageError(f"nothing at {address:.100} answers as a Ray cluster within {_JOINED:g} seconds", hint=_HINT)
    for error in problems:
        stay.ended.set()
        if not isinstance(error, ConnectionError | ValueError):
            raise error
        reason = str(error).partition("\n")[0]
        raise UsageError(f"there is no Ray cluster at {address:.100}: {reason}", hint=_HINT) from error
    return stay


def _check_joined(ray: Any, address: str | None) -> None:
    """Check that an address is that of the cluster in which this process is.

    Raises:
        UsageError: if it is another one.
    """
    if address in (None, LOCAL, "auto"):
        return
    joined = str(ray.get_runtime_context().gcs_address)
    if not _is_same(str(address), joined):
        raise UsageError(
            f"this process is in the Ray cluster at {joined:.100}, and cannot join the one at {address:.100}",
            hint="leave it with ray.shutdown(), or give no address",
        )


def _is_same(one: str, other: str) -> bool:
    """Return whether two addresses are of the same host and port; this machine has several names and addresses."""
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    if one == other or port != other_port:
        return one == other
    return host == other_host or (_is_here(host) and _is_here(other_host))


def _is_here(host: str) -> bool:
    """Return whether a host is this machine: only its own addresses can be bound."""
    try:
        socket.create_server((host.strip("[]"), 0)).close()
    except (OSError, UnicodeError):
        return False
    return True


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
