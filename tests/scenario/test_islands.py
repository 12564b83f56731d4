"""Islands: what passes between them, what is refused in a file, and what stops a run."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import CausalityError, ScenarioError, UsageError
from sim.llm.access import Access
from sim.record import open_run
from sim.scenario import island_division, load, loads
from sim.scenario.assembly.build import build
from sim.scenario.schema import Agent
from sim.world.islands import Islands

HEAD = """name: isles
until: 2m
islands: {latency: 10s, of: {north: [farmer, shop], south: [clerk]}, topics: {news: {latency: 17s}}}
"""

TWO = (
    HEAD
    + """agents:
  - name: farmer
    count: 2
    start: 1s
    state: {sent: 0, thanked: []}
    loop: {min_loop_delay: 5s}
    rules:
      - when: sent < 2
        do: [{send: {to: clerk, data: "=sent", after: 10s}}, {publish: {topic: news, data: "=sent"}}]
        set: {sent: "=sent + 1"}
      - when: message is not None
        do: noop
        set: {thanked: "=thanked + [now]"}
      - do: {sleep: {message: true}}
  - name: shop
    state: {heard: []}
    rules:
      - {when: event is not None, set: {heard: "=heard + [now]"}, do: {sleep: {event: news}}}
      - do: {sleep: {event: news}}
  - name: clerk
    state: {heard: [], got: []}
    rules:
      - when: message is not None
        do: {send: {to: "=message.sender", after: "=10 + uniform(0, 5)"}}
        set: {got: "=got + [now]"}
      - {when: event is not None, set: {heard: "=heard + [now]"}, do: {sleep: {any: [{event: news}, {message: true}]}}}
      - do: {sleep: {any: [{event: news}, {message: true}]}}
"""
)


def _states(text: str, tmp_path: Path, **options: Any) -> tuple[dict[str, dict[str, Any]], sim.RunResult]:
    path = tmp_path / "isles.yaml"
    path.write_text(text, encoding="utf-8")
    result = sim.run(path, out=tmp_path / "runs", **options)
    assert result.run is not None
    with open_run(result.run) as run:
        return {name: state["state"] for name, state in (run.info.digest or {})["agents"].items()}, result


def test_messages_and_declared_topics_pass_with_their_latency(tmp_path: Path) -> None:
    """A message reaches another island when it says, a declared topic after its latency; on its island, an event is
    heard at once."""
    states, _ = _states(TWO, tmp_path)
    assert states["shop"]["heard"] == [1, 6]
    assert states["clerk"]["heard"] == [18, 23]
    assert states["clerk"]["got"] == [11, 11.1, 16, 16.1]
    assert all(time >= 21 for time in states["farmer-1"]["thanked"])


def test_a_topic_that_is_not_declared_stays_on_its_island(tmp_path: Path) -> None:
    """What is published on one island under an undeclared topic is heard there, and nowhere else."""
    text = (
        TWO.replace("topics: {news: {latency: 17s}}", "topics: {}").replace("events: []", "")
        + "events: [{topic: news, at: 90s}]\n"
    )
    states, _ = _states(text, tmp_path)
    assert states["shop"]["heard"] == [1, 6, 90]
    assert states["clerk"]["heard"] == [90]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_run_with_islands_is_repeated(tmp_path: Path, backend: str) -> None:
    """A run with islands has the same hash on each backend, and in a replay."""
    _, result = _states(TWO, tmp_path, backend=backend)
    other = tmp_path / "other"
    other.mkdir()
    assert _states(TWO, other)[1].hash == result.hash
    assert result.run is not None
    assert sim.replay(result.run).hash == result.hash


def test_an_island_does_not_depend_on_what_others_do_at_the_same_time(tmp_path: Path) -> None:
    """What an agent of one island does, sent or published later than the latency allows it to arrive, changes nothing
    on another island: neither a state nor an event there."""
    _, one = _states(TWO, tmp_path)
    more = tmp_path / "more"
    more.mkdir()
    text = TWO.replace("{heard: []}\n    rules:", "{heard: []}\n    loop: {min_loop_delay: 1s}\n    rules:", 1)
    text = text.replace(
        'set: {heard: "=heard + [now]"}, do: {sleep: {event: news}}}', "do: {publish: {topic: own}}}", 1
    )
    _, two = _states(text, more)
    assert one.run is not None
    assert two.run is not None
    assert _events_of(one.run, "clerk") == _events_of(two.run, "clerk")
    assert _events_of(one.run, "shop") != _events_of(two.run, "shop")


def _events_of(path: str, agent: str) -> list[Any]:
    with open_run(path) as run:
        return [(row.time_ns, row.topic, row.data) for row in run.events() if row.actor == agent]


RULES = """agents:
  - name: farmer
    state: {n: 0}
    rules: [{do: %s}, {do: {sleep: {for: 1h}}}]
  - name: shop
    rules: [{do: {sleep: {for: 1h}}}]
  - name: clerk
    count: %s
    state: {n: 0}
    rules: [{do: %s}, {do: {sleep: {for: 1h}}}]
  - {name: copy, template: true}
"""
OF_COPY = HEAD.replace("[clerk]", "[clerk, copy]")

MANY = OF_COPY + RULES
ASK = "{ask: {prompt: hello}}"
PUT = "{put: {pool: barn, amount: 1}}"
POOL = "pools: {barn: {kind: container}}\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (MANY % ("{send: {to: clerk}}", 1, "noop"), 7, "north sends to clerk of the island south without `after`"),
        (MANY % ("{send: {to: clerk, after: 9s}}", 1, "noop"), 7, "with a latency of 9s, and messages between islands"),
        (MANY % ("{send: {to: clerk, after: 10s}}", 2, "noop"), 7, "sends to clerk of the island south, which is a gr"),
        (MANY % ("{stop: {agent: clerk}}", 1, "noop"), 7, "north does stop with clerk of the island south"),
        (MANY % ("{spawn: {agent: copy}}", 1, "noop"), 7, "north spawns copy of the island south"),
        (MANY % ("{publish: {topic: \"=state_of('clerk', 'n')\"}}", 1, "noop"), 7, "calls state_of() of clerk"),
        (MANY % (PUT, 1, PUT) + POOL, 13, "south uses the pool 'barn', but north uses it in agents[0].rules[0].do"),
        (MANY % ("{put: {pool: =me, amount: 1}}", 1, "noop") + POOL, 15, "pools.barn: no rule names it"),
        (MANY % ("{create_task: {title: a}}", 1, "{create_task: {title: b}}"), 13, "south uses the tasks"),
        (
            MANY % ("{move: {to: a}}", 1, "{move: {to: b}}") + "places: {nodes: [a, b]}\n", 13,
            "south uses the places, but north uses it",
        ),
        (MANY % ("{transfer: {to: clerk, amount: 1}}", 1, "noop"), 7, "north pays clerk of the island south"),
        (
            MANY % ("{read: {artifact: book}}", 1, "noop") + "artifacts: [{id: book, owner: clerk}]\n", 15,
            "artifacts[0].owner: clerk lives on south, but north uses 'book'",
        ),
        (
            MANY % (PUT, 1, "noop") + POOL.replace("pools", "limits: {calls: {global: 5 per 1s}}\ncosts: "
            "{put: {calls: 1}, noop: {calls: 1}}\npools"), 15, "limits.calls.global: agents of north and south use it",
        ),
        (
            (MANY % ("noop", 1, "{sleep: {event: corn}}")).replace("[{do: noop}", "[{do: {publish: {topic: corn}}}"),
            13, "south waits for 'corn', which only north publishes, and south never hears it",
        ),
        (HEAD + RULES % ("noop", 1, "noop"), 14, "agents[3]: 'copy' lives on no island"),
        (MANY % ("noop", 1, "noop") + "space: {size: [9, 9]}\n", 15, "space cannot be in a file with islands"),
        (
            MANY % (ASK, 1, ASK) + "models:\n  ceiling: 3\n", 16,
            "models.ceiling: agents of north and south spend from it",
        ),
        (
            MANY % (ASK, 1, "noop") + "models:\n  simulated:\n    server: {slots: 3}\n", 17,
            "models.simulated.server cannot be in a file with islands: all agents would wait for it",
        ),
        (
            MANY % (ASK, 1, "noop") + "models:\n  latency: 9s\n", 16,
            "models.latency can be 9s, and calls of islands take at least 10s",
        ),
        (
            MANY % (ASK, 1, "noop") + "models: {latency: {uniform: [5, 20]}}\n", 15,
            "models.latency can be 5s, and calls of islands take at least 10s",
        ),
        (
            MANY % (ASK, 1, "noop") + "models: {latency: {lognormal: [50, 200]}}\n", 15,
            "models.latency can be 0s, and calls of islands take at least 10s",
        ),
        (
            MANY % (f"[{ASK}, {{travel: {{to: south, after: 10s}}}}]", 1, "noop") + "models: {}\n", 7,
            "agents that travel cannot ask models",
        ),
        (
            MANY % ("{ask: {prompt: hello, tools: [memory.recall]}}", 1, "noop") + "models: {}\n", 7,
            "agents on islands cannot use the tool 'memory.recall', which all would share",
        ),
        (
            MANY % (ASK, 1, ASK) + "models: {}\nlimits: {llm_calls: {global: 5 per 1s}}\n", 16,
            "limits.llm_calls.global: agents of north and south use it",
        ),
        (MANY % ("noop", 1, "noop") + "conversations: {}\n", 15, "conversations cannot be in a file with islands"),
        (MANY % ("noop", 1, "noop") + "execution: {use_autonomous_loops: false}\n", 15, "in tick mode"),
        (MANY % ("noop", 1, "noop") + "execution: {health: {}}\n", 15, "execution.health cannot be"),
        ((MANY % ("noop", 1, "noop")).replace("[farmer, shop]", "[farmer, shop, clerk]"), 3, "lives on north already"),
        ("name: x\nuntil: 1h\nislands: {latency: 10s}\nagents: [{name: a}]\n", 3, "expected `of` or `by`"),
        ((MANY % ("noop", 1, "noop")).replace("17s", "5s"), 3, "5s is shorter than 10s, the latency of the islands"),
        ((MANY % ("noop", 1, "noop")).replace("news:", "task.done:"), 3, "only the simulation itself publishes it"),
        (
            (MANY % ("noop", 1, "noop") + POOL).replace("topics:", "home: {pools: {barn: east}}, topics:"), 3,
            "no island 'east'",
        ),
        ((MANY % ("noop", 1, "noop")).replace("south:", "' south':"), 3, "of.' south': expected the name of an island"),
        (
            MANY.replace("topics:", "home: {pools: {bran: north}}, topics:") % (PUT, 1, "noop") + POOL, 3,
            "islands.home.pools.bran: there is no such name in pools",
        ),
        ((MANY % ("noop", 1, "noop")).replace("[farmer, shop]", "[farmer, shpo]"), 3, "there is no entry in agents"),
    ],
)  # fmt: skip
def test_what_would_pass_without_a_latency_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    """What the file itself shows to pass between islands without a latency, or to be shared, is one problem."""
    with pytest.raises(ScenarioError) as caught:
        loads(text)
    (problem,) = caught.value.problems
    assert (problem.line, message in problem.message) == (line, True), problem


@pytest.mark.parametrize(
    ("do", "message"),
    [
        ("{send: {to: \"='cle' + 'rk'\"}}", "sends to clerk of the island south with a latency of 0s, and messages"),
        ("{send: {to: \"='cle' + 'rk'\", after: =4 + 5}}", "sends to clerk of the island south with a latency of 9s"),
        ("{put: {pool: \"='ba' + 'rn'\", amount: 1}}", "uses the pool 'barn' of the island south"),
        ("{publish: {topic: own, data: \"=level('ba' + 'rn')\"}}", "uses the pool 'barn' of the island south"),
        ("{publish: {topic: own, data: {a: [\"=state_of('cle' + 'rk', 'n')\"]}}}", "calls state_of() of clerk of the"),
        ("{stop: {agent: \"='cle' + 'rk'\"}}", "does stop with clerk of the island south"),
        ("{transfer: {to: \"='cle' + 'rk'\", amount: 1}}", "uses the account 'clerk' of the island south"),
        ("{spawn: {agent: \"='co' + 'py'\"}}", "spawns copy of the island south"),
        ("{read: {artifact: \"='bo' + 'ok'\"}}", "uses the artifact 'book', whose home island is not known"),
    ],
)
def test_what_a_file_cannot_show_stops_the_run(tmp_path: Path, do: str, message: str) -> None:
    """A computed name of another island, or a computed delay that is too short, stops the run: the error names the
    agent, both islands, the time and both latencies, and nothing is silently late."""
    text = (MANY % (do, 1, PUT)).replace("    rules:", "    start: 7s\n    rules:", 1) + POOL
    path = tmp_path / "isles.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CausalityError) as caught:
        sim.run(path, out=None)
    assert str(caught.value).startswith(f"farmer of the island north {message}")
    assert ", at 7s" in str(caught.value)


@pytest.mark.slow
def test_an_agent_that_is_made_later_cannot_be_reached_from_another_island(tmp_path: Path) -> None:
    """Whether an agent that is made during the run exists is known on its island only: a message to it is refused."""
    text = (MANY % ("{send: {to: \"='copy-clerk-1'\", after: 10s}}", 1, "{spawn: {agent: copy}}")).replace(
        "    rules:", "    start: 7s\n    rules:", 1
    )
    _, result = _states(text, tmp_path)
    assert result.run is not None
    with open_run(result.run) as run:
        errors = {e for (e,) in run.query("SELECT data ->> '$.error' FROM events WHERE topic = 'action.send'")}
    assert errors == {"copy-clerk-1 lives on the island south and was not there from the start: north cannot know it"}


DIVIDED = """name: isles
until: 2m
islands: {latency: 10s, of: {port: [harbour]}, by: {person: %s}}
agents:
  - name: person
%s
    state: {region: %s, n: 0}
    rules: [{do: %s}, {do: {sleep: {for: 1h}}}]
  - {name: harbour, rules: [{do: {sleep: {for: 1h}}}]}
"""
COUNT = "    count: 6"
EACH = "\"=['north', 'south'][index % 2]\""
DRAWN = "\"=choice(['north', 'south'])\""
OURS = DIVIDED % ("region", COUNT, EACH.replace("%", "%%"), "%s")
TABLE = "    table: people.csv"
NO_OTHERS = """name: isles
until: 2m
islands: {latency: 10s, by: {person: region}}
agents:
  - name: person
%s
    state: {region: north}
    rules: [{do: {sleep: {for: 1h}}}]
"""


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (DIVIDED % ("regoin", COUNT, EACH, "noop"), 3, "agents of 'person' have no state variable 'regoin'"),
        (DIVIDED % ("group", COUNT, EACH, "noop"), 3, "all agents of 'person' are of the group 'person'"),
        (DIVIDED.replace("person:", "persons:") % ("region", COUNT, EACH, "noop"), 3, "there is no entry 'persons'"),
        (DIVIDED.replace("[harbour]", "[harbour, person]") % ("region", COUNT, EACH, "noop"), 3, "lives on port alre"),
        (DIVIDED % ("region", "    template: true", EACH, "noop"), 3, "a template has no agents that could be divided"),
        (DIVIDED % ("region", COUNT, DRAWN, "noop"), 3, "the start value of region uses choice, and where agents live"),
        (DIVIDED % ("region", COUNT, '" north"', "noop"), 7, "agents[0].state.region: expected the island of an agent"),
        ((NO_OTHERS % "    count: 0"), 3, "there is no island: no divided entry has agents"),
        (DIVIDED % ("region", COUNT, "null", "noop"), 7, "agents[0].state.region: expected the island of an agent"),
        (DIVIDED % ("region", COUNT, '"=1 / index"', "noop"), 7, "agents[0].state.region: "),
        (DIVIDED % ("region", "    count: 1200", "=index", "noop"), 3, "there are 1201 islands, at most 1000"),
        (OURS % "{send: {to: harbour}}", 8, "north sends to harbour of the island port with"),
        (OURS % "{send: {to: person-2}}", 8, "north sends to person-2 of the island south"),
        (OURS % "{send: {to: person, after: 10s}}", 8, "person of the island north, which i"),
        (OURS % "{transfer: {to: person-3, amount: 1}}", 8, "south pays person-3 of the is"),
        (OURS % "{spawn: {agent: person}}", 8, "copies of 'person' would live on no island"),
        (OURS % PUT + POOL, 8, "south uses the pool 'barn', but north uses it in agents[0]"),
        (
            OURS % "{put: {pool: =region, amount: 1}}" + "pools: {north: {kind: container}}\n",
            10, "pools.north: no rule names it",
        ),
        (
            OURS.replace("by:", "home: {pools: {barn: east}}, by:") % PUT + POOL, 3,
            "islands.home.pools.barn: there is no island 'east'",
        ),
        (
            OURS % "{read: {artifact: book}}" + "artifacts: [{id: book, owner: person-2}]\n",
            8, "south uses the artifact 'book', but north uses it",
        ),
        (
            (OURS % "{publish: {topic: hot}}").replace(
                "harbour, rules: [{do: {sleep: {for: 1h}}}]", "harbour, rules: [{do: {sleep: {event: hot}}}]"
            ), 9, "port waits for 'hot', which only north and south publish, and port never hears it",
        ),
    ],
)  # fmt: skip
def test_what_a_division_cannot_be_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    """Entries that cannot be divided, and what would pass between the islands of their agents, are one problem each."""
    with pytest.raises(ScenarioError) as caught:
        loads(text)
    problem = caught.value.problems[0]
    assert (problem.line, message in problem.message) == (line, True), caught.value.problems


PEOPLE = "id,region,party,n\n1,north,,1\n2,south,red,2\n3,,red,3\n4,2.5,blue,4\n"


@pytest.mark.parametrize(
    ("by", "table", "line", "message"),
    [
        (
            "region",
            PEOPLE,
            4,
            "row 3, column 'region': expected the island of an agent, a text of 1 to 64 printable ch",
        ),
        (
            "group",
            PEOPLE,
            2,
            "row 1, column 'party': expected the island of an agent, a text of 1 to 64 printable ch",
        ),
        ("region", PEOPLE.replace("3,,", f"3,{'x' * 65},"), 4, "found the text 'xxx"),
        ("region", PEOPLE.replace("3,,", "3,no\u200brth,"), 4, "printable characters without blanks at its ends, or"),
    ],
)
def test_a_row_without_an_island_is_refused_with_its_line(
    tmp_path: Path, by: str, table: str, line: int, message: str
) -> None:
    """A row that has no value, or one that cannot name an island, is a problem of the table, with line and column."""
    columns = "    columns: {id: name, party: group, region: {to: state.region, type: text}}\n"
    text = (DIVIDED % (by, TABLE + "\n" + columns.rstrip(), "null", "noop")).replace("n: 0", "n: 0")
    (tmp_path / "people.csv").write_text(table)
    (tmp_path / "isles.yaml").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / "isles.yaml")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, message in problem.message) == ("people.csv", line, True), problem


@pytest.mark.parametrize(("by", "islands"), [("region", ["port", "north", "south", "2.5"]), ("group", ["red", "blue"])])
@pytest.mark.parametrize("sample", ["", "\n    sample: 9\n    replace: true"])
def test_the_rows_of_a_table_are_divided(tmp_path: Path, by: str, islands: list[str], sample: str) -> None:
    """Each row lives on the island that its column names, also where rows are drawn; a row without a value has that of
    the entry."""
    name = "name" if not sample else "null"
    columns = f"    columns: {{id: {name}, party: group, region: {{to: state.region, type: text}}}}{sample}"
    text = DIVIDED % (by, TABLE + "\n" + columns, "north", "noop")
    (tmp_path / "people.csv").write_text(PEOPLE.replace("1,north,,", "1,north,red,"))
    (tmp_path / "isles.yaml").write_text(text)
    world = build(load(tmp_path / "isles.yaml"), seed=3).world
    found = Islands.of(world)
    assert found.names == ("port", *[island for island in islands if island != "port"])
    people = {name: agent for name, agent in world.agents.items() if name != "harbour"}
    assert len(people) == (9 if sample else 4)
    for name, agent in people.items():
        assert found.island_of(name) == (agent.state["region"] if by == "region" else agent.group)


def test_tick_mode_is_refused(tmp_path: Path) -> None:
    """The option for tick mode contradicts islands as the key of the file does."""
    path = tmp_path / "isles.yaml"
    path.write_text(TWO, encoding="utf-8")
    with pytest.raises(UsageError, match="islands need autonomous loops"):
        sim.run(path, mode="tick", out=None)


def test_a_home_can_be_given(tmp_path: Path) -> None:
    """The home of a pool that no rule names is what the section says."""
    text = (MANY % ("{put: {pool: \"='ba' + 'rn'\", amount: 1}}", 1, "noop")) + POOL
    states, _ = _states(text.replace("topics:", "home: {pools: {barn: north}}, topics:"), tmp_path)
    assert set(states) == {"farmer", "shop", "clerk"}
    assert load(tmp_path / "isles.yaml").sections["islands"].home.pools == {"barn": "north"}


READERS = """name: isles
until: 2m
islands: {latency: 10s, of: {north: [x], south: [y]}}
agents:
  - name: x
    start: 7s
    state: {g: "='y'", n: 0}
    rules: [{when: "%s", do: noop}, {do: {sleep: {for: 1h}}}]
  - {name: y, count: 2, rules: [{do: {sleep: {for: 1h}}}]}
pools: {barn: {kind: container}}
"""
READ = (
    "len({}) > 0", "not {}", "choice({}) == me", "1 if {} else 0", "[z for z in {}] == []",
    "len([z for z in {}] + {}) > 0",
    "me in {}", "{} == []", "{}[0] == me", "any(z == me for z in {})",
)  # fmt: skip


@pytest.mark.parametrize("call", ["agents(g)", "agents(group=g)"])
@pytest.mark.parametrize("read", READ)
def test_no_form_of_an_expression_reads_a_group_of_another_island(read: str, call: str) -> None:
    """A computed group of another island stops the run, whether a rule keeps the list of its agents or only reads it,
    and whether the group is given by name."""
    with pytest.raises(CausalityError) as caught:
        sim.run(loads(READERS % read.replace("{}", call)), out=None)
    assert str(caught.value).startswith("x of the island north calls agents() of y of the island south")
    assert sim.run(loads(READERS.replace("='y'", "='x'") % read.replace("{}", call)), out=None).hash


@pytest.mark.parametrize("read", ["state_of(agent='y' + '-1', key='n')", "group_of(agent='y' + '-1')"])
def test_an_agent_that_is_named_by_keyword_is_watched(read: str) -> None:
    """An argument that names an agent of another island is found when it is given by its name, too."""
    with pytest.raises(CausalityError, match=r"of y-1 of the island south"):
        sim.run(loads(READERS % f"{read} == 1"), out=None)


def _problems(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        loads(text)
    return [problem.message for problem in caught.value.problems]


LIMITED = """name: isles
until: 2m
islands: {latency: 10s, %s}
limits: {talk: {group: 2 per 60s}}
costs: {publish: {talk: 1}}
agents:
"""
SPEAKS = """  - name: %s
    table: %s.csv
    columns: {region: {to: state.region, type: text}%s}
    state: {region: null}
    rules: [{do: {publish: {topic: own}}}]
"""


def _load(tmp_path: Path, text: str, **tables: str) -> Any:
    for name, table in tables.items():
        (tmp_path / f"{name}.csv").write_text(table)
    (tmp_path / "isles.yaml").write_text(text)
    return load(tmp_path / "isles.yaml")


def test_a_limit_of_a_group_is_checked_for_the_groups_of_rows(tmp_path: Path) -> None:
    """A limit is charged to the group of each row, that of the entry for a row without one: each such group on two
    islands is refused, whatever entry its rows are of."""
    head, one, two = LIMITED % "of: {north: [a], south: [b]}", SPEAKS % ("a", "a", ""), SPEAKS % ("b", "b", "")
    text = (head + one + two).replace("    state: {region: null}\n", "    state: {region: null}\n    group: rest\n")
    rows = "region,group\nn,red\nn,blue\nn,\n"
    with pytest.raises(ScenarioError) as caught:
        _load(tmp_path, text, a=rows, b=rows)
    where = "on north and south use it"
    assert [problem.message for problem in caught.value.problems] == [
        f"limits.talk.group: agents of the group '{group}' {where}" for group in ("blue", "red", "rest")
    ]
    assert _load(tmp_path, text, a=rows, b="region,group\ns,green\n")


def test_groups_that_are_islands_can_share_a_limit(tmp_path: Path) -> None:
    """A divided entry whose groups live on one island each can have a limit for a group, though the entry lives on
    several."""
    text = LIMITED % "by: {a: group}" + SPEAKS % ("a", "a", "")
    assert _load(tmp_path, text, a="region,group\nn,red\nn,blue\nn,red\n")
    with pytest.raises(ScenarioError, match=r"limits.talk.group: agents of the group 'red' on n and s use it"):
        _load(tmp_path, text.replace("group}", "region}", 1), a="region,group\nn,red\ns,red\nn,blue\n")


def test_an_entry_without_agents_publishes_nothing() -> None:
    """A divided entry without agents publishes nothing, so what waits for its topic waits for what no agent publishes;
    that is no fault of the islands."""
    text = (OURS % "{publish: {topic: speech}}").replace("count: 6", "count: 0")
    text = text.replace("[{do: {sleep: {for: 1h}}}]}", "[{do: {sleep: {event: speech}}}]}")
    assert loads(text).agents[0].count == 0


def test_every_home_on_an_unknown_island_is_reported() -> None:
    """All homes on unknown islands are problems, and so are those of names that there are not."""
    text = (MANY % (PUT, 1, "noop") + POOL).replace(
        "topics:", "home: {pools: {barn: east, bran: north}, accounts: {till: west}}, topics:"
    )
    found = [message for message in _problems(text) if message.startswith("islands.home.")]
    assert sorted(found) == [
        "islands.home.accounts.till: there is no island 'west'",
        "islands.home.accounts.till: there is no such name in accounts",
        "islands.home.pools.barn: there is no island 'east'",
        "islands.home.pools.bran: there is no such name in pools",
    ]


def test_a_division_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a check computes of the rows of an entry is what its worlds are built with; a copy of the scenario with
    other agents is divided anew."""
    computed: list[str] = []
    rows = island_division._rows

    def counted(entry: Agent, key: str) -> list[str]:
        computed.append(entry.name)
        return rows(entry, key)

    monkeypatch.setattr(island_division, "_rows", counted)
    scenario = loads(OURS % "noop")
    build(scenario, seed=1)
    build(scenario, seed=2)
    assert computed == ["person"]
    agents = tuple(entry.model_copy() for entry in scenario.agents)
    settings = scenario.sections["islands"]
    copy = scenario.model_copy(update={"agents": agents})
    assert island_division.division_of(copy, settings) == island_division.division_of(scenario, settings)
    assert computed == ["person", "person"]


def test_a_number_and_its_text_name_one_island() -> None:
    """The number 1 and the text "1" of one entry are one island."""
    scenario = loads(NO_OTHERS.replace("north", "\"=[1, '1'][index %% 2]\"") % "    count: 4")
    assert Islands.of(build(scenario, seed=1).world).names == ("1",)


RARELY = MANY.replace("    state", "    loop: {min_loop_delay: 40s}\n    state", 1)
ASKING = RARELY % ("{ask: {prompt: hello}}", 1, "noop") + 'models: {rules: [{say: "=%s"}]%s}\n'


def test_a_scripted_rule_that_reads_another_island_stops_the_run() -> None:
    """A scripted rule acts for the agent that asks: it cannot read what that agent could not."""
    with pytest.raises(CausalityError, match=r"calls state_of.* of clerk of the island south"):
        sim.run(loads(ASKING % ("state_of('clerk', 'n')", "")), out=None)
    assert sim.run(loads(ASKING % ("state_of('farmer', 'n')", "")), out=None).models["total"]["calls"] > 0


def test_endpoints_of_islands_need_a_latency(tmp_path: Path) -> None:
    """The real time of a call would let what an agent is answered depend on all islands: it is refused, also when a
    branch replaces the models or the latency."""
    access = Access(models=("vllm:m",))
    with pytest.raises(UsageError, match="with islands, calls to endpoints need a latency in simulated time"):
        sim.run(loads(ASKING % ("1", "")), out=None, access=access)
    (tmp_path / "isles.yaml").write_text(ASKING % ("1", ""))
    run = sim.run(tmp_path / "isles.yaml", out=tmp_path / "runs").run
    assert run is not None
    with pytest.raises(UsageError, match="with islands, calls to endpoints need a latency in simulated time"):
        sim.branch(run, at=5, models=access.models)
    with pytest.raises(UsageError, match=r"models.latency can be 3s, and calls of islands take at least 10s"):
        sim.branch(run, at=5, overrides=["models.latency=3s"])
