"""Each limit and each stop rule of a run is reached, and the thread says so."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.goals.house import GOAL, MAKE, TASK, House, house, write

ASK = write(60, "Go on")
LOOKUP = {"goals.search_notes": {"query": "=str(turn)"}}
NOTE = {"goals.create_note": {"title": "=str(turn)", "content": "x"}}
EACH_ANOTHER = [{"when": "turn % 2 == 0", "call": LOOKUP}, {"call": NOTE}]
"""A model that never stops calling tools, each time another one than before."""


def ended(ran: House, agent: str = "goal-ana-1") -> tuple[str, int]:
    """Return how the only run of an agent ended, and its model calls."""
    (row,) = ran.rows(f"SELECT \"ending\", iterations FROM goal_runs WHERE agent = '{agent}'")  # noqa: S608
    return row[0], row[1]


def test_at_most_twenty_iterations(tmp_path: Path) -> None:
    """A model that never stops calling tools is ended after 20 calls, and the person reads why."""
    ran = house(tmp_path, EACH_ANOTHER, [MAKE, ASK])
    assert ended(ran) == ("max_iterations", 20)
    assert ran.thread()[-1] == ("error", "text", "Stopped: the most model calls of a run were made (max_iterations)")
    assert ran.goals.get("goal-ana-1").runtime_state["orchestrator_running"] is False


def test_at_most_five_calls_of_one_tool_in_a_row(tmp_path: Path) -> None:
    """The same tool is called five times in a row, and no sixth time."""
    ran = house(tmp_path, [{"call": LOOKUP}], [MAKE, ASK])
    assert ended(ran) == ("same_tool", 5)
    assert ran.thread()[-1][2].endswith("(same_tool)")


def test_at_most_ten_minutes(tmp_path: Path) -> None:
    """A run makes no further call after ten minutes of simulated time."""
    slow = {"provider": "simulated", "simulated": {"first_token": 90, "per_token": 0}}
    ran = house(tmp_path, EACH_ANOTHER, [MAKE, ASK], models=slow)
    assert ended(ran) == ("max_time", 7)  # 7 calls of 90 s are the first that are longer than 600 s
    assert ran.thread()[-1][2].endswith("(max_time)")


def test_the_history_of_a_task_has_a_limit(tmp_path: Path) -> None:
    """A task makes no further call when its history has 20 messages; it is not completed, and says why."""
    make = {"goals.create_task": {"title": "Find hotels", "instructions": "Find hotels"}}
    note = {"goals.create_note": {"title": "x", "content": "x"}}
    rules = [
        {"system": "*You do one task*", "call": note},
        {"text": "Go on", "call": make},
        {"call": {"goals.send_message": {"text": "ok"}}},
    ]
    ran = house(tmp_path, rules, [MAKE, ASK], goals={"limits": {"same_tool": 100}})
    assert ended(ran, TASK) == (
        "history_length",
        10,
    )  # the instructions, and 10 calls with their results; the prompt does not count
    assert ran.rows("SELECT status, result FROM tasks") == [
        ("cancelled", '"Stopped: the history of the task is full (history_length)"')
    ]


@pytest.mark.parametrize(
    ("limit", "ending"), [({"tokens": 100}, "max_tokens"), ({"cost": 0.0001}, "max_cost"), ({"time": "1s"}, "max_time")]
)
def test_limits_of_the_scenario(tmp_path: Path, limit: dict[str, Any], ending: str) -> None:
    """Tokens, money and time of a run can be limited."""
    models = {
        "provider": "simulated",
        "simulated": {"first_token": 2},
        "prices": {"simulated": {"input": 1, "output": 1}},
    }
    ran = house(tmp_path, EACH_ANOTHER, [MAKE, ASK], goals={"limits": limit}, models=models)
    assert ended(ran)[0] == ending


def test_the_numbers_of_the_summary_are_metrics(tmp_path: Path) -> None:
    """Each number of the summary can be a metric, also with the blanks that the summary shows: `cost per user`."""
    wanted = {"a": "service('goals', 'cost_per_user')", "b": "service('goals', 'highest cost of a user')"}
    models = {"prices": {"scripted": {"input": 1000, "output": 1000}}}
    ran = house(tmp_path, [{"say": "That is all."}], [MAKE, ASK], models=models, metrics={"values": wanted})
    assert ran.goals.summary().keys() == ran.goals.metrics().keys()
    cost = ran.goals.metrics()["cost"]
    assert cost
    assert ran.result.metrics["a"][-1] == ran.result.metrics["b"][-1] == cost


def test_an_answer_without_tools_ends_a_run(tmp_path: Path) -> None:
    """An answer without tool calls is the natural completion; its text is for the model only."""
    ran = house(tmp_path, [{"say": "I think that is all."}], [MAKE, ASK])
    assert ended(ran) == ("natural_completion", 1)
    assert ran.thread() == [("user", "text", "Go on")]


def test_a_conversational_agent_stops_after_its_message(tmp_path: Path) -> None:
    """After `send_message` no further call is made, although the model would call again."""
    ran = house(tmp_path, [{"call": {"goals.send_message": {"text": "=str(turn)"}}}], [MAKE, ASK])
    assert ended(ran) == ("stop_tool", 1)
    assert ran.thread()[-1] == ("agent", "text", "0")


def test_answers_that_cannot_be_used_end_a_run(tmp_path: Path) -> None:
    """A model that calls tools that do not exist is told so, and ended after three such answers."""
    ran = house(tmp_path, [{"call": {"goals.fly": {}}}], [MAKE, ASK])
    assert ended(ran)[0] == "invalid_answer"
    assert "invalid_answer" in ran.thread()[-1][2]


PRICED: dict[str, Any] = {
    "provider": "simulated", "simulated": {"first_token": 1, "per_token": 0},
    "prices": {"simulated": {"input": 1000, "output": 1000}},
}  # fmt: skip
NOTES = [
    {"use": "summarize", "say": "S"},
    {"when": "turn % 2 == 0", "call": {"goals.create_note": {"title": "n", "content": "='c' + str(turn)"}}},
    {"call": {"goals.search_notes": {"query": "x"}}},
]


@pytest.mark.parametrize("ending", ["skipped", "stuck", "archived", "done"])
def test_money_is_booked_when_a_call_ends(tmp_path: Path, ending: str) -> None:
    """However a run ends, the user, the agent, the run and the metric have the cost of all calls and summaries."""
    others: dict[str, Any] = {"limits": {"llm_calls": {"agent": "3 per 30m", "policy": "skip"}}}
    models, steps = dict(PRICED), [MAKE, ASK, write(7200, "Go on, please")]
    if ending == "stuck":
        others, models = {}, PRICED | {"faults": [{"kind": "hang", "start": "63s", "end": "2h"}]}
        models["retry"] = {"timeout": "90h", "deadline": "90h"}
    elif ending == "archived":
        others, steps = {}, [*steps, (7201.5, "archive_goal", {"goal": GOAL})]
    elif ending == "done":
        others = {}
    ran = house(tmp_path, NOTES, steps, models=models, until="3h", **others)
    [total] = ran.rows("SELECT sum(cost) FROM llm_calls")
    assert total > 0
    assert ran.rows("SELECT user, cost FROM user_costs") == [("ana", pytest.approx(total))]
    assert ran.goals.metrics()["cost"] == pytest.approx(total)
    assert ran.goals.get(GOAL).cost_micro / 1e6 == pytest.approx(total)
    [runs] = ran.rows("SELECT sum(cost) FROM goal_runs")
    [last] = ran.rows(
        "SELECT coalesce(sum(cost), 0) FROM llm_calls WHERE use = 'summarize'"
        " AND id > (SELECT max(id) FROM events WHERE topic = 'goals.run_ended')"
    )
    assert runs + last == pytest.approx(total)
