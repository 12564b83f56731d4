"""The scenario `lead_response`: the same in every way of running it, with the numbers of the seed."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.record import open_run
from sim.runner.options import Backend
from tests.agents.kills import killed_and_resumed
from tests.agents.same import same_everywhere, same_in_a_replay, same_when_renewed
from tests.agents.sop.company import PEOPLE, company
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, fitting

ROOT = Path(__file__).parents[3]
FILE = ROOT / "scenarios" / "lead_response.yaml"
KILLS = 30


def rows(result: sim.RunResult, sql: str) -> list[Any]:
    """Return the rows of a query on a run."""
    with open_run(Path(result.run or ""), verify=False) as stored:
        return stored.query(sql)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_it_is_the_same_on_backends_hash_seeds_and_processes(mode: str) -> None:
    """Two backends, and a process with another hash seed, give the same hash."""
    same_everywhere(FILE, mode=mode, until="2h")


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mode", "until"), [("autonomous", "28d"), ("tick", "6h")])
def test_long_runs_are_the_same_everywhere(mode: str, until: str) -> None:
    """The whole scenario, and many ticks, have one hash, with more hash seeds."""
    same_everywhere(FILE, mode=mode, until=until, salts=("1", "271828"))


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "until", "cycles"), [("autonomous", "8h", 96), ("tick", "2h", 24)])
def test_an_employee_keeps_nothing_in_itself(mode: Any, until: str, cycles: int) -> None:
    """Employees, workers and jobs that are made anew before each cycle give the same hash (stateless between runs)."""
    assert same_when_renewed(FILE, mode=mode, until=until).count("lead-response") > cycles


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_a_replay_is_exact(tmp_path: Path, backend: Backend) -> None:
    """A run is the same when it is replayed from its record."""
    same_in_a_replay(FILE, tmp_path, until="8h", backend=backend)


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_old_notes_become_summaries(tmp_path: Path) -> None:
    """Within ten days old notes of the busiest employee become summaries, and each night at most 100 memories remain.

    The report of the night counts all that went.
    """
    result = sim.run(FILE, until="10d", out=tmp_path)
    made = rows(result, "SELECT count(*) FROM memories WHERE agent = 'lead-response' AND source = 'summary'")
    assert made > [(0,)]
    reports = rows(
        result,
        "SELECT data ->> '$.text' FROM events WHERE topic = 'channel.post' AND data ->> '$.text' LIKE 'Memory maint%'",
    )
    pruned = [int(text.split(" pruned ")[1].split()[0]) for (text,) in reports]
    assert len(pruned) == 10
    (gone,) = rows(
        result,
        "SELECT (SELECT sum(json_array_length(data, '$.ids')) FROM events WHERE topic = 'memory.pruned')"
        " + (SELECT coalesce(sum(json_array_length(data, '$.ids')), 0) FROM events WHERE topic = 'memory.summarised')",
    )[0]
    assert sum(pruned) == gone


@pytest.mark.slow
def test_assessments_cost_what_the_seed_says(tmp_path: Path) -> None:
    """At five minutes there are 288 assessments a day, each about $0.001, so about $0.29 a day over four weeks."""
    result = sim.run(FILE, until="1d", out=tmp_path)
    ((count, cost),) = rows(
        result, "SELECT count(*), sum(cost) FROM llm_calls WHERE agent = 'lead-response' AND time < 86400"
    )
    assert count == 288
    assert 0.0003 < cost / count < 0.003  # it depends on how much is remembered


@pytest.mark.slow
def test_a_day_of_assessments_at_a_tenth_of_a_cent(tmp_path: Path) -> None:
    """288 calls at exactly $0.001 are $0.288, the $0.29 of the seed."""
    text = """until: 1d
models: {prices: {scripted: {input: 0, output: 500}}, rules: [{say: nothing}]}
sop: {procedures: {call: {title: call, steps: [{name: call, post: {text: called}}]}}}
"""
    ran = company(tmp_path, text + PEOPLE.replace("interval: 5m", "interval: 5m, assess: {}"))
    assert ran.rows("SELECT count(*), round(sum(cost), 6), max(cost) FROM llm_calls") == [(288, 0.288, 0.001)]


def _no_step_twice(run: Path) -> None:
    """Check that no step of a task was done twice."""
    with open_run(run) as stored:
        steps = "SELECT count(*) FROM steps WHERE what = 'done' GROUP BY task, step"
        assert {count for (count,) in stored.query(steps)} == {1}


@pytest.mark.proof
def test_a_killed_run_resumes_to_the_same_hash(tmp_path: Path) -> None:
    """Killed at random and resumed, the run ends with the same hash, and no step was done twice."""
    _no_step_twice(killed_and_resumed(FILE, tmp_path, kills=1, seed=1, until="4d"))


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_many_kills_resume_to_the_same_hash(tmp_path: Path) -> None:
    """As the short test, with many more kills."""
    _no_step_twice(killed_and_resumed(FILE, tmp_path, kills=KILLS, seed=2, until="28d"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_it_runs_unchanged_at_a_real_endpoint(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --model and --base-url alone, each assessment is a request over a loopback socket; a replay makes none."""

    def serve(seen: Seen) -> Reply:
        return fitting(seen, "nothing")

    def called(*arguments: object) -> Any:
        code, out, err = command(*arguments, "--json", "--out", tmp_path)
        assert code == 0, err
        return json.loads(out)

    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    with Endpoint(serve) as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/v1"
        more = ("--model", "openai:served", "--base-url", url, "--backend", backend)
        result = called("run", FILE, "--until", "2h", *more)
        asked = len(endpoint.seen)
        assert result["services"]["sop"]["assessments"] == 24
        assert asked >= 24  # leads are classified by the model too
        assert called("replay", result["run"])["same"]
        assert len(endpoint.seen) == asked
