"""The steps from a message to its answer: personas, attachments, context, fallbacks, errors, summaries."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.agents.chat import context
from sim.agents.chat.context import fitted, tokens
from sim.agents.chat.steps import extract_files
from sim.llm.types import ChatMessage
from tests.agents.chat.community import community, say

PERSONAS: dict[str, Any] = {
    "server": {"prompt": "I am the server.", "platform": "discord", "server": "garden"},
    "platform": {"prompt": "I am the platform.", "platform": "discord"},
    "default": {"prompt": "I am the default.", "default": True},
}
NAMES = [
    {"system": f"I am the {name}.", "say": name} for name in ("server", "platform", "default")
] + [{"system": "helpful assistant", "say": "none"}]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"platform": "discord", "server": "garden"}, "server"),
        ({"platform": "discord", "server": "other"}, "platform"),
        ({"platform": "discord"}, "platform"),
        ({"platform": "slack", "server": "garden"}, "default"),
    ],
)
def test_the_persona(tmp_path: Path, place: dict[str, str], expected: str) -> None:
    """The persona is that of the server, else of the platform, else the default."""
    ran = community(tmp_path, NAMES, [say(1, "Who are you?", **place)], chat={"personas": PERSONAS})
    assert ran.answers() == [expected]
    assert (
        ran.rows("SELECT data ->> '$.metadata.persona' FROM events WHERE topic = 'conversation.message'")[0] == expected
    )


def test_without_a_persona(tmp_path: Path) -> None:
    """Where no persona fits, the default prompt is used."""
    chat = {"personas": {"server": PERSONAS["server"]}}
    assert community(tmp_path, NAMES, [say(1, "Who are you?")], chat=chat).answers() == ["none"]


def test_the_model_and_the_longest_answer_of_a_persona(tmp_path: Path) -> None:
    """A persona names a tier, and the most tokens of an answer."""
    personas = {"all": {"prompt": "x", "default": True, "model": "large", "max_tokens": 5}}
    models = {"provider": "simulated", "tiers": {"small": "little", "large": "big"}, "default": "small"}
    ran = community(tmp_path, [{"say": "word " * 50}], [say(1, "go")], chat={"personas": personas}, models=models)
    assert ran.rows("SELECT model, output_tokens FROM token_log") == [("big", 5)]


def test_attachments(tmp_path: Path) -> None:
    """Attachments are records, and the message says their names, ids, sizes and types, in the words of the seed."""
    files: list[dict[str, Any]] = [
        {"filename": "a.txt", "mime_type": "text/plain", "content": "hello"},
        {"filename": "b.png", "mime_type": "image/png", "size_bytes": 2048},
    ]
    ran = community(tmp_path, [{"say": "ok"}], [say(1, "Look", attachments=files)])
    text = ran.messages()[0][1]
    assert text == (
        "Look\n\n[Attached files:]\n- a.txt (file_id: file-1, 5 bytes, text/plain)\n"
        "- b.png (file_id: file-2, 2048 bytes, image/png)\n"
        "Use file_manager.read_document(file_id) to read text files, or code_executor.load_file(file_id) "
        "then run_python to process them."
    )
    assert ran.rows("SELECT file, user, filename, mime_type, size_bytes FROM files") == [
        ("file-1", "user:1", "a.txt", "text/plain", 5), ("file-2", "user:1", "b.png", "image/png", 2048),
    ]  # fmt: skip


def test_too_many_files(tmp_path: Path) -> None:
    """A file above the limit is not taken, the message says so, and is answered."""
    files = [{"filename": f"{n}.txt", "content": "x"} for n in range(3)]
    ran = community(tmp_path, [{"say": "ok"}], [say(1, "Look", attachments=files)], chat={"files": 2})
    assert "[An attachment was not taken: there are 2 files already]" in ran.messages()[0][1]
    assert ran.answers() == ["ok"]


def test_the_same_tool_again_and_again(tmp_path: Path) -> None:
    """After five calls of one tool in a row the last text is the answer, marked as incomplete."""
    rules = [{"say": "=str(turn)", "call": {"research.web_search": {"query": "=str(turn)"}}}]
    ran = community(tmp_path, rules, [say(1, "go")], chat={"budget": {"guest": None}})
    assert ran.rows("SELECT iterations, refusal, content FROM chat_responses") == [(5, "not_finished", "4")]
    assert ran.rows("SELECT incomplete FROM conversation_messages ORDER BY id DESC LIMIT 1") == [1]


def test_ten_iterations(tmp_path: Path) -> None:
    """With two tools in turn, the most iterations are ten."""
    search = {"research.web_search": {"query": "=str(turn)"}}
    files: dict[str, Any] = {"file_manager.list_files": {}}
    rules = [{"when": "turn % 2 == 0", "call": search}, {"call": files}]
    ran = community(
        tmp_path, rules, [say(1, "go")], chat={"budget": {"guest": None}, "guest_modules": ["research", "file_manager"]}
    )
    assert ran.rows("SELECT iterations, error FROM chat_responses") == [(10, "max_iterations")]
    assert ran.answers() == ["I could not finish this."]


def test_a_fallback_answers(tmp_path: Path) -> None:
    """If the preferred model fails, the next one of its tier answers, and the record says which."""
    models = {
        "provider": "simulated", "tiers": {"usual": ["first", "second"]}, "default": "usual",
        "faults": [{"kind": "server", "models": ["first"]}],
    }  # fmt: skip
    ran = community(tmp_path, [{"say": "ok"}], [say(1, "go")], models=models)
    assert ran.answers() == ["ok"]
    assert ran.rows("SELECT model FROM token_log") == ["second"]
    assert ran.chats.counts["fallbacks"] == 1


def test_no_model_answers(tmp_path: Path) -> None:
    """If no model answers, the person gets a polite answer, and the record the cause."""
    ran = community(tmp_path, [{"fail": "bad_request"}], [say(1, "go"), say(60, "again")])
    assert ran.answers() == ["I cannot answer at the moment. Please try again later."] * 2
    assert ran.refusals == ["no_model"] * 2
    assert "bad_request" in ran.rows("SELECT error FROM chat_responses")[0]


def test_an_internal_error(tmp_path: Path) -> None:
    """Whatever fails inside, the person gets a polite answer, the record the cause, and the next message an answer."""
    build, calls = context.build_context, list[int]()

    def broken(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("the shelf is empty")
        return build(*given)

    with patch.object(context, "build_context", broken):
        ran = community(tmp_path, [{"say": "ok"}], [say(1, "go"), say(60, "again")])
    assert ran.answers() == ["I encountered an internal error. Please try again.", "ok"]
    assert ran.rows("SELECT refusal, error FROM chat_responses")[0] == (
        "internal_error", "ValueError: the shelf is empty",
    )  # fmt: skip
    assert ran.result.errors == 0


def test_long_conversations_are_summarised(tmp_path: Path) -> None:
    """What is past the window is in the summary; facts of it are memories, of which the best five are in the prompt."""
    known = "<conversation_summary>\n{summary*}\n</conversation_summary>*<memories>\n{facts*}\n</memories>"
    rules = [
        {"use": "summarize", "say": "They spoke of gardens."},
        {"use": "extract", "say": "- Ana has a rose garden.\n- Ana likes roses.\nnothing"},
        {"text": "roses", "system": known, "say": "=facts + ' | ' + summary"},
        {"say": "ok"},
    ]  # fmt: skip
    steps_of = [say(60 * n, f"message {n}") for n in range(1, 6)] + [say(900, "And roses?")]
    ran = community(tmp_path, rules, steps_of, chat={"budget": {"guest": None}}, conversations={"window": 2})
    assert ran.rows("SELECT is_summarized, summary FROM conversation_list") == [(1, "They spoke of gardens.")]
    facts, summary = ran.answers()[-1].split(" | ")
    assert set(facts.splitlines()) == {"Ana likes roses."}  # of both facts, the one with words of the message
    assert len(facts.splitlines()) <= 5
    assert summary == "They spoke of gardens."


def test_what_others_say_is_not_remembered_of_a_person(tmp_path: Path) -> None:
    """In a channel of several people, no facts are kept, because they could be about somebody else."""
    rules = [{"use": "summarize", "say": "s"}, {"use": "extract", "say": "Ana owes Bo 100."}, {"say": "ok"}]
    both = {name: [say(60 * n, f"message {n}") for n in range(1, 6)] for name in ("ana", "bo")}
    ran = community(tmp_path, rules, both, chat={"budget": {"guest": None}}, conversations={"window": 2})
    assert ran.chats.counts["summaries"] > 0
    assert ran.rows("SELECT memory FROM memories") == []


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
_history = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), _texts), min_size=1, max_size=20)


@given(history=_history, window=st.integers(30, 400), most=st.integers(120, 600))
def test_a_prompt_fits(history: list[tuple[Any, str]], window: int, most: int) -> None:
    """A prompt is never longer than allowed, ends with the last message, and begins with a message of a person."""
    messages = [ChatMessage(role, text) for role, text in [*history, ("user", "the question")]]
    system = ChatMessage("system", "You help.")
    made = fitted(system, messages, (), window, most)
    assert made[0] == system
    assert made[1].role == "user" or len(made) == len(messages) + 1
    assert tokens(made[1:]) <= window
    assert tokens(made) <= most
    assert made[-1].content == "the question"


@given(length=st.integers(0, 5000), window=st.integers(40, 300))
def test_a_single_message_is_cut_to_the_window(length: int, window: int) -> None:
    """A message that alone is longer than the window is cut, with a mark."""
    made = fitted(ChatMessage("system", "x"), [ChatMessage("user", "ab " * length)], (), window, 10_000)
    assert tokens(made[1:]) <= window
    assert made[1].content.endswith("[cut]") or made[1].content == "ab " * length


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"url": "u", "filename": "f"}, [("f", "u")]),
        ({"files": [{"url": "a"}, {"name": "b"}, 7]}, [("file", "a")]),
        ({"url": "u", "files": [{"url": "v"}]}, [("file", "u"), ("file", "v")]),
        ([{"url": "a page, no file"}], []),
        ({"url": 7}, []),
        ({"url": "u", "files": {"url": "v"}}, [("file", "u")]),
        ("text", []),
        (None, []),
    ],
)
def test_files_in_results(result: Any, expected: list[tuple[str, str]]) -> None:
    """Files are a `url` at the top of a result, and those in its list `files`."""
    assert [(one["filename"], one["url"]) for one in extract_files(result)] == expected


def test_files_are_taken_from_whole_results(tmp_path: Path) -> None:
    """A file at the end of a result that is too long for the model is in the answer; the model sees the beginning."""
    make = {"description": "x", "parameters": {}, "returns": "content", "artifact": "page"}
    rules = [{"when": "turn == 0", "call": {"big.make": {}}}, {"say": "done"}]
    chat = {"guest_modules": ["big"], "budget": {"guest": None}}
    tools = {"functions": {"big.make": {**make, "permission": "guest"}}}
    page = {"id": "page", "owner": "desk", "content": {"a": "x" * 9000, "filename": "f", "url": "u"}}
    ran = community(tmp_path, rules, [say(1, "go")], chat=chat, tools=tools, artifacts=[page], accounts={"desk": 0})
    (files,) = ran.rows("SELECT files FROM chat_responses")
    assert '"url":"u"' in files
    assert '"url"' not in next(content for role, content in ran.messages() if role == "tool_result")
