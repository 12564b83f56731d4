"""Who is near, of which group, who acts first, who stops whom; and what metrics find out about space, or a program."""

import sys
from typing import Any

import pytest

import sim
from sim.agents.metric_functions import METRICS
from sim.base.errors import RunError, ScenarioError
from sim.scenario import load

LINE: dict[str, Any] = {
    "name": "line", "until": "2s",
    "execution": {"use_autonomous_loops": False},
    "places": {"grid": [7, 1]},
    "agents": [
        {"name": "dog", "place": "3,0", "state": {"found": None}, "loop": {"min_loop_delay": 1}},
        {"name": "sheep", "group": "flock", "count": 4, "place": "=[2, 4, 5, 6][index]", "state": {"wool": "=index"}},
        {"name": "wolf", "place": "1,0", "state": {"teeth": 3}},
    ],
}  # fmt: skip


def found(expression: str, **changes: Any) -> Any:
    """Return what a rule of the dog computes."""
    dog = {**LINE["agents"][0], "rules": [{"do": "stop", "set": {"found": f"={expression}"}}]}
    states: dict[str, Any] = {}

    def keep(runner: sim.RunController) -> None:
        states.update(dog=runner.simulation.world.agents["dog"].state)

    sim.run({**LINE, **changes, "agents": [dog, *LINE["agents"][1:]]}, begun=keep)
    return states["dog"]["found"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("neighbours()", ["sheep-2", "sheep-1"]),
        ("neighbours(group='flock', radius=2)", ["sheep-2", "sheep-1", "sheep-3"]),
        ("neighbours(radius=2)", ["sheep-2", "sheep-1", "sheep-3", "wolf"]),
        ("neighbours('wolf', 9)", ["wolf"]),
        ("neighbours(radius=0)", []),
        ("nearby('flock')", []),
        ("adjacent(radius=3)", ["4,0", "2,0", "5,0", "1,0", "6,0", "0,0"]),
        ("free_places(radius=3)", ["0,0"]),
        ("free_places()", ["0,0"]),
        ("[group_of('sheep-1'), group_of('dog'), place_of('wolf')]", ["flock", "dog", "1,0"]),
        ("[state_of(n, 'teeth', 0) for n in neighbours(radius=2)]", [0, 0, 0, 3]),
    ],
)
def test_who_and_what_is_near(expression, value):
    """Neighbours are counted in edges, the nearest first, and can be those of one group."""
    assert sorted(map(str, found(expression))) == sorted(map(str, value))
    if "radius" not in expression or "neighbours" not in expression:
        return
    distances = {"sheep-1": 1, "sheep-2": 1, "sheep-3": 2, "wolf": 2}
    ranks = [distances.get(name, 0) for name in found(expression) if name in distances]
    assert ranks == sorted(ranks)


def test_a_group_that_does_not_exist_is_found_before_the_run():
    """A name of a group is checked as an argument with a keyword, too; a radius is a whole number."""
    with pytest.raises(ScenarioError, match="there is no group 'flok'"):
        found("neighbours(group='flok')")
    assert found("neighbours(radius=1.5)") is None


def scenario(*agents: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return a scenario in ticks."""
    return {
        "name": "pasture",
        "until": "3s",
        "execution": {"use_autonomous_loops": False},
        "agents": list(agents),
        **others,
    }


def test_an_agent_stops_another(tmp_path):
    """The other one leaves its place and its group at once; one that has stopped, or does not exist, is refused."""
    wolf = {"name": "wolf", "place": 0, "loop": {"min_loop_delay": 1},
            "rules": [{"when": "neighbours(group='sheep')",
                       "do": [{"stop": {"agent": "=neighbours(group='sheep')[0]"}}, "noop"]},
                      {"do": {"stop": {"agent": "sheep-1"}}}]}  # fmt: skip
    sheep = {"name": "sheep", "count": 2, "place": 1, "loop": {"min_loop_delay": 1}, "rules": [{"do": "noop"}]}
    data = scenario(wolf, sheep, places={"grid": [3, 1]}, metrics={"every": 1, "values": {"sheep": "count('sheep')"}})
    runs = [sim.run(data, backend=backend, out=tmp_path) for backend in ("asyncio", "trio")]
    assert runs[0].metrics["sheep"] == [2, 1, 0, 0]
    assert (runs[0].states["stopped"], runs[0].refused) == (2, {"stop": 1})
    assert runs[0].hash == runs[1].hash == sim.replay(runs[0].run or "").hash
    guest = sim.run(scenario({**wolf, "permission": "guest"}, sheep, places={"grid": [3, 1]}))
    assert (guest.states["stopped"], guest.refused["stop"] > 1) == (0, True)


def test_groups_act_in_their_order(tmp_path):
    """With `tick.groups` all of the first group act before the second, each in a new order; others come last."""

    def entry(name: str) -> dict[str, Any]:
        return {
            "name": name,
            "count": 6,
            "loop": {"min_loop_delay": 1},
            "rules": [{"do": {"publish": {"topic": "acted"}}}],
        }

    data = scenario(entry("wolf"), entry("bird"), entry("sheep"))
    data["execution"]["tick"] = {"order": "shuffled", "groups": ["sheep", "wolf"]}
    run = sim.run(data, out=tmp_path)
    acted = [
        row["actor"]
        for row in sim.open(run).sql("SELECT actor FROM events WHERE topic = 'acted' ORDER BY id").to_dict("records")
    ]
    rounds = [acted[at : at + 18] for at in range(0, len(acted), 18)]
    assert [[name.partition("-")[0] for name in one] for one in rounds] == [
        ["sheep"] * 6 + ["wolf"] * 6 + ["bird"] * 6
    ] * 3
    assert len({tuple(one[:6]) for one in rounds}) > 1
    data["execution"]["tick"]["groups"] = ["sheeps"]
    with pytest.raises(ScenarioError, match=r"execution.tick.groups\[0\]: there is no group 'sheeps'"):
        sim.run(data)


def test_the_first_sample_has_the_population():
    """What a founder spawns at the start is in the first sample; a run without it has the sample before agents act."""
    founder = {"name": "founder", "rules": [{"do": [{"spawn": {"agent": "ant", "count": 5}}, "stop"]}]}
    ant = {
        "name": "ant",
        "template": True,
        "state": {"age": 1},
        "loop": {"min_loop_delay": 1},
        "rules": [{"set": {"age": "=age + 1"}}],
    }
    metrics = {"every": 1, "values": {"ants": "count('ant')", "age": "mean('ant', 'age')"}}
    run = sim.run(scenario(founder, ant, metrics=metrics))
    assert (run.metrics["time"], run.metrics["ants"], run.metrics["age"][0]) == ([0, 1, 2, 3], [5] * 4, 1)
    there = sim.run(scenario({**ant, "template": False}, metrics=metrics))
    assert there.metrics["age"] == [1, 2, 3, 4]


def test_metrics_of_space_and_of_values():
    """Regions are connected places of one value; distinct values are counted; sums go over agents."""
    cells = {
        "name": "cell",
        "count": 6,
        "place": "=index",
        "state": {"kind": "=[['a'], ['a'], ['b'], ['a'], ['a'], null][index]"},
    }
    values = {"regions": "regions('cell', 'kind')", "largest": "largest_region('cell', 'kind')",
              "kinds": "distinct_values('cell', 'kind')",
              "places": "sum(1 for a in agents('cell') if place_of(a) is not None)",
              "squares": "sum(len(state_of(a, 'kind') or []) ** 2 for a in agents('cell'))",
              }  # fmt: skip
    run = sim.run(scenario(cells, places={"grid": [3, 2]}, metrics={"values": values}))
    # a a b
    # a a -
    assert {name: numbers[-1] for name, numbers in run.metrics.items() if name != "time"} == {
        "regions": 2, "largest": 4, "kinds": 2, "places": 6, "squares": 5,
    }  # fmt: skip


def pasture(**places: Any) -> dict[str, Any]:
    """Return a scenario whose places have variables."""
    cow = {"name": "cow", "place": 0, "state": {"seen": None}, "loop": {"min_loop_delay": 1},
           "rules": [{"when": "variable('grass')", "do": {"change_place": {"values": {"grass": False, "wait": 2}}}},
                     {"set": {"seen": "=[variable('wait'), variable('grass', '1,0')]"}}]}  # fmt: skip
    rules = [
        {"when": "not grass and wait <= 1", "set": {"grass": True}},
        {"when": "not grass", "set": {"wait": "=wait - 1"}},
    ]
    given = {"grid": [3, 1], "variables": {"grass": True, "wait": "=x"}, "rules": rules, **places}
    values = {"grass": "places_with('grass', true)", "wait": "total_of_places('wait')",
              "mean": "mean_of_places('wait')",
              "first": "variable('wait', '0,0')"}  # fmt: skip
    return scenario(cow, places=given, until="5s", metrics={"every": 1, "values": values})


def test_places_have_variables_and_rules_of_their_own(tmp_path):
    """Agents read and set them, and they change in each period, after the sample, before agents act; the record is the
    same on both loops, and in a replay.
    """
    runs = [sim.run(pasture(), backend=backend, out=tmp_path) for backend in ("asyncio", "trio")]
    assert runs[0].metrics["first"] == [0, 2, 1, 2, 1, 2]
    assert runs[0].metrics["grass"] == [3, 2, 2, 2, 2, 2]
    assert runs[0].metrics["wait"][-1] == 2 + 1 + 2
    assert runs[0].hash == runs[1].hash == sim.replay(runs[0].run or "").hash
    with sim.open(runs[0]) as kept:
        assert kept.info.digest is not None
        assert kept.info.digest["variables"]["wait"] == {"0,0": 2, "1,0": 1, "2,0": 2}


def test_places_change_all_at_once_and_draw_for_themselves():
    """Values are computed from those before the period; draws depend on the seed, the place and the time."""
    swap = {
        "variables": {"grass": False, "wait": "=index"},
        "rules": [{"set": {"wait": "=wait + 1", "grass": "=wait > 3"}}],
    }
    run = sim.run(pasture(**swap))
    assert run.metrics["wait"] == [3, 3, 6, 9, 12, 15]
    chance = {
        "grid": [20, 20],
        "variables": {"grass": "=chance(0.5)", "wait": 0},
        "rules": [{"set": {"wait": "=uniform(0, 1)"}}],
    }
    first, again, other = (sim.run(pasture(**chance), seed=seed).metrics for seed in (1, 1, 2))
    assert first == again
    assert first["wait"] != other["wait"]
    assert 150 < first["grass"][0] < 250
    assert len(set(first["mean"])) > 3


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (
            {"rules": [{"set": {"gras": True}}]},
            "places.rules[0].set: places have no variable 'gras' (did you mean",
        ),
        ({"rules": [{"when": "gras", "set": {"grass": True}}]}, "places.rules[0].when: there is no name 'gras'"),
        ({"variables": {"grass": True, "wait": 0, "x": 1}}, "places: a place has 'x' already"),
        ({"variables": {"grass": True}}, "there is no variable of places 'wait'"),
        ({"every": 0}, "places.every"),
    ],
)
def test_variables_that_do_not_exist_are_found_before_the_run(places, message):
    """Rules of places, rules of agents and metrics name variables that the places have."""
    with pytest.raises(ScenarioError) as caught:
        sim.run(pasture(**places))
    assert message in str(caught.value)


@pytest.fixture
def program(monkeypatch):
    """Let functions of a test be metrics, and forget them afterwards."""
    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.mark.usefixtures("program")
def test_a_function_of_the_world_is_a_metric(tmp_path, monkeypatch):
    """`@sim.metric` makes a function one of metrics; its errors name it, and a module has to be allowed."""

    @sim.metric
    def rich(world, least):
        return sum(agent.state["money"] > least for agent in world.agents.values()) or None

    person = {"name": "person", "count": 3, "state": {"money": "=index"}}
    run = sim.run(scenario(person, metrics={"values": {"rich": "rich(0)", "none": "rich(9)"}}), out=tmp_path / "runs")
    assert (run.metrics["rich"][-1], run.metrics["none"][-1]) == (2, None)
    assert sim.replay(run.run or "").hash == run.hash
    with sim.open(run) as kept:
        assert __name__ in kept.info.code
    with pytest.raises(RunError, match=r"rich cannot be evaluated: .*rich\(\) failed: TypeError"):
        sim.run(scenario(person, metrics={"values": {"rich": "rich('x')"}}))
    with pytest.raises(sim.UsageError, match="have a function 'mean' already"):
        sim.metric(type("", (), {"__name__": "mean", "__call__": len})())
    (tmp_path / "wealth_measures.py").write_text("import sim\n\n\n@sim.metric\ndef poor(world):\n    return 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "town.yaml"
    file.write_text(
        "name: town\nuntil: 2s\nagents: [{name: a}]\nmetrics: {modules: [wealth_measures], values: {poor: poor()}}\n"
    )
    with pytest.raises(ScenarioError, match="the module 'wealth_measures' is not allowed"):
        load(file)
    assert sim.run(file, allow=("wealth_measures",)).metrics["poor"] == [7, 7]
    del sys.modules["wealth_measures"]
