"""The circuit breaker, on simulated time."""

import random

import trio

from sim.llm.endpoint import EdgeClock
from sim.llm.limits.breaker import Breaker
from tests.llm.timing import jump


def test_opens_and_recovers():
    """It opens when four in five fail, lets one caller try after the cool-down, and closes if that one is answered."""

    async def main() -> None:
        breaker = Breaker(EdgeClock())
        for _ in range(2):
            breaker.record(None)
        for _ in range(7):
            breaker.record("server")
            assert breaker.wait() == 0
        breaker.record("overload")
        assert breaker.wait() == 15
        await trio.sleep(15)
        assert breaker.wait() == 0
        breaker.begin()
        assert breaker.wait() == 15  # the others
        breaker.record(None)
        assert breaker.wait() == 0
        assert not breaker.is_open

    jump(main)


def test_each_failed_trial_doubles_the_wait():
    """A trial that fails doubles the cool-down, up to a bound; one that succeeds sets it back."""

    async def main() -> list[float]:
        breaker = Breaker(EdgeClock())
        waits = []
        for _ in range(10):
            breaker.record("network")
        for _ in range(5):
            waits.append(breaker.wait())
            await trio.sleep(breaker.wait())
            breaker.begin()
            breaker.record("timeout")
        return waits

    assert jump(main) == [15, 30, 60, 120, 120]


def test_late_failures_do_not_count():
    """Requests that were under way when it opened and fail now do not lengthen the wait."""

    async def main() -> None:
        breaker = Breaker(EdgeClock())
        for _ in range(30):
            breaker.record("server")
        assert breaker.wait() == 15

    jump(main)


def test_a_cancelled_trial_does_not_block():
    """If the caller that tries is cancelled, another may try one cool-down later."""

    async def main() -> None:
        breaker = Breaker(EdgeClock())
        for _ in range(10):
            breaker.record("server")
        await trio.sleep(15)
        breaker.begin()
        await trio.sleep(15)
        assert breaker.wait() == 0

    jump(main)


def test_stays_closed_under_many_faults():
    """With 30 % failures it stays closed, and refusals for pace and bad requests do not count at all."""

    async def main() -> None:
        breaker, draw = Breaker(EdgeClock()), random.Random(1)
        for _ in range(5000):
            breaker.record("server" if draw.random() < 0.3 else None)
            breaker.record("rate_limit")
            breaker.record("bad_request")
            assert not breaker.is_open

    jump(main)
