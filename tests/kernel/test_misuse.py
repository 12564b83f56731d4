"""What is written by mistake is named: forgotten awaits, what is no coroutine, what is no wait, what is no number."""

import gc
import inspect
import math
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.kernel import Kernel, Latch, Queue, Signal, all_of, coroutines, first_of, first_of_ns, join, perform, sleep
from sim.kernel.waits import sleep_ns, wait_for
from sim.resources import Container, PreemptiveResource, PriorityResource, Resource, Store


def waits(kernel: Kernel) -> dict[str, Callable[[], Any]]:
    """Return, by the name in the warning, what makes a wait that is to be awaited."""
    effect: Any = None
    return {
        "sleep": lambda: sleep(5), "sleep_ns": lambda: sleep_ns(5), "wait_for": lambda: wait_for(Latch(kernel)),
        "Queue.get": Queue(kernel, 1).get, "Queue.put": lambda: Queue(kernel, 1).put(1),
        "Signal.wait": Signal(kernel).wait, "Latch.wait": Latch(kernel).wait,
        "first_of": lambda: first_of(Latch(kernel)), "all_of": lambda: all_of(Latch(kernel)),
        "join": lambda: join(kernel.adopt("x")), "Slots.acquire": Resource(kernel, 1).acquire,
        "PreemptiveResource.acquire": PreemptiveResource(kernel).acquire, "Store.get": Store(kernel).get,
        "Store.put": lambda: Store[int](kernel).put(1), "Container.get": lambda: Container(kernel).get(1),
        "Container.put": lambda: Container(kernel).put(1), "perform": lambda: perform(effect),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", waits(Kernel()))
def test_a_forgotten_await_is_a_warning(kernel, name):
    """Each wait that is dropped without `await` causes Python's warning, with the line; one that is closed does not."""
    make = waits(kernel)[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
        gc.collect()
        closed = make()
        if hasattr(closed, "close"):
            closed.close()
        else:
            closed.take()
        del closed
    assert [str(one.message) for one in caught] == [f"coroutine '{name}' was never awaited"]
    assert (caught[0].category, caught[0].filename) == (RuntimeWarning, __file__)


async def process() -> None:
    """Do nothing."""


async def stream() -> Any:
    """Yield where `await` is meant."""
    yield 5


def simpy_process() -> Any:
    """Wait as a process of SimPy does."""
    yield 5


NO_COROUTINES: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (lambda: process, "not the function process"),
    "asynchronous generator": (stream, "stream is an asynchronous generator"),
    "generator of SimPy": (simpy_process, "simpy_process is a generator"),
    "nothing": (lambda: None, "needs a coroutine, not 'NoneType'"),
    "number": (lambda: 5, "needs a coroutine, not 'int'"),
}


@pytest.mark.parametrize("kind", NO_COROUTINES)
def test_what_is_no_coroutine_is_not_spawned(kernel, kind):
    """What cannot be a process is refused at `spawn` with what it is, and nothing is started."""
    make, said = NO_COROUTINES[kind]
    for spawn in (kernel.spawn, sim.World().spawn):
        with pytest.raises(UsageError, match=said) as caught:
            spawn("p", make())
        assert caught.value.hint
    assert not kernel.actors


def test_a_coroutine_is_one_process(kernel):
    """A coroutine is spawned once: neither again before it begins, nor while it runs, nor after its end."""
    coro = sleep(5)
    kernel.spawn("first", coro)
    with pytest.raises(UsageError, match="spawned already"):
        kernel.spawn("second", coro)
    kernel.run(1)
    for _ in range(2):
        with kernel.acting_as(kernel.host), pytest.raises(UsageError, match="begun already"):
            kernel.spawn("second", coro)
        kernel.run()
    unnamed: Any = process()
    with kernel.acting_as(kernel.host), pytest.raises(UsageError, match="first argument of spawn is the name"):
        kernel.spawn(unnamed, "name")
    unnamed.close()


def test_the_checks_of_spawn_take_no_memory(kernel):
    """What a process takes is its coroutine, its actor and its place in the order: nothing for having been checked."""
    tracemalloc.start()
    for number in range(100):
        kernel.spawn(f"p{number}", sleep(number))
    kernel.run(1)
    kept = tracemalloc.take_snapshot()
    tracemalloc.stop()
    frames = tracemalloc.Filter(inclusive=True, filename_pattern=coroutines.__file__)
    wrongly = tracemalloc.Filter(inclusive=True, filename_pattern=inspect.__file__)
    assert sum(trace.size for trace in kept.filter_traces([frames, wrongly]).traces) < 2_000


def test_what_is_no_wait_is_named(kernel):
    """`first_of` and `all_of` refuse coroutines, numbers and functions by name; an actor stands for its end."""
    store: Store[int] = Store(kernel)
    wrong: dict[str, Callable[[], Any]] = {
        r"the coroutine sleep\(\)": lambda: sleep(5), r"the coroutine Store.get\(\)": store.get, "not 5": lambda: 5,
        r"the coroutine .*(acquire|Wait)\(\)": Resource(kernel, 1).acquire,
        "not 'function'": lambda: process,
    }  # fmt: skip
    log: list[object] = []

    async def try_all() -> None:
        for group in (first_of, all_of):
            for said, make in wrong.items():
                with pytest.raises(UsageError, match=said) as caught:
                    await group(Latch(kernel), make(), sleep(1))  # type: ignore[arg-type]  # the mistake
                assert caught.value.hint
        for timeout in (-1, math.nan, "x", None):
            with pytest.raises(UsageError):
                await first_of(timeout=timeout)
        with pytest.raises(UsageError, match="negative"):
            await first_of_ns(Latch(kernel), timeout_ns=-1)
        actor = kernel.spawn("other", process())
        log.append((await first_of(actor, timeout=1)).index)
        log.append(await all_of(actor))

    kernel.spawn("try", try_all())
    kernel.run()
    assert log == [0, [None]]


@pytest.mark.parametrize("priority", ["x", None, math.nan, True])
def test_a_priority_is_a_number(kernel, priority):
    """What has no place in an order is refused before anything is taken, also where a slot is free."""
    ranked, desk = PriorityResource(kernel, 1), PreemptiveResource(kernel, 1)
    for call in (ranked.slot, ranked.wait, ranked.acquire_nowait, desk.slot, desk.wait):
        with pytest.raises(UsageError, match="a priority must be a number"):
            call(priority=priority)

    async def acquire() -> None:
        for pool in (ranked, desk):
            with pytest.raises(UsageError, match="a priority must be a number"):
                await pool.acquire(priority=priority)

    kernel.spawn("a", acquire())
    kernel.run()
    assert (ranked.level, desk.level) == (1, 1)


def test_keywords_mean_one_thing(kernel):
    """`slot(2)` could mean two slots or priority 2, so it is refused everywhere; a `Resource` has no priorities."""
    pools: list[Any] = [Resource(kernel, 4), PriorityResource(kernel, 4), PreemptiveResource(kernel, 4)]
    for pool in pools:
        for call in (pool.slot, pool.wait, pool.acquire):
            with pytest.raises(TypeError, match="positional argument"):
                call(2)
    for call in (pools[0].slot, pools[0].wait, pools[0].acquire_nowait):
        with pytest.raises(UsageError, match="knows no priority 1"):
            call(priority=1)
    for amount in (0, -1, 1.0, True, "2"):
        with pytest.raises(UsageError, match="whole number above 0"):
            pools[1].wait(amount=amount)
