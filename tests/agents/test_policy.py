"""Policy agents: the first rule that applies, its arguments, what it records and what it sets."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from sim.agents import PolicyAction, PolicyAgent, PolicyRule, RuleSet, Toolbox
from sim.agents.rule_code import OwnAttribute, RuleCode, Value, _equal_states, equal_states
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError
from sim.kernel.rng import Streams
from sim.world import Places
from sim.world.artifact import make
from tests.actors.helpers import Lab

NAMES = (
    "n",
    "now",
    "me",
    "index",
    "group",
    "place",
    "balance",
    "iteration",
    "event",
    "message",
    "messages",
    "result",
    "woken_by",
)


class Literal:
    """A value that is what it is."""

    constant = True

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def names(self) -> frozenset[str]:
        return frozenset()

    def evaluate(self, names: Any, functions: Any) -> Any:
        return self.value


class Computed:
    """A value that is computed."""

    constant = False

    def __init__(self, text: str) -> None:
        functions = Toolbox(Lab().world).functions
        self.expression = Expression.parse(text, NAMES, functions)
        self.names = self.expression.names

    def evaluate(self, names: Any, functions: Any) -> Any:
        return self.expression.evaluate(names, functions)


def values(given: dict[str, Any]) -> dict[str, Value]:
    """Return values: text that begins with `=` is computed."""
    return {k: Computed(v[1:]) if isinstance(v, str) and v.startswith("=") else Literal(v) for k, v in given.items()}


def rule(when: str | None, kind: str = "noop", change: Any = None, record: Any = None, **arguments: Any) -> PolicyRule:
    """Return a rule."""
    condition = None if when is None else Computed(when).expression
    actions = (PolicyAction(kind, values(arguments)),)
    return PolicyRule(condition, actions, values(change or {}), values(record or {}))


def run_policy(
    *rules: PolicyRule, until: float = 0.5, subscribe: tuple[str, ...] = (), **state: Any
) -> tuple[Lab, PolicyAgent]:
    """Run one agent with these rules for five iterations."""
    lab = Lab()
    agent = PolicyAgent(
        "p", lab.world, toolbox=Toolbox(lab.world), rule_set=RuleSet(rules), subscribe=subscribe, index=3, group="g"
    )
    agent.state.update(state)
    lab.manager.create_loop(agent).start_now()
    lab.run(until)
    return lab, agent


def test_the_first_rule_that_applies_is_taken() -> None:
    """Rules are looked at in order; without one that applies the iteration does nothing."""
    lab, agent = run_policy(
        rule("n >= 3", "publish", topic="late"),
        rule("n >= 1", "publish", {"n": "=n + 1"}, topic="early"),
        rule("False", "publish", topic="never"),
        n=1,
    )
    assert {topic: lab.bus.published(topic) for topic in ("early", "late", "never")} == {
        "early": 2,
        "late": 3,
        "never": 0,
    }
    lab, agent = run_policy(rule("False", "publish", topic="never"), n=0)
    assert (lab.world.done, lab.world.refused) == ({}, {})
    assert agent.loop.failures == 0


def test_set_and_record_only_after_success() -> None:
    """Observations are computed before the new state, the new state from the old; a refused action does neither."""
    lab, agent = run_policy(rule(None, change={"n": "=n + 1", "m": "=n * 10"}, record={"seen": "=n"}), n=1, m=0)
    assert list(lab.world.observations["seen"]) == [1, 2, 3, 4, 5]
    assert agent.state == {"n": 6, "m": 50}
    lab, agent = run_policy(rule(None, "read", {"n": 9}, {"seen": 1}, artifact="none"), n=1)
    assert agent.state == {"n": 1}
    assert lab.world.observations == {}
    assert agent.result is not None
    assert not agent.result.success


def test_the_result_of_the_last_action() -> None:
    """A rule sees what the action before returned, as plain data."""
    lab = Lab()
    lab.world.artifacts.put(make("x", "p", {"deep": [1, 2]}))
    rules = (rule("result is None", "read", {"n": "=result.data.deep[1]"}, artifact="x"),)
    agent = PolicyAgent("p", lab.world, toolbox=Toolbox(lab.world), rule_set=RuleSet(rules))
    agent.state["n"] = 0
    lab.manager.create_loop(agent).start_now()
    lab.run(0.05)
    assert agent.state["n"] == 2


def test_events_come_one_an_iteration() -> None:
    """Each iteration takes one event of the subscriptions; a rule sees its topic, data, source and time."""
    lab = Lab()
    rules = (rule("event is not None", "noop", {"n": "=n + event.data.x"}, {"at": "=event.time"}),)
    agent = PolicyAgent("p", lab.world, toolbox=Toolbox(lab.world), rule_set=RuleSet(rules), subscribe=("a.*",))
    agent.state["n"] = 0
    lab.manager.create_loop(agent).start_now()

    def burst() -> None:
        for x in (1, 10, 100):
            lab.bus.publish("a.b", {"x": x})

    lab.at(0.25, burst)
    lab.run(0.45)
    assert agent.state["n"] == 11
    lab.run(0.55)
    assert agent.state["n"] == 111
    assert list(lab.world.observations["at"]) == [0.25] * 3


def test_an_error_in_a_rule_is_a_failed_iteration() -> None:
    """A rule that cannot be computed fails the iteration, and changes nothing."""
    _, agent = run_policy(rule("event.data.x > 1"), n=1)
    assert agent.loop.failures > 1
    assert agent.loop.failures == agent.loop.iteration_count
    _, agent = run_policy(rule(None, change={"n": "=1 / 0", "m": 5}), n=1)
    assert agent.state == {"n": 1}


@pytest.fixture
def toolbox() -> tuple[Lab, Toolbox]:
    """A toolbox used by `p`, in a world with places and things."""
    lab = Lab(3)
    agent = PolicyAgent("p", lab.world, toolbox=Toolbox(lab.world), rule_set=RuleSet(()))
    lab.manager.create_loop(agent)
    lab.add("q", None, group="others")
    lab.world.places = Places(["a", "b"], [("a", "b", 1)])
    lab.world.places.place("p", "a")
    lab.world.places.place("q", "b")
    box = Toolbox(lab.world)
    box.used_by(agent)
    return lab, box


def test_chance(toolbox: tuple[Lab, Toolbox]) -> None:
    """Random functions draw for the agent and the moment, and keep their bounds."""
    _, box = toolbox
    other = Streams(3).draws("p", "rules").moment(0, 0)
    assert [box.chance(0.5) for _ in range(20)] == [other.random() < 0.5 for _ in range(20)]
    assert all(2 <= box.uniform(2, 3) < 3 for _ in range(100))
    assert {box.randint(1, 3) for _ in range(100)} == {1, 2, 3}
    assert 0.8 < sum(box.exponential(1) for _ in range(2000)) / 2000 < 1.2
    assert box.choice([]) is None
    assert box.choice(["x"]) == "x"
    with pytest.raises(ExpressionError, match="above 0"):
        box.exponential(0)


def test_lists_that_a_rule_keeps_are_copies(toolbox: tuple[Lab, Toolbox]) -> None:
    """A list that a rule only reads can be the one of the world; one that it keeps, or a part of it, is a copy."""
    lab, box = toolbox
    box.shared = dict.fromkeys(box.shared, lambda *given: ["shared"])
    box.functions = {**box.functions, **dict.fromkeys(box.shared, lambda *given: ["copy"])}
    read = ("choice({})", "[one for one in {}][0]")
    kept = ("{}", "{} or 1", "{} + []", "first({})", "{}[0]", "[{}]", "[one for one in [{}]]", "{} if {} else 0")
    for name in box.shared:
        call = "agents('others')" if name == "agents" else f"{name}()"
        for text in (*read, *kept):
            code = RuleCode([rule(None, change={"x": "=" + text.replace("{}", call)})], box, {}, lambda agent, let: {})
            (change,) = code.changes
            assert change is not None, "the rule sets a variable"
            agent = lab.script("q")
            box.used_by(agent)
            found = "shared" if text in read else "copy"
            assert found in str(change(agent, {}, {})), text
            assert "shared" not in str(change(agent, {}, {})) or text in read, text


def test_the_world_around(toolbox: tuple[Lab, Toolbox]) -> None:
    """The functions tell what the agent may know."""
    lab, box = toolbox
    lab.limit("calls", 5, 60)
    lab.world.rate_tracker.consume("p", "calls", 2)
    lab.world.budgets.define("money", 3_000_000)
    lab.world.artifacts.put(make("secret", "q", 1, readers="owner"))
    assert (box.neighbours(), box.nearby(), box.agents("others")) == (["q"], [], ["q"])
    assert (box.remaining("calls"), box.usage("calls"), box.budget("money")) == (3, 2, 3)
    assert (box.exists("secret"), box.content("secret"), box.exists("none")) == (True, None, False)
    assert set(PURE_FUNCTIONS) <= set(box.used_by(lab.script("q")))


_NOT_CALLED = (
    *(f"state_of('q', '{key}')" for key in ("number", "text", "long", "truth", "none", "list", "mapping", "lacking")),
    "state_of('nobody', 'number')", "state_of(['q'], 'number')", "state_of('q', 1)", "state_of(me, 'own')",
    "[state_of(one, 'long') for one in ['q', 'q']]", "[state_of(one, 'list') == [1, [2]] for one in ['q', 'nobody']]",
    "sum(state_of(one, 'number') > 2 for one in ['q', 'q'])", "[one for one in state_of('q', 'list')]",
    "[state_of('q', 'long') for one in range(5) for other in range(5)]",
    "[state_of('q', 'text') for one in [state_of('q', 'number')] for other in range(150) for third in range(150)]",
    "sum(state_of(x, 'number') == 3 for x in ['q', 'q'])", "sum([3 == state_of(x, 'number') for x in ('q', 'q')])",
    "sum(state_of(x, 'own') == n for x in ['p', 'p', 'p'])", "sum(n == state_of(x, 'number') for x in ['q'])",
    "sum(state_of(x, 'truth') == 1 for x in ['q'])", "sum(state_of(x, 'text') == 'short' for x in ['q'])",
    "sum(state_of(x, 'text') == me for x in ['q'])", "sum(state_of(x, 'own') == now for x in ['p'])",
    "sum(state_of(x, 'own') == now for x in [])", "sum(state_of(x, 'none') == None for x in ['q', 'q'])",
    "sum(state_of(x, 'absent') == 3 for x in ['q'])", "sum(state_of(x, 'number') == 3 for x in ['q', 'nobody'])",
    "sum(state_of(x, 'list') == 3 for x in ['q'])", "sum(state_of(x, 'long') == 'x' for x in ['q'])",
    "sum(state_of(x, 'number') == 3 for x in [1, 2])", "sum(state_of(x, 'number') == 3 for x in [['q']])",
    "sum(state_of(x, 'number') == 3 for x in state_of('q', 'text'))", "sum(state_of(x, 'number') == x for x in ['q'])",
    "[sum(state_of(x, 'own') == y for x in ['p']) for y in [1.5, 2]]", "sum(sum(x) for x in [[1], [2]])",
    "[sum(state_of(x, 'text') == 'short' for x in ['q']) for y in range(15000)]",
    "sum(state_of(x, 'text') == n for x in [x for x in ['q'] for y in range(15000)])",
    "neighbours()", "len(neighbours())", "[x for x in neighbours()]", "1 if neighbours() else 2",
    "sum(state_of(x, 'number') == 3 for x in neighbours())", "not neighbours('others')", "len(neighbours(radius=0))",
    "choice([])", "choice(['x'])", "choice('x')", "choice(3)", "choice(None)", "[choice([one]) for one in [1, 2]]",
    "chance(1.0)", "chance(0)", "chance('x')", "chance(None)", "chance(probability=1)", "chance()", "choice([1], [2])",
)  # fmt: skip


@pytest.mark.parametrize(
    "count", dict.fromkeys((_equal_states, equal_states)), ids=lambda function: type(function).__name__
)
def test_agents_are_counted_by_state_unless_one_has_to_be_asked(count: Any) -> None:
    """Small values are compared as `==` does; anything else leaves the answer to the loop."""
    values: dict[str, Any] = {
        "one": 1,
        "true": True,
        "real": 1.0,
        "text": "1",
        "none": None,
        "list": [1],
        "nan": math.nan,
    }
    others = {name: SimpleNamespace(state={"x": value}) for name, value in values.items()}
    others["long"], others["bare"] = SimpleNamespace(state={"x": "1" * 100}), SimpleNamespace(state=None)
    assert count(others, ["one", "true", "real", "text"], "x", 1, 100) == 3
    assert count(others, ["one", "text"], "x", "1", 100) == 1
    assert count(others, ["nan"], "x", others["nan"].state["x"], 100) == 0
    assert count(others, [], "x", 1, 100) == 0
    for name in ("none", "list", "long", "bare", "nobody", 1, ["one"]):
        assert count(others, ["one", name], "x", 1, 100) is None
    assert count(others, ["one"], "y", 1, 100) is None
    assert count(others, ["long"], "x", "1" * 100, 101) == 1
    for value in (None, [1], "1" * 100):
        assert count(others, ["one"], "x", value, 100) is None


def test_functions_that_are_written_into_the_code_do_what_their_calls_do(toolbox: tuple[Lab, Toolbox]) -> None:
    """The code of `state_of`, `choice`, `chance` and `neighbours` gives the values and errors that their calls give."""
    lab, box = toolbox
    lab.world.agents["q"].state = {
        "number": 3, "text": "short", "long": "x" * 70_000, "truth": True, "none": None, "list": [1, [2]],
        "mapping": {"a": 1},
    }  # fmt: skip
    lab.world.agents["p"].state = {"own": 1.5}
    agent = lab.world.agents["p"]
    computed = {"me": OwnAttribute("agent_id")}

    def outcome(text: str) -> object:
        code = RuleCode([rule(None, change={"x": f"={text}"})], box, computed, lambda agent, let: {})
        box.used_by(agent)  # type: ignore[arg-type]  # an agent
        change = code.changes[0]
        assert change is not None, "the rule sets a variable"
        try:
            return change(agent, {"n": 1.5}, {})
        except Exception as error:
            with pytest.raises(ExpressionError) as raised:
                code.fail(error)
            return str(raised.value)

    written = [outcome(text) for text in _NOT_CALLED]
    for name in ("state_of", "choice", "chance", "neighbours"):
        assert box.is_own(name)
        box.watch(name, lambda function: lambda *given, **named: function(*given, **named))
        assert not box.is_own(name)
    called = [outcome(text) for text in _NOT_CALLED]
    for text, one, other in zip(_NOT_CALLED, written, called, strict=True):
        assert one == other, text
    assert any("more than 20000 steps" in str(one) for one in written)


def test_rules_follow_places_that_a_program_replaces(toolbox: tuple[Lab, Toolbox]) -> None:
    """The code of a rule asks for neighbours in the places that the world has at that moment."""
    lab, box = toolbox
    agent = lab.world.agents["p"]
    change = RuleCode([rule(None, change={"x": "=len(neighbours())"})], box, {}, lambda agent, let: {}).changes[0]
    assert change is not None, "the rule sets a variable"
    assert change(agent, {}, {}) == {"x": 1}
    lab.world.places = Places(["a", "b"], [])
    lab.world.places.place("p", "a")
    lab.world.places.place("q", "b")
    assert change(agent, {}, {}) == {"x": 0}
    lab.world.places = None
    assert change(agent, {}, {}) == {"x": 0}
