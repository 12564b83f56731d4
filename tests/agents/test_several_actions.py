"""Rules with several actions: done in order in one iteration, until one does not succeed."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.agents import PolicyAction, PolicyAgent, PolicyRule, RuleSet, Toolbox
from sim.record import open_run
from sim.resources import Resource
from sim.runner import replay
from sim.scenario.values import ValueTemplate
from sim.world import Action, Places
from tests.actors.helpers import Lab

BOTH = [("autonomous", "asyncio"), ("autonomous", "trio"), ("tick", "asyncio"), ("tick", "trio")]


@pytest.fixture(params=BOTH, ids="-".join)
def play(request, tmp_path):
    """Run a scenario in each mode and backend, and replay it; return the result and the events (time, topic, data)."""
    mode, backend = request.param
    path = tmp_path / "scenario.yaml"

    def run(text: str) -> tuple[sim.RunResult, list[tuple[float, str, Any]]]:
        path.write_text("name: several\nuntil: 10m\nexecution: {tick: {period: 1s}}\n" + text)
        result = sim.run(path, mode=mode, backend=backend, out=tmp_path / "runs")
        assert result.run is not None
        again = replay(result.run, backend="trio" if backend == "asyncio" else "asyncio")
        assert again.same, again.difference
        with open_run(Path(result.run)) as stored:
            events: list[Any] = list(stored.events())
        return result, [(row[0] / 1e9, row[6], row[7]) for row in events if row[6].startswith("action.")]

    return run


def test_actions_are_done_in_order_in_one_iteration(play):
    """Each action begins when the one before has succeeded and can use its result; `set` comes after the last."""
    result, events = play("""
accounts: {tax: 0}
agents:
  - name: a
    balance: 10
    state: {turn: 0}
    rules:
      - when: turn == 0
        do:
          - {transfer: {to: tax, amount: 3}}
          - {publish: {topic: paid, data: {left: "=result.data.balance", turn: "=turn"}}}
          - {write: {artifact: receipt, content: "=result.data"}}
        record: {money: "=balance"}
        set: {turn: 1}
      - {do: [noop, stop]}
""")

    assert [topic for _, topic, _ in events] == [
        "action.transfer", "action.publish", "action.write", "action.noop", "action.stop",
    ]  # fmt: skip
    assert len({time for time, _, _ in events[:3]}) == 1
    assert events[1][2]["arguments"]["data"] == {"left": 7, "turn": 0}
    assert result.iterations == 2
    assert result.observations["money"].maximum == 7


def test_what_follows_a_refused_action_is_not_done(play):
    """An action that is refused ends the iteration as failed: the actions before it stand, `set` is not done."""
    result, events = play("""
agents:
  - name: a
    balance: 1
    state: {done: 0}
    rules:
      - {when: iteration == 1, do: [{publish: {topic: one}}, {transfer: {to: b, amount: 5}}, noop], set: {done: 1}}
      - {record: {done: "=done"}, do: [noop, stop]}
  - {name: b, rules: [{do: stop}]}
""")
    kinds = [topic for _, topic, data in events if topic != "action.stop"]

    assert kinds == ["action.publish", "action.transfer", "action.noop"]
    assert result.errors == 1
    assert result.observations["done"].maximum == 0


def test_each_action_pays_its_own_costs(play):
    """Every action of a rule takes what its kind costs, and waits for it if the limit blocks."""
    result, events = play("""
limits: {calls: {agent: 1 per 60s, policy: block}}
costs: {publish: {calls: 1}}
agents:
  - {name: a, rules: [{when: iteration == 1, do: [{publish: {topic: one}}, {publish: {topic: two}}]}, {do: stop}]}
""")
    times = [time for time, topic, _ in events if topic == "action.publish"]

    assert times[1] - times[0] == pytest.approx(60, abs=1)
    assert result.iterations == 2


@pytest.mark.parametrize(
    ("do", "line", "what"),
    [
        ("[{sleep: {for: 5m}}, noop]", 5, "sleep must be the last action, but is number 1 of 2"),
        ("[]", 5, "expected"),
        ("[noop, {send: {to: nobody}}]", 5, "no agent or group 'nobody'"),
        ("[noop, nop]", 5, "there is no action 'nop'"),
        ("[noop, ask]", 5, "ask"),
    ],
)
def test_wrong_actions_are_refused_with_their_line(tmp_path, do, line, what):
    """Each action of a list is checked like one alone."""
    path = tmp_path / "scenario.yaml"
    path.write_text(f"name: wrong\nagents:\n  - name: a\n    rules:\n      - do: {do}\n")

    with pytest.raises(sim.ScenarioError, match=what) as raised:
        sim.run(path)
    assert {problem.line for problem in raised.value.problems} == {line}


def test_several_actions_are_refused_in_synchronised_rounds(tmp_path):
    """With `execution.sync` a rule has one action: only the first could wait for its turn."""
    path = tmp_path / "scenario.yaml"
    path.write_text(
        "name: wrong\nexecution: {use_autonomous_loops: false, sync: causal}\n"
        "agents: [{name: a, rules: [{do: [noop, noop]}]}]\n"
    )

    with pytest.raises(sim.UsageError, match="several actions in a rule of a"):
        sim.run(path)


def test_an_iteration_that_ends_in_sleep_can_end_a_series_of_errors(play):
    """Sleep alone does not end a series of errors; an action that succeeds before it does."""
    result, _ = play("""
accounts: {tax: 0}
agents:
  - name: a
    loop: {max_consecutive_errors: 3}
    rules:
      - {when: iteration % 2 == 1, do: {transfer: {to: tax, amount: 5}}}
      - {do: [noop, {sleep: {for: 1s}}]}
""")

    assert result.run is not None
    with open_run(Path(result.run)) as stored:
        events: list[Any] = list(stored.events())
    series = [row[7]["consecutive"] for row in events if row[6] == "agent.error"]
    assert len(series) > 10
    assert set(series) == {1}


def test_a_stop_takes_effect_between_two_actions():
    """An agent that is stopped during an action does not begin the next one, which might wait for ever."""
    lab = Lab()
    lab.world.places = Places(["a", "b"], [("a", "b", 10**9)])
    lab.world.places.place("p", "a")
    lab.world.pools["desk"] = Resource(lab.kernel, 1)
    lab.add("holder", lambda agent: Action("acquire", {"pool": "desk"}) if not agent.results else None, started=True)
    move = PolicyAction("move", {"to": ValueTemplate("b", True)})
    acquire = PolicyAction("acquire", {"pool": ValueTemplate("desk", True)})
    rules = RuleSet((PolicyRule(None, (move, acquire), {}, {}),))
    loop = lab.manager.create_loop(PolicyAgent("p", lab.world, toolbox=Toolbox(lab.world), rule_set=rules))
    loop.start_now()
    lab.at(0.5, lambda: loop.request_stop("test"))
    lab.run(5)

    assert loop.state == "stopped"
    assert lab.world.done == {"acquire": 1, "move": 1}
    assert not lab.world.refused
