"""Scenarios that a program gives as a mapping, and entries without agents."""

import copy
from typing import Any

import pandas as pd
import pytest

import sim
from sim.base.errors import ScenarioError
from sim.scenario import Scenario

MEADOW = """
name: meadow
until: 4s
agents:
  - name: sheep
    count: 3
    state: {age: 0}
    loop: {min_loop_delay: 1}
    rules: [{set: {age: "=age + len(agents('wolf'))"}}]
  - name: wolf
    count: 2
    state: {hunger: 1.5}
    loop: {min_loop_delay: 1}
    rules: [{do: {send: {to: sheep, topic: howl}}}]
metrics:
  every: 1
  values:
    wolves: count('wolf')
    hunger: mean('wolf', 'hunger')
    most: quantile('wolf', 'hunger', 1)
    gini: gini('wolf', 'hunger')
"""
SHEEP: dict[str, Any] = {
    "name": "meadow", "until": "4s",
    "agents": [
        {"name": "sheep", "count": 3, "state": {"age": 0}, "loop": {"min_loop_delay": 1},
         "rules": [{"set": {"age": "=age + len(agents('wolf'))"}}]},
        {"name": "wolf", "count": 2, "state": {"hunger": 1.5}, "loop": {"min_loop_delay": 1},
         "rules": [{"do": {"send": {"to": "sheep", "topic": "howl"}}}]},
    ],
    "metrics": {"every": 1, "values": {
        "wolves": "count('wolf')", "hunger": "mean('wolf', 'hunger')", "most": "quantile('wolf', 'hunger', 1)",
        "gini": "gini('wolf', 'hunger')"}},
}  # fmt: skip


def test_a_mapping_runs_as_the_file_does(tmp_path):
    """The hash is that of the file with the same keys, with overrides too, and the run is recorded and replayed."""
    file = tmp_path / "meadow.yaml"
    file.write_text(MEADOW)
    before = copy.deepcopy(SHEEP)
    for overrides in ([], ["agents.sheep.count=5"]):
        run = sim.run(SHEEP, overrides=overrides, out=tmp_path / "runs")
        assert run.hash == sim.run(file, overrides=overrides).hash
        assert sim.replay(run.run or "").hash == run.hash
    assert before == SHEEP
    scenario = Scenario.from_dict(SHEEP)
    again = sim.run(scenario, out=tmp_path / "runs")
    assert sim.replay(again.run or "").hash == again.hash


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("agents.0.count", "many", "agents[0].count: expected a whole number, found the text 'many'"),
        ("agents.0.name", "wolf", "the agent 'wolf' appears twice: in agents[0].name and in agents[1].name"),
        ("agents.0.rules.0.when", "agee > 1", "agents[0].rules[0].when: there is no name 'agee'"),
        ("metrics.values.wolves", "count('wolfs')", "metrics.values.wolves: there is no group 'wolfs'"),
        ("untill", 3, "untill: unknown key 'untill' (did you mean 'until'?)"),
        ("seed", float("nan"), "seed: expected a finite number, found nan"),
        ("agents.0.state.age", {1, 2}, "agents[0].state.age: expected a text, a number, true, false, null"),
        ("agents.0.state", {1: 2}, "agents[0].state: keys must be text, found 1"),
        ("agents.0.table", pd.DataFrame({"name": ["A"]}), "row 1, column 'name': expected a name, found the text 'A'"),
        ("agents.0.table", 7, "agents[0].table: expected text, found 7"),
    ],
)
def test_errors_name_the_path_of_the_key(path, value, message):
    """There is no line to name, so the sentence has the path of the key, once."""
    data = copy.deepcopy(SHEEP)
    *keys, last = path.split(".")
    here: Any = data
    for key in keys:
        here = here[int(key) if isinstance(here, list) else key]
    here[last] = value
    if last == "table":
        del data["agents"][0]["count"]
    with pytest.raises(ScenarioError) as caught:
        sim.run(data)
    assert message in str(caught.value)
    assert ":0:0" not in str(caught.value)


def test_a_data_frame_gives_the_agents(tmp_path):
    """The table of an entry can be a DataFrame; it is recorded, and the run replays without it."""
    frame = pd.DataFrame({"age": [30, 41], "group": ["red", "blue"]})
    data = {"name": "poll", "until": "2s", "agents": [{"name": "person", "table": frame}],
            "metrics": {"values": {"age": "mean('person', 'age')", "red": "count('red')"}}}  # fmt: skip
    run = sim.run(data, out=tmp_path / "runs")
    assert (run.metrics["age"][-1], run.metrics["red"][-1]) == (35.5, 1)
    assert sim.replay(run.run or "").hash == run.hash
    assert sim.branch(run.run or "", at=0, seed=5).status == "finished"


def test_an_entry_without_agents(tmp_path):
    """With `count: 0` the run has no such agents: sums and counts are 0, and what has no value is null."""
    for mode in ("autonomous", "tick"):
        none = sim.run(SHEEP, overrides=["agents.wolf.count=0"], mode=mode, out=tmp_path / "runs")
        assert {name: values[-1] for name, values in none.metrics.items() if name != "time"} == {
            "wolves": 0, "hunger": None, "most": None, "gini": None,
        }  # fmt: skip
        assert (none.agents, none.errors, none.kinds["noop"]) == (3, 0, 12)
        assert sim.replay(none.run or "").hash == none.hash
        assert sim.run(SHEEP, overrides=["agents.wolf.count=0", "agents.sheep.count=0"], mode=mode).agents == 0
    data = copy.deepcopy(SHEEP)
    data["agents"][1]["count"] = 0
    data["agents"][0]["rules"] = [{"do": {"send": {"to": "wolf-1", "topic": "x"}}}]
    with pytest.raises(ScenarioError, match=r"there is no agent or group 'wolf-1'"):
        sim.run(data)
