"""The two worked examples of the seed, entry by entry in both streams: scripted, and at a real endpoint on loopback."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.goals.house import GOAL, MAKE, House, house, write
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, fitting

NOTE = {"title": "Budget", "content": "2,000 for two weeks"}
ASK = write(60, "Can you create a note?")

ONE_NOTE = [
    {"result": "*Note created*", "call": {"goals.send_message": {"text": "I made the note."}}},
    {"result": "*Message sent*", "say": "All is done."},
    {"text": "*create a note*", "call": {"goals.create_note": NOTE}},
]
"""Iteration 1: a note; iteration 2: a message; iteration 3, if there is one: no tool."""

CREATED = '{"observation":"Note created with 19 chars","success":true}'
SENT = '{"observation":"Message sent","success":true}'


def test_a_note_for_a_goal(tmp_path: Path) -> None:
    """The person sees its message, the activity of the tool and the answer; the model sees calls and results too."""
    ran = house(tmp_path, ONE_NOTE, [MAKE, ASK])
    assert ran.thread() == [
        ("user", "text", "Can you create a note?"),
        ("agent", "tool", json.dumps(NOTE, separators=(",", ":"), sort_keys=True)),
        ("agent", "text", "I made the note."),
    ]
    assert ran.history() == [
        ("user", "text", "Can you create a note?"),
        ("assistant", "tool_use", '{"content":"2,000 for two weeks","title":"Budget"}'),
        ("user", "tool_result", CREATED),
        ("assistant", "tool_use", '{"text":"I made the note."}'),
        ("user", "tool_result", SENT),
    ]
    assert ran.runs() == [("message", "stop_tool")]
    assert ran.rows("SELECT content FROM memories") == ["Budget\n2,000 for two weeks"]


def test_the_third_iteration_of_the_example(tmp_path: Path) -> None:
    """With `stop_after_message: false`, the model is asked a third time, calls no tool, and the run ends naturally."""
    ran = house(tmp_path, ONE_NOTE, [MAKE, ASK], goals={"stop_after_message": False})
    assert [entry[:2] for entry in ran.history()] == [
        ("user", "text"), ("assistant", "tool_use"), ("user", "tool_result"), ("assistant", "tool_use"),
        ("user", "tool_result"), ("assistant", "text"),
    ]  # fmt: skip
    assert ran.history()[-1][2] == "All is done."
    assert "All is done." not in [content for _, _, content in ran.thread()]  # nobody sent it
    assert ran.rows("SELECT iterations, tools FROM goal_runs") == [(3, 2)]
    assert ran.runs() == [("message", "natural_completion")]


@pytest.mark.parametrize("at_once", [False, True])
def test_three_notes_are_three_cells_and_six_entries(tmp_path: Path, at_once: bool) -> None:
    """Three notes, in three answers or in one: 3 activities in the thread, 3 calls and 3 results in the history."""
    notes = [{"goals.create_note": {"title": f"Note {n}", "content": "text"}} for n in (1, 2, 3)]
    if at_once:
        rules: list[dict[str, Any]] = [{"when": "turn == 0", "call": notes}]
    else:
        rules = [{"when": f"turn == {n}", "call": note} for n, note in enumerate(notes)]
    ran = house(tmp_path, [*rules, {"say": "Done."}], [MAKE, write(60, "Three notes, please")])
    assert [entry[:2] for entry in ran.thread()] == [("user", "text"), *[("agent", "tool")] * 3]
    tools = [entry[1] for entry in ran.history() if entry[1] != "text"]
    assert sorted(tools) == ["tool_result"] * 3 + ["tool_use"] * 3
    assert tools == (["tool_use", "tool_result"] * 3 if not at_once else ["tool_use"] * 3 + ["tool_result"] * 3)
    assert len(ran.rows("SELECT content FROM memories")) == 3


def _serve(seen: Seen) -> Reply:
    """Answer as the model of the example does: by what was said last."""
    last = seen.body["messages"][-1]
    if last["role"] == "user":
        return fitting(seen, "", calls=[("goals__create_note", json.dumps(NOTE))])
    if "Note created" in last["content"]:
        return fitting(seen, "", calls=[("goals__send_message", '{"text": "I made the note."}')])
    return fitting(seen, "All is done.")


SCENARIO = """
name: notes
until: 10m
conversations: {level: user}
memory: {kinds: {context: 6, note: 6, learning: 7}}
goals: {}
models: {}
agents:
  - {name: goal, kind: goal, template: true}
  - {name: task, kind: agent_task, template: true}
  - {name: monitor, kind: health_monitor}
  - name: ana
    state: {made: 0}
    rules:
      - {when: made == 0, do: {create_goal: {title: Trip to Tokyo}}, set: {made: 1}}
      - when: made == 1
        do: {write_to_agent: {to: goal-ana-1, text: "Can you create a note?"}}
        set: {made: 2}
      - do: {sleep: {for: 1h}}
"""


@pytest.mark.slow
def test_the_example_at_a_real_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --model and --base-url alone, the same entries come from requests over a loopback socket."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    file = tmp_path / "notes.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    with Endpoint(_serve) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        code, out, err = command(
            "run", file, "--model", "openai:small", "--base-url", url, "--json", "--out", tmp_path / "runs"
        )
    assert code == 0, err
    ran = House(None, None, Path(json.loads(out)["run"]))  # type: ignore[arg-type]  # only its record is read
    assert [entry[:2] for entry in ran.thread(GOAL)] == [("user", "text"), ("agent", "tool"), ("agent", "text")]
    assert ran.history(GOAL)[2] == ("user", "tool_result", CREATED)
    assert ran.history(GOAL)[-1] == ("user", "tool_result", SENT)
    assert [request.body["messages"][0]["role"] for request in server.seen] == ["system"] * 2


def _serve_task(seen: Seen) -> Reply:
    """Answer as a goal that learns, notes and makes a task; and as that task."""
    system, last = (seen.body["messages"][place]["content"] for place in (0, -1))
    if "You do one task" in system:
        return fitting(seen, "Found three.")
    if last == "Can you create a note?":
        learning = '{"operation": "add", "content": "secret learning"}'
        note = '{"title": "secret", "content": "note"}'
        task = '{"title": "Hotels", "instructions": "Find three hotels"}'
        names = ("goals__manage_learning", "goals__create_note", "goals__create_task")
        return fitting(seen, "", calls=list(zip(names, (learning, note, task), strict=True)))
    return fitting(seen, "Done.")


def test_a_task_knows_its_instructions_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt of a task has the description of the goal and instructions; no notes, learnings, or chat tools."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    file = tmp_path / "notes.yaml"
    text = SCENARIO.replace("title: Trip to Tokyo", "title: Trip to Tokyo, description: In <spring>")
    file.write_text(text, encoding="utf-8")
    with Endpoint(_serve_task) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        code, _, err = command(
            "run", file, "--model", "openai:small", "--base-url", url, "--json", "--out", tmp_path / "runs"
        )
    assert code == 0, err
    asked = [(request.body["messages"][0]["content"], request.body["tools"]) for request in server.seen]
    ((task, tools),) = [one for one in asked if "You do one task" in one[0]]
    assert "<instructions>\nFind three hotels\n</instructions>" in task
    assert "description: In &lt;spring&gt;" in task
    assert "secret" not in task
    assert [tool["function"]["name"] for tool in tools] == ["goals__create_note"]
    goal, tools = asked[-1]
    assert "<notes_context>\nsecret note\n</notes_context>" in goal
    assert "<learnings>\n1: secret learning\n</learnings>" in goal
    names = [tool["function"]["name"] for tool in tools]
    assert "goals__send_message" in names
    assert "goals__search_agent_history" not in names  # there is no history yet
