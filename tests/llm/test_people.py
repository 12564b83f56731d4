"""Answers of people in place of those of models."""

import json
import threading
import time
from typing import Any

import attrs
import pytest

import sim
from sim.base.errors import UsageError
from sim.cli.render.model_costs import _print_special
from sim.kernel import Kernel, Latch
from sim.llm.people import People, Question
from sim.llm.types import ChatMessage, ModelRequest, ToolCall, ToolSpec
from sim.record import open_run
from sim.world import World

TALK = """
name: talk
until: 90s
models:
  provider: scripted
  tools: {vote: {description: Vote., parameters: {choice: {type: string, enum: [aye, nay]}}}}
  rules:
    - {use: vote, call: {vote: {choice: nay}}}
    - {say: the model speaks}
agents:
  - name: speaker
    start: 1s
    state: {said: [], choice: ""}
    loop: {min_loop_delay: 20s}
    rules:
      - when: now < 30
        do: {ask: {prompt: "='What do you say at ' + str(round(now)) + '?'"}}
        set: {said: "=said + [result.data.text]"}
      - do: {ask: {prompt: Vote., use: vote, tools: [vote]}}
        set: {choice: "=result.data.calls[0].arguments.choice if result.data.calls else result.data.text"}
"""


@attrs.define
class Played:
    """A run in another thread, which people take part in."""

    result: Any = None
    control: Any = None
    people: Any = None
    thread: Any = None

    def question(self, name):
        """Wait until a call waits for a person, and return it."""
        for _ in range(2000):
            if name in self.people.questions:
                return self.people.questions[name]
            time.sleep(0.005)
        raise AssertionError(f"{name} never came")

    def end(self):
        """Wait for the end, and return the result."""
        self.thread.join(20)
        return self.result


@pytest.fixture
def played(tmp_path):
    """Start the run; its clock is fast, so that a limit of simulated time is soon over."""
    made = Played()
    ready = threading.Event()

    def begun(runner):
        made.control = sim.Control(runner.simulation.manager)
        made.people = runner.simulation.models.people
        ready.set()

    def start(first, text=TALK, **options):
        def begin(runner):
            begun(runner)
            first(made.control)

        def run():
            made.result = sim.run(file, out=tmp_path / "runs", begun=begin, **options)

        file = tmp_path / "talk.yaml"
        file.write_text(text, encoding="utf-8")
        made.thread = threading.Thread(target=run, daemon=True)
        made.thread.start()
        assert ready.wait(20)
        return made

    return start


def state_of(result):
    """Return the state of the agent at the end."""
    with open_run(result.run) as stored:
        return (stored.info.digest or {})["agents"]["speaker"]["state"]


def callers(result):
    """Return which provider answered each call."""
    with open_run(result.run) as stored:
        return [event.data["provider"] for event in stored.events() if event.topic == "model.call"]


def test_a_person_answers_instead_of_the_model(played):
    """Words and calls of tools by a person are what the agent hears, on record, and the same in a replay."""
    run = played(lambda control: control.answer_for("speaker", 3600))
    with pytest.raises(UsageError, match="needs a text"):
        run.control.answer_for("speaker", 3600, otherwise=" ")
    assert "What do you say" in run.question("question-1").to_json()["text"]
    run.control.answer("question-1", "a person speaks")
    run.question("question-2")
    run.control.answer("question-2", "")
    run.question("question-3")
    run.control.answer("question-3", "", call={"tool": "vote", "args": {"choice": "perhaps"}})
    run.control.answer("question-3", "", call={"tool": "sing", "args": {}})
    run.control.answer("question-3", "", call={"tool": "vote", "args": {"choice": "aye"}})
    run.question("question-4")
    run.control.answer_for("speaker", 0)
    result = run.end()
    assert state_of(result)["said"] == ["a person speaks", "the model speaks"]
    assert callers(result) == ["person", "scripted", "person", "scripted", "scripted"]
    assert state_of(result)["choice"] == "nay"
    assert sim.replay(result.run).same
    with open_run(result.run) as stored:
        kinds = [kind for (kind,) in stored.query("SELECT kind FROM inputs ORDER BY id")]
    assert kinds == ["answer"] * 7


def test_without_an_answer_in_time_the_fallback_answers(played):
    """When the simulated time of a person is over, the given text is the answer; without one, the model answers."""
    absent = "no person was there"
    result = played(lambda control: control.answer_for("speaker", 5, otherwise=absent), clock="wall", speed=200.0).end()
    assert (state_of(result)["said"][0], state_of(result)["choice"]) == (absent, absent)
    assert sim.replay(result.run).same
    result = played(lambda control: control.answer_for("speaker", 5), clock="wall", speed=200.0).end()
    assert (state_of(result)["said"][0], state_of(result)["choice"]) == ("the model speaks", "nay")
    assert set(callers(result)) == {"scripted"}
    with open_run(result.run) as stored:
        calls = [event for event in stored.events() if event.topic == "model.call"]
    assert all(event.data["seconds"] == 5 for event in calls[:-1])  # each waited for a person first
    assert sim.replay(result.run).same


def test_the_text_given_for_absence_is_not_on_record_as_an_answer(played):
    """A text that was given beforehand has a model of its own on record, and like an answer it has no price to miss."""
    result = played(lambda control: control.answer_for("speaker", 5, otherwise="x"), clock="wall", speed=200.0).end()
    with open_run(result.run) as stored:
        calls = [event.data for event in stored.events() if event.topic == "model.call"]
        models = (stored.info.summary or {})["models"]
    assert {(call["provider"], call["model"]) for call in calls[:-1]} == {("person", "otherwise")}
    assert models["unpriced"] == []


def test_it_is_counted_how_questions_ended(played, capsys):
    """Each question ends in one way that is counted, the last one with the run; refusals are apart."""
    run = played(lambda control: control.answer_for("speaker", 3600), clock="wall", speed=20.0)
    run.question("question-1")
    run.control.answer("question-1", "a person speaks")
    run.question("question-2")
    run.control.answer("question-2", "")
    run.question("question-3")
    run.control.answer("question-3", "", call={"tool": "sing", "args": {}})
    found = run.end().models["people"]
    assert found == {"asked": 3, "answered": 1, "late": 0, "unfit": 0, "left": 1, "stopped": 1, "refused": 1}
    _print_special({"people": found})
    assert capsys.readouterr().out == (
        "3 calls waited for a person: 1 answered; 1 left to the model; 1 stopped with the agent\n"
        "answers of people that were refused: 1\n"
    )


def test_a_given_text_that_the_agent_could_not_take_is_counted(played):
    """If the text for absence does not fit, the model answers, and that is counted apart from texts that fit."""
    enum = "{type: object, properties: {choice: {enum: [aye, nay]}}, required: [choice]}"
    text = TALK.replace("use: vote, tools: [vote]", f"use: vote, response_format: {enum}").replace(
        "call: {vote: {choice: nay}}", 'say: \'{"choice": "nay"}\''
    )
    result = played(
        lambda control: control.answer_for("speaker", 5, otherwise="x"), text=text, clock="wall", speed=200.0
    ).end()
    people = result.models["people"]
    assert people["late"] > 0
    assert people["unfit"] > 0
    assert "nay" in state_of(result)["choice"]
    assert sim.replay(result.run).same


def test_a_person_is_shown_what_the_model_would_get():
    """A question has calls of tools, results, descriptions, the choice of a tool and the format; a cut is marked."""
    call = ToolCall("c", "vote", '{"choice": "aye"}')
    form = {"type": "object", "properties": {"choice": {"type": "string"}}}
    messages = (ChatMessage("user", "x" * 5000), ChatMessage("assistant", "", (call,)), ChatMessage("tool", "counted"))
    tools = (ToolSpec("vote", "Vote once.", {"type": "object"}),)
    request = ModelRequest(messages, tools, response_format=form, tool_choice="required")
    shown = Question("question-1", "speaker", request, 10**9, Latch(Kernel())).to_json()
    text = str(shown["text"])
    assert text.startswith("... 1,062 characters before this ...\nxxx")
    assert text.endswith('xxx\n\nassistant: calls vote {"choice": "aye"}\n\ntool: counted')
    assert shown["tools"] == [{"name": "vote", "description": "Vote once.", "parameters": {"type": "object"}}]
    assert (shown["choice"], shown["format"]) == ("required", form)


def test_the_words_of_a_person_are_taken_as_they_are(played):
    """What would be the reasoning of a model is part of what a person says."""
    run = played(lambda control: control.answer_for("speaker", 3600))
    run.question("question-1")
    run.control.answer("question-1", "<think>I wonder</think> aye")
    run.question("question-2")
    run.control.answer_for("speaker", 0)
    assert state_of(run.end())["said"][0] == "<think>I wonder</think> aye"


def test_each_call_of_a_tool_by_a_person_has_an_id_of_its_own():
    """In a conversation with two calls, a result belongs to one of them: the id is that of the question."""
    request = ModelRequest((), (ToolSpec("vote", "Vote once.", {"type": "object"}),))
    people, questions = People(World()), [Question(id, "a", request, 1, Latch(Kernel())) for id in ("one", "two")]
    people.questions.update({question.id: question for question in questions})
    given = [people.take({"question": id, "text": "", "call": {"tool": "vote", "args": {}}}) for id in ("one", "two")]
    assert given == [None, None]
    assert [question.answered.value.tool_calls[0].id for question in questions] == ["one", "two"]


def test_the_model_answers_surveys(played):
    """A person who answers as an agent is not asked what a survey asks the agent."""
    text = (
        "name: plain\nuntil: 1h\nmodels: {rules: [{say: scripted}]}\nagents:\n  - {name: speaker, rules: [{do: {sleep: "
        "{for: 10m}}}]}\ninterventions:\n  - {at: 30m, survey: {questions: [{ask: How are you?}]}}\n"
    )
    result = played(lambda control: control.answer_for("speaker", 3600), text=text).end()
    assert callers(result) == ["scripted"]
    assert "people" not in result.models


def test_what_cannot_be_answered_is_refused(played):
    """A wrong agent, time or question changes nothing, and each says why."""
    run = played(lambda control: control.answer_for("speaker", 3600))
    with pytest.raises(UsageError, match="no agent 'speakers' to answer for; did you mean 'speaker'"):
        run.control.answer_for("speakers", 60)
    for wrong in (-1, float("nan"), True, "60", 1e9):
        with pytest.raises(UsageError, match="the time for an answer is 0 to"):
            run.control.answer_for("speaker", wrong)
    run.question("question-1")
    people = run.people
    assert people.take({"question": "question-7", "text": "x", "call": None}) == "there is no call 'question-7'"
    assert people.take({"agent": "speaker", "within_ns": -1, "otherwise": None}).startswith("the time for an answer")
    assert people.take({"agent": "speaker", "within_ns": True, "otherwise": None}).startswith("an answer needs")
    assert people.take({"agent": "gone", "within_ns": 1, "otherwise": None}) == "there is no agent 'gone' to answer for"
    assert list(people.places) == ["speaker"]
    assert people.take("x") == "an answer needs a question and a text, or an agent and a time"
    run.control.answer_for("speaker", 0)
    assert state_of(run.end())["said"] == ["the model speaks", "the model speaks"]


def test_a_question_is_on_record_as_it_was_shown(played):
    """The view of questions has long texts, tools and formats whole, also parts that the record stores apart."""
    note = "n" * 300
    form = f"{{type: object, description: {note}, properties: {{choice: {{enum: [aye, nay]}}}}}}"
    text = TALK.replace("'What do you say at '", "'" + "What?" * 80 + " at '").replace(
        "use: vote, tools: [vote]", f"use: vote, response_format: {form}"
    )
    run = played(lambda control: control.answer_for("speaker", 3600), text=text)
    shown = [run.question("question-1").to_json()]
    run.control.answer("question-1", "")
    shown.append(run.question("question-2").to_json())
    run.control.answer("question-2", "")
    shown.append(run.question("question-3").to_json())
    run.control.answer_for("speaker", 0)
    with open_run(run.end().run) as stored:
        rows = stored.query("SELECT question, agent, status, until, text, tools, choice, format FROM questions")
    assert [row[:4] for row in rows] == [(one["question"], "speaker", "over", one["until"]) for one in shown]
    assert [(row[4], json.loads(row[5]), row[6]) for row in rows] == [
        (one["text"], one["tools"], one["choice"]) for one in shown
    ]
    assert json.loads(rows[2][7]) == shown[2]["format"]
    assert note in rows[2][7]
