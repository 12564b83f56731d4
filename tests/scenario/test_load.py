import contextlib
import copy
import io
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sim.base.errors import ScenarioError, UsageError
from sim.base.expressions import PURE_FUNCTIONS
from sim.base.permissions import Permission
from sim.scenario import json_schema, load, loads
from sim.scenario.units import Rate

FULL = Path(__file__).parent / "full.yaml"
TREE = YAML(typ="safe", pure=True).load(FULL.read_text())
SECOND = 1_000_000_000


def test_a_minimal_file_has_defaults_for_everything():
    """A name and one agent are enough."""
    scenario = loads("name: x\nagents: [{name: a}]")

    agent = scenario.agents[0]
    assert (scenario.seed, scenario.until) == (0, 3600 * SECOND)
    assert (
        agent.count,
        agent.kind,
        agent.group_name,
        agent.permission,
        agent.rules,
    ) == (1, "policy", "a", Permission.USER, ())
    assert scenario.execution.agent_loop.min_loop_delay == SECOND // 10
    assert scenario.execution.use_autonomous_loops


def test_the_full_example_loads():
    """Every key of the format is read, with durations in nanoseconds and expressions parsed."""
    scenario = load(FULL)

    grazer = scenario.agents[0]
    assert scenario.until == 7200 * SECOND
    assert Rate(10, 60 * SECOND) == scenario.limits["llm_calls"].agent
    assert Rate(100, 60 * SECOND) == scenario.limits["llm_calls"].global_
    assert frozenset({"energy"}) == grazer.rules[0].when.names
    assert grazer.rules[0].do[0].kind == "write"
    assert grazer.rules[0].do[0].arguments["content"].evaluate({"me": "me!"}, {}) == "me!"
    assert grazer.rules[0].do[0].arguments["artifact"].constant
    assert scenario.costs["write"]["disk_bytes"].evaluate({"size": 64}, PURE_FUNCTIONS) == 64
    assert scenario.artifacts[0].price * 10 * SECOND == 5 * SECOND
    assert scenario.places is not None
    assert scenario.places.edges[0].ends == ("a", "b")


def test_sleep_conditions_become_a_tree():
    """Conditions nest, and each has its own timeout."""
    sleep = load(FULL).agents[0].rules[1].do[0].sleep

    assert sleep is not None
    for_, event = sleep.values["any"]
    assert (set(sleep.values), set(for_.values), set(event.values)) == ({"any", "timeout"}, {"for"}, {"event", "where"})
    assert event.values["event"].raw == "rain.*"
    assert for_.values["for"].evaluate({}, {}) == "5m"
    assert event.values["where"].evaluate({"data": {"mm": 3}}, {})
    assert sleep.values["timeout"].evaluate({"energy": 7}, {}) == 7


def test_loop_overrides_take_the_rest_from_the_base():
    """Only the keys that were written replace those of execution.agent_loop."""
    scenario = loads(
        "name: x\nexecution: {agent_loop: {max_loop_delay: 30s}}\n"
        "agents: [{name: a, loop: {min_loop_delay: 20s, heartbeat_timeout: 1m}}]"
    )

    loop = scenario.agents[0].loop.over(scenario.execution.agent_loop)

    assert (loop.min_loop_delay, loop.max_loop_delay) == (20 * SECOND, 30 * SECOND)
    assert loop.heartbeat_timeout == 60 * SECOND


@pytest.mark.parametrize(
    ("written", "expected"),
    [("min_loop_delay: 60s", (60, 60)), ("max_loop_delay: 0.05", (0.05, 0.05)), ("cool_down: 1", (0.1, 10))],
)
def test_a_single_written_delay_moves_the_other(written, expected):
    """A shortest delay over the default longest one is meant, and the other way round."""
    scenario = loads(f"name: x\nagents: [{{name: a, loop: {{{written}}}}}]")

    loop = scenario.agents[0].loop.over(scenario.execution.agent_loop)

    assert (loop.min_loop_delay / SECOND, loop.max_loop_delay / SECOND) == expected


def test_yaml_words_stay_text():
    """Only JSON's values are typed."""
    state = loads("name: x\nagents: [{name: a, state: {a: no, b: on, c: 1:30, d: 010, e: 1_0, f: ~, g: 1.5}}]")

    values = {key: part.evaluate({}, {}) for key, part in state.agents[0].state.items()}
    assert values == {"a": "no", "b": "on", "c": "1:30", "d": "010", "e": "1_0", "f": None, "g": 1.5}


def test_a_constant_value_is_new_each_time():
    """Two agents never share one list."""
    value = loads("name: x\nagents: [{name: a, state: {x: [1, {y: 2}]}}]").agents[0].state["x"]

    first, second = value.evaluate({}, {}), value.evaluate({}, {})
    assert value.constant
    assert first == second == [1, {"y": 2}]
    assert first is not second
    assert first[1] is not second[1]


def test_expressions_are_evaluated_at_any_depth():
    """Text that starts with one = is an expression; == is plain text."""
    rule = "{do: {publish: {topic: t, data: {a: [=n + 1, '==x'], b: {c: '=n'}}}}}"
    value = loads(f"name: x\nagents: [{{name: a, state: {{n: 1}}, rules: [{rule}]}}]")

    data = value.agents[0].rules[0].do[0].arguments["data"]
    assert not data.constant
    assert data.evaluate({"n": 5}, {}) == {"a": [6, "==x"], "b": {"c": 5}}


def test_numbered_agents_and_groups_can_be_addressed():
    """A literal receiver is an agent, one of a numbered entry, or a group."""
    text = "name: x\nagents: [{name: a, count: 3, group: g, rules: [{do: {send: {to: %s}}}]}]"

    for name in ("a-1", "a-3", "g"):
        assert loads(text % name).name == "x"
    for name in ("a", "a-0", "a-4", "a-03", "a-x", "h"):
        with pytest.raises(ScenarioError):
            loads(text % name)


def test_overrides_change_single_values():
    """--set reaches keys, list items by name or number, and parts that the file left out."""
    overrides = [
        "seed=3",
        "execution.tick.period=2s",
        "agents.grazer.count=50",
        "agents.1.group=k",
        "events.0.data={mm: 9}",
        "stop=null",
        "interventions.fog.at=25m",
        "interventions.fog.set.agents.grazer.state.energy=9",
        "interventions.1.set.limits.llm_calls.agent=7 per 60s",
    ]

    scenario = load(FULL, overrides)

    assert (scenario.seed, scenario.execution.tick.period) == (3, 2 * SECOND)
    assert (scenario.agents[0].count, scenario.agents[1].group) == (50, "k")
    assert scenario.events[0].data == {"mm": 9}
    assert scenario.stop is None
    assert scenario.interventions[0].at == 1500 * SECOND
    assert scenario.interventions[0].set == {"agents.grazer.state.energy": 9}
    assert scenario.interventions[1].set == {
        "limits.llm_calls.agent": "7 per 60s", "agents.grazer.state": {"arrived": 1}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("override", "fragment"),
    [
        ("seed", "not of the form"),
        ("=3", "not of the form"),
        ("a..b=3", "not of the form"),
        ("sede=3", "there is no 'sede'"),
        ("agents.grazr.count=3", "there is no 'grazr'"),
        ("seed.x=3", "has no keys"),
        ("agents.7.count=3", "there is no '7'"),
        ("seed=x", "--set:1:6: seed: expected a whole number"),
        ("seed=[", "--set:1:6: not valid YAML"),
        ("seed=*a", "alias"),
        ("execution.tik.period=1s", "did you mean 'tick'"),
        ("agents.grazer.count=1000001", "at most 1000000"),
        ("name=", "expected text"),
        ("name=!!str x", "the tag"),
        ("interventions.fog.set.agents.grazer.state.energi=9", "grazer has no state variable 'energi'"),
        ("interventions.fog.set={agents.grazer.state.energi: 9}", "grazer has no state variable 'energi'"),
        ("interventions.0.when=9", "unknown key 'when'"),
    ],
)
def test_a_wrong_override_is_refused(override, fragment):
    """What an override gets wrong is said with its own position."""
    with pytest.raises(UsageError) as caught:
        load(FULL, [override])

    assert fragment in str(caught.value)


@pytest.mark.parametrize("path", ["energy", "state.energy"])
def test_a_state_variable_without_its_entry_is_named_whole(path):
    """An override that names a state variable alone, as tables of results do, is told its whole path."""
    with pytest.raises(UsageError, match=f"there is no '{path.split('.')[0]}'") as caught:
        load(FULL, [f"{path}=9"])

    assert caught.value.hint == "did you mean agents.grazer.state.energy?"


def test_models_are_immutable():
    """A loaded scenario cannot be changed."""
    scenario = load(FULL)

    with pytest.raises(ValueError, match="frozen"):
        scenario.seed = 5


def test_the_json_schema_describes_the_format():
    """The schema is JSON, names every key with its default, and forbids others."""
    schema = json_schema()

    json.dumps(schema)
    assert set(TREE) <= set(schema["properties"])
    assert schema["properties"]["until"]["default"] == "1h"
    assert schema["additionalProperties"] is False
    agent = schema["$defs"]["Agent"]
    assert set(TREE["agents"][0]) <= set(agent["properties"])
    assert "sleep" in json.dumps(schema["$defs"]["Rule"])


@pytest.mark.slow
def test_a_thousand_entries_load_fast():
    """A generated file of a thousand entries is no burden; the bound is on processor time, and generous."""
    rule = "{when: energy > 1, set: {energy: =energy - 1}, do: noop}"
    entry = f"  - {{name: a%d, state: {{energy: 1}}, rules: [{rule}]}}\n"
    text = "name: x\nagents:\n" + "".join(entry % number for number in range(1000))
    started = time.process_time()

    loads(text)

    assert time.process_time() - started < 5


def paths(tree, prefix=()):
    """Yield the way to each value of a tree."""
    yield prefix
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from paths(value, (*prefix, key))


PATHS = [path for path in paths(TREE) if path]
ODD: st.SearchStrategy[object] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1.5,
        10**18,
        "",
        "=",
        "=x",
        "=1/0",
        "a b",
        [],
        {},
        [[]],
        {"x": 1},
        [1, 2, 3],
        {"for": "x"},
    ]
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(["set", "delete", "rename"]), ODD), max_size=4))
def test_a_mutated_file_loads_or_is_refused(mutations):
    """Whatever is changed in a good file, loading it raises nothing but a ScenarioError."""
    tree = copy.deepcopy(TREE)
    for path, how, value in mutations:
        mutate(tree, path, how, value)
    stream = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = True
    writer.representer.ignore_aliases = lambda data: True
    writer.dump(tree, stream)

    with contextlib.suppress(ScenarioError):
        loads(stream.getvalue(), "f.yaml")


def mutate(tree, path, how, value):
    """Change one value of a tree in place, if it is still there."""
    for step in path[:-1]:
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            return
    key = path[-1]
    if isinstance(tree, dict) and key in tree:
        if how == "set":
            tree[key] = value
        elif how == "delete":
            del tree[key]
        else:
            tree[f"{key}x"] = tree.pop(key)
    elif isinstance(tree, list) and isinstance(key, int) and key < len(tree):
        if how == "set":
            tree[key] = value
        else:
            del tree[key]


@given(st.text(max_size=80) | st.text(alphabet="abc:-?[]{}#&*!|>'\"%@` \n\t,123", max_size=80))
def test_any_text_is_loaded_or_refused(text):
    """No text whatever raises anything but a ScenarioError."""
    with contextlib.suppress(ScenarioError):
        loads(text)


CHOSEN = {"state", "set", "record", "values", "limits", "budgets", "quotas", "accounts", "pools"}
KEYS = [path for path in PATHS if isinstance(path[-1], str) and path[-2:-1] not in [(c,) for c in CHOSEN]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in KEYS if "data" not in path[:-1]], ids=lambda path: ".".join(map(str, path))
)
def test_each_key_of_the_format_matters(path):
    """A letter too many in any key of the format is noticed; names that the author chose are left out."""
    tree = copy.deepcopy(TREE)
    mutate(tree, path, "rename", None)
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump(tree, stream)

    with pytest.raises(ScenarioError):
        loads(stream.getvalue())
