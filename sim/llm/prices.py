"""Prices of models: a price list, and the cost of a call in whole micro-units of money.

The list (`prices.json`) contains its date and its sources. Prices of the operator or the scenario take precedence. The
list has prices for input, cached input and output. One price is missing, because the reported usage does not separate
it: writing to the cache of an endpoint (a quarter more than input). The operator sets the discount for batches.
"""

import functools
import importlib.resources
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import attrs

from sim.base.errors import UsageError
from sim.kernel.codec import decode
from sim.llm.types import TokenUsage

_MILLION = 1_000_000
_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")  # gpt-4o-2024-08-06, claude-haiku-4-5-20251001


def _whole(instance: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if type(value) is not int or value < 0:
        raise UsageError(f"the {attribute.name} of a price must be a whole number of at least 0, not {value!r}")


@attrs.frozen
class TokenPrices:
    """Micro-units of money per million tokens.

    Args:
        input: the price of input tokens.
        output: the price of output tokens.
        cached: the price of input tokens that were in the cache of the endpoint.
    """

    input: int = attrs.field(validator=_whole)
    output: int = attrs.field(validator=_whole)
    cached: int = attrs.field(validator=_whole)


@attrs.frozen
class Price:
    """The price of one model.

    Args:
        rates: the normal rates.
        context: the context window in tokens, or None if unknown.
        above: the `long` rates apply to the whole call if its input has more tokens than this.
        long: the rates of long calls, or None for the normal rates.
    """

    rates: TokenPrices
    context: int | None = None
    above: int = 0
    long: TokenPrices | None = None

    def cost(self, usage: TokenUsage) -> int:
        """Return the cost of a call in micro-units. It is rounded up, so that a sum is never below the true cost."""
        rates = self.long if self.long is not None and usage.input_tokens > self.above else self.rates
        cached = min(usage.cached_tokens, usage.input_tokens)
        total = (usage.input_tokens - cached) * rates.input + cached * rates.cached
        total += usage.output_tokens * rates.output
        return -(-total // _MILLION)


def _read_only(models: Mapping[str, Price]) -> Mapping[str, Price]:
    return MappingProxyType(dict(models))


@attrs.frozen
class Prices:
    """A price list.

    Args:
        models: the prices by name of the model.
        as_of: the date of the list, as text.
    """

    models: Mapping[str, Price] = attrs.field(converter=_read_only)
    as_of: str = ""
    # By the name that was asked for.
    _looked_up: dict[str, Price | None] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    @classmethod
    def shipped(cls) -> Self:
        """Return the price list of this package."""
        data = _shipped()
        return cls({name: read_price(entry) for name, entry in data["models"].items()}, data["as_of"])

    def find(self, model: str) -> Price | None:
        """Return the price of a model, or None if unknown.

        A vendor prefix (`openai/gpt-4o`) and a date suffix (`gpt-4o-2024-08-06`) are ignored. A name with only the same
        beginning is a different model with a different price.
        """
        if model not in self._looked_up:
            names = (model, plain := model.rpartition("/")[2], _DATE.sub("", plain))
            self._looked_up[model] = next((self.models[name] for name in names if name in self.models), None)
        return self._looked_up[model]

    def cost(self, model: str, usage: TokenUsage) -> int:
        """Return the cost of a call in micro-units; 0 for a model without a known price (see `find`)."""
        price = self.find(model)
        return 0 if price is None else price.cost(usage)

    def updated(self, models: Mapping[str, Price]) -> "Prices":
        """Return this list with the prices of `models`, which take precedence."""
        return attrs.evolve(self, models={**self.models, **models})


def read_price(entry: Mapping[str, Any]) -> Price:
    """Return a price from plain data: `input`, `output`, and optionally `cached`, `context` and `long`.

    Raises:
        UsageError: if a price is not a whole number of at least 0.
    """
    long = entry.get("long")
    return Price(
        _rates(entry),
        context=entry.get("context"),
        above=0 if long is None else long["above"],
        long=None if long is None else _rates(long),
    )


def _rates(entry: Mapping[str, Any]) -> TokenPrices:
    return TokenPrices(entry["input"], entry["output"], entry.get("cached", entry["input"]))


@functools.cache
def _shipped() -> Any:
    return decode(importlib.resources.files("sim.llm").joinpath("prices.json").read_bytes())
