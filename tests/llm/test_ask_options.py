"""The options of `ask`: what the endpoint gets, which answers are used, and which options are refused."""

import pytest

from sim.base.errors import ScenarioError
from sim.llm.access import Access
from sim.llm.serialization import request_from_json, request_to_json
from sim.llm.types import ChatMessage, ModelRequest, Sampling
from sim.scenario import loads
from tests.llm.endpoint import Endpoint, fitting
from tests.llm.scenes import ASKER, Scene
from tests.llm.test_ask import TOOLS

SCHEMA = "{type: object, properties: {rain: {type: boolean}}, required: [rain], additionalProperties: false}"
RULES = "  rules: [{say: x}]\n"


def asking(options, save="result.data.text"):
    """Return an agent that asks once with these options."""
    return ASKER.replace('or not?"', f'or not?", {options}').replace('"=result.data.text"', f'"={save}"')


def test_the_endpoint_gets_every_option():
    """Each option is a field of the request's body, in the form of the OpenAI interface."""
    options = (
        "top_p: 0.5, seed: 3, stop: [END], tool_choice: vote, tools: [vote], extra_body: {top_k: 4}, stream: true, "
        f"response_format: {SCHEMA}"
    )
    with Endpoint(lambda seen: fitting(seen, "", calls=[("vote", '{"choice": "yes"}')])) as endpoint:
        Scene(TOOLS + RULES, asking(options), access=Access(("openai:m",), base_url=endpoint.url)).run()
    body = endpoint.seen[0].body
    assert (body["top_p"], body["seed"], body["stop"], body["top_k"], body["stream"]) == (0.5, 3, ["END"], 4, True)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "vote"}}
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["rain"]


def test_a_recorded_request_keeps_every_option():
    """What is recorded of a request gives the same request back, and differs when an option does."""
    message = ChatMessage("user", "x")
    request = ModelRequest(
        (message,), sampling=Sampling(top_p=0.5, seed=1, stop=("a",)), response_format={"type": "object"},
        tool_choice="auto", extra_body={"top_k": 1}, stream=True,
    )  # fmt: skip
    assert request_from_json(request_to_json(request)) == request
    assert request_to_json(request) != request_to_json(ModelRequest((message,)))


@pytest.mark.parametrize(
    "broken", ["no JSON", '{"rain": 1}', "{}", '{"rain": true, "x": 1}', "[" * 70 + "]" * 70, '{"rain": tr']
)
def test_an_answer_that_does_not_fit_the_schema_is_asked_for_again(broken):
    """The model is told what is wrong, and its second answer counts."""

    def script(seen):
        return fitting(seen, broken if seen.number == 0 else '{"rain": true}')

    with Endpoint(script) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url)
        agents = asking(f"response_format: {SCHEMA}", "result.data.value.rain")
        scene = Scene(RULES, agents, access=access).run()
    assert scene.state()["said"] is True
    assert "does not fit the JSON Schema" in endpoint.seen[1].body["messages"][-1]["content"]


def test_a_scripted_answer_that_does_not_fit_is_refused():
    """After three answers the action is refused; the error names the model and the fault."""
    scene = Scene(RULES, asking(f"response_format: {SCHEMA}"), "until: 2s").run()
    assert "scripted cannot be used, after 3 requests" in scene.refusals()[0]
    assert "the answer is not JSON" in scene.refusals()[0]
    assert len(scene.events("model.call")) == 3


def test_a_simulated_model_without_rules_fits_the_schema():
    """What fills in for an answer has the form that was asked for."""
    agents = asking(f"response_format: {SCHEMA}", "result.data.value")
    scene = Scene("  provider: simulated\n", agents).run()
    assert scene.state()["said"] == {"rain": False}


@pytest.mark.parametrize(
    ("choice", "answer", "told"),
    [("required", "{say: x}", "must call a tool"), ("vote", "{say: x}", "must call the tool vote"),
     ("none", "{call: {vote: {choice: yes}}}", "No tool may be called")],
)  # fmt: skip
def test_an_answer_that_ignores_the_tool_choice_is_refused(choice, answer, told):
    """The tool choice is a promise to the rule, whatever the server makes of it."""
    scene = Scene(f"{TOOLS}  rules: [{answer}]\n", asking(f"tools: [vote], tool_choice: {choice}"), "until: 2s").run()
    assert told in scene.refusals()[0]


@pytest.mark.parametrize(
    "bad",
    ["top_p: 2", "seed: 0.5", "stop: 3", "tool_choice: auto", 'stream: "=1"', "extra_body: \"={'n': 2}\"",
     "response_format: \"={'type': 3}\""],
)  # fmt: skip
def test_wrong_options_are_refused_before_the_call(bad):
    """What only shows when the rule is computed is refused, and no call is made."""
    scene = Scene(RULES, asking(bad), "until: 1s").run()
    assert scene.refusals()
    assert not scene.events("model.call")


@pytest.mark.parametrize(
    ("bad", "said"),
    [("top_pp: 1", "top_p"), ("response_format: {type: objct}", "objct"), ("extra_body: {messages: []}", "messages")],
)
def test_the_check_of_a_scenario_finds_wrong_options(bad, said):
    """An unknown option, a broken schema and a reserved field are found before the run, with the place."""
    with pytest.raises(ScenarioError) as refused:
        loads(f"name: x\nmodels:\n{RULES}agents:{asking(bad)}")
    assert said in str(refused.value)
