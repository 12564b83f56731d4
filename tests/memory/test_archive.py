"""Sessions are archived once, and found by their words and their time."""

from datetime import UTC, datetime, timedelta

import pytest

from sim.base.errors import ActorError, LimitError, UsageError
from sim.memory import civil_time_frame, simulated_time_frame
from sim.memory.settings import DAY_NS, HOUR_NS

TALK = [
    {"role": "user", "content": "How are my finances?"},
    {"role": "assistant", "content": [{"type": "text", "text": "The mortgage is due."}], "id": "call_lawn"},
]


def archive(book, session="s1", summary="A talk about money.", messages=TALK, agent="a", **fields):
    """Archive a session that began an hour after the start and ends now."""
    times = {"started_ns": HOUR_NS, "completed_ns": book.lab.kernel.now}
    given = {"reason": "session_timeout", **times, "token_count": 12, **fields}
    return book.do(lambda: book.memories.archive(agent, session, messages, summary, **given))


def found(book, query, *args, agent="a"):
    """Return the ids of the sessions that a search finds."""
    return [hit.session.session for hit in book.memories.search(agent, query, *args)]


def test_a_session_is_archived_with_its_numbers(book):
    """The record has counts, times, summary and reason; the messages are kept whole; the event has all but these."""
    book.at(3)
    session = archive(book)
    assert (session.message_count, session.token_count, session.reason) == (2, 12, "session_timeout")
    assert (session.started_ns, session.completed_ns) == (HOUR_NS, 3 * HOUR_NS)
    assert book.memories.session_messages("a", "s1") == TALK
    assert book.events("session.archived") == [
        {
            "agent": "a", "completed_ns": 3 * HOUR_NS, "message_count": 2, "reason": "session_timeout",
            "session": "s1", "started_ns": HOUR_NS, "summary": "A talk about money.", "token_count": 12,
        }
    ]  # fmt: skip


def test_a_session_is_archived_once(book):
    """The second time returns the first record, and changes and publishes nothing."""
    first = archive(book)
    state = book.memories.state()
    assert archive(book, summary="other", messages=[]) is first
    assert book.memories.state() == state
    assert len(book.events("session.archived")) == 1
    assert archive(book, agent="b").agent == "b", "an id is one of its agent"


def test_messages_are_a_copy(book):
    """Changing the messages afterwards, or what is returned, does not change the archive."""
    messages = [{"content": "x"}]
    archive(book, messages=messages)
    messages[0]["content"] = "y"
    book.memories.session_messages("a", "s1").clear()
    assert book.memories.session_messages("a", "s1") == [{"content": "x"}]


def test_summary_and_messages_are_searched(book):
    """A word of the summary or of any message finds the session; roles and ids are no words of anybody."""
    archive(book)
    assert found(book, "money") == found(book, "MORTGAGE") == found(book, "finances") == ["s1"]
    assert found(book, "assistant") == found(book, "call_lawn") == found(book, "lawn") == []
    assert found(book, "money", agent="b") == []


def test_search_follows_the_archive(book):
    """A session that is archived after the first search is found as well, the newer first if both match equally."""
    archive(book)
    assert found(book, "money") == ["s1"]
    archive(book, "s2")
    assert found(book, "money") == ["s2", "s1"]


def test_at_most_five_sessions_are_found(book):
    """Five hits, the newest of equal ones; another limit can be given; without words the newest are found."""
    for number in range(8):
        archive(book, f"s{number}")
    assert found(book, "money") == found(book, "") == ["s7", "s6", "s5", "s4", "s3"]
    assert found(book, "money", None, 2) == ["s7", "s6"]
    with pytest.raises(UsageError, match="1 to 100 results"):
        found(book, "money", None, 0)


def test_the_latest_summaries_are_for_the_prompt(book):
    """The last five sessions are returned oldest first; an agent without any has none."""
    for number in range(7):
        archive(book, f"s{number}")
    assert [session.session for session in book.memories.sessions("a")] == ["s2", "s3", "s4", "s5", "s6"]
    assert book.memories.sessions("b") == ()


def test_a_time_frame_is_about_the_end_of_a_session(book):
    """`today`, `last_week` and `last_month` filter by the time at which a session ended."""
    for day in (1, 20, 40, 45):
        book.at(day * 24 + 1)
        archive(book, f"day{day}")
    book.at(45 * 24 + 2)
    assert found(book, "money", "today") == ["day45"]
    assert found(book, "money", "last_week") == ["day45", "day40"]
    assert found(book, "money", "last_month") == ["day45", "day40", "day20"]
    assert found(book, "money") == ["day45", "day40", "day20", "day1"]


def test_simulated_time_frames():
    """Without a calendar, a day has 24 hours from the start, a week 7 days and a month 30 days up to now."""
    now = 40 * DAY_NS + HOUR_NS
    assert simulated_time_frame("today", now) == (40 * DAY_NS, now + 1)
    assert simulated_time_frame("last_week", now) == (now - 7 * DAY_NS, now + 1)
    assert simulated_time_frame("last_month", now) == (now - 30 * DAY_NS, now + 1)
    assert simulated_time_frame("last_month", HOUR_NS) == (0, HOUR_NS + 1)
    with pytest.raises(UsageError, match="'2026-03-02' is not a time frame"):
        simulated_time_frame("2026-03-02", now)


class Utc:
    """A calendar whose runs begin on a Monday at 08:00."""

    start = datetime(2026, 3, 2, 8, tzinfo=UTC).replace(tzinfo=None)

    def at(self, time_ns):
        return (self.start + timedelta(microseconds=time_ns // 1000)).replace(tzinfo=UTC)

    def time_of(self, civil):
        return (civil - self.start) // timedelta(microseconds=1) * 1000


def test_civil_time_frames():
    """With a calendar, today begins at midnight, a date is a whole day, two dates are all days between them."""
    read = civil_time_frame(Utc())
    now = 20 * HOUR_NS  # Tuesday, 04:00
    assert read("today", now) == (16 * HOUR_NS, now + 1)
    assert read("2026-03-02", now) == (-8 * HOUR_NS, 16 * HOUR_NS)
    assert read("2026-03-01..2026-03-03", now) == (-32 * HOUR_NS, 40 * HOUR_NS)
    assert read("last_week", 30 * DAY_NS) == simulated_time_frame("last_week", 30 * DAY_NS)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("2026-02-30", "is not a date"),
        ("9999-12-31", "is not a date"),
        ("2026-03-02..2026-03-01", "ends before it begins"),
        ("2026-3-2", "is not a time frame"),
        ("yesterday", "is not a time frame"),
        ("٢٠٢٦-٠٣-٠٢", "is not a time frame"),
    ],
)
def test_what_is_no_time_frame_is_refused(words, why):
    """Dates that do not exist, dates in the wrong order and other words are errors with a hint."""
    with pytest.raises(UsageError, match=why) as caught:
        civil_time_frame(Utc())(words, 0)
    assert caught.value.hint


def test_too_much_is_refused(make_book):
    """Messages over the bytes of a session, and a summary over the longest text, are refused: nothing is archived."""
    book = make_book(session_bytes=30, longest=10)
    with pytest.raises(LimitError, match="session_bytes"):
        archive(book, summary="x", messages=[{"content": "x" * 30}])
    with pytest.raises(LimitError, match="characters of a summary"):
        archive(book, summary="x" * 11, messages=[])
    with pytest.raises(ActorError, match="JSON"):
        archive(book, summary="x", messages=[{"content": {1, 2, object}}])
    assert book.memories.state() is None
    with pytest.raises(UsageError, match="no archived session 's1'"):
        book.memories.session_messages("a", "s1")
