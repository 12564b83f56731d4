"""The governor on simulated time: what it lets through, in which order, and what it learns."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import anyio
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.llm.endpoint import EdgeClock
from sim.llm.limits.governor import CALM, CUT, GROWTH, HEADROOM, Governor, Limits, ReportedLimits
from sim.llm.limits.pacing import ClockPacer
from sim.llm.types import ErrorClass, ModelError
from tests.llm.timing import jump

Grant = tuple[float, str]


async def load(
    governor: Governor, agents: Sequence[str], tokens: Callable[[], float], seconds: float, held: float = 1.0
) -> list[Grant]:
    """Have each agent ask again and again for some seconds; return when each was let through."""
    grants: list[Grant] = []

    async def one(agent: str) -> None:
        while True:
            permit = await governor.admit(agent, tokens())
            grants.append((trio.current_time(), agent))
            await trio.sleep(held)
            permit.close()

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for agent in agents:
                nursery.start_soon(one, agent)
    return grants


def busiest(times: Sequence[float], span: float) -> int:
    """Return how many times lie in the busiest stretch of `span` seconds."""
    times = sorted(times)
    first = most = 0
    for last, at in enumerate(times):
        while times[first] <= at - span:
            first += 1
        most = max(most, last - first + 1)
    return most


def names(count: int) -> list[str]:
    """Return names of agents."""
    return [f"agent-{number:03}" for number in range(count)]


# -- limits


def test_without_limits_nothing_waits():
    """Without limits a request goes at once, without a single suspension: it costs no step on simulated time."""

    async def main() -> None:
        governor = Governor(EdgeClock())
        asking = governor.admit("a", 10)
        with pytest.raises(StopIteration) as ended:
            asking.send(None)
        ended.value.value.close(10)
        assert governor.statistics().in_flight == 0

    jump(main)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(1, 20), st.integers(60, 2000), st.integers(1, 30), st.floats(0.01, 5))
def test_requests_per_minute(agents: int, limit: int, seconds: int, held: float):
    """In no minute more requests start than are allowed, and under load nine in ten of what is allowed do."""

    async def main() -> list[Grant]:
        return await load(Governor(EdgeClock(), Limits(limit)), names(agents), lambda: 1, 60 + seconds, held)

    times = [at for at, _ in jump(main)]
    assert busiest(times, 60) <= limit
    if agents / held > 1.2 * limit / 60:
        assert len(times) >= 0.9 * limit * (60 + seconds) / 60 - 1


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(1, 20), st.integers(100, 1000), st.integers(0, 2**32))
def test_tokens_per_minute(agents: int, mean: int, seed: int):
    """In no minute more tokens start than are allowed, and under load nine in ten of what is allowed do."""
    limit, draw, spent = 30_000, random.Random(seed), []

    def tokens() -> float:
        spent.append(draw.uniform(1, 2) * mean * 0.66)
        return spent[-1]

    async def main() -> list[tuple[float, float]]:
        governor, started = Governor(EdgeClock(), Limits(tokens_per_minute=limit)), []

        async def one(agent: str) -> None:
            while True:
                amount = tokens()
                permit = await governor.admit(agent, amount)
                started.append((trio.current_time(), amount))
                permit.close(amount)
                await trio.sleep(0.001)

        with trio.move_on_after(180):
            async with trio.open_nursery() as nursery:
                for agent in names(agents):
                    nursery.start_soon(one, agent)
        return started

    started = jump(main)
    first, window = 0, 0.0
    for at, amount in started:
        window += amount
        while started[first][0] <= at - 60:
            window -= started[first][1]
            first += 1
        assert window <= limit * 1.0001
    assert sum(amount for _, amount in started) >= 0.9 * limit * 3


@pytest.mark.parametrize("limit", [1, 7, 64])
def test_concurrency(limit: int):
    """Never more requests are under way than are allowed, and under load soon no fewer."""

    async def main() -> tuple[int, int]:
        governor = Governor(EdgeClock(), Limits(concurrency=limit))
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, governor.statistics().in_flight)
                await trio.sleep(0.3)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            grants = await load(governor, names(100), lambda: 1, 50)
            nursery.cancel_scope.cancel()
        return most, len(grants)

    most, grants = jump(main)
    assert most == limit
    assert grants == pytest.approx(50 * limit, abs=5 * limit)


@pytest.mark.parametrize("kind", ["timeout", "overload", "rate_limit"])
def test_a_small_server_gets_few_requests_at_once(kind: ErrorClass):
    """A server that answers four requests in time gets about four at once, and few requests are lost: one in ten."""

    async def main() -> tuple[float, int, int]:
        governor, busy, good, lost = Governor(EdgeClock(), Limits(concurrency=64)), 0, 0, 0

        async def one(agent: str) -> None:
            nonlocal busy, good, lost
            while True:
                permit = await governor.admit(agent, 1)
                busy += 1
                await trio.sleep(10.0)
                error = ModelError(kind, "too late") if busy > 4 else None
                await trio.sleep(20.0 if error else 0.0)
                busy -= 1
                good, lost = good + (error is None), lost + (error is not None)
                permit.close(1, error)

        with trio.move_on_after(3600):
            async with trio.open_nursery() as nursery:
                for agent in names(20):
                    nursery.start_soon(one, agent)
        return governor.statistics().concurrency, good, lost

    reached, good, lost = jump(main)
    assert 1 <= reached <= 5
    assert good > 700
    assert lost < 0.15 * good


def test_what_was_not_answered_teaches_nothing():
    """Requests that were cancelled, or never made, are no answers: no limit is estimated from them."""

    async def main() -> tuple[float, float]:
        limits = []
        for answered in (False, True):
            governor = Governor(EdgeClock())
            for _ in range(50):
                (await governor.admit("a", 1)).close(0.0, answered=answered)
                await trio.sleep(0.1)
            refusal = ModelError("rate_limit", "later", retry_after=10.0)
            (await governor.admit("a", 1)).close(0.0, refusal)
            limits.append(governor.statistics().requests_per_minute)
        return limits[0], limits[1]

    unanswered, answered = jump(main)
    assert unanswered == math.inf
    assert answered < 300


def test_settling_gives_back():
    """Tokens that were reserved and not used go to others at once; what was used beyond is paid off before the next."""

    async def main() -> tuple[float, float, float]:
        governor = Governor(EdgeClock(), Limits(tokens_per_minute=6000))  # 95 a second, 300 at once
        first = await governor.admit("a", 300)
        first.close(10)
        before = trio.current_time()
        second = await governor.admit("a", 290)
        at_once = trio.current_time() - before
        second.close(290 + 950)
        third = await governor.admit("a", 1)
        paid = trio.current_time() - before
        third.close(1)
        third.close(1)  # again: nothing
        return at_once, paid, governor.statistics().in_flight

    at_once, paid, in_flight = jump(main)
    assert at_once == 0
    assert paid == pytest.approx(951 / 95, abs=0.02)
    assert in_flight == 0


# -- fairness


def test_one_question_does_not_wait_behind_a_hundred():
    """Who asks once is served before the second question of who asked a hundred times."""

    async def main() -> list[str]:
        governor, order = Governor(EdgeClock(), Limits(concurrency=1)), []

        async def ask(agent: str) -> None:
            permit = await governor.admit(agent, 10)
            order.append(agent)
            await trio.sleep(1)
            permit.close(10)

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ask, "many")
            await trio.sleep(0.5)
            nursery.start_soon(ask, "once")
        return order

    order = jump(main)
    assert order.index("once") <= 2
    assert len(order) == 101


@pytest.mark.slow
def test_tokens_are_shared_evenly():
    """Agents that ask all the time get equally many tokens, whether their questions are long or short."""

    async def main() -> Counter[str]:
        governor, spent = Governor(EdgeClock(), Limits(tokens_per_minute=60_000)), Counter[str]()

        async def one(agent: str, tokens: int, endpoints: int) -> None:
            async def endpoint() -> None:
                while True:
                    permit = await governor.admit(agent, tokens)
                    spent[agent] += tokens
                    await trio.sleep(0.1)
                    permit.close(tokens)

            async with trio.open_nursery() as nursery:
                for _ in range(endpoints):
                    nursery.start_soon(endpoint)

        with trio.move_on_after(600):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one, "short", 50, 8)
                nursery.start_soon(one, "long", 800, 2)
                nursery.start_soon(one, "busy", 200, 20)
        return spent

    spent = jump(main)
    assert max(spent.values()) <= 1.05 * min(spent.values())


def test_first_in_first_out_for_one_agent():
    """The questions of one agent go in the order in which they were asked."""

    async def main() -> list[int]:
        governor, order = Governor(EdgeClock(), Limits(requests_per_minute=60)), []

        async def ask(number: int) -> None:
            (await governor.admit("a", 100 - number)).close()
            order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, number)
                await trio.sleep(0.001)
        return order

    assert jump(main) == list(range(50))


# -- cancelling


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([Limits(300), Limits(None, 3000), Limits(None, None, 3), Limits(300, 3000, 3)]),
)
def test_cancelled_waiters_block_nobody(seed: int, limits: Limits):
    """However many who wait are cancelled, at whatever moment, the rest are served, and no slot is lost."""
    draw = random.Random(seed)

    async def main() -> None:
        governor = Governor(EdgeClock(), limits)
        served = 0

        async def patient(number: int) -> None:
            nonlocal served
            permit = await governor.admit(f"p{number % 7}", draw.randint(1, 50))
            await trio.sleep(draw.random())
            permit.close(draw.randint(1, 50))
            served += 1

        async def impatient(number: int) -> None:
            with trio.move_on_after(draw.random() * draw.choice([0.0, 0.1, 30])):
                permit = await governor.admit(f"i{number % 7}", draw.randint(1, 50))
                try:
                    await trio.sleep(draw.random())
                finally:
                    permit.close()

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(patient, number)
                nursery.start_soon(impatient, number)
                if draw.random() < 0.3:
                    await trio.sleep(draw.random())
        statistics = governor.statistics()
        assert (served, statistics.in_flight, statistics.waiting) == (60, 0, 0)

    async def bounded() -> None:
        with trio.fail_after(3600):
            await main()

    jump(bounded)


# -- learning


def refusal(seconds: float | None) -> ModelError:
    """Return a 429."""
    return ModelError("rate_limit", "later", retry_after=seconds)


def test_a_refusal_closes_for_all():
    """After a refusal with a wait nobody asks before it is over, and then they come spread, not all at once."""

    async def main() -> list[float]:
        governor = Governor(EdgeClock(), Limits(requests_per_minute=1200))
        permit = await governor.admit("a", 1)
        times: list[float] = []

        async def one(agent: str) -> None:
            (await governor.admit(agent, 1)).close()
            times.append(trio.current_time())

        permit.close(0, refusal(20))
        async with trio.open_nursery() as nursery:
            for agent in names(200):
                nursery.start_soon(one, agent)
        return times

    times = jump(main)
    assert min(times) >= 20
    assert len(times) == 200
    assert busiest(times, 1) <= 3 * 200 / (max(times) - min(times))


@pytest.mark.parametrize("reserved", [3000, 1000])
def test_no_tokens_come_in_while_an_endpoint_is_closed(reserved: int):
    """What goes at once after a wait is what was left before it: the endpoint has said that there was no more."""

    async def main() -> list[float]:
        governor = Governor(EdgeClock(), Limits(tokens_per_minute=60_000))  # 3,000 may go at once
        permit = await governor.admit("a", reserved)
        permit.close(reserved, refusal(20))
        times: list[float] = []

        async def one(agent: str) -> None:
            await governor.admit(agent, 100)
            times.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            for agent in names(100):
                nursery.start_soon(one, agent)
        return times

    times = jump(main)
    assert min(times) >= 20
    assert sum(time < 20.01 for time in times) == (3000 - reserved) / 100


def test_pace_is_cut_once_for_each_burst_and_grows_back_slowly():
    """A burst of refusals cuts the pace once, by half of their share so far; then it grows slowly."""

    async def main() -> list[float]:
        governor = Governor(EdgeClock(), Limits(requests_per_minute=600))
        paces = []
        for _ in range(2):
            permits = [await governor.admit("a", 1) for _ in range(20)]
            for permit in permits:
                permit.close(0, refusal(None))
            paces.append(governor.statistics().pace)
            await trio.sleep(CALM)
        for _ in range(3):
            (await governor.admit("a", 1)).close()
            paces.append(governor.statistics().pace)
            await trio.sleep(CALM)
        await trio.sleep(600)
        (await governor.admit("a", 1)).close()
        statistics = governor.statistics()
        assert statistics.requests_per_minute == pytest.approx(600 * HEADROOM)
        assert statistics.refused == 40
        return [*paces, statistics.pace]

    share = 1 - (15 / 16) ** 21  # of refusals, when the second burst begins
    second = 1 - CUT * share
    assert jump(main) == pytest.approx(
        [1 - CUT / 16, second, second + GROWTH, second + 2 * GROWTH, second + 3 * GROWTH, 1.0]
    )


@pytest.mark.slow
def test_an_unknown_limit_is_found():
    """Against an endpoint that allows a rate nobody was told, most of it is used, and few requests are refused."""

    async def main() -> tuple[int, int]:
        governor, allowed, window = Governor(EdgeClock(), Limits(concurrency=50)), 300, list[float]()
        good = refused = 0

        async def one(agent: str) -> None:
            nonlocal good, refused
            while True:
                permit = await governor.admit(agent, 1)
                now = trio.current_time()
                window[:] = [at for at in window if at > now - 60]
                await trio.sleep(0.2)
                if len(window) >= allowed:
                    refused += 1
                    permit.close(0, refusal(window[0] + 60 - now))
                else:
                    window.append(now)
                    good += 1
                    permit.close(1)

        with trio.move_on_after(1200):
            async with trio.open_nursery() as nursery:
                for agent in names(50):
                    nursery.start_soon(one, agent)
        return good, refused

    good, refused = jump(main)
    assert good >= 0.9 * 300 * 20
    assert refused <= 0.03 * (good + refused)


def test_learns_from_headers():
    """Limits that an endpoint tells are taken over if they are lower; a limit used up closes until it is reset."""

    async def main() -> None:
        governor = Governor(EdgeClock(), Limits(requests_per_minute=100))
        governor.learn(ReportedLimits(limit_requests=1000, limit_tokens=5000))
        statistics = governor.statistics()
        assert statistics.requests_per_minute == pytest.approx(95)
        assert statistics.tokens_per_minute == pytest.approx(4750)
        governor.learn(ReportedLimits(limit_requests=50, remaining_requests=0, reset_requests=30))
        (await governor.admit("a", 1)).close(1)
        assert trio.current_time() == pytest.approx(30, abs=1.5)
        assert governor.statistics().requests_per_minute == pytest.approx(47.5)

    jump(main)


def test_tokens_used_up_come_in_at_the_rate_of_their_limit():
    """Who has used all tokens waits for a burst and for those of its request, not until all are there again."""

    async def main() -> None:
        governor = Governor(EdgeClock())
        governor.learn(ReportedLimits(limit_tokens=60_000, remaining_tokens=0, reset_tokens=60))
        (await governor.admit("a", 950)).close(950)
        assert trio.current_time() == pytest.approx(3000 / 950 + 1, abs=0.01)  # at 950 a second

    jump(main)


def test_without_a_limit_tokens_are_there_when_they_are_reset():
    """If only the reset is told, it is waited for."""

    async def main() -> None:
        governor = Governor(EdgeClock())
        governor.learn(ReportedLimits(remaining_tokens=0, reset_tokens=20))
        (await governor.admit("a", 950)).close(950)
        assert trio.current_time() == pytest.approx(20, abs=0.01)

    jump(main)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e30)), min_size=6, max_size=6))
def test_absurd_headers_do_not_stop_everything(values: list[float | None]):
    """Whatever an endpoint tells, a request still gets through within five minutes."""

    async def main() -> None:
        governor = Governor(EdgeClock())
        governor.learn(ReportedLimits(*values))
        with trio.fail_after(300):
            (await governor.admit("a", 100)).close(100)

    jump(main)


def test_a_hostile_wait_is_bounded():
    """An endpoint that asks for a day closes for two minutes: whoever is asked to wait longer gives up by himself."""

    async def main() -> None:
        governor = Governor(EdgeClock())
        (await governor.admit("a", 1)).close(0, refusal(86_400))
        (await governor.admit("a", 1)).close(1)
        assert 120 <= trio.current_time() < 125

    jump(main)


# -- pacers


@pytest.mark.parametrize("rate", [0.5, 7, 40, 1000])
def test_clock_pacer(rate: float):
    """In any stretch of time, places come at the rate, and a tenth of a second's worth more at most."""

    async def main() -> list[float]:
        pacer, times = ClockPacer(EdgeClock(), rate), []

        async def one() -> None:
            await pacer.acquire()
            times.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(one)
        return times

    times = jump(main)
    for span in (0.01, 1, 10):
        assert busiest(times, span) <= rate * span + max(1, rate / 10) + 1
    assert times[-1] <= 199 / rate + 1e-6


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_real_pace(backend: str):
    """On both loops requests keep to the limit in real time: paced by aiolimiter on asyncio, by our own on trio."""

    async def main() -> tuple[str, list[float]]:
        clock = EdgeClock()
        governor = Governor(clock, Limits(requests_per_minute=60 * 200), pacer=clock.pacer)
        start, times = clock.now(), []

        async def one() -> None:
            (await governor.admit("a", 1)).close()
            times.append(clock.now() - start)

        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(one)
        return type(governor._pacer).__name__, times

    name, times = anyio.run(main, backend=backend)
    assert name == {"asyncio": "LoopPacer", "trio": "ClockPacer"}[backend]
    assert max(times) >= (60 - 20 - 1) / 190 * 0.98  # a tenth of a second's places come at once
    assert not math.isinf(max(times))
