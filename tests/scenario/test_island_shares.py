"""Limits that islands share: how they are divided, what each island may use, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.errors import CausalityError, ScenarioError
from sim.record import open_run
from sim.scenario import loads
from sim.scenario.island_shares import divided

ISLES = """name: isles
until: 1m
islands: {latency: 10s, of: {north: [farmer], south: [clerk], west: [shop]}}
limits:
  talk: %s
costs: {publish: {talk: 1}}
agents:
  - {name: farmer, count: 2, group: people, loop: {min_loop_delay: 1s}, rules: [{do: {publish: {topic: own}}}]}
  - {name: clerk, count: 2, group: people, loop: {min_loop_delay: 1s}, rules: [{do: %s}]}
  - {name: shop, group: people, loop: {min_loop_delay: 1s}, rules: [{do: noop}]}
"""
SPEAK = "{publish: {topic: own}}"
SHARES = "{global: 10 per 60s, shares: {north: 0.7, south: 0.3}}"


def _done(text: str, tmp_path: Path) -> dict[str, int]:
    """Return how many actions the agents of each entry did."""
    (tmp_path / "isles.yaml").write_text(text, encoding="utf-8")
    result = sim.run(tmp_path / "isles.yaml", out=tmp_path / "runs")
    assert result.run is not None
    counts: dict[str, int] = {}
    with open_run(result.run) as run:
        for (actor,) in run.query("SELECT actor FROM events WHERE topic LIKE 'action.%'"):
            entry = str(actor).rpartition("-")[0] or str(actor)
            counts[entry] = counts.get(entry, 0) + 1
    return counts


@pytest.mark.parametrize(
    ("limit", "farmers", "clerks"),
    [
        (SHARES, 7, 3),
        ("{global: 10 per 60s, shares: {south: 1, north: 2}}", 7, 3),
        ("{global: 5 per 60s, shares: {south: 1, north: 1}}", 2, 3),
        ("{group: 10 per 60s, shares: {north: 0.7, south: 0.3}}", 7, 3),
        ("{group: 10 per 60s, shares: {north: 7, south: 3, west: 90}}", 7, 3),
        ("{agent: 2 per 60s, global: 10 per 60s, shares: {north: 0.7, south: 0.3}}", 4, 3),
    ],
)
def test_each_island_uses_its_share(tmp_path: Path, limit: str, farmers: int, clerks: int) -> None:
    """Each island has its share of the rate, and waits for nothing that another one uses; an island whose agents do not
    use the limit goes by no limit."""
    done = _done(ISLES % (limit, SPEAK), tmp_path)
    assert (done["farmer"], done["clerk"], done["shop"]) == (farmers, clerks, 60)


@pytest.mark.parametrize("scope", ["global", "group"])
def test_a_limit_that_one_island_uses_is_whole_there(tmp_path: Path, scope: str) -> None:
    """A limit that the agents of one island use needs no shares, and agents of other islands do not wait for it, though
    they are of the same group."""
    done = _done(ISLES % (f"{{{scope}: 10 per 60s}}", "noop"), tmp_path)
    assert done == {"farmer": 10, "clerk": 120, "shop": 60}


def _rates(result: sim.RunResult) -> Any:
    """Return the units that count at the end of a run."""
    assert result.run is not None
    with open_run(result.run) as run:
        return (run.info.digest or {})["rates"]


def test_what_each_island_has_used_is_in_the_final_state(tmp_path: Path) -> None:
    """The final state has the units that count on each island, and `usage` of a metric their sum."""
    (tmp_path / "isles.yaml").write_text(
        ISLES % (SHARES, SPEAK) + "metrics: {every: 10s, values: {n: usage('talk')}}\n"
    )
    result = sim.run(tmp_path / "isles.yaml", out=tmp_path / "runs", until="30s")
    assert _rates(result)["total"] == {"talk": {"north": 7, "south": 3}}
    assert result.metrics["n"] == [0, 10, 10, 10]
    (tmp_path / "isles.yaml").write_text(ISLES % (SHARES.replace("global", "group"), SPEAK))
    grouped = sim.run(tmp_path / "isles.yaml", out=tmp_path / "others", until="30s")
    assert _rates(grouped)["groups"] == {"talk": {"people": {"north": 7, "south": 3}}}


@given(
    amount=st.integers(1, 10**6),
    shares=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(1e-3, 1e3), min_size=1),
)
def test_a_division_gives_away_all_units_and_each_within_one_of_its_share(
    amount: int, shares: dict[str, float]
) -> None:
    """The parts are whole numbers that sum to the whole, and each is less than one unit away from the exact share."""
    parts = divided(amount, shares)
    assert sum(parts.values()) == amount
    assert list(parts) == list(shares)
    for name, units in parts.items():
        assert abs(units - amount * shares[name] / sum(shares.values())) < 1.000001


def test_the_largest_remainders_get_what_is_left() -> None:
    """Shares are exact as they are written, have any sum, and of equal remainders the first in the file counts."""
    assert divided(10, {"a": 0.7, "b": 0.2, "c": 0.1}) == {"a": 7, "b": 2, "c": 1}
    assert divided(10, {"a": 1, "b": 1, "c": 1}) == {"a": 4, "b": 3, "c": 3}
    assert divided(7, {"a": 5, "b": 3, "c": 1}) == {"a": 4, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("limit", "do", "message", "hint"),
    [
        (
            "{global: 9 per 1s}",
            SPEAK,
            "talk.global: agents of north and south use it",
            "`shares: {north: 1, south: 1}`",
        ),
        ("{group: 9 per 1s}", SPEAK, "talk.group: agents of the group 'people' on north and south use it", "shares"),
        (
            "{global: 9 per 1s}",
            "{sleep: {any: [{message: true}, {resource: talk, at_least: 2}]}}",
            "of north and south use it",
            "shares",
        ),
        (
            "{global: 9 per 1s}",
            "{publish: {topic: a, data: \"=remaining('talk')\"}}",
            "of north and south use it",
            "sh",
        ),
        (
            "{global: 9 per 1s, shares: {north: 1, suoth: 1}}",
            SPEAK,
            "talk.shares.suoth: there is no island 'suoth'",
            "south",
        ),
        (
            "{global: 9 per 1s, shares: {north: 1}}",
            SPEAK,
            "talk.shares: agents of south use the limit, without a share",
            "each island that uses it",
        ),
        (
            "{group: 9 per 1s, shares: {north: 1}}",
            SPEAK,
            "talk.shares: agents of the group 'people' on south use the limit, without a share",
            "each island that uses it",
        ),
        (
            "{global: 9 per 1s, shares: {north: 1, south: 0.01}}",
            SPEAK,
            "talk.shares.south: of 9 units of `global`, this share is none",
            "raise the rate",
        ),
        (
            "{group: 9 per 1s, shares: {north: 1, south: 0.01}}",
            SPEAK,
            "talk.shares.south: of 9 units of `group`, this share is none",
            "raise the rate",
        ),
        ("{agent: 9 per 1s, shares: {north: 1}}", SPEAK, "and this limit has neither", "leave out shares"),
        ("{global: 9 per 1s, shares: {north: 0}}", SPEAK, "expected a value of more than 0", ""),
        ("{global: 9 per 1s, shares: {}}", SPEAK, "limits.talk.shares", ""),
    ],
)
def test_what_cannot_be_divided_is_refused_with_its_line(limit: str, do: str, message: str, hint: str) -> None:
    """A limit that islands use without shares, and shares that name no island, leave one out or give nothing, are
    problems of the line of the limit."""
    with pytest.raises(ScenarioError) as caught:
        loads(ISLES % (limit, do))
    (problem,) = caught.value.problems
    assert (problem.line, message in problem.message) == (5, True), problem
    assert hint in (problem.hint or "")


def test_shares_need_islands() -> None:
    """Without islands, there is nothing among which a limit could be divided."""
    text = (ISLES % (SHARES, SPEAK)).replace("islands: {", "description: x #")
    with pytest.raises(ScenarioError) as caught:
        loads(text)
    (problem,) = caught.value.problems
    assert (problem.line, "the file has no islands" in problem.message) == (5, True), problem


READER = """name: isles
until: 20s
islands: {latency: 10s, of: {north: [sailor], south: [pilot], west: [reader]}}
limits:
  ship: %s
  own: {agent: 5 per 1m}
costs: {publish: {ship: 1}}
quotas: {storage: 9}
agents:
  - {name: sailor, rules: [{do: {publish: {topic: out}}}], loop: {min_loop_delay: 5s}}
  - {name: pilot, rules: [{do: {publish: {topic: out}}}], loop: {min_loop_delay: 5s}}
  - {name: reader, start: 7s, state: {which: ship, left: 0.0}, rules: [%s], loop: {min_loop_delay: 5s}}
%s"""
SHIP = "{global: 10 per 1m, shares: {north: 0.7, south: 0.3}}"
STOP = """models: {rules: [{say: "=remaining('ship')"}]}\n"""


@pytest.mark.parametrize(
    ("limit", "rule", "more"),
    [
        (SHIP, '{do: noop, set: {left: "=remaining(which)"}}', ""),
        (SHIP, '{when: "remaining(resource=which) > 5", do: noop}', ""),
        (SHIP, "{do: {ask: {prompt: a}}}", STOP),
        (SHIP.replace("{", "{agent: 3 per 1m, ", 1), '{do: noop, set: {left: "=remaining(which)"}}', ""),
        ("{group: 10 per 1m}", '{do: noop, set: {left: "=remaining(which)"}}', ""),
    ],
)
def test_what_is_left_of_a_limit_without_a_part_stops_the_run(limit: str, rule: str, more: str) -> None:
    """A rule that computes the name of a limit in which its island has no part stops the run, by position or by name,
    in a condition, a value or the answer of a scripted model, also if there is a rate for each agent."""
    with pytest.raises(CausalityError) as caught:
        sim.run(loads(READER % (limit, rule, more)), out=None)
    message = (
        "reader of the island west reads what is left of the limit 'ship', in which this island has no part, at 7s"
    )
    assert str(caught.value) == message
    assert caught.value.hint == "have a rule of its agents name it, as in `remaining('ship')`"


@pytest.mark.parametrize(
    ("limit", "which", "left"),
    [(SHIP.replace("0.3", "0.2, west: 0.1"), "ship", 1), (SHIP, "own", 5), (SHIP, "storage", 9)],
)
def test_what_an_island_has_of_a_limit_can_be_read_by_a_computed_name(limit: str, which: str, left: int) -> None:
    """An island with a part reads what it has left of it, and what counts for each agent can be read on any."""
    rule = "{do: noop, set: {left: '=remaining(which)'}}"
    text = READER.replace("which: ship", f"which: {which}") + """metrics: {every: 10s, values: {left: "%s"}}\n"""
    result = sim.run(loads(text % (limit, rule, "", "total('reader', 'left')")), out=None)
    assert result.metrics["left"] == [0, left, left]


DIVIDED = """name: isles
until: 50s
islands: {latency: 10s, by: {person: region}}
limits: {talk: {global: 6 per 60s, shares: {south: 2, north: 1}}}
costs: {publish: {talk: 1}}
agents:
  - name: person
    count: 4
    state: {region: "=['north', 'south'][index % 2]"}
    loop: {min_loop_delay: 1s}
    rules: [{do: {publish: {topic: own}}}]
"""


def test_a_divided_entry_uses_shares_that_a_branch_can_change(tmp_path: Path) -> None:
    """What an agent of a divided entry may use is the share of its island. A rate that a branch changes is divided by
    the same shares from then on, and what was used counts."""
    (tmp_path / "isles.yaml").write_text(DIVIDED)
    result = sim.run(tmp_path / "isles.yaml", out=tmp_path / "runs")
    assert _rates(result)["total"] == {"talk": {"north": 2, "south": 4}}
    options: dict[str, Any] = {"at": 30, "overrides": ["limits.talk.global=12 per 60s"], "out": tmp_path / "other"}
    assert _rates(sim.branch(result.run or "", **options))["total"] == {"talk": {"north": 4, "south": 8}}
