"""The modules of tools: scheduler, file_manager, code_executor, research, location."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.tools.process import sandbox_fault
from tests.agents.chat.community import Community, community, say
from tests.agents.people import Step

MODULES = ["scheduler", "file_manager", "code_executor", "research", "location"]
OPEN: dict[str, Any] = {
    "personas": {"all": {"prompt": "x", "default": True, "modules": MODULES}},
    "budget": {"guest": None, "user": None},
}  # fmt: skip


def called(tmp_path: Path, *calls: Any, steps: list[Step] | None = None, **options: Any) -> Community:
    """Run a chat whose agent makes one call of a tool for each turn, then answers."""
    asked = "turn == {0} and conversation[-(2 * {0} + 1)].text[:2] == 'go'"
    rules = [{"when": asked.format(n), "call": call} for n, call in enumerate(calls)]
    chat = {**OPEN, **options.pop("chat", {})}
    rest = [{"role": "tool", "say": "ok"}, {"text": "{all*}", "say": "=all"}]
    levels = {"ana": "user", "bo": "user"}
    return community(tmp_path, [*rules, *rest], steps or [say(1, "go")], chat=chat, levels=levels, **options)


def results(ran: Community) -> list[Any]:
    """Return the observation, or the error, of each tool call."""
    found = [json.loads(content) for role, content in ran.messages() if role == "tool_result"]
    return [one.get("observation", one.get("error")) for one in found]


def test_a_job_goes_on_with_the_conversation(tmp_path: Path) -> None:
    """A job comes at its time, in the same place, also after the agent was let go. It is no word of the person."""
    ran = called(tmp_path, {"scheduler.add_job": {"message": "Time to water", "after": "3h"}}, until="5h")
    assert results(ran) == [{"due": 10_801.0, "job_id": "job-1"}]
    text = '<scheduled_job id="job-1">\nTime to water\n</scheduled_job>'
    assert ran.rows("SELECT round(time), content, job FROM chat_responses")[1] == (10_801, text, "job-1")
    sent = ran.rows("SELECT author, audience, content FROM conversation_messages WHERE role = 'user'")
    assert sent == [("user:1", "all", "go"), ("scheduler", "model", text)]
    assert ran.chats.conversations.behalf("conversation-1") == ("user:1",)
    assert ran.rows("SELECT DISTINCT conversation FROM conversation_messages") == ["conversation-1"]
    assert ran.rows('SELECT job, user, content, "end" FROM scheduled_jobs') == [
        ("job-1", "user:1", "Time to water", "done")
    ]


def test_jobs_are_listed_and_cancelled(tmp_path: Path) -> None:
    """A cancelled job does not come."""
    add = {"scheduler.add_job": {"message": "x", "after": "1h"}}
    cancel = {"scheduler.cancel_job": {"job_id": "job-1"}}
    ran = called(tmp_path, add, {"scheduler.list_jobs": {}}, cancel, {"scheduler.list_jobs": {}}, until="3h")
    assert [len(found) for found in (results(ran)[1], results(ran)[3])] == [1, 0]
    assert len(ran.answers()) == 1
    assert ran.rows('SELECT "end" FROM scheduled_jobs') == ["cancelled"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ({"scheduler.add_job": {"message": "x", "after": "soon"}}, "soon"),
        ({"scheduler.add_job": {"message": "x", "after": "0s"}}, "a job is due in the next 366 days"),
        ({"scheduler.add_job": {"message": "x", "after": "400d"}}, "a job is due in the next 366 days"),
        ({"scheduler.add_job": {"message": " ", "after": "1h"}}, "1 to 4,000 characters"),
        ({"scheduler.cancel_job": {"job_id": "job-9"}}, "there is no job 'job-9'"),
        ({"file_manager.read_document": {"file_id": "file-9"}}, "there is no file 'file-9'"),
        ({"file_manager.create_document": {"title": " ", "content": "x"}}, "a document has a title"),
        ({"file_manager.create_document": {"title": "x", "content": "y" * 20}}, "a file has at most 10 characters"),
        ({"research.web_search": {"query": "x", "max_results": 0}}, "1 to 20 pages"),
        ({"location.remind_at": {"place": " ", "message": "x"}}, "a reminder needs a place"),
        ({"code_executor.run_python": {"code": "print(1)"}}, "has not allowed commands"),
    ],
)
def test_what_a_tool_refuses(tmp_path: Path, call: dict[str, Any], why: str) -> None:
    """A refusal is an error that the model reads, and the conversation goes on."""
    ran = called(tmp_path, call, chat={"file_length": 10})
    assert why in results(ran)[0]
    assert ran.answers() == ["ok"]


def test_a_user_has_a_limit_of_jobs(tmp_path: Path) -> None:
    """The job above the limit is refused."""
    adds = [{"scheduler.add_job": {"message": f"m{n}", "after": "1h"}} for n in range(3)]
    ran = called(tmp_path, *adds, chat={"jobs": 2}, until="30m")
    assert "there are 2 jobs already" in results(ran)[2]


def test_files_belong_to_their_user(tmp_path: Path) -> None:
    """Another user can neither read nor list nor load a file."""
    make = {"file_manager.create_document": {"title": "secret", "content": "42"}}
    rules = [
        {"text": "make", "when": "turn == 0", "call": make},
        {"text": "read", "when": "turn == 0", "call": [
            {"file_manager.read_document": {"file_id": "file-1"}}, {"file_manager.list_files": {}},
            {"code_executor.load_file": {"file_id": "file-1"}},
        ]},
        {"say": "ok"},
    ]  # fmt: skip
    steps = {"ana": [say(1, "make"), say(60, "read")], "bo": [say(90, "read", "other")]}
    ran = community(tmp_path, rules, steps, chat=OPEN, levels={"ana": "user", "bo": "user"})
    own = [json.loads(content) for role, content in ran.messages() if role == "tool_result"]
    assert own[1]["observation"] == {"content": "42", "filename": "secret.md"}
    foreign = [json.loads(content) for role, content in ran.messages("conversation-2") if role == "tool_result"]
    assert [one.get("success") for one in foreign] == [False, True, False]
    assert foreign[1]["observation"] == []


def test_a_reminder_comes_at_its_place(tmp_path: Path) -> None:
    """A reminder for a place comes when its person arrives there, once."""
    call = {"location.remind_at": {"place": "market", "message": "Buy soil"}}
    steps: list[Step] = [
        say(1, "go"), (100, "share_location", {"place": "home"}), (200, "share_location", {"place": "market"}),
        (300, "share_location", {"place": "market"}), say(400, "where"),
    ]  # fmt: skip
    ran = called(tmp_path, call, steps=steps)
    assert ran.rows("SELECT round(time), content FROM chat_responses") == [
        (1, "ok"), (200, '<scheduled_job id="job-1">\nBuy soil\n</scheduled_job>'), (400, "where"),
    ]  # fmt: skip
    assert ran.chats.locations == {"user:1": "market"}


@pytest.mark.skipif(sandbox_fault() is not None, reason=f"no sandbox here: {sandbox_fault()}")
def test_python_runs_with_the_files_of_the_user(tmp_path: Path) -> None:
    """Code runs in a sandbox with the files that were loaded; the files that it writes are files of the user."""
    file = {"filename": "numbers.txt", "content": "1 2 3"}
    code = "n = sum(map(int, open('numbers.txt').read().split()))\nprint(n)\nopen('sum.txt', 'w').write(str(n))"
    ran = called(
        tmp_path, {"code_executor.load_file": {"file_id": "file-1"}}, {"code_executor.run_python": {"code": code}},
        steps=[say(1, "go", attachments=[file])], run={"allow_commands": True},
    )  # fmt: skip
    loaded, result = results(ran)
    assert loaded == "numbers.txt is in the folder"
    assert (result["exit_code"], result["stdout"].strip()) == (0, "6")
    assert [one["filename"] for one in result["files"]] == ["sum.txt"]
    assert ran.chats.files["file-2"].content == "6"
    (files,) = ran.rows("SELECT files FROM chat_responses")
    assert json.loads(files)[0]["filename"] == "sum.txt"


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (say(1, " "), "the message needs a text"),
        (say(1, "x", " "), "the name of a channel"),
        (say(1, "x", attachments=7), "attachments is a list of at most 10 files"),
        (say(1, "x", attachments=[{"filename": "x"}] * 11), "attachments is a list of at most 10 files"),
        (say(1, "x", attachments=[{}]), "an attachment is a mapping with a filename"),
        (say(1, "x", attachments=[{"filename": "x", "contents": "y"}]), "did you mean 'content'"),
        (say(1, "x", attachments=[{"filename": "x", "size_bytes": -1}]), "the size_bytes of an attachment"),
        ((1, "share_location", {"place": ""}), "a place has 1 to 200 characters"),
    ],
)
def test_what_people_cannot_send(tmp_path: Path, step: Step, why: str) -> None:
    """A refusal says what is wrong, and changes nothing: no user, no conversation, no agent."""
    ran = community(tmp_path, [{"say": "ok"}], [step])
    (error,) = ran.rows("SELECT error FROM actions WHERE success = 0")
    assert why in error
    assert ran.rows("SELECT user FROM users") == []
    assert ran.chats.state() is None


def test_a_tool_that_failed_is_tried_once_more(tmp_path: Path) -> None:
    """A call outside that failed is made once more, if that does no harm; then the model reads the error."""
    tools = {"commands": {"my.count": {"description": "x", "command": ["python", "-c", ""]}}}
    chat = {"personas": {"all": {"prompt": "x", "default": True, "modules": ["my"]}}}
    ran = called(tmp_path, {"my.count": {}}, chat=chat, tools=tools)  # commands are not allowed, so it fails
    assert ran.rows("SELECT count(*) FROM effects WHERE kind = 'tool.my.count'") == [2]
    assert "has not allowed commands" in results(ran)[0]
    assert ran.answers() == ["ok"]
