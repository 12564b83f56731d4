"""The options of language models, the estimate, and the table at the end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sim as sim_package
from sim.actors import Agent
from sim.base.errors import UsageError
from sim.llm import Access, ChatMessage, ModelRequest, Models
from sim.record import VIEWS, open_run
from sim.runner import RunController, run
from sim.runner.progress import failures
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting, whole

ASKS = """
name: asks
until: 1m
models:
  tiers: {small: gpt-4o-mini}
  rules: [{say: it is}]
agents:
  - name: asker
    state: {n: 0}
    rules:
      - {when: n < 2, do: {ask: {prompt: Is it raining?}}, set: {n: "=n + 1"}}
      - do: stop
"""
KEY = "sk-canary-0123456789"


@pytest.fixture
def asks(tmp_path, monkeypatch):
    """A scenario that asks twice, in the folder where the command runs; no key and no address in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "asks.yaml"
    path.write_text(ASKS)
    return path


def test_a_run_ends_with_a_table_of_its_calls(sim, asks):
    """Calls, attempts, tokens and cost by model; a scripted model may have the name and the price of a real one."""
    done = sim("run", asks, "--no-record")
    assert done.code == 0
    assert "scripted:gpt-4o-mini" in done.out
    models = json.loads(sim("run", asks, "--no-record", "--json").out)["models"]
    assert models["total"]["calls"] == 2
    assert models["total"]["cost_micro"] > 0


def test_the_table_is_shown_later_too(sim, asks):
    """`sim show` prints what `sim run` printed, and the calls are a view."""
    sim("run", asks)
    assert "scripted:gpt-4o-mini" in sim("show", "asks").out
    rows = json.loads(sim("show", "asks", "llm_calls", "--json").out)
    assert len(rows["rows"]) == 2
    assert {"agent", "use", "model", "input_tokens", "cost", "stop"} <= set(rows["columns"])


LONG = "Is it raining in the north of the country, or will it rain there before the evening comes?"


def test_prompts_stand_beside_their_answers(sim, asks):
    """The view has a row for each call: all messages in order, short and long, the answer, tokens, cost and attempts.

    A call that failed has its error. The view agrees with what was sent, and with `llm_calls`.
    """
    history = "system: Be brief., history: talk}}, set:"
    text = ASKS.replace("Is it raining?}}, set:", f"'{LONG}', {history}").replace("{n: 0}", "{n: 0, talk: []}")
    asks.write_text(text.replace("n < 2", "n < 3"))

    def script(seen: Seen) -> Reply:
        if seen.number == 0:
            return error(429, retry_after="0.01")
        return error(400) if seen.number == 3 else Reply(body=whole(f"answer {seen.number}"))

    with Endpoint(script) as endpoint:
        done = sim("run", asks, "--model", "openai:gpt-4o-mini", "--base-url", endpoint.url)
        sent = [seen.body["messages"] for seen in endpoint.seen]
    assert done.code == 0, done.err
    rows = table(sim, "prompts")
    assert [row["request"] for row in rows] == sent[1:]
    assert {"role": "user", "content": LONG} in sent[1]
    assert [row["answer"] for row in rows] == ["answer 1", "answer 2", None, "answer 4"]
    assert [row["status"] for row in rows] == ["ok", "ok", "bad_request", "ok"]
    assert [row["attempts"] for row in rows] == [2, 1, 1, 1]
    calls = table(sim, "llm_calls")
    for name in ("agent", "provider", "model", "input_tokens", "output_tokens"):
        assert [row[name] for row in rows] == [call[name] for call in calls]
    assert [row["cost"] for row in rows[:2]] == [call["cost"] for call in calls[:2]]
    assert "answer 2" in sim("show", "asks", "prompts").out


@pytest.mark.slow
def test_a_call_names_its_effect(sim, asks):
    """Calls of an agent that end at the same instant, in any order and by other actors, have their own requests and
    answers; a call of a model in the run has no effect.
    """

    class Many(Agent):
        """Asks three questions at once, in processes of their own, and one itself."""

        async def decide_action(self) -> sim_package.Action:
            models = Models.of(self.world)

            async def put(text: str) -> None:
                await models.complete(self, ModelRequest((ChatMessage("user", text),)))

            for name in "cab":
                self.world.spawn(name, put(f"by {name}"))
            await put("by asker")
            return sim_package.Action("stop")

    asks.write_text("name: many\nuntil: 1m\nmodels: {latency: 1s}\nagents: [{name: asker, kind: many}]\n")
    with Endpoint(lambda seen: Reply(body=whole("answer " + seen.body["messages"][0]["content"]))) as endpoint:
        access = Access(models=("openai:m",), base_url=endpoint.url)
        outside = run(asks, access=access, kinds={"many": Many}, out="runs").run
    inside = run(asks, access=Access(models=("simulated:m",)), kinds={"many": Many}, out="runs").run
    for folder, named in ((outside, True), (inside, False)):
        assert folder is not None
        with open_run(folder) as stored:
            calls = stored.query(
                "SELECT data ->> 'effect', data ->> 'effect_of' FROM events WHERE topic = 'model.call'"
            )
            assert sorted(calls, key=str) == (
                [(1, "a"), (1, "b"), (1, "c"), (1, None)] if named else [(None, None)] * 4
            )
            rows = stored.query("SELECT request ->> '$[0].content', answer FROM prompts")
            assert len(rows) == 4
            assert all(answer == f"answer {question}" for question, answer in rows) is named


@pytest.mark.slow
def test_answers_arrive_in_parts_if_the_operator_wants(sim, asks):
    """With --stream, endpoints stream although nothing in the process observes them; the record has the same text."""
    with Endpoint(fitting) as endpoint:
        for options in ((), ("--stream",)):
            assert sim("run", asks, *options, "--model", "openai:m", "--base-url", endpoint.url).code == 0
            assert [row["answer"] for row in table(sim, "prompts")] == ["hello there"] * 2
        assert [bool(seen.body.get("stream")) for seen in endpoint.seen] == [False, False, True, True]


@pytest.mark.slow
def test_a_view_that_was_added_after_a_run_shows_it_too(sim, asks, monkeypatch):
    """A run file without the view is read with the reader's own definition, and is whole."""
    with Endpoint(fitting) as endpoint, monkeypatch.context() as patch:
        patch.delitem(VIEWS, "prompts")
        assert sim("run", asks, "--model", "openai:m", "--base-url", endpoint.url).code == 0
    assert sim("verify", "asks").code == 0
    assert [row["answer"] for row in table(sim, "prompts")] == ["hello there"] * 2


def table(sim, view: str) -> list[dict[str, Any]]:
    """Return the rows of a view of the run `asks`."""
    found = json.loads(sim("show", "asks", view, "--json").out)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def test_an_estimate_spends_nothing_and_keeps_nothing(sim, asks, tmp_path):
    """With --estimate nothing is called: the address leads nowhere, and there is no folder of a run."""
    done = sim("run", asks, "--estimate", "--model", "openai:gpt-4o", "--base-url", "http://127.0.0.1:1/v1")
    assert done.code == 0
    assert "simulated:gpt-4o" in done.out
    assert not (tmp_path / "runs").exists()
    found = json.loads(sim("run", asks, "--estimate", "--model", "openai:unheard-of", "--json").out)["estimate"]
    assert found["unpriced"] == ["unheard-of"]


def test_an_estimate_says_what_the_calls_cost_at_most(sim, asks):
    """Beside the expected cost stands that of the longest answers with all retries, which the scenario may change."""
    assert "at most" in sim("run", asks, "--estimate", "--model", "openai:gpt-4o").out

    def most(*options: str) -> tuple[int, int]:
        done = sim("run", asks, "--estimate", "--json", "--model", "openai:gpt-4o", *options)
        total = json.loads(done.out)["estimate"]["total"]
        return total["cost_micro"], total["most_micro"]

    cost, usual = most()
    once, thrice = (most("--set", f"models.retry.requests={number}")[1] for number in (1, 3))
    assert 0 < cost < once
    assert (thrice, usual) == (3 * once, 8 * once)
    assert once >= 2 * 1024 * 10  # two answers of max_tokens at 10 micro-units a token
    assert most("--set", "models.retry.requests=1", "--set", "models.max_tokens=2048")[1] > 1.9 * once


def test_an_estimate_bounds_what_a_failing_endpoint_charges(sim, asks):
    """A run whose endpoint fails often, and answers as long as it may, costs no more than the estimate's `at most`."""
    found = json.loads(sim("run", asks, "--estimate", "--json", "--model", "openai:gpt-4o").out)["estimate"]["total"]
    used = {"prompt_tokens": 12, "completion_tokens": 1024, "total_tokens": 1036}

    def script(seen: Seen) -> Reply:
        return error(429, retry_after="0.01") if seen.number % 2 == 0 else Reply(body=whole("it is", usage=used))

    with Endpoint(script) as endpoint:
        done = sim("run", asks, "--no-record", "--json", "--model", "openai:gpt-4o", "--base-url", endpoint.url)
    spent = json.loads(done.out)["models"]["total"]
    assert spent["attempts"] > spent["calls"] == 2
    assert found["cost_micro"] < spent["cost_micro"] <= found["most_micro"]


def test_a_real_run_shows_the_estimate_beside_what_it_took(sim, asks, monkeypatch):
    """The endpoint and the key come from the environment; the table compares; the key is in no output."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Endpoint(lambda seen: fitting(seen, f"the key is {KEY}")) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        done = sim("run", asks, "--no-record", "--model", "openai:gpt-4o-mini", "--header", "x-team: secret-team")
        headers = endpoint.seen[0].headers
    assert done.code == 0, done.err
    assert (headers["authorization"], headers["x-team"]) == (f"Bearer {KEY}", "secret-team")
    assert "openai:gpt-4o-mini" in done.out
    assert "expected" in done.out
    assert KEY not in done.out + done.err


def test_a_key_that_cannot_be_sent_is_an_error_of_usage(sim, asks, monkeypatch):
    """White space around a key is the file's that it came from, and goes; within, it is no key. It is not repeated."""
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\r\n")
    with Endpoint(fitting) as endpoint:
        assert sim("run", asks, "--no-record", "--model", "openai:m", "--base-url", endpoint.url).code == 0
        assert endpoint.seen[0].headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY} {KEY}")
    done = sim("run", asks, "--no-record", "--model", "openai:m")
    assert done.code == 2
    assert "without spaces" in done.err
    assert KEY not in done.err


def test_a_local_server_needs_no_key(sim, asks):
    """Without a key in the environment a run against one's own server works."""
    with Endpoint(fitting) as endpoint:
        done = sim("run", asks, "--no-record", "--model", "openai:local", "--base-url", endpoint.url)
    assert done.code == 0, done.err
    assert "no price is known for local" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "gpt-4o"], "PROVIDER:NAME"),
        (["--model", "opnai:x"], "unknown model provider"),
        (["--model", "big=openai:x"], "the scenario does not have"),
        (["--base-url", "http://x"], "no model at an endpoint"),
        (["--stream"], "no model at an endpoint"),
        (["--model", "openai:x", "--stream", "--batch"], "--stream is given with --batch"),
        (["--model", "scripted:x", "--tokens-per-minute", "5"], "no model at an endpoint"),
        (["--model", "openai:x", "--header", "sk-canary"], "NAME:VALUE"),
        (["--model", "openai:x", "--header", "x y: sk-canary"], "a header must have"),
        (["--model", "openai:x", "--base-url", "http://me:sk-canary@127.0.0.1:1/v1"], "--header"),
        (["--model", "openai:x", "--base-url", "sk-canary:8000/v1"], "the base URL is not valid"),
    ],
)
def test_wrong_options_are_errors_of_usage(sim, asks, options, words):
    """Exit code 2 and a sentence, without what may be a secret."""
    done = sim("run", asks, "--no-record", *options)
    assert done.code == 2
    assert words in done.err
    assert "sk-canary" not in done.err


def test_a_scenario_without_models_takes_none(sim, tiny):
    """--model needs something to replace."""
    done = sim("run", tiny, "--no-record", "--model", "scripted:x")
    assert done.code == 2
    assert "no language models" in done.err


def test_what_code_does_cannot_be_estimated(sim, asks, tmp_path, monkeypatch):
    """Agents of other kinds are code, which an estimate must not run."""
    code = "import sim\n\n\nclass Thing(sim.Agent):\n    async def decide_action(self):\n        raise SystemExit\n"
    (tmp_path / "thing.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    asks.write_text(ASKS.replace("name: asker", "name: asker\n    kind: thing:Thing"))
    done = sim("run", asks, "--estimate", "--allow", "thing")
    assert done.code == 2
    assert "cannot be estimated" in done.err


def whole_run(endpoint: Endpoint, *more: str) -> list[str]:
    """Return the options of a run at an endpoint."""
    return ["--model", "openai:m", "--base-url", endpoint.url, *more]


@pytest.mark.slow
def test_a_branch_sends_prompts_to_no_other_endpoint_than_its_run(sim, asks, tmp_path, monkeypatch):
    """Without the address of the run, or with another one, nothing is sent; the operator may allow another one."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Endpoint(fitting) as here, Endpoint(fitting) as there:
        assert sim("run", asks, *whole_run(here)).code == 0
        asked = len(here.seen)
        for verb in (("branch", "asks", "--at", "0s"), ("branch", "asks", "--at", "500ms", "--seed", "7")):
            silent = sim(*verb)
            assert silent.code == 2
            assert "OpenAI's own" in silent.err
            assert "--base-url" in silent.err
            assert "--other-endpoint" in silent.err
            other = sim(*verb, "--base-url", there.url)
            assert other.code == 2
            assert "not the same" in other.err
            assert (len(here.seen), there.seen) == (asked, [])
        assert sim("branch", "asks", "--at", "0s", "--base-url", f"{here.url}/").code == 0
        assert len(here.seen) == 2 * asked
        assert sim("branch", "asks~1", "--at", "0s", "--base-url", there.url, "--other-endpoint").code == 0
        assert len(there.seen) == asked
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert str(here.port).encode() not in kept
    assert sim("replay", "asks").code == 0  # which asks no endpoint and needs none


def kill_in_the_second_call(start, asks: Path, endpoint: Endpoint) -> None:
    """Run in a process of its own and kill it when its second call has reached the endpoint."""
    endpoint.script = lambda seen: Reply(end="hang") if seen.number == 1 else fitting(seen)
    process = start("run", asks, *whole_run(endpoint))
    while len(endpoint.seen) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.wait()
    endpoint.script = fitting


@pytest.mark.slow
def test_a_resume_sends_prompts_to_no_other_endpoint_than_its_run(sim, start, asks):
    """A run that was killed is resumed at its own endpoint only, and keeps the estimate that was made before it."""
    with Endpoint(fitting) as here, Endpoint(fitting) as there:
        estimated = json.loads(sim("run", asks, *whole_run(here), "--estimate", "--json").out)["estimate"]
        kill_in_the_second_call(start, asks, here)
        silent, other = sim("resume", "asks"), sim("resume", "asks", "--base-url", there.url)
        assert (silent.code, other.code) == (2, 2)
        assert "another endpoint" in silent.err
        assert (len(here.seen), there.seen) == (2, [])
        done = sim("resume", "asks", "--base-url", here.url)
        assert done.code == 0, done.err
        assert len(here.seen) == 3
        (row,) = [line.split() for line in done.out.splitlines() if line.startswith("expected")]
        assert [int(cell.replace(",", "")) for cell in row[1:5]] == [
            estimated["total"][name] for name in ("calls", "failed", "attempts", "input_tokens")
        ]
        probed = len(here.probes)
        models = json.loads(sim("show", "asks", "--json").out)["models"]
        assert models["expected"]["total"] == estimated["total"]
        total = models["total"]
        assert (total["calls"], total["attempts"], total["estimated"]) == (2, 3, 1)  # the one that was killed counts
        assert total["input_tokens"] > 2 * 12  # as the endpoint says of the two others
        assert sim("replay", "asks").code == 0
        assert len(here.probes) == probed


@pytest.mark.slow
def test_models_that_a_branch_changed_are_found_again(sim, asks, tmp_path):
    """A branch from scripted models to an endpoint can be left again, at that endpoint only."""
    with Endpoint(fitting) as here:
        assert sim("run", asks).code == 0
        assert sim("branch", "asks", "--at", "50ms", *whole_run(here)).code == 0
        refused = sim("branch", "asks", "--at", "60ms", "--seed", "5")
        assert refused.code == 2
        assert "another endpoint" in refused.err
        done = sim("branch", "asks", "--at", "60ms", "--seed", "5", "--base-url", here.url)
        assert done.code == 0, done.err


def test_a_missing_key_for_openai_is_refused_before_the_start(sim, asks, tmp_path):
    """OpenAI's own address wants a key; without one there is no run, and nothing is asked."""
    done = sim("run", asks, "--model", "openai:gpt-4o-mini")
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err
    assert not (tmp_path / "runs").exists()


# -- endpoints that are not there, or not what they should be


def test_an_endpoint_that_cannot_be_reached_is_found_before_the_start(sim, asks, tmp_path):
    """At a port where nobody listens there is no run: one sentence, and exit code 1."""
    done = sim("run", asks, "--model", "openai:m", "--base-url", "http://127.0.0.1:1/v1")
    assert done.code == 1
    assert "cannot be reached" in done.err
    assert "127.0.0.1" not in done.err
    assert not (tmp_path / "runs").exists()


def test_a_missing_v1_is_named(sim, asks, tmp_path):
    """An address that lacks /v1 is refused, with what to add, and no call is made."""
    with Endpoint(fitting) as endpoint:
        endpoint.listing = lambda path: Reply(body={}) if path == "/v1/models" else error(404)
        done = sim("run", asks, "--model", "openai:m", "--base-url", endpoint.url.removesuffix("/v1"))
    assert done.code == 2
    assert "add /v1 to the base URL" in done.err
    assert endpoint.seen == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "listing",
    [
        error(404), error(405), error(403), error(500), error(429), Reply(body=b"<html>"), Reply(end="cut"),
        Reply(302, {"location": "/"}), error(401, "Missing scopes: api.model.read"),
    ],
    ids=lambda reply: f"{reply.status} {reply.end}" + (" html" if reply.body == b"<html>" else ""),
)  # fmt: skip
def test_a_list_of_models_is_not_needed(sim, asks, listing):
    """A server that has no list of models, or does not give it, is asked all the same."""
    with Endpoint(fitting) as endpoint:
        endpoint.listing = lambda path: listing
        done = sim("run", asks, "--no-record", *whole_run(endpoint))
    assert done.code == 0, done.err
    assert len(endpoint.seen) == 2


def test_a_wrong_key_is_found_before_the_start(sim, asks, tmp_path, monkeypatch):
    """An endpoint that refuses the key is not asked by any agent; the key is not repeated."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Endpoint(fitting) as endpoint:
        endpoint.listing = lambda path: error(401, f"Incorrect API key provided: {KEY}")
        done = sim("run", asks, *whole_run(endpoint))
    assert done.code == 2
    assert "refuses the key" in done.err
    assert KEY not in done.err
    assert endpoint.seen == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_for_good_ends_the_run_if_nothing_was_answered(sim, asks, status):
    """A wrong key, path or name of a model fails the first call, and with it the run; it can be replayed."""
    with Endpoint(lambda seen: error(status, "model m does not exist")) as endpoint:
        done = sim("run", asks, *whole_run(endpoint))
        probed = len(endpoint.probes)
        again = sim("replay", "asks")
    assert done.code == 1
    assert "refused the first call" in done.out
    assert "no model call was answered: all 1 failed" in done.err
    assert (len(endpoint.seen), len(endpoint.probes)) == (1, probed)
    assert again.code == 0, again.out


def test_a_refusal_after_an_answer_is_the_agents_affair(sim, asks):
    """An endpoint that has answered once works: what it refuses later fails one call, and the run finishes."""
    with Endpoint(lambda seen: error(404) if seen.number else fitting(seen)) as endpoint:
        done = sim("run", asks, *whole_run(endpoint), "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["stopped_by"] is None
    assert len(endpoint.seen) > 1


def test_a_run_whose_calls_all_failed_fails(sim, asks):
    """A run in which no endpoint answered any call ends with exit code 1, and says how many failed."""
    with Endpoint(lambda seen: error(500)) as endpoint:
        done = sim("run", asks, *whole_run(endpoint), "--set", "models.retry.requests=1")
    assert done.code == 1
    assert "no model call was answered" in done.err
    assert done.out


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            '{say: "=state.missing"}',
            "the scripted rule 'models.rules[0]' cannot answer: 'state.missing': there is no key 'missing'",
        ),
        (
            "{when: state.missing > 1, say: x}",
            "'models.rules[0]' cannot be evaluated: 'state.missing > 1': there is no key 'missing'",
        ),
        ("{use: judge, say: x}", "no scripted rule answers asker (use agent, user: 'Is it raining?')"),
    ],
)
@pytest.mark.parametrize("provider", ["scripted", "simulated"])
def test_a_fault_of_a_scripted_rule_is_no_outage(sim, asks, rule, said, provider):
    """Agents see a call that failed; the summary counts the faults of rules, the run warns, and --strict fails."""
    text = ASKS.replace("{say: it is}", rule).replace("  tiers:", f"  provider: {provider}\n  tiers:")
    asks.write_text(text)
    done = sim("run", asks, "--no-record", "--json")
    found = json.loads(done.out)
    count = found["models"]["rule_faults"]
    assert (done.code, count) == (0, found["models"]["total"]["failed"])
    assert count > 0
    (warning,) = found["warnings"]
    assert said in warning["text"]
    assert f"sim: warning: {warning['text']}\n" in done.err
    strict = sim("run", asks, "--no-record", "-q", "--strict")
    assert strict.code == 1


def test_failed_calls_stand_in_the_progress(asks):
    """The line of progress says how many model calls have failed of how many."""
    runners: list[RunController] = []
    with Endpoint(lambda seen: error(500) if seen.number == 0 else fitting(seen)) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url)
        run(asks, access=access, overrides=["models.retry.requests=1"], begun=runners.append)
    assert failures(runners[0]) == ", 1 of 3 model calls failed"


@pytest.mark.slow
def test_the_client_is_imported_before_the_first_call(asks, tmp_path):
    """The libraries take a second to import: that is no latency of the first call."""
    script = tmp_path / "importing.py"
    script.write_text(
        "import sys, sim\n"
        "from sim.llm import Access\n"
        "assert 'openai' not in sys.modules\n"
        "access = Access(('openai:m',), base_url=sys.argv[1])\n"
        "begun = lambda runner: print('openai' in sys.modules)\n"
        "sim.run(sys.argv[2], access=access, begun=begun)\n"
    )
    with Endpoint(fitting) as endpoint:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, script, endpoint.url, asks], env=environment, capture_output=True, text=True, check=True
        )
    assert done.stdout.split() == ["True"]


def test_the_operator_says_how_many_requests_are_under_way(sim, asks):
    """With --concurrency 2 eight agents that ask at the same time never have more than two requests at the endpoint."""
    asks.write_text(ASKS.replace("- name: asker\n", "- name: asker\n    count: 8\n"))
    under_way = []

    def slow(seen):
        under_way.append(endpoint.open)
        return Reply(body=whole("yes"), delay=0.05)

    with Endpoint(slow) as endpoint:
        options = ("--model", "openai:m", "--base-url", endpoint.url, "--no-record")
        done = sim("run", asks, *options, "--concurrency", "2")
        limited, under_way[:] = list(under_way), []
        assert done.code == 0, done.err
        assert sim("run", asks, *options).code == 0
    assert len(limited) == 16
    assert max(limited) <= 2 < max(under_way)
    assert sim("run", asks, "--concurrency", "2").code == 2, "without a model that is at an endpoint"


def test_a_concurrency_below_one_is_refused():
    """No request could ever start."""
    with pytest.raises(UsageError, match="at least 1, not 0"):
        Access(concurrency=0)
