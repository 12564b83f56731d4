"""Two tiers of retries, with the numbers of the seed; what the thread says meanwhile."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kernel.duration import NS
from sim.kinds.goals import RetrySettings
from sim.kinds.goals.retry import delay_ns, most_retries
from tests.agents.goals.house import GOAL, MAKE, TASK, House, house, write

MESSAGE = {"goals.send_message": {"text": "ok"}}
EXACT = {"retries": {"jitter": 0}}


def attempts(ran: House, agent: str = GOAL) -> list[float]:
    """Return when each run of an agent ended, rounded to seconds."""
    return [round(time, 1) for time in ran.rows(f"SELECT time FROM goal_runs WHERE agent = '{agent}' ORDER BY id")]  # noqa: S608


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        ("rate_limit", [10, 20, 40, 80, 160]),
        ("overload", [10, 20, 40, 80, 160]),
        ("network", [10, 20, 40]),
        ("incomplete", [10, 20, 40]),
        ("server", [10, 20]),
        ("timeout", [10, 20]),
        ("malformed", [10, 20]),
        ("auth", []),
        ("bad_request", []),
        ("content", []),
    ],
)
def test_delayed_retries_of_each_class(tmp_path: Path, error: str, waits: list[int]) -> None:
    """Five retries after rate limits, three after network errors, two after others, none where it is hopeless."""
    ran = house(tmp_path, [{"fail": error}], [MAKE, write(0, "hello")], goals=EXACT)
    times = attempts(ran)
    immediate = 3 if error in ("rate_limit", "overload") else 0  # at least two times 1.5 s
    gaps = [round(later - earlier, 1) for earlier, later in pairwise(times)]
    assert len(gaps) == len(waits)
    assert all(gap >= wait + immediate for gap, wait in zip(gaps, waits, strict=True))  # the breaker may add to it
    requests = len(waits) + 1
    assert ran.rows("SELECT sum(attempts) FROM llm_calls") == [requests * (3 if immediate else 1)]
    (message,) = [content for source, _, content in ran.thread() if source == "error"]
    assert message.startswith(f"Failed permanently: {error}")
    assert ran.goals.get(GOAL).status == "waiting"


def test_the_thread_counts_down(tmp_path: Path) -> None:
    """While a retry is due, the thread has one error with its countdown; each retry rewrites it."""
    ran = house(tmp_path, [{"fail": "network"}], [MAKE, write(60, "hello")], goals=EXACT, until="75s")
    assert ran.thread()[-1] == ("error", "text", "No model answered (network). Retry 2 of 3 in 20 s.")
    (about,) = ran.rows("SELECT metadata FROM thread_messages WHERE source = 'error'")
    assert json.loads(about) == {
        "retryable": True, "error": "network", "attempt": 2, "attempts": 3, "retry_in": 20.0, "retry_at": 90.0,
    }  # fmt: skip


def test_after_the_last_retry_it_has_failed_permanently(tmp_path: Path) -> None:
    """The error is rewritten to `Failed permanently`, with `retryable: false`, and a new message begins anew."""
    steps = [MAKE, write(60, "hello"), write(600, "hello again")]
    rules = [{"when": "now < 500", "fail": "network"}, {"call": MESSAGE}]
    ran = house(tmp_path, rules, steps, goals=EXACT)
    assert ran.rows("SELECT metadata FROM thread_messages WHERE source = 'error'") == ['{"retryable":false}']
    assert [content[:18] for _, _, content in ran.thread()] == ["hello", "Failed permanently", "hello again", "ok"]


def test_a_retry_that_succeeds_says_so(tmp_path: Path) -> None:
    """The error in the thread is rewritten when a retry succeeds, and the answer follows."""
    rules = [{"when": "now < 65", "fail": "network"}, {"call": MESSAGE}]
    ran = house(tmp_path, rules, [MAKE, write(60, "hello")], goals=EXACT)
    assert ran.runs() == [("message", "model_error"), ("retry", "stop_tool")]
    assert ran.thread()[1:] == [
        ("error", "text", "No model answered at first (network). Retry 1 succeeded."), ("agent", "text", "ok"),
    ]  # fmt: skip


def test_a_wait_that_the_endpoint_asks_for_is_kept(tmp_path: Path) -> None:
    """A delayed retry is not made before the time that the endpoint asked for."""
    rules = [{"fail": "server", "retry_after": "2m", "when": "now < 100"}, {"call": MESSAGE}]
    ran = house(tmp_path, rules, [MAKE, write(60, "hello")], goals=EXACT)
    assert attempts(ran) == [60, 180]


TASK_RULES: list[dict[str, Any]] = [
    {"text": "Research please", "call": {"goals.create_task": {"title": "Hotels", "instructions": "Find hotels"}}},
    {"call": MESSAGE},
]


def test_a_task_is_paused_and_the_monitor_resumes_it(tmp_path: Path) -> None:
    """A task is paused, and the health monitor resumes it when the thread said that it would be tried again."""
    failing = {"system": "*You do one task*", "when": "now < 65", "fail": "network"}
    works = {"system": "*You do one task*", "say": "Done."}
    ran = house(tmp_path, [failing, works, *TASK_RULES], [MAKE, write(60, "Research please")], goals=EXACT)
    assert [word for _, word in ran.statuses(TASK)] == ["paused", "active", "completed"]
    assert attempts(ran, TASK) == [60, 70]
    assert (70.0, TASK, "resumed") in ran.found()
    [said] = ran.rows("SELECT data ->> '$.metadata.retry_at' FROM events WHERE data ->> '$.metadata.retry_at' > 0")
    assert said == 70.0


def test_a_task_that_fails_permanently_is_cancelled(tmp_path: Path) -> None:
    """After its last retry a task is cancelled, and its goal is told."""
    failing = {"system": "*You do one task*", "fail": "network"}
    ran = house(tmp_path, [failing, *TASK_RULES], [MAKE, write(60, "Research please")], goals=EXACT)
    assert ran.statuses(TASK)[-1][1] == "cancelled"
    assert attempts(ran, TASK) == [60, 70, 90, 130]
    told = [content for _, _, content in ran.history() if "task_result" in content]
    assert "Failed permanently: network" in told[0]
    assert 'status="cancelled"' in told[0]


def test_a_limit_of_the_scenario_is_a_failure_that_passes(tmp_path: Path) -> None:
    """A call that a limit of the scenario refuses in the middle of a run is retried like one of an endpoint."""
    limits = {"llm_calls": {"agent": "1 per 15s", "policy": "skip"}}
    rules = [{"when": "turn == 0", "call": {"goals.create_note": {"title": "t", "content": "c"}}}, {"call": MESSAGE}]
    ran = house(tmp_path, rules, [MAKE, write(60, "hello")], goals=EXACT, limits=limits)
    assert ran.runs() == [("message", "llm_calls"), ("retry", "stop_tool")]
    assert len(ran.rows("SELECT memory FROM memories")) == 1  # what was done stays done


@given(attempt=st.integers(1, 20), draw=st.floats(0, 1, exclude_max=True), least=st.floats(0, 10_000))
def test_delays_double_and_keep_what_was_asked(attempt: int, draw: float, least: float) -> None:
    """A delay is the base times two for each earlier attempt, plus at most the jitter, and never less than asked."""
    settings = RetrySettings()
    delay, backoff = delay_ns(settings, attempt, draw, least), settings.base * 2 ** (attempt - 1)
    assert delay >= round(least * NS)
    assert delay >= backoff
    assert delay <= max(backoff * 1.1 + 1, round(least * NS))


def test_the_numbers_of_the_seed() -> None:
    """Rate limits have 5 retries, network errors 3, others 2, from 10 seconds on."""
    settings = RetrySettings()
    assert [most_retries(settings, error) for error in ("rate_limit", "network", "server")] == [5, 3, 2]
    assert settings.base == 10 * NS
