"""The seed's debugging guide as commands: `sim show RUN thread`, `history` and `runtime AGENT`."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.agents.goals.house import GOAL, MAKE, House, house, write
from tests.helpers import command

RULES = [
    {"result": "Note created", "call": {"goals.send_message": {"text": "I made the note."}}},
    {"call": {"goals.create_note": {"title": "Budget", "content": "2,000"}}},
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A goal that answers a person, with an archived session, and a run under way when the scenario ends."""
    steps = [MAKE, write(60, "A note, please"), write(7200, "Another one"), write(7203, "And one more")]
    slow = {"provider": "simulated", "simulated": {"first_token": 1, "per_token": 0}}
    return house(tmp_path_factory.mktemp("goals"), RULES, steps, models=slow, until="7205s")


def shown(ran: House, *arguments: str) -> str:
    """Return what `sim show` prints."""
    code, out, err = command("show", ran.folder, *arguments)
    assert code == 0, err
    return out


def test_the_thread(ran: House) -> None:
    """The thread reads as in a chat: messages, the use of tools on lines of their own, and answers."""
    lines = shown(ran, "thread", GOAL).splitlines()
    assert lines[0] == "conversation-1: ana in app/goal-ana-1"
    assert "ana: A note, please" in lines[1]
    assert "goal-ana-1 used goals.create_note" in lines[2]
    assert "goal-ana-1: I made the note." in "\n".join(lines)
    assert "Message sent" not in "\n".join(lines)


def test_the_history(ran: House) -> None:
    """The history has one line an entry, with its number, role and type; archived sessions are marked."""
    lines = shown(ran, "history", GOAL).splitlines()
    assert lines[0].split() == ["entry", "time", "session", "role", "type", "content"]
    assert lines[1].split()[:1] == ["0"]
    assert "1 (archived)" in lines[1]
    assert "tool_use goals.create_note" in lines[2]
    assert "tool_result" in lines[3]
    assert "(archived)" not in lines[-1]


def test_the_history_as_json(ran: House) -> None:
    """With --json the entries are whole, and the last ones with --limit."""
    found = json.loads(shown(ran, "history", GOAL, "--limit", "2", "--json"))
    assert found["agent"] == GOAL
    assert found["total"] > 2
    assert [entry["entry"] for entry in found["entries"]] == [found["total"] - 2, found["total"] - 1]


def test_the_runtime_state_and_the_tools(ran: House) -> None:
    """An agent shows its status, its lock, its tools, how its runs ended, and what was cancelled at the end."""
    found = json.loads(shown(ran, "runtime", GOAL, "--json"))
    assert found["runtime_state"] == {"orchestrator_running": False}
    assert found["status"] == "waiting"
    assert "goals.search_agent_history" in found["tools"]  # there is history now
    assert found["runs"] == {"cancelled": 1, "stop_tool": 2}
    text = shown(ran, "runtime", GOAL)
    assert "orchestrator_running: False" in text
    assert "goals.send_message, goals.create_task" in text


LIVE = """
name: live
until: 2h
conversations: {level: user}
memory: {}
goals: {}
models: {provider: simulated, simulated: {first_token: 3600}}
agents:
  - {name: goal, kind: goal, template: true}
  - {name: task, kind: agent_task, template: true}
  - {name: monitor, kind: health_monitor}
  - name: ana
    state: {made: 0}
    rules:
      - {when: made == 0, do: {create_goal: {title: Trip}}, set: {made: 1}}
      - {when: made == 1, do: {write_to_agent: {to: goal-ana-1, text: Hello}}, set: {made: 2}}
      - do: {sleep: {for: 1s}}
"""


@pytest.mark.slow
def test_the_runtime_state_of_a_run_under_way(tmp_path: Path) -> None:
    """While a run of the simulation goes on, another terminal sees the lock of an agent: since when, and which job."""
    file = tmp_path / "live.yaml"
    file.write_text(LIVE, encoding="utf-8")
    arguments = [sys.executable, "-m", "sim", "run", str(file), "--clock", "wall", "--out", str(tmp_path), "--json"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found: dict[str, Any] = {}
        limit = time.monotonic() + 60
        while not found.get("runtime_state", {}).get("orchestrator_running"):
            assert time.monotonic() < limit
            time.sleep(0.1)
            for run in tmp_path.glob("live-*"):
                code, out, _ = command("show", run, "runtime", GOAL, "--json")
                found = json.loads(out) if code == 0 else {}
    finally:
        process.kill()
        process.wait()
    assert found["runtime_state"]["orchestrator_job_id"] == f"{GOAL}:1"
    assert found["runtime_state"]["reason"] == "message"
    assert found["status"] == "working"


@pytest.mark.parametrize("view", ["thread", "history", "runtime"])
def test_an_agent_that_does_not_exist(ran: House, view: str) -> None:
    """A wrong name is one sentence with the nearest name, and exit code 2."""
    code, out, err = command("show", ran.folder, view, "gol-ana-1")
    assert (code, out) == (2, "")
    assert "'gol-ana-1' is no goal, task or user agent of the run" in err
    assert "did you mean 'goal-ana-1'?" in err


def test_a_run_without_goals(tmp_path: Path) -> None:
    """A run of another kind says that it has none."""
    file = tmp_path / "plain.yaml"
    file.write_text(
        "name: plain\nuntil: 1m\nagents: [{name: a, rules: [{do: {sleep: {for: 1h}}}]}]\n", encoding="utf-8"
    )
    code, out, _ = command("run", file, "--json", "--out", tmp_path / "runs")
    assert code == 0
    code, _, err = command("show", json.loads(out)["run"], "thread", "a")
    assert code == 2
    assert "its scenario has none" in err
