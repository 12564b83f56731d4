"""The four pools: order, exactness, cancelling at any point, closing."""

import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sim.base.errors import Cancelled, ClosedError, KernelError, LimitError, UsageError
from sim.kernel import Kernel, Signal, first_of_ns
from sim.kernel.waits import sleep_ns
from sim.resources import Container, PoolStatistics, PriorityResource, Resource, Store
from tests.helpers import as_host


@pytest.fixture
def kernel():
    """Return a kernel."""
    return Kernel()


def user(kernel, pool, name, log, *, amount=1, priority=0, hold=10, at=0):
    """Return a coroutine that takes slots, holds them for a while, and logs (name, time of getting them)."""

    async def run():
        await sleep_ns(at)
        async with pool.slot(amount=amount, priority=priority):
            log.append((name, kernel.now))
            await sleep_ns(hold)

    return run()


def test_slots_are_handed_out_in_order_of_arrival(kernel):
    """Two slots, five users: who came first is served first, at the very instant at which a slot is free."""
    pool, log = Resource(kernel, 2), list[Any]()
    for i in range(5):
        kernel.spawn(f"{i}", user(kernel, pool, i, log, hold=10, at=i))
    kernel.run()
    assert log == [(0, 0), (1, 1), (2, 10), (3, 11), (4, 20)]
    assert pool.statistics() == PoolStatistics(capacity=2, level=2, queue=0, served=5, waited=3)


def test_a_newcomer_does_not_overtake(kernel):
    """A small need waits behind a large one that came first, though there would be room for it."""
    pool, log = Resource(kernel, 3), list[Any]()
    kernel.spawn("a", user(kernel, pool, "a", log, amount=2, hold=10))
    kernel.spawn("b", user(kernel, pool, "b", log, amount=3, hold=10, at=1))
    kernel.spawn("c", user(kernel, pool, "c", log, amount=1, hold=10, at=2))
    kernel.run()
    assert log == [("a", 0), ("b", 10), ("c", 20)]


def test_a_slot_that_was_handed_over_cannot_be_snatched(kernel):
    """Between hand-over and the step of its new holder a slot is not free."""
    pool, log = Resource(kernel, 1), list[Any]()

    async def thief():
        await pool.acquire()
        kernel.spawn("a", user(kernel, pool, "a", log))
        await sleep_ns(5)
        pool.release()
        assert not pool.acquire_nowait()

    kernel.spawn("thief", thief())
    kernel.run()
    assert log == [("a", 5)]


def test_the_lowest_number_comes_first(kernel):
    """By priority, and in order of arrival among equals."""
    pool, log = PriorityResource(kernel, 1), list[Any]()
    for i, priority in enumerate([0, 2, 1, 2, -1]):
        kernel.spawn(f"{i}", user(kernel, pool, i, log, priority=priority, at=i))
    kernel.run()
    assert [name for name, _ in log] == [0, 4, 2, 1, 3]
    with pytest.raises(UsageError):
        pool.wait(priority=math.nan)


@pytest.mark.parametrize("when", [5, 10])
@pytest.mark.parametrize("make", [Resource, PriorityResource])
def test_a_cancelled_wait_holds_nothing(kernel, make, when):
    """Cancelled while waiting or right after hand-over, the slot goes to the next at the same instant."""
    pool, log, actors = make(kernel, 1), list[Any](), list[Any]()

    async def main():
        await pool.acquire()
        actors.append(kernel.spawn("a", user(kernel, pool, "a", log)))
        kernel.spawn("b", user(kernel, pool, "b", log))
        await sleep_ns(when)
        if when == 10:
            pool.release()
        kernel.cancel(actors[0])
        if when == 5:
            await sleep_ns(5)
            pool.release()

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("b", 10)]
    assert pool.level == 1


def test_those_behind_a_cancelled_wait_go_on_at_once(kernel):
    """Who was held up only by somebody's larger need goes on when that one is cancelled."""
    pool, log = Resource(kernel, 2), list[Any]()

    async def main():
        await pool.acquire()
        large = kernel.spawn("large", user(kernel, pool, "large", log, amount=2))
        kernel.spawn("small", user(kernel, pool, "small", log))
        await sleep_ns(4)
        kernel.cancel(large)

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("small", 4)]


def test_a_cancelled_holder_gives_its_slots_back(kernel):
    """`async with` releases on every way out."""
    pool, log = Resource(kernel, 1), list[Any]()

    async def main():
        holder = kernel.spawn("a", user(kernel, pool, "a", log, hold=10**9))
        await sleep_ns(3)
        kernel.cancel(holder)

    kernel.spawn("main", main())
    kernel.run()
    assert pool.level == 1


def test_more_is_neither_released_nor_acquired_than_there_is(kernel):
    """Releasing what nobody holds, or asking for more slots than exist, is refused at once."""
    pool = Resource(kernel, 2)
    with pytest.raises(UsageError):
        pool.release()
    with pytest.raises(LimitError):
        pool.acquire_nowait(amount=3)
    with pytest.raises(UsageError):
        pool.acquire_nowait(amount=0)
    with pytest.raises(UsageError):
        Resource(kernel, 0)


def test_a_slot_is_one_of_several_waits(kernel):
    """Under `first_of` the wait that loses takes nothing, and the one that wins holds the slot."""
    pool, other, signal, log = Resource(kernel, 1), Resource(kernel, 1), Signal(kernel), list[Any]()

    async def main():
        await pool.acquire()
        await other.acquire()
        kernel.call_at(7, lambda: other.release())
        fired = await first_of_ns(signal, pool.wait(), timeout_ns=4)
        log.append((fired.index, kernel.now))
        fired = await first_of_ns(signal, pool.wait(), other.wait())
        log.append((fired.index, kernel.now, pool.level, other.level, pool.queue))
        pool.release()
        log.append((pool.level, other.level))

    kernel.spawn("main", main())
    kernel.run()
    assert log == [(None, 4), (2, 7, 0, 0, 0), (1, 0)]


def test_nothing_is_lost_when_a_paused_world_is_changed(kernel):
    """Releasing from outside a run is refused where somebody waits, and that one is still served later."""
    pool, log = Resource(kernel, 1), list[Any]()

    async def main():
        await pool.acquire()
        kernel.spawn("a", user(kernel, pool, "a", log))
        await sleep_ns(10)
        pool.release()

    kernel.spawn("main", main())
    kernel.run(limit=5)
    with pytest.raises(KernelError):
        pool.release()
    assert pool.queue == 1


def test_amounts_flow_in_order(kernel):
    """Those who get are served in order, each when its whole amount is there; those who put likewise."""
    tank, log = Container(kernel, capacity=10, level=4), list[Any]()

    async def getter(name, amount):
        assert await tank.get(amount) == amount
        log.append((name, kernel.now))

    async def putter(name, amount, at):
        await sleep_ns(at)
        await tank.put(amount)
        log.append((name, kernel.now))

    kernel.spawn("a", getter("a", 8))
    kernel.spawn("b", getter("b", 1))
    kernel.spawn("p", putter("p", 6, 5))
    kernel.spawn("q", putter("q", 9, 6))
    kernel.spawn("r", putter("r", 0.5, 7))
    kernel.spawn("c", getter("c", 0.5))
    kernel.run()
    assert log == [("p", 5), ("a", 5), ("b", 5), ("c", 5), ("q", 6), ("r", 7)]
    assert tank.level == 10


def test_amounts_are_exact(kernel):
    """Ten times 0.1 is 1, in every order of puts and gets; an int stays one as long as all amounts are ints."""
    tank, levels = Container(kernel, capacity=10), list[Any]()

    async def main():
        for _ in range(10):
            await tank.put(0.1)
        assert await tank.get(1) == 1
        levels.append(tank.level)
        for amount in (1e-9, 3, 0.7, 1 / 3):
            await tank.put(amount)
        for amount in (0.7, 1 / 3, 3, 1e-9):
            await tank.get(amount)
        levels.append(tank.level)
        whole = Container(kernel, capacity=10, level=2)
        await whole.put(3)
        levels.append(whole.level)

    kernel.spawn("main", main())
    kernel.run()
    assert levels == [0, 0, 5]
    assert levels[2].__class__ is int


def test_an_amount_that_never_fits_is_refused_at_once(kernel):
    """Nobody waits for ever for more than the capacity, and amounts are above 0 and finite."""
    tank = Container(kernel, capacity=10)
    for wait in (tank.getting, tank.putting):
        with pytest.raises(LimitError):
            wait(11)
        for amount in (0, -1, math.nan, math.inf):
            with pytest.raises(UsageError):
                wait(amount)
    with pytest.raises(UsageError):
        Container(kernel, capacity=10, level=11)


def test_items_come_out_in_order_or_by_filter(kernel):
    """The first item that is accepted; who wants what is not there holds up nobody."""
    store, log = Store[int](kernel, capacity=2), list[Any]()

    async def getter(name, accept=None):
        log.append((name, await store.get(accept), kernel.now))

    async def main():
        kernel.spawn("nine", getter("nine", lambda item: item == 9))
        kernel.spawn("any", getter("any"))
        kernel.spawn("odd", getter("odd", lambda item: item % 2 == 1))
        await sleep_ns(1)
        for item in (2, 4, 5, 6, 9):
            await store.put(item)
        log.append(("full", store.state()["items"], kernel.now))

    kernel.spawn("main", main())
    kernel.run(limit=100)
    assert log == [("any", 2, 1), ("odd", 5, 1)]
    assert store.queue == 2  # 9 waits for room, and nine for it
    as_host(kernel, lambda: kernel.spawn("more", getter("more")))
    kernel.run()
    assert log[2:] == [("more", 4, 1), ("full", [6], 1), ("nine", 9, 1)]


def test_an_item_that_is_given_back_finds_its_place(kernel):
    """An item that its taker never saw goes to the next, or back to where it was, in order."""
    store, log = Store[str](kernel), list[Any]()

    async def getter():
        await store.get()

    async def main():
        taker = kernel.spawn("taker", getter())
        await sleep_ns(1)
        store.put_nowait("first")
        store.put_nowait("second")
        kernel.cancel(taker)
        log.append(store.state()["items"])

    kernel.spawn("main", main())
    kernel.run()
    assert log == [["first", "second"]]


@pytest.mark.parametrize("kind", ["slots", "get", "put", "fetch", "deposit"])
def test_closing_answers_everyone_who_waits(kernel, kind):
    """On close every waiter gets a `ClosedError`, and so does who comes later."""
    pools: dict[str, Any] = {
        "slots": Resource(kernel, 1), "get": Container(kernel, 5), "put": Container(kernel, 5, 5),
        "fetch": Store(kernel), "deposit": Store(kernel, 1),
    }  # fmt: skip
    pool, ends = pools[kind], list[Any]()
    if kind == "slots":
        pool.acquire_nowait()
    if kind == "deposit":
        pool.put_nowait(0)

    async def use():
        await {
            "slots": lambda: pool.acquire(), "get": lambda: pool.get(1), "put": lambda: pool.put(1),
            "fetch": lambda: pool.get(), "deposit": lambda: pool.put(1),
        }[kind]()  # fmt: skip

    async def main():
        for i in range(3):
            kernel.spawn(f"{i}", use(), on_exit=lambda actor, exit: ends.append((actor.name, type(exit.error))))
        await sleep_ns(1)
        pool.close()
        with pytest.raises(ClosedError):
            await use()

    kernel.spawn("main", main())
    kernel.run()
    assert ends == [(f"{i}", ClosedError) for i in range(3)]
    assert pool.queue == 0


def test_waits_that_were_given_up_take_no_room(kernel):
    """A wait that times out again and again leaves a bounded number of registrations."""
    pool = Resource(kernel, 1)

    async def main():
        await pool.acquire()
        for _ in range(5_000):
            await first_of_ns(pool.wait(), timeout_ns=1)

    kernel.spawn("main", main())
    kernel.run()
    assert len(pool._line.places) < 100
    assert pool.queue == 0


class PoolMachine(RuleBasedStateMachine):
    """All pools at once, with cancels at any point, also between hand-over and step."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel()
        self.slots = Resource(self.kernel, 3)
        self.ranked = PriorityResource(self.kernel, 2)
        self.tank = Container(self.kernel, 1, 0.5)  # in tenths, which no float is
        self.store = Store[int](self.kernel, 2)
        self.held: dict[Any, int] = {self.slots: 0, self.ranked: 0}
        self.holding: dict[Any, list[Any]] = {self.slots: [], self.ranked: []}
        self.flow = 5  # tenths
        self.taken = list[Any]()
        self.count = 0
        self.actors = list[Any]()

    def spawn(self, coro):
        actor = None

        def start():
            nonlocal actor
            actor = self.kernel.spawn(f"{len(self.actors)}", coro, on_exit=self.ended)

        as_host(self.kernel, start)
        self.kernel.run(self.kernel.now + 1)
        self.actors.append(actor)

    def holders(self, pool):
        return [actor for actor in self.holding[pool] if actor.exit is None]

    def ended(self, actor, exit):
        assert exit.kind in ("returned", "cancelled"), exit

    @rule(name=st.sampled_from(["slots", "ranked"]), amount=st.integers(1, 2), priority=st.integers(0, 2))
    def hold(self, name, amount, priority):
        pool = getattr(self, name)

        async def run():
            async with pool.slot(amount=amount, priority=priority if pool is self.ranked else 0):
                self.held[pool] += amount
                self.holding[pool].append(self.kernel.current)
                try:
                    await sleep_ns(20)
                finally:
                    self.held[pool] -= amount

        self.spawn(run())

    @rule(amount=st.integers(1, 6))
    def get(self, amount):
        async def run():
            taken = await self.tank.get(amount / 10)
            assert taken == amount / 10
            self.flow -= amount  # in two steps: `-=` would read before it waits

        self.spawn(run())

    @rule(amount=st.integers(1, 6))
    def put(self, amount):
        async def run():
            await self.tank.put(amount / 10)
            self.flow += amount

        self.spawn(run())

    @rule()
    def deposit(self):
        self.count += 1
        self.spawn(self.store.put(self.count))

    @rule(parity=st.sampled_from([None, 0, 1]))
    def fetch(self, parity):
        async def run():
            item = await self.store.get(None if parity is None else lambda item: item % 2 == parity)
            assert item not in self.taken
            self.taken.append(item)

        self.spawn(run())

    @precondition(lambda self: self.actors)
    @rule(data=st.data())
    def cancel(self, data):
        victim = data.draw(st.sampled_from(self.actors))
        as_host(self.kernel, lambda: self.kernel.cancel(victim))
        self.kernel.run(self.kernel.now + 1)

    @rule(many=st.integers(1, 3))
    def cancel_after_hand_over(self, many):
        """In one step, pour something in and cancel those who are handed it."""

        def step():
            for place in self.tank._getters.live()[:many]:
                if self.tank.putting(0.1).take() is None:
                    self.flow += 1
                self.kernel.cancel(place[2])
            for place in self.store._getters.live()[:many]:
                if self.store.put_nowait(self.count + 1):
                    self.count += 1
                self.kernel.cancel(place[2])

        as_host(self.kernel, step)
        self.kernel.run(self.kernel.now + 1)

    @rule(many=st.integers(1, 3))
    def cancel_holders_and_waiters(self, many):
        """In one step, cancel who holds slots, and then who waits for them: some of these were just woken."""

        def step():
            for pool in self.held:
                waiting = [place[2] for place in pool._line.live()]
                for actor in [*self.holders(pool)[:many], *waiting[:many]]:
                    self.kernel.cancel(actor)

        as_host(self.kernel, step)
        self.kernel.run(self.kernel.now + 1)

    @rule(by=st.integers(1, 30))
    def pass_time(self, by):
        until = self.kernel.now + by
        self.kernel.run(until)
        self.kernel.advance_to(until)

    @invariant()
    def nothing_is_lost_or_made(self):
        for pool, held in self.held.items():
            assert pool.level + held == pool.capacity
            head = pool._line.head()
            assert head is None or head[4] > pool.level
        assert self.tank.level == self.flow / 10
        getter, putter = self.tank._getters.head(), self.tank._putters.head()
        assert getter is None or getter[4] > self.tank.level
        assert putter is None or int(putter[4] * 10) + self.flow > 10
        stored = self.store.state()["items"]
        assert stored == sorted(stored)
        assert not set(stored) & set(self.taken)
        assert self.store._putters.head() is None or len(stored) >= 2
        for place in self.store._getters.live():
            assert not any(place[4].accepts(item) for item in stored)


TestPools = pytest.mark.slow(PoolMachine.TestCase)
TestPools.settings = settings(max_examples=60, stateful_step_count=40)


def test_a_cancelled_is_no_exception():
    """The waits clean up after `Cancelled` too, which a plain `except Exception` would miss."""
    assert not issubclass(Cancelled, Exception)


def test_a_better_priority_takes_what_a_worse_one_cannot_use(kernel):
    """A newcomer that comes first by priority does not wait behind a larger need of a worse priority."""
    pool, log = PriorityResource(kernel, 2), list[Any]()
    kernel.spawn("a", user(kernel, pool, "a", log, hold=10))
    kernel.spawn("b", user(kernel, pool, "b", log, amount=2, priority=1, at=1))
    kernel.spawn("c", user(kernel, pool, "c", log, priority=0, at=2))
    kernel.spawn("d", user(kernel, pool, "d", log, priority=1, at=3))
    kernel.run()
    assert log == [("a", 0), ("c", 2), ("b", 12), ("d", 22)]


def test_a_wait_that_lost_lets_those_behind_go_on(kernel):
    """When `first_of` is ended by another wait, those go on who were held up by the larger need that lost."""
    pool, log = Resource(kernel, 2), list[Any]()

    async def main():
        await pool.acquire()
        kernel.spawn("small", user(kernel, pool, "small", log, at=1))
        await first_of_ns(pool.wait(amount=2), timeout_ns=4)

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("small", 4)]
