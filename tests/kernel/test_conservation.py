"""Nothing is lost or doubled, whoever is interrupted or cancelled, and at whatever moment."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sim.base.errors import Interrupt
from sim.kernel import Kernel, Latch, Queue, all_of, first_of, sleep
from sim.resources import Container, Resource, Store
from tests.kernel import conservation

PROGRAMS = 60  # of the 50,000 that `python -m tests.kernel.conservation compiled 0 50000` runs


def test_random_programs_add_up():
    """What actors know to have put, got and acquired is what there is, in programs of interrupts and cancellations."""
    for seed in range(PROGRAMS):
        conservation.Program(seed).run()


@pytest.mark.proof
def test_many_random_programs_add_up():
    """The same for a larger sample, at another place in each run of the proofs."""
    first = random.randrange(50_000)
    for seed in range(first, first + 1_000):
        conservation.Program(seed).run()


class Place:
    """Something of a size that is full, and what can be put into it and taken out.

    Args:
        kind: `store`, `container` or `queue`.
    """

    def __init__(self, kernel: Kernel, kind: str) -> None:
        makes: dict[str, Callable[[], Any]] = {
            "store": lambda: Store(kernel, 1), "container": lambda: Container(kernel, 1, 1),
            "queue": lambda: Queue(kernel, 1),
        }  # fmt: skip
        self.thing = makes[kind]()
        if kind != "container":
            self.thing.put_nowait(1)
        self.get: Callable[[], Awaitable[Any]] = (lambda: self.thing.get(1)) if kind == "container" else self.thing.get
        self.left: Callable[[], int] = lambda: len(self.thing) if kind == "queue" else self.thing.level


@pytest.mark.parametrize("end", ["interrupt", "cancel"])
@pytest.mark.parametrize("taken", [0, 1])
@pytest.mark.parametrize("kind", ["store", "container", "queue"])
def test_an_abandoned_put_has_happened_or_not(kernel, kind, taken, end):
    """A put that was admitted is withdrawn, or, if its content was taken, returns: then the error comes later."""
    place, log = Place(kernel, kind), list[str]()

    async def putter() -> None:
        try:
            await place.thing.put(1)
            log.append("put")
            await sleep(9)
        except BaseException as error:
            log.append(f"{type(error).__name__} at {kernel.seconds:g}")

    async def boss() -> None:
        await sleep(1)
        await place.get()  # makes room, so the putter is admitted
        for _ in range(taken):
            await place.get()
        (kernel.interrupt if end == "interrupt" else kernel.cancel)(actor)

    actor = kernel.spawn("putter", putter(), on_exit=lambda *_: None)
    kernel.spawn("boss", boss())
    kernel.run()
    error = "Interrupt at 1" if end == "interrupt" else "Cancelled at 1"
    assert log == (["put", error] if taken else [error])
    assert place.left() == 0


@pytest.mark.parametrize("end", ["interrupt", "cancel"])
@pytest.mark.parametrize("filled", [0, 1])
@pytest.mark.parametrize("kind", ["store", "container"])
def test_an_abandoned_get_has_happened_or_not(kernel, kind, filled, end):
    """What was taken goes back, or, if others have filled its room, the get returns, and the error comes later."""
    place, log = Place(kernel, kind), list[str]()

    async def getter() -> None:
        try:
            await place.get()
            log.append("got")
            await sleep(9)
        except BaseException as error:
            log.append(f"{type(error).__name__} at {kernel.seconds:g}")

    async def boss() -> None:
        await sleep(1)
        await place.thing.put(1)  # the getter has it, and there is room again
        for _ in range(filled):
            await place.thing.put(1)
        (kernel.interrupt if end == "interrupt" else kernel.cancel)(actor)

    async def both() -> None:
        wait = place.thing.getting(1) if kind == "container" else place.thing.getting()
        log.append(str(await all_of(wait, Latch(kernel), timeout=1)))

    async def early() -> None:
        await place.get()

    kernel.spawn("early", early())
    actor = kernel.spawn("getter", getter(), on_exit=lambda *_: None)
    kernel.spawn("boss", boss())
    kernel.run()
    error = "Interrupt at 1" if end == "interrupt" else "Cancelled at 1"
    assert log == (["got", error] if filled else [error])
    assert place.left() == 1

    with kernel.acting_as(kernel.host):
        kernel.spawn("both", both())
        late = kernel.spawn("late", place.thing.put(1), on_exit=lambda *_: None)
    kernel.run(kernel.now + 5 * 10**9)
    assert log[-1] == "None"
    assert place.left() == 1  # `all_of` kept the room of what it gave back
    assert late.exit is None


def test_an_interrupt_after_a_put_that_happened_ends_with_its_process(kernel):
    """A process that ends with its put gets no interrupt any more, and neither does one that begins again."""
    queue, log = Queue(kernel, 1), list[object]()
    queue.put_nowait(0)

    async def boss() -> None:
        await sleep(1)
        log.extend([await queue.get(), await queue.get(), kernel.interrupt(actor), kernel.interrupt(actor)])

    async def again() -> None:
        await sleep(5)
        log.append("ended in peace")

    actor = kernel.spawn("putter", queue.put(1), on_exit=lambda actor, _: None)
    kernel.spawn("boss", boss())
    kernel.run(2 * 10**9)
    with kernel.acting_as(kernel.host):
        kernel.begin(actor, again())
    kernel.run()
    assert log == [0, 1, True, True, "ended in peace"]
    assert not kernel._interrupts


def test_several_admitted_puts_are_told_apart(kernel):
    """Of three puts of one and the same object, the one that is interrupted is withdrawn, and no other."""
    queue, log = Queue(kernel, 3), list[object]()
    for _ in range(3):
        queue.put_nowait("old")

    async def putter(number: int) -> None:
        try:
            await queue.put("same" if number != 1 else "other")
            log.append(number)
        except Interrupt:
            log.append(-number)

    async def boss() -> None:
        await sleep(1)
        for _ in range(3):
            await queue.get()
        kernel.interrupt(actors[0])
        log.append([*(queue.items or ())])

    actors = [kernel.spawn(f"{number}", putter(number)) for number in (3, 1, 2)]
    kernel.spawn("boss", boss())
    kernel.run()
    assert log == [["other", "same"], 1, 2, -3]


def test_all_of_puts_at_its_end_only(kernel):
    """Room is kept for what `all_of` will put; if it ends early, the room is free again and nothing was put."""
    store, tank, latch = Store[str](kernel, 1), Container(kernel, 4), Latch(kernel)
    log: list[object] = []

    async def both(timeout: float) -> None:
        log.append(await all_of(store.putting("mine"), tank.putting(3), latch, timeout=timeout))

    async def rest() -> None:
        await sleep(1)
        log.append((store.level, tank.level, store.put_nowait("other"), tank.putting(2).take() is None))
        await sleep(2)
        log.append(store.put_nowait("other"))
        await sleep(1)
        assert await store.get() == "other"
        kernel.spawn("late", both(9))
        await sleep(0)
        latch.set()
        await sleep(1)
        log.append((store.state()["items"], tank.level))

    kernel.spawn("early", both(2))
    kernel.spawn("rest", rest())
    kernel.run()
    assert log == [(0, 0, False, False), None, True, [None, None, None], (["mine"], 3)]


def test_groups_are_parts_of_groups(kernel):
    """(a and b) or c, and (a or b) and c, with timeouts at each level; what a part had taken goes back if it loses."""
    a, b, c = Latch(kernel), Latch(kernel), Latch(kernel)
    slots, log = Resource(kernel, 1), list[Any]()

    async def wait() -> None:
        fired = await first_of(all_of(a, slots.wait()), b)
        log.append((fired.index, slots.level))
        fired = await first_of(all_of(b, slots.wait()), c)
        log.append((fired.index, fired.value, slots.level))
        slots.release()
        fired = await first_of(first_of(a, timeout=1), all_of(a, b, timeout=2), timeout=3)
        log.append((fired.index, fired.value.index, kernel.seconds))
        fired = await first_of(all_of(a, b, timeout=1), timeout=2)
        log.append((fired.index, fired.value, kernel.seconds))
        got = await all_of(first_of(a, b), first_of(a, timeout=1), slots.wait())
        assert got is not None
        log.append(([got[0].index, got[1].index, got[2]], slots.level))

    kernel.spawn("wait", wait())
    kernel.call_at(5 * 10**9, lambda: b.set("b"))
    kernel.run()
    assert log == [(1, 1), (0, ["b", 1], 0), (0, None, 6), (0, None, 7), ([1, None, 1], 0)]
    assert slots.level == 1
