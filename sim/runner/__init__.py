"""The runner: `tick` (the tick mode), `feed` (injections, samples, stop condition), `runner` (one run), `result`,
`host` (from a file to a result, at the edge)."""

from sim.runner.again import branch, replay, resume
from sim.runner.host import run, run_async
from sim.runner.options import ReplayOptions, RunOptions
from sim.runner.result import Distribution, Doubt, ReplayResult, RunResult
from sim.runner.runner import Mode, SimulationRunner

__all__ = [
    "Distribution", "Doubt", "Mode", "ReplayOptions", "ReplayResult", "RunOptions", "RunResult",
    "SimulationRunner", "branch", "replay", "resume", "run", "run_async",
]  # fmt: skip
