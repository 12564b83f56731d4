"""Runs and experiments as Python objects, for notebooks: DataFrames, records of agents, charts, comparisons.

The modules:

    agent               the record of one agent, and the list of all agents
    run                 `Run`: a run that is open for reading; `open` and `diff`
    listing             the list of runs in a folder
    experiments         `sweep`, `fit`, `bench` and `arms`, and the `Experiment` that they return
    experiment_options  their options
"""

from sim.inspect.analysis.agent import AgentRecord, AgentRecords
from sim.inspect.analysis.experiment_options import (
    ArmsArguments,
    BenchArguments,
    ExperimentOptions,
    FitArguments,
    RetryOptions,
    SweepArguments,
    WorkerOptions,
)
from sim.inspect.analysis.experiments import (
    Experiment,
    arms,
    arms_async,
    bench,
    bench_async,
    fit,
    fit_async,
    sweep,
    sweep_async,
)
from sim.inspect.analysis.listing import RunList, runs
from sim.inspect.analysis.run import Run, diff
from sim.inspect.analysis.run import open as open  # noqa: A004 - always used as `sim.open`

__all__ = [
    "AgentRecord", "AgentRecords", "ArmsArguments", "BenchArguments", "Experiment", "ExperimentOptions",
    "FitArguments", "RetryOptions", "Run", "RunList", "SweepArguments", "WorkerOptions", "arms", "arms_async", "bench",
    "bench_async", "diff", "fit", "fit_async", "open", "runs", "sweep", "sweep_async",
]  # fmt: skip
