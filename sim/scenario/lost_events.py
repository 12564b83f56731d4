"""Rules that lose an event in tick mode: one asks, and another one waits for the answer in the next tick.

Without ticks, the second rule is chosen at the same instant, and nothing is lost. In tick mode a whole tick lies
between the two, and an event that is published in it wakes no agent.
"""

from collections.abc import Iterator
from typing import Any, Final

from sim.base.errors import Problem
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError
from sim.kernel.codec import JsonObject
from sim.scenario.schema import Scenario
from sim.scenario.symbols import actions_of, items, sleep_topics
from sim.scenario.values import is_expression
from sim.scenario.yaml_tree import Map

_ASKING: Final = (
    "create_task", "post_message", "publish", "run_task", "send", "send_chat_message", "write_to_agent",
)  # fmt: skip
"""The actions that others react to."""


def may_lose_events(scenario: Scenario) -> list[Problem]:
    """Return the rules that wait for an event one iteration after another rule has asked, in the order of the file.

    Args:
        scenario: a scenario that was loaded from a file or text; of another one nothing is known.
    """
    tree = scenario._tree
    if tree is None:
        return []
    problems = []
    for number, (entry, raw) in enumerate(zip(scenario.agents, items(tree, "agents"), strict=True)):
        pairs = zip(entry.rules, items(raw, "rules"), strict=True)
        rules = [(rule, part) for rule, part in pairs if isinstance(part, Map)]
        for place, (rule, part) in enumerate(rules):
            topic = _awaited(part)
            before = None if topic is None else _who_asks(rule.when, place, rules)
            if before is None:
                continue
            waits, asked = f"agents[{number}].rules[{place}] waits for {topic!r}", f"rules[{before}] has asked"
            kind = next(kind for kind, _ in actions_of(rules[before][1]) if kind in _ASKING)
            message = f"{waits} one iteration after {asked}: in tick mode, an event that comes in between is lost"
            hint = f"do both in one rule: do: [{{{kind}: ...}}, {{sleep: ...}}]"
            problems.append(part.values_at.get("do", part.mark).problem(message, hint))
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


def _awaited(rule: Map) -> str | None:
    """Return the topic for which a rule sleeps, if it does nothing else; None: it does not."""
    actions = list(actions_of(rule))
    if len(actions) != 1 or actions[0][0] != "sleep" or not isinstance(actions[0][1], dict):
        return None
    return next((str(topic) for topic in sleep_topics(actions[0][1]) if topic is not None), None)


def _who_asks(condition: Expression, place: int, rules: list[tuple[Any, Map]]) -> int | None:
    """Return which rule asks, and sets the state in which the rule at `place` is chosen; None if there is none."""
    for number, (_, part) in enumerate(rules):
        kinds = [kind for kind, _ in actions_of(part)]
        if number != place and kinds and kinds[-1] in _ASKING and _leads_to(part, condition):
            return number
    return None


def _leads_to(rule: Map, condition: Expression) -> bool:
    """Return whether what a rule sets makes a condition true, as far as the condition depends on it."""
    values = rule.get("set")
    named: JsonObject = values if isinstance(values, dict) else {}
    constants = {name: value for name, value in named.items() if not is_expression(value)}
    verdicts = list(_verdicts(condition, constants))
    return bool(verdicts) and all(verdicts)


def _verdicts(condition: Expression, constants: JsonObject) -> Iterator[bool]:
    for part in condition.conjuncts():
        if part.names and part.names <= constants.keys() and not part.functions - set(PURE_FUNCTIONS):
            try:
                yield bool(part.evaluate(constants, PURE_FUNCTIONS))
            except ExpressionError:
                yield False
