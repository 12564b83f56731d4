"""The archive: sessions end, are summarised, leave the history, and are found again."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.goals.house import GOAL, MAKE, House, house, write

MESSAGE = {"goals.send_message": {"text": "ok"}}
ANSWER: list[dict[str, Any]] = [{"use": "summarize", "say": "They spoke of hotels."}, {"call": MESSAGE}]
DAY = 86_400.0


def prompts(ran: House) -> list[int]:
    """Return the input tokens of each call of a goal, in order."""
    return ran.rows(f"SELECT input_tokens FROM llm_calls WHERE agent = '{GOAL}' AND use = 'agent' ORDER BY id")  # noqa: S608


def test_a_session_ends_after_thirty_minutes_of_silence(tmp_path: Path) -> None:
    """The next run after 30 minutes of silence archives the session; one after 29 minutes does not."""
    last = 60 + 0.001  # about when the answer is written
    steps = [MAKE, write(60, "one"), write(last + 29 * 60, "two"), write(last + 60 * 60, "three")]
    ran = house(tmp_path, ANSWER, steps, until="2h")
    assert ran.rows("SELECT agent, session, reason, summary, messages FROM sessions") == [
        (GOAL, "1", "session_timeout", "They spoke of hotels.", 6)
    ]
    assert ran.goals.get(GOAL).archived == 1
    texts = [m["content"] for m in ran.goals.memories.session_messages(GOAL, "1")]
    assert texts[0] == "one"
    assert "two" in texts
    assert "three" not in texts


@pytest.mark.slow
def test_the_active_history_begins_anew_and_summaries_stay(tmp_path: Path) -> None:
    """After an archive the model sees the summaries of the last five sessions, and only its present session."""
    steps = [MAKE, *[write(60 + DAY * n, f"message {n}") for n in range(9)]]
    rules = [
        {"use": "summarize", "text": "*message {n} *", "say": "='Session ' + n"},
        {"system": "*<past_sessions>\n{past*}\n</past_sessions>*", "call": {"goals.send_message": {"text": "=past"}}},
        {"call": MESSAGE},
    ]
    ran = house(tmp_path, rules, steps, until="10d")
    (shown,) = [content for source, _, content in ran.thread() if source == "agent"][-1:]
    assert [line.rpartition(" ")[2] for line in shown.splitlines()] == ["3", "4", "5", "6", "7"]
    assert len(ran.rows("SELECT session FROM sessions")) == 8
    assert max(prompts(ran)) < 3 * min(prompts(ran))


@pytest.mark.slow
@pytest.mark.parametrize("archive", [True, False])
def test_the_active_history_does_not_grow(tmp_path: Path, archive: bool) -> None:
    """With the archive, calls have as many tokens after twenty days as after ten; without, they have more each day."""
    steps = [MAKE, *[write(60 + DAY * n, f"message {n} " + "word " * 50) for n in range(20)]]
    ran = house(tmp_path, ANSWER, steps, until="21d", goals={"archive": archive})
    tokens = prompts(ran)
    assert len(tokens) == 20
    if archive:
        assert tokens[-1] <= 1.03 * tokens[9]  # numbers of two digits
        assert ran.goals.counts["tokens_saved"] > 0
    else:
        assert tokens == sorted(tokens)
        assert tokens[-1] > 1.5 * tokens[9]
        assert ran.rows("SELECT * FROM sessions") == []


@pytest.mark.slow
def test_the_tokens_saved_are_what_the_history_would_have_had(tmp_path: Path) -> None:
    """The estimate of saved tokens is within a tenth of the difference between two runs, with and without archive."""
    steps = [MAKE, *[write(60 + DAY * n, f"message {n} " + "word " * 50) for n in range(20)]]
    (with_archive, without) = (
        house(tmp_path / str(archive), ANSWER, steps, until="21d", goals={"archive": archive})
        for archive in (True, False)
    )
    difference = sum(prompts(without)) - sum(prompts(with_archive))
    assert with_archive.goals.counts["tokens_saved"] == pytest.approx(difference, rel=0.1)


def test_the_fallback_takes_messages_of_the_person(tmp_path: Path) -> None:
    """If no model can summarise, the summary is what the person wrote; the run goes on at once."""
    steps = [MAKE, write(60, "I look for hotels"), write(7200, "Hello again")]
    rules = [{"use": "summarize", "fail": "server"}, {"call": MESSAGE}]
    ran = house(tmp_path, rules, steps, until="3h")
    assert ran.rows("SELECT summary FROM sessions") == ["The person wrote: I look for hotels"]
    assert ran.goals.counts["summaries_failed"] == 1
    assert [round(time) for time in ran.rows("SELECT time FROM goal_runs")] == [60, 7200]


def test_the_fallback_takes_nothing_else_for_words_of_the_person(tmp_path: Path) -> None:
    """Results of tasks and check-ins are told to the model with the role of the person, who has not written them."""
    steps = [MAKE, write(60, "I look for hotels"), write(15_000, "Hello again")]
    rules = [
        {"use": "summarize", "fail": "server"},
        {"text": "<task>", "say": "Two hotels."},
        {"text": "I look for", "call": {"goals.create_task": {"title": "Find", "instructions": "Find hotels"}}},
        {"call": MESSAGE},
    ]
    ran = house(tmp_path, rules, steps, until="5h", goals={"check_in": "2h"})
    told = ran.rows("SELECT content FROM model_history WHERE role = 'user' AND content GLOB '<*' ORDER BY id")
    assert ["check_in" in text or "task" in text for text in told] == [True] * len(told)
    assert len(told) >= 3
    summaries = ran.rows("SELECT summary FROM sessions")
    assert summaries == ["The person wrote: I look for hotels", "The person wrote nothing."]


def test_a_session_is_archived_once(tmp_path: Path) -> None:
    """Runs that follow each other do not archive a session again."""
    steps = [MAKE, write(60, "one"), *[write(7200 + n, "two") for n in range(5)]]
    ran = house(tmp_path, ANSWER, steps, until="3h")
    assert ran.rows("SELECT session FROM sessions") == ["1"]
    assert len(ran.rows("SELECT id FROM llm_calls WHERE use = 'summarize'")) == 1


def test_tasks_are_not_archived(tmp_path: Path) -> None:
    """Tasks are short-lived and have no sessions, however long they take."""
    note = {"goals.create_note": {"title": "t", "content": "c"}}
    rules = [
        {"use": "summarize", "say": "x"},
        {"system": "You do one task", "when": "turn < 3", "call": note},
        {"system": "*You do one task*", "say": "Done."},
        {"text": "Research please", "call": {"goals.create_task": {"title": "t", "instructions": "i"}}},
        {"call": MESSAGE},
    ]  # fmt: skip
    slow = {"provider": "simulated", "simulated": {"first_token": 1700, "per_token": 0}}
    limits = {"limits": {"time": "10h"}, "health": {"stuck": "20h"}}
    ran = house(tmp_path, rules, [MAKE, write(60, "Research please")], models=slow, goals=limits, until="12h")
    assert "task-goal-ana-1-1" not in ran.rows("SELECT agent FROM sessions")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "frame", "expected"),
    [
        ("hotels", None, ["1"]),
        ("finances", None, ["3", "2"]),
        ("finances", "today", []),  # it was archived today, but is of yesterday
        ("finances", "last_week", ["3", "2"]),
        ("finances", "2026-03-02", ["2"]),
        ("finances", "2026-03-03", ["3"]),
        ("finances", "2026-03-02..2026-03-03", ["3", "2"]),
        ("", "last_month", ["3", "2", "1"]),
        ("nothing", None, []),
    ],
)
def test_history_is_searched_by_words_and_time(
    tmp_path: Path, query: str, frame: str | None, expected: list[str]
) -> None:
    """`search_agent_history` finds words in summaries and in the whole text, within a time frame."""
    words = ["hotels in Tokyo", "my finances", "my finances again, the finances"]
    steps = [MAKE, *[write(60 + DAY * n, text) for n, text in enumerate(words)], write(3 * DAY + 60, "Search")]
    search = {"goals.search_agent_history": {"query": query, **({"timeframe": frame} if frame else {})}}
    rules = [
        {"use": "summarize", "say": "They spoke."},
        {"text": "Search", "tool": "goals.search_agent_history", "when": "turn == 0", "call": search},
        {"call": MESSAGE},
    ]
    ran = house(tmp_path, rules, steps, until="4d", calendar={"start": "2026-03-01T08:00", "zone": "UTC"})
    where = "kind = 'use_tool' AND arguments ->> '$.tool' = 'goals.search_agent_history'"
    (result,) = ran.rows(f"SELECT result FROM actions WHERE {where}")  # noqa: S608
    assert [hit["session"] for hit in json.loads(result)] == expected


def test_a_time_frame_that_does_not_exist_is_an_error_for_the_model(tmp_path: Path) -> None:
    """The model reads which time frames there are."""
    search = {"goals.search_agent_history": {"query": "x", "timeframe": "yesteryear"}}
    rules = [*ANSWER[:1], {"text": "Search", "when": "turn == 0", "call": search}, ANSWER[1]]
    ran = house(tmp_path, rules, [MAKE, write(60, "one"), write(7200, "Search")], until="3h")
    (error,) = [content for _, type_, content in ran.history() if type_ == "tool_result" and "yesteryear" in content]
    assert "is not a time frame" in error
    assert "last_week" in error


@pytest.mark.slow
def test_a_session_carries_its_own_times(tmp_path: Path) -> None:
    """Prompts and searches say when a session was held, not when it was archived days later."""
    search = {"goals.search_agent_history": {"query": "hotels"}}
    rules = [
        {"use": "summarize", "say": "They spoke."},
        {"text": "Search", "tool": "goals.search_agent_history", "when": "turn == 0", "call": search},
        {"text": "Show", "system": "*<past_sessions>\n{past*}\n</past_sessions>*",
         "call": {"goals.send_message": {"text": "=past"}}},
        {"call": MESSAGE},
    ]  # fmt: skip
    steps = [MAKE, write(60, "hotels"), write(120, "more"), write(5 * DAY, "Search"), write(5 * DAY + 9, "Show")]
    ran = house(tmp_path, rules, steps, until="6d", calendar={"start": "2026-03-01T08:00", "zone": "UTC"})
    (result,) = ran.rows("SELECT result FROM actions WHERE arguments ->> '$.tool' = 'goals.search_agent_history'")
    [hit] = json.loads(result)
    assert (hit["started"], round(hit["ended"])) == (60.0, 120)
    assert ran.thread()[-1][2] == "2026-03-01 08:01 to 2026-03-01 08:02: They spoke."


def test_errors_make_no_session(tmp_path: Path) -> None:
    """An error after a silence neither begins a session nor is archived as one of its own."""
    rules = [ANSWER[0], {"text": "fail", "fail": "bad_request"}, {"call": MESSAGE}]
    steps = [MAKE, write(60, "one"), write(7200, "fail"), write(14_400, "two"), write(21_600, "three")]
    ran = house(tmp_path, rules, steps, until="7h")
    sessions = ran.rows("SELECT session, started, completed, messages FROM sessions ORDER BY session")
    assert [(round(began), round(ended)) for _, began, ended, _ in sessions] == [
        (60, 60),
        (7200, 7200),
        (14_400, 14_400),
    ]


def test_an_archived_goal_is_silent_and_its_last_session_is_archived(tmp_path: Path) -> None:
    """A run under way cannot speak after its goal was archived; what was said so far is a session with a summary."""
    slow = {"provider": "simulated", "simulated": {"first_token": 100, "per_token": 0}}
    steps: list[Any] = [MAKE, write(60, "hotels"), (120, "archive_goal", {"goal": GOAL})]
    ran = house(tmp_path, ANSWER, steps, models=slow, until="2h")
    assert [source for source, kind, _ in ran.thread() if kind == "text"] == ["user"]
    assert ran.rows("SELECT agent, reason, summary FROM sessions") == [(GOAL, "agent_ended", "They spoke of hotels.")]
    assert GOAL not in ran.world.agents
