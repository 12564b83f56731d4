"""The run store: one folder a run, with everything that happened in `run.db` (SQLite).

Layout, lowest first:

    hashing   what the hash of a run covers
    contents  requests, each part stored once
    difference  the first event in which two runs differ
    schema    tables of the run file; views: what researchers query
    files     edge: folders, private files, read-only connections, error texts
    writer    edge: the one thread that owns the one writing connection
    recorder  what the kernel calls: `HashRecorder` (no file) and `RunRecorder`
    reader    `open_run`, `list_runs`, `find_run`
    past      what is on record, for making a run again
    checked   `VerifyingRecorder` compares a run with its past
    export    CSV, JSON and Parquet
"""

from sim.store.export import export
from sim.store.files import RunHeader, create_run
from sim.store.hashing import final_hash
from sim.store.reader import RunInfo, StoredRun, find_run, list_runs, open_run
from sim.store.recorder import HashRecorder, RunRecorder
from sim.store.views import VIEWS

__all__ = [
    "VIEWS",
    "HashRecorder",
    "RunHeader",
    "RunInfo",
    "RunRecorder",
    "StoredRun",
    "create_run",
    "export",
    "final_hash",
    "find_run",
    "list_runs",
    "open_run",
]
