"""The client's clock on simulated time: waiting, deadlines, chance."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import Cancelled, UsageError
from sim.kernel import Kernel, Queue
from sim.llm.sim_clock import CoreClock
from sim.resources import Resource


@pytest.fixture
def kernel():
    """Return a kernel."""
    return Kernel(seed=7)


@pytest.fixture
def clock(kernel):
    """Return a clock of it."""
    return CoreClock(kernel)


def run(kernel, work):
    """Run `work()` as an actor to its end and return its result."""
    actor = kernel.spawn("ann", work(), on_exit=lambda *_: None)
    kernel.run()
    assert actor.exit is not None
    if actor.exit.error is not None:
        raise actor.exit.error
    return actor.exit.value


def test_time_is_the_kernel_s(kernel, clock):
    """Sleeping passes simulated time, at least as long as was asked for; nothing or less passes none."""

    async def work():
        await clock.sleep(0)
        await clock.sleep(-1)
        assert clock.now() == 0
        await clock.sleep(1.5)
        assert clock.now() == 1.5
        await clock.sleep(1e-10)
        return kernel.now

    assert run(kernel, work) == 1_500_000_001


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e300])
def test_a_sleep_must_end(kernel, clock, seconds):
    """A sleep that is no number or never ends is refused."""
    with pytest.raises(UsageError, match="146 years"):
        run(kernel, lambda: clock.sleep(seconds))


def test_a_wake_is_set_once_and_stays_set(kernel, clock):
    """All that wait go on at the same instant by their ordinals, later ones do not wait, setting twice is nothing."""
    wake, log = clock.wake(), []

    async def waiter(name, at):
        await clock.sleep(at)
        await wake.wait()
        log.append((name, clock.now()))

    async def setter():
        await clock.sleep(5)
        wake.set()
        wake.set()

    for name, at in (("b", 2), ("a", 1), ("late", 9)):
        kernel.spawn(name, waiter(name, at))
    kernel.spawn("setter", setter())
    kernel.run()
    assert log == [("b", 5), ("a", 5), ("late", 9)]


def test_chance_is_the_asking_agent_s(kernel, clock):
    """Each agent draws from its own stream, so one that asks more often moves nobody else's draws."""
    drawn = {}

    def spawn(kernel, clock, name, count):
        async def work():
            drawn[kernel, name] = [clock.random() for _ in range(count)]

        kernel.spawn(name, work())

    spawn(kernel, clock, "a", 3)
    spawn(kernel, clock, "b", 3)
    kernel.run()
    other = Kernel(seed=7)
    spawn(other, CoreClock(other), "a", 50)
    spawn(other, CoreClock(other), "b", 3)
    other.run()
    assert drawn[kernel, "b"] == drawn[other, "b"]
    assert drawn[kernel, "a"] == drawn[other, "a"][:3] != drawn[kernel, "b"]


def test_work_that_is_done_in_time(kernel, clock):
    """The result comes back, and the deadline throws nothing later."""

    async def work():
        async def inner():
            await clock.sleep(2)
            return "done"

        result = await clock.within(100, inner)
        assert await clock.within(math.inf, inner) == "done"
        await clock.sleep(200)
        return result, clock.now()

    assert run(kernel, work) == ("done", 204)


@pytest.mark.parametrize("seconds", [3, 0, -1])
def test_work_that_takes_too_long(kernel, clock, seconds):
    """The work ends with TimeoutError exactly when its time is over; its own clean-up runs."""
    log = []

    async def work():
        async def inner():
            try:
                await clock.sleep(10)
            finally:
                log.append(clock.now())

        with pytest.raises(TimeoutError, match="longer than"):
            await clock.within(seconds, inner)
        await clock.sleep(100)  # nothing is thrown later
        return clock.now()

    end = max(seconds, 0)
    assert run(kernel, work) == end + 100
    assert log == [end]


def test_the_very_moment_is_too_late(kernel, clock):
    """What would be done exactly when the time is over is too late."""

    async def work():
        with pytest.raises(TimeoutError):
            await clock.within(3, lambda: clock.sleep(3))

    run(kernel, work)


def test_a_deadline_takes_nothing(kernel, clock):
    """An item or a slot that is handed over at the very moment of the deadline goes back, or to who is next."""
    queue, pool = Queue(kernel, 5), Resource(kernel, 1)

    async def impatient():
        with pytest.raises(TimeoutError):
            await clock.within(3, queue.get)
        with pytest.raises(TimeoutError):
            await clock.within(3, pool.acquire)

    async def giver():
        await pool.acquire()
        await clock.sleep(3)
        queue.put_nowait("item")
        await clock.sleep(3)
        pool.release()

    kernel.spawn("giver", giver())
    kernel.spawn("ann", impatient())
    kernel.run()
    assert list(queue.items or ()) == ["item"]
    assert pool.level == 1


@given(st.lists(st.integers(0, 4), min_size=2, max_size=5), st.integers(0, 4))
def test_nested_deadlines(limits, length):
    """Of nested deadlines the shortest ends the work, of equal ones the outermost; no other becomes an error."""
    kernel = Kernel()
    clock = CoreClock(kernel)
    raised = []

    def nest(left):
        if not left:
            return lambda: clock.sleep(length)

        async def level():
            try:
                await clock.within(left[0], nest(left[1:]))
            except TimeoutError:
                raised.append((len(limits) - len(left), clock.now()))

        return level

    shortest = min(limits)
    run(kernel, nest(limits))
    assert raised == ([(limits.index(shortest), shortest)] if length and length >= shortest else [])
    assert not clock._levels


@pytest.mark.parametrize("first", ["canceller", "deadline"])
@pytest.mark.parametrize("at", [2, 3])
def test_cancelling_goes_through(kernel, clock, at, first):
    """An agent that is cancelled within a deadline is cancelled, not late, also at the very moment of the deadline."""

    async def work():
        await clock.within(3, lambda: clock.sleep(10))

    async def cancels():
        await clock.sleep(at)
        kernel.cancel(ann)

    if first == "canceller":
        kernel.spawn("bob", cancels())
    ann = kernel.spawn("ann", work(), on_exit=lambda *_: None)
    if first == "deadline":
        kernel.spawn("bob", cancels())
    kernel.run()
    assert ann.exit is not None
    assert ann.exit.kind == "cancelled"
    assert not clock._levels


def test_an_outer_deadline_outlives_an_inner_one(kernel, clock):
    """Work that would go on after an inner deadline is ended by the outer one that is over at the same instant."""

    async def work():
        async def stubborn():
            with pytest.raises(TimeoutError):
                await clock.within(3, lambda: clock.sleep(10))
            await clock.sleep(1000)

        with pytest.raises(TimeoutError, match="3 s"):
            await clock.within(3, stubborn)
        return clock.now()

    assert run(kernel, work) == 3


def test_deadlines_that_meet_in_one_instant(kernel, clock):
    """A deadline of 0 begun in the instant in which an outer one ends does not replace it."""
    wake = clock.wake()

    async def first():
        await clock.sleep(3)
        wake.set()

    async def work():
        async def stubborn():
            await wake.wait()
            await clock.within(0, lambda: clock.sleep(10))

        with pytest.raises(TimeoutError, match="3 s"):
            await clock.within(3, stubborn)

    kernel.spawn("bob", first())
    run(kernel, work)


def test_broad_handlers_do_not_swallow_a_deadline(kernel, clock):
    """`except Exception` around a wait does not catch the deadline."""

    async def work():
        async def stubborn():
            for _ in range(5):
                try:
                    await clock.sleep(1)
                except Exception:  # noqa: S110  # what careless code does
                    pass
                except Cancelled:
                    raise

        with pytest.raises(TimeoutError):
            await clock.within(2.5, stubborn)
        return clock.now()

    assert run(kernel, work) == 2.5


def test_only_actors_wait(kernel, clock):
    """Outside an actor there is nobody to wait: said at once."""
    with pytest.raises(UsageError, match="not an actor"):
        clock.within(1, lambda: None).send(None)
