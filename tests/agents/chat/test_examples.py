"""The two worked examples of the seed, iteration by iteration: scripted, and at a real endpoint on loopback."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.chat.community import Community, community, say
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, fitting

HELLO = "Hello, how are you?"
WELL = "I'm doing well, thank you! How can I help you today?"
ASK = "Search for Python tutorials and save the top 3 links to a file"
DONE = "I've searched for Python tutorials and saved the top 3 links to python_tutorials.md"

CORPUS = {
    f"p{n}": {"title": f"Python tutorials {n}", "url": f"https://python.example/{n}", "text": "Learn Python."}
    for n in range(1, 5)
}
PERSONA = {"all": {"prompt": "You help.", "default": True, "modules": ["research", "file_manager"]}}
SEARCH = {"research.web_search": {"query": "Python tutorials", "max_results": 3}}
DOCUMENT = {"title": "python_tutorials.md", "content": "# Python Tutorials\n1. ...", "kind": "md"}

RULES: list[dict[str, Any]] = [
    {"text": "Hello", "say": WELL},
    {"when": "turn == 0", "call": SEARCH},
    {"when": "turn == 1", "call": {"file_manager.create_document": DOCUMENT}},
    {"say": DONE},
]
CHAT = {"personas": PERSONA, "corpus": CORPUS, "budget": {"guest": 100_000}}


def test_a_simple_query(tmp_path: Path) -> None:
    """A guest is made, one iteration without tools answers, and both messages are kept."""
    ran = community(tmp_path, RULES, [say(1, HELLO)], chat=CHAT)
    assert ran.rows("SELECT user, level, name FROM users") == [("user:1", "guest", "ana")]
    assert ran.messages() == [("user", HELLO), ("assistant", WELL)]
    assert ran.rows("SELECT iterations, tools, content, refusal FROM chat_responses") == [(1, 0, WELL, None)]
    (tokens,) = ran.rows("SELECT tokens FROM chat_responses")
    assert ran.rows("SELECT input_tokens + output_tokens FROM token_log") == [tokens]
    assert ran.chats.budgets.accounts["user:1"].used == tokens


def test_a_complex_query(tmp_path: Path) -> None:
    """Three iterations: a search, a document, an answer, with the file of the document."""
    ran = community(tmp_path, RULES, [say(1, ASK)], chat=CHAT, levels={"ana": "user"})
    messages = ran.messages()
    assert [role for role, _ in messages] == [
        "user", "tool_call", "tool_result", "tool_call", "tool_result", "assistant",
    ]  # fmt: skip
    assert json.loads(messages[1][1]) == SEARCH["research.web_search"]
    found = json.loads(messages[2][1])["observation"]
    assert [page["url"] for page in found] == [f"https://python.example/{n}" for n in (4, 3, 2)]
    assert json.loads(messages[3][1]) == DOCUMENT
    assert json.loads(messages[4][1])["observation"]["url"] == "file:///file-1"
    assert messages[5] == ("assistant", DONE)
    assert ran.rows("SELECT iterations, tools, content FROM chat_responses") == [(3, 2, DONE)]
    (files,) = ran.rows("SELECT files FROM chat_responses")
    assert json.loads(files) == [{"file_id": "file-1", "filename": "python_tutorials.md", "url": "file:///file-1"}]
    assert len(ran.rows("SELECT id FROM token_log")) == 3


def _serve(seen: Seen) -> Reply:
    """Answer as the model of the complex query: by the number of tool results."""
    results = sum(message["role"] == "tool" for message in seen.body["messages"])
    if results == 0:
        return fitting(seen, "", calls=[("research__web_search", json.dumps(SEARCH["research.web_search"]))])
    if results == 1:
        return fitting(seen, "", calls=[("file_manager__create_document", json.dumps(DOCUMENT))])
    return fitting(seen, DONE)


SCENARIO = """
name: tutorials
until: 10m
conversations: {levels: {chat: {ana: user}}}
chat:
  personas: {all: {prompt: You help., default: true, modules: [research, file_manager]}}
  corpus: {p: {title: Python tutorials, url: "https://python.example/1", text: Learn Python.}}
models: {}
agents:
  - {name: agent, kind: chat_agent, template: true, permission: owner}
  - name: ana
    rules:
      - when: iteration == 1
        do:
          send_chat_message: {channel: general, text: Search for Python tutorials and save the top 3 links to a file}
      - do: {sleep: {for: 1h}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_the_complex_query_at_a_real_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """With --model and --base-url alone, the same steps come from requests over a loopback socket."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    file = tmp_path / "tutorials.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    with Endpoint(_serve) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        more = (
            "--model",
            "openai:small",
            "--base-url",
            url,
            "--backend",
            backend,
            "--json",
            "--out",
            tmp_path / "runs",
        )
        code, out, err = command("run", file, *more)
    assert code == 0, err
    ran = Community(None, None, Path(json.loads(out)["run"]))  # type: ignore[arg-type]  # only its record is read
    assert [role for role, _ in ran.messages()] == [
        "user", "tool_call", "tool_result", "tool_call", "tool_result", "assistant",
    ]  # fmt: skip
    assert ran.answers() == [DONE]
    assert len(server.seen) == 3
    assert {tool["function"]["name"].partition("__")[0] for tool in server.seen[0].body["tools"]} == {
        "research", "file_manager",
    }  # fmt: skip
