"""The data of a view: events, keyframes, and what was said."""

import json
import random
from collections import Counter
from typing import Any

import pytest

from sim.actors import Agent
from sim.inspect.viewer.series import MOST_POINTS, Series
from sim.inspect.viewer.states import STATES
from sim.kernel.codec import encode, json_items
from sim.record import HashRecorder
from sim.record.files import SCENARIO
from sim.runner import RunController
from sim.scenario import load
from sim.scenario.assembly.build import build
from tests.viewer.conftest import page_of, states

MARKET = """
name: market
until: 20m
seed: 3
places: {grid: [5, 4], travel_time: 7s}
artifacts: [{id: advice, owner: seller-1, price: 0.25, formula: "1"}]
agents:
  - name: seller
    count: 4
    balance: "=10 + index"
    place: "=index"
    loop: {min_loop_delay: 11s}
    rules:
      - when: chance(0.3)
        do: {move: {to: "=str(randint(0, 4)) + ',' + str(randint(0, 3))"}}
      - when: chance(0.3)
        do: {transfer: {to: "='seller-' + str(randint(1, 4))", amount: 0.5}}
      - when: chance(0.3)
        do: {invoke: {artifact: advice}}
      - when: chance(0.02)
        do: stop
      - do: {sleep: {for: "=exponential(40)"}}
  - {name: idle, count: 2, place: 7, rules: [{do: {sleep: {for: 1h}}}]}
metrics: {every: 1m, values: {asleep: "in_state('sleeping')"}}
"""


@pytest.mark.usefixtures("small_chunks")
def test_every_event_is_in_a_chunk_as_it_is_recorded(ran):
    """The chunks hold all events in order, byte for byte, each once, with its time, actor and topic beside it."""
    run = ran(MARKET)
    page = page_of(run)
    recorded = [line for _, _, _, _, data in run.chunks() for line in json_items(data[1:-1])]
    rows = list(run.events())

    assert list(page.lines()) == recorded
    assert page.about["events"] == len(recorded)
    assert len(page.about["chunks"]) > 5
    at = 0
    for chunk, frame in zip(page.about["chunks"], page.frames(), strict=True):
        assert chunk[2:4] == [at + 1, len(frame["times"])]
        for time, actor, topic in zip(frame["times"], frame["actors"], frame["topics"], strict=True):
            assert round(chunk[4] * 1e9) + time == rows[at].time_ns
            assert page.about["names"][actor] == rows[at].actor
            assert page.about["topics"][topic] == rows[at].topic
            at += 1


@pytest.mark.usefixtures("small_chunks")
def test_a_keyframe_is_what_the_changes_before_it_lead_to(ran):
    """Each keyframe equals the one before it after all changes of its chunk; names that are new come at its end."""
    page = page_of(ran(MARKET))
    fields = None
    for frame in page.frames():
        if fields is not None:
            known = len(fields[0])
            assert [values[:known] for values in frame["keyframe"]] == fields
        fields = [list(values) for values in frame["keyframe"]]
        changes = frame["changes"]
        for _, name, field, value in zip(*(changes[part::4] for part in range(4)), strict=True):
            for values in fields:
                values += [-1] * (name + 1 - len(values))
            fields[field][name] = value


def _at(page, seconds):
    """Return the fields of all names after all events up to a time, as the page finds them."""
    chunk = max(number for number, one in enumerate(page.about["chunks"]) if one[4] <= seconds)
    frame = list(page.frames())[chunk]
    fields, changes = [list(values) for values in frame["keyframe"]], frame["changes"]
    start = page.about["chunks"][chunk][4]
    for offset, name, field, value in zip(*(changes[part::4] for part in range(4)), strict=True):
        if start + frame["times"][offset] / 1e9 <= seconds:
            fields[field][name] = value
    return fields


@pytest.mark.usefixtures("small_chunks")
def test_the_state_at_a_time_is_that_of_the_world_at_that_time(ran):
    """State, place and balance of each agent at a time equal those of the same world run up to that time."""
    run = ran(MARKET)
    page = page_of(run)
    runner = RunController(build(load(run.path / SCENARIO)), until_ns=20 * 60 * 10**9, mode="autonomous")
    world = runner.simulation.world
    world.kernel.recorder = HashRecorder()
    runner.begin()
    for seconds in (0.5, 61.5, 300.5, 555.5, 900.5, 1199.5):
        world.kernel.run(round(seconds * 1e9))
        state, place, balance, *_ = _at(page, seconds)
        assert world.places is not None
        for agent_id, agent in world.agents.items():
            assert isinstance(agent, Agent)
            name = page.name(agent_id)
            assert STATES[state[name]] == agent.loop.state, (seconds, agent_id)
            assert balance[name] == pytest.approx(world.balance(agent_id)), (seconds, agent_id)
            if agent.loop.state != "stopped":  # it has left its place; the page does not show it
                assert page.about["map"]["places"][place[name]] == world.places.where(agent_id), (seconds, agent_id)


def test_a_run_that_was_killed_starts_as_its_scenario_says(ran, monkeypatch):
    """Without a final state, places and balances at the start are those of the world that the scenario describes."""
    run = ran(MARKET)
    whole = next(page_of(run).frames())["keyframe"]
    object.__setattr__(run.info, "digest", None)
    assert next(page_of(run).frames())["keyframe"] == whole


WALK = """
name: meadow
until: 1m
execution: {use_autonomous_loops: false, tick: {period: 10s}}
space: {size: [40, 30], perception: 3, speed: 2}
agents:
  - name: cow
    position: "=[5, 6]"
    rules: [{do: {walk: {to: "=[position()[0] + 1, 6]", doing: grazing}}}]
"""


def test_positions_in_a_plane_have_the_one_before(ran):
    """A position in a plane stands with the one before it and its time, so that the page can draw the way between."""
    page = page_of(ran(WALK))
    cow = page.name("cow")
    (frame,) = page.frames()
    walked = [
        value for _, name, field, value in zip(*(frame["changes"][part::4] for part in range(4)), strict=True)
        if (name, field) == (cow, 1)
    ]  # fmt: skip
    assert frame["keyframe"][1][cow] == [5, 6, 5, 6, 0]
    assert walked[:2] == [[6, 6, 5, 6, 0.0], [7, 6, 6, 6, 10.0]]
    assert page.about["map"] == {"kind": "plane", "box": [0, 0, 40, 30], "step": 10}
    assert page.about["activities"] == ["grazing"]


def test_who_said_something_to_whom(stored):
    """Messages, posts and conversations have a source, a target and a place; a user is the agent of that name."""
    said = {"conversation": "c-1", "content": "x"}
    link = [{"platform_username": "ann"}]
    page = page_of(stored([
        *states("ann", (0, "running")), *states("bot", (0, "running")),
        (1, "ann", "user.created", {"user": "user:1", "links": link}),
        (1, "ann", "conversation.started", {"conversation": "c-1", "user": "user:1"}),
        (1, "bot", "conversation.message", {**said, "id": 1, "role": "user", "author": "user:1"}),
        (2, "bot", "conversation.message", {**said, "id": 2, "role": "assistant", "author": "bot"}),
        (3, "ann", "message.sent", {"sender": "ann", "to": "bot", "topic": "hi"}),
        (4, "bot", "channel.post", {"author": "bot", "channel": "#log", "text": "done"}),
        (5, "bot", "ledger.transferred", {"from": "bot", "to": "ann", "amount": 1}),
        (6, "x", "message.sent", ["not", "a", "mapping"]),
    ]))  # fmt: skip
    (frame,) = page.frames()
    names, kinds = page.about["names"], page.about["contact_kinds"]
    found = [
        (kinds[kind], *("" if name < 0 else names[name] for name in rest))
        for _, kind, *rest in zip(*(frame["said"][part::5] for part in range(5)), strict=True)
    ]
    assert found[:5] == [
        ("conversation", "ann", "bot", "c-1"),
        ("conversation", "bot", "ann", "c-1"),
        ("message", "ann", "bot", ""),
        ("channel", "bot", "#log", "#log"),
        ("payment", "bot", "ann", ""),
    ]
    roles = {names[number]: page.about["role_names"][role] for number, role in enumerate(page.about["roles"])}
    assert (roles["ann"], roles["#log"], roles["c-1"]) == ("agent", "channel", "conversation")


TOPICS = (
    "agent.state", "action.walk", "action.write", "action.ask", "place.entered", "ledger.transferred", "message.sent",
    "artifact.invoked", "conversation.started", "conversation.message", "user.created", "channel.post",
    "survey.answer", "metric.sample", "state.sample", "agent.error", "alert.x", "x",
)  # fmt: skip
KEYS = (
    "to", "from", "agent", "arguments", "success", "amount", "sender", "user", "links", "conversation", "author",
    "role", "channel", "artifact", "by", "result", "price", "version", "reason", "doing", "content", "text",
)  # fmt: skip
VALUES: tuple[object, ...] = (
    None, True, 10**30, -1.5, "", "a", "running", "1e999", "3,4", [], [[1]], [1, 2], [1, "x"], {}, {"to": [1e300, 0]},
)  # fmt: skip


def forged():
    """Return events of an agent and others on topics of the runtime, with data of any shape."""
    chance = random.Random(5)
    events = [*states("a", (0, "running"))]
    for number in range(600):
        data = {key: chance.choice(VALUES) for key in chance.sample(KEYS, 8)}
        given = data if chance.random() < 0.9 else chance.choice(VALUES)
        events.append((number / 10, chance.choice(["a", "b", ""]), chance.choice(TOPICS), given))
    return events


VOTERS = """
name: voters
until: 1m
seed: 3
metrics: {every: 5s}
recording: {state: [opinion, mood, tastes]}
places: {grid: [4, 4]}
agents:
  - name: voter
    count: 6
    place: =index
    state: {mood: "=uniform(0, 1)", opinion: "=choice(['red', 'blue'])", tastes: [1, 2]}
    rules:
      - when: chance(0.3)
        set: {opinion: "=choice(['red', 'blue', 'green'])", mood: "=mood + uniform(-1, 1)", tastes: "=tastes + [3]"}
      - do: {sleep: {for: 1s}}
"""


@pytest.mark.usefixtures("small_chunks")
def test_variables_have_their_values_at_each_time(ran):
    """Whatever chunk a time is in, keyframe and changes give the recorded variables of each agent, and the page knows
    their range and their values, in the order in which the scenario names them."""
    run = ran(VOTERS)
    page = page_of(run)
    opinion, mood, tastes = page.about["variables"]
    assert [one["name"] for one in page.about["variables"]] == ["opinion", "mood", "tastes"]
    assert opinion["values"] == sorted(opinion["values"])
    assert set(opinion["values"]) <= {"red", "blue", "green"}
    rows = run.query("SELECT id, agent, name, value FROM variables ORDER BY id")
    moods = [value for _, _, name, value in rows if name == "mood"]
    assert (mood["low"], mood["high"], mood["values"]) == (min(moods), max(moods), None)
    assert (tastes["low"], tastes["high"], tastes["values"]) == (None, None, None)
    assert "opinion" not in page.about["finals"]
    at = 0
    for chunk, frame in zip(page.about["chunks"], page.frames(), strict=True):
        fields = [list(values) for values in frame["keyframe"]] + [[None] * 100 for _ in range(3)]
        for offset, name, field, value in zip(*[iter(frame["changes"])] * 4, strict=True):
            assert offset < chunk[3]
            if field < len(fields):
                fields[field] += [None] * (name + 1 - len(fields[field]))
                fields[field][name] = value
        at += chunk[3]
        known = {(agent, name): value for id, agent, name, value in rows if id <= at}
        for (agent, name), value in known.items():
            variable = next(one for one in page.about["variables"] if one["name"] == name)
            assert fields[variable["field"]][page.name(agent)] == value
    assert at == page.about["events"]
    assert len(page.about["chunks"]) > 3


@pytest.mark.slow
def test_forged_events_make_no_error(stored):
    """Whatever data events have, on topics of the runtime as well, there is a page, and it has all of them."""
    page = page_of(stored(forged()))
    assert page.about["events"] == 601
    for field in zip(*(frame["keyframe"] for frame in page.frames()), strict=True):
        assert all(isinstance(values, list) for values in field)


def test_curves_are_thinned_out_evenly():
    """A curve keeps a bounded number of points: one of each group, and always the last one."""
    series = Series(["n"])
    for number in range(10 * MOST_POINTS + 3):
        series.add(float(number), [number])
    kept: Any = series.to_json()
    assert MOST_POINTS / 2 < len(kept["times"]) <= MOST_POINTS + 1
    assert kept["times"][-1] == 10 * MOST_POINTS + 2
    groups = Counter(time // kept["stride"] for time in kept["times"][:-1])
    assert list(groups.values()) == [1] * (10 * MOST_POINTS // kept["stride"] + 1)
    assert (kept["times"][0], kept["values"][0]) == (0.0, kept["times"])


def test_what_goes_to_and_fro_is_no_flat_line():
    """A curve that is thinned out still shows both sides of values that alternate, over all of it."""
    series = Series(["n"])
    for number in range(5 * MOST_POINTS):
        series.add(float(number), [number % 2])
    kept: Any = series.to_json()
    (values,) = kept["values"]
    assert all(0.3 < sum(values[at : at + 100]) / 100 < 0.7 for at in range(0, len(values) - 100, 100))


def test_a_run_without_events_has_a_page(stored):
    """A run without any event has no chunk, and its page is whole."""
    page = page_of(stored([], seconds=0))
    assert page.about["chunks"] == []
    assert page.about["instant"]
    assert encode(page.about["map"]) == b'{"kind":"contacts"}'


STREETS = """
name: streets
until: 1m
places: {file: streets.json, travel_time: 1s}
agents: [{name: a, place: "=index", count: 2, rules: [{do: {sleep: {for: 1h}}}]}]
"""


def test_places_stand_where_their_graph_file_says(tmp_path, ran):
    """If all places have a longitude and a latitude, they are the positions on the map, north up."""
    nodes = [{"id": "north", "lon": 8.0, "lat": 60.5}, {"id": "south", "lon": 9.0, "lat": 59.5}]
    graph = {"nodes": nodes, "edges": [{"source": "north", "target": "south"}]}
    (tmp_path / "streets.json").write_text(json.dumps(graph), encoding="utf-8")
    about = page_of(ran(STREETS)).about
    (x1, y1), (x2, y2) = about["map"]["at"]
    assert (about["map"]["kind"], about["map"]["edges"]) == ("graph", [[0, 1]])
    assert x2 - x1 == pytest.approx(0.5)  # at 60 degrees north
    assert y2 - y1 == pytest.approx(1.0)
    del nodes[1]["lat"]
    (tmp_path / "streets.json").write_text(json.dumps(graph), encoding="utf-8")
    assert "at" not in page_of(ran(STREETS)).about["map"]
