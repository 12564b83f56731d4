"""Cancellation at every moment of every wait: cancelled means that it did not happen.

A victim waits for something that two others want too, and that is fed in one unit at a time. The scene is run a step at
a time, and the victim is cancelled before each of its steps in turn. If the victim has seen what it waited for, nothing
may have changed; if it has not, everything must be as if it had never waited: who got what and when, what is left, and
nobody held up.
"""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import count, product
from typing import Any

import attrs
import pytest

from sim.actors.mailbox import Mailbox
from sim.base.errors import KernelError
from sim.kernel import Actor, Effect, Kernel, Latch, Outcome, Pause, Queue, Signal, first_of_ns, perform
from sim.kernel.codec import Raw
from sim.kernel.effects import EffectHandle
from sim.kernel.waits import Wait, sleep_ns
from sim.record import HashRecorder
from sim.resources import Container, Limit, PreemptiveResource, PriorityResource, Rate, RateTracker, Resource, Store
from sim.world import Message
from tests.helpers import named

pytestmark = pytest.mark.proof

FEEDS = (10, 20, 30)
"""When one unit comes in, nanoseconds."""

NEVER = 10**6


@attrs.define
class Thing:
    """Something to wait for.

    Args:
        wait: makes a wait for `first_of`; its value is what is got.
        plain: waits for it alone; what is got is used up in the same step.
        feed: lets one unit in; called at each of `FEEDS`.
        left: what is there, and who waits.
        use: what is done, in the same step, with what came out of `wait`.
    """

    wait: Callable[[], Any]
    plain: Callable[[], Coroutine[Any, Any, Any]]
    feed: Callable[[], object] = lambda: None
    left: Callable[[], Any] = lambda: None
    use: Callable[[Any], Any] = lambda value: value


Make = Callable[[Kernel, int], Thing]
"""Makes a thing from a kernel and the thing's number in the scene."""


def _queue_get(kernel: Kernel, number: int) -> Thing:
    queue, numbers = Queue(kernel, 5), count(1)
    return Thing(lambda: queue, queue.get, lambda: queue.put_nowait(next(numbers)), lambda: [*(queue.items or ())])


def _queue_put(kernel: Kernel, number: int) -> Thing:
    queue = Queue(kernel, 1)
    queue.put_nowait("first")

    async def put() -> None:
        await queue.put(kernel.current.name)  # type: ignore[union-attr]  # an actor runs

    return Thing(lambda: None, put, queue.take, lambda: [*(queue.items or ())])


def _signal(kernel: Kernel, number: int) -> Thing:
    signal = Signal(kernel)
    return Thing(
        lambda: signal,
        signal.wait,
        lambda: signal.fire(kernel.now),
        lambda: sum(actor.token == token for actor, token in signal._crowd),
    )


def _latch(kernel: Kernel, number: int) -> Thing:
    latch = Latch(kernel)
    return Thing(
        lambda: latch, latch.wait, lambda: latch.is_set or latch.set(kernel.now), lambda: len(latch._waiters or ())
    )


def _preemptive(kernel: Kernel, number: int) -> Thing:
    pool = PreemptiveResource(kernel, 3)
    with kernel.acting_as(kernel.scenario):
        uses = [pool.wait().take() for _ in range(3)]

    async def acquire() -> None:
        await pool.acquire()

    return Thing(pool.wait, acquire, lambda: pool.release(uses.pop()), lambda: (pool.level, pool.queue))


def _slots(kernel: Kernel, number: int, kind: Any = Resource, amount: int = 1) -> Thing:
    pool = kind(kernel, 3)
    pool.acquire_nowait(amount=3)

    def wanted() -> dict[str, int]:
        name = kernel.current.name  # type: ignore[union-attr]  # an actor runs
        ranks = {"victim": 1, "one": 0, "two": 2} if kind is PriorityResource else {}
        return {"amount": amount if name == "victim" else 1, "priority": ranks.get(name, 0)}

    async def acquire() -> None:
        await pool.acquire(**wanted())

    def wait() -> Any:
        return pool.wait(**wanted())

    return Thing(wait, acquire, pool.release, lambda: (pool.level, pool.queue))


def _container_get(kernel: Kernel, number: int, amount: float = 1) -> Thing:
    tank = Container(kernel, 10)

    def wanted() -> float:
        return amount if kernel.current.name == "victim" else 1  # type: ignore[union-attr]

    async def get() -> float:
        return await tank.get(wanted())

    return Thing(lambda: tank.getting(wanted()), get, lambda: tank.putting(1).take(), lambda: (tank.level, tank.queue))


def _container_put(kernel: Kernel, number: int) -> Thing:
    tank = Container(kernel, 5, 5)

    async def put() -> None:
        await tank.put(1)

    return Thing(lambda: tank.putting(1), put, lambda: tank.getting(1).take(), lambda: (tank.level, tank.queue))


def _store_get(kernel: Kernel, number: int) -> Thing:
    store, numbers = Store[int](kernel), count(1)
    return Thing(
        store.getting, lambda: _finish(store.get()), lambda: store.put_nowait(next(numbers)), lambda: store.state()
    )


def _store_put(kernel: Kernel, number: int) -> Thing:
    store = Store[str](kernel, 1)
    store.put_nowait("first")

    def name() -> str:
        return kernel.current.name  # type: ignore[union-attr]  # an actor runs

    return Thing(
        lambda: store.putting(name()), lambda: _finish(store.put(name())), store.getting().take, lambda: store.state()
    )


async def _finish(wait: Any) -> Any:
    return await wait


def _rates(kernel: Kernel, number: int, take: bool = True) -> Thing:
    tracker = RateTracker(kernel, f"rates {number}")
    tracker.set_limit("calls", Limit(None, None, Rate(1, 10), "block"))
    assert tracker.consume("a", "calls")

    def use(reservation: Any) -> bool:
        return reservation is not None or tracker.consume("a", "calls")

    async def plain() -> Any:
        return use(await tracker.wait_for_capacity("a", {"calls": 1}, take=take))

    def left() -> Any:
        return tracker.state(), tracker.time_until_capacity("a", "calls")

    return Thing(lambda: tracker.capacity("a", {"calls": 1}, take=take), plain, left=left, use=use)


def _room(kernel: Kernel, number: int) -> Thing:
    mailbox = Mailbox(kernel, 1, "block")

    def write(_: Any) -> str | None:
        name = kernel.current.name  # type: ignore[union-attr]  # an actor runs
        return mailbox.offer(Message(name, "owner", "letter", Raw(b"null"), kernel.now))

    async def plain() -> Any:
        await mailbox.wait_for_room()
        return write(None)

    write(None)
    return Thing(lambda: None, plain, mailbox.take, lambda: [message.sender for message in mailbox.queue.items or ()])


THINGS: dict[str, Make] = {
    "queue get": _queue_get,
    "queue put": _queue_put,
    "signal": _signal,
    "resource": _slots,
    "priority resource": partial(_slots, kind=PriorityResource),
    "latch": _latch,
    "preemptive resource": _preemptive,
    "container get": _container_get,
    "container put": _container_put,
    "store get": _store_get,
    "store put": _store_put,
    "rate, taking": _rates,
    "rate, promised": partial(_rates, take=False),
    "mailbox room": _room,
}

LARGE: dict[str, Make] = {
    "resource": partial(_slots, amount=2),
    "priority resource": partial(_slots, kind=PriorityResource, amount=2),
    "container get": partial(_container_get, amount=2),
}
"""Those of which the victim can want more than the others, who then wait behind it."""

ONE_OF_SEVERAL = [name for name in THINGS if name not in ("queue put", "mailbox room")]
"""Those that can be waited for in `first_of`."""


class Scene:
    """A victim and two others that want the same, run a step at a time.

    Args:
        things: make what is waited for.
        victim: makes the victim's wait from these.
    """

    def __init__(self, things: tuple[Make, ...], victim: Callable[[Kernel, list[Thing]], Coroutine[Any, Any, Any]]):
        self.cancelled_at = NEVER
        self.recorder = HashRecorder(keep=True)
        kernel = self.kernel = Kernel(recorder=self.recorder)
        self.things = [make(kernel, number) for number, make in enumerate(things)]
        self.victim = kernel.spawn("victim", self._victim(victim), on_exit=lambda *_: None)
        for number, thing in enumerate(self.things):
            for delay, name in ((2, "one"), (3, "two")):
                kernel.spawn(name, self._other(thing, number, delay), on_exit=self._ended)
            for time in FEEDS:
                kernel.call_at(time, thing.feed)

    async def _victim(self, wait: Callable[[Kernel, list[Thing]], Coroutine[Any, Any, Any]]) -> None:
        await sleep_ns(1)
        value = await wait(self.kernel, self.things)
        self.kernel.emit("got", value)

    async def _other(self, thing: Thing, number: int, delay: int) -> None:
        await sleep_ns(delay)
        self.kernel.emit("got", [number, await thing.plain()])

    def _ended(self, actor: Actor, exit: Any) -> None:
        assert exit.kind in ("returned", "cancelled"), exit

    def run(self, cancel_before: int | None = None, *, interrupt: bool = False) -> int:
        """Run to the end, cancelling or interrupting the victim before one of the steps; return how many there were."""
        steps = 0
        while True:
            if steps == cancel_before:
                self.cancelled_at = self.kernel.now
                with self.kernel.acting_as(self.kernel.host):
                    (self.kernel.interrupt if interrupt else self.kernel.cancel)(self.victim)
            if self.step() is not Pause.BUDGET:
                return steps
            steps += 1

    def step(self) -> Pause:
        """Run one step."""
        return self.kernel.run(NEVER // 2, 1)

    def outcome(self) -> tuple[list[Any], list[Any]]:
        """Return who got what and when, the victim left out, and what is left at the end.

        Within an instant by name: what is given back by who was cancelled at the moment of hand-over reaches the next
        at the same time, in a later round.
        """
        self.recorder.flush()
        rows = [(row.time_ns, row.actor, row.data) for row in named(self.recorder.rows) if row.actor != "victim"]
        return sorted(rows, key=repr), [thing.left() for thing in self.things]

    @property
    def seen(self) -> bool:
        """Whether the victim has seen what it waited for."""
        self.recorder.flush()
        return any(row.actor == "victim" for row in named(self.recorder.rows))


def check(make: Callable[[Any], Scene], wait: Any, *, interrupt: bool = False) -> None:
    """Cancel, or interrupt, at every step.

    Compare with a run in which nothing is cancelled, or with one in which the victim only sleeps.
    """
    whole, absent = make(wait), make(_asleep)
    steps = whole.run()
    absent.run(0)
    assert whole.seen
    unseen = 0
    for moment in range(steps + 1):
        scene = make(wait)
        scene.run(moment, interrupt=interrupt)
        expected = whole if scene.seen else absent
        unseen += not scene.seen
        assert scene.outcome() == expected.outcome(), f"cancelled before step {moment} of {steps}"
        assert scene.victim.exit is not None
        assert scene.victim.exit.kind == ("returned" if scene.seen else "crashed" if interrupt else "cancelled")
        assert not scene.kernel.effects.in_flight
    assert unseen >= 3  # before it began, while it waited, and between hand-over and its step


async def _asleep(kernel: Kernel, things: list[Thing]) -> None:
    await sleep_ns(NEVER)


async def _alone(kernel: Kernel, things: list[Thing]) -> Any:
    return await things[0].plain()


def _first(order: tuple[int, ...], timeout_ns: int | None, extra: bool) -> Any:
    """Return a victim that waits for the first of several."""

    async def wait(kernel: Kernel, things: list[Thing]) -> Any:
        waits: list[Wait] = [things[number].wait() for number in order]
        if extra:
            waits.insert(0, Signal(kernel))
        fired = await first_of_ns(*waits, timeout_ns=timeout_ns)
        if fired.index is None:
            return "timeout"
        number = fired.index - extra
        return [number, things[order[number]].use(fired.value) is not None]

    return wait


@pytest.mark.parametrize("interrupt", [False, True])
@pytest.mark.parametrize("name", THINGS)
def test_a_wait_alone(name, interrupt):
    """Cancelled or interrupted at any moment before it has seen its value, a wait took and lost nothing, and blocked no
    other.
    """
    check(lambda victim: Scene((THINGS[name],), victim), _alone, interrupt=interrupt)


@pytest.mark.parametrize("timeout_ns", [None, 5, 9, 19, 500])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("name", ONE_OF_SEVERAL)
def test_a_wait_among_others_with_a_timeout(name, extra, timeout_ns):
    """The same in `first_of`, with and without a signal beside it, and a timeout before, at and after the hand-over."""
    check(lambda victim: Scene((THINGS[name],), victim), _first((0,), timeout_ns, extra))


@pytest.mark.parametrize("name", ONE_OF_SEVERAL)
def test_an_interrupted_wait_among_others(name):
    """Interrupted in `first_of` with a timeout, at any moment, it took nothing."""
    check(lambda victim: Scene((THINGS[name],), victim), _first((0,), 19, True), interrupt=True)


@pytest.mark.parametrize("timeout_ns", [None, 9])
@pytest.mark.parametrize(("one", "two"), [*product(ONE_OF_SEVERAL, repeat=2)])
def test_the_first_of_two_waits(one, two, timeout_ns):
    """Of any two waits that are fed at the same instants, the loser keeps what it has, whenever one is cancelled."""
    check(lambda victim: Scene((THINGS[one], THINGS[two]), victim), _first((0, 1), timeout_ns, False))


@pytest.mark.parametrize("timeout_ns", [None, 25])
@pytest.mark.parametrize("name", LARGE)
def test_a_large_need_that_is_given_up_lets_those_behind_it_go_on(name, timeout_ns):
    """Who waits behind a larger need that is cancelled gets the same as if that had never been, at once if late."""
    wait = _alone if timeout_ns is None else _first((0,), timeout_ns, False)
    steps, absent = Scene((LARGE[name],), wait).run(), Scene((LARGE[name],), _asleep)
    absent.run(0)
    for moment in range(steps + 1):
        scene = Scene((LARGE[name],), wait)
        scene.run(moment)
        if not scene.seen:
            (rows, left), (expected, kept) = scene.outcome(), absent.outcome()
            assert left == kept
            assert [row[1:] for row in rows] == [row[1:] for row in expected]
            for (time, *_), (earliest, *_) in zip(rows, expected, strict=True):
                assert time in (earliest, max(earliest, scene.cancelled_at))


# -- effects


class Outside:
    """Carries effects out: modelled ones at once, measured ones at `ANSWERS`."""

    def __init__(self) -> None:
        self.handles: list[EffectHandle] = []

    def start(self, handle: EffectHandle, /) -> bool:
        if handle.modelled:
            handle.kernel.effects.record(handle, Outcome("ok", "answer"))
            handle.kernel.effects.post(handle, Outcome("ok", "answer"))
            return False
        self.handles.append(handle)
        return True

    def abandon(self, handle: EffectHandle, /) -> None:
        """Nobody waits for it."""


ANSWERED = 12
"""When measured effects are answered, nanoseconds."""


class EffectScene(Scene):
    """The victim and two others perform effects."""

    def __init__(self, options: dict[str, Any], victim: Any) -> None:
        self.outside = Outside()
        self.options = options
        super().__init__((_signal,), victim)
        self.kernel.effects.performer = self.outside
        for delay, name in ((1, "three"), (4, "four")):
            self.kernel.spawn(name, self._performer(delay), on_exit=self._ended)

    async def _performer(self, delay: int) -> None:
        await sleep_ns(delay)
        outcome = await perform(self.effect())
        self.kernel.emit("got", [outcome.kind, outcome.value])

    def effect(self) -> Effect:
        """Return the effect."""
        return Effect("call", {"n": 1}, _never, **self.options)

    def step(self) -> Pause:
        kernel = self.kernel
        waiting = any(handle.state == "running" for handle in self.outside.handles)
        pause = kernel.run(ANSWERED + 1 if waiting else NEVER // 2, 1)
        if pause is Pause.BUDGET:
            return pause
        if waiting and kernel.whole():
            due = kernel.next_time()
            if due is not None and due <= ANSWERED:
                return Pause.BUDGET  # it paused because an effect began
            kernel.advance_to(max(ANSWERED, kernel.now))
            for handle in self.outside.handles:
                if kernel.effects.wanted(handle):
                    kernel.effects.record(handle, Outcome("ok", "answer"))
                    kernel.effects.post(handle, Outcome("ok", "answer"))
            self.outside.handles.clear()
            return Pause.BUDGET
        due = kernel.next_time()
        return pause if due is None or due >= NEVER // 2 else Pause.BUDGET


async def _never(request: Any, key: str) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    "options",
    [{"latency_ns": 9}, {"latency_ns": 0}, {"latency_ns": 20, "deadline_ns": 9}, {}, {"deadline_ns": 5}],
    ids=["modelled", "at once", "modelled, too late", "measured", "measured, too late"],
)
def test_an_effect(options):
    """A cancelled effect is never seen by its actor, is closed as abandoned, and moves nobody else."""

    async def ask(kernel: Kernel, things: list[Thing]) -> Any:
        outcome = await perform(Effect("call", {"n": 1}, _never, **options))
        return [outcome.kind, outcome.value]

    check(lambda victim: EffectScene(options, victim), ask)
    for moment in _moments(lambda: EffectScene(options, ask)):
        scene = EffectScene(options, ask)
        scene.run(moment)
        begun = [row for row in scene.recorder.intents if row.actor == "victim"]
        ended = [row.ending for row in scene.recorder.endings if row.actor == "victim"]
        assert len(ended) == len(begun)
        if not scene.seen:
            assert ended in ([], ["abandoned"], ["delivered"], ["timeout"])
            waited = scene.victim.exit is not None and scene.victim.exit.kind == "cancelled"
            assert waited


def _moments(make: Callable[[], Scene]) -> Iterator[int]:
    return iter(range(make().run() + 1))


def test_the_world_is_not_changed_from_outside_of_a_step():
    """These tests cancel as the host does: without acting on somebody's behalf it is refused."""
    scene = Scene((_queue_get,), _alone)
    scene.kernel.run(5)
    with pytest.raises(KernelError):
        scene.kernel.cancel(scene.victim)
