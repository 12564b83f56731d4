"""Interleaved repeats: A, B, C, A, B, C, ... each in a fresh process, so that a noisy machine is unfair to none."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from benchmarks.workload import Peer, Workload
from sim.kernel import COMPILED

Say = Callable[[str], None]

_PATIENCE = 600  # seconds for one measurement


@attrs.define
class Row:
    """What was measured of one peer in one workload at one size.

    Attributes:
        times: how often each agent did its operation.
        values: operations a second, bytes or seconds, one for each repeat.
        cpu: CPU seconds of one operation, one for each repeat.
        set_up: seconds, one for each repeat.
        peak: most bytes of memory, one for each repeat.
        failure: why there is nothing, or empty.
    """

    workload: str
    unit: str
    agents: int
    peer: str
    version: str
    times: int
    values: list[float] = attrs.field(factory=list)
    cpu: list[float] = attrs.field(factory=list)
    set_up: list[float] = attrs.field(factory=list)
    peak: list[float] = attrs.field(factory=list)
    failure: str = ""

    @property
    def median(self) -> float:
        """The median of the values."""
        return statistics.median(self.values)

    def add(self, sample: dict[str, Any]) -> None:
        """Keep one measurement."""
        self.values.append(sample["value"])
        self.cpu.append(sample["cpu"] / max(1, sample["operations"]))
        self.set_up.append(sample["set_up"])
        self.peak.append(sample["peak"])


def run(workload: Workload, agents: int, repeats: int, seconds: float, say: Say) -> list[Row]:
    """Measure all peers that are present at one size."""
    peers = [peer for peer in workload.peers.values() if peer.present and agents <= peer.most]
    rows = {peer.name: _row(workload, peer, agents, seconds) for peer in peers}
    for repeat in range(repeats):
        for peer in peers:
            row = rows[peer.name]
            if row.failure:
                continue
            say(f"{workload.key} {agents:,} {peer.name} {repeat + 1}/{repeats}")
            try:
                row.add(_sample(workload, peer, agents, row.times))
            except (subprocess.SubprocessError, ValueError) as error:
                row.failure = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
                say(f"  failed: {row.failure}")
    return list(rows.values())


def missing(workloads: Iterable[Workload]) -> list[str]:
    """Return the modules that are not installed, sorted."""
    return sorted({peer.needs for w in workloads for peer in w.peers.values() if not peer.present})


def _row(workload: Workload, peer: Peer, agents: int, seconds: float) -> Row:
    times = workload.times(peer, agents, seconds)
    return Row(workload.key, workload.unit, agents, peer.name, peer.version, times)


def _sample(workload: Workload, peer: Peer, agents: int, times: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.worker", workload.key, peer.name, str(agents), str(times)]
    if not COMPILED:
        command.append("--plain")
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PATIENCE)
    sample: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return sample
