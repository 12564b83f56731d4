"""Read runs: open one, list all, find one by name.

A run file may be damaged, incomplete, or made by another program. Each failure therefore results in an error with one
sentence, and all events are checked against their hashes before they are used.
"""

import difflib
import hashlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import attrs

from sim.base.errors import RunError, SimError, UsageError
from sim.base.text import plain
from sim.kernel.codec import JsonObject, decode, encode
from sim.kernel.effects import hash_request
from sim.kernel.levels import LACKS, level_of
from sim.kernel.rows import RecordedEvent
from sim.record.audit_chain import AUDIT, AuditHead, AuditReport, check_chain, read_lines
from sim.record.contents import content_hash, join
from sim.record.database import Database, Table
from sim.record.files import DATABASE, MODES, REFERRED, SCENARIO, Mode, being_written, is_settled, recover, slug
from sim.record.hashing import RunHash, StreamHash, Written, arrival_hash, final_hash, result_hash
from sim.record.head import HEAD, UNSAFE, UnsafeEffect, read_head, read_unsafe, unsafe_size
from sim.record.integrity import Integrity, judge
from sim.record.malformed import MalformedEvents
from sim.record.rows import Row, Wanted
from sim.record.schema import APPLICATION, SCHEMA, TABLES
from sim.record.seal import FACTS, RUN_COLUMNS, Seal, commit_hash, run_row_hash
from sim.record.views import VIEWS
from sim.record.zip_archives import is_archive, unpacked_run

QUERY_SECONDS = 60.0
"""Default time limit of a query, in seconds."""


@attrs.frozen(repr=False)
class RunInfo:
    """The properties of a run. Values that are known only at its end are None before.

    Attributes:
        status: running, finished, interrupted, failed, killed (its writer does not exist any more) or unreadable.
        problem: why it is unreadable, else None.
        lost: one sentence about committed records that are missing, or None.
        damaged: in a list of runs, one sentence about a file beside the database that was changed, or None. The
            database itself is not checked for a list; `StoredRun.integrity` checks all.
        uid: the original name of the run folder. The idempotency keys of effects are derived from it.
    """

    id: str
    path: Path
    status: str
    problem: str | None = None
    lost: str | None = None
    damaged: str | None = None
    uid: str = ""
    name: str = ""
    seed: int = 0
    mode: str = ""
    backend: str = ""
    epoch: int = 0
    schema: int = 0
    versions: Mapping[str, str] = attrs.field(factory=dict)
    scenario_hash: str = ""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    code: Mapping[str, str] = attrs.field(factory=dict)
    origin: JsonObject | None = None
    started_at: str = ""
    ended_at: str | None = None
    sim_ns: int | None = None
    sim_seconds: float | None = None
    events: int | None = None
    hash: str | None = None
    digest: Mapping[str, Any] | None = None
    summary: Mapping[str, Any] | None = None

    @property
    def run_mode(self) -> Mode:
        """The mode of the run, which its record may name wrongly: it can come from anybody.

        Raises:
            RunError: if the record names another.
        """
        mode = next((one for one in MODES if one == self.mode), None)
        if mode is None:
            raise RunError(f"{self.path} names the mode {self.mode!r:.60}; a run is {' or '.join(MODES)}", hint=COPY)
        return mode

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<RunInfo {plain(self.id)}: {plain(self.problem or self.status)}>"


COPY = "use a copy of it, or run the scenario again"
"""What to do about a record that is damaged."""

_LISTS = ("set", "allow", "model", "tags")  # options that are lists
_MAX_PARTS = 10_000_000  # maximum length in bytes of the list of the parts of a request
_KEPT_PARTS: Final = 8 * 2**20  # bytes of the parts of requests that are kept while all requests are checked

_REQUESTS: Final = (
    "SELECT row.actor, row.ordinal, row.kind, row.request_hash, CAST(found.request AS BLOB), found.parts"
    " FROM effects AS row NOT INDEXED LEFT JOIN effects AS found"
    " ON found.actor = row.actor AND found.ordinal = row.ordinal"
)
"""All effects, in the order of the table, each with its request as the index finds it."""

_COLUMNS = [field.name for field in attrs.fields(RunInfo)][6:]
_JSON = {"versions", "options", "code", "origin", "digest", "summary"}


class _Parts:
    """Parts of requests, of which the latest are kept: conversations repeat theirs.

    Args:
        read: returns the part with an id, as JSON.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._parts: dict[int, Any] = {}
        self._bytes = 0

    def of(self, id: int) -> Any:
        """Return the value of a part, which must not be changed."""
        if id not in self._parts:
            part = self._read(id)
            self._bytes += len(part)
            if self._bytes > _KEPT_PARTS:
                self._parts.clear()
                self._bytes = len(part)
            self._parts[id] = decode(part)
        return self._parts[id]


class StoredRun:
    """A run that is open for reading, in one thread. Close it, or use it as a context manager."""

    def __init__(self, path: Path, database: Database) -> None:
        self.path = path
        self._database = database
        self._integrity: Integrity | None = None
        self._head = read_head(path)  # read before the database, because a writer writes it after the database
        with database.snapshot():
            self.info = self._read_info()

    @classmethod
    def open(cls, path: str | PathLike[str], *, verify: bool = True, seconds: float = QUERY_SECONDS) -> Self:
        """Open a run for reading. See `open_run`, which it does the work of."""
        place = Path(path)
        file = place if place.name == DATABASE else place / DATABASE
        if not file.is_file():
            raise UsageError(f"{path} is not a run: it has no {DATABASE}", hint="`sim list` shows the runs")
        recover(file)
        database = Database(file, seconds, immutable=is_settled(file))
        try:
            _check_kind(file, database)
            run = cls(file.parent, database)
            if verify:
                run.check()
        except BaseException:
            database.close()
            raise
        return run

    def check(self, *, lost: bool = True, written: Written | None = None) -> None:
        """Warn of what is wrong with the record, and refuse it if its events cannot be trusted.

        Args:
            lost: whether to warn of lost records, too.
            written: the hashes of the events, from the recorder that has just written them; None: they are computed.

        Raises:
            RunError: if they cannot.
        """
        integrity = self.integrity if written is None else judge(self, written=written)
        if integrity.unusable is not None:
            raise RunError(integrity.unusable, hint=COPY)
        (integrity if lost else attrs.evolve(integrity, lost=None)).warn()

    @property
    def lacks(self) -> str:
        """What was not recorded of the run by choice, in words that follow "it was"; empty if nothing was left out."""
        return LACKS[level_of(self.info.options)]

    @property
    def integrity(self) -> Integrity:
        """Whether the record is complete and unchanged; the first answer is kept."""
        if self._integrity is None:
            self._integrity = judge(self)
        return self._integrity

    def query(self, sql: str, parameters: Sequence[Any] | JsonObject = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT over the views and tables of the run.

        Raises:
            UsageError: if it is not a valid SELECT, takes longer than the time limit, or its result is too large.
            RunError: if the file is damaged.
        """
        return self._database.table(sql, parameters)[1]

    def table(self, sql: str, parameters: Sequence[Any] | JsonObject = ()) -> Table:
        """Return the names of the columns of a SELECT, and its rows. Raises the same errors as `query`."""
        return self._database.table(sql, parameters)

    def columns(self, view: str) -> list[str]:
        """Return the names of the columns of a view or table."""
        return self._database.table(f"{self.select(view)} LIMIT 0")[0]

    def select(self, view: str) -> str:
        """Return the SELECT for a view or table, to which a WHERE can be appended.

        A view of this program comes before one of the file, because older files lack some. The file has the views of
        packages that this process has not imported.

        Raises:
            UsageError: if there is no such view.
        """
        own = self._database.rows("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name")
        views = dict.fromkeys((*VIEWS, *(name for (name,) in own), *TABLES))
        for name in views:  # the SQL contains this name, never the text of the caller
            if name == view:
                return f"SELECT * FROM ({VIEWS[name]})" if name in VIEWS else f'SELECT * FROM "{name}"'  # noqa: S608
        close = difflib.get_close_matches(view, views, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(views)}"
        raise UsageError(f"a run has no view {view!r}", hint=hint)

    def stream(self, view: str) -> Generator[tuple[Any, ...]]:
        """Yield the rows of a view or table in order, without a time limit."""
        return self._database.stream(self.select(view))

    def events(self) -> Iterator[RecordedEvent]:
        """Yield the recorded events, with `cause` as a list. No lock is held between chunks."""
        for _, _, _, _, data in self.chunks():
            for row in decode(data):
                yield RecordedEvent(*row)

    def rows(
        self, topics: Collection[str] | None = None, actors: Collection[str] | None = None, after: int = 0
    ) -> Iterator[Row]:
        """Yield recorded events in order. No lock is held between chunks. Only data that are used are decoded.

        Args:
            topics: only events whose topic matches one of these patterns; None: all.
            actors: only events of these actors; None: all.
            after: only events with a higher number, to read on where an earlier reading ended.

        Raises:
            RunError: if the record is damaged.
        """
        wanted = Wanted(topics, actors)
        for _, first, count, _, chunk in self.chunks(after):
            try:
                yield from wanted.of(first, chunk, after)
            except ValueError as error:
                raise self._damaged(f"the events {first} to {first + count - 1} cannot be read: {error}") from error

    def malformed(self) -> MalformedEvents:
        """Compare all events with the types of their topics. This takes about two seconds for a million events.

        Raises:
            RunError: if the record is damaged.
        """
        malformed = MalformedEvents()
        for chunk, _, _, _, data in self.chunks():
            try:
                malformed.take(data)
            except ValueError as error:
                raise self._damaged(f"the events of chunk {chunk} cannot be read: {error}") from error
        return malformed

    def verify(self, written: Written | None = None) -> None:
        """Check all events, requests and the digest against their stored hashes.

        Args:
            written: as in `check`.

        Raises:
            RunError: if one does not match. The message names the first such chunk or part.
        """
        if (page := self._database.damaged_page()) is not None:
            raise self._damaged(f"its pages contradict each other ({page[:200]})")
        try:
            with self._database.snapshot():
                self._verify(written)
        except (
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:  # the tables are STRICT, but a damaged file may contain any type
            raise self._damaged("it holds a value of the wrong type") from error

    def _verify(self, written: Written | None) -> None:
        whole = RunHash()
        running = whole if written is None else StreamHash()
        total = 0
        for chunk, first, count, stored, data in self.chunks():
            running.add_events(data[1:-1], count)
            if (stored, first) != (running.stream, total + 1) or data[:1] + data[-1:] != b"[]":
                raise self._damaged(f"chunk {chunk} (from event {first} on) does not match its hash")
            total += count
        self._verify_outside()
        if written is not None and running.stream != written.stream:
            raise self._damaged("its events are not those that were written")
        self._verify_end(total, lambda: self._lanes(whole) if written is None else written.lanes)
        self._verify_seal()

    def _verify_seal(self) -> None:
        """Check that no row was changed, removed or added since the last commit."""
        seal = Seal()
        for kind, select in FACTS.items():
            for fact in self._database.stream(select):
                seal.add(kind, *fact)
        ((stored,),) = self._database.rows("SELECT seal FROM commits")
        if stored != seal.text:
            raise self._damaged("a row or a definition was changed, removed or added since it was recorded")

    def counts(self) -> dict[str, int]:
        """Return the numbers of events, effects and commits on record."""
        sql = "(SELECT coalesce(sum(count), 0) FROM chunks), (SELECT count(*) FROM effects), number"
        ((events, effects, commits),) = self._database.rows(f"SELECT {sql} FROM commits WHERE id = 1")  # noqa: S608 - constant
        return {"events": events, "effects": effects, "commits": commits}

    def unsafe_lost(self) -> list[UnsafeEffect]:
        """Return the unsafe effects that were started but are missing in the database.

        Raises:
            RunError: if `run.unsafe` is damaged.
        """
        effects, problem = read_unsafe(self.path)
        if problem is None and unsafe_size(self.path) < (0 if self._head.head is None else self._head.head.unsafe):
            problem = f"{UNSAFE} is missing or cut off"
        if problem is not None:
            raise RunError(
                f"{self.path} is damaged: {problem}, so it is not known which effects were started",
                hint="run the scenario again, or branch from a time before the last effect",
            )
        there = set(self._database.rows("SELECT actor, ordinal FROM effects WHERE safety = 'unsafe'"))
        return [effect for effect in effects if (effect.actor, effect.ordinal) not in there]

    def damage_beside(self) -> list[str]:
        """Return one sentence for each file beside the database that was changed or is missing; `run.audit` apart."""
        problems: list[str] = []
        if self._head.problem is not None and self._head.problem not in (self.info.lost or ""):
            problems.append(f"{self.path} is damaged: {self._head.problem}")
        try:
            self.unsafe_lost()
        except RunError as error:
            problems.append(str(error))
        problems += filter(None, (self.scenario_problem(), *(self.referred_problem(name) for name in REFERRED)))
        return problems

    def scenario_problem(self) -> str | None:
        """Return what is wrong with the recorded scenario, beside the database; None if nothing is."""
        path = self.path / SCENARIO
        try:
            same = hashlib.sha256(path.read_bytes()).hexdigest() == self.info.scenario_hash
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        return None if same else f"{path} is not the scenario that was run: it was changed"

    def referred_problem(self, name: str) -> str | None:
        """Return what is wrong with what the scenario refers to and the run recorded; None if nothing is.

        Args:
            name: the name of the file, one of `REFERRED`.
        """
        recorded, path = self.info.options.get(name.removesuffix(".json")), self.path / name
        if recorded is None:
            return None
        try:
            data = path.read_bytes()
        except OSError as error:
            return f"{path}, the {REFERRED[name]}, cannot be read: {error.strerror}"
        same = hashlib.sha256(data).hexdigest() == recorded
        return None if same else f"{path} is not the {REFERRED[name]} that was used: it was changed"

    def audit(self, noted: AuditHead | None = None) -> AuditReport:
        """Check the audit records of the run: their chain, and their hashes in `run.audit`.

        Args:
            noted: the last record that the caller knows, for example from an earlier check; None if it knows none.

        Raises:
            RunError: if the file is damaged so that it cannot be read.
        """
        lines, whole = read_lines(self.path)  # before the database, because a writer writes it after the database
        head, status = self._head.head, self.info.status
        with self._database.snapshot():
            ((number,),) = self._database.rows("SELECT number FROM commits WHERE id = 1")
            behind = head is not None and head.commit < number
            may_lag = status == "running" or (status != "finished" and behind)
            report = check_chain(
                ((first, data) for _, first, _, _, data in self.chunks()),
                lines,
                may_lag=may_lag,
                ended=_audit_head(self.info.digest),
                noted=noted,
            )
        if report.problem is None and not whole and not may_lag:
            return attrs.evolve(report, problem=f"{AUDIT} has more than its {len(lines)} records")
        return report

    def _verify_outside(self) -> None:
        """Check outcomes, arrivals and requests. A replay cannot reproduce them."""
        columns = "actor, ordinal, outcome, CAST(result AS BLOB), attempts, arrived, result_hash"
        for *row, hash in self._database.stream(f"SELECT {columns} FROM effects WHERE outcome IS NOT NULL"):  # noqa: S608 - constant
            if result_hash(*row) != hash:
                raise self._damaged(f"the outcome of effect {row[1]} of {row[0]} does not match its hash")
        columns = "id, time_ns, delta, kind, CAST(data AS BLOB), effect, hash"
        for id, *row, hash in self._database.stream(f"SELECT {columns} FROM arrivals"):  # noqa: S608 - constant
            if arrival_hash(*row) != hash:
                raise self._damaged(f"arrival {id} does not match its hash")
        for id, hash, data in self._database.stream("SELECT id, hash, CAST(data AS BLOB) FROM contents"):
            if content_hash(data) != hash:
                raise self._damaged(f"part {id} of the requests does not match its hash")
        parts = _Parts(self._part)
        for actor, ordinal, kind, hash, skeleton, ids in self._database.stream(_REQUESTS):
            if skeleton is None:  # the index does not know a row of the table
                raise self._damaged(f"effect {ordinal} of {actor} is not found")
            if hash_request(kind, encode(self._joined(skeleton, ids, parts.of))) != hash:
                raise self._damaged(f"the request of effect {ordinal} of {actor} does not match its hash")

    def request(self, actor: str, ordinal: int) -> Any:
        """Return the request of an effect, restored from its parts.

        Raises:
            UsageError: if there is no such effect.
            ValueError, LookupError: if the file is damaged. `verify` detects this.
        """
        sql = "SELECT CAST(request AS BLOB), parts FROM effects WHERE actor = ? AND ordinal = ?"
        rows = self._database.rows(sql, (actor, ordinal))
        if not rows:
            raise UsageError(f"there is no effect {ordinal} of {actor} in {self.path}")
        skeleton, ids = rows[0]
        return self._joined(skeleton, ids, lambda id: decode(self._part(id)))

    def _joined(self, skeleton: bytes, ids: str, part: Callable[[int], Any]) -> Any:
        """Return a request of its parts; `part` returns the one with an id."""
        if len(ids) > _MAX_PARTS:
            raise self._damaged("a request has too many parts")
        return join(skeleton, [part(id) for id in decode(ids.encode())])

    def _part(self, id: int) -> bytes:
        ((part,),) = self._database.rows("SELECT CAST(data AS BLOB) FROM contents WHERE id = ?", (id,))
        return bytes(part)

    def close(self) -> None:
        """Close the file. A second call is a no-op."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def chunks(self, after: int = 0) -> Iterator[tuple[int, int, int, str, bytes]]:
        """Yield the chunks: id, number of the first event (from 1), count, hash of all events so far, JSON text.

        Args:
            after: only chunks with an event that has a higher number.
        """
        columns = "id, first_event, count, hash, CAST(data AS BLOB)"
        conditions = "id > ? AND first_event + count > ?"
        sql = f"SELECT {columns} FROM chunks WHERE {conditions} ORDER BY id LIMIT 1"  # noqa: S608 - constant
        last = -1
        while rows := self._database.rows(sql, (last, after + 1)):
            (row,) = rows
            yield row
            last = row[0]

    def _lanes(self, running: RunHash) -> tuple[str, ...]:
        """Return the hashes of the lanes with the requests of the effects."""
        columns = "actor, ordinal, kind, request_hash"
        for effect in self._database.stream(f"SELECT {columns} FROM effects ORDER BY id"):  # noqa: S608 - constant
            running.add_effect(*effect)
        return running.lanes

    def _verify_end(self, total: int, lanes: Callable[[], tuple[str, ...]]) -> None:
        columns = "events, hash, CAST(digest AS BLOB)"
        ((events, stored, digest),) = self._database.rows(f"SELECT {columns} FROM run")  # noqa: S608 - constant
        if stored is None:
            return  # still running, or killed: there is nothing but chunks to check
        if events != total:
            raise self._damaged(f"it should hold {events} events, but has {total}")
        lane_hashes = lanes()
        try:
            match = stored == final_hash(lane_hashes, decode(digest), level_of(self.info.options))
        except ValueError:
            match = False
        if not match:
            raise self._damaged("its requests or its final digest do not match its hash")

    def _read_info(self) -> RunInfo:
        path, database = self.path, self._database
        rows = database.rows(f"SELECT status, {', '.join(_COLUMNS)} FROM run WHERE id = 1")  # noqa: S608 - constant
        commits = database.rows("SELECT number, seal, run_hash, hash FROM commits WHERE id = 1")
        if len(rows) != 1 or len(commits) != 1:
            raise self._damaged("its run row is missing")
        number, seal, run_hash, whole = commits[0]
        if whole != commit_hash(number, seal, run_hash):
            raise self._damaged("the row of its last commit does not match its hash")
        columns = ", ".join(RUN_COLUMNS)
        if run_row_hash(database.rows(f"SELECT {columns} FROM run")[0]) != run_hash:  # noqa: S608 - constant
            raise self._damaged("its run row (name, seed, status, times, summary) does not match its hash")
        status, *values = rows[0]
        fields = dict(zip(_COLUMNS, values, strict=True))
        try:
            for name in _JSON:
                fields[name] = None if fields[name] is None else decode(fields[name].encode())
            if not all(fields[name] is None or isinstance(fields[name], dict) for name in _JSON):
                raise TypeError
            if not all(isinstance(fields["options"].get(name, []), list) for name in _LISTS):
                raise TypeError
        except (AttributeError, RecursionError, TypeError, ValueError):
            raise self._damaged("its run row is not JSON") from None
        lost = self._lost(fields["uid"], number, whole, ended=status == "finished")
        if status == "running" and not being_written(path):
            status = "killed"
        return RunInfo(path.name, path, status, None, lost, None, **fields)

    def _lost(self, uid: str, number: int, whole: str, *, ended: bool) -> str | None:
        """Return one sentence about commits that are missing in the database, or None.

        Raises:
            RunError: if the database belongs to another run, or its last commit is not the one in `run.head`.
        """
        head, problem = self._head.head, self._head.problem
        if head is None or (problem is not None and number <= head.commit):  # the damaged slot may name a later commit
            unknown = f"{self.path} is damaged: {problem}, so it is not known whether its last records are missing"
            return None if ended else unknown
        if head.run != uid:
            raise self._damaged(f"{HEAD} belongs to run {head.run}, and {DATABASE} to run {uid}")
        if number > head.commit + (1 if problem is None else 2):  # a kill may come between a commit and its head
            raise self._damaged(f"{HEAD} names commit {head.commit} as the last, and {DATABASE} has {number}")
        if number == head.commit and whole != head.hash:
            raise self._damaged(f"its last commit ({number}) is not the one that {HEAD} names")
        if number < head.commit:
            ((effects,),) = self._database.rows("SELECT count(*) FROM effects")
            begun = max(0, head.effects - effects)
            return (
                f"{self.path} lost its last records: commits {number + 1} to {head.commit} are missing in {DATABASE},"
                f" and with them {begun} effects that were started"
            )
        return None

    def _damaged(self, what: str) -> RunError:
        return RunError(f"{self.path} is damaged: {what}", hint=COPY)


def _audit_head(digest: JsonObject | None) -> AuditHead | None:
    """Return the end of the audit chain that the final state of a run names, or None."""
    match digest:
        case {"services": {"audit": {"n": int(n), "hash": str(hash)}}}:
            return AuditHead(n, hash)
        case _:
            return None


def open_run(path: str | PathLike[str], *, verify: bool = True, seconds: float = QUERY_SECONDS) -> StoredRun:
    """Open a run for reading.

    Args:
        path: the run folder, or its `run.db`.
        verify: whether to check the record first; see `StoredRun.integrity`. This takes about half a second for a
            million events. Damage to files beside the database, and lost records, are a `RecordWarning`.
        seconds: the time limit of a query.

    Raises:
        UsageError: if there is no run, or another version of sim, with other tables, wrote it.
        RunError: if its database is damaged or cannot be read.
    """
    return StoredRun.open(path, verify=verify, seconds=seconds)


def list_runs(root: str | PathLike[str]) -> list[RunInfo]:
    """Return the runs below `root`, the oldest first. A run that cannot be read has the status `unreadable`."""
    root = Path(root)
    if not root.is_dir():
        return []
    folders = (folder for folder in root.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    return sorted(map(_info, folders), key=lambda info: (info.started_at, info.id))


def run_folder(run: str | PathLike[str], root: str | PathLike[str] = "runs") -> Path:
    """Return the folder of a run that a program gives: as text for `find_run`, or as the path of a folder or archive.

    Raises:
        UsageError: if it is a text, and no run, or more than one, matches, or an archive with no run.
        RunError: if it is an archive that cannot be read.
    """
    if isinstance(run, str):
        return find_run(root, run)
    path = Path(run)
    return unpacked_run(path) if is_archive(path) else path


RESULTS = "results.db"
"""The file by which the folder of an experiment is distinguished from that of a run."""


def find_run(root: str | PathLike[str], text: str, *, running: bool = False) -> Path:
    """Return the run folder that `text` refers to.

    Args:
        root: the folder that contains the run folders.
        text: a path of a folder or of a zip archive, the name of a scenario (its latest run; `NAME~1` is the second
            latest), or the beginning of the name of a run folder.
        running: whether the name of a scenario stands for its latest run that is under way, if there is one.

    Raises:
        UsageError: if no run, or more than one, matches, or if it is an archive with no run.
        RunError: if it is an archive that cannot be read.
    """
    root, path = Path(root), Path(text)
    if is_archive(path):
        return unpacked_run(path)
    if path.is_dir() and (path / DATABASE).exists():
        return path
    if path.name == DATABASE and path.is_file():
        return path.parent
    if (path / RESULTS).is_file():
        hint = "read its results.html; `sim verify` checks it, and `sim archive` packs it"
        raise UsageError(f"{text} is the folder of an experiment, not of a run", hint=hint)
    folders = {folder.name: folder for folder in root.glob("[!.]*/") if folder.is_dir()}
    if text in folders:
        return folders[text]
    name, _, back = text.partition("~")
    of_name = slug(name) if name else name  # as the folder was called after the scenario
    same = [folder for folder in folders if folder.rsplit("-", 2)[0] == of_name]
    if same and (back or "0").isdecimal():
        same.sort(key=lambda name: _begun(folders[name]))
        live = [name for name in same if running and not back and _info(folders[name]).status == "running"]
        return _back(root, live or same, name, int(back or 0))
    matches = sorted(name for name in folders if text and name.startswith(text))
    if len(matches) == 1:
        return folders[matches[0]]
    if matches:
        some = ", ".join(matches[:5]) + (", ..." if len(matches) > 5 else "")
        raise UsageError(f"{text!r} matches {len(matches)} runs: {some}", hint="write more of the name")
    near = difflib.get_close_matches(text, folders, 1, cutoff=0.3)
    hint = "`sim list` shows the runs" if folders else f"there are no runs in {root}"
    hint = f"did you mean {near[0]}?" if near else hint
    raise UsageError(f"there is no run {text!r} in {root}", hint=hint)


def _begun(folder: Path) -> int:
    """Return the start time of a run (nanoseconds): its scenario file is written at the start only."""
    kept = folder / SCENARIO
    return (kept if kept.exists() else folder).stat().st_mtime_ns


def _back(root: Path, names: list[str], name: str, back: int) -> Path:
    if back >= len(names):
        raise UsageError(f"there are only {len(names)} runs of {name} in {root}", hint="`sim list` shows the runs")
    return root / names[-1 - back]


def _info(folder: Path) -> RunInfo:
    try:
        with open_run(folder, verify=False) as run:
            return attrs.evolve(run.info, damaged=next(iter(run.damage_beside()), None))
    except SimError as error:
        return RunInfo(folder.name, folder, "unreadable", str(error))
    except OSError as error:
        return RunInfo(folder.name, folder, "unreadable", f"{folder} cannot be used: {error.strerror}")


def _check_kind(file: Path, database: Database) -> None:
    application, schema = database.pragma("application_id"), database.pragma("user_version")
    database.seal()
    if application == APPLICATION and schema == SCHEMA:
        kinds = dict(database.rows("SELECT name, type FROM sqlite_schema"))
        if any(kinds.get(name) != "table" for name in TABLES):  # a malicious view could run without end
            raise RunError(f"{file} is damaged: a table is missing or is not a table", hint="use a copy of it")
    if application != APPLICATION:
        raise UsageError(f"{file} is not a run: another program made it", hint="`sim list` shows the runs")
    if schema != SCHEMA:
        which, hint = ("a newer", "update sim") if schema > SCHEMA else ("an older", "read it with that version")
        raise UsageError(
            f"{file} was written by {which} version of sim (schema {schema}, this version reads {SCHEMA})", hint=hint
        )
