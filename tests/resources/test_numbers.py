"""Numbers that are none, as amounts, priorities, capacities and times."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import anyio
import pytest

import sim
from sim.kernel import Kernel


@pytest.mark.parametrize("wrong", [float("nan"), "x", None])
def test_numbers_that_are_none_are_named(wrong):
    """NaN, text and None as an amount, a priority, a capacity or a time are refused in one sentence."""
    world = sim.World()
    kernel, errors = world.kernel, list[str]()

    async def process():
        attempts: tuple[Any, ...] = (
            lambda: sim.Resource(kernel, 1).acquire(amount=wrong),
            lambda: sim.PriorityResource(kernel, 1).acquire(priority=wrong),
            lambda: sim.PreemptiveResource(kernel, 1).acquire(priority=wrong),
            lambda: sim.Container(kernel, 9, 5).get(wrong),
            lambda: sim.Container(kernel, 9, 5).put(wrong), lambda: sim.Container(kernel, wrong),
            lambda: sim.Container(kernel, 9, wrong), lambda: sim.Store(kernel, wrong), lambda: sim.Queue(kernel, wrong),
            lambda: sim.Resource(kernel, wrong), lambda: kernel.call_at(wrong, print), lambda: sim.sleep(wrong),
        )  # fmt: skip
        for attempt in attempts:
            try:
                await attempt()
            except sim.UsageError as error:
                errors.append(str(error))

    world.spawn("process", process())
    anyio.run(world.run, 10)
    assert len(errors) == 12
    assert all(repr(wrong) in error for error in errors), errors


@pytest.mark.parametrize("amount", [Decimal("0.1"), Fraction(1, 10)])
def test_an_amount_is_an_int_or_a_float(amount):
    """Other numbers are refused by one sentence, which says that floats are added as the decimals that they show."""
    tank = sim.Container(Kernel(1), 9, 5)
    for attempt in (
        lambda: tank.getting(amount),
        lambda: tank.putting(amount),
        lambda: sim.Container(Kernel(1), amount),
    ):
        with pytest.raises(sim.UsageError, match=f"an int or a float, not {type(amount).__name__}") as refused:
            attempt()
        assert "write float(...)" in str(refused.value.hint)
    assert tank.level == 5


def test_a_latch_fails_with_an_exception():
    """Text instead of an exception is refused, and the latch stays as it is."""
    latch = sim.Latch(sim.World().kernel)
    with pytest.raises(sim.UsageError, match="a latch fails with an exception, not 'text'"):
        latch.fail("text")  # type: ignore[arg-type]
    assert not latch.is_set
