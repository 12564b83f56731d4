"""The controls of a scenario file."""

import pytest

import sim
from sim.base.errors import ScenarioError, UsageError
from sim.scenario.controls import controls_of, with_changes_by_hand
from sim.scenario.loading import loads

TOWN = """
name: town
until: 10s
agents:
  - name: person
    count: 5
    state: {beta: 0.5, kind: shy, open: false}
    loop: {min_loop_delay: 1s}
    rules:
      - do: {publish: {topic: said, data: {beta: "=beta"}}}
"""
CONTROLS = """
controls:
  beta: {key: agents.person.state.beta, range: [0, 1], step: 0.01, label: infectivity}
  people: {key: agents.person.count, range: [1, 9]}
  kind: {key: agents.person.state.kind, options: [shy, bold]}
  open: agents.person.state.open
"""


def test_controls_are_sliders_choosers_and_switches():
    """A control has the value of the file, its kind, a step, and says whether it can change a run."""
    beta, people, kind, switch = controls_of(loads(TOWN + CONTROLS))
    assert beta.to_json() == {
        "name": "beta", "key": "agents.person.state.beta", "label": "infectivity", "range": [0, 1], "step": 0.01,
        "options": None, "live": True,
    }  # fmt: skip
    assert [one.value for one in (beta, people, kind, switch)] == [0.5, 5, "shy", False]
    assert [one.live for one in (beta, people, kind, switch)] == [True, False, True, True]
    assert (people.to_json()["step"], people.taken(3.0)) == (1, 3)
    assert kind.to_json()["options"] == ["shy", "bold"]
    for control, wrong in ((beta, 2), (beta, True), (people, 1.5), (kind, "rude"), (switch, 1)):
        with pytest.raises(UsageError, match=f"{control.name} (is|has)"):
            control.taken(wrong)


@pytest.mark.parametrize(
    ("control", "line", "says"),
    [
        (
            "{key: agents.person.state.gamma, range: [0, 1]}",
            12,
            "agents.person.state.gamma: the file has no",
        ),
        ("{key: agents.nobody.count, range: [0, 1]}", 12, "controls.x: agents.nobody.count: there is no 'nobody'"),
        ("{key: agents.person.state.beta, range: [1, 0]}", 12, "expected the least and the greatest value"),
        ("{key: agents.person.state.beta, range: [0, 1], step: 3}", 12, "expected a number above 0 that fits"),
        ("{key: agents.person.state.beta, range: [0, 1], options: [0.5]}", 12, "a range or options, not both"),
        ("{key: agents.person.state.beta, range: [0.6, 1]}", 12, "is 0.5, and x is a number from 0.6 to 1"),
        ("{key: agents.person.state.kind, options: [bold]}", 12, "is 'shy', and x has no option 'shy'"),
        ("agents.person.state.beta", 12, "is 0.5, and x is a switch"),
        ("{key: agents.person.count, range: [-3, 9]}", 12, "count"),
        ("{key: until, options: [10s, soon]}", 12, "until"),
        ("{range: [0, 1]}", 12, "key"),
    ],
)
def test_a_wrong_control_is_refused_with_its_line(control, line, says):
    """What is no value of the file, is not offered, or would not be valid is an error with file and line."""
    with pytest.raises(ScenarioError) as found:
        loads(f"{TOWN}controls:\n  x: {control}\n", "town.yaml")
    assert any(says in problem.message and problem.line == line for problem in found.value.problems), found.value
    assert {problem.file for problem in found.value.problems} == {"town.yaml"}


def test_a_run_is_the_same_with_and_without_controls(tmp_path):
    """Controls change neither the record of a run nor what may be set from outside, also beyond their range."""
    with_controls, without = tmp_path / "with.yaml", tmp_path / "without.yaml"
    with_controls.write_text(TOWN + CONTROLS, encoding="utf-8")
    without.write_text(TOWN, encoding="utf-8")
    assert sim.run(with_controls).hash == sim.run(without).hash
    given = ["agents.person.count=20"]
    assert sim.run(with_controls, overrides=given).hash == sim.run(without, overrides=given).hash


@pytest.mark.parametrize(
    "more",
    [
        "",
        "interventions:\n  - {at: 2s, publish: {topic: x}} # kept\n\nseed: 3\n",
        "interventions:\n- at: 2s\n  publish: {topic: x}\n",
        "interventions: [{at: 2s, publish: {topic: x}}]\n",
        "interventions: []\n",
    ],
)
def test_what_was_done_by_hand_is_added_to_the_text(more):
    """Values are replaced, interventions follow those that there are, and all else stays as it is written."""
    by_hand = [{"at": "3s", "set": {"agents.person.state.beta": 0.25}}, {"at": "4s", "send": {"to": "person-1"}}]
    text = with_changes_by_hand(TOWN + more, {"agents.person.count": 2, "agents.person.state.kind": "bold: x"}, by_hand)
    before, after = loads(TOWN + more), loads(text)
    assert (after.agents[0].count, after.agents[0].state["kind"].raw) == (2, "bold: x")
    assert len(after.interventions) == len(before.interventions) + 2
    assert after.interventions[-2].set == {"agents.person.state.beta": 0.25}
    assert ("# kept" in text, after.seed) == ("# kept" in more, before.seed)
    with pytest.raises(UsageError, match="is not in the file"):
        with_changes_by_hand(TOWN, {"agents.person.state.gamma": 1}, [])
