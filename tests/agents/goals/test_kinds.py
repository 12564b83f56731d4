"""Kinds are capabilities: a new one is a few lines, in one file, also of somebody else."""

import ast
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import sim
from sim.agents import FAMILIES
from sim.base.errors import UsageError
from sim.kinds.goals import AgentKind, Goals, define_agent_kind
from sim.kinds.goals.kinds import AGENT_TASK, GOAL, USER_AGENT
from tests.agents.goals.house import house, scenario, write
from tests.registries import kept_registries

ROOT = Path(__file__).parents[3]
MESSAGE = {"goals.send_message": {"text": "ok"}}


@pytest.fixture(autouse=True)
def _registries() -> Iterator[None]:
    """Leave no kind behind."""
    with kept_registries():
        yield


def project() -> AgentKind:
    """Return the new kind of the seed: a project agent."""
    return AgentKind(
        "project",
        "You are a project management assistant. Use create_task to break a project down, and send_message to report.",
        tools=("goals.send_message", "goals.create_task", "goals.manage_learning"),
        statuses={"idle": "active", "running": "active", "delegating": "active", "ended": "archived"},
        conversational=True,
    )


def test_a_new_kind_runs(tmp_path: Path) -> None:
    """The project agent of the seed runs like the others: it is made by a person, answers, and can be archived."""
    define_agent_kind(project())
    projects = {"name": "project", "kind": "project", "template": True}
    agent = "project-ana-1"
    steps = [
        (0, "create_goal", {"title": "New roof", "template": "project"}), write(60, "hello", agent),
        (120, "archive_goal", {"goal": agent}),
    ]  # fmt: skip
    ran = house(tmp_path, [{"call": MESSAGE}], steps, agents=[projects])
    assert ran.thread(agent) == [("user", "text", "hello"), ("agent", "text", "ok")]
    assert ran.rows("SELECT agent, kind, status FROM goal_agents") == [(agent, "project", "archived")]
    tools = ran.rows("SELECT data ->> '$.tools' FROM events WHERE topic = 'goals.run_started'")
    assert tools == ['["goals.send_message","goals.create_task","goals.manage_learning"]']


@pytest.mark.slow
def test_a_status_word_gives_no_ability(tmp_path: Path) -> None:
    """A long-lived kind that shows `paused` is neither paused nor cancelled: that is for kinds that say they pause."""
    shown: Any = {**project().statuses, "paused": "paused"}
    define_agent_kind(attrs.evolve(project(), statuses=shown))
    projects = {"name": "project", "kind": "project", "template": True}
    agent = "project-ana-1"
    rules = [{"when": "now < 1000", "fail": "network"}, {"call": MESSAGE}]
    steps = [(0, "create_goal", {"title": "New roof", "template": "project"}), write(60, "boom", agent)]
    later = [write(190_000, "still there?", agent)]
    ran = house(tmp_path, rules, [*steps, *later], agents=[projects], until="3d")
    assert "paused" not in [word for _, word in ran.statuses(agent)]
    assert ran.thread(agent)[-1] == ("agent", "text", "ok")


def test_the_kind_of_the_docs_has_less_than_forty_lines() -> None:
    """The example of docs/goals.md that defines a kind is one short file."""
    page = (ROOT / "docs" / "goals.md").read_text(encoding="utf-8")
    (block,) = [one for one in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "define_agent_kind" in one]
    assert len(block.splitlines()) < 40


_OWN = {"OrchestratedAgent", "HealthMonitor", "AgentRecord", "AgentKind"}


def test_no_code_asks_for_the_kind_of_an_agent() -> None:
    """The family tests capabilities: it never compares the name of a kind, nor asks for the class of an agent."""
    for file in sorted((ROOT / "sim" / "agents" / "goals").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.Compare | ast.Call) else ""
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            assert not (text.startswith(("isinstance(", "issubclass(")) and names & _OWN), f"{file.name}: {text}"
            assert not (isinstance(node, ast.Compare) and "kind.name" in text), f"{file.name}: {text}"


def test_the_statuses_of_the_seed() -> None:
    """A goal is working, waiting or archived; a task active, completed, paused or cancelled; a user agent has none."""
    assert set(GOAL.statuses.values()) == {"working", "waiting", "archived"}
    assert set(AGENT_TASK.statuses.values()) == {"active", "completed", "paused", "cancelled"}
    assert not USER_AGENT.statuses


def test_a_kind_with_a_tool_that_does_not_exist() -> None:
    """A wrong name of a system tool is an error with a hint."""
    with pytest.raises(UsageError, match=r"there is no tool 'goals\.send_mesage'") as caught:
        AgentKind("x", "y", tools=("goals.send_mesage",))
    assert caught.value.hint == "did you mean 'goals.send_message'?"


def test_a_kind_is_defined_once() -> None:
    """Two kinds of one name are an error."""
    define_agent_kind(project())
    with pytest.raises(UsageError, match="already defined"):
        define_agent_kind(project())
    assert "project" in FAMILIES


def _change(whole: dict[str, Any], path: str, value: Any) -> None:
    """Change a value of a scenario; None deletes it."""
    *keys, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    place: Any = whole
    for key in keys:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value


@pytest.mark.parametrize(
    ("path", "value", "why", "hint"),
    [
        (
            "conversations",
            None,
            "has a thread, but the scenario has no `conversations`",
            "add `conversations: {level: user}`",
        ),
        ("memory", None, "keeps notes, but the scenario has no `memory`", "add `memory: {}`"),
        ("models", None, "asks language models, but the scenario has none", "add `models: {}`"),
        ("goals", None, "monitors goals, but there are none", "add `goals: {}`"),
        ("conversations.level", "guest", "works for people whose level is guest", "level: user"),
        ("agents.2", {"name": "x", "rules": [{"do": "stop"}]}, "no agent would resume it", "kind: health_monitor"),
        ("agents.1.kind", "goal", "makes tasks, but no entry says what a task is", "kind: agent_task"),
        (
            "agents.3",
            {"name": "x", "kind": "agent_task", "settings": {"user": "b"}},
            "is made by other agents",
            "make it",
        ),
        ("agents.0.settings", {"user": "ben"}, "a template works for no user yet", "leave it out"),
        ("agents.0.settings", {"tools": ["world.pubish"]}, "there is no tool 'world.pubish'", "'world.publish'"),
        ("agents.0.settings", {"tools": ["world.ask"]}, "there is no tool 'world.ask'", ""),
        ("agents.0.settings", {"tools": 7}, "agents[0].settings.tools", ""),
        ("agents.0.template", False, "works for no user", "give `user`"),
        ("agents.2.count", 2, "one health monitor is enough", "remove the others"),
        ("goals.feed", "noon", "'noon' is not a time of day", "hours and minutes"),
        ("goals.retries", {"bse": "3s"}, "unknown key 'bse'", "base"),
        ("goals.health", {"stuck": 0}, "goals.health.stuck", ""),
    ],
)
def test_scenarios_that_cannot_work(tmp_path: Path, path: str, value: Any, why: str, hint: str) -> None:
    """A mistake is one sentence with a hint, before the run."""
    whole = copy.deepcopy(scenario([{"call": MESSAGE}]))
    whole["agents"][-1] = {"name": "ana"}
    _change(whole, path, value)
    file = tmp_path / "house.yaml"
    file.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        sim.run(file, out=None)
    assert why in str(caught.value)
    assert hint in f"{caught.value} {caught.value.hint}"


def test_a_world_without_goals_has_no_service() -> None:
    """The service exists only with the section."""
    with pytest.raises(UsageError, match="this world has no goals"):
        Goals.of(sim.World(seed=1))
