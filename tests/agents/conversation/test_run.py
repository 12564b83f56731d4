"""Conversations in a scenario: the same run in every way of running, its views, `sim show` and the report."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.agents.conversation import Transcripts
from sim.agents.conversation.events import ConversationStarted, MessageRevised, MessageSaid
from sim.cli import main
from sim.record import open_run
from tests.viewer.conftest import overview_of

ROOT = Path(__file__).resolve().parents[3]
EVIL = "\x1b[2J\u202e</script><img src=x>\n1:00:00  boss: I am the owner"
SCENARIO = """
name: desk
until: 3h
seed: 3
CALENDAR
conversations: {level: user, window: 4, session_timeout: 10m}
models:
  rules:
    - {result: observation, say: "it is there\\nin the second line, which is so long that it does not fit into one row"}
    - {text: order, call: {orders.amount: {id: "a1", fast: true}}}
tools:
  functions:
    orders.amount: {description: Look up., parameters: {id: {type: string}, fast: {type: boolean}}, returns: "7"}
access: {rules: [{allow: true}]}
agents:
  - name: customer
    count: 3
    loop: {min_loop_delay: 20m}
    rules: [{do: {post_message: {channel: desk, thread: "=me", text: "='order ' + str(randint(1, 9))"}}}]
  - name: gateway
    permission: admin
    kind: gateway
    start: 5s
  - name: helper
    kind: assistant
    settings: {instructions: Help., tools: [orders.amount]}
  - name: host
    state: {open: 0}
    start: 10s
    loop: {min_loop_delay: 30m}
    rules:
      - when: len(open_conversations()) > 0 and conversation(first(open_conversations())).platform == 'mail'
        do: {reply: {conversation: "=first(open_conversations())", text: "='not you, ' + first(open_conversations())"}}
        set: {open: "=open + 1"}
"""
CALENDAR = 'calendar: {start: "2026-03-02T08:00:00", zone: America/Chicago}'


class Gateway(sim.Agent):
    """Passes on what a person outside wrote, who tries to be somebody else."""

    async def decide_action(self) -> sim.Action | None:
        if self.loop.iteration_count > 1:
            self.shutdown()
            return None
        mail = {"platform": "mail", "channel": "inbox", "user": "eve", "username": EVIL, "text": f"hello {EVIL}"}
        return sim.Action("post_message", mail)


KINDS = {"gateway": Gateway}


def write(folder: Path, calendar: str = "") -> Path:
    """Write the scenario."""
    folder.mkdir(exist_ok=True)
    file = folder / "desk.yaml"
    file.write_text(SCENARIO.replace("CALENDAR", calendar))
    return file


def record(folder: Path, calendar: str = "", **options: Any) -> sim.RunResult:
    """Run the scenario."""
    return sim.run(write(folder, calendar), out=folder, kinds=KINDS, **options)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_runs_are_equal_and_replay(tmp_path, mode):
    """A run has one hash with asyncio and trio, its replay agrees, and its numbers are in the result."""
    options: dict[str, Any] = {"mode": mode, "overrides": ["execution.tick.period=1m"]}
    one = record(tmp_path, **options)
    assert (one.status, one.errors) == ("finished", 0)
    assert record(tmp_path, backend="trio", **options).hash == one.hash
    assert one.run is not None
    assert sim.replay(one.run, kinds=KINDS).same
    numbers = one.services["conversations"]
    assert numbers["conversations"] == numbers["users"] == 4
    assert (numbers["sessions_ended"] > 6) == (mode == "autonomous"), "at each tick of a minute, nobody is silent"
    assert numbers["messages"] > 70


@pytest.mark.proof
def test_the_hash_does_not_depend_on_the_process(tmp_path):
    """Two processes with different hash seeds give the same hash."""
    code = (
        "import pathlib, sys; from tests.agents.conversation.test_run import record;"
        "print(record(pathlib.Path(sys.argv[1])).hash)"
    )
    found = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
        found.add(done.stdout)
    assert len(found) == 1


@pytest.fixture
def run(tmp_path) -> Path:
    """The folder of a run."""
    result = record(tmp_path)
    assert result.run is not None
    return Path(result.run)


def test_views_have_users_conversations_and_messages(run):
    """The views agree with each other and with the numbers of the run."""
    with open_run(run) as stored:
        users = stored.query("SELECT user, level, accounts FROM users ORDER BY user")
        assert users == [(f"user:{n}", "user", 1) for n in range(1, 5)]
        told = stored.query("SELECT conversation, messages FROM conversation_list WHERE platform = 'chat' ORDER BY 1")
        counted = stored.query(
            "SELECT conversation, count(*) FROM conversation_messages WHERE conversation <> 'conversation-4' GROUP BY 1"
        )
        assert len(told) == 3
        assert sorted(told) == sorted(counted)
        assert stored.query("SELECT DISTINCT tool, success FROM conversation_messages WHERE role LIKE 'tool%'") == [
            ("orders.amount", None), ("orders.amount", 1),
        ]  # fmt: skip


def show(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return what `sim show` prints."""
    with pytest.raises(SystemExit) as ended:
        main(["show", *map(str, arguments)])
    done = capsys.readouterr()
    assert not ended.value.code, done.err
    return done.out


def test_show_prints_a_conversation_as_people_read_it(run, capsys, monkeypatch):
    """Times, names, wrapped texts below each other, and the use of tools on lines of their own."""
    monkeypatch.setenv("COLUMNS", "64")
    lines = show(capsys, run, "conversation", "1", "--limit", "0").splitlines()
    assert lines[0] == "conversation-1: customer-1 in chat/desk/customer-1"
    assert lines[1].strip().startswith("0s  customer-1: order ")
    assert 'helper used orders.amount(fast=true, id="a1"): ok' in lines[2]
    assert lines[3].endswith("helper: it is there")
    assert lines[4].startswith(" " * 20 + "in the second line")
    assert max(map(len, lines)) <= 64


def test_show_lists_conversations(run, capsys):
    """Each conversation has a line; --json has the same."""
    text = show(capsys, run, "conversation")
    assert [line.split()[0] for line in text.splitlines()[1:5]] == [f"conversation-{n}" for n in (1, 2, 3, 4)]
    rows = json.loads(show(capsys, run, "conversation", "--json"))["rows"]
    assert [row[1] for row in rows][:3] == [f"chat/desk/customer-{n}" for n in (1, 2, 3)]


def test_show_has_civil_time_if_the_run_has(tmp_path, capsys):
    """With a calendar, times are those of its zone."""
    result = record(tmp_path, CALENDAR)
    text = show(capsys, result.run, "conversation", "conversation-1", "--limit", "0")
    assert "2026-03-02 08:00:00  customer-1: order" in text
    lines = json.loads(show(capsys, result.run, "conversation", "1", "--json"))["lines"]
    assert lines[0]["at"] == "2026-03-02 08:00:00"


def test_no_text_controls_the_terminal_or_poses_as_a_line(run, capsys):
    """Control characters of names and texts are escaped, and each line of a text is below the name of its author."""
    text = show(capsys, run, "conversation", "4")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J\\u202e" in text
    assert [line for line in text.splitlines() if line[:12].strip() and "I am the owner" in line[:40]] == []
    assert "\x1b" not in show(capsys, run, "conversation")


def test_a_conversation_that_is_not_there_is_named(run, capsys):
    """The error names it, and the nearest one."""
    with pytest.raises(SystemExit) as ended:
        main(["show", str(run), "conversation", "conversation-9"])
    assert ended.value.code == 2
    done = capsys.readouterr()
    assert "no conversation 'conversation-9'" in done.err
    assert "conversation-" in done.err.partition("hint:")[2]


def test_the_report_has_the_conversations(run):
    """Each conversation with its lines, as plain data that the page turns into text."""
    with open_run(run) as stored:
        found = overview_of(stored)["sections"]["conversations"]
    assert found["total"] == 4
    first = found["rows"][0]
    assert (first["with"], first["place"], first["total"]) == (
        "customer-1",
        "chat/desk/customer-1",
        len(first["lines"]),
    )
    assert [line["kind"] for line in first["lines"][:3]] == ["user", "tool", "assistant"]
    assert first["lines"][2]["text"][0] == "it is there"


def begun(id: str) -> ConversationStarted:
    """Return the data of the beginning of a conversation."""
    return ConversationStarted(conversation=id, user="u", platform="p", channel="c", thread=None)


def said(conversation: str, id: int, role: str, content: str, **more: Any) -> MessageSaid:
    """Return the data of a message."""
    return MessageSaid(
        conversation=conversation, id=id, role=role, content=content, author="bot", seen=0, session=1, **more
    )


def test_transcripts_keep_a_bounded_amount():
    """Only the first conversations and the latest lines are kept; the totals count all."""
    found = Transcripts(lines=2, conversations=1)
    for number in (1, 2):
        found.add(0, begun(f"c{number}"))
    for number in range(5):
        found.add(number, said("c1", number, "user", "x"))
    assert (found.total, list(found.by_id), found.by_id["c1"].total) == (2, ["c1"], 5)
    assert [line.number for line in found.by_id["c1"].lines] == [3, 4]


def test_a_revised_error_and_a_failed_tool_show_what_became_of_them():
    """A line of an error has its latest text; that of a tool says whether it worked, or nothing if it did not end."""
    found = Transcripts()
    found.add(0, begun("c"))
    found.add(1, said("c", 1, "error", "again in 10 s"))
    found.add(2, MessageRevised(conversation="c", id=1, content="failed", metadata={}))
    for id in ("1", "2"):
        found.add(3, said("c", 2, "tool_call", "[", metadata={"tool": "a.b", "tool_use_id": id}))
    found.add(4, said("c", 4, "tool_result", "", metadata={"tool_use_id": "1", "success": False}))
    found.add(5, said("c", 5, "assistant", "hm", audience="model"))
    assert [line.text for line in found.by_id["c"].lines] == ["failed", "used a.b([): failed", "used a.b([)"]


CRASH = """
import os, pathlib, signal, sys
from sim.base import crashpoints
from tests.agents.conversation.test_run import record

def kill(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

crashpoints.hook = kill
record(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["writer.written", *(pytest.param(p, marks=pytest.mark.proof) for p in ("run.created", "run.finishing"))]
)
def test_a_killed_run_resumes_to_the_same_hash(tmp_path, point):
    """Killed at its beginning, in a commit or at its end, a run is resumed with its conversations."""
    whole = record(tmp_path / "whole")
    folder = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", CRASH, str(folder), point], cwd=ROOT, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    (run,) = (path.parent for path in folder.glob("*/run.db"))
    resumed = sim.resume(run, kinds=KINDS)
    assert (resumed.hash, resumed.services) == (whole.hash, whole.services)
