"""The scenario `software_team`, the same in every way of running it; many executors; a weak model at an endpoint."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.record import open_run
from sim.runner.options import Backend
from sim.tools.process import sandbox_fault
from tests.agents.kills import killed_and_resumed
from tests.agents.people import rows_of
from tests.agents.same import same_everywhere, same_in_a_replay, same_when_renewed
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting

ROOT = Path(__file__).parents[3]
FILE = ROOT / "scenarios" / "software_team.yaml"
ENDED = "SELECT task_id, final_status, ending FROM agent_execution_history ORDER BY task"
WANTED = [
    ("plan", "success", "criteria_met"), ("cleanup", "success", "criteria_met"),
    ("benchmark", "escalated", "loop_detected"), ("translate", "failed", "cost_limit"),
    ("publish", "success", "criteria_met"), ("tests", "success", "criteria_met"),
    ("slugify", "success", "criteria_met"), ("truncate", "success", "criteria_met"),
    ("review", "success", "criteria_met"), ("help-publish", "success", "criteria_met"),
]  # fmt: skip
needs_sandbox = pytest.mark.skipif(sandbox_fault() is not None, reason=f"no sandbox here: {sandbox_fault()}")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", pytest.param("tick", marks=pytest.mark.proof)])
def test_it_is_the_same_on_backends_hash_seeds_and_processes(mode: str) -> None:
    """Two backends, and processes with other hash seeds, give the same hash."""
    same_everywhere(FILE, mode=mode, until="2h", salts=("1", "271828"))


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_the_agents_keep_nothing_in_themselves(mode: Any) -> None:
    """Executors that are made anew before each step give the same hash."""
    assert same_when_renewed(FILE, mode=mode, until="2h") != []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_replay_is_exact(tmp_path: Path, backend: Backend) -> None:
    """A run is the same when it is replayed from its record."""
    same_in_a_replay(FILE, tmp_path, until="2h", backend=backend)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_hash(tmp_path: Path) -> None:
    """Killed at random and resumed, the run ends with the same hash, and no step is on record twice."""
    run = killed_and_resumed(FILE, tmp_path, kills=1, seed=3, until="8h", longest=0.2)
    ((steps, distinct),) = rows_of(run, "SELECT count(*), count(DISTINCT id) FROM agent_execution_steps")
    assert steps == distinct == 26


@pytest.mark.slow
@pytest.mark.parametrize("commands", [False, pytest.param(True, marks=needs_sandbox)])
def test_its_wrong_turns(tmp_path: Path, commands: bool) -> None:
    """With real tests and without, each task ends as planned, and each wrong turn is on record."""
    result = sim.run(FILE, out=tmp_path, allow_commands=commands)
    run, found = Path(result.run or ""), result.services["executor"]
    assert rows_of(run, ENDED) == WANTED
    assert found["replans"] >= 8  # six in the loop, one in slugify, one after a denial
    assert (found["denied"], found["alternatives"], found["help"]) == (2, 1, 1)
    assert (found["loops"], found["gates"], found["gates_approved"]) == (1, 2, 1)
    methods = rows_of(run, "SELECT DISTINCT validation ->> '$.method' FROM agent_execution_steps ORDER BY 1")
    assert methods == (["artifacts", "model", "tests"] if commands else ["artifacts", "model"])
    assert found["test_runs"] == (4 if commands else 1)
    final = "SELECT text FROM workspace_files WHERE file = 'textkit/slug.py'"
    assert "re.findall" in rows_of(run, final)[0]
    costs = "SELECT max(total_cost_usd) <= 0.1, sum(total_cost_usd) FROM agent_execution_history"
    ((within, cost),) = rows_of(run, costs)
    assert within
    assert cost == pytest.approx(found["cost"])


@needs_sandbox
@pytest.mark.proof
@pytest.mark.timeout(600)
def test_real_tests_are_replayed_resumed_and_branched(tmp_path: Path) -> None:
    """A run with real pytest has one hash on both backends; a replay needs no permission, and a branch goes on."""
    one, other = (sim.run(FILE, out=tmp_path / name, allow_commands=True, backend=name) for name in ("asyncio", "trio"))
    assert one.hash == other.hash
    replayed = sim.replay(one.run or "", backend="trio")
    assert replayed.same, replayed.difference
    branched = sim.branch(one.run or "", at="4m50s", out=tmp_path, allow_commands=True, seed=99)
    assert rows_of(Path(branched.run or ""), ENDED) == WANTED
    assert sim.replay(branched.run or "").same


# -- many


MANY = {
    "name": "many", "until": "1h",
    "limits": {"llm_calls": {"global": "300 per 1m", "policy": "block"}},
    "executor": {
        "timeout": "40m", "cost_limit": 0.012,
        "tasks": {
            f"job{n}": {
                "goal": "Write it", "type": "coder", "project": f"p{n}",
                "criteria": [{"text": "c", "file": f"{'c' if n % 4 else 'never'}.txt"}],
            }
            for n in range(200)
        },
    },
    "models": {
        "provider": "simulated", "prices": {"simulated": {"input": 1, "output": 1}}, "max_tokens": 200,
        "simulated": {"first_token": {"lognormal": [1, 4]}, "failures": [{"kind": "rate_limit", "share": 0.05}]},
        "rules": [
            {"use": "confidence", "say": "0.4"},
            {"text": "step 3 of", "call": {"workspace.write_file": {"path": "c.txt", "text": "c"}}},
            {"text": "step {n} of", "call": {"workspace.write_file": {"path": "=n", "text": "=n"}}},
        ],
    },
    "budgets": {"llm_cost": {"amount": 0.02}},
    "approvals": {"simulated": {"name": "lead", "policy": "chance", "chance": 0.5, "latency": "3m"}},
    "agents": [
        {"name": "coder", "kind": "executor", "count": 200,
         "settings": {"type": "coder", "tools": ["workspace.write_file"]}},
    ],
}  # fmt: skip


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_two_hundred_executors_share_limits(tmp_path: Path, mode: Any) -> None:
    """No task and no budget is overspent, every task ends with a reason, and both backends agree."""
    file = tmp_path / "many.yaml"
    file.write_text(json.dumps(MANY, indent=1))
    result = sim.run(file, out=tmp_path, mode=mode)
    run = Path(result.run or "")
    endings = dict(rows_of(run, 'SELECT "ending", count(*) FROM agent_execution_history GROUP BY 1'))
    assert None not in endings
    assert sum(endings.values()) == 200
    assert endings["criteria_met"] >= 140
    ((most, spent),) = rows_of(run, "SELECT max(total_cost_usd), sum(total_cost_usd) FROM agent_execution_history")
    assert most <= 0.012
    assert spent == pytest.approx(result.services["executor"]["cost"])
    windows = "SELECT max(n) FROM (SELECT count(*) AS n FROM llm_calls GROUP BY CAST(time / 60 AS INT))"
    assert rows_of(run, windows)[0] <= 600  # windows of a minute at any time have 300 at most
    assert sim.run(file, out=None, mode=mode, backend="trio").hash == result.hash


# -- a weak model


def _weak(chance: random.Random) -> Any:
    """Return what a weak model serves: calls that fit or not, texts, and errors."""

    def serve(seen: Seen) -> Reply:
        draw, tools = chance.random(), seen.body.get("tools") or []
        if draw < 0.05:
            return error(500)
        if not tools or draw < 0.25:
            return fitting(seen, chance.choice(["I am not sure.", "0.8", "Done!", "", "0.2 no", "{"]))
        function = chance.choice(tools)["function"]
        wanted = function["parameters"].get("properties", {})
        arguments: dict[str, Any] = {
            name: 1 if one.get("type") == "integer" else [] if one.get("type") == "array" else chance.choice(_WORDS)
            for name, one in wanted.items()
        }
        sent = json.dumps(arguments) if draw > 0.35 else '{"path": '
        return fitting(seen, chance.choice(["", "Let me see."]), calls=[(function["name"], sent)])

    return serve


_WORDS = ["README.md", "textkit/slug.py", "def slugify(text): ...", "slugify", "coder", "tests", "a b", "../x", "1.0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.proof), pytest.param(3, marks=pytest.mark.proof)]
)
def test_the_team_with_a_weak_model_at_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A model that plans at random may fail its tasks, but they end with a reason, within limits; a replay agrees."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with Endpoint(_weak(random.Random(seed))) as endpoint:
        given = ["--model", "openai:weak", "--base-url", endpoint.url, "--out", tmp_path]
        fast = ["--set", "executor.tasks.publish.start=1s", "--until", "4h"]
        code, out, err = command("run", FILE, *given, *fast, "--json")
    assert code == 0, err
    run = Path(json.loads(out)["run"])
    with open_run(run) as stored:
        history = stored.query(
            'SELECT final_status, "ending", total_steps, total_cost_usd FROM agent_execution_history'
        )
    ended = [row for row in history if row[0] is not None]
    assert len(ended) == len(history) >= 5
    assert all(ending and steps <= 20 and cost <= 0.1 for _, ending, steps, cost in ended)
    assert sim.replay(str(run)).same
