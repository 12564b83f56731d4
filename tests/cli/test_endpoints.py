"""Several endpoints in one run, scripted models beside real ones, and names for local servers."""

import json
from pathlib import Path

import attrs
import pytest

from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting

TIERS = """
name: tiers
until: 1m
models:
  tiers: {small: tiny, large: huge}
  rules: [{say: from the script}]
agents:
  - name: asker
    state: {n: 0}
    rules:
      - {when: n == 0, do: {ask: {prompt: A small question?, tier: small}}, set: {n: 1}}
      - {when: n == 1, do: {ask: {prompt: A large question?, tier: large}}, set: {n: 2}}
      - do: stop
"""
KEY = "sk-canary-0123456789"


@pytest.fixture
def tiers(tmp_path, monkeypatch):
    """A scenario that asks a model of each of two tiers, in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "tiers.yaml"
    path.write_text(TIERS)
    return path


def _prompts(endpoint: Endpoint) -> list[str]:
    return [seen.body["messages"][-1]["content"] for seen in endpoint.seen]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_tier_at_an_endpoint_of_its_own(sim, tiers, monkeypatch, backend):
    """Each model is asked at its own endpoint, with its own key and no other; the run replays without any."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-alone")
    monkeypatch.setenv("FAST_KEY", KEY)
    with Endpoint(fitting) as one, Endpoint(fitting) as other:
        done = sim(
            "run", tiers, "--backend", backend, "--model", "small=fast:tiny", "--model", "large=openai:huge",
            "--endpoint", f"fast={one.url}", "--endpoint-key", "fast=FAST_KEY", "--base-url", other.url,
        )  # fmt: skip
    assert done.code == 0, done.err

    assert (_prompts(one), _prompts(other)) == (["A small question?"], ["A large question?"])
    assert one.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert other.seen[0].headers["authorization"] == "Bearer sk-of-openai-alone"
    assert len(one.probes) == len(other.probes) == 1
    assert "fast:tiny" in done.out
    recorded = b"".join(path.read_bytes() for path in Path("runs").rglob("*") if path.is_file())
    assert KEY.encode() not in recorded
    assert sim("replay", "tiers").code == 0


def test_a_scripted_model_beside_a_real_one(sim, tiers):
    """With a model for one tier alone, the other one stays scripted."""
    with Endpoint(lambda seen: fitting(seen, "from outside")) as endpoint:
        done = sim("run", tiers, "--model", "large=fast:huge", "--endpoint", f"fast={endpoint.url}")
    assert done.code == 0, done.err

    assert _prompts(endpoint) == ["A large question?"]
    rows = json.loads(sim("show", "tiers", "llm_calls", "--json").out)
    texts = json.dumps(rows)
    assert "scripted" in texts
    assert "fast" in texts


@pytest.mark.slow
def test_a_branch_to_another_endpoint_needs_a_word(sim, tiers):
    """If one of several endpoints is another one, or missing, nothing is sent."""
    models = ["--model", "small=a:tiny", "--model", "large=b:huge"]
    with Endpoint(fitting) as one, Endpoint(fitting) as other, Endpoint(fitting) as third:
        assert sim("run", tiers, *models, "--endpoint", f"a={one.url}", "--endpoint", f"b={other.url}").code == 0
        asked = len(one.seen), len(other.seen)
        missing = sim("branch", "tiers", "--at", "0s", "--endpoint", f"a={one.url}")
        moved = sim("branch", "tiers", "--at", "0s", "--endpoint", f"a={one.url}", "--endpoint", f"b={third.url}")
        assert (missing.code, moved.code) == (2, 2)
        assert "unknown model provider 'b'" in missing.err
        assert "another endpoint" in moved.err
        assert ((len(one.seen), len(other.seen)), third.seen) == (asked, [])
        same = sim("branch", "tiers", "--at", "0s", "--endpoint", f"b={other.url}", "--endpoint", f"a={one.url}")
        assert same.code == 0, same.err


def test_a_local_server_has_a_name(sim, tiers, monkeypatch):
    """`ollama:NAME` needs no address; with --base-url it is there. The key of OpenAI is not sent to it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with Endpoint(fitting) as endpoint:
        done = sim("run", tiers, "--no-record", "--model", "ollama:llama3:8b", "--base-url", endpoint.url)
    assert done.code == 0, done.err
    assert {seen.body["model"] for seen in endpoint.seen} == {"llama3:8b"}
    assert KEY not in endpoint.seen[0].headers.get("authorization", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "fast:m"], "unknown model provider 'fast'"),
        (["--model", "fast:m", "--endpoint", "fast"], "NAME=URL"),
        (["--model", "fast:m", "--endpoint", "fast=not an address"], "the base URL is not valid"),
        (
            ["--model", "fast:m", "--endpoint", "fast=http://127.0.0.1:9", "--endpoint-key", "fast=NO_SUCH"],
            "NO_SUCH",
        ),
        (["--model", "fast:m", "--endpoint", "fast=http://127.0.0.1:9", "--endpoint-key", "slow=HOME"], "'slow'"),
        (["--model", "m:n", "--endpoint", "openai=http://127.0.0.1:9/v1"], "not a valid name"),
        (["--endpoint", "fast=http://127.0.0.1:9/v1"], "no model at an endpoint"),
        (["--model", "fast:m", "--endpoint", "fast=http://127.0.0.1:9/v1"], "cannot be reached"),
    ],
)
def test_wrong_endpoints_are_refused(sim, tiers, options, words):
    """What is missing or wrong about an endpoint is one sentence, before anything is run."""
    done = sim("run", tiers, "--no-record", *options)

    assert done.code in (1, 2)
    assert words in done.err
    assert "Traceback" not in done.err


def late_refusal(seen: Seen) -> Reply:
    """Refuse the key, after a while."""
    return attrs.evolve(error(401, "no"), delay=0.3)


def test_an_endpoint_that_refuses_its_first_call_ends_the_run_although_another_answered(sim, tiers):
    """Whether an endpoint has ever answered is known for each."""
    with Endpoint(fitting) as one, Endpoint(late_refusal) as other:
        other.listing = lambda path: Reply(404)
        done = sim(
            "run", tiers, "--no-record", "--model", "small=a:tiny", "--model", "large=b:huge",
            "--endpoint", f"a={one.url}", "--endpoint", f"b={other.url}",
        )  # fmt: skip
    assert len(one.seen) == 1
    assert "b:huge refused the first call" in " ".join(done.out.split())


def test_a_chain_steps_down_from_one_endpoint_to_another(sim, tiers):
    """When the preferred endpoint refuses a model, the next of the chain answers at its own endpoint."""
    with Endpoint(lambda seen: error(404, "no such model")) as one, Endpoint(fitting) as other:
        done = sim(
            "run", tiers, "--no-record", "--model", "a:tiny,b:huge",
            "--endpoint", f"a={one.url}", "--endpoint", f"b={other.url}",
        )  # fmt: skip
    assert done.code == 0, done.err
    assert (len(one.seen), len(other.seen)) == (2, 2)


def test_an_endpoint_that_is_not_there_is_named_before_the_start(sim, tiers):
    """One dead endpoint of two ends the command before anything is asked; its name is said, its address is not."""
    with Endpoint(fitting) as one:
        done = sim(
            "run", tiers, "--model", "small=a:tiny", "--model", "large=b:huge",
            "--endpoint", f"a={one.url}", "--endpoint", "b=http://127.0.0.1:1/v1",
        )  # fmt: skip
        assert one.seen == []
    assert done.code == 1
    assert "the endpoint b cannot be reached" in done.err
    assert "127.0.0.1" not in done.err
    assert not Path("runs").exists()
