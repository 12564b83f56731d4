"""The command in a process of its own, with a crash hook: what the proofs kill.

`SIM_PROOF` holds what happens at the crash points, as JSON: `port` of the service, and optionally `point`, `n` and
`do`: at the n-th reach of the point the process is killed (`kill`), stopped (`stop`) or finds the disk full (`full`).
With `slow`, each commit takes so many seconds more, and stderr says how often the event loop turned meanwhile.
"""

import errno
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable

from sim.base import crashpoints
from sim.cli import main
from tests.proof import agents


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.3)  # another thread may take the signal: this one must not run on meanwhile


DEEDS: dict[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": _stop,
    "full": _full,
}


def hook_for(point: str, n: int, deed: Callable[[], None]) -> Callable[[crashpoints.Point], None]:
    """Return a hook that does `deed` at the n-th reach of `point`, in whatever thread that is."""
    reached = itertools.count(1)

    def hook(name: crashpoints.Point) -> None:
        if name == point and next(reached) == n:
            deed()

    return hook


def slow_disk(seconds: float) -> Callable[[crashpoints.Point], None]:
    """Return a hook that makes commits slow, and says how often the event loop turned while effects were called."""

    def hook(name: crashpoints.Point) -> None:
        if name == "writer.before":
            calling, turns = agents.PROBE.calling, agents.PROBE.turns
            time.sleep(seconds)
            if calling and agents.PROBE.calling:
                sys.stderr.write(f"turns: {agents.PROBE.turns - turns}\n")

    return hook


if __name__ == "__main__":
    plan = json.loads(os.environ["SIM_PROOF"])
    agents.PORT = plan["port"]
    if "point" in plan:
        crashpoints.hook = hook_for(plan["point"], plan["n"], DEEDS[plan.get("do", "kill")])
    if "slow" in plan:
        crashpoints.hook = slow_disk(plan["slow"])
        agents.PROBE.on = True
    main(sys.argv[1:])
