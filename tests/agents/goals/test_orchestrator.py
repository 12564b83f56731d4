"""Runs: why they begin, what they take in, the execution lock, and what tasks inherit."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kinds.goals import Goals
from sim.world import Refused
from tests.agents.goals.house import ASSISTANT, GOAL, HELPER, MAKE, TASK, house, write

MESSAGE = {"goals.send_message": {"text": "ok"}}
NOTE = {"goals.create_note": {"title": "Hotels", "content": "Three"}}
TASK_RULES: list[dict[str, Any]] = [
    {"system": "*You do one task*", "text": "*<task>*", "call": NOTE},
    {"system": "*You do one task*", "say": "Found three hotels."},
    {"text": "Find hotels", "call": {"goals.create_task": {"title": "Hotels", "instructions": "Find three hotels"}}},
    {"text": "*<check_in>*", "call": {"goals.create_task": {"title": "Look", "instructions": "Look"}}},
    {"call": MESSAGE},
]  # fmt: skip
SLOW = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}


def test_a_task_runs_and_its_goal_is_told(tmp_path: Path) -> None:
    """A task gets instructions and goal, does its work, leaves a note at the goal and a result, and its goal runs."""
    ran = house(tmp_path, TASK_RULES, [MAKE, write(60, "Find hotels")])
    assert ran.runs() == [("message", "stop_tool"), ("child_ended", "stop_tool")]
    assert ran.runs(TASK) == [("start", "natural_completion")]
    assert ran.statuses(TASK)[-1][1] == "completed"
    assert ran.rows("SELECT kind, status, assignee, creator FROM tasks") == [("agent_task", "done", TASK, GOAL)]
    assert ran.rows("SELECT agent, content FROM memories") == [(GOAL, "Hotels\nThree")]
    told = [content for _, type_, content in ran.history() if type_ == "text" and "task_result" in content]
    assert told == [
        f'<task_result task="{TASK}" title="Hotels" status="completed">\nFound three hotels.\n</task_result>'
    ]
    assert all("task_result" not in content for _, _, content in ran.thread())


def test_messages_during_a_run_wait_for_the_next(tmp_path: Path) -> None:
    """What a person writes during a run is taken in by one further run, however many messages these are."""
    steps = [MAKE, write(60, "one"), write(62, "two"), write(64, "three")]
    ran = house(tmp_path, [{"call": MESSAGE}], steps, models=SLOW)
    assert ran.rows("SELECT data ->> '$.seen' FROM events WHERE topic = 'goals.run_started'") == [
        1,
        6,
    ]  # its calls have numbers too
    assert len(ran.runs()) == 2
    assert ran.rows("SELECT DISTINCT processed FROM thread_messages") == [1]


def test_a_message_is_unprocessed_until_a_run_takes_it_in(tmp_path: Path) -> None:
    """A message that nobody has taken in when the run of the scenario ends is `processed: false`."""
    steps = [MAKE, write(60, "one"), write(62, "two")]
    ran = house(tmp_path, [{"call": MESSAGE}], steps, models=SLOW, until="65s")
    assert ran.rows("SELECT content, processed FROM thread_messages ORDER BY id") == [("one", 1), ("two", 0)]


class Probe(sim.Agent):
    """An agent that looks at the lock of a goal in the middle of a run."""

    seen: list[Any] = []  # noqa: RUF012 - each test makes a class of its own

    async def decide_action(self) -> sim.Action:
        """Look once, after 65 seconds."""
        if self.world.now < 65:
            return sim.Action("sleep", {"condition": {"until": 65}})
        goals = Goals.of(self.world)
        record = goals.get(GOAL)
        self.seen.append(record.runtime_state)
        with pytest.raises(Refused, match="is running"):
            goals.claim_execution_lock(record, "message")
        return sim.Action("stop")


def test_the_execution_lock(tmp_path: Path) -> None:
    """An agent that runs cannot be claimed again; the lock is data with start and job."""
    probe, seen = {"name": "probe", "kind": "probe"}, list[Any]()
    kinds = {"probe": type("Probe", (Probe,), {"seen": seen})}
    house(tmp_path, [{"call": MESSAGE}], [MAKE, write(60, "one")], models=SLOW, agents=[probe], kinds=kinds)
    assert seen == [
        {"orchestrator_running": True, "orchestrator_started_ns": 60 * 10**9, "orchestrator_job_id": f"{GOAL}:1"}
    ]


def test_a_check_in_gives_its_type_to_tasks_as_origin(tmp_path: Path) -> None:
    """`type` chooses the message of the goal's run; its tasks have it as `origin_type`, and run as tasks."""
    ran = house(tmp_path, TASK_RULES, [MAKE], goals={"check_in": "10m"}, until="12m")
    assert ran.runs()[0][0] == "agent_check_in"
    contexts = ran.rows(
        "SELECT data ->> '$.agent', data ->> '$.context' FROM events WHERE topic = 'goals.run_started' ORDER BY id"
    )
    assert contexts[0] == (GOAL, '{"type":"agent_check_in"}')
    assert (TASK, '{"origin_type":"agent_check_in"}') in contexts
    assert ran.rows("SELECT data ->> '$.data' FROM events WHERE topic = 'task.created'")[0] == (
        '{"origin_type":"agent_check_in"}'
    )
    assert ran.runs(TASK)[0][0] == "start"


def test_check_ins_are_counted_from_the_last_run(tmp_path: Path) -> None:
    """A check-in is due a time after the last run, not on a clock of its own."""
    rules = [{"text": "*<check_in>*", "say": "nothing"}, {"call": MESSAGE}]
    ran = house(tmp_path, rules, [MAKE, write(300, "hello")], goals={"check_in": "10m"}, until="21m")
    assert ran.rows("SELECT round(time), reason FROM goal_runs ORDER BY id") == [
        (300.0, "message"), (900.0, "agent_check_in"),
    ]  # fmt: skip


def test_the_user_agent_generates_a_feed_each_day(tmp_path: Path) -> None:
    """At the time of the feed the user agent looks at all goals; the session is archived when the feed is done."""
    goals = "*<goals_context>\n{all*}\n</goals_context>*"
    rules = [
        {"use": "summarize", "say": "A feed was sent."},
        {"text": "*<feed_request>*", "system": goals, "call": {"goals.send_message": {"text": "=all"}}},
        {"call": MESSAGE},
    ]  # fmt: skip
    steps = [MAKE, (1, "create_goal", {"title": "Marathon"})]
    ran = house(
        tmp_path, rules, steps, agents=[HELPER], goals={"feed": "07:00"}, until="55h",
        calendar={"start": "2026-03-02T00:00", "zone": "UTC"},
    )  # fmt: skip
    feed = ("agent", "text", "Trip to Tokyo (waiting)\nMarathon (waiting)")
    assert ran.thread(ASSISTANT) == [feed] * 2
    assert ran.rows("SELECT round(time / 3600) FROM goal_runs WHERE reason = 'feed_generation'") == [7, 31]
    assert ran.rows("SELECT reason, summary FROM sessions") == [("feed_generation_complete", "A feed was sent.")] * 2
    assert ran.goals.get(ASSISTANT).status is None  # a user agent has no status


def test_there_is_one_user_agent_for_each_user(tmp_path: Path) -> None:
    """The user agent is made with the first goal of a user, once."""
    steps = [MAKE, (1, "create_goal", {"title": "Marathon"}), write(2, "hello", ASSISTANT)]
    ran = house(tmp_path, [{"call": MESSAGE}], steps, agents=[HELPER])
    assert ran.rows("SELECT agent FROM goal_agents WHERE kind = 'user_agent'") == [ASSISTANT]
    assert ran.thread(ASSISTANT) == [("user", "text", "hello"), ("agent", "text", "ok")]


def test_a_goal_that_has_tasks_is_working(tmp_path: Path) -> None:
    """A goal is waiting, working during a run and while its tasks go on, and waiting again."""
    ran = house(tmp_path, TASK_RULES, [MAKE, write(60, "Find hotels")], models=SLOW)
    words = [word for _, word in ran.statuses()]
    assert words == ["working", "waiting"]
    assert ran.statuses()[-1][0] == pytest.approx(100, abs=0.1)  # two runs of two and one calls, and a task between


def test_the_goal_of_a_scenario_works_for_somebody_outside(tmp_path: Path) -> None:
    """An entry can declare a goal of a person who is no agent; the person has a user agent too."""
    tokyo = {"name": "tokyo", "kind": "goal", "settings": {"user": "ben", "title": "Tokyo"}}
    ran = house(tmp_path, [{"call": MESSAGE}], [], agents=[tokyo, HELPER])
    assert ran.goals.get("tokyo").user == "ben"
    assert [one.agent_id for one in ran.goals.agents_of("ben")] == ["tokyo", "helper-ben-1"]


def test_a_message_at_the_time_of_the_feed_does_not_replace_it(tmp_path: Path) -> None:
    """A run for a message that goes on when the feed is due does not skip the feed of the day."""
    rules = [{"text": "<feed_request>", "call": {"goals.send_message": {"text": "feed"}}}, {"call": MESSAGE}]
    steps = [MAKE, write(7 * 3600 - 5, "hello", ASSISTANT)]
    ran = house(
        tmp_path, rules, steps, agents=[HELPER], goals={"feed": "07:00"}, until="8h", models=SLOW,
        calendar={"start": "2026-03-02T00:00", "zone": "UTC"},
    )  # fmt: skip
    assert ran.runs(ASSISTANT) == [("message", "stop_tool"), ("feed_generation", "stop_tool")]


def test_a_feed_that_failed_is_a_feed_still(tmp_path: Path) -> None:
    """A retry of a feed has its type, and its session is archived when it is done."""
    rules = [
        {"use": "summarize", "say": "s"}, {"when": "now < 25205", "fail": "network"},
        {"text": "<feed_request>", "call": {"goals.send_message": {"text": "feed"}}}, {"call": MESSAGE},
    ]  # fmt: skip
    ran = house(
        tmp_path, rules, [MAKE], agents=[HELPER], goals={"feed": "07:00"}, until="8h",
        calendar={"start": "2026-03-02T00:00", "zone": "UTC"},
    )  # fmt: skip
    assert ran.runs(ASSISTANT) == [("feed_generation", "model_error"), ("retry", "stop_tool")]
    assert ran.rows("SELECT reason FROM sessions") == ["feed_generation_complete"]
    assert ran.goals.counts["feeds"] == 1
