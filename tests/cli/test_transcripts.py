"""What was said, and what models were asked, as data and as people read it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import sim as simulation
from sim.record import open_run
from sim.record.views import VIEWS, described
from tests.llm.endpoint import Endpoint, Reply, Seen, whole

ROOT = Path(__file__).parents[2]
ODD = (
    "quote ' \" back\\slash \u202e\x1b[2J \x00 nul \\u0000 none \x00\x00, tab\t and\r\nlines \U0001f600 e\u0301 "
    + "long " * 20_000
)
TAME = "quote ' \" back\\slash, tab and two lines \U0001f600 e\u0301 " * 100
"""A text that a scenario can have."""

TALK = """
name: talk
until: 1m
conversations: {}
models: {rules: [{say: it is}]}
agents:
  - {name: ann, kind: ann}
  - name: bob
    rules:
      - {when: message is not None, do: {send: {to: ann, data: {list: [1, {a: b}]}}}}
      - {do: {sleep: {message: true}}}
  - {name: eve, rules: [{when: iteration == 1, do: {post_message: {channel: square, text: "Hello, all"}}}, {do: stop}]}
interventions:
  - {at: 30s, name: mood, survey: {agents: [bob], questions: [{ask: "How are you?"}]}}
"""


class Ann(simulation.Agent):
    """Sends the odd text once."""

    async def decide_action(self) -> simulation.Action:
        first = self.loop.iteration_count == 1
        return (
            simulation.Action("send", {"to": "bob", "topic": "note", "data": ODD})
            if first
            else simulation.Action("stop")
        )


@pytest.fixture
def talk(sim, tmp_path, monkeypatch):
    """A run with messages, a conversation and an interview; one text is as odd as a text can be."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.yaml").write_text(TALK)
    done = simulation.run("talk.yaml", kinds={"ann": Ann}, out="runs")
    return done.run


def said(run: Any) -> list[dict[str, Any]]:
    """Return the rows of the view `conversations`."""
    with open_run(run) as stored:
        columns = stored.columns("conversations")
        return [dict(zip(columns, row, strict=True)) for row in stored.stream("conversations")]


def test_everything_that_was_said_is_a_row(talk):
    """Messages, conversations with people and interviews are rows of one form, in the order of the record."""
    rows = said(talk)
    assert [(row["form"], row["speaker"], row["listener"]) for row in rows] == [
        ("message", "ann", "bob"), ("message", "bob", "ann"), ("conversation", "eve", None),
        ("interview", "survey mood", "bob"), ("interview", "bob", "survey mood"),
    ]  # fmt: skip
    assert [row["conversation"] for row in rows[1:3]] == ["ann and bob", "conversation-1"]
    assert [row["text"] for row in rows[1:]] == ['{"list":[1,{"a":"b"}]}', "Hello, all", "How are you?", "it is"]


def test_texts_are_those_of_the_record(talk, sim):
    """A text with control characters, a NUL and 100,000 characters is the same in the event, the view and the JSON."""
    with open_run(talk) as stored:
        recorded = {(row.source, row.counter): row.data for row in stored.events() if row.topic == "message.sent"}
    row = said(talk)[0]
    assert recorded[row["source"], row["counter"]]["data"] == row["text"] == ODD
    shown = json.loads(sim("show", talk, "chat", "ann", "--json").out)["said"]
    assert shown[0]["text"] == ODD
    assert sim("export", talk, "conversations", "--format", "json", "--to", "said.json").code == 0
    assert json.loads(Path("said.json").read_text())[0]["text"] == ODD


def test_what_two_people_said_is_shown_harmless(talk, sim):
    """`chat` has what an agent said and heard, --agent what two said; control characters are spelled out."""
    done = sim("show", talk, "chat", "bob", "--agent", "ann")
    assert done.code == 0
    assert "ann to bob (note): quote" in done.out
    assert 'bob to ann: {"list":[1,{"a":"b"}]}' in done.out
    assert "How are you?" not in done.out
    assert done.out.count("long") == 20_000
    assert all(sign.isprintable() or sign == "\n" for sign in done.out)
    assert "survey mood to bob: How are you?" in sim("show", talk, "chat", "bob").out
    limited = sim("show", talk, "chat", "bob", "--limit", 1)
    assert "the latest 1 of 4 shown" in limited.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("chat", "bobb"), "did you mean 'bob'?"),
        (("chat", "bob", "--agent", "an"), "did you mean 'ann'?"),
        (("--agent", "ann"), "it is for events, chat, tables"),
        (("chat", "--agent", "ann"), "--agent and --prompts need to know whose chat it is"),
        (("events", "--prompts"), "it is for chat"),
        (("actions", "bob"), "actions is shown whole, so it takes no name such as 'bob'"),
        (("conversation_lst",), "did you mean conversation_list?"),
    ],
)
def test_wrong_options_are_named(talk, sim, args, message):
    """Nobody of the name, options that miss another, and a misspelt view: one sentence and exit code 2."""
    done = sim("show", talk, *args)
    assert done.code == 2
    assert message in done.err


def test_json_has_objects(talk, sim):
    """Columns with JSON come as objects in tables, queries and exports; other text that looks like JSON stays text."""
    view = json.loads(sim("show", talk, "messages", "--json").out)
    place = view["columns"].index("data")
    assert [row[place] for row in view["rows"]] == [ODD, {"list": [1, {"a": "b"}]}]
    query = "SELECT data, '{}' AS other, '12' AS arguments FROM messages ORDER BY id DESC LIMIT 1"
    assert json.loads(sim("show", talk, "sql", query, "--json").out)["rows"] == [
        [{"list": [1, {"a": "b"}]}, "{}", "12"]
    ]
    sim("export", talk, "messages", "--format", "json", "--to", "messages.json")
    assert json.loads(Path("messages.json").read_text())[1]["data"] == {"list": [1, {"a": "b"}]}


def test_python_has_the_same_rows(talk):
    """`Run.conversations` and `Run.prompts` are the views as frames."""
    with simulation.open(talk) as run:
        assert list(run.conversations()["text"]) == [row["text"] for row in said(talk)]
        assert list(run.prompts()["status"]) == ["ok"]


ASKS = """
name: asks
until: 1m
models: {rules: [{say: it is}]}
agents:
  - name: asker
    state: {text: none}
    rules:
      - {when: iteration < 3, do: {ask: {prompt: =text, system: Be brief.}}}
      - {do: stop}
"""


@pytest.mark.slow
def test_a_prompt_is_what_was_sent_and_answered(sim, tmp_path, monkeypatch):
    """Request and answer of each call to an endpoint are whole, with the identity of the event and of the effect."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asks.yaml").write_text(ASKS)
    answer = ODD.replace("quote", "answer")

    def script(seen: Seen) -> Reply:
        return Reply(body=whole(f"{seen.number} {answer}"))

    override = f"agents.asker.state.text={json.dumps(TAME, ensure_ascii=False)}"
    with Endpoint(script) as endpoint:
        assert sim("run", "asks.yaml", "--model", "openai:m", "--base-url", endpoint.url, "--set", override).code == 0
        sent = [seen.body["messages"] for seen in endpoint.seen]
    rows = json.loads(sim("show", "asks", "chat", "asker", "--prompts", "--json").out)["prompts"]
    assert [row["request"] for row in rows] == sent
    assert sent[0][-1]["content"] == TAME
    assert [row["answer"] for row in rows] == [f"0 {answer}", f"1 {answer}"]
    calls = json.loads(sim("show", "asks", "llm_calls", "--json").out)
    assert [row["id"] for row in rows] == [row[0] for row in calls["rows"]]
    effects = json.loads(sim("show", "asks", "calls", "--json").out)
    assert [row["effect"] for row in rows] == [row[0] for row in effects["rows"]]
    shown = sim("show", "asks", "chat", "asker", "--prompts").out
    assert shown.count("long") == 2 * 20_000
    assert all(sign.isprintable() or sign == "\n" for sign in shown)


@pytest.mark.parametrize("verb", ["show", "export"])
def test_the_help_lists_all_views(sim, verb):
    """Each view of `sim` has one line in the help, said where the view is defined."""
    text = " ".join(sim(verb, "--help").out.split())
    known = {name: line for name, line in described().items() if name in VIEWS}
    assert {"prompts", "conversations", "gates", "steps"} <= known.keys()
    for name in ("events", "prompts", "conversations", "goal_agents"):
        assert known[name].startswith("One row")
        assert re.search(rf"\b{name} One row", text)


def test_the_page_lists_all_views():
    """docs/record.md has a row for each view of `sim`, with the sentence of its definition."""
    import sim.inspect.analysis  # noqa: F401  # it registers the views of all families

    page = (ROOT / "docs" / "record.md").read_text()
    assert {"prompts", "conversations", "events", "gates"} <= described().keys()
    assert [name for name, line in described().items() if f"| `{name}` | {line} |\n" not in page] == []


FAMILIES = {
    "debate": {"message"},
    "helpdesk": {"conversation", "message"},
    "community": {"conversation", "message"},
    "houston": {"conversation", "message"},
    "lead_response": {"channel"},
    "software_team": {"message"},
}


@pytest.mark.proof
@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_gives_sensible_rows(name, tmp_path):
    """Of each shipped scenario, who said what is known, and there is a row of `prompts` for each model call."""
    shorter = {"houston": "1d", "lead_response": "1d", "community": "5d"}
    path = ROOT / "scenarios" / f"{name}.yaml"
    done = simulation.run(path, out=tmp_path, until=shorter.get(name))
    assert done.run is not None
    rows = said(done.run)
    assert {row["form"] for row in rows} == FAMILIES[name]
    assert all(row["speaker"] and row["conversation"] for row in rows)
    if name == "lead_response":
        assert {"lead-response", "ar", "marketing"} <= {row["speaker"] for row in rows}
    assert len({(row["source"], row["counter"], row["topic"]) for row in rows}) == len(rows)
    with open_run(done.run) as stored:
        events = {(row.source, row.counter): row for row in stored.events()}
        for row in rows:
            data = events[row["source"], row["counter"]].data
            recorded = data.get("content", data.get("text")) if row["form"] != "message" else data["data"]
            if isinstance(recorded, str):
                assert recorded == row["text"]
        ((calls,),) = stored.query("SELECT count(*) FROM llm_calls")
        assert len(list(stored.stream("prompts"))) == calls > 0


@pytest.mark.slow
def test_prompts_of_models_in_the_core_are_repeated(sim, tmp_path, monkeypatch):
    """With --prompts, and with --repeat, the requests and answers of scripted models are shown; else they are null."""
    monkeypatch.chdir(tmp_path)
    assert sim("run", ROOT / "scenarios" / "debate.yaml", "-q").code == 0
    prompts = json.loads(sim("show", "debate", "chat", "debater-1", "--prompts", "--json").out)["prompts"]
    assert [row["request"][-1]["role"] for row in prompts] == ["user"] * 4
    assert all(row["answer"] or row["tool_calls"] for row in prompts)
    assert "answer: AGAINST" in sim("show", "debate", "chat", "debater-1", "--prompts").out
    (tmp_path / "kept").mkdir()
    for option, filled in (((), False), (("--repeat",), True)):
        file = tmp_path / "kept" / f"{filled}.json"
        assert sim("export", "debate", "prompts", "--format", "json", "--to", file, *option).code == 0
        assert [row["request"] is not None for row in json.loads(file.read_text())] == [filled] * 20
    wrong = sim("show", "debate", "actions", "--repeat")
    assert (wrong.code, "--repeat means nothing for actions" in wrong.err) == (2, True)
    assert "it is for prompts" in sim("show", "debate", "--repeat").err
