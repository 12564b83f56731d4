"""Outcomes: what a study measures in each of its runs. The section `outcomes` of a scenario names them.

An outcome is an expression, with the same grammar in a file, on the command line and in Python:

    mean(gini, from=200s)        share(vote, yes, group=left)        first_time(ill > 10)        queue(desk, from=1h)

Durations (`200s`) and the keyword `from` are no Python, so they are written as Python would have them; Python's own
parser then makes a syntax tree, and only the nodes below are accepted. Nothing is evaluated by Python.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Final, Literal

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import Expression, ExpressionError, did_you_mean
from sim.kernel import to_ns
from sim.world.section import Reads, define_section, draws_nothing

Role = Literal[
    "metric", "time", "condition", "survey", "option", "question", "group", "measure", "judge", "sql", "slots", "pool",
    "stock",
]  # fmt: skip
"""What an argument of a function of outcomes is."""

MOST_CHARACTERS: Final = 4000
"""The longest expression of an outcome: a query can be long."""

_WINDOW: Final[Mapping[str, Role]] = {"from": "time", "to": "time"}
_ASKED: Final[Mapping[str, Role]] = {"question": "question", "group": "group", "at": "time"}


@attrs.frozen
class Function:
    """A function of outcomes.

    Attributes:
        arguments: its positional arguments, by name.
        options: its arguments with a keyword, which can be left out.
        what: what it measures, in a few words.
    """

    arguments: Mapping[str, Role]
    options: Mapping[str, Role]
    what: str


FUNCTIONS: Final[Mapping[str, Function]] = {
    "last": Function({"metric": "metric"}, {}, "the value of a metric at the end of the run"),
    "mean": Function({"metric": "metric"}, _WINDOW, "the mean of the samples of a metric"),
    "max": Function({"metric": "metric"}, _WINDOW, "the largest sample of a metric"),
    "min": Function({"metric": "metric"}, _WINDOW, "the smallest sample of a metric"),
    "at": Function({"metric": "metric", "time": "time"}, {}, "the latest sample of a metric at a time"),
    "first_time": Function(
        {"condition": "condition"}, _WINDOW, "the seconds until a condition over metrics is true at a sample"
    ),
    "share": Function(
        {"survey": "survey", "option": "option"}, _ASKED, "the share of those that chose an option, of all that chose"
    ),
    "mean_answer": Function({"survey": "survey"}, _ASKED, "the mean of the numbers that a survey was answered with"),
    "missing_answers": Function({"survey": "survey"}, _ASKED, "how many answers to a survey are missing"),
    "score": Function(
        {"measure": "measure"}, {"judge": "judge", "option": "option"},
        "the mean of the scores of a measure, or the share of scores with an option",
    ),
    "query": Function({"sql": "sql"}, {}, "the one number that a SELECT over the views of the run returns"),
    "use": Function({"pool": "slots"}, _WINDOW, "how many slots of a pool are in use, averaged over time"),
    "utilization": Function({"pool": "slots"}, _WINDOW, "the share of the slots of a pool in use, averaged over time"),
    "queue": Function({"pool": "pool"}, _WINDOW, "how many requests wait at a pool, averaged over time"),
    "wait": Function({"pool": "pool"}, _WINDOW, "the seconds of waiting at a pool for each request served or waiting"),
    "level": Function({"pool": "stock"}, _WINDOW, "how much is in a container or a store, averaged over time"),
}  # fmt: skip
"""The functions of outcomes by name."""

OF_SURVEYS: Final = frozenset({"share", "mean_answer", "missing_answers"})
"""The functions of the answers to surveys."""

OF_POOLS: Final = frozenset({"use", "utilization", "queue", "wait", "level"})
"""The functions that watch pools while the run lasts."""

OF_RECORDS: Final = frozenset({"score", "query"})
"""The functions that read the record of the run."""

COUNTS: Final = ("done_", "refused_", "agents_")
"""How the names of counts begin: of actions that were done and refused, and of agents by state. Any run can have them;
one that it does not have is 0.
"""

MISSING: Final = "missing_"
"""How the names begin of how many answers to a survey are missing."""

_EXAMPLE: Final = "for example mean(gini, from=200s)"
_DURATION: Final = re.compile(r"(?<![\w.'\"-])(?:\d+(?:\.\d+)?(?:ns|us|ms|s|m|h|d))+(?!\w)")
_QUOTED: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_FROM: Final = re.compile(r"\bfrom\s*=(?!=)")


@attrs.frozen(eq=False)
class FunctionCall:
    """A call of a function of outcomes, or a bare name.

    Attributes:
        function: the name of the function; empty: the outcome that a run has by itself, under the name in `what`.
        what: what is measured: the name of a metric, survey, measure or pool, a query, or a condition.
        options: the other arguments by name; times are nanoseconds.
        condition: what `first_time` waits for; None for all other functions.
    """

    function: str
    what: str
    options: Mapping[str, str | int] = attrs.field(factory=dict)
    condition: Expression | None = None


@attrs.frozen
class Measurement:
    """A checked expression of an outcome.

    Attributes:
        text: the expression as it is written.
        calls: its calls, in order.
    """

    text: str
    calls: tuple[FunctionCall, ...]
    _value: "Callable[[Callable[[FunctionCall], float | None]], float | None]" = attrs.field(eq=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> "Measurement":
        """Return the outcome that a text describes. Names of metrics, surveys and so on are checked by `check_names`.

        Raises:
            ExpressionError: if it is none: naming the part that is wrong, with the nearest name as hint.
        """
        if not text.strip() or len(text) > MOST_CHARACTERS:
            raise ExpressionError(f"an outcome has 1 to {MOST_CHARACTERS:,} characters", hint=_EXAMPLE)
        parts = [
            part.replace("\n", " ") if place % 2 else re.sub(r"\s+", " ", part)
            for place, part in enumerate(_QUOTED.split(text.strip()))
        ]
        written = "".join(parts)
        as_python = "".join(
            part if place % 2 else _FROM.sub("from_=", _DURATION.sub(lambda match: f"'{match[0]}'", part))
            for place, part in enumerate(parts)
        )
        try:
            tree = ast.parse(as_python, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ExpressionError(f"{written!r:.80} is no outcome", hint=_EXAMPLE) from None
        reader = _Reader(as_python)
        try:
            value = reader.read(tree)
        except RecursionError:
            raise ExpressionError(f"{written!r:.80} is nested too deeply") from None
        if not reader.calls:
            raise ExpressionError(f"{written!r:.80} measures nothing", hint=_EXAMPLE)
        return cls(written, tuple(reader.calls), value)

    def value(self, of: "Callable[[FunctionCall], float | None]") -> float | None:
        """Return the value of the outcome; None if a part of it has none, or it divides by 0.

        Args:
            of: returns the value of a call.
        """
        return self._value(of)

    def uses(self, functions: Collection[str]) -> bool:
        """Return whether it calls one of some functions."""
        return any(call.function in functions for call in self.calls)


def is_expression(text: str) -> bool:
    """Return whether a text that is no name of an outcome is meant as an expression."""
    return any(sign in text for sign in "()+*/")


Value = Callable[[Callable[[FunctionCall], float | None]], float | None]

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
}


class _Reader:
    """Reads the syntax tree of one expression.

    Args:
        text: the expression, as Python has it.

    Attributes:
        calls: the calls so far.
    """

    def __init__(self, text: str) -> None:
        self.calls: list[FunctionCall] = []
        self._text = text

    def read(self, node: ast.expr) -> Value:
        """Return what computes the value of a node.

        Raises:
            ExpressionError: if the node is not allowed.
        """
        if isinstance(node, ast.Call):
            return self._called(self._call(node))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            operator, left, right = _OPERATORS[type(node.op)], self.read(node.left), self.read(node.right)
            return lambda of: _combined(operator, left(of), right(of))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.read(node.operand)
            return lambda of: None if (value := inner(of)) is None else -value
        if isinstance(node, ast.Constant) and node.value.__class__ in (int, float):
            try:
                number = float(node.value)
            except OverflowError:
                raise ExpressionError("a number of an outcome is too large", hint=_EXAMPLE) from None
            return lambda of: number
        if isinstance(node, ast.Name | ast.Attribute):
            return self._called(FunctionCall("", self._written(node)))
        raise ExpressionError(
            f"`{self._written(node):.60}` is no outcome: these are calls, numbers, + - * / and brackets", hint=_EXAMPLE
        )

    def _called(self, call: FunctionCall) -> Value:
        self.calls.append(call)
        return lambda of: of(call)

    def _call(self, node: ast.Call) -> FunctionCall:
        name = self._written(node.func)
        function = FUNCTIONS.get(name)
        if function is None:
            hint = did_you_mean(name, FUNCTIONS) or f"there are {', '.join(FUNCTIONS)}"
            raise ExpressionError(f"there is no function {name!r:.60} of outcomes", hint=hint)
        form = f"{name}({', '.join((*function.arguments, *(f'{key}=...' for key in function.options)))})"
        if len(node.args) != len(function.arguments):
            raise ExpressionError(f"{name} takes {', '.join(function.arguments)}", hint=f"write {form}")
        values = [
            self._argument(part, role, name) for part, role in zip(node.args, function.arguments.values(), strict=True)
        ]
        options: dict[str, str | int] = {}
        for keyword in node.keywords:
            key = (keyword.arg or "**").removesuffix("_")
            if key not in function.options or key in options:
                hint = did_you_mean(key, function.options) or f"write {form}"
                raise ExpressionError(f"{name} has no argument {key!r:.60}", hint=hint)
            options[key] = self._argument(keyword.value, function.options[key], name)
        if len(values) > 1:
            options |= dict(zip(tuple(function.arguments)[1:], values[1:], strict=True))
        if "from" in options and "to" in options and int(options["from"]) >= int(options["to"]):
            raise ExpressionError(f"{name}: `from` is not before `to`", hint=f"write {form}")
        what = str(values[0])
        condition = Expression.parse(what) if function.arguments.get("condition") else None
        for part in ast.walk(node.args[0]) if condition is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                said = f"a condition of {name} compares metrics with numbers, and {part.value!r:.40} is none"
                raise ExpressionError(said, hint="write a duration in seconds, such as 300 for 5m")
        if condition is not None and condition.functions:
            raise ExpressionError(f"a condition of {name} compares metrics, and calls no function", hint="write R > 10")
        return FunctionCall(name, what, options, condition)

    def _argument(self, node: ast.expr, role: Role, function: str) -> str | int:
        """Return an argument: a name as text, a time in nanoseconds, the number of a question."""
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
        if role == "time":
            constant = node.value if isinstance(node, ast.Constant) else None
            try:
                return to_ns(constant if constant.__class__ in (int, float, str) else "?")
            except UsageError:
                what = f"{function}: `{self._written(node):.40}` is no time"
                raise ExpressionError(what, hint="write seconds or a duration such as 200s") from None
        if role == "question":
            number = node.value if isinstance(node, ast.Constant) else None
            if number.__class__ is not int or number < 1:
                raise ExpressionError(f"{function}: a question is its number in the survey, from 1", hint="question=2")
            return number
        if role == "sql" and text is None:
            raise ExpressionError("query takes a SELECT in quotes", hint="query('SELECT count(*) FROM messages')")
        return self._written(node) if text is None else text

    def _written(self, node: ast.expr) -> str:
        """Return a part of the expression as it is written; names with dots and hyphens are names as well."""
        source = ast.get_source_segment(self._text, node) or ""
        return source if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call) else source.strip()


def _combined(operator: Callable[[float, float], float], left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    try:
        return operator(left, right)
    except (ZeroDivisionError, OverflowError):
        return None


@attrs.frozen
class SurveyQuestion:
    """A question of a survey: its options, and whether its answer is a number."""

    options: tuple[str, ...]
    is_number: bool


@attrs.frozen
class OutcomeNames:
    """The names of a scenario that outcomes can use.

    Attributes:
        metrics: its metrics.
        others: the other outcomes that a run has by itself; None: they are not known before the first run. Counts are
            not among them.
        surveys: its surveys, each with its questions.
        groups: names of groups, entries, and single agents.
        measures: the measures of its section `score`, each with its options.
        pools: its pools, each with its kind.
        synchronised: whether it runs in synchronised rounds, in which pools are not watched.
    """

    metrics: tuple[str, ...]
    others: tuple[str, ...] | None
    surveys: Mapping[str, tuple[SurveyQuestion, ...]]
    groups: tuple[str, ...]
    measures: Mapping[str, tuple[str, ...]]
    pools: Mapping[str, str]
    synchronised: bool = False


_SLOTS: Final = ("resource", "priority", "preemptive")


def check_names(measurement: Measurement, names: OutcomeNames) -> None:
    """Check the names that an outcome uses.

    Raises:
        ExpressionError: if the scenario does not have one of them, with the nearest one as hint.
    """
    for call in measurement.calls:
        for problem, word, offered in _unknown(call, names):
            there = f"there are {', '.join(list(offered)[:20])}" if offered else None
            raise ExpressionError(problem, hint=did_you_mean(word, offered) or there)


def _unknown(call: FunctionCall, names: OutcomeNames) -> Iterator[tuple[str, str, Collection[str]]]:
    """Yield what is wrong with the names of a call: the problem, the name, and the known ones."""
    what, role = call.what, next(iter(FUNCTIONS[call.function].arguments.values())) if call.function else None
    if (
        role is None
        and names.others is not None
        and not what.startswith((*COUNTS, MISSING))
        and what not in (*names.metrics, *names.others)
    ):
        yield f"there is no outcome {what!r:.60}", what, (*names.metrics, *names.others)
    elif role == "metric" and what not in names.metrics:
        yield f"there is no metric {what!r:.60}", what, names.metrics
    elif role == "condition" and call.condition is not None:
        for name in sorted(call.condition.names - set(names.metrics)):
            yield f"there is no metric {name!r:.60}", name, names.metrics
    elif role == "survey":
        yield from _unknown_answers(call, names)
    elif role == "measure":
        yield from _unknown_measure(call, names)
    elif role in ("slots", "pool", "stock"):
        yield from _unknown_pool(call, names, role)


def _unknown_answers(call: FunctionCall, names: OutcomeNames) -> Iterator[tuple[str, str, Collection[str]]]:
    questions = names.surveys.get(call.what)
    if questions is None:
        yield f"there is no survey {call.what!r:.60}", call.what, names.surveys
        return
    number = int(call.options.get("question", 1))
    if number > len(questions):
        yield f"the survey {call.what} has {len(questions)} questions, not {number}", "", ()
        return
    asked = questions[number - 1]
    option = call.options.get("option")
    if option is not None and option not in asked.options:
        yield f"question {number} of the survey {call.what} has no option {option!r:.60}", str(option), asked.options
    elif call.function == "mean_answer" and not asked.is_number:
        yield f"question {number} of the survey {call.what} is not answered with a number; take share(...)", "", ()
    group = call.options.get("group")
    if group is not None and group not in names.groups:
        yield f"there is no group, entry or agent {group!r:.60}", str(group), names.groups


def _unknown_measure(call: FunctionCall, names: OutcomeNames) -> Iterator[tuple[str, str, Collection[str]]]:
    options = names.measures.get(call.what)
    option = call.options.get("option")
    if options is None:
        yield f"there is no measure {call.what!r:.60} in `score`", call.what, names.measures
    elif option is None and options:
        yield f"the measure {call.what} has options, so say which: score({call.what}, option=...)", "", options
    elif option is not None and option not in options:
        yield f"the measure {call.what} has no option {option!r:.60}", str(option), options


def _unknown_pool(call: FunctionCall, names: OutcomeNames, role: Role) -> Iterator[tuple[str, str, Collection[str]]]:
    kind = names.pools.get(call.what)
    if kind is None:
        yield f"there is no pool {call.what!r:.60}", call.what, names.pools
    elif role == "slots" and kind not in _SLOTS:
        yield f"{call.function} is for pools with slots, and {call.what} is a {kind}; take level(...)", "", ()
    elif role == "stock" and kind in _SLOTS:
        yield f"level is for containers and stores, and {call.what} has slots; take use(...)", "", ()
    elif names.synchronised:
        yield "pools are not watched in synchronised rounds (`execution.sync`)", "", ()


@attrs.frozen
class OutcomeSettings:
    """One outcome: what a study measures in each run.

    Args:
        value: the expression, such as `mean(gini, from=200s)`.
        label: its name in figures and tables; default: its key.
        unit: the unit of its values, for axes.
        scale: the axis of its values in figures.
    """

    value: Annotated[str, Reads("measurement")]
    label: str = ""
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"


define_section("outcomes", OutcomeSettings, by_name=True, draws=draws_nothing)
"""What a study of the scenario measures, by name. A run is the same with and without it."""
