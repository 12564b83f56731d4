"""The scenario `community`: the same in every way of running it, with outcomes that a researcher would ask for."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.record import open_run
from sim.runner.options import Backend
from tests.agents.chat.community import community, say
from tests.agents.kills import killed_and_resumed
from tests.agents.same import same_everywhere, same_in_a_replay, same_when_renewed

ROOT = Path(__file__).parents[3]
PLACES = """
    SELECT count(*), count(DISTINCT platform || '/' || channel || '/' || coalesce(thread, '')) FROM conversation_list
"""
FILE = ROOT / "scenarios" / "community.yaml"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "until"), [pytest.param("autonomous", "12d", marks=pytest.mark.proof), ("tick", "10h")]
)
def test_it_is_the_same_on_backends_hash_seeds_and_processes(mode: Any, until: str) -> None:
    """Two backends, and a process with another hash seed, give the same hash."""
    same_everywhere(FILE, mode=mode, until=until)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "until"), [("autonomous", "12d"), ("tick", "10h")])
def test_the_agents_keep_nothing_in_themselves(mode: Any, until: str) -> None:
    """Agents that are made anew before each message give the same hash."""
    assert any(name.startswith("agent-") for name in same_when_renewed(FILE, mode=mode, until=until))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_a_replay_is_exact(tmp_path: Path, backend: Backend) -> None:
    """A run is the same when it is replayed from its record."""
    same_in_a_replay(FILE, tmp_path, until="12d", backend=backend)


def _each_message_answered_once(run: Path) -> None:
    """Check that no message was lost or answered twice."""
    with open_run(run) as stored:
        ((asked,),) = stored.query("SELECT count(*) FROM conversation_messages WHERE role = 'user'")
        ((answered,),) = stored.query("SELECT count(*) FROM chat_responses")
        assert 0 <= asked - answered <= 2  # at the end, an answer may be under way
        assert answered > 100


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_many_kills_resume_to_the_same_hash(tmp_path: Path) -> None:
    """Killed at random and resumed, the run ends with the same hash, and each message was answered once."""
    _each_message_answered_once(
        killed_and_resumed(FILE, tmp_path, kills=10, seed=2, until="120d", longest=2.0)
    )  # fmt: skip


@pytest.mark.proof
def test_its_outcomes(tmp_path: Path) -> None:
    """In 65 days budgets run out and are renewed, an outage is bridged, files, jobs and summaries are made."""
    result = sim.run(FILE, out=tmp_path)
    found = result.services["chat"]
    assert found["incoming"] == found["answered"] > 500
    assert found["refused_budget"] > 50
    assert found["resets"] > 20
    assert found["fallbacks"] > 5
    assert found["files"] > 20
    assert found["jobs"] > 20
    assert found["summaries"] > 20
    assert found["refused_internal_error"] == 0
    with open_run(Path(result.run or "")) as stored:
        tokens = stored.query(
            "SELECT u.level, max(t.used) FROM (SELECT user, CAST(time / 2592000 AS INTEGER) AS period, "
            "sum(input_tokens + output_tokens) AS used FROM token_log GROUP BY 1, 2) AS t "
            "JOIN users AS u ON u.user = t.user GROUP BY 1 ORDER BY 1"
        )
        outage = stored.query("SELECT DISTINCT model FROM token_log WHERE time BETWEEN 9 * 86400 AND 10 * 86400")
        where = stored.query(
            "SELECT count(*), count(DISTINCT platform || channel || coalesce(thread, '')) FROM conversation_list"
        )
    assert [level for level, _ in tokens] == ["admin", "guest", "owner", "user"]
    assert ("spare",) in outage
    assert where[0][0] == where[0][1]


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_ten_thousand_messages_of_a_thousand_users(tmp_path: Path) -> None:
    """Each of 10,000 messages is answered once, in one conversation for each place, in the order of its place."""
    people = [f"person-{n}" for n in range(1000)]
    steps = {
        name: [say(n % 60 + 120 * turn, f"{name} {turn}", f"channel-{n % 300}", thread=f"t{n % 7}" if n % 2 else None)
               for turn in range(10)]
        for n, name in enumerate(people)
    }  # fmt: skip
    ran = community(
        tmp_path, [{"say": "ok"}], steps, chat={"budget": {"guest": None}, "summarise": False},
        models={"provider": "simulated", "simulated": {"first_token": 1, "per_token": 0}}, until="3h",
    )  # fmt: skip
    assert ran.rows("SELECT count(*), count(DISTINCT account) FROM chat_responses") == [(10_000, 1000)]
    assert ran.rows("SELECT count(*) FROM conversation_messages WHERE role = 'user'") == [10_000]
    assert ran.rows(PLACES) == [(places := len({(n % 300, n % 7 if n % 2 else None) for n in range(1000)}), places)]
    orders: dict[str, list[float]] = {}
    for conversation, text in ran.rows(
        "SELECT conversation, content FROM conversation_messages WHERE role = 'user' ORDER BY id"
    ):
        name, turn = text.split()
        sent = int(name.rpartition("-")[2]) % 60 + 120 * int(turn)
        orders.setdefault(conversation, []).append(sent)
    assert all(order == sorted(order) for order in orders.values())
    assert ran.result.services["chat"]["answered"] == 10_000
