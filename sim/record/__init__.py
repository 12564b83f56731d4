"""The run store: one folder per run, with the record in `run.db` (SQLite).

Modules, from the lowest layer to the highest:

    hashing             the hash of a run
    contents            storage of requests, each part once
    first_difference    the first event in which two runs differ
    schema              the tables of a run file
    views               the views for queries
    seal                a hash over all rows of a run file
    head                the files beside the database that reveal lost records
    audit_chain         the hash chain of audit records, and the file beside the database that repeats its hashes
    drafts              edge: what is not complete has no final name
    files               edge: run folders, private files, read-only connections, error texts
    writer              edge: the thread that owns the only writing connection
    integrity           the one judgement of a record: whole, lost or damaged
    reader              `open_run`, `list_runs`, `find_run`, `run_folder`
    summary             what matters most about a run, as text, as HTML and as a chart
    recorder            `HashRecorder` (without a file) and `RunRecorder`
    history             the record of a run, for its replay
    verifying_recorder  `VerifyingRecorder`, which compares a replay with the record
    export              CSV, JSON and Parquet files
    archive             runs in zip archives
    frames              DataFrames of pandas or polars, or Arrow tables, from the rows of a record
"""

from sim.record.export import export
from sim.record.files import RunHeader, create_run
from sim.record.hashing import final_hash
from sim.record.integrity import Integrity
from sim.record.reader import RunInfo, StoredRun, find_run, list_runs, open_run, run_folder
from sim.record.recorder import HashRecorder, RunRecorder
from sim.record.views import VIEWS

__all__ = [
    "VIEWS",
    "HashRecorder",
    "Integrity",
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
    "run_folder",
]
