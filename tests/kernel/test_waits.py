import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sim.base.errors import Cancelled, ClosedError, UsageError
from sim.kernel import NS, Actor, Effect, Exit, Fired, Kernel, Pause, Queue, Signal, first_of_ns, perform, sleep
from sim.kernel.effects import EffectHandle
from sim.kernel.waits import NOTHING, sleep_ns
from tests.helpers import as_host


class Later:
    """Carries effects out never: they stay in flight."""

    def __init__(self) -> None:
        self.abandoned: list[EffectHandle] = []

    def start(self, handle: EffectHandle, /) -> bool:
        """Begin nothing."""
        return True

    def abandon(self, handle: EffectHandle, /) -> None:
        self.abandoned.append(handle)


def at(kernel: Kernel, time: int, callback: Callable[[], object]) -> None:
    """Call back at a simulated time."""
    kernel.call_at(time, callback)


async def collect(queue: Queue, into: list[Any], count: int = 10**9) -> None:
    """Append `count` items of the queue."""
    for _ in range(count):
        item = await queue.get()
        into.append(item)


# -- signals


def test_signal_wakes_all_in_the_order_in_which_they_were_made(kernel):
    """A signal wakes everyone who waits, by their ordinals, with its value, and remembers nothing."""
    signal = Signal(kernel)
    woken: list[tuple[str, int, object]] = []

    async def waiter(name: str, delay: int) -> None:
        await sleep_ns(delay)
        for _ in range(2):
            value = await signal.wait()
            woken.append((name, kernel.now, value))

    for name, delay in (("late", 3), ("early", 1), ("middle", 2)):
        kernel.spawn(name, waiter(name, delay))
    at(kernel, 0, lambda: signal.fire("lost"))
    at(kernel, 10, lambda: woken.append(("count", 10, signal.fire("value"))))
    kernel.run()
    assert woken == [("count", 10, 3), *((name, 10, "value") for name in ("late", "early", "middle"))]


def test_signal_fails(kernel):
    """A signal can raise an error in everyone who waits."""
    signal = Signal(kernel)
    seen: list[str] = []

    async def waiter(name: str) -> None:
        try:
            await signal.wait()
        except ValueError:
            seen.append(name)

    for name in "ab":
        kernel.spawn(name, waiter(name))
    at(kernel, 5, lambda: signal.fail(ValueError("x")))
    kernel.run()
    assert seen == ["a", "b"]


# -- queues


def test_queue_is_first_in_first_out_and_bounded(kernel):
    """`put` waits while the queue is full, and items come out in the order in which they went in."""
    queue = Queue(kernel, 2)
    got: list[int] = []
    times: list[int] = []

    async def producer() -> None:
        for number in range(6):
            await queue.put(number)
            times.append(kernel.now)

    async def consumer() -> None:
        while True:
            await sleep_ns(10)
            got.append(await queue.get())
            assert len(queue) <= 2

    kernel.spawn("p", producer())
    kernel.spawn("c", consumer())
    kernel.run(200)
    assert got == list(range(6))
    assert times == [0, 0, 10, 20, 30, 40]


def test_put_nowait_refuses_when_full(kernel):
    """`put_nowait` says whether there was room, and one waiting getter is room."""
    queue = Queue(kernel, 1)
    assert [queue.put_nowait(1), queue.put_nowait(2), len(queue)] == [True, False, 1]
    with pytest.raises(UsageError):
        Queue(kernel, 0)


def test_getters_are_served_in_order_of_arrival(kernel):
    """Who waits first gets the first item, at the moment it is put."""
    queue = Queue(kernel, 5)
    got: list[tuple[str, int]] = []

    async def getter(name: str) -> None:
        got.append((name, await queue.get()))

    for name in "abc":
        kernel.spawn(name, getter(name))
    at(kernel, 5, lambda: [queue.put_nowait(n) for n in range(4)])
    kernel.run()
    assert got == [("a", 0), ("b", 1), ("c", 2)]
    assert len(queue) == 1


def test_close_answers_everyone(kernel):
    """Closing raises `ClosedError` in all who wait to get or put, gives back what was left, and is final."""
    full, empty = Queue(kernel, 1), Queue(kernel, 1)
    closed: list[str] = []
    left: list[Any] = []

    async def waiter(name: str, wait: Awaitable[Any]) -> None:
        try:
            await wait
        except ClosedError:
            closed.append(name)

    full.put_nowait("item")
    kernel.spawn("put", waiter("put", full.put("more")))
    kernel.spawn("get", waiter("get", empty.get()))
    kernel.spawn("first", waiter("first", first_of_ns(empty, empty, timeout_ns=NS)))
    at(kernel, 5, lambda: left.extend([full.close(), empty.close()]))
    kernel.run()
    assert sorted(closed) == ["first", "get", "put"]
    assert left == [["item"], []]
    kernel.current = kernel.scenario
    with pytest.raises(ClosedError):
        full.put_nowait(1)
    with pytest.raises(ClosedError):
        full.take()


# -- first of several


def test_ready_wins_in_order_given(kernel):
    """What is there already wins in the order given, without a pause, and the others take nothing."""
    one, two, signal = Queue(kernel, 5), Queue(kernel, 5), Signal(kernel)
    two.put_nowait("b")
    one.put_nowait("a")
    results: list[Fired] = []

    async def actor() -> None:
        for _ in range(2):
            fired = await first_of_ns(signal, one, two, timeout_ns=0)
            results.append(fired)
        results.append(await first_of_ns(signal, one, two, timeout_ns=7))

    kernel.spawn("a", actor())
    kernel.run()
    assert results == [Fired(1, "a"), Fired(2, "b"), Fired(None)]
    assert kernel.now == 7


def test_losers_take_nothing(kernel):
    """Once one wait has won, the others hand nothing over, even at the same instant."""
    one, two = Queue(kernel, 5), Queue(kernel, 5)
    results: list[object] = []

    async def actor() -> None:
        results.append(await first_of_ns(one, two, timeout_ns=NS))
        await sleep(5)
        results.append(kernel.now)

    kernel.spawn("a", actor())
    at(kernel, 5, lambda: [two.put_nowait("two"), one.put_nowait("one")])
    kernel.run()
    assert results == [Fired(1, "two"), 5 + 5 * NS]
    assert (len(one), len(two)) == (1, 0)


def test_timeout_and_item_at_one_instant_are_decided_by_key(kernel):
    """If the timeout comes first in the order, the item stays in the queue; else the timeout is stale."""
    results: dict[str, object] = {}
    before, after = Queue(kernel, 1), Queue(kernel, 1)

    async def actor(name: str, queue: Queue) -> None:
        results[name] = await first_of_ns(queue, timeout_ns=10)

    async def putter() -> None:
        await sleep_ns(10)
        before.put_nowait("x")
        after.put_nowait("x")

    kernel.spawn("loses", actor("loses", after))
    kernel.spawn("putter", putter())
    kernel.spawn("wins", actor("wins", before))
    kernel.run()
    assert results == {"loses": Fired(None), "wins": Fired(0, "x")}
    assert (len(after), len(before)) == (1, 0)


def test_one_wait_twice_wakes_once(kernel):
    """The same signal or queue given twice wakes its actor once, and the next item stays for the next
    wait.
    """
    signal, queue = Signal(kernel), Queue(kernel, 5)
    results: list[object] = []

    async def actor() -> None:
        results.append(await first_of_ns(signal, signal))
        results.append(await first_of_ns(queue, queue))
        await sleep_ns(1)
        results.append(await queue.get())

    kernel.spawn("a", actor())
    at(kernel, 5, lambda: results.append(signal.fire("s")))
    at(kernel, 6, lambda: [queue.put_nowait(n) for n in range(2)])
    kernel.run()
    assert results == [1, Fired(0, "s"), Fired(0, 0), 1]


def test_what_a_failed_wait_registered_is_stale(kernel):
    """If a wait cannot be armed, what was armed with it is forgotten: it takes nothing from later waits."""
    queue, other = Queue(kernel, 5), Queue(kernel, 5)
    got: list[object] = []

    class Broken:
        def take(self) -> object:
            return NOTHING

        def arm(self, kernel: Kernel, actor: Actor, /) -> None:
            raise ValueError("cannot be armed")

        def undo(self, value: object, /) -> None:
            raise AssertionError

        def leave(self) -> None:
            pass

    async def actor() -> None:
        with pytest.raises(ValueError, match="cannot be armed"):
            await first_of_ns(queue, Broken())
        got.append(await other.get())

    kernel.spawn("a", actor())
    at(kernel, 5, lambda: queue.put_nowait("not for this wait"))
    at(kernel, 9, lambda: other.put_nowait("this"))
    kernel.run()
    assert got == ["this"]
    assert len(queue) == 1


# -- cancellation


def _waits(kernel: Kernel) -> dict[str, tuple[Callable[[], Any], Callable[[], object]]]:
    """Return, for each kind of wait, how to begin it and what ends it."""
    empty, full, signal = Queue(kernel, 5), Queue(kernel, 1), Signal(kernel)
    full.put_nowait("first")
    kernel.effects.performer = Later()
    effect = Effect("e", None, lambda *_: None, deadline_ns=20, latency_ns=30)
    return {
        "sleep": (lambda: sleep_ns(20), lambda: None),
        "get": (empty.get, lambda: empty.put_nowait("item")),
        "put": (lambda: full.put("second"), full.take),
        "signal": (signal.wait, lambda: signal.fire(1)),
        "first_of_ns": (lambda: first_of_ns(signal, empty, timeout_ns=50), lambda: empty.put_nowait("item")),
        "timeout": (lambda: first_of_ns(signal, empty, timeout_ns=20), lambda: None),
        "perform": (lambda: perform(effect), lambda: None),
    }


KINDS = ["sleep", "get", "put", "signal", "first_of_ns", "timeout", "perform"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after", "same instant before", "self"])
def test_cancellation_at_every_wait(kernel, kind, when):
    """A cancelled actor gets `Cancelled` where it waits, once, at that instant, before or after it was
    woken.
    """
    begin, end = _waits(kernel)[kind]
    seen: list[object] = []
    ends: list[Exit] = []

    async def actor() -> None:
        try:
            if when == "self":
                kernel.cancel(kernel.acting())
            await begin()
        except Cancelled:
            seen.append(kernel.now)
            raise
        seen.append("went on")

    victim = kernel.spawn("v", actor(), on_exit=lambda _, how: ends.append(how))
    if when == "before":
        at(kernel, 10, lambda: kernel.cancel(victim))
    if when == "same instant before":
        at(kernel, 20, lambda: kernel.cancel(victim))
    at(kernel, 20, end)
    if when == "after":
        at(kernel, 20, lambda: kernel.cancel(victim))
    assert kernel.run() is Pause.IDLE
    if (kind in ("sleep", "timeout", "perform") and when == "after") or seen == ["went on"]:
        # these end by an entry of their own at 20: which comes first is decided by the key
        assert len(seen) == len(ends) == 1
    else:
        assert seen == [{"before": 10, "self": 0}.get(when, 20)]
        assert [how.kind for how in ends] == ["cancelled"]
    assert not kernel.effects.in_flight


@pytest.mark.parametrize("through", ["get", "first_of_ns"])
def test_an_item_handed_to_a_cancelled_actor_goes_to_the_next(kernel, through):
    """An item that was handed over but not seen goes to who waits next, else back to the front."""
    queue = Queue(kernel, 5)
    got: list[object] = []
    victims = []
    for name in "ab":
        wait = queue.get() if through == "get" else first_of_ns(Signal(kernel), queue, timeout_ns=NS)

        async def victim(wait: Any = wait) -> None:
            await wait
            got.append("seen by a victim")

        victims.append(kernel.spawn(name, victim()))
    kernel.spawn("c", collect(queue, got, 1))
    at(kernel, 5, lambda: [queue.put_nowait(n) for n in (1, 2)] and [kernel.cancel(v) for v in victims])
    kernel.run(10)
    assert got == [1]
    assert queue.items == deque([2])


def test_returned_items_are_in_front(kernel):
    """A returned item comes before those that were put after it."""
    queue = Queue(kernel, 2)
    got: list[object] = []
    victim = kernel.spawn("v", collect(queue, got))
    at(kernel, 5, lambda: [queue.put_nowait(n) for n in (1, 2, 3)] and kernel.cancel(victim))
    kernel.run(6)
    assert list(queue.items or ()) == [1, 2, 3]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_who_swallows_cancellation_is_abandoned_and_named(kernel):
    """Cancellation is level-triggered: it is raised at every wait, and who never ends is given up and
    named.
    """
    ends: list[Exit] = []
    swallowed = 0
    stop = False

    async def immortal() -> None:
        nonlocal swallowed
        while not stop:
            try:
                await sleep(1)
            except:  # noqa: E722
                swallowed += 1

    actor = kernel.spawn("immortal", immortal(), on_exit=lambda _, how: ends.append(how))
    at(kernel, 5, lambda: kernel.cancel(actor))
    at(kernel, 5, lambda: kernel.cancel(actor))
    kernel.run(2 * NS)
    assert [how.kind for how in ends] == ["abandoned"]
    assert "immortal" in str(ends[0].error)
    assert swallowed >= 100
    assert not kernel.actors
    stop = True


def test_swallowing_once_is_not_enough(kernel):
    """An actor that swallows its cancellation gets it again at its next wait, and may clean up without
    waiting.
    """
    log: list[str] = []

    async def actor() -> None:
        try:
            await sleep(1)
        except BaseException:
            log.append("swallowed")
        try:
            await sleep(1)
        finally:
            log.append("clean")

    victim = kernel.spawn("v", actor())
    at(kernel, 5, lambda: kernel.cancel(victim))
    assert kernel.run() is Pause.IDLE
    assert log == ["swallowed", "clean"]
    assert victim.exit is not None
    assert victim.exit.kind == "cancelled"


def test_cancelled_before_its_first_step(kernel):
    """The body of an actor that is cancelled before its first step never runs."""
    log: list[str] = []

    async def body() -> None:
        log.append("ran")

    actor = kernel.spawn("a", body())
    kernel.cancel(actor)
    kernel.run()
    assert log == []
    assert actor.exit is not None
    assert actor.exit.kind == "cancelled"


def test_a_timer_of_its_own_can_cancel_an_actor(kernel):
    """A timer that an actor made acts on its behalf and still cancels it where it waits, at that time."""
    log: list[int] = []

    async def actor() -> None:
        me = kernel.actors[kernel.acting().ordinal]
        kernel.call_at(7, lambda: kernel.cancel(me))
        try:
            await sleep("1000d")
        finally:
            log.append(kernel.now)

    kernel.spawn("a", actor())
    kernel.run(100)
    assert log == [7]


def test_an_actor_that_cancels_itself_may_still_return(kernel):
    """An actor that cancels itself and ends without waiting has returned; a second life is not touched."""
    ends: list[str] = []

    async def body() -> None:
        kernel.cancel(kernel.actors[kernel.acting().ordinal])

    async def again() -> None:
        await sleep(1)

    def on_exit(actor: Actor, how: Exit) -> None:
        ends.append(how.kind)
        if len(ends) == 1:
            kernel.begin(actor, again())

    kernel.spawn("a", body(), on_exit=on_exit)
    kernel.run()
    assert ends == ["returned", "returned"]
    assert kernel.now == NS


def test_no_wake_up_is_lost_between_look_and_wait(make_kernel):
    """A check followed by a wait is one step: whatever the order of ties, a signal between them cannot be
    missed.
    """
    for seed in range(200):
        kernel, _ = make_kernel(seed, shuffled=True)
        signal, state = Signal(kernel), {"ready": False}

        async def waiter(signal: Signal = signal, state: dict[str, bool] = state) -> None:
            await sleep_ns(5)
            while not state["ready"]:
                await signal.wait()

        async def setter(signal: Signal = signal, state: dict[str, bool] = state) -> None:
            await sleep_ns(5)
            state["ready"] = True
            signal.fire()

        for number in range(3):
            kernel.spawn(f"w{number}", waiter())
        kernel.spawn("s", setter())
        kernel.run()
        assert not kernel.actors


class QueueMachine(RuleBasedStateMachine):
    """Puts, gets, timeouts and cancellations at random; every item ends in one place, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel()
        self.kernel.run(1)
        self.queue = Queue(self.kernel, 3)
        self.accepted: list[int] = []
        self.got: list[int] = []
        self.count = 0
        self.living: dict[str, Actor] = {}

    def _apply(self, *callbacks: Callable[[], object]) -> None:
        for callback in callbacks:
            as_host(self.kernel, callback)

    def _spawn(self, body: Coroutine[Any, Any, None]) -> None:
        self.count += 1
        name = f"{self.count}"
        actor = self.kernel.spawn(name, body, on_exit=lambda *_: self.living.pop(name))
        self.living[name] = actor

    async def _get(self, within: int | None) -> None:
        fired = await first_of_ns(self.queue, timeout_ns=within)
        if fired.index == 0:
            self.got.append(fired.value)

    async def _put(self) -> None:
        self.count += 1
        item = self.count
        await self.queue.put(item)

    @rule(timeout=st.none() | st.integers(0, 5))
    def get(self, timeout: int | None) -> None:
        self._apply(lambda: self._spawn(self._get(timeout)))

    @rule()
    def put(self) -> None:
        self._apply(lambda: self._spawn(self._put()))

    @rule(count=st.integers(1, 3))
    def put_nowait(self, count: int) -> None:
        def put() -> None:
            self.count += 1
            self.queue.put_nowait(self.count)

        self._apply(*[put] * count)

    @precondition(lambda self: self.living)
    @rule(data=st.data(), put=st.booleans())
    def cancel(self, data: st.DataObject, put: bool) -> None:
        victims = data.draw(st.lists(st.sampled_from(sorted(self.living)), min_size=1, max_size=3, unique=True))
        if put:  # so that some victims have been handed an item at this very instant
            self.put_nowait(2)
        for name in victims:
            actor = self.living[name]
            self._apply(partial(self.kernel.cancel, actor))

    @rule(time=st.integers(0, 4))
    def run(self, time: int) -> None:
        until = self.kernel.now + time
        self.kernel.run(until)
        self.kernel.advance_to(until)

    @invariant()
    def each_item_is_in_one_place(self) -> None:
        self.kernel.run(self.kernel.now)
        places = self.got + list(self.queue.items or ())
        assert len(places) == len(set(places))
        if self.queue.items:
            assert self.queue._next() is None

    def teardown(self) -> None:
        self.kernel.run(self.kernel.now + 1)  # what was asked for at an instant that has entries of its own to run
        self._apply(*[partial(self.kernel.cancel, actor) for actor in self.living.values()])
        self.kernel.run(self.kernel.now + 1)
        assert not self.living


TestQueueMachine = pytest.mark.slow(QueueMachine.TestCase)
TestQueueMachine.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)


@pytest.mark.parametrize("mixed", [False, True])
def test_firing_takes_one_counter_however_many_wait(kernel, mixed):
    """All whom a signal wakes run by their ordinals, also if some of them wait for something else too; the keys of
    what its source causes later do not tell how many there were.
    """
    signal, log = Signal(kernel), list[Any]()

    async def plain(number):
        log.append((number, await signal.wait()))

    async def grouped(number):
        log.append((number, (await first_of_ns(signal, timeout_ns=10)).value))

    async def fire():
        await sleep_ns(5)
        before = kernel.current.counter
        assert signal.fire("now") == 6
        assert kernel.current.counter == before + 1
        assert signal.fire("later") == 0
        assert kernel.current.counter == before + 2

    for number in range(6):
        kernel.spawn(f"a{number}", (grouped if mixed and number % 2 else plain)(number))
    kernel.spawn("fire", fire())
    kernel.run()
    assert log == [(number, "now") for number in range(6)]


def test_an_error_reaches_who_was_woken_by_a_signal_and_has_not_run(kernel):
    """Between the firing of a signal and its own step an actor is woken and may be cancelled: it sees nothing."""
    signal, log, woken = Signal(kernel), list[Any](), list[bool]()

    async def wait(name):
        log.append((name, await signal.wait()))

    victim, other = kernel.spawn("victim", wait("victim")), kernel.spawn("other", wait("other"))

    async def fire():
        await sleep_ns(1)
        woken.append(victim.woken)
        signal.fire(1)
        woken.append(victim.woken)
        kernel.cancel(victim)

    kernel.spawn("fire", fire())
    victim.on_exit = lambda actor, exit: log.append((actor.name, exit.kind))
    kernel.run()
    assert log == [("other", 1), ("victim", "cancelled")]
    assert woken == [False, True]
    assert not other.woken


def test_who_gives_up_a_signal_again_and_again_leaves_no_trace(kernel):
    """Registrations of waits that ended in an error are dropped when they are many."""
    signal = Signal(kernel)

    async def stubborn():
        for _ in range(1000):
            with contextlib.suppress(ClosedError):
                await signal.wait()

    async def nuisance():
        for _ in range(1000):
            await sleep_ns(1)
            kernel.throw(actor, ClosedError("no"))

    actor = kernel.spawn("stubborn", stubborn())
    kernel.spawn("nuisance", nuisance())
    kernel.run()
    assert actor.exit is not None
    assert len(list(signal._crowd)) < 100


def test_the_counter_of_who_cancels_itself_does_not_depend_on_others(make_kernel):
    """An actor that cancels itself and then pauses counts that pause, whatever else is in the calendar."""

    def count(others):
        kernel, _ = make_kernel()

        async def cancels():
            kernel.cancel(kernel.current)
            await sleep_ns(10**9)

        async def sleeps():
            await sleep_ns(10**9)

        for number in range(others):
            kernel.spawn(f"o{number}", sleeps())
        actor = kernel.spawn("cancels", cancels())
        kernel.run()
        return actor.counter

    assert count(0) == count(3)
