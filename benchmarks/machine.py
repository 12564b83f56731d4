"""On what it was measured."""

import gc
import os
import platform
from pathlib import Path

from sim.kernel import COMPILED


def describe() -> dict[str, str]:
    """Return what the figures depend on, in words."""
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory()}, {platform.system()} {platform.release()}",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()) + " when it began (1, 5, 15 minutes)",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kernel": "compiled" if COMPILED else "plain Python: sim.kernel.compiled._core is not compiled here",
        "collector": f"on, as a user has it, thresholds {gc.get_threshold()}; collected once before each measurement",
        "processes": "each measurement in a process of its own, peers interleaved",
    }


def _processor() -> str:
    return _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def _memory() -> str:
    total = _field("/proc/meminfo", "MemTotal")
    return f"{int(total.split()[0]) / 2**20:.0f} GB" if total else "memory unknown"


def _field(path: str, name: str) -> str:
    if not Path(path).exists():
        return ""
    lines = Path(path).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
