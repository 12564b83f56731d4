"""The price list and the cost of a call."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.llm.prices import Price, Prices, TokenPrices, read_price
from sim.llm.types import TokenUsage

TOKENS = st.integers(0, 10**7)


@pytest.fixture(scope="module")
def shipped():
    """Return the shipped list."""
    return Prices.shipped()


def test_the_shipped_list_is_sound(shipped):
    """It has a date; cached input costs less than input, input less than output, and a long call more than a short."""
    assert shipped.as_of > "2026"
    assert len(shipped.models) > 10
    for price in shipped.models.values():
        assert 0 < price.rates.cached < price.rates.input < price.rates.output
        assert price.context is not None
        if price.long is not None:
            assert price.above < price.context
            assert price.long.input > price.rates.input
            assert price.long.output > price.rates.output


def test_a_known_cost(shipped):
    """A million tokens in and out of gpt-4o-mini cost 0.15 and 0.60; half of the input cached makes 0.0375 less."""
    assert shipped.cost("gpt-4o-mini", TokenUsage(1_000_000, 1_000_000)) == 750_000
    assert shipped.cost("gpt-4o-mini", TokenUsage(1_000_000, 1_000_000, 500_000)) == 712_500


def test_long_calls_have_their_own_rates():
    """Above the threshold the whole call is charged at the rates of long calls, at the threshold none of it."""
    price = Price(TokenPrices(1_000_000, 2_000_000, 0), above=100, long=TokenPrices(3_000_000, 4_000_000, 0))
    assert price.cost(TokenUsage(100, 10)) == 120
    assert price.cost(TokenUsage(101, 10)) == 343


@given(TOKENS, TOKENS, TOKENS, st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 10**8))
def test_costs_are_exact_and_rounded_up(inputs, outputs, cached, a, b, c):
    """A cost is the exact one rounded up to a micro-unit, whatever the numbers; cached beyond input counts once."""
    cached_part = min(cached, inputs)
    true = Fraction((inputs - cached_part) * a + cached_part * c + outputs * b, 10**6)
    cost = Price(TokenPrices(a, b, c)).cost(TokenUsage(inputs, outputs, cached))
    assert type(cost) is int
    assert true <= cost < true + 1


@pytest.mark.parametrize(
    "name", ["gpt-4o-mini", "openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18", "x/y/gpt-4o-mini-latest"]
)
def test_a_model_is_found_under_its_plain_name(shipped, name):
    """A vendor before the name and a date behind it do not hide a model."""
    assert shipped.find(name) == shipped.models["gpt-4o-mini"]


@pytest.mark.parametrize("name", ["gpt-4o-mini-turbo", "gpt-4", "mini", "", "gpt-4o-mini-2024"])
def test_a_name_that_begins_alike_is_another_model(shipped, name):
    """An unknown model has no price, and its calls count nothing."""
    assert shipped.find(name) is None
    assert shipped.cost(name, TokenUsage(1000, 1000)) == 0


def test_own_prices_go_above_the_shipped_ones(shipped):
    """An own price adds or replaces; the shipped list stays as it is."""
    own = shipped.updated(
        {"gpt-4o": Price(TokenPrices(0, 0, 0)), "mine": read_price({"input": 1, "output": 2, "context": 10})}
    )
    assert own.cost("gpt-4o", TokenUsage(1000, 1000)) == 0
    assert own.find("mine") == Price(TokenPrices(1, 2, 1), 10)
    assert own.as_of == shipped.as_of
    assert shipped.cost("gpt-4o", TokenUsage(1000, 1000)) > 0


@pytest.mark.parametrize("wrong", [-1, 0.5, "1", True, None])
def test_a_price_is_a_whole_number(wrong):
    """TokenPrices that are negative, broken or no numbers are refused."""
    with pytest.raises(UsageError, match="whole number"):
        read_price({"input": wrong, "output": 1})
