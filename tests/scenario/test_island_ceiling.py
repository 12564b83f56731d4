"""The ceiling of models on islands: how it is divided, what each island may spend, and what is refused."""

from pathlib import Path

import pytest

import sim
from sim.base.errors import ScenarioError
from sim.record import open_run
from sim.runner.shards import run_on_shards
from sim.scenario import loads
from sim.scenario.island_ceiling import ceilings_of
from sim.scenario.models import Ceiling

COURTS = """name: courts
until: 2m
islands: {latency: 10s, of: {north: [judge], south: [clerk], west: [shop]}}
models:
  max_tokens: 20
  prices: {scripted: {input: 1000, output: 1000}}
  rules: [{say: yes}]
  ceiling: %s
agents:
  - {name: judge, loop: {min_loop_delay: 1s}, rules: [{do: {ask: {prompt: well}}}]}
  - {name: clerk, loop: {min_loop_delay: 1s}, rules: [{do: %s}]}
  - {name: shop, loop: {min_loop_delay: 1s}, rules: [{do: noop}]}
"""
ASK = "{ask: {prompt: well}}"
SHARES = "shares: {north: 3, south: 1}"


def _asked(text: str, tmp_path: Path, shards: int = 0) -> tuple[sim.RunResult, dict[str, int], list[str]]:
    """Return the result, the answered calls of each agent, and the messages of those that were refused."""
    (tmp_path / "courts.yaml").write_text(text, encoding="utf-8")
    file = tmp_path / "courts.yaml"
    result = run_on_shards(file, shards, out=tmp_path) if shards else sim.run(file, out=tmp_path)
    assert result.run is not None
    calls = "SELECT actor, count(*) FROM events WHERE topic = 'model.call' GROUP BY actor"
    refused = "SELECT DISTINCT data FROM events WHERE data LIKE '%ceiling%' ORDER BY 1"
    with open_run(result.run) as run:
        return result, dict(run.query(calls)), [str(text) for (text,) in run.query(refused)]


@pytest.mark.parametrize(
    ("ceiling", "rest"),
    [
        (f"{{tokens: 400, {SHARES}}}", "tokens, and the ceiling of the island north leaves"),
        (f"{{money: 0.4, {SHARES}}}", "and the ceiling of the island north leaves"),
    ],
)
def test_each_island_spends_its_share(tmp_path: Path, ceiling: str, rest: str) -> None:
    """Who asks beyond the share of its island is refused, with the rest of this share; the run spends no more than the
    whole, and each number of shards has the record and the bill of one process."""
    one, calls, refused = _asked(COURTS % (ceiling, ASK), tmp_path)
    assert calls["judge"] > 2 * calls["clerk"] > 0
    assert any(rest in text for text in refused)
    total = one.models["total"]
    assert total["input_tokens"] + total["output_tokens"] <= 400
    for shards in (1, 2, 3):
        run, same, _ = _asked(COURTS % (ceiling, ASK), tmp_path, shards)
        assert (run.hash, run.models, same) == (one.hash, one.models, calls)
    assert run.run is not None
    assert sim.replay(run.run).same


def test_a_ceiling_from_which_one_island_spends_is_whole_there(tmp_path: Path) -> None:
    """A ceiling needs no shares if the agents of one island alone ask."""
    _, calls, refused = _asked(COURTS % ("{tokens: 400}", "noop"), tmp_path)
    assert list(calls) == ["judge"]
    assert any("the run's ceiling leaves" in text for text in refused)


def test_a_ceiling_is_divided_by_largest_remainders() -> None:
    """Money is divided in micro-units and tokens as whole numbers; together, the parts are the whole."""
    parts = ceilings_of(Ceiling(money=0.00001, tokens=10, shares={"a": 1, "b": 1, "c": 1}))
    assert parts == {"a": (4, 4), "b": (3, 3), "c": (3, 3)}
    assert ceilings_of(Ceiling(tokens=5, shares={"a": 1})) == {"a": (None, 5)}
    assert ceilings_of(Ceiling(tokens=5)) == {}


@pytest.mark.parametrize(
    ("ceiling", "message"),
    [
        ("5", "models.ceiling: agents of north and south spend from it"),
        ("{tokens: 9, shares: {north: 1}}", "models.ceiling.shares: agents of south ask models, without a share"),
        ("{tokens: 9, shares: {north: 1, sout: 1}}", "models.ceiling.shares.sout: there is no island 'sout'"),
        (
            "{tokens: 9, shares: {north: 1, south: 0.01}}",
            "models.ceiling.shares.south: of 9 tokens, this share is none",
        ),
        ("{shares: {north: 1, south: 1}}", "shares divide the money and the tokens among islands"),
    ],
)
def test_what_is_wrong_with_a_ceiling_is_said_with_its_line(ceiling: str, message: str) -> None:
    """A ceiling without shares from which two islands spend, and shares of no island or of no unit, are refused."""
    with pytest.raises(ScenarioError) as caught:
        loads(COURTS % (ceiling, ASK), "courts.yaml")
    assert message in str(caught.value)
    assert "courts.yaml:8" in str(caught.value)


def test_a_ceiling_of_nothing_needs_no_units() -> None:
    """Shares of a ceiling of 0 are valid: no call is made anywhere."""
    loads(COURTS % ("{tokens: 0, shares: {north: 1, south: 1}}", ASK), "courts.yaml")


def test_shares_of_a_ceiling_need_islands() -> None:
    """Shares of a ceiling are refused in a file without islands, among which it could be divided."""
    text = COURTS.replace("islands: {latency: 10s, of: {north: [judge], south: [clerk], west: [shop]}}\n", "")
    with pytest.raises(ScenarioError, match=r"models\.ceiling\.shares: the file has no islands"):
        loads(text % (f"{{tokens: 9, {SHARES}}}", ASK), "courts.yaml")
