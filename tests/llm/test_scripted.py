"""Scripted models: which rule answers, with what, and that the world's state is all that a scenario can rely on."""

import pytest

from sim.llm.types import ChatMessage, Delta, ModelRequest, ToolSpec
from tests.llm.scenes import ASKER, Scene

TOOLS = """
  tools:
    buy: {description: Buy something., parameters: {what: {type: string}}}
    look: {description: Snapshot around.}
"""


def script(rules: str, **options) -> Scene:
    """Return a scene whose models follow rules."""
    return Scene(f"  rules:\n{rules}{TOOLS}", **options)


def answer(scene, *messages, tools=(), use="agent", observe=None, agent="asker"):
    """Have a request answered, as an actor of the agent's name; return the completion, or the error."""
    request = ModelRequest(
        tuple(ChatMessage(role, content) for role, content in messages),
        tools=tuple(ToolSpec(name, "", {}) for name in tools),
        use=use,
    )
    results = []

    async def ask():
        try:
            results.append((await scene.models.complete(scene.world.agents[agent], request, observe)).completion)
        except Exception as error:
            results.append(error)

    kernel = scene.world.kernel
    loop = scene.simulation.manager.loops[agent]
    with kernel.acting_as(kernel.scenario):
        kernel.begin(loop.actor, ask())
    kernel.run(kernel.now + 10**12)
    return results[0]


@pytest.mark.parametrize(
    ("condition", "fits", "fits_not"),
    [
        ("agent: asker", {}, {"agent": "other"}),
        ("agent: [people]", {"agent": "other"}, {}),
        ("use: judge", {"use": "judge"}, {"use": "agent"}),
        ("use: [judge, summary]", {"use": "summary"}, {}),
        ("role: tool", {"last": ("tool", "x")}, {"last": ("user", "x")}),
        ("text: 'buy {what}'", {"last": ("user", "Buy milk!")}, {"last": ("user", "sell milk")}),
        ("system: polite", {"system": "Be polite."}, {"system": "Be rude."}),
        ("result: 'found {n}'", {"last": ("tool", "found 3")}, {"last": ("user", "found 3")}),
        ("tool: buy", {"tools": ("buy",)}, {"tools": ("look",)}),
        ("when: \"len(tools) == 2 and 'buy' in tools\"", {"tools": ("buy", "look")}, {"tools": ("buy",)}),
        ("when: state.n == 0 and group == 'asker'", {}, {"agent": "other"}),
        ("when: messages > 1", {"system": "Be brief."}, {}),
    ],
)
def test_each_condition_decides(condition, fits, fits_not):
    """A rule answers the requests that all its conditions fit, and no others."""
    people = f"{ASKER}\n  - {{name: other, group: people, start: 1h, state: {{n: 0}}}}"
    for case, expected in ((fits, "yes"), (fits_not, "no")):
        scene = script(f"    - {{{condition}, say: yes}}\n    - {{say: no}}\n", agents=people)
        messages = [("system", case["system"])] if "system" in case else []
        messages.append(case.get("last", ("user", "hello")))
        options = {name: case[name] for name in ("tools", "use", "agent") if name in case}
        assert answer(scene, *messages, **options).text == expected


def test_what_patterns_keep_is_used_in_answers():
    """Words and texts that patterns keep are names in expressions, at any depth of a tool's arguments."""
    scene = script('    - {text: "buy {what} for {whom*}", say: "=\'for \' + whom", call: {buy: {what: "=what"}}}\n')
    found = answer(scene, ("user", "Please buy milk for Ann and Bob"))
    assert found.text == "for Ann and Bob"
    assert [(call.name, call.arguments) for call in found.tool_calls] == [("buy", '{"what":"milk"}')]
    assert found.stop == "tool_use"


def test_several_tools_and_broken_arguments():
    """A rule may call several tools in order; arguments given as text are sent as they are, sound or not."""
    scene = script("    - {call: {look: {}, buy: \"={'what': 1}\"}}\n    - {say: no}\n")
    assert [call.arguments for call in answer(scene, ("user", "x")).tool_calls] == ["{}", '{"what":1}']
    scene = script("    - call: {buy: '{\"what'}\n")
    assert answer(scene, ("user", "x")).tool_calls[0].parsed() is None


def test_calls_count_by_agent_and_use():
    """`calls` says how often the agent has asked before for this use, failed tries included."""
    people = f"{ASKER}\n  - {{name: other, start: 1h}}"
    scene = script('    - {say: "=calls"}\n', agents=people)
    asked = [("asker", "agent"), ("asker", "agent"), ("other", "agent"), ("asker", "judge")]
    assert [answer(scene, ("user", "x"), agent=a, use=u).text for a, u in asked] == ["0", "1", "0", "0"]


@pytest.mark.slow
def test_choices_are_drawn_by_weight_from_a_stream_of_the_agent():
    """Weights are proportions, and the draws are the same in each run, and other than the agent's own."""
    rules = '    - choose: [{weight: 3, say: a}, {weight: "=1 + 0", say: b}, {weight: 0, say: c}]\n'

    def answers(seed):
        scene = script(rules, seed=seed)
        texts = [answer(scene, ("user", "x")).text for _ in range(400)]
        assert scene.world.stream("asker").random() == script(rules, seed=seed).world.stream("asker").random()
        return texts

    first = answers(1)
    assert first == answers(1) != answers(2)
    assert 270 < first.count("a") < 330
    assert "c" not in first


def test_a_failure_is_retried_in_simulated_time():
    """A rule that fails is asked again by the one retry layer, after at least what it asks to wait."""
    rules = "    - {when: calls == 0, fail: rate_limit, retry_after: 30s}\n    - {say: fine}\n"
    scene = script(rules).run()
    assert scene.state()["said"] == "fine"
    first, second = scene.events("model.attempt")
    assert (first["outcome"], second["outcome"]) == ("rate_limit", "ok")
    assert 30 <= first["waited"] <= 36
    assert scene.world.now > 30
    assert scene.events("model.call")[0]["seconds"] == pytest.approx(first["waited"])


def test_without_a_fitting_rule_the_call_is_refused_with_what_was_asked():
    """A gap in the rules is a mistake of the scenario: it is named, and nothing is made up."""
    scene = script("    - {use: judge, say: x}\n").run()
    assert "no scripted rule answers asker" in scene.refusals()[0]
    assert "raining" in scene.refusals()[0]


def test_an_expression_without_a_value_refuses_the_call():
    """What cannot be computed is no answer."""
    assert "no key 'missing'" in script('    - {say: "=state.missing"}\n').run().refusals()[0]
    weights = '    - choose: [{weight: "=0", say: a}, {weight: "=0", say: b}]\n'
    assert "must not all be 0" in script(weights).run().refusals()[0]


def test_answers_cost_no_simulated_time():
    """A scripted answer comes at the instant of the question."""
    scene = script("    - {say: x}\n").run()
    assert scene.events("model.call")[0]["seconds"] == 0


def test_an_observer_follows():
    """Who follows sees the text and each tool from its start to its end."""
    scene, seen = script("    - {say: hm, call: {look: {}}}\n"), list[Delta]()
    answer(scene, ("user", "x"), observe=seen.append)
    assert [delta.kind for delta in seen] == ["text", "tool_start", "tool_arguments", "tool_complete"]
