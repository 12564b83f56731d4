"""The section `tools` of a scenario: formulas and commands as tools, and what is wrong with them, by line."""

import pytest

from sim.base.errors import ScenarioError
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.scenario.assembly.kind_checks import check_families
from sim.tools import Tools
from sim.tools.process import sandbox_fault
from sim.tools.rights import Rights
from tests.llm.scenes import Scene

SHOP = """until: 1m
accounts: {shop: 0}
artifacts:
  - {id: orders, owner: shop, readers: [clerk], content: {a1: {amount: 30}, a2: {amount: 900}}}
tools:
  functions:
    orders.amount:
      description: Look up the amount of an order.
      parameters: {id: {type: string}, currency: {type: string}}
      optional: [currency]
      artifact: orders
      returns: content[args.id].amount
  commands:
    code.run: {description: Run Python., command: [python, -c, "print(6 * 7)"], latency: 3s}"""
CLERK = """
  - name: clerk
    state: {n: 0, got: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: n == 0
        set: {n: 1}
        do: {use_tool: {tool: TOOL, args: {ARGS}}}
        record: {}
      - do: stop
"""


def call(tool: str, args: str, rest: str = SHOP) -> Scene:
    """Run one call of a rule."""
    agents = CLERK.replace("TOOL", tool).replace("{ARGS}", f"{{{args}}}")
    return Scene("  rules: [{say: x}]\n", agents, rest).run()


def test_a_formula_is_a_tool() -> None:
    """Its value is the result; it reads the content of its artifact, and an omitted parameter is null."""
    (event,) = call("orders.amount", "id: a2").events("action.use_tool")
    assert (event["success"], event["result"]) == (True, 900)


def test_a_formula_reads_its_artifact_with_the_rights_of_the_caller() -> None:
    """Who may not read the artifact gets nothing of it."""
    hidden = SHOP.replace("readers: [clerk]", "readers: owner")
    event = call("orders.amount", "id: a2", rest=hidden).events("action.use_tool")[0]
    assert event["success"] is False


@pytest.mark.parametrize(
    ("args", "why"),
    [("id: 5", "id must be string"), ("", "lack 'id'"), ("id: a1, more: 1", "there is no 'more'"), ("id: zz", "zz")],
)
def test_arguments_that_do_not_fit_are_refused(args: str, why: str) -> None:
    """The schema is checked before the formula is evaluated; a formula that fails is a failed call."""
    event = call("orders.amount", args).events("action.use_tool")[0]
    assert event["success"] is False
    assert why in event["error"]


def test_commands_need_the_permission_of_the_operator() -> None:
    """Without it, a call fails with one sentence."""
    event = call("code.run", "").events("action.use_tool")[0]
    assert "the operator has not allowed commands in this run" in event["error"]


@pytest.mark.skipif(sandbox_fault() is not None, reason=str(sandbox_fault()))
def test_a_command_is_a_tool_with_modelled_latency() -> None:
    """With the permission it runs in a sandbox, and takes the simulated time that the file says."""
    agents = CLERK.replace("TOOL", "code.run").replace("{ARGS}", "{}")
    scene = Scene("  rules: [{say: x}]\n", agents, SHOP)
    tools = Tools.of(scene.world)
    object.__setattr__(tools.processes, "allowed", True)
    scene.run()
    (event,) = scene.events("action.use_tool")
    assert event["result"]["stdout"] == "42\n"
    assert scene.world.now >= 3


@pytest.mark.parametrize(
    ("change", "line", "why"),
    [
        (("returns: content[args.id].amount", "returns: content[args.id].amount +"), 13, "returns"),
        (("optional: [currency]", "optional: [money]"), 9, "optional names 'money'"),
        (("{type: string}, currency", "{type: text}, currency"), 9, "one or a list of object"),
        (("description: Look up", "descripton: Look up"), 9, "unknown key 'descripton'"),
        (("command: [python, -c,", "command: ['', -c,"), 15, "a command needs at least the name of its program"),
        (("functions:", "function:"), 7, "unknown key 'function'"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(change: tuple[str, str], line: int, why: str) -> None:
    """A mistake in the section is refused before the run, at its place."""
    text = f"name: x\n{SHOP.replace(*change)}\nagents: [{{name: clerk}}]\n"
    with pytest.raises(ScenarioError) as caught:
        loads(text)
    assert (line, True) in [(problem.line, why in problem.message) for problem in caught.value.problems]


def test_a_tool_of_the_file_that_does_not_exist_is_refused_with_the_nearest() -> None:
    """`ask` names its tools; a wrong name is found before the run."""
    ask = "\n  - {name: a, rules: [{do: {ask: {prompt: hi, tools: [orders.amuont]}}}]}\n"
    with pytest.raises(ScenarioError, match=r"there is no tool 'orders.amuont' in tools"):
        Scene("  rules: [{say: x}]\n", ask, SHOP)
    with pytest.raises(ScenarioError, match=r"there is no action 'trnsfer' to offer as a tool"):
        Scene("  rules: [{say: x}]\n", ask.replace("orders.amuont", "world.trnsfer"), SHOP)


@pytest.mark.parametrize(
    ("section", "where", "hint"),
    [
        (
            "access: {otherwise: true, rules: [{allow: false, tools: [orders.amuont]}]}",
            "access.rules[0]",
            "orders.amount",
        ),
        ("access: {rules: [{allow: true}, {allow: true, tools: [order.*]}]}", "access.rules[1]", None),
        ("approvals: {rules: [{tool: code.rum}]}", "approvals.rules[0]", "code.run"),
        ("access: {rules: [{allow: true, tools: [world.sned]}]}", "access.rules[0]", "world.send"),
    ],
)
def test_a_rule_about_a_tool_that_does_not_exist_is_refused(section: str, where: str, hint: str | None) -> None:
    """A misspelt tool in a rule of access or of approvals would protect nothing, so the scenario is not valid."""
    scenario = loads(f"name: shop\n{SHOP}\n{section}\nagents: [{{name: clerk, rules: [{{do: stop}}]}}]\n")
    with pytest.raises(ScenarioError) as refused:
        check_families(scenario)
    (problem,) = refused.value.problems
    assert problem.message.startswith(f"{where}: no tool of this scenario fits")
    assert problem.line > 15
    assert hint is None or hint in (problem.hint or "")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["orders.amount", "orders.*", "*", "world.send", "code.run"])
def test_a_rule_may_be_about_any_tool_of_the_scenario(pattern: str) -> None:
    """Tools of the section, commands and actions of the world can be in a rule, by name or by pattern."""
    section = f"access: {{rules: [{{allow: true, tools: ['{pattern}']}}]}}"
    build(
        loads(f"name: shop\n{SHOP}\n{section}\nagents: [{{name: clerk, rules: [{{do: stop}}]}}]\n"),
        rights=Rights(allow_commands=True),
    )
