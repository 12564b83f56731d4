"""Conditions and values of scenario files: a small safe expression grammar, never `eval`.

`grammar` decides what may be written, `expression` computes it (on simpleeval), `functions` holds the pure
functions that every place offers, `errors` the one error and the search for the nearest name.
"""

from sim.conditions.errors import ConditionError, did_you_mean, nearest
from sim.conditions.expression import Expression
from sim.conditions.functions import PURE_FUNCTIONS
from sim.conditions.grammar import Literal

__all__ = ["PURE_FUNCTIONS", "ConditionError", "Expression", "Literal", "did_you_mean", "nearest"]
