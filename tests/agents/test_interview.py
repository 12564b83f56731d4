"""Interviews: what is asked, what a model is told of an agent, and that the agent does not notice."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.agents import latest_events
from sim.agents.interview import Question, SurveyAnswer, answer_in_form, interview, interview_prompt, record_answer
from sim.agents.latest_events import MOST, LatestEvents
from sim.base.errors import UsageError
from sim.kernel.codec import freeze
from sim.llm import Access
from sim.llm.types import Answer, ChatMessage, ModelError, ModelRequest
from sim.record import HashRecorder
from sim.scenario import loads
from sim.scenario.assembly.build import Simulation, build
from sim.tools.rights import Rights
from tests.helpers import named

ALICE = """
name: village
until: 3h
limits: {llm_calls: {agent: 1 per 1h, global: 1 per 1h}}
budgets: {llm_cost: {amount: 0.000001}}
places: {nodes: [mill, inn], edges: [[mill, inn]]}
memory: {}
models:
  prices: {scripted: {input: 1, output: 1}}
  rules: [RULES]
agents:
  - name: alice
    group: women
    place: mill
    balance: 3
    state: {mood: "glad <b>", turn: 0}
    loop: {min_loop_delay: 1h}
    rules:
      - {when: turn == 0, set: {turn: 1}, do: {remember: {content: The mill burned down}}}
      - {when: turn == 1, set: {turn: 2}, do: {send: {to: bob, topic: news, data: The mill burned down}}}
  - {name: bob, loop: {min_loop_delay: 1h}, rules: [{when: message, do: {publish: {topic: bob.heard}}}]}
"""


def _built(rules: str = "{say: fine}", text: str = ALICE, access: Access | None = None) -> Simulation:
    return build(loads(text.replace("RULES", rules)), access=access, recorder=HashRecorder(keep=True))


def _ask(simulation: Simulation, question: Question, agent: str = "alice") -> SurveyAnswer:
    """Interview an agent of a world whose kernel runs up to then."""
    found: list[SurveyAnswer] = []

    async def main() -> None:
        found.append(await interview(simulation.world, simulation.manager.loops[agent].agent, question))

    simulation.world.spawn("main", main())
    simulation.world.kernel.run()
    return found[0]


# -- questions


@pytest.mark.parametrize(
    ("question", "answer", "value"),
    [
        (Question("?", options=("agree", "strongly agree", "disagree")), "Strongly agree.", "strongly agree"),
        (Question("?", options=("agree", "strongly agree", "disagree")), "I strongly agree with it", "strongly agree"),
        (Question("?", options=("agree", "disagree")), "I disagree", "disagree"),
        (Question("?", options=("agree", "disagree")), "I agree, or disagree", None),
        (Question("?", options=("yes", "no")), "**No**", "no"),
        (Question("?", options=("yes", "no")), "nobody knows", None),
        (Question("?", options=("C++", "C")), "C++", "C++"),
        (Question("?", scale=(1, 7)), "5", 5),
        (Question("?", scale=(1, 7)), "I would say 6.", 6),
        (Question("?", scale=(1, 7)), "8", None),
        (Question("?", scale=(1, 7)), "5.5", None),
        (Question("?", scale=(1, 7)), "5 of 7", 5),
        (Question("?", scale=(-3, 3)), "-2", -2),
        (Question("?", number=True), "about 1,250.5 euros", 1250.5),
        (Question("?", number=True), "-3e2", -300),
        (Question("?", number=True), "1e999", None),
        (Question("?", number=True), "v2.5.1", None),
        (Question("?", number=True), "none", None),
        (Question("?", number=True), "-5 degrees", -5),
        (Question("?", number=True), "1,234,567", 1234567),
        (Question("?", number=True), "3,5", None),
        (Question("?", number=True), "0,8", None),
        (Question("?", number=True), "0,125", None),
        (Question("?", number=True), "12,34", None),
        (Question("?", number=True), "1,2345", None),
        (Question("?", number=True), "between 3,5 and 4", None),
        (Question("?", number=True), "3,5kg, or 4", None),
        (Question("?", number=True), "3, because it is so", 3),
        (Question("?", scale=(1, 7)), "3,5", None),
        (Question("?", scale=(-3, 3)), "\N{MINUS SIGN}3", -3),
        (Question("?", number=True), "about \N{MINUS SIGN}1.5", -1.5),
        (Question("?"), "5", None),
    ],
)
def test_the_value_of_an_answer(question, answer, value):
    """An answer has the one option or the one number that it contains; if it has none, or several, it has no value."""
    assert question.value_of(answer) == value


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("I do not agree", None),
        ("I can't agree with that", None),
        ("I can\N{RIGHT SINGLE QUOTATION MARK}t agree with that", None),
        ("I do not, however, agree.", None),
        ("I cannot say that I agree", None),
        ("Neither would I agree", None),
        ("Agree is not what I would say", None),
        ("I do not disagree", None),
        ("I don't know. I agree", "agree"),
        ("I was not certain, but I agree", "agree"),
        ("I agree, and it is not too late", "agree"),
        ("I agree that the town should not do it", "agree"),
        ("I am not sure about it", "not sure"),
        ("I would not say not sure", None),
        ("I notice that I agree", "agree"),
    ],
)
def test_an_option_that_is_negated_is_no_answer(answer: str, value: str | None) -> None:
    """`I do not agree` is not `agree`: in doubt an answer has no value, and is asked for again."""
    assert Question("?", options=("agree", "disagree", "not sure")).value_of(answer) == value


@pytest.mark.parametrize(
    ("answer", "value"), [("I say no", "no"), ("No I do not", "no"), ("I would not say no", None), ("yes I do", "yes")]
)
def test_a_negation_can_be_an_option(answer: str, value: str | None) -> None:
    """The option `no` is an answer, although it is a word that negates others."""
    assert Question("?", options=("yes", "no")).value_of(answer) == value


@given(st.text(max_size=80), st.sampled_from([("yes", "no"), ("a b", "c"), ("(x)", "[y]")]))
def test_any_answer_has_an_allowed_value_or_none(answer, options):
    """Whatever a model says, the value is one of the options, a number of the scale, a finite number, or nothing."""
    assert Question("?", options=options).value_of(answer) in (*options, None)
    assert Question("?", scale=(2, 4)).value_of(answer) in (2, 3, 4, None)
    value = Question("?", number=True).value_of(answer)
    assert value is None or abs(float(value)) < float("inf")


@given(st.sampled_from(["left", "far left", "right"]))
def test_each_option_is_its_own_answer(option):
    """The text of an option, in any case and with a dot, is that option, also if another one is a part of it."""
    question = Question("?", options=("left", "far left", "right"))
    assert question.value_of(f" {option.upper()}. ") == option


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ask": ""}, "a question is a text"),
        ({"ask": "?" * 4001}, "a question is a text"),
        ({"ask": "?", "options": ["yes"]}, "at least two texts"),
        ({"ask": "?", "options": ["Yes", "yes."]}, "at least two texts"),
        ({"ask": "?", "options": [1, 2]}, "options are texts"),
        ({"ask": "?", "scale": [7, 1]}, "the smaller first"),
        ({"ask": "?", "scale": 7}, "scale is a list, not 7"),
        ({"ask": "?", "options": "yes"}, "options is a list, not 'yes'"),
        ({"ask": "?", "options": {"a": 1, "b": 2}}, "options is a list"),
        ({"ask": "?", "number": "no"}, "number is true or false, not 'no'"),
        ({"ask": "?", "scale": [1, 2.5]}, "two whole numbers"),
        ({"ask": "?", "scale": [1, 2], "number": True}, "has one form"),
        ({"ask": "?", "scael": [1, 2]}, "has no 'scael'"),
        ({"text": "?"}, "a mapping with the text as `ask`"),
        (5, "a question is a text"),
    ],
)
def test_what_is_no_question_is_refused(given, sentence):
    """A question that cannot be answered in one form is wrong usage, in one sentence."""
    with pytest.raises(UsageError, match=sentence):
        Question.of(given)


def test_a_text_is_a_question():
    """A text alone asks for any answer; a mapping can ask for a form."""
    assert Question.of("How are you?") == Question("How are you?")
    assert Question.of({"ask": "?", "scale": [1, 7]}) == Question("?", scale=(1, 7))


# -- the prompt


def test_the_prompt_has_what_the_world_knows():
    """Name, group, place, money, state, memories, messages and actions of the agent are in the prompt, escaped."""
    simulation = _built()
    recorder = simulation.world.kernel.recorder
    simulation.world.kernel.recorder = LatestEvents.on(simulation.world).through(recorder)
    for loop, delay in simulation.starts:
        loop.start_now(delay_ns=delay)
    simulation.world.kernel.run(int(2.5 * 3600e9))
    system, asked = interview_prompt(
        simulation.world, simulation.manager.loops["alice"].agent, Question("What of the mill?", scale=(1, 5))
    )
    for part in (
        "You speak for alice", "name: alice\ngroup: women\nplace: mill\nmoney: 3", '"mood":"glad &lt;b&gt;"',
        "<memories>\n- [observation, importance 5, from agent] The mill burned down\n</memories>",
        "at 1h: action send", "at 1h: message to bob news",
    ):  # fmt: skip
        assert part in system.content, system.content
    assert asked.content == "What of the mill?\n\nAnswer with one whole number from 1 to 5, and nothing else."
    told = interview_prompt(simulation.world, simulation.manager.loops["bob"].agent, Question("?"))[0].content
    assert "at 1h: message from alice news" in told
    assert "burned" in told


def test_the_latest_events_are_limited():
    """Of an agent that did much, only the latest actions are kept, and large ones are cut."""
    events = LatestEvents()
    for n in range(3 * MOST):
        events.note((n * 10**9, 0, 0, 1, n, "alice", "action.say", {"arguments": {"n": n}, "success": True}, None))
    events.note((99, 0, 0, 1, 99, "alice", "action.sleep", {"arguments": {}, "success": True}, None))
    lines = events.of_agent("alice")
    assert len(lines) == MOST
    assert lines[-1] == f'at {3 * MOST - 1}s: action say {{"n":{3 * MOST - 1}}}'
    assert events.of_agent("bob") == []


def test_of_older_large_events_only_the_text_is_kept(monkeypatch):
    """Of large events, the data of the latest are kept, up to a number of bytes for all agents together. What is read
    of an agent is the same either way.
    """

    def noted() -> LatestEvents:
        events = LatestEvents()
        for n in range(2 * MOST):
            data = freeze({"arguments": {"n": n, "text": "long " * 500}, "success": True})
            row = (n * 10**9, 0, 0, 1, n, f"agent{n % 3}", "action.say", data, None)
            events.note(row)
        return events

    whole = noted()
    monkeypatch.setattr(latest_events, "_MOST_LARGE", 12_000)
    short = noted()
    kept = [event for events in short._events.values() for event in events]
    assert sum(len(event) == 9 for event in kept) == 4
    assert len(kept) == 2 * MOST
    for n in range(3):
        assert short.of_agent(f"agent{n}") == whole.of_agent(f"agent{n}")
    assert short.of_agent("agent0")[0].startswith('at 0s: action say {"n":0,"text":"long long')
    assert max(map(len, short.of_agent("agent0"))) < 300


class Poet(sim.Agent):
    """Says more about itself."""

    def about(self) -> Mapping[str, Any]:
        return {"poems": ["The mill", "The inn"]}

    async def decide_action(self) -> None: ...


def test_a_class_says_more_about_its_agents():
    """What `about` returns is a part of the prompt."""
    text = ALICE.replace("name: alice\n", "name: alice\n    kind: poet\n").replace("RULES", "{say: x}")
    simulation = build(loads(text), rights=Rights(kinds={"poet": Poet}))
    system, _ = interview_prompt(simulation.world, simulation.manager.loops["alice"].agent, Question("?"))
    assert "<poems>\nThe mill\nThe inn\n</poems>" in system.content
    assert "kind: poet" in system.content


# -- the interview


def test_an_agent_does_not_notice():
    """An interview changes no state, memory, limit, budget, account or stream of the agent, and takes no time."""
    simulation = _built('{use: survey, say: "=state.mood + str(chance(0.5))"}')
    world, before = simulation.world, simulation.world.digest()
    found = _ask(simulation, Question("What of the mill?"))
    assert found.answer in ("glad <b>True", "glad <b>False")
    after = world.digest()
    assert after == before
    assert world.kernel.now == 0
    assert world.services["memories"].metrics()["recalls"] == 0


def test_a_wrong_form_is_asked_for_once_more():
    """An answer without a value is asked for once more, with the form; then it is kept without a value."""
    rules = '{role: user, text: "not an answer", say: "4"}, {say: no idea}'
    found = _ask(_built(rules), Question("?", scale=(1, 7)))
    assert (found.answer, found.value, found.error) == ("4", 4, None)
    found = _ask(_built("{say: no idea}"), Question("?", scale=(1, 7)))
    assert (found.answer, found.value) == ("no idea", None)
    assert found.error == "the answer does not have the form of the question"
    assert found.tokens > 100
    assert found.cost_micro > 0


def test_each_request_has_the_form_of_the_question():
    """Endpoints that enforce a JSON Schema get that of the question, whoever asks in a form, and at each request."""
    question, seen = Question("?", options=("yes", "no")), []

    async def ask(request: ModelRequest) -> Answer:
        seen.append(request.preferred_format)
        raise ModelError("server", "it is down")

    with pytest.raises(StopIteration):
        answer_in_form(ask, "a", question, ModelRequest((ChatMessage("user", "?"),))).send(None)
    assert seen == [question.schema]


def test_a_model_that_fails_is_named():
    """If no model answers, the answer says why, and nothing is raised."""
    found = _ask(_built("{fail: overload}"), Question("?"))
    assert (found.answer, found.value) == (None, None)
    assert found.error is not None
    assert found.error.startswith("no model answered: ")


def test_the_ceiling_of_the_run_holds():
    """Interviews spend the money of the run: at its ceiling, no model answers."""
    text = ALICE.replace("  prices:", "  ceiling: 0.0001\n  prices:")
    found = _ask(_built(text=text), Question("?"))
    assert found.error is not None
    assert "ceiling" in found.error


def test_the_model_of_the_agent_answers():
    """The tiers of the agent, its group and the use `survey` decide which model answers, as for its own calls."""
    text = ALICE.replace("  rules: [RULES]", "  tiers: {small: tiny, large: huge}\n  TIERS\n  rules: [RULES]")
    for tiers, model in (
        ("uses: {survey: large}", "huge"), ("agents: {women: {'*': large}}", "huge"), ("default: small", "tiny"),
    ):  # fmt: skip
        assert _ask(_built(text=text.replace("TIERS", tiers)), Question("?")).model == model


def test_a_world_without_models_says_so():
    """An interview needs language models."""
    text = ALICE.replace("models:\n  prices: {scripted: {input: 1, output: 1}}\n  rules: [RULES]\n", "")
    simulation = build(loads(text))
    with pytest.raises(UsageError, match="this world has no models"):
        _ask(simulation, Question("?"))


def test_answers_are_events():
    """`record_answer` records an answer with the name of its survey; it is no event of the bus."""
    simulation = _built()
    world = simulation.world
    with world.kernel.acting_as(world.kernel.scenario):
        record_answer(world, "mood", SurveyAnswer("alice", "How are you?", "fine"))
    recorder = world.kernel.recorder
    assert isinstance(recorder, HashRecorder)
    recorder.flush()
    (row,) = [row for row in named(recorder.rows) if row.topic == "survey.answer"]
    assert isinstance(row[7], dict)
    assert (row[7]["survey"], row[7]["agent"], row[7]["answer"]) == ("mood", "alice", "fine")
    assert world.event_bus.published("survey.answer") == 0
