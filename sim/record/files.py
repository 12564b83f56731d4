"""Edge: run folders and their files, and readable messages for errors of SQLite.

This module uses wall time, random numbers (for the run id) and the operating system. None of them enters a hash.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, get_args

import attrs

from sim.base.crashpoints import reach
from sim.base.errors import RunError, SimError, UsageError
from sim.kernel.codec import Json, JsonObject, encode
from sim.record.head import Head, create_head
from sim.record.schema import APPLICATION, SCHEMA, TABLES
from sim.record.seal import FACTS, RUN_COLUMNS, Seal, commit_hash, run_row_hash
from sim.record.views import VIEWS

if sys.platform != "win32":  # on Windows, fencing relies on the epoch only
    import fcntl

Mode = Literal["autonomous", "tick"]
"""How the agents of a run take turns: each in a loop of its own, or all once a tick. These words are arguments, options
and values of records as they are, so that type checkers know them; hence no enumeration."""

MODES: Final[tuple[Mode, ...]] = get_args(Mode)

DATABASE = "run.db"
SCENARIO = "scenario.yaml"
PLACES = "places.json"
"""The graph of the places of a run, if it is not in the scenario."""

POPULATIONS = "tables.json"
"""The tables that describe agents of a run."""

REFERRED: Final[Mapping[str, str]] = {PLACES: "graph of places", POPULATIONS: "tables of agents"}
"""What a scenario refers to and a run records beside it, by the name of the file. `options` of the run has their
hashes, by the name without its suffix."""

LOCK = "run.lock"
_NEW_LOCK = "new.lock"  # before it is held

BUSY_SECONDS = 10.0
"""Maximum time in seconds that a connection waits for a lock of another program."""

_DRAFT = re.compile(r"\.[a-z0-9-]+-\d+-[0-9a-f]{8}")  # the hidden name of a run folder that is being created

_LOCKLESS = 60.0  # real seconds after which a draft without a lock counts as abandoned

CAUSES: Final[Mapping[int, tuple[str, str]]] = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space"),
    sqlite3.SQLITE_BUSY: ("another program has locked it", "close the program that writes to it"),
    sqlite3.SQLITE_READONLY: ("it is read-only", "check the permissions of the folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check the permissions of the folder"),
    sqlite3.SQLITE_IOERR: ("the disk reports an error", "check the disk, its quota and its limits"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged or truncated", "use a copy of it"),
    sqlite3.SQLITE_NOTADB: ("it is not a SQLite database", "give the folder or the run.db of a run"),
}
"""By code of SQLite: the cause of an error, and what to do."""


def versions() -> dict[str, str]:
    """Return the versions of sim, Python and SQLite."""
    try:
        own = version("actor-sim")
    except PackageNotFoundError:  # in a source tree without installation
        own = "unknown"
    return {"python": platform.python_version(), "sim": own, "sqlite": sqlite3.sqlite_version}


@attrs.frozen
class RunHeader:
    """The properties of a run that are known at its start.

    Args:
        name: the name of the scenario, any text.
        seed: the seed of the run, 0 to 2**63 - 1.
        mode: the mode of the run.
        backend: `asyncio` or `trio`.
        options: the options of the caller that are not in the scenario, as JSON.
        versions: see `versions`; and by name, those of the packages that agents come from.
        code: by module, the hash (64 hex digits) of its source code: for `sim` and for the modules of agent classes.
        origin: for a branch, the original run and the point where the branch starts; else None.
    """

    name: str
    seed: int
    mode: Mode
    backend: str
    options: JsonObject = attrs.field(factory=dict)
    versions: Mapping[str, str] = attrs.field(factory=versions)
    code: Mapping[str, str] = attrs.field(factory=dict)
    origin: JsonObject | None = None


def create_run(root: Path, header: RunHeader, scenario: str, files: Mapping[str, bytes] | None = None) -> Path:
    """Create the folder `<name>-<seed>-<id>` of a new run below `root` and return it.

    It is created under a hidden name and renamed when it is complete, so that no other program sees an incomplete run.
    The folder has mode 0700 and its files 0600, because runs contain prompts and memories of agents.

    Args:
        root: the folder of the runs.
        header: what is known of the run at its start.
        scenario: the text of the scenario.
        files: by the name of the file, what the scenario refers to; `options` of the header has the hashes.

    Raises:
        UsageError: if the seed is out of range.
        RunError: if the folder cannot be written.
    """
    if not 0 <= header.seed < 2**63:
        raise UsageError(f"a seed must be between 0 and 2**63 - 1, not {header.seed}")
    label = f"{slug(header.name)}-{header.seed}-{secrets.token_hex(4)}"
    draft = root / f".{label}"
    lock: int | None = None
    try:
        draft.mkdir(mode=0o700, parents=True)
        lock = _lock_draft(draft)  # prevents `remove_drafts` in another process from removing it
        remove_drafts(root)
        private_file(draft / SCENARIO, scenario.encode())
        for name, data in (files or {}).items():
            private_file(draft / name, data)
        private_file(draft / DATABASE)
        create_head(draft, Head(label, 0, _create_database(draft / DATABASE, label, header, scenario)))
        reach("run.drafted")
        folder = draft.rename(root / label)
        reach("run.created")
        return folder
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise failure(root / label, error) from error
    finally:
        unlock(lock)


def hashes_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return what `options` of a run has of the files that its scenario refers to: the hash (64 hex digits) of each."""
    return {name.removesuffix(".json"): hashlib.sha256(data).hexdigest() for name, data in files.items()}


def remove_drafts(root: Path) -> None:
    """Remove incomplete run folders below `root`, whose creation was killed."""
    for draft in root.glob(".*-*-????????"):
        if not _DRAFT.fullmatch(draft.name):
            continue
        with suppress(OSError):  # it gets its final name meanwhile, or another process removes it
            if (draft / LOCK).exists():
                if not being_written(draft):
                    shutil.rmtree(draft, ignore_errors=True)
            elif time.time() - draft.stat().st_mtime > _LOCKLESS:
                (draft / _NEW_LOCK).unlink(missing_ok=True)
                draft.rmdir()  # a draft of ours without a lock is empty; `rmdir` keeps any other folder


def remove_run(folder: Path) -> None:
    """Remove the folder of a run that could not start."""
    shutil.rmtree(folder, ignore_errors=True)


def slug(name: str) -> str:
    """Convert `name` to a part of a folder name: at most 60 characters of a-z, 0-9 and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:60].strip("-") or "run"


def private_file(path: Path, content: bytes = b"") -> None:
    """Write a new file that only its owner can read.

    Raises:
        OSError: if the file exists already.
    """
    path.touch(0o600, exist_ok=False)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def wall_label() -> str:
    """Return the present wall time (UTC, ISO 8601). It is for display only and enters no hash."""
    seconds, fraction = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{fraction // 10**6:03}Z"


def _lock_draft(draft: Path) -> int | None:
    """Lock a new draft, and return the file descriptor of the lock, or None on Windows.

    The lock gets its name once it is held, so that no other process finds it free.
    """
    private_file(draft / _NEW_LOCK)
    descriptor = None
    if sys.platform != "win32":
        descriptor = os.open(draft / _NEW_LOCK, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    (draft / _NEW_LOCK).rename(draft / LOCK)
    return descriptor


def lock_folder(folder: Path, *, take_over: bool = False) -> int | None:
    """Lock a run folder and return the file descriptor of the lock, or None on Windows.

    The lock is released when the descriptor is closed or the process ends. It is a lock of the operating system,
    because a file with a process id would remain after a killed process.

    Args:
        folder: the run folder.
        take_over: replace the lock of another process by a new one. The epoch then fences that process out.

    Raises:
        RunError: if another process holds the lock, or the folder cannot be used.
    """
    if sys.platform == "win32":
        return None
    try:
        if take_over:
            (folder / LOCK).unlink(missing_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise failure(folder, error) from error
    refused = _locked(descriptor)
    if refused is not None:
        os.close(descriptor)
        raise RunError(
            f"{folder} is being written by another process",
            hint=f"wait until it has ended; if it hangs, take it over with: sim resume {folder} --take-over",
        ) from refused
    return descriptor


def _locked(descriptor: int) -> OSError | None:
    """Lock a file, or return the error. Retry, because `being_written` in a reader holds the lock for an instant."""
    refused: OSError | None = None
    if sys.platform != "win32":
        for pause in (0.01, 0.05, 0.2, 0.0):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                refused = error
                time.sleep(pause)
            else:
                return None
    return refused


def unlock(descriptor: int | None) -> None:
    """Release a lock of `lock_folder`."""
    if descriptor is not None:
        os.close(descriptor)


def being_written(folder: Path) -> bool:
    """Return whether a process may hold the lock of a run folder: True also if that cannot be determined."""
    if sys.platform != "win32" and (folder / LOCK).exists():
        try:
            with (folder / LOCK).open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False
    return True


def failure(path: Path, error: Exception) -> SimError:
    """Convert an error of SQLite, or an OSError, about the file at `path` to an error of `sim`."""
    if isinstance(error, SimError):
        return error
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        cause, hint = CAUSES.get((code or 0) & 0xFF, (str(error), None))
        if code == sqlite3.SQLITE_NOTADB and path.name != DATABASE and path.suffix == ".db":
            hint = "use a copy of it, or remove it"  # a file beside a run, or the results of an experiment
        return RunError(f"{path} cannot be used: {cause}", hint=hint)
    if isinstance(error, OSError):
        return RunError(f"{path} cannot be used: {error.strerror or error}")
    return RunError(f"{path} cannot be used: {type(error).__name__}: {error}")


def recover(path: Path) -> None:
    """Roll back an unfinished transaction of another program.

    As long as the journal of such a transaction exists, no reader can open the file.

    Raises:
        RunError: if a process writes the run, or the file cannot be written.
    """
    journal = path.with_name(f"{path.name}-journal")
    if not journal.exists() or not journal.stat().st_size:
        return
    lock = lock_folder(path.parent)
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.Error as error:
        raise failure(path, error) from error
    finally:
        unlock(lock)


def is_settled(path: Path) -> bool:
    """Return whether a database file is complete and unchanging: its log is empty, and no process writes it."""
    log = path.with_name(f"{path.name}-wal")
    alone = not log.exists() or not log.stat().st_size
    return alone and (not (path.parent / LOCK).exists() or not being_written(path.parent))


def _create_database(path: Path, uid: str, header: RunHeader, scenario: str) -> str:
    """Create the tables and the row of a run, and return the hash of its commit 0.

    The journal mode is WAL from the beginning. If it was changed later and the process was killed meanwhile, only a
    writer could open the file.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
    try:
        connection.execute("PRAGMA page_size = 16384")  # for long chunks: saves a third of the write time of 4096
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("BEGIN")
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {table} ({columns}) STRICT")
        for view, select in VIEWS.items():
            connection.execute(f"CREATE VIEW {view} AS {select}")
        row: dict[str, Json] = {
            "id": 1,
            "schema": SCHEMA,
            "uid": uid,
            "name": header.name,
            "seed": header.seed,
            "mode": header.mode,
            "backend": header.backend,
            "status": "running",
            "epoch": 0,
            "versions": encode(dict(header.versions)).decode(),
            "scenario_hash": hashlib.sha256(scenario.encode()).hexdigest(),
            "options": encode(dict(header.options)).decode(),
            "code": encode(dict(header.code)).decode(),
            "origin": None if header.origin is None else encode(dict(header.origin)).decode(),
            "started_at": wall_label(),
        }
        names = ", ".join(row)
        connection.execute(f"INSERT INTO run ({names}) VALUES ({', '.join('?' * len(row))})", [*row.values()])  # noqa: S608 - constant names
        sealed, run_hash = Seal(), run_row_hash(tuple(row.get(name) for name in RUN_COLUMNS))
        for fact in connection.execute(FACTS["definition"]):
            sealed.add("definition", *fact)
        whole = commit_hash(0, sealed.text, run_hash)
        connection.execute("INSERT INTO commits VALUES (1, 0, ?, ?, ?)", (sealed.text, run_hash, whole))
        connection.execute("COMMIT")
        return whole
    finally:
        connection.close()
