"""The action `ask`: what a rule gets of an answer, its history, and that no broken tool call is handed on."""

import pytest

from sim.base.errors import ScenarioError, UsageError
from sim.llm.access import Access
from sim.scenario import loads
from tests.llm.endpoint import Endpoint, Reply, fitting, whole
from tests.llm.scenes import ASKER, Scene

TOOLS = "  tools: {vote: {description: Vote., parameters: {choice: {type: string, enum: [yes, no]}}}}\n"
VOTER = """
  - name: asker
    state: {choice: none, n: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: n == 0
        do: {ask: {prompt: How do you vote?, tools: [vote]}}
        set: {n: 1, choice: "=result.data.calls[0].arguments.choice"}
      - do: stop
"""
TALKER = """
  - name: asker
    state: {n: 0, talk: [], heard: []}
    loop: {min_loop_delay: 1s}
    rules:
      - when: n < 3
        do: {ask: {prompt: "='question ' + str(n)", system: Be brief., history: talk}}
        set: {n: "=n + 1", heard: "=heard + [result.data.text]"}
      - do: stop
"""


def test_a_rule_uses_text_stop_model_tokens_and_cost():
    """The result of the action is what a rule can see."""
    scene = Scene("  rules: [{say: it is}]\n").run()
    (result,) = [event["result"] for event in scene.events("action.ask")]
    assert (result["text"], result["stop"], result["model"], result["calls"]) == ("it is", "end_turn", "scripted", [])
    assert result["tokens"] > 0
    assert result["cost"] == 0


def test_a_rule_uses_the_arguments_of_a_tool_call():
    """The arguments come as a mapping that expressions can read."""
    scene = Scene(f"{TOOLS}  rules: [{{tool: vote, call: {{vote: {{choice: yes}}}}}}]\n", VOTER).run()
    assert scene.state()["choice"] == "yes"


@pytest.mark.parametrize(
    "broken", ["{vote: {choice: maybe}}", "{vote: {}}", "{vote: {choice: yes, why: x}}", '{vote: \'{"choice": "ye\'}']
)
def test_a_broken_call_is_asked_again_and_never_handed_on(broken):
    """The model is told what is wrong, and its second answer counts; the broken one left no trace in the world."""
    second = '{text: "was not run: {why*}. Call", call: {vote: {choice: no}}}'
    scene = Scene(f"{TOOLS}  rules:\n    - {second}\n    - {{call: {broken}}}\n", VOTER).run()
    assert scene.state()["choice"] == "no"
    assert len(scene.events("model.call")) == 2


def test_a_call_that_stays_broken_is_refused():
    """After three answers the action is refused; nothing was set."""
    scene = Scene(f"{TOOLS}  rules: [{{call: {{vote: {{}}}}}}]\n", VOTER, "until: 2s").run()
    assert "cannot be used" in scene.refusals()[0]
    assert len(scene.events("model.call")) == 3
    assert scene.state() == {"choice": "none", "n": 0}


def test_an_answer_that_was_cut_off_is_not_executed():
    """A tool call in an answer that hit its limit is broken, whatever it looks like."""
    first, second = "{call: {vote: {choice: yes}}, stop: max_tokens}", "{text: was cut off, call: {vote: {choice: no}}}"
    assert Scene(f"{TOOLS}  rules: [{second}, {first}]\n", VOTER).run().state()["choice"] == "no"


def test_a_call_that_an_endpoint_cut_off_is_asked_again():
    """What an endpoint sends of a call before its token limit is refused, and the model is told; not dropped."""

    def script(seen):
        if seen.number == 0:
            return fitting(seen, "", calls=[("vote", '{"choice": "yes"}')], finish="length")
        return fitting(seen, "", calls=[("vote", '{"choice": "no"}')])

    with Endpoint(script) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url)
        scene = Scene(f"{TOOLS}  rules: [{{say: x}}]\n", VOTER, access=access).run()
    assert scene.state()["choice"] == "no"
    assert "was cut off" in endpoint.seen[1].body["messages"][-1]["content"]


def test_an_answer_with_half_a_character_is_an_answer():
    """It is recorded, with the half replaced, and paid for: what it cost counts against the ceiling."""
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 9}
    with Endpoint(lambda seen: Reply(body=whole("hi \ud83d", usage=usage))) as endpoint:
        access = Access(("openai:gpt-4o-mini",), base_url=endpoint.url)
        scene = Scene("  ceiling: 0.1\n  max_tokens: 10", TALKER, access=access).run()
    assert scene.state()["heard"] == ["hi \ufffd"]
    assert scene.events("model.call")[0]["cost_micro"] > 100_000
    assert len(endpoint.seen) == 1


def test_a_history_is_kept_in_the_state():
    """Each question is sent with what was said before, under the system message, and the answer is added."""
    scene = Scene("  rules: [{say: \"=str(messages) + ' ' + system\"}]\n", TALKER).run()
    assert scene.state()["heard"] == ["2 Be brief.", "4 Be brief.", "6 Be brief."]
    assert [message["role"] for message in scene.state()["talk"]] == ["user", "assistant"] * 3
    assert scene.state()["talk"][2]["content"] == "question 1"


def test_a_refused_question_leaves_the_history_alone():
    """Only what was answered is remembered."""
    scene = Scene("  rules: [{fail: bad_request}]\n", TALKER, "until: 2s").run()
    assert scene.state()["talk"] == []


def test_a_history_that_is_no_conversation_is_refused():
    """What a rule has put into the list must be messages."""
    agents = TALKER.replace("talk: []", "talk: [1]")
    assert "role" in Scene("  rules: [{say: x}]\n", agents, "until: 1s").run().refusals()[0]


def test_sampling_reaches_the_model():
    """Temperature and length go with the request."""
    agents = ASKER.replace('or not?"', 'or not?", max_tokens: 7, temperature: 0.5')
    scene = Scene("  rules: [{say: x}]\n", agents).run()
    assert scene.events("action.ask")[0]["arguments"]["max_tokens"] == 7
    call = scene.events("model.call")[0]
    assert call["planned_tokens"] == call["input_tokens"] + 7


@pytest.mark.parametrize(
    "bad", ["max_tokens: 0", "max_tokens: 1.5", 'temperature: "=0 - 1"', 'tools: "=[1]"', "tier: \"='x'\""]
)
def test_wrong_arguments_are_refused(bad):
    """What only shows when the rule is computed is refused, and no call is made."""
    agents = ASKER.replace('or not?"', f'or not?", {bad}')
    scene = Scene("  rules: [{say: x}]\n", agents, "until: 1s").run()
    assert scene.refusals()
    assert not scene.events("model.call")


def test_an_agent_that_waits_for_an_answer_misses_ticks():
    """In tick mode a call that takes time keeps only the asking agent busy."""
    agents = f"{ASKER}\n  - {{name: clock, state: {{n: 0}}, rules: [{{set: {{n: '=n + 1'}}}}]}}"
    models = "  provider: simulated\n  simulated: {first_token: 10, per_token: 0}\n  rules: [{say: it is}]\n"
    scene = Scene(models, agents, "until: 20s").run(mode="tick")
    assert scene.state("clock")["n"] == 20
    assert scene.state()["said"] == "it is"


def test_asking_needs_models():
    """A scenario whose rules ask and that has no models is refused, with the place."""
    with pytest.raises(ScenarioError) as refused:
        loads(f"name: x\nagents:{ASKER}")
    assert "ask needs language models" in str(refused.value)


def test_a_chain_is_offline_or_at_an_endpoint():
    """A call is answered in the core or outside, so a chain cannot mix them."""
    with pytest.raises(UsageError, match="all offline or all at endpoints"):
        Scene("  rules: [{say: x}]\n", access=Access(("openai:a,scripted:b",)))


def test_a_tier_of_the_operator_must_exist():
    """A misspelt tier is an error of usage, with the nearest name."""
    models = "  tiers: {small: a}\n  rules: [{say: x}]\n"
    with pytest.raises(UsageError, match="smal") as refused:
        Scene(models, access=Access(("smal=openai:a",)))
    assert "small" in str(refused.value.hint)
