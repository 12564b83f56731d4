import contextlib
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from sim.base.errors import (
    ActorError,
    Cancelled,
    ForeignAwaitError,
    KernelError,
    LimitError,
    LivelockError,
    RunError,
    UsageError,
)
from sim.host.host import Host
from sim.kernel import NS, Actor, Effect, Exit, Kernel, Pause, Queue, Signal, first_of_ns, perform, sleep
from sim.kernel.actor import FIRST_ACTOR, FIRST_DERIVED
from sim.kernel.kernel import Timer
from sim.kernel.ports import NullRecorder
from sim.kernel.waits import sleep_ns
from tests.helpers import as_host

ROOT = Path(__file__).resolve().parents[2]


async def ticker(kernel: Kernel, count: int, delay: int, topic: str = "tick") -> None:
    """Emit `count` events, one each `delay` nanoseconds."""
    for number in range(count):
        await sleep_ns(delay)
        kernel.emit(topic, number)


async def note(kernel: Kernel, topic: str = "ran") -> None:
    """Emit one event."""
    kernel.emit(topic, None)


# -- order


def test_steps_run_in_strictly_increasing_key_order(kernel, rows):
    """The key (time, delta, source, counter) of the wake-up behind each step is above that of the step
    before.
    """
    queue, signal = Queue(kernel, 3), Signal(kernel)

    async def producer(delay: int) -> None:
        for number in range(20):
            await sleep_ns(delay)
            kernel.emit("made", number)
            await queue.put(number)
            signal.fire()

    async def consumer() -> None:
        while True:
            await first_of_ns(queue, signal, timeout_ns=7)
            kernel.emit("woken", None)
            await sleep_ns(0)
            kernel.emit("again", None)

    for number in range(5):
        kernel.spawn(f"p{number}", producer(number + 1))
        kernel.spawn(f"c{number}", consumer())
    kernel.run(200)
    keys: list[tuple[int, ...]] = []
    for row in rows.events:
        key = (row.time_ns, row.delta, *row.cause)
        if not keys or keys[-1] != key:
            keys.append(key)
    assert keys == sorted(set(keys))
    assert len(keys) > 200
    assert len({row[3:5] for row in rows.events}) == len(rows.events)  # identities are unique


def test_what_a_step_causes_at_its_instant_comes_a_delta_later(kernel, rows):
    """Effects of a step at the same instant run at delta + 1, and a later time starts again at delta 0."""

    async def parent() -> None:
        kernel.emit("parent", None)
        kernel.spawn("child", child())
        await sleep(0)
        kernel.emit("same", None)
        await sleep("1s")
        kernel.emit("later", None)

    async def child() -> None:
        kernel.emit("child", None)

    kernel.spawn("parent", parent())
    assert kernel.run() is Pause.IDLE
    assert [row[:2] + row[3:4] for row in rows.seen()] == [
        (0, 1, "parent"), (0, 2, "child"), (0, 2, "same"), (NS, 0, "later")
    ]  # fmt: skip


@pytest.mark.parametrize("delay", [0, 5])
@pytest.mark.parametrize("shuffled", [False, True])
def test_priority_orders_within_a_delta(make_kernel, delay, shuffled):
    """Among what falls together a lower priority number runs first, before any other part of the key."""
    kernel, _ = make_kernel(shuffled=shuffled)
    ran: list[int] = []
    for priority in (3, -1, 2, 0, 1):
        timer = Timer(kernel, kernel.scenario, partial(ran.append, priority))
        kernel.schedule(delay, kernel.scenario, timer, 0, priority)
    kernel.run()
    assert ran == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("delay", [0, 5])
def test_one_source_is_first_in_first_out(make_kernel, shuffled, delay):
    """Wake-ups that one source causes for one instant keep the order in which it caused them, also
    shuffled.
    """
    for seed in range(5):
        kernel, rows = make_kernel(seed, shuffled=shuffled)
        for number in range(20):
            kernel.call_at(delay, partial(kernel.emit, "ran", number))
        kernel.run()
        assert [row.data for row in rows.events] == list(range(20))


def _tie_order(make_kernel: Callable[..., Any], seed: int, shuffled: bool) -> list[str]:
    kernel, rows = make_kernel(seed, shuffled=shuffled)
    for number in range(8):
        kernel.spawn(f"a{number}", ticker(kernel, 4, 10))
    kernel.run()
    names: list[str] = rows.names()
    return names


def test_fixed_ties_favour_low_ordinals(make_kernel):
    """Without shuffling, what falls together runs in the order of declaration, at every instant."""
    assert _tie_order(make_kernel, 1, False) == [f"a{n}" for n in range(8)] * 4


def test_shuffled_ties(make_kernel):
    """Shuffled ties are the same for one seed, differ between seeds, and differ from instant to instant."""
    order = _tie_order(make_kernel, 1, True)
    assert order == _tie_order(make_kernel, 1, True) != _tie_order(make_kernel, 2, True)
    rounds = {tuple(order[start : start + 8]) for start in range(0, 32, 8)}
    assert len(rounds) > 1
    assert all(sorted(part) == [f"a{n}" for n in range(8)] for part in rounds)


@pytest.mark.parametrize("shuffled", [False, True])
def test_stopping_between_changes_nothing(make_kernel, shuffled):
    """A run cut by limits at instants where things are due, or by budgets, gives the rows of an uncut run."""

    def rows_of(drive: Callable[[Kernel], object]) -> list[object]:
        kernel, rows = make_kernel(3, shuffled=shuffled)
        for number in range(9):
            kernel.spawn(f"a{number}", ticker(kernel, 6, 10 + number % 2 * 10))
        drive(kernel)
        events: list[object] = rows.events
        return events

    def by_limit(kernel: Kernel) -> None:
        for time in (0, 5, 10, 10, 20, 40, 45, 1000):
            assert kernel.run(time) in (Pause.LIMIT, Pause.IDLE)
            kernel.advance_to(time)

    def by_budget(kernel: Kernel) -> None:
        while kernel.run(budget=1) is Pause.BUDGET:
            pass

    whole = rows_of(lambda kernel: [kernel.run()])
    assert rows_of(by_limit) == whole == rows_of(by_budget)
    assert len(whole) == 54


def test_the_limit_is_exclusive(kernel, rows):
    """What is due at the limit waits for the next run, however often the run stops there."""
    kernel.spawn("a", ticker(kernel, 1, 10))
    for _ in range(3):
        assert kernel.run(10) is Pause.LIMIT
        kernel.advance_to(10)
        assert rows.events == []
    kernel.run(11)
    assert rows.seen() == [(10, 0, "a", "tick", 0)]


def test_time_cannot_pass_over_what_is_due(kernel):
    """Time is moved on only if nothing is due before, and never backwards."""
    kernel.spawn("a", ticker(kernel, 1, 10))
    kernel.run(10)
    with pytest.raises(KernelError, match="is due at 10 ns"):
        kernel.advance_to(11)
    kernel.run()
    kernel.advance_to(50)
    kernel.advance_to(20)
    assert kernel.now == 50


# -- actors


def _children_of_a(make_kernel: Callable[..., Any], others: int) -> tuple[list[int], list[Any]]:
    kernel, rows = make_kernel()
    ordinals: list[int] = []

    async def spawner(name: str, count: int) -> None:
        for number in range(count):
            await sleep_ns(10)
            child = kernel.spawn(f"{name}.{number}", ticker(kernel, 1, 5, name))
            if name == "a":
                ordinals.append(child.ordinal)

    kernel.spawn("a", spawner("a", 3))
    kernel.spawn("b", spawner("b", others))
    kernel.run()
    return ordinals, [row for row in rows.events if row.topic == "a"]


def test_ordinals_of_children_depend_on_their_maker_only(make_kernel):
    """What one actor makes during a run moves no other's children in the order."""
    ordinals, events = _children_of_a(make_kernel, 0)
    assert (ordinals, events) == _children_of_a(make_kernel, 7)
    assert len(set(ordinals)) == 3
    assert min(ordinals) >= FIRST_DERIVED
    assert ordinals == sorted(ordinals)


def test_actors_that_are_made_together_run_as_they_were_made(make_kernel):
    """At every instant that the children of one actor share they run in the order in which they were made."""
    kernel, _ = make_kernel()
    ran: list[int] = []

    async def child(number: int) -> None:
        for _ in range(3):
            await sleep_ns(10)
            ran.append(number)

    async def parent() -> None:
        for number in range(50):
            kernel.spawn(f"child-{number}", child(number))
        await sleep_ns(100)

    kernel.spawn("parent", parent())
    kernel.run()
    assert ran == [*range(50)] * 3


def test_declared_ordinals_follow_the_declaration(kernel):
    """Actors made before the run are numbered in the order in which they are declared."""
    actors = [kernel.spawn(name, note(kernel)) for name in "xyz"]
    assert [actor.ordinal for actor in actors] == [FIRST_ACTOR, FIRST_ACTOR + 1, FIRST_ACTOR + 2]
    kernel.run()


def test_the_host_can_spawn(kernel, rows):
    """An input may make actors, several of one name too: each gets an ordinal of its own."""

    def spawn(data: dict[str, int]) -> None:
        for _ in range(data["n"]):
            kernel.spawn("guest", note(kernel))

    kernel.run()
    kernel.inputs["spawn"] = spawn
    kernel.apply("spawn", {"n": 2})
    kernel.run()
    assert rows.names() == ["guest", "guest"]
    assert len({row.source for row in rows.events}) == 2
    assert rows.inputs == [(0, 0, "spawn", {"n": 2})]
    assert rows.events[0][:2] == (0, 2)


def test_a_living_actor_keeps_its_ordinal_alone(kernel):
    """Two living actors with one ordinal are refused."""
    actor = kernel.spawn("a", ticker(kernel, 1, 5))
    kernel._declared = 0
    with pytest.raises(KernelError, match="the same ordinal 16"):
        kernel.adopt("b")
    assert actor.ordinal in kernel.actors
    kernel.run()


def test_two_equal_keys_are_an_error(kernel):
    """The order never depends on anything but the key: if two are equal, the run stops."""
    for _ in range(2):
        kernel.scenario.counter = 5
        kernel.call_at(0, print)
    for _ in range(2):  # and it stays an error
        with pytest.raises(KernelError, match="the same order key"):
            kernel.run()


def test_the_ends_of_actors(kernel):
    """`on_exit` is told how an actor ended, and an actor that ended is kept no longer."""
    ends: list[tuple[str, Exit]] = []

    async def crash() -> None:
        raise ValueError("broken")

    async def value() -> int:
        await sleep(1)
        return 7

    for name, coro in (("crash", crash()), ("value", value()), ("cancel", ticker(kernel, 9, NS))):
        kernel.spawn(name, coro, on_exit=lambda actor, end: ends.append((actor.name, end)))
    cancel = next(actor for actor in kernel.actors.values() if actor.name == "cancel")
    kernel.call_at(2 * NS, lambda: kernel.cancel(cancel))
    assert kernel.run() is Pause.IDLE
    assert [(name, end.kind, end.value) for name, end in ends] == [
        ("crash", "crashed", None), ("value", "returned", 7), ("cancel", "cancelled", None)
    ]  # fmt: skip
    assert isinstance(ends[0][1].error, ValueError)
    assert not kernel.actors


def test_an_unwatched_crash_stops_the_run_which_can_go_on(kernel, rows):
    """A crash that nobody watches for raises out of the run; everyone else can go on from where it
    stopped.
    """

    async def crash() -> None:
        await sleep_ns(10)
        raise ValueError("broken")

    kernel.spawn("first", ticker(kernel, 2, 10))
    kernel.spawn("crash", crash())
    kernel.spawn("last", ticker(kernel, 2, 10))
    with pytest.raises(ValueError, match="broken"):
        kernel.run()
    assert rows.names() == ["first"]
    kernel.run()
    assert rows.names() == ["first", "last", "first", "last"]


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Cancelled(), anyio.EndOfStream()])
def test_control_exceptions_are_contained(kernel, error):
    """`sys.exit` and the like in an actor are its crash: told to `on_exit`, or an ordinary error of the
    run.
    """

    async def leave() -> None:
        raise error

    ends: list[Exit] = []
    kernel.spawn("watched", leave(), on_exit=lambda _, end: ends.append(end))
    kernel.run()
    assert [(end.kind, end.error) for end in ends] == [("crashed", error)]
    as_host(kernel, lambda: kernel.spawn("unwatched", leave()))
    with pytest.raises(Exception, match=r"unwatched ended with|^$"):
        kernel.run()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RunError, KernelError])
def test_what_must_stop_the_run_does(kernel, error):
    """An interrupt, no memory and a failure of the run itself stop it even if `on_exit` watches the actor."""

    async def fail() -> None:
        raise error("stop")

    kernel.spawn("a", fail(), on_exit=lambda *_: None)
    with pytest.raises(error):
        kernel.run()


def test_a_failing_recorder_stops_the_run(make_kernel):
    """An actor cannot catch that a wait could not be recorded: a broken record is the end of the run."""

    class Broken(NullRecorder):
        def intent(self, row: object, /) -> None:
            raise RunError("the disk is full")

    kernel = Kernel(recorder=Broken())
    kernel.effects.performer = type("Nobody", (), {"start": None, "abandon": None})()

    async def stubborn() -> None:
        try:
            await perform(Effect("x", None, print, latency_ns=1))
        except Exception:
            kernel.emit("caught", None)

    kernel.spawn("a", stubborn())
    with pytest.raises(RunError, match="disk is full"):
        kernel.run()


# -- guards


def test_livelock_names_the_actors(kernel):
    """Two actors that wake each other for ever at one instant are an error that names both, and stays one."""
    ping, pong = Queue(kernel, 1), Queue(kernel, 1)

    async def player(mine: Queue, other: Queue) -> None:
        while True:
            await mine.get()
            await other.put(None)

    kernel.spawn("ping", player(ping, pong))
    kernel.spawn("pong", player(pong, ping))
    ping.put_nowait(None)
    for _ in range(2):
        with pytest.raises(LivelockError, match=r"p[io]ng still cause more"):
            kernel.run()


def test_sleeping_zero_for_ever_is_a_livelock(make_kernel):
    """`sleep(0)` without end is found after the given number of rounds."""
    kernel, _ = make_kernel(max_deltas=50)

    async def restless() -> None:
        while True:
            await sleep(0)

    kernel.spawn("restless", restless())
    with pytest.raises(LivelockError, match="after 50 rounds, restless"):
        kernel.run()
    assert kernel.steps <= 51


def test_a_livelock_loses_nothing_that_is_due_later(make_kernel):
    """What was due next when time was found to stand still is still due."""
    kernel, rows = make_kernel(max_deltas=50)

    async def restless() -> None:
        await sleep_ns(1)
        while True:
            await sleep(0)

    async def later() -> None:
        await sleep_ns(2)
        kernel.emit("later", None)

    actor = kernel.spawn("restless", restless())
    kernel.spawn("later", later())
    with pytest.raises(LivelockError):
        kernel.run()
    actor.token += 2  # nothing points at it any more
    kernel.delta = 0
    kernel.run()
    assert rows.names("later") == ["later"]


def test_retrying_a_refused_wait_for_ever_is_a_livelock(make_kernel):
    """An actor that tries a refused wait again and again is found by the same guard, and named."""
    kernel, _ = make_kernel(max_deltas=2000)

    async def stubborn() -> None:
        while True:
            try:
                await anyio.lowlevel.checkpoint()
            except Exception:  # noqa: S112
                continue

    async def main() -> None:
        kernel.spawn("stubborn", stubborn())
        kernel.run()

    with pytest.raises(LivelockError, match="stubborn"):
        anyio.run(main)


def test_many_at_once_are_no_livelock(kernel, rows):
    """Ten thousand actors that start at one instant run in one round."""
    for number in range(10_000):
        kernel.spawn(f"a{number}", note(kernel))
    kernel.run()
    assert {row[:2] for row in rows.events} == {(0, 1)}
    assert len(rows.events) == 10_000


@pytest.mark.parametrize(
    "change",
    [
        lambda kernel, actor, queue, signal: kernel.emit("x", None),
        lambda kernel, actor, queue, signal: kernel.cancel(actor),
        lambda kernel, actor, queue, signal: kernel.throw(actor, ValueError()),
        lambda kernel, actor, queue, signal: kernel.wake(actor, None, None),
        lambda kernel, actor, queue, signal: queue.put_nowait(1),
        lambda kernel, actor, queue, signal: queue.close(),
        lambda kernel, actor, queue, signal: signal.fire(),
        lambda kernel, actor, queue, signal: signal.fail(ValueError()),
        lambda kernel, actor, queue, signal: kernel.adopt("x"),
        lambda kernel, actor, queue, signal: kernel.call_at(5, print),
        lambda kernel, actor, queue, signal: kernel.call_every(5, print),
    ],
    ids=["emit", "cancel", "throw", "wake", "put", "close", "fire", "fail", "adopt", "call_at", "call_every"],
)
def test_changing_from_outside_is_refused(kernel, rows, change):
    """While the run is paused nothing can be changed, and the refusal leaves everything as it was."""
    queue, signal = Queue(kernel, 1), Signal(kernel)

    async def waiter() -> None:
        await first_of_ns(queue, signal)
        kernel.emit("woken", None)

    actor = kernel.spawn("waiter", waiter())
    kernel.run()
    with pytest.raises(KernelError, match="from outside"):
        change(kernel, actor, queue, signal)
    assert (len(queue), queue.closed) == (0, False)
    as_host(kernel, signal.fire)
    kernel.run()
    assert rows.names() == ["waiter"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_foreign_awaits_are_refused(make_kernel, backend):
    """Awaiting what belongs to the host is an error at once; uncaught, it names the actor, the line and the way out."""
    kernel, rows = make_kernel()
    errors: list[Exception] = []
    waits: list[Callable[[], Any]] = [
        anyio.lowlevel.checkpoint, lambda: anyio.sleep(1), lambda: anyio.Event().wait(),
        lambda: anyio.Condition().wait(), lambda: anyio.to_thread.run_sync(print),
    ]  # fmt: skip

    async def actor(wait: Callable[[], Any]) -> None:
        try:
            await wait()
        except Exception as error:
            errors.append(error)
        await sleep(1)
        kernel.emit("done", None)
        await wait()

    actors = [kernel.spawn(f"rita {number}", actor(wait), on_exit=lambda *_: None) for number, wait in enumerate(waits)]
    anyio.run(Host(kernel).run, 10 * NS, backend=backend)
    assert len(errors) == len(waits)
    assert [row.time_ns for row in rows.seen()] == [NS] * len(waits)
    for rita in actors:
        assert rita.exit is not None
        assert isinstance(rita.exit.error, ForeignAwaitError)
        assert f"{rita.name} awaited" in str(rita.exit.error)
        assert "perform" in str(rita.exit.error.hint)
    said = str(actors[2].exit and actors[2].exit.error)
    assert "rita 2 awaited asyncio or trio" in said
    assert "test_kernel.py" in said


def test_a_pause_of_nothing_ends_in_the_next_delta_from_the_first_instant_on(kernel, rows):
    """`sleep(0)` is the next delta, and a negative pause is refused, also where the calendar was empty before."""

    async def rests(span: int) -> None:
        with contextlib.suppress(UsageError):
            await sleep_ns(span)
        kernel.emit("rested", span)

    async def later() -> None:
        await sleep_ns(10**12)
        for span in (1, 0, -1):
            kernel.spawn(f"again {span}", rests(span))

    for span in (1, 0, -1):
        kernel.spawn(f"first {span}", rests(span))
    kernel.spawn("later", later())
    kernel.run()
    spans = [(time, delta, data) for time, delta, _, _, data in rows.seen()]
    late = 10**12
    assert spans == [(0, 2, 0), (0, 2, -1), (1, 0, 1), (late, 2, 0), (late, 2, -1), (late + 1, 0, 1)]


@pytest.mark.parametrize("shuffled", [False, True])
def test_what_was_due_when_a_run_was_drained_runs_no_sooner_than_asked_for(make_kernel, shuffled):
    """After a drain the limit holds for what was due at that instant, and its order is that of any instant."""

    def order(drained: bool) -> list[str]:
        kernel, rows = make_kernel(shuffled=shuffled)

        async def due(name: str) -> None:
            await sleep_ns(100)
            kernel.emit("due", None, name)

        for number in range(6):
            kernel.spawn(f"a{number}", due(f"a{number}"))
        kernel.run(50)
        kernel.advance_to(100)
        if drained:
            with kernel.acting_as(kernel.host):
                kernel.call_at(100, lambda: kernel.emit("drained", None))
            kernel.drain()
        assert kernel.run(100) is Pause.LIMIT
        assert not rows.names("due")
        kernel.run()
        return list(rows.names("due"))

    assert order(drained=True) == order(drained=False)


def test_a_crowd_that_runs_later_keeps_its_counters(make_kernel):
    """Whoever is woken by work that ran ahead has the same cause, however many of the others give up meanwhile."""

    def causes(leaving: int) -> dict[str, Any]:
        kernel, rows = make_kernel()
        signal = Signal(kernel)

        async def waits() -> None:
            with contextlib.suppress(LimitError):
                await signal.wait()
                kernel.emit("woken", None)

        def leave() -> None:
            for actor in actors[:leaving]:
                kernel.throw(actor, LimitError("a", 1, 0, "b"))

        actors = [kernel.spawn(f"w{number}", waits()) for number in range(100)]
        kernel.call_at(50, leave)
        kernel.run(1)
        caused = kernel.ahead(100, 0, actors[-1], signal.fire)
        kernel.run(100)
        kernel.bring_in(100, 0, caused)
        kernel.run()
        return {row.actor: row.cause for row in rows.events}

    everyone, some = causes(0), causes(60)
    assert len(some) == 40
    assert some.items() <= everyone.items()


def test_negative_delays_are_refused(kernel):
    """A negative pause or timeout is the actor's error, a callback in the past its maker's; nothing is
    scheduled.
    """
    errors: list[Exception] = []

    async def actor() -> None:
        for wait in (lambda: sleep(-1), lambda: sleep_ns(-1), lambda: first_of_ns(timeout_ns=-1)):
            try:
                await wait()
            except UsageError as error:
                errors.append(error)
        await sleep(1)
        with pytest.raises(KernelError, match="past"):
            kernel.call_at(0, print)

    kernel.spawn("a", actor())
    assert kernel.run() is Pause.IDLE
    assert len(errors) == 3
    assert kernel.now == NS


def test_halt_stops_after_the_instant(kernel, rows):
    """What is caused at the instant of a halt still runs, and the next run goes on behind it, whatever the
    budget.
    """

    async def stopper() -> None:
        await sleep_ns(10)
        kernel.halt()
        await sleep_ns(0)
        kernel.emit("last", None)

    kernel.spawn("s", stopper())
    kernel.spawn("t", ticker(kernel, 3, 10))
    pause = Pause.BUDGET
    while pause is Pause.BUDGET:
        pause = kernel.run(budget=1)
    assert pause is Pause.HALTED
    assert rows.seen() == [(10, 0, "t", "tick", 0), (10, 1, "s", "last", None)]
    assert kernel.run() is Pause.IDLE
    assert len(rows.events) == 4


# -- timers and memory


def test_timers(kernel):
    """A timer runs once at its time on behalf of its source; cancelled before, it never runs."""
    ran: list[tuple[int, str]] = []

    def callback() -> None:
        ran.append((kernel.now, kernel.acting().name))

    kept = kernel.call_at(5, callback)
    kernel.call_at(5, callback, kernel.supervisor)
    dropped = kernel.call_at(5, callback)
    kernel.call_at(4, dropped.cancel)
    kernel.run()
    kept.cancel()
    assert ran == [(5, "scenario"), (5, "supervisor")]


def test_a_ticker_calls_once_every_period_until_it_is_cancelled(kernel):
    """`call_every` calls at one period, two periods, ...; cancelled, also by its own callback, it calls no more."""
    times: list[int] = []

    def step() -> None:
        times.append(kernel.now)
        if len(times) == 4:
            own.cancel()

    own = kernel.call_every(10, step)
    others: list[int] = []
    other = kernel.call_every(3, lambda: others.append(kernel.now))
    kernel.call_at(100, other.cancel)
    assert kernel.run() is Pause.IDLE
    assert times == [10, 20, 30, 40]
    assert others == list(range(3, 100, 3))


def test_a_ticker_has_its_place_in_the_order(kernel, rows):
    """Each call is a step of its source with a key of its own: what it emits names the call as its cause."""
    kernel.call_every(10, lambda: kernel.emit("tick", None))
    kernel.run(35)
    assert [(row.time_ns, row.topic) for row in rows.events] == [(10, "tick"), (20, "tick"), (30, "tick")]
    assert len({row.cause for row in rows.events}) == 3


@pytest.mark.parametrize("period", [0, -1, 1.5, True])
def test_a_period_must_be_whole_nanoseconds(kernel, period):
    """A period of nothing, a negative or a broken one is refused."""
    with pytest.raises(UsageError, match="period"):
        kernel.call_every(period, print)


def test_the_kernel_leaves_the_collector_alone(kernel):
    """How often the collector looks is the program's to say, and the host's, not the kernel's."""
    before, during = gc.get_threshold(), []
    kernel.call_at(1, lambda: during.append(gc.get_threshold()))
    kernel.run()
    assert during == [before]


def test_a_timeout_leaves_nothing_behind_for_other_waits(kernel):
    """Once the time has woken an actor, a queue that it also waited for keeps its items, also while it pauses again."""
    queue, got = Queue(kernel, 3), list[Any]()

    async def waiter() -> None:
        got.append((await first_of_ns(queue, timeout_ns=10)).index)
        await sleep_ns(10)
        got.append((kernel.now, len(queue)))

    async def putter() -> None:  # it comes after the waiter at each instant
        for delay in (10, 5):
            await sleep_ns(delay)
            queue.put_nowait(delay)

    kernel.spawn("waiter", waiter())
    kernel.spawn("putter", putter())
    kernel.run()
    assert got == [None, (20, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["timeout", "cancelled sleepers"])
def test_stale_timers_are_purged(kernel, how):
    """Thousands of timers that were decided otherwise do not pile up."""
    queue = Queue(kernel, 10)
    rounds = 8_000

    async def sleeper() -> None:
        await sleep("1000d")

    async def worker() -> None:
        for _ in range(rounds):
            if how == "timeout":
                await first_of_ns(queue, timeout_ns=10**6 * NS)
            else:
                child = kernel.spawn("child", sleeper(), on_exit=lambda *_: None)
                await sleep_ns(1)
                kernel.cancel(child)

    async def feeder() -> None:
        while True:
            await sleep_ns(1)
            queue.put_nowait(None)

    kernel.spawn("worker", worker(), on_exit=lambda *_: kernel.halt())
    if how == "timeout":
        kernel.spawn("feeder", feeder())
    kernel.run(1000)
    tracemalloc.start()
    try:
        assert kernel.run() is Pause.HALTED
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert len(kernel.calendar) < 5000


# -- the same run everywhere

PROGRAM = """
import sys, anyio
from sim.kernel import *
from sim.kernel.codec import encode
from sim.host.host import Host
from sim.kernel.ports import NullRecorder

class Keep(NullRecorder):
    def __init__(self): self.rows = []
    def event(self, row): self.rows.append(row)
    def intent(self, row): self.rows.append(row)
    def closed(self, row): self.rows.append(row)

def main(backend, shuffled):
    kernel = Kernel(7, shuffled=shuffled, recorder=(keep := Keep()))
    queue, signal = Queue(kernel, 4), Signal(kernel)
    async def answer(request, key):
        await anyio.sleep(0)
        return {"answer": request}
    async def agent(name):
        stream = kernel.streams.get(name)
        for n in range(20):
            await sleep(stream.choice([0, 0.5, 1]))
            match stream.randrange(4):
                case 0: await queue.put(name)
                case 1: kernel.emit("got", (await first_of_ns(queue, signal, timeout_ns=NS)).index)
                case 2: kernel.emit("woke", signal.fire())
                case 3: kernel.emit("ans", (await perform(Effect("e", n, answer, latency_ns=NS))).value)
            if n == 10:
                kernel.spawn(name + "x", agent(name + "x")) if len(name) < 4 else None
    for n in range(30):
        kernel.spawn(f"a{n}", agent(f"a{n}"))
    anyio.run(Host(kernel).run, 200 * NS, backend=backend)
    assert len(keep.rows) > 500
    sys.stdout.buffer.write(encode([keep.rows, kernel.streams.fingerprints()]))

main(sys.argv[1], sys.argv[2] == "shuffled")
"""


@pytest.mark.slow
@pytest.mark.parametrize("ties", ["fixed", "shuffled"])
def test_equal_rows_in_every_process_and_under_both_hosts(ties):
    """Rows are the same whatever the hash seed of the process and whether asyncio or trio is the host."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, backend, ties],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for backend, seed in (("asyncio", "1"), ("asyncio", "2"), ("trio", "3"))
    ]
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_error_of_a_limit_reaches_the_actor(kernel):
    """An error thrown into a waiting actor is raised where it waits, and its earlier wait is over."""
    queue = Queue(kernel, 5)
    seen: list[object] = []

    async def waiter() -> None:
        try:
            await queue.get()
        except LimitError as error:
            seen.append(error.kind)
        await sleep(1)
        seen.append(await queue.get())

    actor: Actor = kernel.spawn("a", waiter())
    kernel.call_at(5, lambda: kernel.throw(actor, LimitError("llm_calls", 2, 1, "a")))
    kernel.call_at(6, lambda: [queue.put_nowait("kept")])
    kernel.run()
    assert seen == ["llm_calls", "kept"]
    assert issubclass(LimitError, ActorError) is False


def test_time_cannot_pass_in_the_middle_of_an_instant(kernel):
    """After a budget has run out within an instant, time does not move on before the instant is over."""
    for number in range(4):
        kernel.spawn(f"a{number}", ticker(kernel, 1, 10))
    assert kernel.run(budget=2) is Pause.BUDGET
    with pytest.raises(KernelError, match="time cannot advance"):
        kernel.advance_to(5)
    assert kernel.run(5) is Pause.LIMIT
    kernel.advance_to(5)
    assert kernel.now == 5
    kernel.run()
