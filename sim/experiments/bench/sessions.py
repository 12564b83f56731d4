"""The sessions of a bench: when and on which machine its runs were measured, noted with the runs (edge)."""

import contextlib
import platform
import time
from pathlib import Path
from typing import Any

from sim.experiments.pool import cores
from sim.kernel.codec import Json
from sim.record.files import versions, wall_label


class BenchSession:
    """One process that carries out a bench, from now on.

    Args:
        processes: how many runs there are at once, at most.
    """

    def __init__(self, processes: int) -> None:
        self._began = time.monotonic()
        self._facts = {"began": wall_label(), "jobs": processes, "machine": machine(), "versions": versions()}

    def facts(self) -> dict[str, Any]:
        """Return what is noted of the session, with its duration until now."""
        return {**self._facts, "seconds": round(time.monotonic() - self._began, 3)}


def machine() -> dict[str, Json]:
    """Return a description of the machine."""
    return {"processor": _processor(), "cores": cores(), "system": platform.system(), "release": platform.release()}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
