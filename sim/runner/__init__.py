"""Runs: from a scenario file to a result (`running`), and from a record (`replaying`, `resuming`, `branching`).

Layout: `runner` drives one simulation, `tick` in tick mode; `scenario_timers` holds injections, samples and the stop
condition; `rebuild` is what runs from a record share.
"""

from sim.runner.branching import branch
from sim.runner.options import ReplayOptions, RunOptions
from sim.runner.replaying import replay
from sim.runner.result import Distribution, InDoubtEffect, ReplayResult, RunResult
from sim.runner.resuming import resume
from sim.runner.runner import Mode, SimulationRunner
from sim.runner.running import run, run_async

__all__ = [
    "Distribution", "InDoubtEffect", "Mode", "ReplayOptions", "ReplayResult", "RunOptions", "RunResult",
    "SimulationRunner", "branch", "replay", "resume", "run", "run_async",
]  # fmt: skip
