"""The state of agents is live: it can be set in a branch, by an intervention, and from outside."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.actors import Control
from sim.base.errors import UsageError
from sim.record import open_run
from sim.runner import RunController, branch, replay, resume, run
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.scenario.assembly.live_parameters import LiveParameters
from sim.scenario.overrides import Override

TEXT = """
name: market
until: 1h
limits: {deals: {agent: 5 per 1h}}
costs: {publish: {deals: 1}}
agents:
  - {name: buyer, count: 3, group: traders, state: {price: 1, note: null}, loop: LOOP, rules: RULES}
  - {name: seller, group: traders, state: {price: 2}, loop: LOOP, rules: RULES}
  - {name: clerk, state: {open: true}, loop: LOOP}
""".replace("LOOP", "{min_loop_delay: 10m}").replace("RULES", '[{do: {publish: {topic: deal.made, data: "=price"}}}]')

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc=", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def _is_plain(value: Any) -> bool:
    """Return whether no text in a value is an expression."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return not (isinstance(value, str) and value.startswith("="))


def _live(text: str = TEXT, **options: Any) -> tuple[LiveParameters, sim.World]:
    simulation = build(loads(text), **options)
    return LiveParameters(simulation), simulation.world


def _set(live: LiveParameters, world: sim.World, values: dict[str, Any]) -> int:
    with world.kernel.acting_as(world.kernel.host):
        return live.change([Override.of(key, value) for key, value in values.items()])


def _states(world: sim.World, key: str) -> dict[str, Any]:
    return {name: agent.state[key] for name, agent in world.agents.items() if key in agent.state}


@pytest.mark.slow
@given(JSON.filter(_is_plain))
def test_any_json_value_can_be_set(value):
    """A value of any JSON type arrives in the state of each agent as it is, and no two agents share a part of it."""
    live, world = _live()
    assert _set(live, world, {"agents.buyer.state.note": value}) == 3
    states = _states(world, "note")
    assert list(states.values()) == [value] * 3
    assert [type(state) for state in states.values()] == [type(value)] * 3
    if isinstance(value, list | dict):
        assert len({id(state) for state in states.values()}) == 3


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("buyer", {"buyer-1": 9, "buyer-2": 9, "buyer-3": 9, "seller": 2}),
        ("buyer-2", {"buyer-1": 1, "buyer-2": 9, "buyer-3": 1, "seller": 2}),
        ("traders", {"buyer-1": 9, "buyer-2": 9, "buyer-3": 9, "seller": 9}),
        ("seller", {"buyer-1": 1, "buyer-2": 1, "buyer-3": 1, "seller": 9}),
        ("0", {"buyer-1": 9, "buyer-2": 9, "buyer-3": 9, "seller": 2}),
    ],
)
def test_a_name_is_that_of_an_entry_a_group_or_an_agent(name, changed):
    """The state of all agents of an entry or a group, or of one agent, is set; that of others stays."""
    live, world = _live()
    _set(live, world, {f"agents.{name}.state.price": 9})
    assert _states(world, "price") == changed


def test_a_value_is_evaluated_for_each_agent():
    """An expression sees the agent: its index, its name, its present state, and draws of its own."""
    live, world = _live()
    _set(live, world, {"agents.buyer.state.price": "=price + index * 10"})
    assert _states(world, "price") == {"buyer-1": 1, "buyer-2": 11, "buyer-3": 21, "seller": 2}
    _set(live, world, {"agents.traders.state": {"price": {"of": "=me", "luck": "=uniform(0, 1)"}}})
    found = _states(world, "price")
    assert [one["of"] for one in found.values()] == list(found)
    assert len({one["luck"] for one in found.values()}) == 4


@pytest.mark.parametrize(
    ("values", "sentence", "hint"),
    [
        ({"agents.buyer.state.prise": 1}, "agents.buyer.state.prise: buyer has no state variable 'prise'", "'price'"),
        ({"agents.byer.state.price": 1}, "there is no agent, entry or group 'byer' in this file", "'buyer'"),
        ({"agents.buyer-4.state.price": 1}, "there is no agent, entry or group 'buyer-4'", "'buyer-1'"),
        ({"agents.buyer-x-1.state.price": 1}, "there is no agent 'buyer-x-1' now", None),
        ({"agents.buyer.state.price": "=prise"}, "there is no name 'prise' here", "'price'"),
        ({"agents.buyer.state.price": "=message"}, "there is no name 'message' here", None),
        ({"agents.buyer.state.price": "=1 / index"}, "buyer-1: '1 / index': division by zero", None),
        ({"agents.buyer.state": 5}, "expected a mapping from state variables to values, found 5", None),
        ({"agents.buyer.state.note.a": 5}, "a state variable is set as a whole", "agents.buyer.state.note"),
        ({"agents.buyer.count": 5}, "agents.buyer.count shapes a run from its start", "live are limits, costs"),
        ({"agents.buyer": {}}, "agents.buyer shapes a run from its start", "of agents.NAME: state.KEY"),
        ({"agents.buyer.loop.mailbox_size": 5}, "shapes a run from its start", "of agents.NAME.loop: min_loop_delay"),
        ({"until": "2h"}, "until shapes a run from its start, so it cannot change during a run", "live are"),
        ({"limits.deals.agent": "many"}, "limits.deals.agent: expected a rate such as", None),
        ({"costs.publish.deels": 1}, "deels", None),
        ({"": 1}, "there is no ''", None),
        ({"limts.deals.agent": 1}, "limts.deals.agent: there is no 'limts'", "'limits'"),
        ({"agents.buyer.stat.price": 1}, "agents.buyer.stat.price: there is no 'stat'", "'state'"),
        ({"agents..state.price": 1}, "shapes a run from its start", None),
    ],
)  # fmt: skip
def test_what_cannot_be_set_changes_nothing(values, sentence, hint):
    """A wrong key or value is refused in one sentence with a hint, and no other value of the same call is set."""
    live, world = _live()
    before = world.digest()
    with pytest.raises(UsageError) as caught:
        _set(live, world, {"agents.clerk.state.open": False, **values})
    assert sentence in str(caught.value)
    if hint is not None:
        assert hint in str(caught.value.hint)
    assert "\n" not in str(caught.value)
    assert world.digest() == before
    assert _set(live, world, {"agents.clerk.state.open": False}) == 1


class Counter(sim.Agent):
    """Has a variable that no scenario declares."""

    async def decide_action(self) -> None:
        self.state["seen"] = self.state.get("seen", 0) + 1


COUNTERS = """
name: counters
until: 1h
agents:
  - {name: counter, count: 2, kind: counter, loop: {min_loop_delay: 10m}}
"""


def test_a_variable_that_only_the_code_knows(tmp_path: Path):
    """A variable that agents of a class have by now can be set; one that none has cannot."""
    path = tmp_path / "counters.yaml"
    path.write_text(COUNTERS)
    made = run(path, out=tmp_path, kinds={"counter": Counter})
    assert made.run is not None
    changed = branch(made.run, at="30m", overrides=["agents.counter-2.state.seen=100"], kinds={"counter": Counter})
    assert changed.run is not None
    with open_run(Path(changed.run)) as stored:
        assert stored.info.digest is not None
        agents = stored.info.digest["agents"]
    assert {name: agents[name]["state"]["seen"] for name in agents} == {"counter-1": 6, "counter-2": 103}
    assert replay(changed.run, kinds={"counter": Counter}).same
    with pytest.raises(UsageError, match="counter has no state variable 'sen'"):
        branch(made.run, at="30m", overrides=["agents.counter.state.sen=1"], kinds={"counter": Counter})
    assert len([folder for folder in tmp_path.iterdir() if folder.is_dir()]) == 2  # no run of the refused branch


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("agents.buyer.state.price==1 / 0", "division by zero"),
        ("agents.buyer-host-1.state.price=3", "there is no agent 'buyer-host-1' now"),
        ("agents.buyer.state.prise=3", "buyer has no state variable 'prise'"),
    ],
)
def test_a_branch_that_is_not_possible_makes_no_run(tmp_path: Path, change: str, sentence: str):
    """A change that turns out to be impossible at the time of the branch is refused, and leaves no run folder."""
    path = tmp_path / "market.yaml"
    path.write_text(TEXT)
    made = run(path, out=tmp_path / "runs")
    assert made.run is not None
    with pytest.raises(UsageError, match=sentence):
        branch(made.run, at="30m", overrides=[change])
    assert len([*(tmp_path / "runs").iterdir()]) == 1


@pytest.mark.slow
def test_changes_build_on_each_other(tmp_path: Path):
    """Changes by an intervention, from outside and of a branch add up; a later value of a key replaces the earlier."""
    path = tmp_path / "market.yaml"
    path.write_text(
        f"{TEXT}interventions:\n  - {{at: 10m, set: {{limits.deals.agent: 6 per 1h, costs.publish.deals: 2}}}}\n"
    )

    def begun(runner: RunController) -> None:
        Control(runner.simulation.manager).set({"costs.publish.deals": 3, "agents.traders.state.price": "=price * 2"})

    made = run(path, out=tmp_path / "runs", begun=begun)
    assert made.run is not None
    changed = branch(made.run, at="50m", overrides=["limits.deals.agent=9 per 1h"])
    assert changed.run is not None
    with open_run(Path(changed.run)) as stored:
        deals = stored.query("SELECT time, data FROM events WHERE topic = 'deal.made' AND actor = 'seller' ORDER BY id")
    # at 0 a deal costs 1 of 5, then 3; from 10m on 2 of 6; from the end of the instant before 50m on 2 of 9
    assert deals[:4] == [(0.0, "2"), (600.0, "4"), (1200.0, "4"), (2999.999999999, "4")]
    assert replay(changed.run).same


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_host_program_sets_values(tmp_path: Path, backend: Any):
    """`Control.set` is a recorded input: it is checked at once, applied inside the run, and replayed."""
    path = tmp_path / "market.yaml"
    path.write_text(TEXT)
    caught: list[str] = []

    def begun(runner: RunController) -> None:
        control = Control(runner.simulation.manager)
        control.set({"agents.buyer.state.note": {"text": "=me", "list": [1, None, "=="]}})
        control.publish("rumour.heard", {"x": 1})
        for values in ({"agents.buyer.state.nte": 1}, {}, {"until": 1}, {"agents.buyer.state.note": float("nan")}):
            with pytest.raises(UsageError) as raised:
                control.set(values)
            caught.append(str(raised.value))
        with pytest.raises(UsageError) as raised:
            control.publish("agent.state")
        caught.append(str(raised.value))

    made = run(path, out=tmp_path / "runs", begun=begun, backend=backend)
    assert made.run is not None
    assert [text.partition(":")[0] for text in caught] == [
        "agents.buyer.state.nte", "expected values by key, such as {'agents.person.state.beta'",
        "until shapes a run from its start, so it cannot change during a run",
        "values['agents.buyer.state.note'] is nan, which is not JSON", "'agent.state' is not for agents",
    ]  # fmt: skip
    with open_run(Path(made.run)) as stored:
        assert stored.query("SELECT kind FROM inputs ORDER BY id") == [("parameters",), ("publish",)]
        assert stored.query("SELECT actor FROM events WHERE topic = 'rumour.heard'") == [("host",)]
        assert stored.info.digest is not None
        note = stored.info.digest["agents"]["buyer-2"]["state"]["note"]
    assert note == {"text": "buyer-2", "list": [1, None, "=="]}
    assert replay(made.run).same
    assert branch(made.run, at="30m").hash == made.hash


def test_a_refused_input_changes_nothing(tmp_path: Path):
    """A value that cannot be evaluated, and an event with too much data, change nothing; the run goes on."""
    path = tmp_path / "market.yaml"
    path.write_text(TEXT.replace("until: 1h", "until: 1h\nexecution: {max_data_bytes: 1000}"))

    def begun(runner: RunController) -> None:
        control = Control(runner.simulation.manager)
        control.set({"agents.clerk.state.open": False, "agents.buyer.state.price": "=1 / index"})
        control.publish("rumour.heard", "x" * 2000)

    made = run(path, out=tmp_path / "runs", begun=begun)
    assert made.run is not None
    with open_run(Path(made.run)) as stored:
        assert stored.info.digest is not None
        assert stored.info.digest["agents"]["clerk"]["state"] == {"open": True}
        assert stored.query("SELECT count(*) FROM events WHERE topic = 'rumour.heard'") == [(0,)]
    assert replay(made.run).same


def test_a_world_without_a_scenario_has_no_parameters():
    """Without a scenario there is nothing to set; the error says what to write instead."""
    manager = sim.AgentLoopManager(sim.World(1))
    with pytest.raises(UsageError, match="not built from a scenario") as caught:
        sim.Control(manager).set({"agents.buyer.state.price": 1})
    assert "World.submit" in str(caught.value.hint)


def test_an_interrupted_run_keeps_what_was_set(tmp_path: Path):
    """A run that was set, interrupted and resumed comes to the state that it would have without the interruption."""
    path = tmp_path / "market.yaml"
    path.write_text(TEXT)
    hashes = []
    for stop in (False, True):

        def begun(runner: RunController, stop: bool = stop) -> None:
            Control(runner.simulation.manager).set({"agents.traders.state.price": 7})
            if stop:
                runner.simulation.world.kernel.call_at(
                    1800 * 10**9, runner.host.suspend, runner.simulation.world.kernel.host
                )

        made = run(path, out=tmp_path / "runs", begun=begun)
        assert made.run is not None
        assert made.status == ("interrupted" if stop else "finished")
        hashes.append(resume(made.run).hash if stop else made.hash)
    assert hashes[0] == hashes[1]
