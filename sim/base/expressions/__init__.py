"""Expressions of scenario files: a small safe grammar, never `eval`.

`grammar` checks the syntax, `compiler` turns the checked syntax tree into code, `expression` evaluates it, `functions`
has the pure functions that are available everywhere, and `errors` the error class and the search for the nearest name.
"""

from sim.base.expressions.declared import Refers, functions_at, rule_function
from sim.base.expressions.errors import ExpressionError, did_you_mean, nearest, no_such
from sim.base.expressions.expression import Expression
from sim.base.expressions.functions import PURE_FUNCTIONS
from sim.base.expressions.grammar import Literal
from sim.base.expressions.names import Bindings, Functions, Names

__all__ = [
    "PURE_FUNCTIONS",
    "Bindings",
    "Expression",
    "ExpressionError",
    "Functions",
    "Literal",
    "Names",
    "Refers",
    "did_you_mean",
    "functions_at",
    "nearest",
    "no_such",
    "rule_function",
]
