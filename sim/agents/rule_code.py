"""The rules of a rule set as compiled functions, which the agents of one world share.

Names are resolved when the code is written: those that every agent has (`now`, `balance`, ...) to what computes them,
all others to the state variables of the agent. Functions are bound to the toolbox of the world, which acts for the
agent that used it last.
"""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, NoReturn, Protocol

import attrs

from sim.agents.toolbox import Toolbox
from sim.base.expressions import Expression, Functions, Names
from sim.base.expressions.compiler import KINDS, Code, Compiled, Source, Writer
from sim.base.expressions.limits import CHARACTERS, SCALARS, SIZELESS
from sim.kernel.compiled import core

Computed = Mapping[str, Callable[[Any], Any]]
"""What computes the names that every agent has."""


@attrs.frozen
class OwnAttribute:
    """What computes a name from an attribute of the agent, and can be written as code, which saves a call.

    Args:
        path: the attributes that lead to it from the agent.
        by_name: whether it is a method, which is called with the name of the agent.
    """

    path: str
    by_name: bool = False

    def __call__(self, agent: Any) -> Any:
        """Return the value of the name for an agent."""
        value = attrgetter(self.path)(agent)
        return value(agent.agent_id) if self.by_name else value

    def code(self) -> ast.expr:
        """Return the code of the value."""
        code = _load("A")
        for name in self.path.split("."):
            code = ast.Attribute(code, name, ast.Load())
        return ast.Call(code, [ast.Attribute(_load("A"), "agent_id", ast.Load())], []) if self.by_name else code


Scoped = Callable[[Any, Names], Names]
"""Returns the names of an agent, with the values that its rule has named."""

_NUMBERS: Final = frozenset({"now", "index", "balance", "iteration", "messages", "pi"})
"""Those of them that are numbers."""

_VALUED: Final = SCALARS - {type(None)}
"""The types of values that are there and have no parts."""

_NUMERIC: Final = SIZELESS - {type(None)}
"""Those of them whose size is not counted."""


class Value(Protocol):
    """A value in a rule: a literal, or an expression that is evaluated at each use."""

    @property
    def constant(self) -> bool:
        """Whether the value is a literal."""

    @property
    def names(self) -> frozenset[str]:
        """The names that the value uses."""

    def evaluate(self, names: Names, functions: Functions, /) -> Any:
        """Return the value."""


class Rule(Protocol):
    """The parts of a rule that become code."""

    @property
    def let(self) -> Mapping[str, Value]:
        """The values that the rule has named."""

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
    """The functions of a rule set. Each takes the agent, its state, and the values that its rules have named.

    Args:
        rules: the rules.
        toolbox: the functions of the world.
        computed: what computes the names that every agent has.
        scope: returns the names of an agent, and the values named, as a mapping, for values that evaluate themselves.

    Attributes:
        rules, toolbox: as given.
        names_values: whether a rule has named values; then `choose` adds them to the mapping that it is given.
        choose: returns the place of the first rule whose condition is true, without a message; None if there is none.
        arguments: for each rule, what returns the arguments of each action; None for an action whose arguments are
            literals.
        changes: for each rule, what returns the new values of state variables by name; None if there are none.
        records: for each rule, what returns the value to record, by name.
    """

    __slots__ = ("_compiled", "arguments", "changes", "choose", "names_values", "records", "rules", "toolbox")

    def __init__(
        self,
        rules: Sequence[Rule],
        toolbox: Toolbox,
        computed: Computed,
        scope: Scoped,
    ) -> None:
        self.rules = rules
        self.toolbox = toolbox
        self.names_values = any(rule.let for rule in rules)
        source = _Names(toolbox, computed)
        writer = Writer(source)

        def value(setting: Value) -> ast.expr:
            return _value(writer, setting, toolbox, scope)

        def returns(code: ast.expr) -> Callable[..., Any]:
            return writer.function("A, S, L", [ast.Return(code)])

        def each(values: Mapping[str, Value]) -> ast.expr:
            return ast.Dict([ast.Constant(name) for name in values], [value(setting) for setting in values.values()])

        self.choose = writer.function("A, S, L", _choice(writer, source, rules, value))
        self.arguments: list[list[Callable[..., Any] | None]] = []
        self.changes: list[Callable[..., Any] | None] = []
        self.records: list[dict[str, Callable[..., Any]]] = []
        for rule in rules:
            source.let = rule.let
            self.arguments.append(
                [None if action.constant is not None else returns(each(action.arguments)) for action in rule.actions]
            )
            self.changes.append(returns(each(rule.set)) if rule.set else None)
            self.records.append({name: returns(value(setting)) for name, setting in rule.record.items()})
        self._compiled: Compiled = writer.finish()

    def fail(self, error: Exception) -> NoReturn:
        """Raise the error of an expression for an error that came out of one of the functions."""
        raise self._compiled.explain(error)


class _Names(Source):
    """The names and functions of the rules of an agent: `A` is the agent, `S` its state, `L` has the values named.

    Attributes:
        let: the values that the present rule has named so far.
    """

    def __init__(self, toolbox: Toolbox, computed: Computed) -> None:
        self._toolbox = toolbox
        self._functions = toolbox.functions
        self._computed = computed
        self.let: Mapping[str, Value] = {}

    def name(self, writer: Writer, name: str) -> Code:
        """See `Source`."""
        if name in self.let:
            return ast.Subscript(_load("L"), ast.Constant(name), ast.Load()), "any"
        compute = self._computed.get(name)
        if compute is not None:
            if isinstance(compute, OwnAttribute):
                code = compute.code()
            else:
                code = ast.Call(writer.hold(compute), [_load("A")], [])
            return code, "number" if name in _NUMBERS else "any"
        read = ast.Subscript(_load("S"), ast.Constant(name), ast.Load())
        return writer.marked(read, "name", name), "any"

    def function(self, writer: Writer, name: str, *, only_read: bool) -> Code:
        """See `Source`."""
        function = (self._toolbox.shared.get(name) if only_read else None) or self._functions.get(name)
        if function is None:
            missing = ast.Subscript(writer.hold(self._functions), ast.Constant(name), ast.Load())
            return writer.marked(missing, "function", name), "any"
        return writer.hold(function), KINDS.get(inspect.signature(function).return_annotation, "any")

    def call(
        self, writer: Writer, name: str, arguments: list[ast.expr], *, only_read: bool, keeps: bool
    ) -> ast.expr | None:
        """See `Source`. The agent of the code is the one for which the functions act."""
        if name == "neighbours" and only_read and not arguments and self._toolbox.is_own(name):
            around = ast.Attribute(ast.Attribute(_load("A"), "world", ast.Load()), "around", ast.Load())
            return ast.Call(around, [ast.Attribute(_load("A"), "agent_id", ast.Load())], [])
        write = _WRITTEN.get((name, len(arguments))) if keeps else None
        return write(writer, self._toolbox, *arguments) if write is not None and self._toolbox.is_own(name) else None

    def equal_states(self, writer: Writer, agents: ast.expr, key: str, value: ast.expr) -> ast.expr | None:
        """See `Source`."""
        if not self._toolbox.is_own("state_of"):
            return None
        if isinstance(value, ast.Constant):
            wanted: ast.expr = ast.Constant(value.value)
        elif isinstance(value, ast.Name) and (value.id in self.let or value.id in self._computed):
            wanted = self.name(writer, value.id)[0]
        else:  # a variable that there is not is None, which is an error only where an agent is asked
            assert isinstance(value, ast.Name), "as the caller has checked"
            wanted = ast.Call(ast.Attribute(_load("S"), "get", ast.Load()), [ast.Constant(value.id)], [])
        others = writer.hold(self._toolbox.agents_by_name)
        return ast.Call(
            writer.hold(equal_states), [others, agents, ast.Constant(key), wanted, ast.Constant(CHARACTERS)], []
        )

    def names(self, what: Literal["name", "function"], local: Names) -> list[str]:
        """See `Source`."""
        return (
            list(self._functions) if what == "function" else [*local.get("S", ()), *local.get("L", ()), *self._computed]
        )


def _equal_states(others: Mapping[str, Any], names: Sequence[Any], key: str, value: Any, counts: int) -> int | None:
    """Return how many agents have a state variable that equals a value; None: each has to be asked by `state_of`.

    It is asked about an agent that there is not, a variable that it has not, and values with parts or of a size that
    counts.

    Args:
        others: the agents by name.
        names: the names of those that are asked.
        key: the name of the variable.
        value: the value.
        counts: the number of characters from which on the size of a text counts.
    """
    if value.__class__ not in _NUMERIC and (value.__class__ is not str or len(value) >= counts):
        return None
    count = 0
    for name in names:
        other = others.get(name) if name.__class__ is str else None
        state = None if other is None else other.state
        if state.__class__ is not dict:
            return None
        found = state.get(key)
        if found.__class__ not in _NUMERIC and (found.__class__ is not str or len(found) >= counts):
            return None
        count += found == value
    return count


equal_states: Final[Callable[..., int | None]] = _equal_states if core is None else core.equal_states


def _state_of(writer: Writer, toolbox: Toolbox, agent: ast.expr, key: ast.expr) -> ast.expr | None:
    """Return the code of `state_of` for an agent that exists and a value without parts; it calls it for all others."""
    if not isinstance(key, ast.Constant):
        return None
    whose, name = writer.keep(agent)
    other_is, other = writer.keep(ast.Call(writer.hold(toolbox.agents_by_name.get), [whose], []))
    get = ast.Attribute(ast.Attribute(other, "state", ast.Load()), "get", ast.Load())
    read, value = writer.keep(ast.Call(get, [key], []))
    exists = ast.Compare(other_is, [ast.IsNot()], [ast.Constant(None)])
    plain = ast.Compare(ast.Attribute(read, "__class__", ast.Load()), [ast.In()], [writer.hold(_VALUED)])
    asked = ast.Call(writer.hold(toolbox.functions["state_of"]), [name, key], [])
    return ast.IfExp(ast.BoolOp(ast.And(), [exists, plain]), value, asked)


def _choice_of(writer: Writer, toolbox: Toolbox, items: ast.expr) -> ast.expr:
    """Return the code of `choice`."""
    first, kept = writer.keep(items)
    drawn = ast.Call(_draw("choice"), [kept], [])
    return ast.IfExp(ast.Call(writer.hold(len), [first], []), drawn, ast.Constant(None))


def _chance(writer: Writer, toolbox: Toolbox, probability: ast.expr) -> ast.expr:
    """Return the code of `chance`."""
    return ast.Call(_draw("chance"), [probability], [])


def _draw(name: str) -> ast.expr:
    return ast.Attribute(ast.Attribute(_load("A"), "rng", ast.Load()), name, ast.Load())


_WRITTEN: Final[Mapping[tuple[str, int], Callable[..., ast.expr | None]]] = {
    ("chance", 1): _chance, ("choice", 1): _choice_of, ("state_of", 2): _state_of,
}  # fmt: skip
"""What writes the code of the functions that rules call most, by name and number of arguments."""


def _choice(
    writer: Writer, source: _Names, rules: Sequence[Rule], value: Callable[[Value], ast.expr]
) -> list[ast.stmt]:
    body: list[ast.stmt] = []
    for place, rule in enumerate(rules):
        source.let = let = dict[str, Value]()
        for name, setting in rule.let.items():  # each can use those before it
            body.append(ast.Assign([ast.Subscript(_load("L"), ast.Constant(name), ast.Store())], value(setting)))
            let[name] = setting
        chosen: ast.stmt = ast.Return(ast.Constant(place))
        if rule.when is None:
            return [*body, chosen]
        test, _ = writer.expression(rule.when.tree, rule.when.text, whole=False)
        body.append(ast.If(test, [chosen], []))
    return [*body, ast.Return(ast.Constant(None))]


def _value(writer: Writer, value: Value, toolbox: Toolbox, scope: Scoped) -> ast.expr:
    """Return the code of a value. A kind of value that has no code is asked each time."""
    expression = getattr(value, "expression", None)
    if isinstance(expression, Expression):
        return writer.expression(expression.tree, expression.text)[0]
    if value.constant and (literal := value.evaluate({}, {})).__class__ in SCALARS:
        return ast.Constant(literal)
    if (parts := getattr(value, "parts", None)) is not None:
        return _collection(parts, lambda part: _value(writer, part, toolbox, scope))
    evaluate = value.evaluate
    if value.constant:  # a list or a mapping, of which each use gets a copy
        return ast.Call(writer.hold(lambda: evaluate({}, {})), [], [])

    def by_itself(agent: Any, let: Names) -> Any:
        return evaluate(scope(agent, let), toolbox.functions)

    return ast.Call(writer.hold(by_itself), [_load("A"), _load("L")], [])


def _collection(parts: Any, value: Callable[[Value], ast.expr]) -> ast.expr:
    """Return the code of a list or mapping with values in it; what is no value is a constant."""
    if isinstance(parts, Mapping):
        codes = [_collection(part, value) for part in parts.values()]
        return ast.Dict([ast.Constant(key) for key in parts], codes)
    if isinstance(parts, list | tuple):
        return ast.List([_collection(part, value) for part in parts], ast.Load())
    return ast.Constant(parts) if parts.__class__ in SCALARS else value(parts)


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())
