"""Variables of places, such as grass, and the rules by which places change by themselves.

In each period, every place takes the first of its rules whose condition holds. All places compute their new values from
those at the beginning of the period, so that the order of the places does not matter.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from sim.base.errors import RunError
from sim.base.expressions import ExpressionError, Names
from sim.kernel import Kernel, Source, to_seconds
from sim.kernel.actor import PLACES
from sim.kernel.codec import Json, JsonObject
from sim.kernel.kernel import Ticker

Compute = Callable[[str, Names], Any]
"""Computes a value for a place from its names."""


@attrs.frozen
class PlaceRule:
    """A condition, and the variables that a place sets if it holds.

    Args:
        when: the condition; None: always true.
        set: the new values.
    """

    when: Compute | None
    set: Mapping[str, Compute]


class PlaceVariables:
    """The variables of all places.

    Args:
        kernel: the clock.
        values: by variable, its value at each place.
        constants: the names of each place that do not change: its own, its number, and in a grid its column and row.
        rules: the rules of the places.
        every_ns: the length of a period, in simulated nanoseconds.
    """

    def __init__(
        self,
        kernel: Kernel,
        values: Mapping[str, dict[str, Json]],
        constants: Mapping[str, Names],
        rules: Sequence[PlaceRule] = (),
        every_ns: int = 0,
    ) -> None:
        self._kernel = kernel
        self._values = dict(values)
        self._constants = constants
        self._rules = rules
        self._every_ns = every_ns

    def __contains__(self, variable: object) -> bool:
        return variable in self._values

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(self._values)

    def get(self, variable: str, place: str) -> Any:
        """Return the value of a variable at a place."""
        return self._values[variable][place]

    def all(self, variable: str) -> list[Any]:
        """Return the values of a variable at all places, in their order."""
        return list(self._values[variable].values())

    def set(self, place: str, values: JsonObject) -> None:
        """Set variables of a place."""
        if self._kernel.current is None:
            self._kernel.acting()  # it refuses a call from outside before anything changes
        for variable, value in values.items():
            self._values[variable][place] = value

    def start(self) -> Ticker | None:
        """Have the places change in each period; return what does it, or None if they have no rules."""
        if not self._rules:
            return None
        return self._kernel.call_every(self._every_ns, self._change, Source("places", PLACES))

    def _change(self) -> None:
        changes = []
        now = to_seconds(self._kernel.now)
        values = self._values
        for place, constants in self._constants.items():
            names = {**constants, "now": now, **{variable: cells[place] for variable, cells in values.items()}}
            try:
                rule = next((one for one in self._rules if one.when is None or one.when(place, names)), None)
                if rule is not None:
                    changes.append((place, {key: compute(place, names) for key, compute in rule.set.items()}))
            except ExpressionError as error:
                raise RunError(f"places.rules cannot be evaluated at {place}: {error}", hint=error.hint) from error
        for place, new in changes:
            for variable, value in new.items():
                values[variable][place] = value

    def state(self) -> Mapping[str, JsonObject]:
        """Return the values of all places by variable, for the final digest."""
        return self._values


def total(values: Sequence[Any]) -> float:
    """Return the sum of the numbers among values; true is 1, and null is none."""
    return math.fsum(value for value in values if isinstance(value, int | float))
