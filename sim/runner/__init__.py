"""One run: from a scenario file to a result, or from a record (replayed, resumed, branched).

Synchronised rounds are in `sync`, islands in several processes in `shards`. May import: `scenario` and below. Read
first: `spec.py` (the records), `engine.py` (in which all verbs end), `running.py` (from a file), `rebuild.py` (from a
record).
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.runner.asking import Survey, ask, ask_async
    from sim.runner.branching import branch, branch_async
    from sim.runner.host_runner import RunSummary, SimulationRunner
    from sim.runner.options import (
        AskOptions,
        BranchOptions,
        ReplayOptions,
        ResumeOptions,
        RunOptions,
        VerifyOptions,
    )
    from sim.runner.replaying import replay, replay_async
    from sim.runner.result import Distribution, InDoubtEffect, ReplayResult, RunResult, SurveyCost
    from sim.runner.resuming import resume, resume_async
    from sim.runner.runner import RunController
    from sim.runner.running import run, run_async

__all__ = [
    "AskOptions", "BranchOptions", "Distribution", "InDoubtEffect", "ReplayOptions", "ReplayResult",
    "ResumeOptions", "RunController", "RunOptions", "RunResult", "RunSummary", "SimulationRunner", "Survey",
    "SurveyCost", "VerifyOptions", "ask", "ask_async", "branch", "branch_async", "replay", "replay_async",
    "resume", "resume_async", "run", "run_async",
]  # fmt: skip

_HOMES = {
    "asking": "Survey ask ask_async",
    "branching": "branch branch_async",
    "host_runner": "RunSummary SimulationRunner",
    "options": "AskOptions BranchOptions ReplayOptions ResumeOptions RunOptions VerifyOptions",
    "replaying": "replay replay_async",
    "result": "Distribution InDoubtEffect ReplayResult RunResult SurveyCost",
    "resuming": "resume resume_async",
    "runner": "RunController",
    "running": "run run_async",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
