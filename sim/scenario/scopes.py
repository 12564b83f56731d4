"""The names and functions that an expression may use in each place of a scenario file."""

import ast
import keyword
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, cast

import attrs

from sim.agents import Family, metric_functions, toolbox  # noqa: F401 - the modules declare functions
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError, did_you_mean, functions_at
from sim.base.expressions.declared import DECLARED, Needs, RuleFunction, Senses
from sim.llm.names import NAMES as MODEL_NAMES
from sim.scenario.population import Population
from sim.scenario.symbols import Kind, Symbols

Place = Literal[
    "agent", "start", "entry", "world", "where", "item", "cost", "formula", "tool", "model", "call", "work",
    "intervention", "place", "site", "property", "occurrence", "answer",
]  # fmt: skip
"""The place of an expression: a rule, a value that is evaluated once at the start (`entry`: among the state variables
of the agent, or after them), metrics and stop, the `where` of an event condition or of an item to get, costs, the
formula of an artifact, that of a tool, a scripted answer, the call of a tool, the work of an employee, an intervention
(for each agent that it may concern), a property of a place, its variables and rules (`site`), a property of runs, or a
condition on an event in one (`answer`: on one that follows another)."""

NAMES_OF_RULES: Final[Mapping[str, tuple[Senses, str]]] = {
    "now": ("nothing", "the simulated time"),
    "me": ("nothing", "its own name"),
    "index": ("nothing", "its own number among the agents of its entry"),
    "group": ("self", "its own group"),
    "place": ("shared", "the place where it is"),
    "balance": ("shared", "its own money"),
    "iteration": ("self", "the number of its iterations"),
    "event": ("shared", "the event that woke it, or the next one of those it subscribes to"),
    "message": ("shared", "the message that it reads"),
    "messages": ("shared", "the number of messages that wait for it"),
    "result": ("self", "the result of its last action"),
    "woken_by": ("shared", "what woke it"),
    "pi": ("nothing", "the number π"),
}
"""The names that rules can use beside state variables: what they read (see `Senses`), and in words."""

AGENT_NAMES = frozenset(NAMES_OF_RULES)
AGENT_FUNCTIONS = frozenset(functions_at("agent"))
WORLD_FUNCTIONS = frozenset(functions_at("world"))
_START_FUNCTIONS = frozenset(functions_at("start"))
WHERE_NAMES = frozenset({"topic", "data", "source", "time"})
CALL_NAMES = frozenset({"tool", "args", "agent", "kind", "now"})
WORK_NAMES = frozenset({"now", "me", "item", "task", "data", "results", "stats"})
START_NAMES = frozenset({"now", "me", "index", "group", "pi"})
PLACE_NAMES = frozenset({"place", "index", "x", "y", "pi"})
FORMULA_NAMES = frozenset({"args", "content", "now", "caller"})
OCCURRENCE_NAMES = WHERE_NAMES | {"now"}
INTERVENTION_NAMES = START_NAMES | {"place", "balance"}
RESERVED = AGENT_NAMES | {"true", "false", "none", "null", "args", "caller", "size"} | set(keyword.kwlist)
"""Names that the state of an agent cannot use."""

_PURE = frozenset(PURE_FUNCTIONS)
_PLACES: dict[Place, tuple[frozenset[str], frozenset[str]]] = {
    "agent": (AGENT_NAMES, AGENT_FUNCTIONS | _PURE),
    "start": (START_NAMES, _START_FUNCTIONS | _PURE),
    "entry": (START_NAMES, _START_FUNCTIONS | _PURE),
    "world": (frozenset({"now", "pi"}), WORLD_FUNCTIONS | _PURE),
    "where": (WHERE_NAMES | AGENT_NAMES, _PURE),
    "item": (frozenset({"item"}) | AGENT_NAMES, _PURE),
    "cost": (frozenset({"size"}), _PURE),
    "formula": (FORMULA_NAMES, _PURE),
    "tool": (FORMULA_NAMES | {"user", "platform", "channel", "thread", "conversation"}, _PURE),
    "model": (MODEL_NAMES, AGENT_FUNCTIONS | _PURE),
    "call": (CALL_NAMES, _PURE),
    "work": (WORK_NAMES, AGENT_FUNCTIONS | _PURE),
    "place": (PLACE_NAMES, _PURE),
    "site": (PLACE_NAMES | {"now"}, _START_FUNCTIONS | _PURE),
    "intervention": (INTERVENTION_NAMES, AGENT_FUNCTIONS | _PURE),
    "property": (frozenset({"now", "pi"}), WORLD_FUNCTIONS | _PURE),
    "occurrence": (OCCURRENCE_NAMES, _PURE),
    "answer": (OCCURRENCE_NAMES | {"first"}, _PURE),
}

REFERS: dict[tuple[str, int | str], str] = {
    (function.name, place): to for function in DECLARED.values() for place, to in function.refers.items()
}
"""To what the arguments of functions refer."""

_NEEDS: dict[Needs, tuple[str, str]] = {
    "calendar": ("civil time", "add `calendar:` to the file"),
    "stock": ("something to gather", "add `stock:` to `places`"),
    "grid": ("places in rows and columns", "add `grid:` to `places`"),
}


def functions_of(place: Place) -> frozenset[str]:
    """Return the functions that expressions in a place can call."""
    own = metric_functions.METRICS.keys() if place in ("world", "property") else ()
    return _PLACES[place][1].union(own)


_MEMBERS: dict[str, tuple[str, ...]] = {
    "event": ("topic", "data", "source", "time"),
    "message": ("sender", "topic", "data", "time"),
    "result": ("success", "data", "error"),
}
"""The keys of what the names of an agent stand for."""


@attrs.define
class Context:
    """What validation needs from the rest of the file.

    Attributes:
        symbols: the names that the file declares.
        state: names of the state variables of the current agent.
        let: names of the values that the current rule has named.
        kept: names that the patterns of the current scripted rule capture.
        families: the families of classes of agents that the host program gives, by kind.
        graph: the graph that the places of the file refer to, a `sim.scenario.place_graphs.LoadedGraph`.
        each: the group whose agents the current property is about; None: it is about the world.
        populations: by entry, the agents that its table describes.
    """

    symbols: Symbols
    state: Collection[str] = ()
    let: Collection[str] = ()
    kept: Collection[str] = ()
    families: Mapping[str, Family] = attrs.field(factory=dict)
    graph: Any = None
    each: str | None = None
    populations: Mapping[str, Population] = attrs.field(factory=dict)

    def check(self, place: Place, expression: Expression) -> None:
        """Check the names, functions and literal references of an expression.

        Raises:
            ExpressionError: if it uses something that does not exist in this place.
        """
        names, functions = _PLACES[place][0], functions_of(place)
        if place == "property" and self.each is not None:
            names = names | INTERVENTION_NAMES | self.symbols.states_of(self.each, expression.names)
        if place in ("agent", "entry", "where", "item", "intervention") and self.state:
            names = names | frozenset(self.state)
        if place in ("agent", "where", "item") and self.let:
            names = names | frozenset(self.let)
        if place == "site":
            names = names | self.symbols.variables
        if place == "model":
            names = names | frozenset(self.kept)
        self._refuse_metrics(place, expression.names - names)
        Expression.parse(expression.text, names, functions)
        _check_calls(expression)
        self._require_needs(functions_at("agent", "world"), expression)
        group: str | None = None
        for literal in expression.literals:
            to = REFERS.get((literal.function, literal.position))
            if literal.position in (0, "group", "agent"):
                group = literal.text
            if to == "state" and group is not None:
                self.symbols.require_state(group, literal.text)
            elif to is not None and to != "state":
                self.symbols.require(cast(Kind, to), literal.text)
        for name, member in expression.members:
            members = _MEMBERS.get(name) if place == "agent" and name not in self.state else None
            if members is not None and member not in members:
                hint = did_you_mean(member, members) or f"it has {', '.join(members)}"
                raise ExpressionError(f"`{name}` has no {member[:80]!r}", hint=hint)

    def _refuse_metrics(self, place: Place, names: frozenset[str]) -> None:
        if place == "world" and (read := sorted(names & self.symbols.metrics)):
            raise ExpressionError(
                f"`{read[0]}` is a metric, and expressions read no metrics", hint="write the expression of the metric"
            )

    def _require_needs(self, declared: Mapping[str, RuleFunction], expression: Expression) -> None:
        for need, (what, hint) in _NEEDS.items():
            for name in sorted(expression.functions):
                if name in declared and need in declared[name].needs and not getattr(self.symbols, need):
                    raise ExpressionError(f"{name}() needs {what}", hint=hint)


def _check_calls(expression: Expression) -> None:
    """Check the arguments of each call.

    Raises:
        ExpressionError: if no function of that name takes them.
    """
    for call in ast.walk(expression.tree) if expression.functions else ():
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        arguments = len(call.args), [keyword.arg or "" for keyword in call.keywords]
        faults = [function.fault(*arguments) for (_, name), function in DECLARED.items() if name == call.func.id]
        if faults and None not in faults:
            raise ExpressionError(str(faults[0]))
