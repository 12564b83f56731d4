"""Runs as Python objects, for notebooks: tables as DataFrames, the records of agents, charts, comparisons.

The modules:

    frames   DataFrames of pandas or polars, or Arrow tables, from the rows of a record
    agent    the record of one agent, and the list of all agents
    run      `Run`: a run that is open for reading; `open` and `diff`
    listing  the list of runs in a folder
"""

from sim.analysis.agent import AgentRecord, AgentRecords
from sim.analysis.listing import RunList, runs
from sim.analysis.run import Run, diff
from sim.analysis.run import open as open  # noqa: A004 - always used as `sim.open`

__all__ = ["AgentRecord", "AgentRecords", "Run", "RunList", "diff", "open", "runs"]
