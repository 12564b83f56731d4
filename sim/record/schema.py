"""The tables of a run file, and the numbers that identify it.

Values are JSON text, never pickle, so that any SQLite client can read them.
"""

from typing import Final, Literal

Status = Literal["finished", "interrupted", "failed"]
"""How a run ended. The file of a run that has not ended, or was killed, has the status `running`."""

SCHEMA: Final = 4
"""Version of the tables. A file with another version is refused."""

APPLICATION: Final = 0x73696D31
"""The `application_id` of a run file in SQLite ("sim1")."""

TABLES: Final[dict[str, str]] = {
    "run": """
        id INTEGER PRIMARY KEY CHECK (id = 1),
        schema INTEGER NOT NULL,
        uid TEXT NOT NULL,
        name TEXT NOT NULL,
        seed INTEGER NOT NULL,
        mode TEXT NOT NULL,
        backend TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
        epoch INTEGER NOT NULL,
        versions TEXT NOT NULL,
        scenario_hash TEXT NOT NULL,
        options TEXT NOT NULL,
        code TEXT NOT NULL,
        origin TEXT,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        sim_ns INTEGER,
        sim_seconds REAL AS (sim_ns / 1e9),
        events INTEGER,
        hash TEXT,
        digest TEXT,
        summary TEXT
    """,
    "commits": """
        id INTEGER PRIMARY KEY CHECK (id = 1),
        number INTEGER NOT NULL,
        seal TEXT NOT NULL,
        run_hash TEXT NOT NULL,
        hash TEXT NOT NULL
    """,
    "chunks": """
        id INTEGER PRIMARY KEY,
        first_event INTEGER NOT NULL,
        count INTEGER NOT NULL,
        hash TEXT NOT NULL,
        data TEXT NOT NULL
    """,
    "contents": """
        id INTEGER PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        data TEXT NOT NULL
    """,
    "effects": """
        id INTEGER PRIMARY KEY,
        actor TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        kind TEXT NOT NULL,
        request_hash TEXT NOT NULL,
        request TEXT NOT NULL,
        parts TEXT NOT NULL,
        latency TEXT NOT NULL CHECK (latency IN ('modelled', 'measured')),
        safety TEXT NOT NULL CHECK (safety IN ('pure', 'idempotent', 'unsafe')),
        time_ns INTEGER NOT NULL,
        events_before INTEGER NOT NULL,
        hash_before TEXT NOT NULL,
        outcome TEXT CHECK (outcome IN ('ok', 'error', 'timeout', 'abandoned')),
        result TEXT,
        attempts INTEGER,
        arrived INTEGER NOT NULL DEFAULT 0,
        result_hash TEXT,
        ending TEXT CHECK (ending IN ('delivered', 'timeout', 'abandoned')),
        ended_ns INTEGER,
        ended_delta INTEGER,
        UNIQUE (actor, ordinal)
    """,
    "arrivals": """
        id INTEGER PRIMARY KEY,
        time_ns INTEGER NOT NULL,
        delta INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data TEXT NOT NULL,
        effect INTEGER REFERENCES effects (id),
        hash TEXT NOT NULL
    """,
}
"""Column definitions by table.

- `commits` has one row: the number of commits, the seal of all rows (see `seal`), the hash of the row in `run`, and the
  hash of these three.
- `contents` holds the parts of requests (see `contents`).
- `arrivals` holds, in order, the inputs and the outcomes of effects with measured latency.
"""
