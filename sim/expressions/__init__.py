"""Expressions of scenario files: a small safe grammar, never `eval`.

`grammar` checks the syntax, `compiler` turns the checked syntax tree into code, `expression` evaluates it, `functions`
has the pure functions that are available everywhere, and `errors` the error class and the search for the nearest name.
"""

from sim.expressions.declared import Refers, functions_at, rule_function
from sim.expressions.errors import ExpressionError, did_you_mean, nearest
from sim.expressions.expression import Expression
from sim.expressions.functions import PURE_FUNCTIONS
from sim.expressions.grammar import Literal

__all__ = [
    "PURE_FUNCTIONS",
    "Expression",
    "ExpressionError",
    "Literal",
    "Refers",
    "did_you_mean",
    "functions_at",
    "nearest",
    "rule_function",
]
