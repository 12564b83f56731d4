"""What plain processes use: latches, joins, all_of, interrupts, preemption, and runs until something has happened."""

import asyncio
import gc
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.base.errors import ActorError, ClosedError, ForeignAwaitError, Interrupt, UsageError
from sim.kernel import NS, Actor, Kernel, Latch, Queue, Signal, all_of, first_of, join, run_until, sleep
from sim.kernel.waits import sleep_ns
from sim.resources import Container, Preempted, PreemptiveResource, Resource, Store
from tests.helpers import as_host


def seconds(kernel: Kernel) -> float:
    """Return the simulated time in seconds."""
    return kernel.now / NS


# -- latches


def test_a_latch_is_remembered(kernel):
    """All who wait for a latch wake when it is set, by their ordinals; who comes later passes at once, in that step."""
    latch, log = Latch(kernel), list[object]()

    async def wait(name: str, after: float) -> None:
        await sleep(after)
        log.append((name, await latch.wait(), kernel.now / NS, kernel.delta))

    for name, after in (("b", 2), ("a", 1), ("late", 9)):
        kernel.spawn(name, wait(name, after))
    kernel.call_at(5 * NS, lambda: log.append(latch.set("go")))
    kernel.run()
    assert log == [2, ("b", "go", 5, 1), ("a", "go", 5, 1), ("late", "go", 9, 0)]


def test_a_latch_is_set_once_and_may_fail_or_be_cleared(kernel):
    """A latch cannot be set twice; a failed one raises in those who wait and who come later; cleared it is new."""
    latch, log = Latch(kernel), list[object]()

    async def wait() -> None:
        try:
            log.append(await latch.wait())
        except ValueError as error:
            log.append(str(error))

    kernel.spawn("early", wait())

    async def drive() -> None:
        await sleep(1)
        latch.fail(ValueError("broken"))
        with pytest.raises(UsageError, match="set already"):
            latch.set(1)
        with pytest.raises(UsageError, match="set already"):
            latch.fail(ValueError())
        await wait()
        latch.clear()
        assert not latch.is_set
        assert (await first_of(latch, timeout="3s")).index is None
        latch.set(7)
        assert (await first_of(latch, timeout=0)).value == 7

    kernel.spawn("drive", drive())
    kernel.run()
    assert log == ["broken", "broken"]
    assert seconds(kernel) == 4


# -- joining


def test_join_returns_what_the_actor_returned_also_when_it_has_ended(kernel):
    """Joining waits for the end of an actor, and returns its result at once if it has ended already."""
    log: list[object] = []

    async def work() -> str:
        await sleep("2s")
        return "done"

    worker = kernel.spawn("worker", work())

    async def wait(after: float) -> None:
        await sleep(after)
        log.append((await join(worker), seconds(kernel)))

    for after in (0, 1, 7):
        kernel.spawn(f"after {after}", wait(after))
    kernel.run()
    assert log == [("done", 2), ("done", 2), ("done", 7)]


def test_a_crash_is_raised_in_those_who_join_and_else_ends_the_run(make_kernel):
    """The error of an actor goes to all who join it, early and late; without them, or if they left, it ends the run."""

    async def fail() -> None:
        await sleep(2)
        raise LookupError("lost")

    async def wait(kernel: Kernel, actor: Actor, log: list[object], timeout: float) -> None:
        try:
            log.append(await first_of(join(actor), timeout=timeout))
        except LookupError as error:
            log.append(str(error))

    for timeout, expected in ((5, ["lost", "lost"]), (1, None)):
        kernel, _ = make_kernel()
        log: list[object] = []
        actor = kernel.spawn("fails", fail())
        kernel.spawn("joins", wait(kernel, actor, log, timeout))
        if expected is None:
            with pytest.raises(LookupError):
                kernel.run()
            continue
        kernel.call_at(3 * NS, partial(kernel.spawn, "late", wait(kernel, actor, log, timeout)))
        kernel.run()
        assert log == expected


def test_who_joins_itself_or_a_cancelled_actor_is_told(kernel):
    """An actor that was cancelled has no result, and none can wait for its own end: errors that say so."""
    actors: list[Actor] = []
    log: list[str] = []

    async def wait_for(index: int) -> None:
        try:
            await join(actors[index])
        except (ActorError, UsageError) as error:
            log.append(str(error))

    actors.append(kernel.spawn("forever", Signal(kernel).wait()))
    actors.append(kernel.spawn("self", wait_for(1)))
    kernel.spawn("other", wait_for(0))
    kernel.call_at(5, lambda: kernel.cancel(actors[0]))
    kernel.run()
    assert log == ["self cannot wait for its own end", "forever was cancelled, so it has no result"]


# -- all of several


def test_all_of_returns_the_values_in_the_order_given(kernel):
    """`all_of` ends with the last of its waits and returns all values in the order in which they were given."""
    queue, signal, latch = Queue(kernel, 5), Signal(kernel), Latch(kernel)
    log: list[object] = []

    async def wait() -> None:
        log.append((await all_of(signal, queue, latch, timeout="1m"), seconds(kernel)))
        log.append(await all_of())

    kernel.spawn("wait", wait())
    kernel.call_at(2 * NS, lambda: latch.set("l"))
    kernel.call_at(1 * NS, lambda: signal.fire("s"))
    kernel.call_at(3 * NS, lambda: queue.put_nowait("q"))
    kernel.run()
    assert log == [(["s", "q", "l"], 3), []]


@pytest.mark.parametrize("end", ["timeout", "cancel", "interrupt", "error"])
def test_all_of_takes_all_or_nothing(kernel, end):
    """If it is given up, whatever was taken is where it was before: items in order, slots, amounts."""
    queue, pool, tank = Queue(kernel, 5), Resource(kernel, 2), Container(kernel, 10, 10)
    store: Store[str] = Store(kernel)
    never = Latch(kernel)
    for item in ("one", "two"):
        queue.put_nowait(item)
        store.put_nowait(item)
    log: list[object] = []

    async def wait() -> None:
        waits = (queue, store.getting(), never, queue, store.getting(), pool.wait(amount=2), tank.getting(4))
        try:
            log.append(await all_of(*waits, timeout=5 if end == "timeout" else None))
        except (Interrupt, ValueError) as error:
            log.append(type(error).__name__)

    actor = kernel.spawn("wait", wait(), on_exit=lambda *_: None)
    kernel.call_at(NS, lambda: log.append((len(queue), store.level, pool.level, tank.level)))
    does: dict[str, Callable[[], object]] = {
        "timeout": lambda: None,
        "cancel": lambda: kernel.cancel(actor),
        "interrupt": lambda: kernel.interrupt(actor, "enough"),
        "error": lambda: never.fail(ValueError()),
    }
    kernel.call_at(2 * NS, does[end])
    kernel.run()
    said = {"timeout": (None,), "interrupt": ("Interrupt",), "error": ("ValueError",), "cancel": ()}
    assert log == [(0, 0, 0, 6), *said[end]]
    assert list(queue.items or ()) == ["one", "two"]
    assert store.state()["items"] == ["one", "two"]
    assert (pool.level, tank.level) == (2, 10)
    assert not kernel.actors


def test_all_of_loses_nothing_that_happens_at_the_same_instant(kernel):
    """Signals that fire at one instant, one after the other, all count: no wake-up is lost in between."""
    signals = [Signal(kernel) for _ in range(3)]
    log: list[object] = []

    async def wait() -> None:
        log.append(await all_of(*signals))

    kernel.spawn("wait", wait())
    kernel.call_at(5, lambda: [signal.fire(n) for n, signal in enumerate(signals)])
    kernel.run()
    assert log == [[0, 1, 2]]


# -- interrupts


def test_an_interrupt_is_raised_where_the_actor_waits(kernel):
    """It comes at the instant at which it is sent, with its cause, and the actor may go on."""
    log: list[object] = []

    async def work() -> None:
        for _ in range(2):
            try:
                await sleep("10s")
            except Interrupt as interrupt:
                log.append((interrupt.cause, seconds(kernel)))
            else:
                log.append(seconds(kernel))

    worker = kernel.spawn("worker", work())
    kernel.call_at(4 * NS, lambda: log.append(kernel.interrupt(worker, "phone")))
    kernel.call_at(99 * NS, lambda: log.append(kernel.interrupt(worker, "too late")))
    kernel.run()
    assert log == [True, ("phone", 4), 14, False]


def test_an_interrupted_wait_takes_nothing(kernel):
    """Interrupted while it waits, or when the item is in its hand but not seen, the actor leaves it to the next."""
    queue, log = Queue(kernel, 5), list[object]()

    async def get(name: str) -> None:
        try:
            log.append((name, await queue.get()))
        except Interrupt as interrupt:
            log.append((name, interrupt.cause))

    first = kernel.spawn("first", get("first"))
    kernel.spawn("second", get("second"))
    kernel.call_at(5, lambda: (queue.put_nowait("item"), kernel.interrupt(first, "stop")))
    kernel.run()
    assert log == [("first", "stop"), ("second", "item")]


def test_several_interrupts_arrive_in_order(kernel):
    """Interrupts that are sent at one instant arrive one after the other: none is lost."""
    log: list[object] = []

    async def work() -> None:
        while len(log) < 3:
            try:
                await sleep(100)
            except Interrupt as interrupt:
                log.append((interrupt.cause, seconds(kernel)))

    worker = kernel.spawn("worker", work())
    kernel.call_at(NS, lambda: [kernel.interrupt(worker, n) for n in range(3)])
    kernel.run(2 * NS)
    assert log == [(0, 1), (1, 1), (2, 1)]


def test_an_actor_that_has_not_begun_is_interrupted_at_its_first_wait(kernel):
    """Sent at the instant of its start, an interrupt comes when the actor can catch it, unless it has ended by then."""
    log: list[object] = []

    async def work() -> None:
        log.append("begun")
        try:
            await sleep(5)
        except Interrupt as interrupt:
            log.append((interrupt.cause, seconds(kernel)))

    async def brief() -> None:
        log.append("brief")

    def start() -> None:
        for body in (work(), brief()):
            kernel.interrupt(kernel.spawn("x", body), "at once")

    kernel.call_at(NS, start)
    kernel.run()
    assert log == ["begun", "brief", ("at once", 1)]


def test_cancelling_wins_over_interrupts(kernel):
    """An actor that is being cancelled gets no interrupt; one that was interrupted can be cancelled all the same."""
    log: list[object] = []

    async def work() -> None:
        try:
            await sleep(100)
        except BaseException as error:
            log.append(type(error).__name__)
            raise

    one, two = (kernel.spawn(name, work()) for name in ("one", "two"))

    def act() -> None:
        kernel.cancel(one)
        assert not kernel.interrupt(one)
        assert kernel.interrupt(two)
        kernel.cancel(two)

    kernel.call_at(NS, act)
    kernel.run()
    assert log == ["Cancelled", "Cancelled"]
    assert not kernel._interrupts


def test_none_interrupts_itself_and_an_uncaught_interrupt_is_a_crash(kernel):
    """An actor cannot interrupt itself; one that does not catch an interrupt ends with it, and so does the run."""
    actors: list[Actor] = []

    async def oneself() -> None:
        with pytest.raises(UsageError, match="selfish cannot interrupt itself"):
            kernel.interrupt(actors[0])
        await sleep(9)

    actors.append(kernel.spawn("selfish", oneself()))
    kernel.call_at(NS, lambda: kernel.interrupt(actors[0], "outside"))
    with pytest.raises(Interrupt, match="interrupted: outside"):
        kernel.run()


# -- preemption


def test_a_request_of_higher_priority_takes_the_slot_of_its_user(kernel):
    """The user with the highest number is interrupted, and learns by whom and since when it used the slot."""
    desk, log = PreemptiveResource(kernel, 1), list[object]()

    async def use(name: str, after: float, priority: float, preempt: bool = True) -> None:
        await sleep(after)
        try:
            async with desk.slot(priority=priority, preempt=preempt):
                log.append((seconds(kernel), name, "begins", desk.users))
                await sleep(5)
            log.append((seconds(kernel), name, "ends"))
        except Interrupt as interrupt:
            cause = interrupt.cause
            assert isinstance(cause, Preempted)
            assert cause.resource is desk
            log.append((seconds(kernel), name, cause.by, cause.since))

    kernel.spawn("low", use("low", 0, 2))
    kernel.spawn("patient", use("patient", 1, 0, preempt=False))
    kernel.spawn("equal", use("equal", 2, 2))
    kernel.spawn("high", use("high", 6, -1))
    kernel.run()
    assert log == [
        (0, "low", "begins", ["low"]), (5, "low", "ends"), (5, "patient", "begins", ["patient"]),
        (6, "patient", "high", 5), (6, "high", "begins", ["high"]), (11, "high", "ends"),
        (11, "equal", "begins", ["equal"]), (16, "equal", "ends"),
    ]  # fmt: skip
    assert (desk.level, desk.queue) == (1, 0)


def test_a_slot_taken_away_before_it_is_seen_is_not_given_back_twice(kernel):
    """Handed over and preempted at one instant, a slot belongs to the preempter alone."""
    desk, log = PreemptiveResource(kernel, 1), list[object]()

    async def use(name: str, priority: float) -> None:
        try:
            use = await desk.acquire(priority=priority)
        except Interrupt as interrupt:
            log.append((name, str(interrupt)))
            return
        log.append((name, use.held))

    async def holder() -> None:
        mine = await desk.acquire(priority=0)
        await sleep(5)
        assert desk.release(mine)
        assert not desk.release(mine)
        kernel.begin_now(kernel.adopt("high"), use("high", 0))

    kernel.spawn("holder", holder())
    kernel.spawn("low", use("low", 1))
    kernel.run()
    assert log == [("low", "interrupted: preempted by high, after use since 5 s"), ("high", True)]
    assert (desk.level, desk.users) == (1, [])


def test_preemption_inside_all_of_reaches_the_actor_that_asked(kernel):
    """A slot that is kept while its actor still waits for more can be preempted: the actor itself is interrupted."""
    desk, never, log = PreemptiveResource(kernel, 1), Latch(kernel), list[object]()

    async def both() -> None:
        try:
            await all_of(desk.wait(priority=5), never)
        except Interrupt as interrupt:
            log.append((str(interrupt.cause), desk.users))

    async def high() -> None:
        await sleep(1)
        await desk.acquire(priority=1)
        await sleep(1)

    kernel.spawn("both", both())
    kernel.spawn("high", high())
    kernel.run()
    assert log == [("preempted by high, after use since 0 s", ["high"])]


def test_a_preemptive_resource_refuses_what_makes_no_sense(kernel):
    """No slots, no order, and waiting at a closed resource are errors; nobody preempts oneself."""
    with pytest.raises(UsageError, match="slots"):
        PreemptiveResource(kernel, 0)
    desk, log = PreemptiveResource(kernel, 1), list[str]()
    with pytest.raises(UsageError, match="nan"):
        desk.wait(priority=float("nan"))

    async def twice() -> None:
        await desk.acquire(priority=5)
        try:
            await desk.acquire(priority=0)
        except ClosedError:
            log.append(str(desk.users))

    kernel.spawn("twice", twice())
    kernel.call_at(5, desk.close)
    kernel.run()
    assert log == ["['twice']"]


# -- random scenes against simple models, at times that never coincide


def modelled(slots: int, uses: list[tuple[int, int, int, bool]]) -> list[tuple[int, str, int]]:
    """Return the story of a preemptive resource; a use is (arrival, priority, span, whether it preempts)."""
    story: list[tuple[int, str, int]] = []
    users: dict[int, int] = {}  # who → until when, in the order of hand-over
    line: list[int] = []
    coming = sorted(range(len(uses)), key=lambda number: uses[number][0])

    def begin(now: int, number: int) -> None:
        users[number] = now + uses[number][2]
        story.append((now, "begins", number))

    while coming or users:
        ending = min(users, key=users.__getitem__, default=None)
        if ending is not None and (not coming or users[ending] < uses[coming[0]][0]):
            now = users.pop(ending)
            story.append((now, "ends", ending))
            if line:
                begin(now, line.pop(0))
            continue
        number = coming.pop(0)
        now, priority, _, preempts = uses[number]
        ahead = bool(line) and uses[line[0]][1] <= priority
        lower = [other for other in users if uses[other][1] > priority] if preempts else []
        if ahead or (len(users) == slots and not lower):
            line.append(number)
            line.sort(key=lambda other: uses[other][1])  # stable: in order of arrival among equals
            continue
        if len(users) == slots:
            victim = max(reversed(lower), key=lambda other: uses[other][1])
            del users[victim]
            story.append((now, "preempted", victim))
        begin(now, number)
    return story


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32))
def test_preemption_is_as_in_a_simple_model(seed):
    """Whatever comes when, who uses, waits, is preempted and ends is what a model of two lists says."""
    dice = random.Random(seed)
    slots = dice.randrange(1, 4)
    uses = [
        (dice.randrange(10**12), dice.randrange(4), dice.randrange(1, 10**12), dice.random() < 0.8)
        for _ in range(dice.randrange(14))
    ]
    kernel, story = Kernel(), list[tuple[int, str, int]]()
    desk = PreemptiveResource(kernel, slots)

    async def use(number: int) -> None:
        arrival, priority, span, preempt = uses[number]
        await sleep_ns(arrival)
        try:
            async with desk.slot(priority=priority, preempt=preempt):
                story.append((kernel.now, "begins", number))
                await sleep_ns(span)
            story.append((kernel.now, "ends", number))
        except Interrupt:
            story.append((kernel.now, "preempted", number))

    for number in range(len(uses)):
        kernel.spawn(f"{number}", use(number))
    kernel.run()
    assert sorted(story) == sorted(modelled(slots, uses))
    assert (desk.level, desk.queue) == (slots, 0)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32))
def test_latches_are_as_in_a_simple_model(seed):
    """An actor passes a latch at the first moment from its arrival on at which the latch is set."""
    dice = random.Random(seed)
    changes = sorted(dice.sample(range(10**9), dice.randrange(8)))  # set, cleared, set, ...
    arrivals = dice.sample(range(10**9), dice.randrange(8))
    kernel, passed = Kernel(), dict[int, int]()
    latch = Latch(kernel)

    async def wait(arrival: int) -> None:
        await sleep_ns(arrival)
        assert await latch.wait() == "value"
        passed[arrival] = kernel.now

    for arrival in arrivals:
        kernel.spawn(f"{arrival}", wait(arrival))
    for number, time in enumerate(changes):
        kernel.call_at(time, latch.clear if number % 2 else lambda: latch.set("value"))
    kernel.run()
    expected = {}
    for arrival in arrivals:
        before = sum(time < arrival for time in changes)
        moment = arrival if before % 2 else next(iter(changes[before:]), None)
        if moment is not None:
            expected[arrival] = moment
    assert passed == expected


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32))
def test_interrupts_lose_no_item_and_come_each_once(seed):
    """Getters are interrupted at random, also at the instant of a hand-over: each item is got once or is left, and
    every interrupt that was accepted is seen once.
    """
    dice = random.Random(seed)
    kernel, got, caught = Kernel(), list[int](), list[int]()
    queue = Queue(kernel, 1000)

    async def get() -> None:
        while True:
            try:
                got.append(await queue.get())
                await sleep_ns(dice.randrange(3))
            except Interrupt as interrupt:
                caught.append(interrupt.cause)  # type: ignore[arg-type]  # a number, see below

    getters = [kernel.spawn(f"{number}", get()) for number in range(3)]
    count = dice.randrange(1, 30)
    accepted: list[int] = []

    def act(number: int) -> None:
        for what in dice.sample(("put", "interrupt"), 2):
            if what == "put":
                queue.put_nowait(number)
            elif kernel.interrupt(dice.choice(getters), number):
                accepted.append(number)

    for number in range(count):
        kernel.call_at(1 + number // 3, partial(act, number))
    kernel.run()
    assert sorted(got + list(queue.items or ())) == list(range(count))
    assert sorted(caught) == accepted == list(range(count))


# -- runs until something has happened


def kinds_of_until(world: sim.World) -> dict[str, tuple[Any, object]]:
    """Return, by name, what a run can go up to, and what it then returns; each at 3 s."""
    kernel = world.kernel
    latch, signal, counted = Latch(kernel), Signal(kernel), list[float]()

    async def work() -> str:
        await sleep(3)
        latch.set("set")
        signal.fire("fired")
        counted.append(world.now)
        return "result"

    worker = world.spawn("worker", work())

    async def tick() -> None:
        while True:
            await sleep(1)

    world.spawn("tick", tick())
    return {
        "latch": (latch, "set"), "signal": (signal, "fired"), "actor": (worker, "result"),
        "predicate": (lambda: counted and counted[0], 3.0), "time": ("3s", None),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["latch", "signal", "actor", "predicate", "time"])
@pytest.mark.parametrize("how", ["asyncio", "trio", "kernel"])
def test_a_run_goes_until_something_has_happened(kind, how):
    """Until a latch, a signal, the end of an actor, a condition or a time: it stops at that instant, with the value."""
    world = sim.World()
    until, value = kinds_of_until(world)[kind]
    if how == "kernel":
        assert run_until(world.kernel, until) == value
        assert world.now == 3
        if kind != "signal" and kind != "time":
            assert run_until(world.kernel, until) == value  # it holds already
    else:
        assert anyio.run(lambda: world.run(until), backend=how) == value
        assert world.now == 3
    assert len([actor for actor in world.kernel.actors.values() if actor.name == "run until"]) <= 1


@pytest.mark.parametrize("how", ["world", "kernel"])
def test_a_run_for_what_never_happens_says_so(how):
    """If nothing is due any more, the run ends with an error instead of waiting for ever."""
    for latched in (True, False):
        world = sim.World()
        world.spawn("brief", sleep(2))
        until: Any = Latch(world.kernel) if latched else lambda: False
        run = partial(run_until, world.kernel, until) if how == "kernel" else partial(anyio.run, world.run, until)
        with pytest.raises(UsageError, match="no event is due after 2 s"):
            run()


def test_the_error_of_what_a_run_waits_for_is_raised(kernel):
    """A latch that fails, or an actor that crashes, ends the run with its error."""
    latch = Latch(kernel)
    kernel.call_at(5, lambda: latch.fail(ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        run_until(kernel, latch)

    async def crash() -> None:
        await sleep(1)
        raise LookupError("gone")

    actors: list[Actor] = []
    as_host(kernel, lambda: actors.append(kernel.spawn("crash", crash())))
    kernel.run(kernel.now + 1)
    with pytest.raises(LookupError, match="gone"):
        run_until(kernel, actors[0])


# -- agents


class Sleeper(sim.Agent):
    """Waits inside its first iteration, then sleeps."""

    def __init__(self, agent_id: str, world: sim.World) -> None:
        super().__init__(agent_id, world)
        self.log: list[object] = []

    async def decide_action(self) -> sim.Action | None:
        if not self.log:
            try:
                await sleep("10s")
            except Interrupt as interrupt:
                self.log.append(interrupt.cause)
        self.log.append(self.world.now)
        self.loop.sleep(sim.WakeCondition.after_delay(60))
        return None


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_agent_is_interrupted_within_its_iteration_and_wakes_from_sleep(backend):
    """An interrupt is raised where an agent's code waits; it wakes one that sleeps; a stopped one gets none."""
    world = sim.World()
    manager = sim.AgentLoopManager(world)
    agent = Sleeper("a", world)
    loop = manager.create_loop(agent)
    log: list[object] = []

    async def drive() -> None:
        log.append(await loop.join())
        await loop.start()
        await sleep(2)
        log.append(loop.interrupt("first"))
        await sleep(3)
        log.append((loop.interrupt("second"), loop.woken_by))
        await sleep(1)
        await loop.stop()
        log.append((await loop.join(), loop.interrupt("third")))

    anyio.run(lambda: world.run(until=world.spawn("drive", drive())), backend=backend)
    assert log == ["", True, (True, "interrupt"), ("stop", False)]
    assert agent.log == ["first", 2, 5]


# -- what processes must not do


@pytest.mark.slow
def test_a_process_that_nothing_refers_to_lives_and_its_failure_is_seen(kernel):
    """The kernel keeps what it has spawned, whatever is collected, and its error ends the run."""
    log: list[int] = []

    async def work() -> None:
        for number in range(3):
            await Latch(kernel).wait() if number > 2 else await sleep(1)
            gc.collect()
            log.append(number)
        raise LookupError("seen")

    kernel.spawn("forgotten", work())
    gc.collect()
    with pytest.raises(LookupError, match="seen"):
        kernel.run()
    assert log == [0, 1, 2]


@pytest.mark.parametrize("how", ["asyncio", "trio"])
def test_who_awaits_the_host_s_own_objects_is_told_and_so_is_who_joins_it(how):
    """An actor that awaits asyncio or trio directly gets an error that names it, and its joiner gets the same."""
    world = sim.World()

    async def foreign() -> None:
        if how == "asyncio":
            await asyncio.get_running_loop().create_future()
        await trio.sleep(1)

    async def wait() -> str:
        try:
            await join(world.spawn("foreign", foreign()))
        except ForeignAwaitError as error:
            return str(error)
        return "nothing"

    said = anyio.run(world.run, world.spawn("joins", wait()), backend=how)
    assert said.startswith("foreign awaited")
    assert "at test_processes.py:" in said


def test_actors_that_wait_for_each_other_are_named(kernel):
    """If each actor of a cycle waits for the end of the next, the run ends with an error that names them."""
    actors: dict[str, Actor] = {}
    after = {"a": "b", "b": "c", "c": "a"}

    async def ask(other: str) -> None:
        await join(actors[other])

    for name, other in after.items():
        actors[name] = kernel.spawn(name, ask(other))
    with pytest.raises(UsageError, match="a, b, c still wait"):
        run_until(kernel, actors["a"])
