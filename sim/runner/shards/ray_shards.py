"""Shards on the machines of a Ray cluster: actors, whose methods take and return bytes (edge).

An actor that is lost, alone or with its machine, is started on another machine, and repeats its orders there.
"""

from collections import Counter
from typing import Any, Final

from sim.base.cluster import Membership, join
from sim.base.errors import RunError, UsageError
from sim.base.source import package_hash
from sim.kernel.codec import as_sent
from sim.runner.shards.protocol import Order, Report, Setup, ShardLost, Start, read_report
from sim.runner.shards.shard import ShardActor

_STARTS: Final = 120.0
"""Seconds within which the process of an actor must have started. Ray waits for ever for a machine that cannot come."""

_SHARE: Final = 0.01
"""The cores that a shard claims. Ray ignores where an actor without any is to be, and starts it on any machine."""


class RayHost:
    """Starts shards on a Ray cluster, each on the machine that has the fewest for its cores.

    Args:
        address: of the cluster; see `sim.base.cluster.join`.
        count: how many shards there are.
    """

    def __init__(self, address: str, count: int) -> None:
        self._address = address
        self._count = count
        self._joined = Membership(None)
        self._machines: dict[int, str] = {}  # by shard, where it was started last

    def __enter__(self) -> Start:
        self._joined = join(self._address)
        cores = self._joined.ray.cluster_resources().get("CPU", 0)
        if cores < self._count:
            self._joined.leave()
            raise UsageError(
                f"the Ray cluster has {cores:g} cores, and each of {self._count} shards needs one",
                hint="ask for fewer shards, or add machines",
            )
        return self.start

    def __exit__(self, *_: object) -> None:
        self._joined.leave()

    def start(self, number: int, setup: Setup) -> "RayShard":
        """Start a shard; one that was lost, on another machine if there is one, because its own may be lost, too.

        Raises:
            ShardLost: if the cluster has no machine with cores at this moment.
        """
        ray, lost = self._joined.ray, self._machines.pop(number, None)
        cores = {node["NodeID"]: node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]}
        usable = [machine for machine, count in sorted(cores.items()) if count > 0]
        others = [machine for machine in usable if machine != lost] or usable
        if not others:
            raise ShardLost(f"the Ray cluster has no machine left for shard {number}")
        has = Counter(self._machines.values())
        machine = min(others, key=lambda one: has[one] / cores[one])
        self._machines[number] = machine
        place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(machine, soft=True)
        # no whole core needs to be free: after the loss of a machine, the others do its work
        make = ray.remote(num_cpus=_SHARE, max_restarts=0, max_task_retries=0)(ShardActor)
        return RayShard(ray, make.options(scheduling_strategy=place).remote(), number, setup)


class RayShard:
    """A shard that is an actor.

    Args:
        ray: the module.
        actor: the actor.
        number: its number, from 1.
        setup: what the shard is made of.

    Attributes:
        setup: as given.
    """

    def __init__(self, ray: Any, actor: Any, number: int, setup: Setup) -> None:
        self.setup = setup
        self._ray = ray
        self._actor = actor
        self._number = number
        self._hello = actor.hello.remote()
        self._pending = actor.begin.remote(as_sent(setup))
        self._greeted = False

    def ask(self, order: Order) -> None:
        """Send an order; `report` waits for its report."""
        self._pending = self._actor.obey.remote(as_sent(order))

    def report(self) -> Report:
        """Wait for the report of the order that was sent last, or of the setup.

        Raises:
            ShardLost: if the actor or its machine has ended.
            RunError: if the shard failed, did not start, or its machine has another version of the code.
        """
        if not self._greeted:
            self._greet()
        report: Report = read_report(self._got(self._pending))
        if report.error:
            raise RunError(report.error, hint=report.hint or None)
        return report

    def close(self) -> None:
        """End the actor."""
        self._ray.kill(self._actor)

    def _greet(self) -> None:
        try:
            code = self._got(self._hello, _STARTS)
        except TimeoutError as error:
            raise RunError(
                f"no machine of the Ray cluster has started shard {self._number} within {_STARTS:g} seconds",
                hint="`ray status` shows what the machines do",
            ) from error
        except ShardLost as lost:
            why = str(lost.__cause__).strip()
            if "creation task" not in why:  # as Ray calls it: it did not die, but its class cannot be imported
                raise
            raise RunError(
                f"a machine of the Ray cluster cannot make a shard: {why.splitlines()[-1]:.300}",
                hint="install the same version of sim on all machines",
            ) from lost
        if code.decode() != package_hash():
            raise RunError("a machine of the cluster has another version of sim", hint="install the same one on all")
        self._greeted = True

    def _got(self, reference: Any, patience: float | None = None) -> bytes:
        try:
            data: bytes = self._ray.get(reference, timeout=patience)
        except self._ray.exceptions.GetTimeoutError as error:
            raise TimeoutError from error
        except self._ray.exceptions.RayError as error:
            islands = ", ".join(self.setup.islands)
            how = f"was lost by the Ray cluster ({type(error).__name__})"
            raise ShardLost(f"shard {self._number} ({islands}) {how}") from error
        return data
