"""Views give researchers the right rows through any SQLite client."""

import sqlite3
from contextlib import closing

import pytest

from sim.record import VIEWS

EVENTS = [
    ("agent.state", {"from": "idle", "to": "working", "reason": "task"}),
    (
        "action.move",
        {"arguments": {"to": "park"}, "success": True, "result": {"steps": 3}, "reasoning": "sun"},
    ),
    ("action.buy", {"arguments": {}, "success": False, "error": "no money"}),
    ("actionable", {}),
    ("message.sent", {"sender": "a1", "to": "a2", "topic": "news", "data": {"text": "hé\u2028"}}),
    ("metric.sample", {"queue": 3, "load": 0.1}),
    ("observation", {"name": "weather", "value": "rain"}),
    ("text", "only text"),
    ("nothing", None),
]

EXPECTED = {
    "transitions": [(1, 0.0, 0, "a1", "idle", "working", "task")],
    "actions": [
        (2, 1.0, 10**9, "a1", "move", '{"to":"park"}', 1, '{"steps":3}', None, "sun"),
        (3, 2.0, 2 * 10**9, "a1", "buy", "{}", 0, None, "no money", None),
    ],
    "messages": [(5, 4.0, 4 * 10**9, "a1", "a2", "news", '{"text":"hé\u2028"}')],
    "samples": [(6, 5.0, 5 * 10**9, "load", 0.1), (6, 5.0, 5 * 10**9, "queue", 3)],
    "observations": [(7, 6.0, 6 * 10**9, "a1", "weather", "rain")],
}

COLUMNS = {
    "events": "id time time_ns delta priority source counter actor topic data cause_source cause_counter",
    "transitions": "id time time_ns agent from_state to_state reason",
    "actions": "id time time_ns agent kind arguments success result error reasoning",
    "messages": "id time time_ns sender receiver topic data",
    "samples": "id time time_ns name value",
    "observations": "id time time_ns actor name value",
}


@pytest.mark.parametrize("view", EXPECTED)
def test_each_view_has_the_rows_of_its_topic(record, view):
    """A plain SQLite connection reads every view, with times, actors and the parts of the data as columns."""
    with closing(sqlite3.connect(record(*EVENTS) / "run.db")) as connection:
        assert EXPECTED[view] == connection.execute(f"SELECT * FROM {view}").fetchall()  # noqa: S608 - our own names


def test_the_events_view_has_every_field(record):
    """The events view has one row an event, numbered from 1 across chunks, with data as JSON text."""
    with closing(sqlite3.connect(record(*EVENTS) / "run.db")) as connection:
        rows = connection.execute("SELECT * FROM events").fetchall()
        text = connection.execute("SELECT data, json_extract(data, '$') FROM events WHERE topic = 'text'").fetchall()

    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert rows[5] == (6, 5.0, 5 * 10**9, 0, 0, 3, 5, "a1", "metric.sample", '{"load":0.1,"queue":3}', 3, 5)
    assert text == [('"only text"', "only text")]
    assert rows[8][9] == "null"


def test_an_event_without_a_cause_has_no_cause(start):
    """Cause columns are NULL where nothing caused the event."""
    with start() as recorder:
        recorder.event((1, 0, 0, 1, 1, "a", "t", None, None))
    with closing(sqlite3.connect(recorder.folder / "run.db")) as connection:
        assert connection.execute("SELECT cause_source, cause_counter FROM events").fetchall() == [(None, None)]


def test_views_have_stable_columns(record):
    """The names of the columns are what queries and notebooks rely on."""
    with closing(sqlite3.connect(record() / "run.db")) as connection:
        for view, names in COLUMNS.items():
            cursor = connection.execute(f"SELECT * FROM {view}")  # noqa: S608 - our own names
            assert [column[0] for column in cursor.description] == names.split()
    assert set(COLUMNS) <= set(VIEWS)
