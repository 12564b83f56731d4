"""Runs: from a scenario file to a result (`running`), and from a record (`replaying`, `resuming`, `branching`).

Modules: `runner` runs one simulation of a scenario, `tick` its ticks, `scenario_timers` its events, samples and stop
condition, and `interventions` its interventions; `host_runner` runs a world that a program built;
`deadlock` detects that nothing is left to do; `estimate` predicts the spending on models; `rebuild`, `in_doubt` and
`fingerprint` are shared by runs from a record; `event_loop` makes plain functions of coroutine functions; `options` and
`result` are what callers give and get.
"""

from typing import TYPE_CHECKING

from sim.late import late_names

if TYPE_CHECKING:
    from sim.runner.asking import Survey, SurveyCost, ask, ask_async
    from sim.runner.branching import branch, branch_async
    from sim.runner.host_runner import RunSummary, SimulationRunner
    from sim.runner.options import ReplayOptions, RunOptions
    from sim.runner.replaying import replay, replay_async
    from sim.runner.result import Distribution, InDoubtEffect, ReplayResult, RunResult
    from sim.runner.resuming import resume, resume_async
    from sim.runner.runner import Mode, RunController
    from sim.runner.running import run, run_async

__all__ = [
    "Distribution", "InDoubtEffect", "Mode", "ReplayOptions", "ReplayResult", "RunController", "RunOptions",
    "RunResult", "RunSummary", "SimulationRunner", "Survey", "SurveyCost", "ask", "ask_async", "branch", "branch_async",
    "replay", "replay_async", "resume", "resume_async", "run", "run_async",
]  # fmt: skip

_HOMES = {
    "asking": "Survey SurveyCost ask ask_async",
    "branching": "branch branch_async",
    "host_runner": "RunSummary SimulationRunner",
    "options": "ReplayOptions RunOptions",
    "replaying": "replay replay_async",
    "result": "Distribution InDoubtEffect ReplayResult RunResult",
    "resuming": "resume resume_async",
    "runner": "Mode RunController",
    "running": "run run_async",
}

if not TYPE_CHECKING:
    __getattr__ = late_names(__name__, _HOMES)
