"""A slot belongs to who acquired it: no other can release it, and it is released when its holder ends."""

from collections.abc import Callable
from typing import Any

import pytest

import sim
from sim.base.errors import Interrupt, UsageError
from sim.kernel import Kernel, all_of, first_of, sleep
from sim.resources import PreemptiveResource, PriorityResource, Resource
from tests.actors.helpers import Lab, Script

KINDS: dict[str, Callable[[Kernel], Any]] = {
    "resource": lambda kernel: Resource(kernel, 1), "priority": lambda kernel: PriorityResource(kernel, 1),
    "preemptive": lambda kernel: PreemptiveResource(kernel, 1),
}  # fmt: skip


def test_others_cannot_release_a_slot(kernel):
    """A slot of another is not released by mistake: the one who tries gets an error, and the holder keeps its slot."""
    desk, log = Resource(kernel, 1), list[object]()

    async def holder() -> None:
        async with desk.slot():
            await sleep(5)
        log.append("holder is done")

    async def other() -> None:
        await sleep(1)
        with pytest.raises(UsageError, match="other cannot release 1 slots of a resource, because it holds 0"):
            desk.release()
        log.append(desk.level)

    async def late() -> None:
        await sleep(2)
        async with desk.slot():
            log.append(("late", kernel.seconds))

    for process in (holder, other, late):
        kernel.spawn(process.__name__, process())
    kernel.run()
    assert log == [0, "holder is done", ("late", 5)]
    assert desk.level == 1


def test_a_supervisor_releases_a_slot_of_another_by_name(kernel):
    """`holder` says whose slot it is; more than the holder has cannot be released, by whomever."""
    desk = PriorityResource(kernel, 5)

    async def holder() -> None:
        await desk.acquire(amount=3)
        await desk.acquire()
        await sleep(9)

    async def boss() -> None:
        await sleep(1)
        for amount in (5, 0, -1, 1.5, True):
            with pytest.raises(UsageError, match="because it holds 4"):
                desk.release(amount=amount, holder=actor)  # type: ignore[arg-type]  # some are no whole numbers
        desk.release(amount=2, holder=actor)
        assert (desk.level, desk.held_by(actor)) == (3, 2)

    actor = kernel.spawn("holder", holder())
    kernel.spawn("boss", boss())
    kernel.run()
    assert desk.level == 5


@pytest.mark.parametrize("end", ["returns", "crashes", "cancelled", "interrupted"])
@pytest.mark.parametrize("how", ["acquire", "first_of", "all_of", "slot"])
@pytest.mark.parametrize("kind", KINDS)
def test_slots_of_a_process_that_ends_are_free(kernel, kind, how, end):
    """However a process ends, and however it came to its slot, the next in line gets the slot at that instant."""
    desk, log = KINDS[kind](kernel), list[float]()

    async def use() -> None:
        if how == "acquire":
            await desk.acquire()
        elif how == "first_of":
            await first_of(desk.wait(), timeout=1)
        elif how == "all_of":
            await all_of(desk.wait(), timeout=1)
        else:
            await desk.slot().__aenter__()
        await sleep(3 if end in ("returns", "crashes") else 99)
        if end == "crashes":
            raise ValueError

    async def late() -> None:
        await sleep(1)
        await desk.acquire()
        log.append(kernel.seconds)

    actor = kernel.spawn("user", use(), on_exit=lambda *_: None)
    kernel.spawn("late", late())
    if end in ("cancelled", "interrupted"):
        call = kernel.cancel if end == "cancelled" else kernel.interrupt
        kernel.call_at(3 * 10**9, lambda: call(actor))
    kernel.run()
    assert log == [3]
    assert (desk.level, actor.held) == (1, None)


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_keeps_its_slots_until_it_stops(kind, mode):
    """An agent holds what its code acquired in one iteration also in the next ones, until it releases it or stops."""
    lab = Lab()
    desk = KINDS[kind](lab.kernel)
    levels: list[int] = []

    async def step(agent: Script) -> sim.Action | None:
        if len(agent.times) == 1:
            await desk.acquire()
        levels.append(desk.level)
        return sim.Action("stop") if len(agent.times) == 3 else None

    loop = lab.add("a", step, min_loop_delay=1, started=mode == "autonomous")
    if mode == "tick":
        lab.tick(1.0)
    lab.run(10)
    assert (loop.state, levels, desk.level) == ("stopped", [0, 0, 0], 1)


def test_holders_of_several_kinds_are_told_apart(kernel):
    """Slots of several resources, in any order of release, with amounts, and preempted in between."""
    one, two, desk = Resource(kernel, 3), PriorityResource(kernel, 2), PreemptiveResource(kernel, 2)
    log: list[object] = []

    async def user() -> None:
        await one.acquire(amount=2)
        use = await desk.acquire(priority=5)
        await two.acquire()
        await one.acquire()
        try:
            await sleep(9)
        except Interrupt:
            log.append((use.held, desk.release(use)))
        one.release(amount=2)
        two.release()
        with pytest.raises(UsageError, match="holds 0"):
            two.release()
        log.append((one.level, two.level, one.held_by(actor)))

    async def rivals() -> None:
        await sleep(1)
        for _ in range(2):
            await desk.acquire(priority=1)
        await sleep(0)
        log.append(desk.level)

    actor = kernel.spawn("user", user())
    kernel.spawn("rivals", rivals())
    kernel.run()
    assert log == [(False, False), (2, 2, 1), 0]
    assert (one.level, two.level, desk.level, actor.held) == (3, 2, 2, None)


def test_the_use_of_a_slot_is_checked(kernel):
    """What `acquire` did not return is no use of this resource."""
    desk, other = PreemptiveResource(kernel, 1), PreemptiveResource(kernel, 1)
    wrong: Any = None

    async def user() -> None:
        use = await desk.acquire()
        for pool, given in ((desk, wrong), (other, use)):
            with pytest.raises(UsageError, match="is not the use of a slot of this resource"):
                pool.release(given)
        assert [desk.release(use), desk.release(use)] == [True, False]

    kernel.spawn("user", user())
    kernel.run()


@pytest.fixture
def kernel() -> Kernel:
    """Return a kernel."""
    return Kernel()
