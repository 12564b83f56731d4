"""What models at endpoints can do: what endpoints say for free, what a scenario declares, and what follows from it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim.llm import Access
from sim.llm.capabilities import said_by
from sim.runner import run
from tests.cli.conftest import Done, sim
from tests.llm.endpoint import Endpoint, Reply, Seen, fitting, whole

__all__ = ["sim"]  # the command, as a fixture

Sim = Callable[..., Done]

PLAIN = ["temperature", "max_tokens"]
LISTS: dict[str, tuple[dict[str, Any], dict[str, bool]]] = {
    "OpenAI": ({"object": "model", "owned_by": "system"}, {}),
    "vLLM": ({"owned_by": "vllm", "max_model_len": 4096}, {}),
    "llama.cpp": ({"owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}, {}),
    "OpenRouter, all": (
        {"supported_parameters": [*PLAIN, "tools", "response_format", "structured_outputs"]},
        {"tools": True, "JSON schemas": True},
    ),
    "OpenRouter, JSON of any form": ({"supported_parameters": [*PLAIN, "response_format"]}, {"tools": False}),
    "OpenRouter, text": ({"supported_parameters": PLAIN}, {"tools": False, "JSON schemas": False}),
    "OpenRouter, nothing": ({"supported_parameters": []}, {}),
    "Mistral": ({"capabilities": {"completion_chat": True, "function_calling": False}}, {"tools": False}),
    "Copilot": (
        {"capabilities": {"supports": {"tool_calls": True, "streaming": True}}}, {"tools": True, "streams": True},
    ),
    "Fireworks": ({"supports_chat": True, "supports_tools": False}, {"tools": False}),
    "Hugging Face": (
        {"providers": [{"supports_tools": False, "supports_structured_output": False}, {"supports_tools": True}]},
        {"tools": True, "JSON schemas": False},
    ),
    "LM Studio": ({"capabilities": ["tool_use"]}, {"tools": True}),
    "LM Studio, not trained for tools": ({"capabilities": []}, {}),
    "nonsense": ({"capabilities": "tools", "supported_parameters": {"tools": 1}, "providers": [1], "tags": [[]]}, {}),
    "numbers": ({"supports_tools": 0, "capabilities": {"supports": 7}}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_models(name: str):
    """What an endpoint's list says of a model is read in each form; what it does not mention is not known, and an entry
    of another model says nothing.
    """
    entry, expected = LISTS[name]
    assert said_by({"data": [{"id": "other", "supports_tools": True}, {"id": "m", **entry}]}, "m") == expected
    assert said_by([{"id": "m", **entry}], "m") == expected
    assert said_by({"data": [entry]}, "m") == {}


@pytest.mark.parametrize("listing", [None, [], {}, {"data": None}, {"data": [None, 3]}, "no", 4.5])
def test_no_list_of_models(listing: Any):
    """An endpoint without a list of models, or with anything else, says nothing."""
    assert said_by(listing, "m") == {}


LATE = """
name: late
until: 1m
models:
  latency: 100ms
  endpoints: {{lab: {{{declared}}}}}
  tools: {{decide: {{description: decides, parameters: {{}}}}}}
  rules: [{{use: talk, say: hm}}]
agents:
  - name: a
    loop: {{min_loop_delay: 1s}}
    state: {{n: 0}}
    rules:
      - {{when: n < 2, do: {{ask: {{prompt: Hello?, use: talk}}}}, set: {{n: "=n + 1"}}}}
      - {{when: n == 2, do: {{ask: {{prompt: Which?, use: talk, tools: [decide]}}}}, set: {{n: 3}}}}
      - do: stop
"""


def listed(**entry: Any) -> Callable[[str], Reply]:
    """Return a list of models in which `m` has an entry, and `good` can do all."""
    good = {"id": "good", "supported_parameters": ["tools", "structured_outputs"]}
    return lambda path: Reply(body={"data": [{"id": "m", **entry}, good]})


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a scenario whose third call needs a tool."""
    monkeypatch.chdir(tmp_path)

    def write(declared: str = "") -> Path:
        file = tmp_path / "late.yaml"
        file.write_text(LATE.format(declared=declared))
        return file

    return write


@pytest.mark.parametrize(
    ("declared", "entry", "refused"),
    [
        ("", {"supports_tools": False}, "as the endpoint says of its models"),
        ("tools: false", {"supports_tools": True}, "as models.endpoints.lab.tools says"),
        ("tools: true", {"supports_tools": False}, None),
        ("", {}, None),
    ],
)
def test_a_misfit_is_refused_before_anything_is_sent(sim: Sim, late, declared, entry, refused):
    """A run whose third call needs what its model is known not to be able to do is wrong usage: nothing was sent, and
    there is no record. The scenario precedes the endpoint; what is not known is tried.
    """
    with Endpoint(fitting) as endpoint:
        endpoint.listing = listed(**entry)
        done = sim("run", late(declared), "--model", "lab:m", "--endpoint", f"lab={endpoint.url}")
    if refused is None:
        assert any("tools" in seen.body for seen in endpoint.seen)
        return
    assert (done.code, endpoint.seen) == (2, [])
    assert f"lab:m does not support tools, {refused}; " in done.err
    assert "of this run would need it" in done.err
    assert ("set models.endpoints.lab.tools to true" in done.err) == (not declared)
    assert not Path("runs").exists()


def test_an_estimate_says_what_is_known_and_needed(sim: Sim, late):
    """An estimate has for each model and need: whether it can, who says so, and how many calls need it. A probe of a
    misfit is refused before it costs anything.
    """
    with Endpoint(fitting) as endpoint:
        endpoint.listing = listed(supports_tools=False)
        options = ("--model", "lab:m", "--endpoint", f"lab={endpoint.url}", "--estimate")
        shown, probed = sim("run", late("streams: true"), *options), sim("run", late(), *options, "--probe", "1")
        found = json.loads(sim("run", late("streams: true"), *options, "--json").out)
    assert endpoint.seen == []
    assert found["capabilities"] == {
        "lab:m": {
            "tools": {"can": False, "by": "endpoint"}, "JSON schemas": {"can": None, "by": None},
            "streams": {"can": True, "by": "scenario"},
        }
    }  # fmt: skip
    ((need),) = found["estimate"]["needs"]
    assert (need["need"], need["models"]) == ("tools", ["lab:m"])
    rows = [line.split() for line in shown.out.splitlines() if line.startswith("lab:m ")][-3:]
    assert rows == [
        ["lab:m", "tools", "no", "the", "endpoint", str(need["calls"])],
        ["lab:m", "JSON", "schemas", "not", "known", "0"],
        ["lab:m", "streams", "yes", "the", "scenario", "0"],
    ]
    assert (probed.code, "does not support tools" in probed.err) == (2, True)


def test_without_an_estimate_a_misfit_ends_the_run_unsent(late):
    """A program that makes no estimate gets the same sentence when the first such call is due, and it is not sent."""
    with Endpoint(fitting) as endpoint:
        endpoint.listing = listed(supports_tools=False)
        result = run(late(), access=Access(("lab:m",), base_url=None, endpoints=at(endpoint)), out=None)
    assert len(endpoint.seen) == 2
    assert "lab:m does not support tools, as the endpoint says" in str(result.stopped_by)


def at(endpoint: Endpoint) -> dict[str, Any]:
    """Return the endpoint `lab`."""
    from sim.llm.access import Endpoint as Place

    return {"lab": Place(endpoint.url)}


def test_a_chain_steps_over_a_model_that_cannot(late):
    """A call goes to the first model of its chain that is not known to be unable to answer it."""
    with Endpoint(fitting) as endpoint:
        endpoint.listing = listed(supports_tools=False)
        run(late(), access=Access(("lab:m,lab:good",), endpoints=at(endpoint)), out=None)
    asked = [(seen.body["model"], "tools" in seen.body) for seen in endpoint.seen]
    assert set(asked) == {("m", False), ("good", True)}


def test_ollama_is_asked_about_its_models(late):
    """Ollama says what a model can do at an address of its own, which costs nothing."""

    def script(seen: Seen) -> Reply:
        if seen.path == "/api/show":
            return Reply(
                body={"capabilities": ["completion"] if seen.body["model"] == "m" else ["completion", "tools"]}
            )
        return Reply(body=whole("Hello."))

    with Endpoint(script) as endpoint:
        endpoint.listing = lambda path: Reply(body={"data": [{"id": "m", "owned_by": "library"}]})
        run(late(), access=Access(("lab:m,lab:good",), endpoints=at(endpoint)), out=None)
    asked = {(seen.body["model"], "tools" in seen.body) for seen in endpoint.seen if seen.path != "/api/show"}
    assert asked == {("m", False), ("good", True)}


def test_a_schema_that_is_only_preferred_is_left_out(late):
    """A question of a survey is asked without its schema if the model is known not to keep it, and nothing is lost."""
    questions = "interventions: [{at: 1s, survey: {questions: [{ask: How much?, scale: [1, 7]}]}}]\n"
    file = late()
    file.write_text(
        file.read_text().split("agents:")[0] + "agents: [{name: a, rules: [{do: {sleep: {for: 1h}}}]}]\n" + questions
    )
    with Endpoint(lambda seen: fitting(seen, "4")) as endpoint:
        endpoint.listing = listed(supported_parameters=PLAIN)
        result = run(file, access=Access(("lab:m",), endpoints=at(endpoint)), out=None)
    (seen,) = endpoint.seen
    assert "response_format" not in seen.body
    assert result.models["surveys"] == {"How much?": {"answers": 1, "missing": 0}}
