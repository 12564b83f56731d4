"""The rules of a rule set as compiled functions, which the agents of one world share.

Names are resolved when the code is written: those that every agent has (`now`, `balance`, ...) to what computes them,
all others to the state variables of the agent. Functions are bound to the toolbox of the world, which acts for the
agent that used it last.
"""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn, Protocol

from sim.agents.toolbox import Toolbox
from sim.expressions import Expression
from sim.expressions.compiler import KINDS, Code, Compiled, Source, Writer

Computed = Mapping[str, Callable[[Any], Any]]
"""What computes the names that every agent has."""

_NUMBERS: Final = frozenset({"now", "index", "balance", "iteration", "messages", "pi"})
"""Those of them that are numbers."""

_SCALARS: Final = frozenset({int, float, bool, str, type(None)})


class Value(Protocol):
    """A value in a rule: a literal, or an expression that is evaluated at each use."""

    @property
    def constant(self) -> bool:
        """Whether the value is a literal."""

    @property
    def names(self) -> frozenset[str]:
        """The names that the value uses."""

    def evaluate(self, names: Mapping[str, object], functions: Mapping[str, Callable[..., object]], /) -> Any:
        """Return the value."""


class Rule(Protocol):
    """The parts of a rule that become code."""

    @property
    def when(self) -> Expression | None:
        """The condition; None: it is always true."""

    @property
    def actions(self) -> Sequence[Any]:
        """The actions, each with `arguments` and with `constant`: the action itself if all arguments are literals."""

    @property
    def set(self) -> Mapping[str, Value]:
        """The new values of state variables."""

    @property
    def record(self) -> Mapping[str, Value]:
        """The values to record."""


class RuleCode:
    """The functions of a rule set. Each takes the agent and its state.

    Args:
        rules: the rules.
        toolbox: the functions of the world.
        computed: what computes the names that every agent has.
        scope: returns the names of an agent as a mapping, for values that evaluate themselves.

    Attributes:
        rules, toolbox: as given.
        choose: returns the place of the first rule whose condition is true, without a message; None if there is none.
        arguments: for each rule, what returns the arguments of each action; None for an action whose arguments are
            literals.
        changes: for each rule, what returns the new values of state variables by name; None if there are none.
        records: for each rule, what returns the value to record, by name.
    """

    __slots__ = ("_compiled", "arguments", "changes", "choose", "records", "rules", "toolbox")

    def __init__(
        self, rules: Sequence[Rule], toolbox: Toolbox, computed: Computed, scope: Callable[[Any], Mapping[str, object]]
    ) -> None:
        self.rules = rules
        self.toolbox = toolbox
        writer = Writer(_Names(toolbox, computed))
        self.choose = writer.function("A, S", _choice(writer, rules))

        def returns(code: ast.expr) -> Callable[..., Any]:
            return writer.function("A, S", [ast.Return(code)])

        def each(values: Mapping[str, Value]) -> ast.expr:
            codes = [_value(writer, value, toolbox, scope) for value in values.values()]
            return ast.Dict([ast.Constant(name) for name in values], codes)

        self.arguments = [
            [None if action.constant is not None else returns(each(action.arguments)) for action in rule.actions]
            for rule in rules
        ]
        self.changes = [returns(each(rule.set)) if rule.set else None for rule in rules]
        self.records = [
            {name: returns(_value(writer, value, toolbox, scope)) for name, value in rule.record.items()}
            for rule in rules
        ]
        self._compiled: Compiled = writer.finish()

    def fail(self, error: Exception) -> NoReturn:
        """Raise the error of an expression for an error that came out of one of the functions."""
        raise self._compiled.explain(error)


class _Names(Source):
    """The names and functions of the rules of an agent: `A` is the agent, and `S` its state."""

    def __init__(self, toolbox: Toolbox, computed: Computed) -> None:
        self._functions = toolbox.functions
        self._computed = computed

    def name(self, writer: Writer, name: str) -> Code:
        """See `Source`."""
        compute = self._computed.get(name)
        if compute is not None:
            return ast.Call(writer.hold(compute), [_load("A")], []), "number" if name in _NUMBERS else "any"
        read = ast.Subscript(_load("S"), ast.Constant(name), ast.Load())
        return writer.marked(read, "name", name), "any"

    def function(self, writer: Writer, name: str) -> Code:
        """See `Source`."""
        function = self._functions.get(name)
        if function is None:
            missing = ast.Subscript(writer.hold(self._functions), ast.Constant(name), ast.Load())
            return writer.marked(missing, "function", name), "any"
        return writer.hold(function), KINDS.get(inspect.signature(function).return_annotation, "any")

    def known(self, what: Literal["name", "function"], local: Mapping[str, Any]) -> list[str]:
        """See `Source`."""
        return list(self._functions) if what == "function" else [*local.get("S", ()), *self._computed]


def _choice(writer: Writer, rules: Sequence[Rule]) -> list[ast.stmt]:
    body: list[ast.stmt] = []
    for place, rule in enumerate(rules):
        found: ast.stmt = ast.Return(ast.Constant(place))
        if rule.when is None:
            return [*body, found]
        body.append(ast.If(writer.expression(rule.when.tree, rule.when.text, whole=False)[0], [found], []))
    return [*body, ast.Return(ast.Constant(None))]


def _value(writer: Writer, value: Value, toolbox: Toolbox, scope: Callable[[Any], Mapping[str, object]]) -> ast.expr:
    """Return the code of a value. A kind of value that has no code is asked each time."""
    expression = getattr(value, "expression", None)
    if isinstance(expression, Expression):
        return writer.expression(expression.tree, expression.text)[0]
    if value.constant and (literal := value.evaluate({}, {})).__class__ in _SCALARS:
        return ast.Constant(literal)
    evaluate = value.evaluate
    return ast.Call(writer.hold(lambda agent: evaluate(scope(agent), toolbox.functions)), [_load("A")], [])


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())
