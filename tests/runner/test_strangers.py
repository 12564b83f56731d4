"""Agents that others never meet change nothing for them: neither their events, nor the keys, causes and times of these.

Islands of agents run with and without another island, which stands before them in the file, behind them, or between
them. Each action, each section and each kind of agents takes part; a new one fails here until it joins.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sim.actors import AgentLoopManager
from sim.agents import FAMILIES
from sim.base.errors import UsageError
from sim.experiments.reach import Numbers, renumbered
from sim.kernel import Kernel
from sim.kernel.codec import decode, encode
from sim.kernel.ports import DONE, Call
from sim.record import HashRecorder
from sim.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.tools.process import sandbox_fault
from sim.tools.rights import Rights
from sim.world import World
from sim.world.section import SECTIONS
from tests.helpers import named

SHIPPED = Path(__file__).parents[2] / "scenarios"

LOOP = {"min_loop_delay": "1s"}
NAP = {"do": {"sleep": {"for": 2}}}

LISTS = ("events", "interventions", "artifacts", "pools")

Rules = list[dict[str, Any]]


def rules(*does: Any, nap: bool = True) -> Rules:
    """Return rules that do one thing after the other, by the agent's variable n, and then again."""
    made = [{"when": f"n % {len(does)} == {place}", "do": do, "set": {"n": "=n + 1"}} for place, do in enumerate(does)]
    return [*made, NAP] if nap else made


ISLANDS: dict[str, dict[str, Any]] = {
    "draws": {"rules": [{"when": "chance(0.5)", "do": "noop", "set": {"n": "=n + gauss(0, 1)"}}, {"do": "noop"}]},
    "publish": {"rules": [{"do": {"publish": {"topic": "G.said", "data": "=n"}}, "set": {"n": "=n + 1"}}]},
    "sleep on events": {
        "rules": [
            {"when": "chance(0.3)", "do": {"publish": {"topic": "G.said", "data": "=randint(1, 6)"}}},
            {"do": {"sleep": {"event": "G.*", "where": "data > 2", "timeout": 5}}},
        ]
    },
    "send": {
        "rules": [
            {"when": "chance(0.5)", "do": {"send": {"to": "='G-' + str(randint(1, 3))", "topic": "hi", "data": "=n"}}},
            {"when": "message != None", "do": "noop", "set": {"n": "=n + 1"}},
            {"do": {"sleep": {"message": True, "timeout": 3}}},
        ]
    },
    "send later": {
        "rules": [
            {"when": "index > 0 and chance(0.1)", "do": "stop"},  # one goes on, as a run without agents ends
            {"when": "chance(0.5)", "do": {"send": {"to": "=choice(agents('G') or ['G'])", "data": "=n", "after": 7}}},
            {"when": "message != None", "do": "noop", "set": {"n": "=n + 1"}},
            {"do": "noop"},
        ]
    },
    "artifacts": {
        "rules": rules(
            {"write": {"artifact": "=me", "content": "the 1st text"}}, {"read": {"artifact": "=me"}},
            {"edit": {"artifact": "=me", "old": "1", "new": "2"}},
            {"delete": {"artifact": "=me"}},
        )
    },
    "formulas": {
        "artifacts": [{"id": "sumG", "owner": "G-1", "formula": "args.n + 1"}],
        "rules": [{"do": {"invoke": {"artifact": "sumG", "args": {"n": "=n"}}}, "set": {"n": "=result.data"}}],
    },
    "money": {"balance": 10, "rules": rules({"transfer": {"to": "G-1", "amount": 0.5}})},
    "failures": {
        "rules": [
            {"when": "chance(0.5)", "do": {"invoke": {"artifact": "=me"}}},
            {"do": {"transfer": {"to": "G-1", "amount": 1000}}},
        ]
    },
    "tasks": {
        "rules": [
            {"when": "n == 0", "do": {"create_task": {"title": "dig", "to": "=me", "due": "5s"}}, "set": {"n": 1}},
            {
                "when": "n == 1", "do": {"update_task": {"task": "=my_tasks()[0].id", "status": "active"}},
                "set": {"n": 2},
            },
            {"when": "n == 2 and now > 20", "do": {"complete_task": {"task": "=my_tasks()[0].id"}}, "set": {"n": 0}},
            NAP,
        ]
    },
    "pools": {
        "pools": {"deskG": {"kind": "resource", "slots": 2}, "boxG": {"kind": "store"}},
        "rules": rules(
            {"acquire": {"pool": "deskG"}}, {"put": {"pool": "boxG", "item": "=me"}}, {"release": {"pool": "deskG"}},
            {"get": {"pool": "boxG"}},
        ),
    },
    "limits": {
        "shared": {"limits": {"u": {"agent": "10 per 30s", "group": "20 per 30s"}}, "costs": {"noop": {"u": 1}}},
        "rules": [{"do": "noop"}, NAP],
    },
    "limits that are waited for": {
        "shared": {"limits": {"u": {"agent": "3 per 9s", "policy": "block"}}, "costs": {"noop": {"u": 1}}},
        "rules": [{"do": "noop"}],
    },
    "births": {
        "shared": {"template": {"kid": [{"when": "chance(0.2)", "do": "stop"}, {"do": "noop"}]}},
        "rules": [{"when": "chance(0.3)", "do": {"spawn": {"agent": "kid"}}}, NAP],
    },
    "places": {
        "shared": {
            "places": {
                "nodes": ["aap", "aaq", "bbp", "bbq"], "edges": [["aap", "aaq"], ["bbp", "bbq"]],
                "stock": {"capacity": 5, "growth": 1, "every": "5s"},
                "variables": {"grass": 3}, "every": "7s", "rules": [{"when": "grass < 3", "set": {"grass": 3}}],
            }
        },
        "place": "Gp",
        "rules": rules(
            {"move": {"to": "='Gp' if place == 'Gq' else 'Gq'"}}, {"gather": {}},
            {"change_place": {"values": {"grass": "=variable('grass') - 1"}}},
        ),
    },
    "events of the scenario": {
        "events": [{"at": "1s", "every": "7s", "topic": "G.rain"}, {"at": "1s", "every": "3s", "topic": "G.snow"}],
        "rules": [{"do": {"sleep": {"event": "G.rain"}}, "set": {"n": "=n + 1"}}],
    },
    "interventions": {
        "interventions": [
            {"at": "5s", "every": "7s", "name": "G", "set": {"agents.G.state.n": "=n + uniform(0, 1)"}},
            {"at": "9s", "agents": "G", "where": "chance(0.5)", "send": {"topic": "hi"}},
        ],
        "rules": [{"do": {"sleep": {"message": True, "timeout": 3}}}],
    },
    "samples, health, stop": {
        "shared": {
            "metrics": {"every": "5s", "values": {"a": "total('aa', 'n')"}},
            "stop": {"when": "now > 50"},
            "execution": {"health": {"every": "10s"}},
        },
        "rules": [{"do": "noop"}, NAP],
    },
    "rests": {"rules": [{"when": "chance(0.5)", "do": {"rest": {"until": "=now + 3"}}}, {"do": "noop"}]},
    "shuffled ties": {
        "shared": {"execution": {"ties": "shuffled"}},
        "start": 0,
        "rules": [{"when": "chance(0.3)", "do": {"spawn": {"agent": "kid"}}}, {"do": {"publish": {"topic": "G.x"}}}],
    },
    "ticks": {
        "shared": {"execution": {"use_autonomous_loops": False, "tick": {"period": "1s"}}},
        "rules": [{"when": "chance(0.5)", "do": {"send": {"to": "G-1"}}}, {"do": "noop", "set": {"n": "=n + 1"}}],
    },
    "ticks in shuffled order": {
        "shared": {"execution": {"use_autonomous_loops": False, "tick": {"period": "1s", "order": "shuffled"}}},
        "rules": [{"do": {"publish": {"topic": "G.x", "data": "=n"}}, "set": {"n": "=n + 1"}}],
    },
    "memories": {
        "shared": {"memory": {}},
        "rules": rules(
            {"remember": {"content": "='seen by ' + me"}}, {"recall": {"query": "seen"}},
            {"forget": {"memory": "=result.data[0].memory"}}, {"search_sessions": {"query": "seen"}},
        ),
    },
    "conversations": {
        "shared": {"conversations": {}},
        "rules": [
            {"when": "message != None", "do": {"reply": {"conversation": "=message.data", "text": "yes"}}},
            {
                "when": "index == 0",
                "do": [
                    {"post_message": {"text": "hello", "channel": "=me"}},
                    {"send": {"to": "G-2", "data": "=result.data.conversation"}}, {"sleep": {"for": 2}},
                ],
            },
            {"do": {"sleep": {"message": True}}},
        ],
    },
    "scripted models": {
        "shared": {"models": {"provider": "scripted", "rules": [{"say": ["yes", "no"]}]}},
        "rules": rules({"ask": {"prompt": "=me"}}),
    },
    "simulated models": {
        "shared": {"models": {"provider": "simulated", "simulated": {"failures": [{"kind": "server", "share": 0.2}]}}},
        "rules": rules({"ask": {"prompt": "=me"}}, {"sleep": {"event": "G.never", "timeout": 3}}),
    },
}  # fmt: skip


def scenario(*islands: tuple[str, str, int], between: bool = False, until: str = "40s") -> str:
    """Return the text of a scenario with islands: what they do, their name, and how many agents they have."""
    made: dict[str, Any] = {"name": "islands", "until": until, "agents": []}
    parts = []
    kids: dict[str, Rules] = {}
    for does, name, count in islands:
        case = json.loads(json.dumps(ISLANDS[does]).replace("G", name))
        shared = case.pop("shared", {})
        kids.update(shared.pop("template", {"kid": [{"do": "noop"}]}))
        made.update(shared)
        made.setdefault("pools", {}).update(case.pop("pools", {}))
        for key in LISTS[:3]:
            made.setdefault(key, []).extend(case.pop(key, []))
        agent = {
            "name": name, "count": count, "start": "=uniform(0, 1)", "state": {"n": 0}, "loop": LOOP, **case,
        }  # fmt: skip
        parts.append([agent, {**agent, "name": f"{name}x", "group": name, "count": 2}])
    entries = [parts[0][0], *parts[1], parts[0][1]] if between else [one for part in parts for one in part]
    entries += [
        {"name": kid, "template": True, "state": {"n": 0}, "loop": LOOP, "rules": what} for kid, what in kids.items()
    ]
    made["agents"] = entries
    return json.dumps({key: value for key, value in made.items() if value or key not in LISTS})


Row = tuple[Any, ...]


def recorded(text: str, backend: str, own: str = "") -> tuple[list[Row], Any]:
    """Run a scenario and return the rows of the agents whose names begin with `own`, or contain it as a parent, with
    names in the place of ordinals; and the simulation.
    """
    recorder = HashRecorder(keep=True)
    checked = loads(text)
    simulation = build(checked, recorder=recorder, rights=Rights(allow_commands=checked.name in COMMANDS))
    names: dict[int, object] = {}
    adopt = Kernel.adopt

    def noting(kernel: Kernel, name: str) -> Any:
        actor = adopt(kernel, name)
        if kernel is simulation.world.kernel:
            names[actor.ordinal] = name
        return actor

    names.update((loop.actor.ordinal, loop.agent_id) for loop in simulation.manager.loops.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "adopt", noting)
        runner = RunController(simulation, until_ns=checked.end_ns, mode=checked.execution.mode)
        if checked.name in TOLD:
            runner.host.submit("tell", {"agent": TOLD[checked.name], "topic": "", "text": "Names are short here."})
        anyio.run(runner.run, backend=backend)
        runner.finish("finished", recorder, run=None, backend=backend, wall_seconds=0)
    met: dict[str, Numbers] = {}
    rows = [_named(row, names, met.setdefault(row.actor, {})) for row in named(recorder.rows) if _of(row.actor, own)]
    return rows, simulation


def _of(actor: str, own: str) -> bool:
    return actor.startswith(own) or f"-{own}-" in actor


def _named(row: Row, names: Mapping[int, object], met: Numbers) -> Row:
    def name(ordinal: int) -> object:
        if -(2**20) <= ordinal < 0:
            return "an entry of the scenario"  # its place tells how many there are
        return names.get(ordinal, ordinal)

    time, delta, priority, source, counter, actor, topic, data, cause = row
    whence = None if cause is None else (name(cause[0]), cause[1])
    return (
        time,
        delta,
        priority,
        name(source),
        counter,
        actor,
        topic,
        renumbered(topic, decode(encode(data)), met),
        whence,
    )


@lru_cache
def alone(does: str) -> list[Row]:
    """Return the rows of an island that has the world to itself."""
    rows, _ = recorded(scenario((does, "aa", 3)), "asyncio", "aa")
    return rows


def compare(rows: list[Row], others: list[Row]) -> None:
    """Fail with the first difference."""
    assert rows
    mine, theirs = _by_agent(rows), _by_agent(others)
    assert mine.keys() == theirs.keys()
    for agent, events in mine.items():
        for one, other in zip(events, theirs[agent], strict=False):
            assert one == other
        assert len(events) == len(theirs[agent])


def _by_agent(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[5], []).append(row)
    return found


MIXED = [does for does, case in ISLANDS.items() if "shared" not in case]
"""Islands that can stand in one scenario with any other."""


@pytest.mark.slow
@pytest.mark.parametrize("does", ISLANDS)
@pytest.mark.parametrize("place", ["behind", "before", "between"])
def test_strangers_that_do_the_same_change_nothing(does, place):
    """An island has the same events, keys, causes and times whether another does the same before, behind or between."""
    mine, theirs = (does, "aa", 3), (does, "bb", 4)
    order = (theirs, mine) if place == "before" else (mine, theirs)
    text = scenario(*order, between=place == "between")
    rows, _ = recorded(text, "asyncio" if place == "behind" else "trio", "aa")
    compare(rows, alone(does))


@pytest.mark.slow
@given(
    st.sampled_from(sorted(MIXED)), st.lists(st.sampled_from(sorted(MIXED)), min_size=1, max_size=2), st.integers(2, 4),
    st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_any_strangers_change_nothing(does, others, count, first, trio):
    """The same for strangers that do anything else, before or behind. A group has no name of a single agent."""
    mine, theirs = (does, "aa", 3), [(other, f"b{number}", count) for number, other in enumerate(others)]
    text = scenario(*theirs, mine) if first else scenario(mine, *theirs)
    rows, _ = recorded(text, "trio" if trio else "asyncio", "aa")
    compare(rows, alone(does))


# -- each kind of agents, in the shipped scenarios

SCENES = {
    "helpdesk": "9h30m", "lead_response": "3h", "houston": "9h", "community": "10h", "software_team": "20m",
    "town": "4m", "debate": "5m", "axelrod": "4s", "propagation": "3h", "smallville": "8h",
}  # fmt: skip
"""A short time of each scenario, in which its agents begin to work."""


TASK = {"name": "look-again", "goal": "Review the readme.", "agent_type": "reviewer"}

OWN: dict[str, dict[str, Any]] = {
    "houston": {
        "name": "owner", "state": {"n": 0, "goal": ""}, "loop": {"min_loop_delay": "1m"},
        "rules": [
            {
                "when": "n == 0",
                "do": {"create_goal": {"title": "Spring trip", "description": "Have it done by May."}},
                "set": {"n": 1, "goal": "=result.data.agent"},
            },
            {"when": "n == 1", "do": {"set_goal_tools": {"goal": "=goal", "tools": []}}, "set": {"n": 2}},
            {
                "when": "n == 2", "set": {"n": 3},
                "do": [{"send": {"to": "=goal", "data": "hello"}}, {"sleep": {"for": "6h"}}],
            },
            {"when": "n == 3", "do": {"archive_goal": {"goal": "=goal"}}, "set": {"n": 4}},
            {"do": {"sleep": {"for": "1d"}}},
        ],
    },
    "propagation": {
        "name": "owner", "state": {"n": 0}, "loop": {"min_loop_delay": "1m"},
        "rules": [
            {
                "when": "n == 0", "set": {"n": 1},
                "do": [
                    "browse_feed", {"write_post": {"text": "Hello", "topic": "art"}},
                    {"reply_to_post": {"post": 1, "text": "Why?"}}, {"repost": {"post": 1}},
                    {"like_post": {"post": 1}}, {"follow_user": {"user": "person-7"}},
                    {"mute_user": {"user": "person-8"}}, {"sleep": {"for": "2h"}},
                ],
            },
            {"when": "n == 1", "do": {"dislike_post": {"post": 5}}, "set": {"n": 2}},
            {"do": {"sleep": {"for": "1d"}}},
        ],
    },
    "software_team": {
        "name": "owner", "state": {"n": 0}, "loop": {"min_loop_delay": "1m"},
        "rules": [
            {
                "when": "n == 0", "set": {"n": 1},
                "do": [
                    {"run_task": {**TASK, "criteria": ["It is reviewed."]}},
                    {"check_confidence": {"task": "look-again"}},
                ],
            },
            {"do": {"sleep": {"for": "1d"}}},
        ],
    },
}  # fmt: skip
"""An agent of the scenario itself, which does what people ask for."""

TOLD = {"software_team": "coder"}
"""To whom a person says something, at the begin."""


def with_strangers(name: str, place: str | None) -> str:
    """Return the text of a shipped scenario with strangers that use what all agents share, such as numbers."""
    made = YAML(typ="safe").load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"))
    made["until"] = SCENES[name]
    does: list[Any] = [
        {"publish": {"topic": "zz.said", "data": "=randint(1, 6)"}},
        {"write": {"artifact": "=me", "content": "=n"}}, {"send": {"to": "='zz-1'", "data": "=n", "after": 3}},
    ]  # fmt: skip
    if "sop" not in made:  # there, prompts name tasks, and are longer from the tenth one on
        does.append({"create_task": {"title": "dig", "to": "=me"}})
    if "memory" in made:
        does.append({"remember": {"content": "=me"}})
    stranger = {
        "name": "zz", "count": 3, "state": {"n": 0}, "loop": {"min_loop_delay": "2m"}, "rules": rules(*does, nap=False),
    }  # fmt: skip
    agents = made["agents"]
    agents += [OWN[name]] if name in OWN else []
    if "feed" in made:
        made["feed"]["users"].append("owner")
        made["feed"]["reactions"]["crowd"]["write"] = 0.1
    for entry in agents:
        if entry.get("kind") == "recurring_jobs":
            entry["settings"] = {"summary": "02:30"}  # within the short time
    if place is not None:
        agents.insert({"before": 0, "between": 1, "behind": len(agents)}[place], stranger)
    return json.dumps(made, default=str)


@lru_cache
def scene(name: str) -> tuple[list[Row], Any]:
    """Return the rows of a shipped scenario."""
    return recorded(with_strangers(name, None), "asyncio")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), list(zip(SCENES, ["behind", "before", "between"] * 4, strict=False)))
def test_strangers_change_nothing_for_any_kind_of_agents(name, place):
    """Agents of each kind have the same events, keys, causes and times with strangers that share their services."""
    _compare_scenes(name, place)


@pytest.mark.proof
@pytest.mark.parametrize("place", ["behind", "before", "between"])
@pytest.mark.parametrize("name", SCENES)
def test_strangers_change_nothing_at_any_place(name, place):
    """The same for each scenario with the strangers at each place."""
    _compare_scenes(name, place)


def _compare_scenes(name: str, place: str) -> None:
    rows, _ = recorded(with_strangers(name, place), "trio" if place == "before" else "asyncio")
    others = scene(name)[0]
    agents = {row[5] for row in others if row[6] == "agent.state"}
    compare([row for row in rows if row[5] in agents], [row for row in others if row[5] in agents])


# -- what runs commands

ONCE: dict[str, Any] = {"loop": {"min_loop_delay": "1m"}, "state": {"n": 0}}
COMMANDS: dict[str, dict[str, Any]] = {
    "run_python": {
        "until": "90s",
        "chat": {"personas": {"all": {"prompt": "Run code.", "default": True, "modules": ["code_executor"]}}},
        "conversations": {"levels": {"chat": {"writer": "owner"}}},
        "memory": {"kinds": {"context": 6, "semantic": 6}},
        "models": {
            "rules": [
                {"when": "turn == 0", "call": {"code_executor.run_python": {"code": "print(6 * 7)"}}}, {"say": "done"},
            ]
        },
        "agents": [
            {"name": "agent", "kind": "chat_agent", "template": True, "permission": "owner"},
            {"name": "writer", **ONCE, "rules": rules({"send_chat_message": {"text": "go", "channel": "me"}})},
        ],
    },
    "run_tests": {
        "until": "30m",
        "executor": {
            "tasks": {
                "job": {"goal": "Add", "type": "coder", "criteria": [{"text": "It is added.", "tests": "test_it.py"}]},
            },
            "projects": {"project": {"files": {"test_it.py": "def test_it():\n    assert 1 + 1 == 2\n"}}},
        },
        "models": {"rules": [{"use": "agent", "call": {"workspace.run_tests": {}}}, {"say": "1.0 fine"}]},
        "agents": [
            {"name": "coder", "kind": "executor", "settings": {"type": "coder", "tools": ["workspace.run_tests"]}},
        ],
    },
}  # fmt: skip
"""Scenarios whose agents run commands in the sandbox, by action."""


@lru_cache
def commanded(does: str, place: str | None = None) -> tuple[list[Row], Any]:
    """Return the rows of a scenario that runs commands, with strangers before or behind its agents, or without."""
    made = json.loads(json.dumps({"name": does, **COMMANDS[does]}))
    stranger = {"name": "zz", "count": 3, **ONCE, "rules": rules({"publish": {"topic": "zz.said", "data": "=n"}})}
    if place is not None:
        made["agents"].insert(0 if place == "before" else len(made["agents"]), stranger)
    return recorded(json.dumps(made), "trio" if place == "before" else "asyncio")


@pytest.mark.slow
@pytest.mark.skipif(sandbox_fault() is not None, reason=f"no sandbox here: {sandbox_fault()}")
@pytest.mark.parametrize(("does", "place"), [("run_python", "before"), ("run_tests", "behind")])
def test_strangers_change_nothing_for_commands(does, place):
    """An agent that runs a command has the same events, keys, causes and times with strangers."""
    others, _ = commanded(does)
    agents = {row[5] for row in others if row[6] == "agent.state"}
    rows, _ = commanded(does, place)
    compare([row for row in rows if row[5] in agents], [row for row in others if row[5] in agents])


# -- all take part

NOT_OF_RUNS = {
    "controls": "a control is what a person can change on the page of a run",
    "islands": "strangers would need an island, and islands refuse most of what strangers do here",
    "outcomes": "an outcome is a number that an experiment reads from a run",
    "score": "a score reads runs that have finished",
}
"""The sections that no agent of a run meets, and why."""


def _is_of_sim(thing: Any) -> bool:
    """Return whether something is defined in `sim`, and not by another test of the same process."""
    return str(getattr(thing, "__module__", "")).startswith("sim.")


@pytest.mark.slow
def test_each_action_section_and_kind_takes_part():
    """A new action, section or kind of agents fails here until an island or a scenario of this file uses it."""
    done, sections, kinds, known = set[str](), set[str](), set[str](), set[str]()
    runs = [recorded(scenario((does, "aa", 3)), "asyncio") for does in ISLANDS] + [scene(name) for name in SCENES]
    runs += [commanded(does) for does in COMMANDS]
    for rows, simulation in runs:
        done |= {row[6].partition(".")[2] for row in rows if row[6].startswith("action.") and row[7]["success"]}
        sections |= simulation.scenario.sections.keys()
        kinds |= {entry.kind for entry in simulation.scenario.agents}
        actions = simulation.world.actions
        known |= {kind for kind in actions.kinds() if _is_of_sim(getattr(actions.find(kind), "apply", None))}
    missing = set(COMMANDS) if sandbox_fault() is not None else set()
    assert sorted(known - done - missing) == []
    keys = {key for key, section in SECTIONS.items() if _is_of_sim(section.settings)}
    assert sorted(keys - sections - NOT_OF_RUNS.keys()) == []
    assert sorted({kind for kind, family in FAMILIES.items() if _is_of_sim(family.agent)} - kinds) == []


@pytest.mark.parametrize("data", [{"topic": "agent.state", "data": {"to": "stopped"}}, {"topic": "x"}, "x", None])
def test_an_input_cannot_forge_an_event_of_the_simulation(data):
    """`submit` refuses reserved topics and malformed data in the calling thread, and so does the run for all others."""
    world, queued = World(), list[object]()
    AgentLoopManager(world)
    world.attach(Queued(queued))
    with pytest.raises(UsageError, match=r"not for agents|mapping with topic and data"):
        world.submit("publish", data)
    assert world.kernel.inputs["publish"](data)
    world.submit("publish", {"topic": "rain.begins", "data": None})
    assert len(queued) == 1
    assert world.event_bus.counts == {}


class Queued:
    """Takes in inputs as a host does."""

    def __init__(self, queued: list[object]) -> None:
        self.queued = queued

    def submit(self, kind: str, data: object, /) -> None:
        """Keep an input."""
        self.queued.append((kind, data))

    def call(self, kind: str, data: object, name: str, /) -> Call:
        """Keep an input, as done."""
        self.queued.append((kind, data, name))
        return DONE

    def watch(self, name: str, register: Callable[[Callable[[Any], object]], object], /) -> Call:
        """Wait for nothing."""
        return DONE

    def in_other_thread(self) -> bool:
        """Tell that the caller is in the thread of the run."""
        return False
