"""From a checked syntax tree to the code of a function.

No text is compiled: each node of the tree becomes nodes of a new tree, and only that one is given to Python's compiler.
No name of an author becomes an identifier of the code. A name is looked up by its text, as a key of a mapping or in
whatever way the `Source` of names says; functions and helpers are objects among the globals; attributes and subscripts
are calls of `operations.item`; the variables of loops get names of our own. The code has no builtins.

What can grow is counted where it grows: numbers after each operation, texts and lists where they are joined, and in
loops each item, and each value of unknown size that a step compares, passes to a function, or keeps.

Where an operation can fail for a reason that an error should name, its code has a line number of its own. The line at
which the code failed leads to a `Mark`, which knows the name, or the operands and where their values are: nothing is
evaluated a second time to explain a failure.
"""

import ast
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeVar

import attrs

from sim.base.errors import RunError
from sim.base.expressions.declared import functions_at
from sim.base.expressions.errors import ExpressionError, did_you_mean
from sim.base.expressions.functions import OPERATORS, PURE_FUNCTIONS, number
from sim.base.expressions.limits import CHARACTERS, SCALARS, SIZELESS, counted, measured
from sim.base.expressions.missing import LENIENT, LENIENT_FUNCTIONS, ORDERINGS
from sim.base.expressions.names import Bindings, Names
from sim.base.expressions.operations import NoValueError, guarded, item, items, mapping, part, rows

Kind = Literal["number", "truth", "text", "none", "counted", "any"]
"""What is known about a value: a number, a truth value, a text no longer than the expression with a few numbers in it,
None, or a value whose size was counted."""

_SMALL: Final = frozenset({"number", "truth", "text", "none"})
_VALUED: Final = frozenset({"number", "truth", "text"})
KINDS: Final[Mapping[Any, Kind]] = {bool: "truth", int: "number", float: "number"}
"""What the annotation of a function says about its values."""

_LOOKS_ONLY: Final = frozenset({"len", "bool", "first"})
"""Pure functions whose work does not grow with their argument."""

_READS: Final = frozenset({"len", "choice"})
"""Functions that keep no list which they are given."""

_MAKES_MORE: Final = frozenset({"range"})
"""Pure functions whose value can be larger than their arguments."""

_KIND_OF: Final = {name: KINDS.get(function.returns, "any") for name, function in functions_at("any").items()}
_SURE: Final = 10**15  # what lies between plus and minus this is a number that JSON can hold
_FILE: Final = "<expression>"
_INLINE: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div)

Code = tuple[ast.expr, Kind]
Node = TypeVar("Node", bound=ast.AST)


class Source(Protocol):
    """Where the names and functions of expressions come from."""

    def name(self, writer: "Writer", name: str) -> Code:
        """Return the code that gives the value of a name, and what is known about it."""

    def function(self, writer: "Writer", name: str, *, only_read: bool) -> Code:
        """Return the code that gives a function which is not pure, and what is known about its results.

        Args:
            writer: what writes the code.
            name: the name of the function.
            only_read: whether the value of the call is read at once and not kept, so that it need not be a copy.
        """

    def call(
        self, writer: "Writer", name: str, arguments: list[ast.expr], *, only_read: bool, keeps: bool
    ) -> ast.expr | None:
        """Return code in place of the call of a function that is not pure, which takes longer; None: it is called.

        Args:
            writer: what writes the code.
            name: the name of the function.
            arguments: the code of its arguments, all of them by place.
            only_read: as for `function`.
            keeps: whether the code may keep values in variables of its own (`Writer.keep`).
        """

    def equal_states(self, writer: "Writer", agents: ast.expr, key: str, value: ast.expr) -> ast.expr | None:
        """Return code that counts the agents of which `state_of` a key equals a value; None: each of them is asked.

        The value of the code is None where each of them has to be asked: for an agent that there is not, say.

        Args:
            writer: what writes the code.
            agents: the code of a list of the names of the agents.
            key: the key.
            value: the node of the value: a literal or a name.
        """

    def names(self, what: Literal["name", "function"], local: Names) -> list[str]:
        """Return all names or functions, for hints; `local` are the values of the arguments of the code."""


@attrs.frozen
class Mark:
    """What is known about a line of code.

    Attributes:
        text: the expression.
        what: whether a name or a function is looked up there; None: neither.
        name: its name.
        operands: the operands of an operation, each with the local variable that holds its value; None: no variable.
    """

    text: str
    what: Literal["name", "function"] | None = None
    name: str = ""
    operands: tuple[tuple[ast.expr, str | None], ...] = ()


class Compiled:
    """Compiled functions with the marks that explain their failures.

    Args:
        source: where their names come from.
        marks: the marks by line.
        namespace: the globals of the functions, by which they are recognised.
    """

    __slots__ = ("_globals", "_marks", "_source")

    def __init__(self, source: Source, marks: list[Mark], namespace: Bindings) -> None:
        self._source = source
        self._marks = marks
        self._globals = namespace

    def explain(self, error: Exception) -> Exception:
        """Return the error of the expression for an error that came out of one of the functions.

        It is `error` itself if no expression of the code is the reason, or if it is about the whole run.
        """
        if isinstance(error, RunError):
            return error
        frame, line = None, 1
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_globals is not self._globals:
            traceback = traceback.tb_next
        while traceback is not None and traceback.tb_frame.f_globals is self._globals:  # a loop has a frame of its own
            frame, line = traceback.tb_frame, traceback.tb_lineno
            traceback = traceback.tb_next
        mark = self._marks[line - 1]
        if not mark.text:
            return error
        local = {} if frame is None else frame.f_locals
        text, hint = str(error), getattr(error, "hint", None)
        if mark.what is not None and isinstance(error, KeyError):
            text = f"there is no {mark.what} {mark.name!r} here"
            hint = did_you_mean(mark.name, self._source.names(mark.what, local))
        elif (lacking := _lacking(mark, error, local)) is not None:
            written = ast.unparse(lacking)
            text = f"`{written}` has no value (null)"
            hint = f"test it first: {written} is not None and ..."
        explained = ExpressionError(f"{mark.text!r}: {text or type(error).__name__}", hint=hint)
        explained.__cause__ = None if isinstance(error, ExpressionError) else error
        return explained


def _lacking(mark: Mark, error: Exception, local: Names) -> ast.expr | None:
    """Return the operand that has no value, if that is why an operation failed."""
    if isinstance(error, NoValueError):
        return mark.operands[error.place][0] if mark.operands else None
    if isinstance(error, TypeError | ExpressionError):
        for node, variable in mark.operands:
            if variable is None and isinstance(node, ast.Constant) and node.value is None:
                return node
            if variable is not None and variable in local and local[variable] is None:
                return node
    return None


class Writer:
    """Writes the code of expressions.

    Args:
        source: where names and functions come from.
        lenient: whether what is computed from no value, and a quotient by zero, is None and no error.
    """

    def __init__(self, source: Source, *, lenient: bool = False) -> None:
        self._source = source
        self._lenient = lenient
        self._operators = LENIENT if lenient else OPERATORS
        self._pure = LENIENT_FUNCTIONS if lenient else PURE_FUNCTIONS
        self._globals: Bindings = {"__builtins__": {}}
        self._held: dict[int, str] = {}  # the globals, by identity
        self._marks = [Mark("")]  # the first line is that of code that belongs to no expression
        self._line = 1  # the line of all code of the present expression that has no line of its own
        self._text = ""
        self._fresh = 0
        self._bound: dict[str, str] = {}  # the variables of the loops around the present node
        self._loops = 0  # how many there are
        self._in_source = 0  # whether the present node is in the list of a loop, where Python allows no `:=`
        self._only_read: ast.expr | None = None  # a node whose value is read at once and not kept

    # -- functions

    def expression(self, tree: ast.expr, text: str, *, whole: bool = True) -> Code:
        """Return the code of an expression.

        Args:
            tree: its checked syntax tree.
            text: how errors name it.
            whole: whether the value is kept, so that it must not be too large.
        """
        self._text = text
        self._line = self._mark(Mark(text))
        node, kind = self._go(tree)
        if whole and kind not in _SMALL:
            kept, value = self.keep(node)  # for the same reason as in `_counted`
            scalar = ast.Compare(ast.Attribute(kept, "__class__", ast.Load()), [ast.In()], [self.hold(SCALARS)])
            node = ast.IfExp(scalar, value, _call(self.hold(measured), value))
        if any(isinstance(inner, ast.ListComp) for inner in ast.walk(node)):
            work = ast.NamedExpr(_store("W"), ast.List([ast.Constant(0)], ast.Load()))
            node = ast.BoolOp(ast.And(), [work, node])  # a list with one item is true
        for inner in ast.walk(node):
            if not hasattr(inner, "lineno"):
                _at(inner, self._line)
        return node, kind

    def function(self, arguments: str, body: list[ast.stmt]) -> Callable[..., Any]:
        """Return a function with a body.

        Args:
            arguments: the names of its arguments, as in a `def`.
            body: its statements, made from the code of expressions.
        """
        module = ast.parse(f"def expression({arguments}): pass")  # our own text, without a word of an author
        definition = module.body[0]
        assert isinstance(definition, ast.FunctionDef), "as written one line above"
        definition.body = body
        for inner in ast.walk(module):
            if not hasattr(inner, "lineno"):
                _at(inner, 1)
        code = next(c for c in compile(module, _FILE, "exec").co_consts if isinstance(c, types.CodeType))
        return types.FunctionType(code, self._globals)

    def finish(self) -> Compiled:
        """Return what explains the failures of the functions."""
        return Compiled(self._source, self._marks, self._globals)

    def hold(self, value: Any) -> ast.expr:
        """Return the code of an object: a global with a name of our own."""
        name = self._held.get(id(value))
        if name is None:
            name = self._held[id(value)] = f"g{len(self._held)}"
            self._globals[name] = value
        return ast.Name(name, ast.Load())

    def marked(self, node: ast.expr, what: Literal["name", "function"], name: str) -> ast.expr:
        """Return code whose `KeyError` means that there is no such name or function."""
        return _at(node, self._mark(Mark(self._text, what, name)))

    def keep(self, code: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return code that keeps a value in a variable of its own, and the code of this variable."""
        variable = self._variable("t")
        return ast.NamedExpr(_store(variable), code), _load(variable)

    def _mark(self, mark: Mark) -> int:
        self._marks.append(mark)
        return len(self._marks)

    def _variable(self, letter: str) -> str:
        self._fresh += 1
        return f"{letter}{self._fresh}"

    # -- nodes

    def _go(self, node: ast.expr) -> Code:
        method: Callable[[Any], Code] = getattr(self, f"_{type(node).__name__.lower()}")
        return method(node)

    def _node(self, node: ast.expr) -> ast.expr:
        return self._go(node)[0]

    def _read(self, node: ast.expr) -> ast.expr:
        """Return the code of a value that is read at once and not kept."""
        self._only_read = node
        return self._go(node)[0]

    def _constant(self, node: ast.Constant) -> Code:
        value = node.value
        if isinstance(value, bool):
            return ast.Constant(value), "truth"
        if isinstance(value, int | float):
            return ast.Constant(value), "number"
        if value is None:
            return ast.Constant(value), "none"
        return ast.Constant(value), "text"

    def _name(self, node: ast.Name) -> Code:
        if node.id in self._bound:
            return _load(self._bound[node.id]), "any"
        return self._source.name(self, node.id)

    def _unaryop(self, node: ast.UnaryOp) -> Code:
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(ast.Not(), self._read(node.operand)), "truth"
        code, kind = self._go(node.operand)
        if kind == "number" and not self._lenient:
            if isinstance(code, ast.Constant) and isinstance(node.op, ast.USub):
                return ast.Constant(-code.value), "number"  # type: ignore[operator]  # a number
            return (ast.UnaryOp(ast.USub(), code) if isinstance(node.op, ast.USub) else code), "number"
        return self._operation(self._operators[type(node.op)], [node.operand], [(code, kind)]), self._result("number")

    def _binop(self, node: ast.BinOp) -> Code:
        left, right = self._go(node.left), self._go(node.right)
        kind = type(node.op)
        if left[1] == right[1] == "number" and kind in _INLINE and not self._lenient and not self._in_source:
            variable = self._variable("t")
            sure = ast.Compare(
                ast.Constant(-_SURE),
                [ast.Lt(), ast.Lt()],
                [ast.NamedExpr(_store(variable), ast.BinOp(left[0], node.op, right[0])), ast.Constant(_SURE)],
            )
            return ast.IfExp(sure, _load(variable), _call(self.hold(number), _load(variable))), "number"
        if left[1] == right[1] == "text" and kind is ast.Add:  # what is written in one expression, and numbers
            return ast.BinOp(left[0], ast.Add(), right[0]), "text"
        operation = self._operation(self._operators[kind], [node.left, node.right], [left, right])
        if kind is not ast.Add or "number" in (left[1], right[1]):
            return operation, self._result("number")
        return self._grown(operation)

    def _result(self, kind: Kind) -> Kind:
        return "any" if self._lenient else kind  # it may be None

    def _operation(self, function: Callable[..., Any], nodes: list[ast.expr], operands: list[Code]) -> ast.expr:
        """Return the call of an operator or pure function that says which operand has no value if it fails."""
        codes, kept = self._keep(nodes, operands)
        if kept is None:
            return _call(self.hold(function), *codes)
        line = self._mark(Mark(self._text, operands=kept))
        if self._in_source:
            return _at(_call(self.hold(guarded), self.hold(function), *codes), line)
        return _at(_call(self.hold(function), *codes), line)

    def _keep(
        self, nodes: list[ast.expr], operands: list[Code]
    ) -> tuple[list[ast.expr], tuple[tuple[ast.expr, str | None], ...] | None]:
        """Return the code of operands that leaves their values in local variables, and these variables."""
        codes, kept = [], []
        for node, (code, kind) in zip(nodes, operands, strict=True):
            variable = None
            if kind not in _SMALL and not self._in_source:
                variable = self._variable("t")
                code = ast.NamedExpr(_store(variable), code)
            codes.append(code)
            kept.append((node, variable))
        return codes, None if all(kind in _VALUED for _, kind in operands) else tuple(kept)

    def _boolop(self, node: ast.BoolOp) -> Code:
        parts = [self._go(value) for value in node.values]
        kinds = {kind for _, kind in parts}
        return ast.BoolOp(node.op, [code for code, _ in parts]), kinds.pop() if len(kinds) == 1 else "any"

    def _ifexp(self, node: ast.IfExp) -> Code:
        test, (yes, one), (no, other) = self._read(node.test), self._go(node.body), self._go(node.orelse)
        return ast.IfExp(test, yes, no), one if one == other else "any"

    def _compare(self, node: ast.Compare) -> Code:
        nodes, kinds = [node.left, *node.comparators], [type(operation) for operation in node.ops]
        operands = [self._go(operand) for operand in nodes]
        if self._loops:
            operands = [self._compared(kinds, operands, place) for place in range(len(nodes))]
        if self._lenient:
            operations = self.hold(tuple(LENIENT[kind] for kind in kinds))
            return _call(self.hold(_chain), operations, *(code for code, _ in operands)), "any"
        ordered = [
            any(kind in ORDERINGS for kind in kinds[max(0, place - 1) : place + 1]) for place in range(len(nodes))
        ]
        line, codes = self._line, [code for code, _ in operands]
        if any(ordered) and not (self._in_source and len(kinds) > 1):
            chosen = [place for place, orders in enumerate(ordered) if orders]
            some, kept = self._keep([nodes[place] for place in chosen], [operands[place] for place in chosen])
            for place, code in zip(chosen, some, strict=True):
                codes[place] = code
            if kept is not None:
                line = self._mark(Mark(self._text, operands=kept))
            if self._in_source and kept is not None:
                return _at(_call(self.hold(guarded), self.hold(OPERATORS[kinds[0]]), *codes), line), "truth"
        for place, kind in enumerate(kinds):
            if kind in (ast.Is, ast.IsNot) and isinstance(codes[place], ast.Constant):
                codes[place] = self.hold(codes[place].value)  # type: ignore[attr-defined]  # Python warns of `1 is None`
        return _at(ast.Compare(codes[0], node.ops, codes[1:]), line), "truth"

    def _compared(self, kinds: list[type[ast.cmpop]], operands: list[Code], place: int) -> Code:
        """Return an operand of a comparison in a loop, counted if the comparison may go over all of it."""
        code, kind = operands[place]
        if kind in _SMALL or kind == "counted" or (len(kinds) == 1 and kinds[0] in (ast.Is, ast.IsNot)):
            return code, kind
        if len(kinds) == 1 and kinds[0] not in (ast.In, ast.NotIn) and operands[1 - place][1] in _SMALL:
            return code, kind  # what is compared with something small is compared up to there
        return self._counted(code), "counted"

    def _call(self, node: ast.Call) -> Code:
        assert isinstance(node.func, ast.Name), "checked by the grammar"
        name, pure = node.func.id, node.func.id in PURE_FUNCTIONS
        if name == "sum" and (counts := self._counts_equal(node)) is not None:
            return counts
        only_read, self._only_read = self._only_read is node, None
        function, kind = (None, _KIND_OF[name]) if pure else self._source.function(self, name, only_read=only_read)
        if name in _READS and len(node.args) == 1:
            self._only_read = node.args[0]
        arguments = [self._go(argument) for argument in node.args]
        keywords = [ast.keyword(keyword.arg, self._node(keyword.value)) for keyword in node.keywords]
        if function is not None:
            codes, call = [code for code, _ in arguments], None
            if not keywords:  # in the list of a loop, Python allows no `:=`
                call = self._source.call(self, name, codes, only_read=only_read, keeps=not self._in_source)
            call = call or ast.Call(function, codes, keywords)
            return self._grown(call) if kind not in _SMALL else (call, kind)
        if self._loops and name not in _LOOKS_ONLY:
            arguments = [(code if kind in _SMALL else self._counted(code), kind) for code, kind in arguments]
            keywords = [ast.keyword(keyword.arg, self._counted(keyword.value)) for keyword in keywords]
        if name == "str" and len(arguments) == 1 and arguments[0][1] in ("number", "truth", "none"):
            kind = "text"
        operation = self._operation(self._pure[name], node.args, arguments)
        assert isinstance(operation, ast.Call), "an operation is a call"
        operation.keywords = keywords
        return self._grown(operation) if name in _MAKES_MORE else (operation, self._result(kind))

    def _counts_equal(self, node: ast.Call) -> Code | None:
        """Return the code of `sum(state_of(x, key) == value for x in agents)` that needs no loop; None: there is none.

        A model of people and their neighbours says this in each turn, and a step of a loop takes longer than a
        comparison.
        """
        loop = _alone(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if loop is None or self._lenient or self._in_source:
            return None
        one = _equal_state(loop)
        if one is None or (isinstance(one[1], ast.Name) and one[1].id in self._bound):
            return None
        source, agents = self.keep(self._source_of(loop.generators[0]))
        counts = self._source.equal_states(self, source, *one)
        if counts is None:
            return None
        count, counted = self.keep(counts)
        asked = self._operation(self._pure["sum"], node.args, [self._listcomp(loop, agents)])
        return ast.IfExp(ast.Compare(count, [ast.IsNot()], [ast.Constant(None)]), counted, asked), "number"

    def _attribute(self, node: ast.Attribute) -> Code:
        return _call(self.hold(item), self._node(node.value), ast.Constant(node.attr)), "any"

    def _subscript(self, node: ast.Subscript) -> Code:
        value = self._node(node.value)
        if not isinstance(node.slice, ast.Slice):
            return _call(self.hold(item), value, self._node(node.slice)), "any"
        bounds = (node.slice.lower, node.slice.upper, node.slice.step)
        codes = [ast.Constant(None) if bound is None else self._node(bound) for bound in bounds]
        return self._grown(_call(self.hold(part), value, *codes))

    def _dict(self, node: ast.Dict) -> Code:
        keys, values = [self._node(key) for key in node.keys if key], [self._node(value) for value in node.values]
        return self._grown(_call(self.hold(mapping), ast.Dict(keys, values)))  # type: ignore[arg-type]  # no `**` in it

    def _list(self, node: ast.List) -> Code:
        return self._grown(ast.List([self._node(element) for element in node.elts], ast.Load()))

    def _tuple(self, node: ast.Tuple) -> Code:
        return self._grown(ast.Tuple([self._node(element) for element in node.elts], ast.Load()))

    def _source_of(self, loop: ast.comprehension) -> ast.expr:
        """Return the code of the list that a loop goes over, whose items count."""
        self._in_source += 1
        source = _call(self.hold(items), self._read(loop.iter), _load("W"))
        self._in_source -= 1
        return source

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp, first: ast.expr | None = None) -> Code:
        """Return the code of a list; `first` is that of the list of its first loop if this was written before."""
        outer = dict(self._bound)
        loops = []
        for loop in node.generators:
            source, first = self._source_of(loop) if first is None else first, None
            target: ast.expr
            if isinstance(loop.target, ast.Name):
                target = self._bind(loop.target)
            else:
                assert isinstance(loop.target, ast.Tuple | ast.List), "checked by the grammar"
                source = _call(self.hold(rows), source, ast.Constant(len(loop.target.elts)))
                target = ast.Tuple([self._bind(name) for name in loop.target.elts], ast.Store())
            self._loops += 1
            tests = [self._node(condition) for condition in loop.ifs]
            loops.append(ast.comprehension(target, source, tests, 0))
        element, kind = self._go(node.elt)
        if kind not in _SMALL and kind != "counted":
            element = self._counted(element)
        self._bound = outer
        self._loops -= len(loops)
        return ast.ListComp(element, loops), "counted"

    _generatorexp = _listcomp

    def _bind(self, name: ast.expr) -> ast.Name:
        assert isinstance(name, ast.Name), "checked by the grammar"
        variable = self._bound[name.id] = self._variable("b")
        return _store(variable)

    def _grown(self, code: ast.expr) -> Code:
        """Return the code of a value that an operation has made; in a loop its size counts."""
        return (self._counted(code), "counted") if self._loops else (code, "any")

    def _counted(self, code: ast.expr) -> ast.expr:
        if self._in_source:
            return _call(self.hold(counted), code, _load("W"))
        kept, value = self.keep(code)  # most values have no size that counts, and a call takes longer than to see this
        plain = ast.Compare(ast.Attribute(kept, "__class__", ast.Load()), [ast.In()], [self.hold(SIZELESS)])
        text = ast.Compare(ast.Attribute(value, "__class__", ast.Load()), [ast.Is()], [self.hold(str)])
        short = ast.Compare(_call(self.hold(len), value), [ast.Lt()], [ast.Constant(CHARACTERS)])
        sizeless = ast.BoolOp(ast.Or(), [plain, ast.BoolOp(ast.And(), [text, short])])
        return ast.IfExp(sizeless, value, _call(self.hold(counted), value, _load("W")))


class _Mappings:
    """Names and functions that are given as two mappings, `N` and `F`."""

    def name(self, writer: Writer, name: str) -> Code:
        """See `Source`."""
        return writer.marked(ast.Subscript(_load("N"), ast.Constant(name), ast.Load()), "name", name), "any"

    def function(self, writer: Writer, name: str, *, only_read: bool) -> Code:
        """See `Source`."""
        return writer.marked(ast.Subscript(_load("F"), ast.Constant(name), ast.Load()), "function", name), "any"

    def call(
        self, writer: Writer, name: str, arguments: list[ast.expr], *, only_read: bool, keeps: bool
    ) -> ast.expr | None:
        """See `Source`."""
        return None

    def equal_states(self, writer: Writer, agents: ast.expr, key: str, value: ast.expr) -> ast.expr | None:
        """See `Source`."""
        return None

    def names(self, what: Literal["name", "function"], local: Names) -> list[str]:
        """See `Source`."""
        return list(local.get("N" if what == "name" else "F", ()))


def _alone(node: ast.expr) -> ast.ListComp | ast.GeneratorExp | None:
    """Return a list that is made in one loop over names, without a condition; None if the node is another one."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
        loop = node.generators[0]
        if not loop.ifs and isinstance(loop.target, ast.Name):
            return node
    return None


def _equal_state(node: ast.ListComp | ast.GeneratorExp) -> tuple[str, ast.expr] | None:
    """Return the key and the value of `state_of(x, key) == value` if that is the step of a loop over x."""
    test, target = node.elt, node.generators[0].target
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    for asks, value in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
        match asks:
            case ast.Call(ast.Name("state_of"), [ast.Name(name), ast.Constant(str(key))], []):
                if isinstance(target, ast.Name) and name == target.id:
                    own = isinstance(value, ast.Name) and value.id == name
                    return (key, value) if isinstance(value, ast.Constant | ast.Name) and not own else None
            case _:
                pass
    return None


def compile_expression(tree: ast.expr, text: str, *, lenient: bool) -> tuple[Callable[..., Any], Compiled]:
    """Return a function of names and functions that gives the value of an expression, and what explains its errors."""
    writer = Writer(_Mappings(), lenient=lenient)
    code, _ = writer.expression(tree, text)
    return writer.function("N, F", [ast.Return(code)]), writer.finish()


def _chain(operations: tuple[Callable[..., Any], ...], left: Any, *others: Any) -> Any:
    """Return whether all comparisons of a chain hold."""
    result: Any = True
    for operation, right in zip(operations, others, strict=True):
        result = operation(left, right)
        if not result:
            break
        left = right
    return result


def _at(node: Node, line: int) -> Node:
    """Give a node a line, if it is of a kind that has one."""
    if "lineno" in node._attributes:
        place: Any = node
        place.lineno = place.end_lineno = line
        place.col_offset = place.end_col_offset = 0
    return node


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])
