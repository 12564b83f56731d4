"""The shipped debate: offline, and the same file against an endpoint of HTTP; the world's state is what counts."""

import json
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from sim.llm import Access
from sim.runner import RunController, run
from sim.runner.estimate import estimate
from sim.scenario import load
from sim.scenario.assembly.build import Simulation, build
from tests.llm.endpoint import Endpoint, Seen, error, fitting

DEBATE = Path(__file__).parents[2] / "scenarios" / "debate.yaml"
KEY = "sk-canary-0123456789"


def debate(*overrides: str, mode: Any = "autonomous", seed: int = 1) -> Simulation:
    """Run the debate and return what is left."""
    simulation = build(load(DEBATE, overrides), seed=seed)
    anyio.run(RunController(simulation, until_ns=simulation.scenario.end_ns, mode=mode).run)
    return simulation


def choices(simulation: Simulation) -> Counter[str]:
    """Return how often each choice stands in the debaters' own states."""
    return Counter(agent.state["choice"] for agent in simulation.world.members("debater"))


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("provider", ["scripted", "simulated"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_everybody_speaks_and_votes_and_every_vote_counts(mode, provider, seed):
    """Three rounds of statements and one vote each; the declared result is the count of what the debaters chose."""
    simulation = debate(f"models.provider={provider}", mode=mode, seed=seed)
    result = simulation.world.artifacts.get("result")
    assert result is not None
    votes = choices(simulation)
    assert sum(votes.values()) == 5
    assert {name: result.content[name] for name in ("yes", "no", "abstain")} == {
        name: votes[name] for name in ("yes", "no", "abstain")
    }
    speakers = Counter(line.partition(":")[0] for line in result.content["minutes"])
    assert speakers == {f"debater-{number}": 3 for number in range(1, 6)}
    assert simulation.models is not None
    assert simulation.models.spend.total.calls == 20


@pytest.mark.slow
def test_the_vote_depends_on_conviction():
    """Over many debaters, those who are for it vote yes more often: the rules weigh, they do not dictate."""
    simulation = debate("agents.debater.count=200")
    share = {}
    for side in (True, False):
        voters = [a for a in simulation.world.members("debater") if (a.state["conviction"] > 0) is side]
        share[side] = sum(voter.state["choice"] == "yes" for voter in voters) / len(voters)
    assert share[True] > 0.6 > 0.4 > share[False] > 0


def answers(seen: Seen) -> Any:
    """Answer as a model might, with some faults: a broken vote at first, and one server error in nine requests."""
    if seen.number % 9 == 4:
        return error(500, f"{seen.headers['authorization']} is fine, the server is not", retry_after_ms="10")
    if not seen.body.get("tools"):
        return fitting(seen, f"FOR. I have heard it from {KEY}.")
    told = "was not run" in seen.body["messages"][-1]["content"]
    return fitting(seen, "", calls=[("vote", json.dumps({"choice": "yes" if told else "maybe"}))])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_same_file_runs_against_an_endpoint(backend, tmp_path):
    """Only the operator's options differ. All finish, a broken vote is asked again, and the key is found nowhere."""
    access = Access(("openai:gpt-4o-mini",), api_key=KEY)
    with Endpoint(answers) as endpoint:
        result = run(
            DEBATE,
            backend=backend,
            out=tmp_path,
            access=Access(access.models, base_url=endpoint.url, api_key=KEY),
            overrides=["models.retry.requests=10", "metrics.every=100ms"],
        )
        assert all(seen.headers["authorization"] == f"Bearer {KEY}" for seen in endpoint.seen)
        assert result.models["total"]["attempts"] == len(endpoint.seen)
    assert result.stopped_by == "exists('result')"
    assert result.errors == 0
    assert result.models["total"]["calls"] == 25  # 15 statements, 5 votes, 5 of them asked again
    assert result.models["total"]["cost_micro"] > 0
    assert result.run is not None
    kept = b"".join(path.read_bytes() for path in Path(result.run).rglob("*") if path.is_file())
    assert b"FOR. I have heard it" in kept
    assert b"[redacted]" in kept
    assert KEY.encode() not in kept + json.dumps(result.to_json()).encode()
    with closing(sqlite3.connect(Path(result.run) / "run.db")) as connection:
        rows = connection.execute(
            "SELECT use, count(*), sum(cost) > 0, max(error) FROM llm_calls GROUP BY use"
        ).fetchall()
    assert rows == [("debate", 15, 1, None), ("vote", 10, 1, None)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_faults_of_the_scenario_hit_an_endpoint_too(backend):
    """A rate limit that the scenario injects fails calls before they are sent; the retry layer gets all through."""
    fault = "models.faults=[{kind: rate_limit, share: 0.1, retry_after: 10ms}]"  # 5 in a row: one in 100,000 calls
    with Endpoint(lambda seen: answers(attrs.evolve(seen, number=0))) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY)
        options = ["models.retry.requests=20", "metrics.every=100ms", "agents.debater.count=20", fault]
        result = run(DEBATE, backend=backend, access=access, overrides=options)
        sent = len(endpoint.seen)
    assert result.stopped_by == "exists('result')"
    assert result.errors == 0
    assert result.models["total"]["attempts"] > sent == result.models["total"]["calls"]


def test_no_thread_or_connection_is_left(tmp_path):
    """When the run is over, the endpoint sees no open connection, and no thread of the client is alive."""
    before = threading.active_count()
    with Endpoint(answers) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY)
        run(DEBATE, access=access, overrides=["models.retry.requests=10", "metrics.every=100ms"])
        deadline = anyio.run(_until_closed, endpoint)
        assert deadline, f"{endpoint.open} connections are open"
    assert threading.active_count() <= before


async def _until_closed(endpoint: Endpoint) -> bool:
    for _ in range(200):
        if not endpoint.open:
            return True
        await anyio.sleep(0.005)
    return False


def test_an_estimate_is_what_the_scripted_run_takes():
    """The estimate names the operator's models, spends nothing, and counts as many calls as the run makes."""
    access = Access(("openai:gpt-4o-mini", "large=openai:gpt-4o"), base_url="http://127.0.0.1:1/v1", api_key=KEY)
    expected = estimate(DEBATE, access=access)
    assert expected["total"]["calls"] == 20
    assert expected["total"]["cost_micro"] > 0
    assert set(expected["models"]) == {"simulated:gpt-4o-mini", "simulated:gpt-4o"}
    assert estimate(DEBATE, access=access) == expected
