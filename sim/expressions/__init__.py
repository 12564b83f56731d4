"""Conditions and values of scenario files: a small safe expression grammar, never `eval`.

`grammar` decides what may be written, `expression` computes it (on simpleeval), `functions` holds the pure
functions that every place offers, `errors` the one error and the search for the nearest name.
"""

from sim.expressions.errors import ExpressionError, did_you_mean, nearest
from sim.expressions.expression import Expression
from sim.expressions.functions import PURE_FUNCTIONS
from sim.expressions.grammar import Literal

__all__ = ["PURE_FUNCTIONS", "Expression", "ExpressionError", "Literal", "did_you_mean", "nearest"]
