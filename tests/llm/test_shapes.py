"""What servers and models really send, and what happens then: each shape over HTTP from a server on loopback.

The shapes are from public threads about llama.cpp, vLLM, Ollama, OpenRouter, Gemini, DeepSeek, Qwen, Mistral and
gpt-oss; the names of the cases say which.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

import sim
from sim.llm import Access
from sim.record.reader import open_run
from tests.helpers import named
from tests.llm.endpoint import USAGE, Endpoint, Reply, Seen, error, event, whole
from tests.llm.scenes import Scene, data

YES = '{"answer": "yes"}'
HIDDEN = {"reasoning_tokens": 1024}
THOUGHTS = "Is it yes? Perhaps."


@attrs.frozen
class Case:
    """A shape, and what happens.

    Args:
        reply: what the server answers, each time.
        got: the value that the agent gets; None: none.
        requests: how many requests are made.
        said: a part of the error, if the agent gets none.
        models: further lines of `models`.
    """

    reply: Reply
    got: Any = "yes"
    requests: int = 1
    said: str = ""
    models: str = ""


def text(content: Any, finish: str = "stop", usage: Any = USAGE, **fields: Any) -> Reply:
    """Return an answer with a message of this content."""
    return Reply(body=whole(content, finish=finish, usage=usage, **fields))


def called(arguments: Any, name: str = "decide", finish: str = "tool_calls") -> Reply:
    """Return an answer with one tool call."""
    function = {"name": name, "arguments": arguments}
    return text(None, finish, tool_calls=[{"id": "c1", "type": "function", "function": function}])


def chunks(*deltas: Mapping[str, Any], finish: str = "stop") -> Reply:
    """Return an answer as a stream of deltas."""
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    last = {"index": 0, "delta": {}, "finish_reason": finish}
    parts = [{"id": "x", "model": "m", "choices": [choice]} for choice in (*choices, last)]
    return Reply(events=(*map(event, parts), event({"choices": [], "usage": USAGE}), event(b"[DONE]")))


TOOL_SPECS = """
  latency: 1s
  retry: {timeout: 5s, deadline: 20s}
  tools:
    decide: {description: decides, parameters: {answer: {type: string, enum: ["yes", "no"]}}}
    wait: {description: waits}
"""


def asked(script: Any, asks: Sequence[str], value: str, models: str = "") -> tuple[Scene, Mapping[str, list[Seen]]]:
    """Return a run in which each agent asks once, and the requests of each."""
    agents = "".join(
        f"""
  - name: asker-{number}
    state: {{got: null}}
    loop: {{min_loop_delay: 5m}}
    rules: [{{do: {{ask: {{prompt: "Well, asker-{number}?", {ask}}}}}, set: {{got: "={value}"}}}}]
"""
        for number, ask in enumerate(asks)
    )
    with Endpoint(script) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="key-of-the-test")
        scene = Scene(TOOL_SPECS + models, agents, "until: 1m", access=access).run()
    by_agent: dict[str, list[Seen]] = {f"asker-{number}": [] for number in range(len(asks))}
    for seen in endpoint.seen:
        by_agent[asker(seen)].append(seen)
    return scene, by_agent


def asker(seen: Seen) -> str:
    """Return the agent that a request is of."""
    question = next(message["content"] for message in seen.body["messages"] if message["role"] == "user")
    return str(question.split()[-1].strip("?"))


def checked(cases: Mapping[str, Case], ask: str, value: str) -> Mapping[str, tuple[Any, int, str]]:
    """Run all cases with the same settings together, and return for each what was got, the requests, and the errors."""
    found = {}
    for models in dict.fromkeys(case.models for case in cases.values()):
        chosen = {name: case for name, case in cases.items() if case.models == models}
        replies = [case.reply for case in chosen.values()]
        asks = [ask + (", stream: true" if reply.events else "") for reply in replies]
        scene, seen = asked(lambda seen, them=replies: them[int(asker(seen)[6:])], asks, value, models)
        errors = [(row.actor, data(row.data)) for row in named(scene.recorder.rows) if row.topic == "action.ask"]
        for number, name in enumerate(chosen):
            agent = f"asker-{number}"
            said = " ".join(event["error"] for actor, event in errors if actor == agent and not event["success"])
            found[name] = (scene.state(agent)["got"], len(seen[agent]), said)
    return found


def check(case: Case, found: tuple[Any, int, str]) -> None:
    """Compare what has happened with what should."""
    got, requests, said = found
    assert got == case.got, said
    assert requests == case.requests
    assert case.said in said
    assert bool(said) == (case.got is None)


JSON = {
    "plain": Case(text(YES)),
    "a fence (Gemma 4 and Ollama, OpenRouter)": Case(text(f"```json\n{YES}\n```")),
    "a fence without a label": Case(text(f"\n```\n{YES}\n```\n")),
    "a fence in one line": Case(text(f"```json {YES} ```")),
    "tildes": Case(text(f"~~~json\n{YES}\n~~~")),
    "a byte order mark": Case(text(f"\ufeff{YES}")),
    "think (DeepSeek R1 and Ollama)": Case(text(f'<think>{{"answer": "no"}}?</think>\n{YES}')),
    "think with a fence": Case(text(f"<think>\n{THOUGHTS}\n</think>\n\n```json\n{YES}\n```")),
    "think without its beginning (vLLM 13125, lmdeploy 3303)": Case(text(f"{THOUGHTS}\n</think>\n\n{YES}")),
    "empty think (Qwen 3 with /no_think)": Case(text(f"<think>\n\n</think>\n\n{YES}")),
    "thought (Gemini)": Case(text(f"<thought>{THOUGHTS}</thought>{YES}")),
    "[THINK] (Magistral and llama.cpp)": Case(text(f"[THINK]{THOUGHTS}[/THINK]{YES}")),
    "thinking in uppercase": Case(text(f"<THINKING>{THOUGHTS}</THINKING>{YES}")),
    "parts (Mistral 742)": Case(
        text([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHTS}]}, {"type": "text", "text": YES}])
    ),
    "harmony (gpt-oss and vLLM 23567)": Case(
        text(
            f"<|channel|>analysis<|message|>{THOUGHTS}<|end|><|start|>assistant<|channel|>final<|message|>{YES}<|return|>"
        )
    ),
    "harmony without its tokens (macprovider 743)": Case(text(f"analysis{THOUGHTS}assistantfinal{YES}")),
    "a channel (Gemma 4)": Case(text(f"<|channel>thought\n{THOUGHTS}<channel|>{YES}")),
    "reasoning_content (vLLM, DeepSeek)": Case(text(YES, reasoning_content=THOUGHTS)),
    "reasoning (Ollama, OpenRouter)": Case(text(YES, reasoning=THOUGHTS)),
    "reasoning_details (OpenRouter)": Case(
        text(YES, reasoning_details=[{"type": "reasoning.text", "text": THOUGHTS}, {"type": "reasoning.encrypted"}])
    ),
    "the end of the turn (llama.cpp)": Case(text(f"{YES}<|im_end|>")),
    "prose around it": Case(text(f"Sure! {YES} Hope this helps."), None, 3, "the answer is not JSON"),
    "two fences": Case(text(f"```json\n{YES}\n```\n```json\n{YES}\n```"), None, 3, "the answer is not JSON"),
    "a trailing comma": Case(text('{"answer": "yes",}'), None, 3, "the answer is not JSON"),
    "single quotes": Case(text("{'answer': 'yes'}"), None, 3, "the answer is not JSON"),
    "another case": Case(text('{"answer": "Yes"}'), None, 3, "one of yes, no"),
    "cut off": Case(text('{"answer": "ye', "length"), None, 3, "cut off at its token limit"),
    "reasoning alone (vLLM 52640)": Case(
        text(None, "length", reasoning=THOUGHTS), None, 1, "spent 5 tokens on reasoning; raise models.max_tokens"
    ),
    "think that does not end (1Cat-vLLM 47)": Case(
        text(f"<think>{THOUGHTS}", "length"), None, 1, "or turn reasoning off"
    ),
    "hidden reasoning (OpenAI)": Case(
        text("", "length", USAGE | {"completion_tokens": 1030, "completion_tokens_details": HIDDEN}),
        None, 1, "spent 1,024 tokens on reasoning; raise models.max_tokens or turn reasoning off",
    ),
    "hidden reasoning beside the output (Gemini)": Case(
        text("", "length", {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 107}),
        None, 1, "spent 100 tokens on reasoning",
    ),
    "the answer in the reasoning (Qwen 3, vLLM 17357)": Case(
        text(None, reasoning_content="yes"), None, 2, "gave an empty answer beside its reasoning"
    ),
    "null": Case(text(None), None, 2, "gave an empty answer"),
    "spaces": Case(text(" \n"), None, 2, "gave an empty answer"),
    "MAX_TOKENS (Gemini)": Case(text("{", "MAX_TOKENS"), None, 3, "cut off at its token limit"),
    "eos (Together, TGI)": Case(text(YES, "eos")),
    "a stream with think": Case(chunks({"content": "<thi"}, {"content": f"nk>{THOUGHTS}</think>"}, {"content": YES})),
    "a stream with reasoning (Ollama)": Case(chunks({"reasoning": THOUGHTS, "content": ""}, {"content": YES})),
}  # fmt: skip

FORM = 'response_format: {type: object, properties: {answer: {type: string, enum: ["yes", "no"]}}, required: [answer]}'


@pytest.fixture(scope="module")
def json_answers():
    """What happens in all cases of JSON."""
    return checked(JSON, FORM, "result.data.value.answer")


@pytest.mark.parametrize("name", JSON)
def test_json(json_answers: Mapping[str, Any], name: str):
    """Reasoning and one fence around JSON are not a part of it; the rest is parsed strictly, and asked for again.

    Reasoning that used up the tokens is said in one sentence and not paid for twice. An empty answer is no answer.
    """
    check(JSON[name], json_answers[name])


WRITTEN = "  endpoints: {openai: {tool_calls: text}}"
CALL = '{"name": "decide", "arguments": {"answer": "yes"}}'
TOOLS = {
    "plain": Case(called(YES)),
    "finish reason stop": Case(called(YES, finish="stop")),
    "an object (Ollama)": Case(called({"answer": "yes"})),
    "encoded twice": Case(called(json.dumps(YES))),
    "without an id": Case(text(None, tool_calls=[{"function": {"name": "decide", "arguments": YES}}])),
    "functions. (gpt-oss)": Case(called(YES, "functions.decide")),
    "a channel in the name (vLLM 32587)": Case(called(YES, "decide<|channel|>commentary")),
    "nothing": Case(called(""), None, 3, "the arguments lack 'answer'"),
    "broken": Case(called('{"answer": "ye'), None, 3, "the arguments are not a JSON object"),
    "another tool": Case(called(YES, "search_web"), None, 3, "there is no tool 'search_web'"),
    "text that is not read": Case(text(CALL), None, 3, "models.endpoints.NAME.tool_calls: text"),
    "JSON (Qwen 2.5 Coder and Ollama)": Case(text(CALL), models=WRITTEN),
    "JSON in a fence": Case(text(f"```json\n{CALL}\n```"), models=WRITTEN),
    "a list": Case(text(f"[{CALL}]"), models=WRITTEN),
    "tool_calls in the text (llama.cpp 14697)": Case(text(f'{{"tool_calls": [{CALL}]}}'), models=WRITTEN),
    "tool_call (Qwen, Hermes)": Case(text(f"<tool_call>\n{CALL}\n</tool_call>"), models=WRITTEN),
    "tool_call after think": Case(text(f"<think>{CALL}</think>\n<tool_call>{CALL}</tool_call>"), models=WRITTEN),
    "tool_call that does not end": Case(text(f"I will.\n<tool_call>\n{CALL}"), models=WRITTEN),
    "XML (Qwen 3 Coder)": Case(
        text("<tool_call>\n<function=decide>\n<parameter=answer>\nyes\n</parameter>\n</function>\n</tool_call>"),
        models=WRITTEN,
    ),
    "function (Llama 3.2)": Case(text(f"<function=decide>{YES}</function>"), models=WRITTEN),
    "python_tag (Llama 3.1)": Case(
        text('<|python_tag|>{"name": "decide", "parameters": {"answer": "yes"}}<|eom_id|>'), models=WRITTEN
    ),
    "[TOOL_CALLS] (Mistral)": Case(text(f"[TOOL_CALLS][{CALL}]"), models=WRITTEN),
    "[ARGS] (Mistral, Devstral)": Case(text(f"[TOOL_CALLS]decide[ARGS]{YES}"), models=WRITTEN),
    "arg_key (GLM)": Case(
        text("<tool_call>decide\n<arg_key>answer</arg_key>\n<arg_value>yes</arg_value>\n</tool_call>"), models=WRITTEN
    ),
    "DeepSeek": Case(
        text(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>decide\n```json\n"
            f"{YES}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        models=WRITTEN,
    ),
    "harmony (gpt-oss)": Case(
        text(f"<|channel|>commentary to=functions.decide <|constrain|>json<|message|>{YES}<|call|>"), models=WRITTEN
    ),
    "text of another tool": Case(text('{"name": "Ada", "arguments": {}}'), None, 3, "must call the tool", WRITTEN),
}  # fmt: skip


@pytest.fixture(scope="module")
def tool_answers():
    """What happens in all cases of tool calls."""
    return checked(TOOLS, "tools: [decide], tool_choice: decide", "result.data.calls[0].arguments.answer")


@pytest.mark.slow
@pytest.mark.parametrize("name", TOOLS)
def test_tool_calls(tool_answers: Mapping[str, Any], name: str):
    """A call is read in each form in which servers send it; as text only if the scenario says so, and a refused answer
    that looks like one says how.
    """
    check(TOOLS[name], tool_answers[name])


def test_a_tool_without_parameters():
    """No arguments, however they are sent, are no fault of a call: the first request is the last."""
    sent: list[Any] = ["", None, "null", '"null"', " ", "{}", '"{}"', {}]
    cases = {repr(arguments): Case(called(arguments, "wait"), {}) for arguments in sent}
    found = checked(cases, "tools: [wait], tool_choice: wait", "result.data.calls[0].arguments")
    assert found == dict.fromkeys(cases, ({}, 1, ""))


TALK = {
    "think": Case(text(f"<think>{THOUGHTS}</think>\n\nHello."), "Hello."),
    "reasoning": Case(text("Hello.", reasoning_content=THOUGHTS), "Hello."),
    "think later in the text": Case(text("Write <think> first."), "Write <think> first."),
    "a closing tag that is quoted": Case(text("It ends with `</think>` there."), "It ends with `</think>` there."),
    "a fence stays": Case(text("```python\nprint(1)\n```"), "```python\nprint(1)\n```"),
    "reasoning alone": Case(text("", "length", reasoning_content=THOUGHTS), None, 1, "turn reasoning off"),
}


def test_talk():
    """What a model thinks is never what an agent says; what it says stays as it is."""
    found = checked(TALK, "max_tokens: 50", "result.data.text")
    for name, case in TALK.items():
        check(case, found[name])


def test_reasoning_is_on_record(tmp_path: Path):
    """The record has the reasoning beside the answer, also of an answer that was refused for it; no event has it."""
    (tmp_path / "talk.yaml").write_text(
        "name: talk\nuntil: 1m\nmodels: {latency: 1s}\nagents:\n"
        "  - {name: a, loop: {min_loop_delay: 25s}, rules: [{do: {ask: {prompt: Well?}}}]}\n"
    )
    replies = [text("Hello.", reasoning_content=THOUGHTS), text("", "length", reasoning="On and on.")]
    with Endpoint(lambda seen: replies[min(seen.number, 1)]) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="key-of-the-test")
        result = sim.run(tmp_path / "talk.yaml", access=access, out=tmp_path / "runs")
    with open_run(str(result.run)) as stored:
        rows = stored.query("select answer, reasoning, status from prompts")
        events = stored.query("select data from events")
    assert rows[:2] == [("Hello.", THOUGHTS, "ok"), (None, "On and on.", "reasoning")]
    assert not [row for row in events if THOUGHTS in row[0]]
    assert result.models["failures"]["reasoning"] == result.models["total"]["failed"] > 0


def test_the_message_that_goes_back_has_no_reasoning():
    """A model that is asked again gets its own answer without the reasoning: DeepSeek refuses a history with it."""
    replies = [text(f"<think>{THOUGHTS}</think>perhaps", reasoning="Well."), text(YES)]
    scene, seen = asked(lambda seen: replies[min(seen.number, 1)], [FORM], "result.data.value.answer")
    assert scene.state("asker-0")["got"] == "yes"
    assert seen["asker-0"][1].body["messages"][-2] == {"role": "assistant", "content": "perhaps"}


def test_calls_that_nobody_asked_to_read_are_counted():
    """An answer that is accepted although it looks like a tool call is counted, with the endpoint that sent it."""
    scene, _ = asked(lambda seen: text(CALL), ["tools: [decide]"], "result.data.text")
    assert scene.state("asker-0")["got"] == CALL
    assert scene.models.summary()["written_calls"] == {"openai": 1}


# -- surveys

QUESTION = "{ask: 'What?', scale: [1, 7]}"
SURVEY = """
  latency: 1s
  retry: {timeout: 5s, deadline: 20s}
"""


def surveyed(
    questions: str, script: Any, agents: int = 1
) -> tuple[list[Mapping[str, Any]], Mapping[str, Any], list[Seen]]:
    """Return the answers of agents to questions, the summary of the models, and the requests."""
    entry = (
        f"\n  - {{name: a, count: {agents}, loop: {{min_loop_delay: 50s}}, rules: [{{do: {{sleep: {{for: 1h}}}}}}]}}\n"
    )
    rest = f"until: 1m\ninterventions: [{{at: 10s, survey: {{questions: [{questions}]}}}}]"
    with Endpoint(script) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="key-of-the-test")
        scene = Scene(SURVEY, entry, rest, access=access).run()
    return scene.events("survey.answer"), scene.models.summary(), endpoint.seen


ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "scale: [1, 7]": {
        "5": 5, "5.": 5, "5/7": 5, "**5**": 5, "Five": 5, "My answer is 5.": 5, "The answer is 4.": 4, "5 (agree)": 5,
        "<think>from 1 to 7</think>5": 5, "5 out of 7": 5, "On a scale of 1 to 7, I would say 5.": 5, "\\boxed{5}": 5,
        '{"answer": 5}': 5, '```json\n{"answer": 5}\n```': 5, '{"rating": 5, "why": "so"}': 5, "5. It is a 5.": 5,
        "4 or 5": None, "4.5": None, "8": None, "not 5": None, "perhaps": None, "<answer>5</answer>": 5,
        "5\n\nBecause I have 3 children.": 5, "5\n\nActually, 3.": None, "5\n\n3": None, "twenty-five": None,
        "minus five": None, "two and a half": None,
    },
    "scale: [-3, 3]": {"minus two": -2, "Negative one.": -1, "\N{MINUS SIGN}2": -2, "two": 2, "0": 0},
    'options: ["yes", "no"]': {
        "yes": "yes", "Yes.": "yes", "**Yes**": "yes", '"yes"': "yes", "Answer: yes": "yes", '{"answer": "yes"}': "yes",
        "Yes, because it is good.": "yes", "<think>maybe no</think>\n\nyes": "yes", "no, I mean yes": None,
        "not yes": None, "Yes.\n\nThere is no other way.": "yes", "Yes.\n\nWait, no.": None,
    },
    "number: true": {"12.5": 12.5, "It is 1,000.": 1000, "about ten": 10, '{"answer": 7}': 7, "1 or 2": None},
}  # fmt: skip


@pytest.mark.parametrize("form", ANSWERS)
def test_answers_of_surveys(form: str):
    """An answer in prose is read if it has one value; otherwise it is asked for once more, and counted as missing."""
    known = list(ANSWERS[form])
    questions = ", ".join(f"{{ask: 'What {number}', {form}}}" for number in range(len(known)))
    answers, summary, seen = surveyed(
        questions, lambda seen: text(known[int(seen.body["messages"][1]["content"].split()[1])])
    )
    answers = sorted(answers, key=lambda answer: int(answer["question"].split()[1]))
    assert {said: answer["value"] for said, answer in zip(known, answers, strict=True)} == ANSWERS[form]
    missing = [value is None for value in ANSWERS[form].values()]
    assert [answer["error"] is not None for answer in answers] == missing
    assert len(seen) == len(known) + sum(missing)
    counted = {f"What {number}": {"answers": 1, "missing": int(none)} for number, none in enumerate(missing)}
    assert dict(summary["surveys"]) == counted


def test_surveys_ask_for_their_form():
    """A question with a form is asked with a JSON Schema; the first answer shows whether the endpoint keeps it."""
    answers, summary, seen = surveyed(QUESTION, lambda seen: text('{"answer": 4}'), agents=5)
    schema = seen[0].body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == [1, 2, 3, 4, 5, 6, 7]
    assert [answer["value"] for answer in answers] == [4] * 5
    assert summary["formats"] == {"openai:m": {"enforced": 5, "free": 0, "refused": 0}}
    assert all("response_format" in one.body for one in seen)


@pytest.mark.parametrize("how", ["refused", "not implemented", "ignored"])
def test_endpoints_without_schemas_are_asked_without(how: str):
    """An endpoint that refuses or ignores a schema gets it once; its answers are read as text, and none is lost. The
    request that was sent again is counted, and is no attempt: which call it is depends on which comes first.
    """

    def script(seen: Seen) -> Reply:
        if "response_format" in seen.body and how != "ignored":
            return error(400 if how == "refused" else 501, "response_format json_schema is not supported")
        return text("The answer is 4.")

    answers, summary, seen = surveyed(QUESTION, script, agents=5)
    assert [answer["value"] for answer in answers] == [4] * 5
    assert sum("response_format" in one.body for one in seen) == 1
    assert summary["formats"] == {"openai:m": {"enforced": 0, "free": 5, "refused": int(how != "ignored")}}
    assert summary["total"]["attempts"] == 5
    assert len(seen) == 5 + (how != "ignored")


def test_a_bad_request_is_no_word_on_schemas():
    """If the endpoint refuses a question without the schema as well, the schema was not the cause. All that was sent is
    counted.
    """
    answers, summary, seen = surveyed(QUESTION, lambda seen: error(400, "no such model"))
    assert "no such model" in answers[0]["error"]
    assert summary["formats"] == {"openai:m": {"enforced": 0, "free": 0, "refused": 1}}
    assert summary["total"]["attempts"] + 1 == len(seen)


def test_a_spoilt_answer_in_a_format_is_paid():
    """An answer that is no JSON was paid all the same: its tokens are part of the request that is sent again."""
    spoilt = Reply(body={**whole(""), "choices": "none"})
    answers, summary, _ = surveyed(QUESTION, lambda seen: spoilt if "response_format" in seen.body else text("4"))
    assert answers[0]["value"] == 4
    assert summary["total"]["input_tokens"] > USAGE["prompt_tokens"]
    assert summary["total"]["estimated"] == 1


# -- what an endpoint cannot do

LACKING = {
    "tools (Ollama)": ("tools: [decide]", 400, "registry.ollama.ai/library/m does not support tools", "tools"),
    "tools (vLLM)": ("tools: [decide]", 400, '"auto" tool choice requires --enable-auto-tool-choice', "tools"),
    "tools (OpenRouter)": ("tools: [decide]", 404, "No endpoints found that support tool use", "tools"),
    "tools (llama.cpp)": ("tools: [decide]", 500, "tools param requires --jinja flag", "tools"),
    "schemas": (FORM, 400, "response_format json_schema is not supported", "JSON schemas"),
    "streams": ("stream: true", 501, "streaming is not implemented", "streams"),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_misfit_ends_the_run_before_anything_is_paid(name: str):
    """An endpoint that cannot do what a call needs refuses it for free; the run ends then, with one sentence."""
    ask, status, message, need = LACKING[name]
    scene, seen = asked(lambda seen: error(status, message), [ask] * 3, "1")
    assert scene.models.refusal is not None
    assert f"openai:m cannot do {need}" in scene.models.refusal
    assert message in scene.models.refusal
    assert sum(map(len, seen.values())) <= 9
