"""What models cost: a price list, and the cost of a call in whole micro-units of money.

The list (`prices.json`) says from when it is and where it was read; an operator's or scenario's own prices go above it.
It holds what is charged for input, cached input and output. What some endpoints charge for writing to their cache (a
quarter more than input) is not in it, nor are discounts for batches: a report of usage does not tell them apart.
"""

import functools
import importlib.resources
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import attrs

from sim.errors import UsageError
from sim.kernel.codec import decode
from sim.llm.types import TokenUsage

_MILLION = 1_000_000
_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")  # gpt-4o-2024-08-06, claude-haiku-4-5-20251001


def _whole(instance: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if type(value) is not int or value < 0:
        raise UsageError(f"the {attribute.name} of a price is a whole number from 0, not {value!r}")


@attrs.frozen
class TokenPrices:
    """Micro-units of money per million tokens.

    Args:
        input: of what is sent.
        output: of what is answered.
        cached: of what is sent and was found in the endpoint's cache.
    """

    input: int = attrs.field(validator=_whole)
    output: int = attrs.field(validator=_whole)
    cached: int = attrs.field(validator=_whole)


@attrs.frozen
class Price:
    """What one model costs.

    Args:
        rates: the usual rates.
        context: how many tokens it can read and write together, or None if unknown.
        above: with more input than this, `long` applies to the whole call.
        long: the rates of long calls, or None if they are the usual ones.
    """

    rates: TokenPrices
    context: int | None = None
    above: int = 0
    long: TokenPrices | None = None

    def cost(self, usage: TokenUsage) -> int:
        """Return what a call cost in micro-units, rounded up: a sum of calls is never below the true cost."""
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
        models: price by name of the model.
        as_of: the day on which the list was made, as text.
    """

    models: Mapping[str, Price] = attrs.field(converter=_read_only)
    as_of: str = ""

    @classmethod
    def shipped(cls) -> Self:
        """Return the list that comes with this package."""
        data = _shipped()
        return cls({name: read_price(entry) for name, entry in data["models"].items()}, data["as_of"])

    def find(self, model: str) -> Price | None:
        """Return the price of a model, or None if it is not known.

        A name with a vendor before (`openai/gpt-4o`) or a date behind (`gpt-4o-2024-08-06`) is found under its plain
        name; a name that merely begins alike is another model, with another price.
        """
        for name in (model, plain := model.rpartition("/")[2], _DATE.sub("", plain)):
            if name in self.models:
                return self.models[name]
        return None

    def cost(self, model: str, usage: TokenUsage) -> int:
        """Return what a call cost in micro-units; 0 for a model whose price is not known (`find` tells)."""
        price = self.find(model)
        return 0 if price is None else price.cost(usage)

    def updated(self, models: Mapping[str, Price]) -> "Prices":
        """Return this list with the prices of `models` above it."""
        return attrs.evolve(self, models={**self.models, **models})


def read_price(entry: Mapping[str, Any]) -> Price:
    """Return a price from plain data: `input`, `output`, and optionally `cached`, `context` and `long`.

    Raises:
        UsageError: if a number is not a whole one from 0.
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
