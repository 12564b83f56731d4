"""The run folder: the record of one run in `run.db` (SQLite), its hash, and every reader of it.

May import: `resources` and below. Read first: `recorder.py` (receives events), `writer.py` (the one thread that
writes), `reader.py`, `integrity.py` (judges a record).
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
