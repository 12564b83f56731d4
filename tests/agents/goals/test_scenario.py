"""The scenario `houston`: the same in every way of running it, with outcomes that a researcher would ask for."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.record import open_run
from sim.runner.options import Backend
from tests.agents.kills import killed_and_resumed
from tests.agents.same import same_everywhere, same_in_a_replay, same_when_renewed

ROOT = Path(__file__).parents[3]
FILE = ROOT / "scenarios" / "houston.yaml"
KILLS = 20


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "until"), [("autonomous", "1d"), ("tick", "10h")])
def test_it_is_the_same_on_backends_hash_seeds_and_processes(mode: str, until: str) -> None:
    """Two backends, and a process with another hash seed, give the same hash."""
    same_everywhere(FILE, mode=mode, until=until)


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("mode", "until"), [("autonomous", "14d"), ("tick", "36h")])
def test_long_runs_are_the_same_everywhere(mode: str, until: str) -> None:
    """The whole scenario, and many ticks, have one hash, with more hash seeds."""
    same_everywhere(FILE, mode=mode, until=until, salts=("1", "271828"))


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "until"), [("autonomous", "1d"), ("tick", "9h")])
def test_the_agents_keep_nothing_in_themselves(mode: Any, until: str) -> None:
    """Goals, tasks, user agents and the monitor that are made anew before each run give the same hash."""
    replaced = same_when_renewed(FILE, mode=mode, until=until)
    assert any(name.startswith("goal-") for name in replaced)
    assert any(name.startswith("assistant-") for name in replaced)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_a_replay_is_exact(tmp_path: Path, backend: Backend) -> None:
    """A run is the same when it is replayed from its record."""
    same_in_a_replay(FILE, tmp_path, until="1d", backend=backend)


def _no_run_twice(run: Path) -> None:
    """Check that no run of an agent is on record twice."""
    with open_run(run) as stored:
        ((runs, distinct),) = stored.query("SELECT count(*), count(DISTINCT job) FROM goal_runs")
        assert runs == distinct > 10


@pytest.mark.proof
def test_a_killed_run_resumes_to_the_same_hash(tmp_path: Path) -> None:
    """Killed at random and resumed, the run ends with the same hash, and no run was made twice."""
    _no_run_twice(killed_and_resumed(FILE, tmp_path, kills=1, seed=1, until="3d"))


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_many_kills_resume_to_the_same_hash(tmp_path: Path) -> None:
    """As the short test, with many more kills."""
    _no_run_twice(killed_and_resumed(FILE, tmp_path, kills=KILLS, seed=2, until="14d"))


@pytest.mark.proof
def test_its_outcomes(tmp_path: Path) -> None:
    """In four days people get replies, tasks are finished, sessions archived, feeds sent, and an outage is survived."""
    result = sim.run(FILE, until="4d", out=tmp_path)
    found = result.services["goals"]
    assert found["replies"] > 300
    assert found["tasks_completed"] > 50
    assert found["sessions_archived"] > 100
    assert found["feeds"] == 12 * 4
    assert found["tokens_saved"] > 0
    assert 0 < found["cost_per_user"] <= found["highest_cost_of_a_user"] < 1
    assert found["retries"] > 0
    assert found["stuck"] > 0  # on the second evening, when calls hang
    with open_run(Path(result.run or "")) as stored:
        failed = stored.query("SELECT content FROM thread_messages WHERE content GLOB 'Failed permanently*'")
        assert failed  # in the outage of the fourth day
        assert stored.query("SELECT count(*) FROM thread_messages WHERE NOT processed")[0][0] <= 12
        costs = stored.query("SELECT count(*), round(sum(cost), 3) FROM user_costs")
    assert costs[0][0] == 12
    assert costs[0][1] == pytest.approx(found["cost"], abs=0.001)  # both have the summaries


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_hundred_users_with_a_thousand_goals(tmp_path: Path) -> None:
    """1,000 goals of 100 users run for two weeks; calls late in the run have no more tokens than in its middle."""
    text = FILE.read_text(encoding="utf-8")
    for old, new in (("count: 12\n", "count: 100\n"), ('wanted: "=randint(2, 4)"', "wanted: 10")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    file = tmp_path / "large.yaml"
    file.write_text(text, encoding="utf-8")
    result = sim.run(file, out=tmp_path)
    with open_run(Path(result.run or "")) as stored:
        goals = stored.query("SELECT count(*) FROM goal_agents WHERE kind = 'goal'")
        middle, late = (
            stored.query(
                "SELECT avg(input_tokens) FROM llm_calls WHERE use = 'agent' AND time BETWEEN ? AND ?",
                (day * 86_400, (day + 2) * 86_400),
            )[0][0]
            for day in (6, 12)
        )
    assert goals == [(1000,)]
    assert late < 1.1 * middle
