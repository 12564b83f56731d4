"""The part `town` of a scenario: what it does not fit is said in the scenario's own words, before anything is made."""

import pytest

from sim.base.errors import UsageError
from sim.runner import run
from sim.scenario import load, loads
from sim.scenario.assembly.build import build

TOWN = """
name: hamlet
until: 2m
execution: {use_autonomous_loops: false, sync: causal, tick: {period: 10s}}
town: {begins: 12h}
models: {provider: simulated}
agents: [{name: villager, kind: villager, count: 5}]
"""


@pytest.mark.parametrize(
    ("change", "words", "hint"),
    [
        ("until=13h", "a town lasts one day: from town.begins \\(12h\\) a run of 13h is too long", "--set until=12h"),
        ("town.begins=24h", "a town lasts one day", "below 24h"),
        ("town.begins=5s", "town.begins must be a multiple of 10s, the step of a town, but is 5s", None),
        ("execution.tick.period=5s", "a step of a town is 10s, but execution.tick.period is 5s", None),
        ("agents.villager.count=10001", r"agents\.villager\.count: a town has 1 to 10000 agents", None),
        ("models=null", "villagers call language models, but the scenario has none", "models:"),
        ("town=null", "agents.villager are villagers, but there is no town", "town:"),
    ],
)
def test_what_does_not_fit_a_town_is_refused_by_its_key(change, words, hint):
    """The key is named, and what to do about it."""
    with pytest.raises(UsageError, match=words) as caught:
        build(loads(TOWN, overrides=[change]))
    assert hint is None or hint in f"{caught.value} {caught.value.hint}"


def test_a_town_lives_to_the_end_of_its_day():
    """The last instant of the day belongs to it."""
    assert build(loads(TOWN, overrides=["town.begins=23h", "until=1h"])).world.space is not None


def test_a_town_lives_for_as_long_as_the_run(tmp_path):
    """Who ends a run elsewhere than the scenario says gets what such a scenario would have given."""
    file = tmp_path / "hamlet.yaml"
    file.write_text(TOWN, encoding="utf-8")
    longer, shorter = run(file, until="5m"), run(file, until="1m")
    assert longer.hash == run(file, overrides=["until=5m"]).hash
    assert shorter.hash == run(file, overrides=["until=1m"]).hash
    assert (longer.states["stopped"], longer.iterations) == (0, 5 * 30)
    with pytest.raises(UsageError, match="a town lasts one day"):
        run(load(file), until="13h")
