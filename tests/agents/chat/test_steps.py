"""The steps from a message to its answer: personas, attachments, context, fallbacks, errors, summaries."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kinds.chat import context
from sim.kinds.chat.context import fitted, tokens
from sim.kinds.chat.steps import extract_files
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
        {
            "filename": "b.png",
            "mime_type": "image/png",
            "size_bytes": 2048,
            "url": "https://x.example/b",
            "minio_key": "k/b",
        },
    ]
    ran = community(tmp_path, [{"say": "ok"}], [say(1, "Look", attachments=files)])
    text = ran.messages()[0][1]
    assert text == (
        "Look\n\n[Attached files:]\n- a.txt (file_id: file-1, 5 bytes, text/plain)\n"
        "- b.png (file_id: file-2, 2048 bytes, image/png)\n"
        "Use file_manager.read_document(file_id) to read text files, or code_executor.load_file(file_id) "
        "then run_python to process them."
    )
    assert ran.rows("SELECT file, user, filename, mime_type, size_bytes, url, minio_key FROM files") == [
        ("file-1", "user:1", "a.txt", "text/plain", 5, "file:///file-1", None),
        ("file-2", "user:1", "b.png", "image/png", 2048, "https://x.example/b", "k/b"),
    ]


def test_too_many_files(tmp_path: Path) -> None:
    """A file above the limit is not taken, the message says so, and is answered."""
    files = [{"filename": f"{n}.txt", "content": "x"} for n in range(3)]
    ran = community(tmp_path, [{"say": "ok"}], [say(1, "Look", attachments=files)], chat={"files": 2})
    assert "[An attachment was not taken: there are 2 files already]" in ran.messages()[0][1]
    assert ran.answers() == ["ok"]


@pytest.mark.parametrize(
    ("limits", "ending", "iterations"),
    [
        ({}, "max_iterations", 10),
        ({"same_tool": 5}, "same_tool", 5),
        ({"tokens": 400}, "max_tokens", 3),
        ({"history": 5}, "history_length", 2),
        ({"iterations": 30, "time": 1}, "max_time", 1),
    ],
)
def test_the_limits_of_an_answer(tmp_path: Path, limits: dict[str, Any], ending: str, iterations: int) -> None:
    """Each limit of the engine can be set. It ends the answer with the last text, once, and is named."""
    rules = [{"say": "=str(turn)", "call": {"research.web_search": {"query": "=str(turn)"}}}]
    models = {"provider": "simulated", "simulated": {"first_token": 2 if "time" in limits else 0, "per_token": 0}}
    chat = {"budget": {"guest": None}, "limits": limits}
    ran = community(tmp_path, rules, [say(1, "go")], chat=chat, models=models)
    last = str(iterations - 1)
    assert ran.rows("SELECT iterations, refusal, content, incomplete, ending, error FROM chat_responses") == [
        (iterations, "not_finished", last, 1, ending, ending)
    ]
    told = [m for m in ran.chats.conversations.thread("conversation-1") if m.role == "assistant"]
    assert [m.content for m in told] == [last]
    rows = "SELECT incomplete, ending, final FROM conversation_messages WHERE role = 'assistant' ORDER BY id"
    assert ran.rows(rows) == [(0, None, 0)] * iterations + [(1, ending, 1)]
    history = ran.chats.conversations.history("conversation-1")
    assert sum(message.content == last for message in history) == 1


def test_six_searches_are_no_loop(tmp_path: Path) -> None:
    """Calls of one tool in a row do not end an answer, unless the scenario says so."""
    search = {"research.web_search": {"query": "=str(turn)"}}
    rules = [{"when": "turn < 6", "call": search}, {"say": "Here it is."}]
    ran = community(tmp_path, rules, [say(1, "compare six things")])
    assert ran.rows("SELECT iterations, tools, content, ending, stop FROM chat_responses") == [
        (7, 6, "Here it is.", "natural_completion", "end_turn")
    ]


def test_a_limit_of_no_money_makes_no_call(tmp_path: Path) -> None:
    """With `cost: 0` no call is made, free or not, and the answer says which limit was reached."""
    ran = community(tmp_path, [{"say": "ok"}], [say(1, "go")], chat={"limits": {"cost": 0}})
    assert ran.answers() == ["I could not finish this: the limit max_cost was reached."]
    assert ran.rows("SELECT iterations, ending FROM chat_responses") == [(0, "max_cost")]


def test_wrong_calls_are_answers_too(tmp_path: Path) -> None:
    """With at most ten model calls there are ten, also if some of them call what there is not."""
    rules = [
        {"when": "turn % 3 == 0", "call": {"no.tool": {}}}, {"call": {"research.web_search": {"query": "=str(turn)"}}},
    ]  # fmt: skip
    ran = community(tmp_path, rules, [say(1, "go")], chat={"budget": {"guest": None}, "limits": {"invalid_answers": 9}})
    assert ran.rows("SELECT iterations, ending FROM chat_responses") == [(10, "max_iterations")]
    assert len(ran.rows("SELECT id FROM token_log")) == 10
    assert [role for role, _ in ran.messages()].count("tool_call") == 10


def test_a_text_that_was_cut_off_is_incomplete(tmp_path: Path) -> None:
    """The text that reached `max_tokens` is the answer, marked; the row says why it stopped and what it cost."""
    calls = {"research.web_search": {"query": "x"}}
    rules = [{"when": "turn == 0", "call": calls}, {"say": "A long text without", "stop": "max_tokens"}]
    ran = community(tmp_path, rules, [say(1, "go")])
    assert ran.rows("SELECT content, refusal, incomplete, stop, error LIKE '%cut off%' FROM chat_responses") == [
        ("A long text without", "not_finished", 1, "max_tokens", 1)
    ]
    own = ran.rows("SELECT output_tokens FROM token_log ORDER BY id DESC LIMIT 1")
    rows = "SELECT incomplete, ending, tokens FROM conversation_messages WHERE role = 'assistant'"
    assert ran.rows(rows) == [(1, "max_tokens", own[0])]  # the tokens of the text, not of all calls
    assert [message.role for message in ran.chats.conversations.history("conversation-1")][-1] == "assistant"


def test_a_limit_that_skips_is_no_error(tmp_path: Path) -> None:
    """A limit with the policy `skip` without room during an answer gives a polite one; the record says which."""
    limits = {"llm_calls": {"agent": "1 per 1h", "policy": "skip"}}
    rules = [{"when": "turn == 0", "call": {"research.web_search": {"query": "x"}}}, {"say": "ok"}]
    ran = community(tmp_path, rules, [say(1, "go")], limits=limits)
    assert ran.answers() == ["I cannot answer at the moment. Please try again later."]
    assert ran.refusals == ["skipped"]
    assert "llm_calls" in ran.rows("SELECT error FROM chat_responses")[0]
    assert ran.rows("SELECT ending, iterations, tools, tokens FROM chat_responses") == [
        ("llm_calls", 1, 1, *ran.rows("SELECT sum(input_tokens + output_tokens) FROM token_log"))
    ]  # what was done before is not lost
    assert ran.result.services["chat"]["refused_internal_error"] == ran.result.errors == 0


def test_rules_know_tools_by_their_names(tmp_path: Path) -> None:
    """An expression of a scripted rule sees the names of the tools that are offered as the scenario writes them."""
    rules = [{"when": "'research.web_search' in tools", "say": "=', '.join(tools)"}, {"say": "unknown"}]
    rules[0]["say"] = "=tools[0]"
    assert community(tmp_path, rules, [say(1, "go")]).answers() == ["research.web_search"]


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

    def broken(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("the shelf is empty")
        return build(*given, **named)

    with patch.object(context, "build_context", broken):
        ran = community(tmp_path, [{"say": "ok"}], [say(1, "go"), say(60, "again")])
    assert ran.answers() == ["I encountered an internal error. Please try again.", "ok"]
    assert ran.rows("SELECT refusal, error FROM chat_responses")[0] == (
        "internal_error", "ValueError: the shelf is empty",
    )  # fmt: skip
    assert ran.result.errors == 0


def test_an_internal_error_midway_counts_what_was_done(tmp_path: Path) -> None:
    """An error after a call and a tool leaves both, and their tokens, in the row of the answer, as in the token log."""
    rules = [{"when": "turn == 0", "call": {"research.web_search": {"query": "x"}}}, {"say": "ok"}]
    with patch("sim.kinds.chat.steps.extract_files", side_effect=ValueError("no shelf")):
        ran = community(tmp_path, rules, [say(1, "go")])
    ((refusal, iterations, tools, tokens),) = ran.rows("SELECT refusal, iterations, tools, tokens FROM chat_responses")
    assert (refusal, iterations, tools) == ("internal_error", 1, 1)
    assert [tokens] == ran.rows("SELECT sum(input_tokens + output_tokens) FROM token_log")


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


def test_summaries_are_made_in_batches_and_facts_kept_once(tmp_path: Path) -> None:
    """A full window is summarised by half of it at once; a fact that comes again is one memory, and counted."""
    rules = [
        {"use": "summarize", "say": "s"}, {"use": "extract", "say": "='Ana likes roses' + ('.' if calls % 2 else '!')"},
        {"text": "roses", "system": "<memories>\n{facts*}\n</memories>", "say": "=facts"}, {"say": "ok"},
    ]  # fmt: skip
    steps_of = [say(60 * n, f"message {n}") for n in range(1, 13)] + [say(900, "And roses?")]
    ran = community(tmp_path, rules, steps_of, chat={"budget": {"guest": None}}, conversations={"window": 8})
    assert ran.chats.counts["summaries"] == 3  # of 26 messages, at least 4 at once
    assert ran.answers()[-1] == "Ana likes roses!"
    assert ran.rows("SELECT content, count, latest > time FROM memories") == [("Ana likes roses!", 3, 1)]


def test_what_others_say_is_not_remembered_of_a_person(tmp_path: Path) -> None:
    """In a channel of several people, no facts are kept, because they could be about somebody else."""
    rules = [{"use": "summarize", "say": "s"}, {"use": "extract", "say": "Ana owes Bo 100."}, {"say": "ok"}]
    both = {name: [say(60 * n, f"message {n}") for n in range(1, 6)] for name in ("ana", "bo")}
    ran = community(tmp_path, rules, both, chat={"budget": {"guest": None}}, conversations={"window": 2})
    assert ran.chats.counts["summaries"] > 0
    assert ran.rows("SELECT memory FROM memories") == []


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
_history = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), _texts), min_size=1, max_size=20)


@pytest.mark.slow
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


def test_a_file_keeps_its_key() -> None:
    """The key of a file in an object store is in the answer, if the result of the tool has it."""
    (file,) = extract_files({"files": [{"url": "u", "filename": "f", "minio_key": "k"}]})
    assert file == {"filename": "f", "url": "u", "file_id": None, "minio_key": "k"}


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
