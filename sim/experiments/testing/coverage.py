"""Coverage: which rules, conditions, actions, tools, states and transitions of a scenario no run of a test reached."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import attrs

from sim.agents import PolicyRule
from sim.agents.policy import PolicyAgent
from sim.base.expressions import Expression, ExpressionError
from sim.kernel.codec import JsonObject, decode, encode
from sim.kernel.rows import EventRow
from sim.runner.runner import RunController
from sim.scenario import Scenario
from sim.scenario.schema import Agent, Rule
from sim.scenario.yaml_spans import Path, spans

What = Literal["rule", "condition", "action", "state", "transition", "tool"]
WHATS: Final[tuple[What, ...]] = ("rule", "condition", "action", "state", "transition", "tool")


@attrs.frozen
class ScenarioPart:
    """A part of a scenario that a run can reach.

    Attributes:
        what: its kind.
        key: its key among all parts.
        path: its place in the file.
        text: what it is, for people.
        line: its line in the file.
    """

    what: What
    key: str
    path: Path
    text: str
    line: int = 0


@attrs.frozen
class Coverage:
    """The parts of a scenario, and how often the runs of a test reached each.

    Attributes:
        parts: the parts, in the order of the file.
        counts: by key, how often it was reached.
        text: the text of the file.
    """

    parts: tuple[ScenarioPart, ...]
    counts: Mapping[str, int]
    text: str

    @property
    def missed(self) -> list[ScenarioPart]:
        """The parts that no run reached."""
        return [part for part in self.parts if not self.counts.get(part.key)]

    def table(self) -> list[tuple[What, int, int]]:
        """Return, for each kind of part there is, how many were reached, of how many."""
        missed = self.missed
        rows = [(what, [part for part in self.parts if part.what == what]) for what in WHATS]
        return [(what, len(own) - sum(one.what == what for one in missed), len(own)) for what, own in rows if own]

    def marked(self) -> str:
        """Return the text of the file with a mark and the reason in each line of which something was not reached."""
        why: dict[int, list[str]] = {}
        for part in self.missed:
            why.setdefault(part.line, []).append(part.text)
        lines = self.text.splitlines()
        width = len(str(len(lines)))
        return "\n".join(
            f"{number:>{width}} {'!' if number in why else ' '} {line}"
            + (f"   <-- not reached: {'; '.join(why[number])}" if number in why else "")
            for number, line in enumerate(lines, start=1)
        )


def parts_of(scenario: Scenario, text: str) -> tuple[ScenarioPart, ...]:
    """Return the parts of a scenario that a run can reach.

    Args:
        scenario: the scenario.
        text: its text.
    """
    parts = [part for number, entry in enumerate(scenario.agents) for part in _of_entry(number, entry)]
    tools = scenario.models.tools if scenario.models is not None else {}
    parts += [ScenarioPart("tool", f"tool {name}", ("models", "tools", name), f"tool {name}") for name in tools]
    functions = getattr(scenario.sections.get("tools"), "functions", {})
    parts += [ScenarioPart("tool", f"tool {name}", ("tools", "functions", name), f"tool {name}") for name in functions]
    root = spans(text)
    return tuple(
        attrs.evolve(part, line=_line(text, root, part.path)) for part in {one.key: one for one in parts}.values()
    )


def _line(text: str, root: Any, path: Path) -> int:
    """Return the line of a place, or of the innermost place around it that the file has."""
    while path:
        parent = root.at(path[:-1])
        entry = next((one for one in parent.entries if one.key == path[-1]), None) if parent is not None else None
        if entry is not None:
            return text.count("\n", 0, entry.start) + 1
        path = path[:-1]
    return 1


def _of_entry(number: int, entry: Agent) -> Iterator[ScenarioPart]:
    for place, rule in enumerate(entry.rules):
        path: Path = ("agents", number, "rules", place)
        named = f"rule {place + 1} of {entry.name}"
        yield ScenarioPart("rule", f"rule {entry.name} {place}", path, named)
        for at, operand in enumerate(operands(rule.when)):
            for truth in (True, False):
                text = f"{operand} is {str(truth).lower()}"
                yield ScenarioPart("condition", f"condition {entry.name} {place} {at} {truth}", (*path, "when"), text)
        for at, action in enumerate(rule.do):
            yield ScenarioPart(
                "action", f"action {entry.name} {place} {at}", (*path, "do", at), f"{action.kind} of {entry.name}"
            )
    for name in states_of(entry):
        values = _values(entry, name)
        for value in values:
            yield ScenarioPart(
                "state", f"state {entry.name} {name} {value}", ("agents", number, "state", name), f"{name} = {value}"
            )
        for place, rule in enumerate(entry.rules):
            after = _literal(rule.set.get(name))
            before = _required(rule, name)
            if after is not None and before is not None and after != before:
                key = f"transition {entry.name} {name} {before} {after}"
                yield ScenarioPart(
                    "transition", key, ("agents", number, "rules", place, "set"), f"{name}: {before} -> {after}"
                )


def operands(when: Expression) -> list[str]:
    """Return the parts that `and`, `or` and `not` join in a condition; the condition itself if it has none."""
    if when.text in ("true", "True", "false", "False"):
        return []
    return [ast.unparse(one) for one in _operands(when.tree)]


def _operands(tree: ast.expr) -> Iterator[ast.expr]:
    if isinstance(tree, ast.BoolOp):
        for value in tree.values:
            yield from _operands(value)
    elif isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        yield from _operands(tree.operand)
    else:
        yield tree


def states_of(entry: Agent) -> list[str]:
    """Return the state variables of an entry that begin with a text, and get texts: those of a state machine."""
    return [name for name, value in entry.state.items() if _literal(value) is not None]


def _literal(value: Any) -> str | None:
    """Return the text that a value is; None if it is no text, or an expression."""
    if value is None or not value.constant:
        return None
    text = value.evaluate({}, {})
    return text if isinstance(text, str) else None


def _values(entry: Agent, name: str) -> list[str]:
    texts = [_literal(entry.state[name]), *(_literal(rule.set.get(name)) for rule in entry.rules)]
    return list(dict.fromkeys(value for value in texts if value is not None))


def _required(rule: Rule, name: str) -> str | None:
    """Return the text that a state variable has if a rule is chosen, as its condition says; None: it does not say."""
    for part in rule.when.conjuncts():
        tree = part.tree
        if (
            isinstance(tree, ast.Compare)
            and len(tree.ops) == 1
            and isinstance(tree.ops[0], ast.Eq)
            and isinstance(tree.left, ast.Name)
            and tree.left.id == name
            and isinstance(tree.comparators[0], ast.Constant)
            and isinstance(tree.comparators[0].value, str)
        ):
            return tree.comparators[0].value
    return None


SEEN: Final = "operand_seen"
"""The function that conditions call in a run whose coverage is measured; no file can, because it is not declared."""


class Observer:
    """Counts which parts of a scenario a run reaches. It changes nothing in the run.

    Attributes:
        counts: by key of a part, how often it was reached.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._states: dict[str, list[str]] = {}  # by entry: the state variables with texts
        self._latest: dict[tuple[str, str], str] = {}

    def begin(self, runner: RunController) -> None:
        """Begin, before the first step of a run."""
        simulation = runner.simulation
        self._agents = simulation.world.agents
        simulation.factory.toolbox.add(SEEN, self._seen)
        for entry in simulation.scenario.agents:
            self._states[entry.name] = states_of(entry)
            rules = simulation.factory.rule_sets[entry.name]
            rules.rules = tuple(self._covered(entry.name, place, rule) for place, rule in enumerate(rules.rules))
        for name in self._agents:
            self.look(name)

    def _count(self, key: str) -> None:
        self.counts[key] = self.counts.get(key, 0) + 1

    def _seen(self, key: str, value: Any) -> Any:
        self._count(f"{key} {bool(value)}")
        return value

    def _covered(self, entry: str, place: int, rule: PolicyRule) -> PolicyRule:
        """Return a rule whose condition records of each of its operands whether it was true."""
        if rule.when is None:
            return rule
        tree = _Marking(f"condition {entry} {place}").visit(ast.parse(ast.unparse(rule.when.tree), mode="eval").body)
        try:
            when = Expression.parse(ast.unparse(tree))
        except ExpressionError:  # with the calls, it is longer than an expression may be
            return rule
        return PolicyRule(when, rule.actions, rule.set, rule.record, rule.let)

    def event(self, row: EventRow) -> None:
        """Take note of an event."""
        topic, agent = row[6], self._agents.get(row[5])
        if not topic.startswith("action.") or agent is None:
            return
        data = decode(encode(row[7]))
        done = not isinstance(data, Mapping) or data.get("success", True)
        if isinstance(agent, PolicyAgent) and (chosen := agent.chosen) is not None:
            entry = str(getattr(agent, "entry", ""))
            self._count(f"rule {entry} {chosen[0]}")
            if done:
                self._count(f"action {entry} {chosen[0]} {chosen[1]}")
        if done and isinstance(data, Mapping):
            for name in _tools_in(topic, data):
                self._count(f"tool {name}")

    def look(self, name: str) -> None:
        """Look at the state of an agent."""
        agent = self._agents.get(name)
        entry = "" if agent is None else str(getattr(agent, "entry", ""))
        for variable in self._states.get(entry, ()) if agent is not None else ():
            value = agent.state.get(variable) if agent is not None else None
            before = self._latest.get((name, variable))
            if not isinstance(value, str) or value == before:
                continue
            self._count(f"state {entry} {variable} {value}")
            if before is not None:
                self._count(f"transition {entry} {variable} {before} {value}")
            self._latest[name, variable] = value


def _tools_in(topic: str, data: JsonObject) -> Iterator[str]:
    """Yield the tools that an action called: itself, or by the answer of a model."""
    arguments = data.get("arguments")
    if topic == "action.use_tool" and isinstance(arguments, Mapping):
        yield str(arguments.get("tool"))
    for value in data.values():
        calls = value.get("calls") if isinstance(value, Mapping) else None
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                yield str(call.get("name"))


class _Marking(ast.NodeTransformer):
    """Has each operand of a condition go through the function `SEEN`."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._number = 0

    def visit(self, node: Any) -> Any:
        """Return a part of a condition with its operands marked."""
        if isinstance(node, ast.BoolOp):
            node.values = [self.visit(value) for value in node.values]
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self.visit(node.operand)
            return node
        call = ast.Call(ast.Name(SEEN, ast.Load()), [ast.Constant(f"{self._key} {self._number}"), node], [])
        self._number += 1
        return call
