"""The calls of a run: of models, and other effects, with all that was asked and answered, as it is recorded.

Requests of a conversation repeat it, so the record keeps long parts once (see `sim.record.contents`). A view keeps them
in the same way, and the page puts the text together: `{"$": [i, n]}` in a request stands for its parts i to i + n - 1.
"""

from collections.abc import Mapping
from typing import Any, Final

from sim.inspect.viewer.blocks import Blocks
from sim.inspect.viewer.names import NameTable
from sim.kernel.codec import Json, encode
from sim.record import StoredRun
from sim.runner.prompts import RepeatedPrompt

_MOST_BYTES: Final = 2**20
_COLUMNS: Final = (
    "id, actor, ordinal, kind, time_ns, ended_ns, events_before, outcome, ending, attempts, safety,"
    " CAST(request AS BLOB), parts, CAST(result AS BLOB)"
)
_IN_CORE: Final = (
    "SELECT id, time_ns, actor FROM events WHERE topic = 'model.call' AND data ->> '$.effect' IS NULL ORDER BY id"
)


class Calls:
    """Collects the calls that have ended, and at the end of a run also the others.

    Args:
        blocks: takes the calls and the parts of requests.
        names: receives the agents.

    Attributes:
        index: for each block of calls: its number; the columns of its calls: the number of the effect, its agent, the
            seconds of its start and of its end, its kind, and the number of events before it.
        parts: for each block of parts: its number, and the number of its first part.
        total: the number of calls.
    """

    def __init__(self, blocks: Blocks, names: NameTable) -> None:
        self._blocks, self._names = blocks, names
        self._done: set[int] = set()
        self._last_part = 0
        self.index: list[dict[str, Json]] = []
        self.parts: list[list[int]] = []
        self.total = 0

    def read(self, stored: StoredRun, *, ended: bool) -> None:
        """Add the calls that are new since the last time.

        Args:
            stored: the run.
            ended: whether the run has ended, so that calls under way are added, too.
        """
        self._read_parts(stored)
        where = "TRUE" if ended else "(outcome IS NOT NULL OR ending IS NOT NULL)"
        ids = stored.query(f"SELECT id FROM effects WHERE {where} ORDER BY id")  # noqa: S608 - constant
        rows: list[tuple[Any, ...]] = []
        size = 0
        for (id,) in ids:
            if id in self._done:
                continue
            (row,) = stored.query(f"SELECT {_COLUMNS} FROM effects WHERE id = ?", (id,))  # noqa: S608 - constant
            self._done.add(id)
            rows.append(row)
            size += len(row[-3]) + len(row[-2]) + len(row[-1] or b"")
            if size >= _MOST_BYTES:
                self._write(rows)
                rows, size = [], 0
        if rows:
            self._write(rows)

    def repeat(self, stored: StoredRun, repeated: Mapping[int, RepeatedPrompt]) -> None:
        """Add the calls of models in the core, as a replay has repeated them.

        Args:
            stored: the run.
            repeated: what was repeated, by the id of the event `model.call`.
        """
        rows: list[tuple[Any, ...]] = []
        size = 0
        if not repeated:
            return
        for event, time_ns, actor in stored.query(_IN_CORE):
            prompt = repeated.get(event)
            if prompt is None:
                continue
            outcome, result = ("error", None) if prompt.answer is None else ("ok", encode({"answer": prompt.answer}))
            request = encode(prompt.request)
            rows.append(
                (
                    event,
                    actor,
                    None,
                    "llm",
                    time_ns,
                    time_ns,
                    event - 1,
                    outcome,
                    None,
                    None,
                    "repeated",
                    request,
                    "[]",
                    result,
                )
            )
            size += len(request) + len(result or b"")
            if size >= _MOST_BYTES:
                self._write(rows)
                rows, size = [], 0
        if rows:
            self._write(rows)

    def _write(self, rows: list[tuple[Any, ...]]) -> None:
        """Write calls as a block: three lines for each, its facts, its request and its result."""
        lines: list[bytes] = []
        index: dict[str, list[Any]] = {"id": [], "agent": [], "start": [], "end": [], "kind": [], "before": []}
        for id, actor, ordinal, kind, time_ns, ended_ns, before, outcome, ending, attempts, safety, *texts in rows:
            request, parts, result = texts
            facts = {
                "actor": actor,
                "ordinal": ordinal,
                "kind": kind,
                "time_ns": str(time_ns),
                "outcome": outcome,
                "ended_ns": None if ended_ns is None else str(ended_ns),
                "ending": ending,
                "attempts": attempts,
                "safety": safety,
                "parts": parts,
            }
            lines += (encode(facts), request, result or b"null")
            end = None if ended_ns is None else ended_ns / 1e9
            columns = (id, self._names.number(actor), time_ns / 1e9, end, kind, before)
            for column, value in zip(index.values(), columns, strict=True):
                column.append(value)
        self.total += len(rows)
        self.index.append({"block": self._blocks.add(b"\n".join(lines)), "rows": self._blocks.add(encode(index))})

    def _read_parts(self, stored: StoredRun) -> None:
        """Write the new parts of requests, in blocks of a line each."""
        sql = "SELECT id, CAST(data AS BLOB) FROM contents WHERE id > ? ORDER BY id LIMIT 500"
        while rows := stored.query(sql, (self._last_part,)):
            lines: list[bytes] = []
            size = 0
            for id, text in rows:
                if lines and (size >= _MOST_BYTES or id != self._last_part + 1):
                    self._write_parts(lines)
                    lines, size = [], 0
                lines.append(text)
                size += len(text)
                self._last_part = id
            self._write_parts(lines)

    def _write_parts(self, lines: list[bytes]) -> None:
        first = self._last_part - len(lines) + 1
        self.parts.append([self._blocks.add(b"\n".join(lines)), first, len(lines)])
