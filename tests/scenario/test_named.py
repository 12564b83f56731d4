"""Every name in the settings of chats and executors must mean something: a misspelt one is refused or warned of."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from sim.base.errors import ScenarioError, UsageError
from sim.scenario import loads
from sim.scenario.assembly.kind_checks import check_families
from sim.scenario.never import never_happens

SOURCES = Path(__file__).parents[2] / "sim"
RIGHT: dict[str, Any] = {
    "name": "named", "until": "2h",
    "conversations": {
        "level": "guest", "levels": {"discord": {"annie": "user"}},
        "people": {"Ann": {"discord": "annie", "slack": "annie"}},
    },
    "chat": {
        "personas": {
            "gardener": {"prompt": "P.", "platform": "discord", "server": "garden", "modules": ["research", "world"],
                         "model": "main"},
        },
        "guest_modules": ["research"], "tools": ["world.publish"], "rights": "least",
        "budget": {"guest": 5000, "rule": "strict", "users": {"slack": {"annie": 300}}},
    },
    "executor": {
        "projects": {"shop": {"files": {"tests/test_a.py": "", "b.py": ""}}},
        "alternatives": {"workspace.read_file": ["workspace.list_files"]}, "cost_rule": "strict",
        "tasks": {
            "first": {"type": "writer", "project": "shop", "goal": "g", "protected": ["tests/test_a.py"],
                      "criteria": [{"text": "x", "tool": "workspace.read_file"}]},
            "later": {"type": "writer", "goal": "g", "criteria": [{"text": "x"}], "depends_on": ["first"]},
        },
    },
    "models": {
        "tiers": {"main": "small", "cheap": "scripted"}, "uses": {"judge": "main"},
        "prices": {"small": {"input": 1, "output": 1}}, "rules": [{"say": "Hello."}],
    },
    "agents": [
        {"name": "agent", "kind": "chat_agent", "template": True, "permission": "owner"},
        {"name": "writer", "kind": "executor", "settings": {"type": "writer", "tools": ["workspace.read_file"]}},
        {"name": "annie", "state": {"n": 0}, "rules": [
            {"when": "n < 1", "do": {"send_chat_message": {"platform": "discord", "server": "garden", "channel": "g",
                                                             "text": "hi"}}},
            {"when": "n == 1", "do": {"send_chat_message": {"platform": "slack", "channel": "g", "text": "hi"}}},
            {"do": {"sleep": {"event": "chat.response"}}},
        ]},
    ],
}  # fmt: skip

MISSPELT = [
    ("conversations.level", "gest", None),
    ("conversations.levels", {"discord": {"anie": "user"}}, "annie"),
    ("conversations.levels", {"discrod": {"annie": "user"}}, "discord"),
    ("conversations.levels", {"discord": {"annie": "usr"}}, None),
    ("conversations.people", {"Ann": {"discord": "annie", "slack": "anie"}}, "annie"),
    ("conversations.people", {"Ann": {"discord": "annie", "slakc": "annie"}}, "slack"),
    ("chat.personas.gardener.platform", "discrod", "discord"),
    ("chat.personas.gardener.server", "gardn", "garden"),
    ("chat.personas.gardener.modules", ["reserch", "world"], "research"),
    ("chat.personas.gardener.modules", ["research"], None),  # no one is offered world.publish
    ("chat.personas.gardener.model", "mian", "main"),
    ("chat.guest_modules", ["reserch"], "research"),
    ("chat.tools", ["world.publsh"], "world.publish"),
    ("chat.rights", "lest", "least"),
    ("chat.budget.rule", "strikt", "strict"),
    ("chat.budget.users", {"slack": {"anie": 300}}, "annie"),
    ("chat.budget.users", {"slakc": {"annie": 300}}, "slack"),
    ("executor.alternatives", {"workspace.raed_file": []}, "workspace.read_file"),
    ("executor.alternatives", {"workspace.edit_file": ["workspace.list_files"]}, "workspace.read_file"),
    ("executor.alternatives", {"workspace.read_file": ["workspace.list_fles"]}, "workspace.list_files"),
    ("executor.tasks.first.type", "writr", "writer"),
    ("executor.tasks.first.project", "shp", "shop"),
    ("executor.tasks.first.protected", ["test/test_a.py"], "tests/test_a.py"),
    ("executor.tasks.first.criteria", [{"text": "x", "tool": "workspace.raed_file"}], "workspace.read_file"),
    ("executor.tasks.first.criteria", [{"text": "x", "tool": "workspace.edit_file"}], "workspace.read_file"),
    ("executor.tasks.later.depends_on", ["frist"], "first"),
    ("models.prices", {"smal": {"input": 1, "output": 1}}, "small"),
    ("models.uses", {"judge": "mian"}, "main"),
    ("agents.1.settings.tools", ["workspace.raed_file"], "workspace.read_file"),
    ("agents.2.rules.2.do.sleep.event", "chat.respnse", "chat.response"),
    ("agents.2.rules.2.do.sleep.event", "execution.end", "execution.ended"),
    ("agents.2.subscribe", ["chat.respons"], "chat.response"),
    ("metrics", {"values": {"n": "published('conversation.mesage')"}}, "conversation.message"),
]  # fmt: skip


def said(scenario: dict[str, Any]) -> list[str]:
    """Return what `sim check` says of a scenario: its problems, or else its warnings."""
    try:
        loaded = loads(json.dumps(scenario, indent=1))
        check_families(loaded)
    except ScenarioError as error:
        return [str(problem) for problem in error.problems]
    except UsageError as error:
        return [f"{error} ({error.hint})"]
    return [str(problem) for problem in never_happens(loaded)]


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the right scenario with one change."""
    scenario = copy.deepcopy(RIGHT)
    *way, last = path.split(".")
    part: Any = scenario
    for step in way:
        part = part[int(step)] if isinstance(part, list) else part[step]
    part[last] = value
    return scenario


def test_right_names_are_silent() -> None:
    """Of the scenario without a misspelt name, nothing is said."""
    assert said(RIGHT) == []


@pytest.mark.parametrize(("path", "value", "meant"), MISSPELT)
def test_a_misspelt_name_is_never_silent(path: str, value: Any, meant: str | None) -> None:
    """Each place that names an account, platform, server, level, tool, module, model, task, file or topic is checked,
    and the nearest name is suggested."""
    found = said(changed(path, value))
    assert found
    assert all(f"did you mean {meant!r}?" in one for one in found[:1] if meant is not None)


@pytest.mark.parametrize("argument", ["platform", "server"])
def test_what_an_expression_names_is_not_guessed(argument: str) -> None:
    """If a rule evaluates where it writes, any place may be meant, and nothing is said of it."""
    scenario = changed("chat.personas.gardener.server", "elsewhere")
    scenario["agents"][2]["rules"][0]["do"]["send_chat_message"][argument] = "='gar' + 'den'"
    assert said(scenario) == []


def test_a_gateway_writes_as_any_account() -> None:
    """If a rule evaluates as whom it writes, every account may be right."""
    scenario = changed("conversations.levels", {"discord": {"zoe": "user"}})
    assert said(scenario)
    gateway = {"post_message": {"text": "x", "channel": "c", "platform": "discord", "user": "='zo' + 'e'"}}
    rules = [{"when": "now < 1", "do": gateway}, {"do": {"sleep": {"for": "1h"}}}]
    scenario["agents"].append({"name": "gateway", "permission": "admin", "rules": rules})
    assert said(scenario) == []


def test_what_a_model_or_a_procedure_writes_is_not_guessed() -> None:
    """If a model can write, or a step of a procedure does, any platform may be meant, and nothing is said of it."""
    assert said(changed("chat.personas.gardener.platform", "telegram"))
    offered = changed("chat.personas.gardener.platform", "telegram")
    offered["chat"]["tools"] = ["world.send_chat_message"]
    assert not [one for one in said(offered) if "telegram" in one]


@pytest.mark.parametrize(("account", "silent"), [("annie", True), ("annie-2", True), ("annie-02", False)])
def test_an_agent_that_can_be_spawned_is_an_account(account: str, silent: bool) -> None:
    """Where a rule spawns agents, their numbered names are accounts; what no agent can be called is not."""
    scenario = changed("conversations.levels", {"discord": {account: "user"}})
    scenario["agents"][2]["rules"].insert(0, {"when": "n == 7", "do": {"spawn": {"agent": "annie"}}})
    assert (said(scenario) == []) == silent


def test_a_topic_of_the_simulation_that_does_not_exist_is_warned_of() -> None:
    """A rule that waits for a topic under a reserved word waits for ever if no event type has it."""
    for topic, warned in (("task.completed", False), ("task.finished", True), ("agent.*", False), ("action.x", False)):
        waiting = {"name": "a", "rules": [{"do": {"sleep": {"event": topic}}}]}
        found = list(never_happens(loads(json.dumps({"name": "w", "until": "1h", "agents": [waiting]}))))
        assert bool([one for one in found if topic in str(one)]) is warned, topic


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("sum([1], 2)", "wrong arguments for sum(x): too many positional arguments"),
        ("len()", "wrong arguments for len(x): missing a required argument: 'x'"),
        ("chance(0.1, odds=2)", "wrong arguments for chance(probability): got an unexpected keyword argument 'odds'"),
        ("max(1, len([1], [2]))", "wrong arguments for len(x): too many positional arguments"),
    ],
)
def test_calls_have_the_arguments_of_their_function(call, words):
    """A call with too few, too many or other arguments is refused when the file is read, wherever it stands."""
    text = f'name: f\nuntil: 1m\nagents:\n  - name: a\n    rules: [{{when: "{call} > 0", do: noop}}]\n'
    with pytest.raises(ScenarioError) as caught:
        loads(text, "f.yaml")
    (problem,) = caught.value.problems
    assert (problem.line, words in problem.message) == (5, True)


def test_a_hint_can_be_put_into_the_file():
    """What is suggested for a formula without `=` is valid YAML, also if the formula has quotation marks."""
    text = "name: f\nuntil: 1m\nagents:\n  - name: a\n    state: {x: %s}\n    rules: [{do: noop}]\n"
    with pytest.raises(ScenarioError) as caught:
        loads(text % "\"choice(['red', 'blue'])\"", "f.yaml")
    (problem,) = caught.value.problems
    first, _, second = (problem.hint or "").removeprefix("put `=` before it: ").partition("; or, to mean the text: ")
    for hint in (first, second):
        assert loads(text % hint, "f.yaml").name == "f"


def test_a_metric_is_no_name_for_expressions():
    """A stop condition that reads a metric is told that none can, and what to write; so is another metric."""
    for line in ("stop: {when: many > 3}", "metrics: {values: {many: count('a'), more: many + 1}}"):
        text = "name: f\nuntil: 1m\nagents: [{name: a, rules: [{do: noop}]}]\n"
        text += line if "metrics" in line else f"metrics: {{values: {{many: count('a')}}}}\n{line}\n"
        with pytest.raises(ScenarioError, match="`many` is a metric") as caught:
            loads(text, "f.yaml")
        (problem,) = caught.value.problems
        assert problem.hint == "write the expression of the metric"
