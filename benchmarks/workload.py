"""What a workload is: the same small program, written once for each peer."""

import gc
import resource
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import attrs

Unit = Literal["operations", "bytes", "seconds"]
"""What a measurement gives: operations a second, bytes an agent, or seconds of CPU."""

PAGE = resource.getpagesize()


class Meter:
    """Measures one program: it calls `begin` when all is set up and `end` when the work is done.

    The collector stays on, as a user has it; what the set-up left is collected before the work begins.
    """

    def __init__(self) -> None:
        self.operations = 0
        self.seconds = self.cpu = self.set_up = self.value = 0.0
        self._memory = resident()
        self._made = self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def begin(self) -> None:
        """Everything is set up: the work begins."""
        gc.collect()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self.set_up = self._wall - self._made

    def end(self, operations: int) -> None:
        """The work is done, and it was so many operations."""
        self.seconds = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu
        self.operations = operations
        self.value = operations / self.seconds

    def weigh(self, agents: int) -> None:
        """All agents are there: note the resident memory that each of them takes."""
        gc.collect()
        self.end(agents)
        self.value = (resident() - self._memory) / agents


Program = Callable[..., None]
"""Called with (meter, the peer's module, agents, times): each agent does its operation so many times."""


@attrs.frozen
class Peer:
    """How one peer does a workload.

    Args:
        name: as in the tables.
        needs: the module it needs, which the program gets as its second argument.
        speed: rough operations a second, which decides how much it is given to do.
        most: the greatest number of agents it is asked to run.
    """

    name: str
    needs: str
    program: Program
    speed: float
    most: int

    @property
    def present(self) -> bool:
        """Whether what it needs is installed."""
        return find_spec(self.needs.partition(".")[0]) is not None

    @property
    def version(self) -> str:
        """The version of what it needs; empty for the standard library and for us."""
        try:
            return version(self.needs.partition(".")[0].replace("_", "-"))
        except PackageNotFoundError:
            return ""


@attrs.frozen
class Workload:
    """One workload.

    Args:
        key: short name, such as `W1`.
        title: what an operation is.
        sizes: numbers of agents.
        unit: what its measurements give.
        full: more sizes, for `--full`.
        least: the least number of times each agent does its operation.
        bases: the beginnings of the names of the peers that ratios are given to.
    """

    key: str
    title: str
    sizes: tuple[int, ...]
    unit: Unit = "operations"
    full: tuple[int, ...] = ()
    least: int = 2
    bases: tuple[str, ...] = ("simpy", "asyncio", "floor")
    peers: dict[str, Peer] = attrs.field(factory=dict)

    def peer(
        self, name: str, *, needs: str = "sim", speed: float = 1e5, most: int = 10**7
    ) -> Callable[[Program], Program]:
        """Register how a peer does this workload; see `Peer`."""

        def register(program: Program) -> Program:
            self.peers[name] = Peer(name, needs, program, speed, most)
            return program

        return register

    def times(self, peer: Peer, agents: int, seconds: float) -> int:
        """Return how often each agent does its operation, so that a measurement takes about `seconds`."""
        return 1 if self.unit != "operations" else max(self.least, round(peer.speed * seconds / agents))


def measure(workload: Workload, name: str, agents: int, times: int, meter: Meter | None = None) -> Meter:
    """Run one program in this process."""
    peer = workload.peers[name]
    module: Any = import_module(peer.needs)
    meter = meter or Meter()
    peer.program(meter, module, agents, times)
    return meter


def resident() -> int:
    """Return the bytes of memory that this process holds now (Linux; elsewhere the most it ever held)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * PAGE
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def most_resident() -> int:
    """Return the most bytes of memory that this process ever held (Linux; elsewhere its parent's may count too)."""
    status = Path("/proc/self/status")
    if status.exists():
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(found.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# Every sleeper draws its delays from a small generator of its own, so that all peers sleep equally long. The programs
# write the two lines out, because a call would cost as much as what is measured:
#     state = state * MULTIPLIER + 1 & MASK
#     delay = SHORTEST + state % SPREAD
MULTIPLIER, MASK = 1_103_515_245, 2**31 - 1
SHORTEST, SPREAD = 500_000_000, 1_000_000_000
BEFORE = 250_000_000  # nothing that sleeps wakes before this: by then everything has started
NS = 1_000_000_000
