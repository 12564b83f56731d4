"""Random programs for the kernel, each told in full by its seed, and a trace of all that happens in them.

`python -m tests.kernel.programs compiled|plain FIRST COUNT` runs some and prints a line for each: its seed, how many
steps it took and a hash of its trace; with `--show` the trace itself.

What the actors do is drawn from one stream while they run, so that the first difference in the order changes all that
comes after it.
"""

import hashlib
import random
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any

if __name__ == "__main__" and "plain" in sys.argv:
    sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # so the import fails, as if it were not there

from sim.base.errors import Cancelled, LivelockError, RunError
from sim.kernel import (
    COMPILED,
    Actor,
    Exit,
    Kernel,
    Latch,
    Pause,
    Queue,
    Signal,
    Source,
    all_of,
    first_of_ns,
    join,
    sleep,
)  # fmt: skip
from sim.kernel.codec import encode
from sim.kernel.duration import MAX_NS
from sim.kernel.future_events import Entry
from sim.kernel.order import WakeBatch
from sim.kernel.ports import NullRecorder
from sim.kernel.rows import EventRow
from sim.kernel.waits import sleep_ns
from sim.resources import Container, PreemptiveResource, PriorityResource, Resource, Store
from sim.resources.slots import SlotWait
from tests.kernel.acts import Acts

SPANS = (0, 0, 1, 1, 2, 3, 10, 1000, 1000, 2**20, 2**27 - 1, 2**27, 2**28 + 1, 2**30, 2**31, 10**10, 2**40, 2**61)
BUDGETS = (1, 2, 3, 5, 17, 200, 255, 256, 257, 600)
STEPS = 1500  # of one program; most end before
PAUSES = 60


class Stopped(RunError):
    """Ends a run at once."""


def keys(entry: Entry) -> list[tuple[object, ...]]:
    """Return an entry without its target; for a crowd, of which the loop in C has one, those of who has not run."""
    *key, counter, target, token = entry
    if not isinstance(target, WakeBatch):
        return [(*key, counter, token)]
    return [(*key, counter, token) for n, (actor, token) in enumerate(target) if n >= target.place and actor]


class Foreign:
    """A wait of some other library."""

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self)


class Missing(Kernel):
    """A kernel that can be made to wait for an outcome."""

    __slots__ = ("missing",)

    def __init__(self, seed: int, **options: Any) -> None:
        self.missing = MAX_NS
        super().__init__(seed, **options)

    def first_missing(self) -> int:
        return self.missing


class Program(NullRecorder):
    """One program; it records the events of its own kernel.

    Attributes:
        trace: what happened.
    """

    def __init__(self, seed: int) -> None:
        self.trace: list[object] = []
        self.dice = dice = random.Random(seed)
        self.kernel = kernel = Missing(
            seed, shuffled=dice.random() < 0.2, max_deltas=dice.choice((3, 20, 50, 100, 10_000)), recorder=self
        )
        kernel._purge_at = dice.choice((2, 20, 1024))  # as many timers may be stale before they are looked for
        kernel.inputs["act"] = lambda _: self.act("input")
        self.queues = [Queue(kernel, dice.choice((1, 2, 5, 2**62, 2**70))) for _ in range(dice.choice((1, 3)))]
        self.signals = [Signal(kernel) for _ in range(dice.choice((1, 3)))]
        kinds: list[tuple[type[Resource | PriorityResource], int]] = [
            (Resource, 2), (PriorityResource, 1), (Resource, 1), (PriorityResource, 4), (Resource, 3),
        ]  # fmt: skip
        self.slots = [kind(kernel, slots) for kind, slots in kinds[: dice.choice((2, 3, 5))]]
        self.tank = Container(kernel, 10, 5)
        self.store: Store[int] = Store(kernel, 2)
        self.latch = Latch(kernel)
        self.desk = PreemptiveResource(kernel, dice.choice((1, 2)))
        self.sources: list[Source] = [kernel.host, kernel.scenario, kernel.supervisor]
        self.actors: list[Actor] = []
        self.timers: list[Any] = []
        self.kept: list[Any] = []  # entries of steps
        self.acts = Acts(kernel, dice)
        self.items = 0
        everything: list[Callable[[str], Coroutine[Any, Any, object]]] = [
            self.rest, self.get, self.put, self.hear, self.choose, self.hold, self.pour, self.keep, self.do,
            self.line, self.line, self.many, self.nest, self.acts.afford, self.acts.trade, self.gather,
            self.serve, self.meet, self.hurry, self.spoil, self.by_hand,
        ]  # fmt: skip
        self.weights = [dice.choice((0, 1, 1, 4)) for _ in everything[:-2]] + [dice.choice((0, 0.2)) for _ in range(2)]
        if dice.random() < 0.4:  # a program of little but slots, with long lines
            for place, does in enumerate(everything):
                if does not in (self.rest, self.do, self.line, self.many, self.nest, self.hold, self.choose):
                    self.weights[place] /= 20
        self.weights[0] += 1
        self.everything = everything

    # -- the trace

    def note(self, *what: object) -> None:
        """Append to the trace, with the place in time."""
        self.trace.append((self.kernel.now, self.kernel.delta, *what))

    def event(self, row: EventRow, /) -> None:
        self.trace.append((*row[:7], encode(row[7]), row[8]))

    def state(self) -> object:
        """Return all that tells how a kernel stands."""
        kernel = self.kernel
        later = sorted(entry[:4] + entry[5:] for bucket in kernel.calendar.buckets.values() for entry in bucket)
        return (
            kernel.steps, kernel._begun, kernel._midway, kernel.crowded, kernel.calendar.shift, kernel._stale,
            [key for entry in kernel.calendar.unread() for key in keys(entry)],
            [entry[:4] + entry[5:] for entry in kernel.ready], later,
            [(source.name, source.ordinal, source.counter) for source in self.sources],
            [(actor.token, actor.cancelling, actor.woken, said(actor.exit)) for actor in self.actors],
            [(len(queue), len(queue._getters or ()), queue.closed) for queue in self.queues],
            [len(signal._crowd.waiting) for signal in self.signals],
            [pool.statistics() for pool in (*self.slots, self.tank, self.store, self.desk)],
            self.latch.is_set, self.desk.users,
            [
                [pool.closed, *((*place[:2], place[2].name, *place[3:5]) for place in pool._line.places)]
                for pool in self.slots
            ],
            [None if entry is None else (*entry[:4], entry[5]) for entry in self.kept[-9:]],
            self.acts.state(),
        )  # fmt: skip

    # -- what actors do

    async def live(self, name: str) -> object:
        """Do this and that; some take errors and cancellation lightly."""
        dice = self.dice
        stubborn = dice.random() ** 0.5
        for number in range(dice.choice((3, 10, 40))):
            does = dice.choices(self.everything, self.weights)[0]
            try:
                result = await does(name)
            except BaseException as error:
                self.note(name, does.__name__, said(error))
                if isinstance(error, GeneratorExit | RunError) or dice.random() > stubborn:
                    raise
            else:
                self.note(name, does.__name__, number, result)
        return (name, stubborn) if dice.random() < 0.5 else None

    async def rest(self, _: str) -> object:
        span = self.dice.choice(SPANS)
        await (sleep_ns(span) if self.dice.random() < 0.8 else sleep(span % 100))
        return span

    async def get(self, _: str) -> object:
        return await self.dice.choice(self.queues).get()

    async def put(self, _: str) -> object:
        self.items += 1
        queue = self.dice.choice(self.queues)
        if self.dice.random() < 0.7:
            return queue.put_nowait(self.items)
        return await queue.put(self.items)  # type: ignore[func-returns-value]  # one of the things to find out

    async def hear(self, name: str) -> object:
        got = await self.dice.choice(self.signals).wait()
        self.emit(name)
        return got

    async def choose(self, _: str) -> object:
        dice = self.dice
        waits: list[Any] = [
            *self.queues, *self.signals, *(slot.wait() for slot in self.slots), self.tank.getting(3),
            self.store.getting(),
        ]  # fmt: skip
        return await first_of_ns(
            *dice.sample(waits, dice.randrange(4)), timeout_ns=dice.choice((None, 0, 1, 5, 1000, 10**9, -1))
        )

    async def hold(self, _: str) -> object:
        slots = self.dice.choice(self.slots)
        async with slots.slot(priority=self.dice.randrange(3)):
            await sleep_ns(self.dice.choice(SPANS[:8]))
        return slots.level

    async def line(self, _: str) -> object:
        """Take one slot without saying so, as is most common, and perhaps never give it back."""
        dice, slots = self.dice, self.dice.choice(self.slots)
        got = await slots.acquire()  # type: ignore[func-returns-value]  # one of the things to find out
        try:
            if dice.random() < 0.8:
                await sleep_ns(dice.choice(SPANS[:8]))
        finally:
            if dice.random() < 0.95:
                slots.release()
        return got, slots.level

    async def many(self, _: str) -> object:
        """Take several, perhaps more than there are, and give them back in parts."""
        dice, slots = self.dice, self.dice.choice(self.slots)
        amount = dice.choice((1, 1, 2, 2, 3, 4, 5, 0, -1))
        if dice.random() < 0.5:
            await slots.acquire(amount=amount)
        else:
            await slots.acquire(amount=amount, priority=dice.choice((0, -1, 2, 0.5)))
        try:
            await sleep_ns(dice.choice(SPANS[:8]))
        finally:
            while amount:
                part = dice.randrange(amount) + 1
                slots.release(amount=part)
                amount -= part
        return slots.level

    async def nest(self, _: str) -> object:
        """Hold slots of one or two resources within one another; that may stand still for ever."""
        outer, inner = (self.dice.choice(self.slots) for _ in range(2))
        async with outer.slot():
            await sleep_ns(self.dice.choice(SPANS[:4]))
            if self.dice.random() < 0.5:
                await inner.acquire()
                inner.release()
            else:
                async with inner.slot(amount=self.dice.choice((1, 1, 2))):
                    await sleep_ns(0)
        return outer.level, inner.level

    async def pour(self, _: str) -> object:
        amount = self.dice.randrange(1, 12)
        return await (self.tank.get(amount) if self.dice.random() < 0.5 else self.tank.put(amount))

    async def keep(self, _: str) -> object:
        self.items += 1
        return await (self.store.get() if self.dice.random() < 0.5 else self.store.put(self.items))

    async def gather(self, _: str) -> object:
        """Wait for all of several, or give up."""
        dice = self.dice
        waits: list[Any] = [
            *self.queues, *self.signals, self.latch, self.tank.getting(2), self.desk.wait(priority=dice.randrange(3)),
            *(slot.wait() for slot in self.slots),
        ]  # fmt: skip
        got = await all_of(*dice.sample(waits, dice.randrange(4)), timeout=dice.choice((None, "1ns", "1us", 1)))
        return got is not None and len(got)

    async def serve(self, _: str) -> object:
        """Use a slot that may be taken away."""
        async with self.desk.slot(priority=self.dice.randrange(4), preempt=self.dice.random() < 0.8) as use:
            await sleep_ns(self.dice.choice(SPANS[:8]))
        return use.number

    async def meet(self, _: str) -> object:
        """Wait for the latch, or for the end of an actor."""
        dice = self.dice
        wait: Any = self.latch.wait() if dice.random() < 0.5 else join(dice.choice(self.actors))
        return said(await wait)

    async def do(self, name: str) -> object:
        return self.act(name)

    async def hurry(self, _: str) -> object:
        """Go on within the same instant, again and again."""
        for _again in range(self.dice.choice((2, 8, 60))):
            await sleep_ns(0)
        return None

    async def spoil(self, name: str) -> object:
        """Do what nobody should."""
        half: Any = 0.5
        wrongs = Foreign, lambda: sleep_ns(-1), lambda: sleep_ns(half), lambda: sleep_ns(True), lambda: None
        wrong: Any = self.dice.choice(wrongs)
        errors = ValueError(name), StopIteration(name), SystemExit(1), KeyboardInterrupt(), Stopped(name), Cancelled()
        error: Any = self.dice.choice((*errors, *[None] * 4))
        if error is not None:
            raise error
        return await wrong()

    async def by_hand(self, _: str) -> object:
        """Drive a wait without awaiting it."""
        dice, result = self.dice, list[object]()
        slots = self.slots[dice.randrange(2)]
        wait: Any = dice.choice((self.queues[0].get, self.signals[0].wait, lambda: sleep_ns(7), slots.acquire))()
        for _again in range(dice.randrange(3)):
            try:
                answer = wait.send(None)
                result.append(answer.__class__.__name__)
            except StopIteration as stop:
                result.append(("ended", stop.value))
                return result
        try:
            result.append(dice.choice((wait.close, lambda: wait.throw(KeyError(5)), lambda: None))())
        except KeyError as error:
            result.append(error.args)
        return result

    # -- what anybody does, in one step

    def act(self, name: str) -> object:
        dice = self.dice
        does = dice.choice(
            (self.fire, self.fire, self.fail, self.close, self.cancel, self.cancel, self.spawn, self.spawn, self.at,
             self.every, self.stop_timer, self.halt, self.emit, self.begin, self.resume, self.another, self.block,
             self.nowait, self.nowait, self.snatch, self.give, self.give, self.shut, self.cancel_in_line,
             self.interrupt, self.interrupt, self.latch_on,
             self.acts.spend, self.acts.spend, self.acts.spend, self.acts.say, self.acts.say, self.acts.check)
        )  # fmt: skip
        try:
            return does.__name__, does(name)
        except Exception as error:
            return does.__name__, said(error)

    def fire(self, name: str) -> object:
        return self.dice.choice(self.signals).fire(name)

    def fail(self, name: str) -> object:
        self.dice.choice(self.signals).fail(ValueError(name))
        return name

    def nowait(self, _: str) -> object:
        self.items += 1
        return [queue.put_nowait(self.items) for queue in self.queues]

    def snatch(self, _: str) -> object:
        return [slots.acquire_nowait(priority=self.dice.randrange(3)) for slots in self.slots if not slots.closed]

    def give(self, _: str) -> object:
        """Give back slots, whoever holds them."""
        slots = self.dice.choice(self.slots)
        slots.release(amount=self.dice.choice((1, 1, max(1, int(slots.capacity) - slots.level), 2, 0, -1)))
        return slots.level

    def shut(self, _: str) -> object:
        if self.dice.random() < 0.7:  # else there would soon be nothing to wait for
            return None
        place = self.dice.randrange(len(self.slots))
        slots = self.slots[place]
        slots.close()
        if self.dice.random() < 0.9:
            self.slots[place] = type(slots)(self.kernel, self.dice.choice((1, 2, 3)))
        return slots.statistics()

    def interrupt(self, name: str) -> object:
        return [self.kernel.interrupt(actor, name) for actor in self.dice.choices(self.actors, k=2)]

    def latch_on(self, name: str) -> object:
        if self.latch.is_set:
            self.latch.clear()
        elif self.dice.random() < 0.8:
            return self.latch.set(name)
        else:
            self.latch.fail(ValueError(name))
        return None

    def cancel_in_line(self, _: str) -> object:
        """Cancel one of those who wait for slots, or have been given some just now."""
        places = [place for slots in self.slots for place in slots._line.places]
        given = [actor for actor in self.actors if isinstance(actor.via, SlotWait) and actor.woken]
        if not places and not given:
            return None
        actor = self.dice.choice([*given, *(place[2] for place in places)])
        woken = actor.woken
        self.kernel.cancel(actor)
        return actor.name, woken

    def close(self, _: str) -> object:
        place = self.dice.randrange(len(self.queues))
        left = self.queues[place].close()
        if self.dice.random() < 0.7:
            self.queues[place] = Queue(self.kernel, 2)
        return left

    def cancel(self, _: str) -> object:
        actor = self.dice.choice(self.actors)
        self.kernel.cancel(actor)
        return actor.name

    def spawn(self, name: str) -> object:
        if len(self.actors) > 120:
            return None
        name = f"{name[:20]}.{len(self.actors)}"
        watched = self.ended if self.dice.random() < 0.9 else None
        actor = self.kernel.spawn(name, self.live(name), on_exit=watched)
        self.actors.append(actor)
        self.sources.append(actor)
        return actor.ordinal

    def begin(self, name: str) -> object:
        if len(self.actors) > 120:
            return None
        actor = self.kernel.adopt(f"{name[:20]}!{len(self.actors)}")
        actor.on_exit = self.ended
        self.actors.append(actor)
        self.sources.append(actor)
        self.kernel.begin_now(actor, self.live(actor.name))
        return actor.ordinal

    def resume(self, _: str) -> object:
        waiting = [
            actor for actor in self.actors if not (actor.coro is None or actor.woken or actor is self.kernel.current)
        ]
        if not waiting:
            return None
        actor = self.dice.choice(waiting)
        self.kernel.resume_now(actor, "resumed")
        return actor.name

    def ended(self, actor: Actor, exit: Exit) -> None:
        self.note(actor.name, said(exit))
        if self.dice.random() < 0.1:
            self.act(actor.name)
        if self.dice.random() < 0.02:
            raise ValueError(f"{actor.name} had its end told")

    def at(self, name: str) -> object:
        time = self.kernel.now + self.dice.choice(SPANS)
        self.timers.append(self.kernel.call_at(time, lambda: self.note(name, "timer", self.act(f"{name[:20]}@"))))
        return time

    def every(self, name: str) -> object:
        period = self.dice.choice(SPANS)
        self.timers.append(self.kernel.call_every(period, lambda: self.note(name, "ticker", self.nowait(name))))
        return period

    def stop_timer(self, _: str) -> object:
        return self.timers.pop(self.dice.randrange(len(self.timers))).cancel() if self.timers else None

    def halt(self, _: str) -> object:
        return self.dice.choice((self.kernel.halt, self.kernel.pause))()

    def emit(self, name: str) -> object:
        if self.dice.random() < 0.5:
            self.kept.append(self.kernel.step_under_way())
        return self.kernel.emit("topic", name)

    def another(self, name: str) -> object:
        """Run a kernel within the step."""
        kernel = Kernel(max_deltas=5)
        queue, seen = Queue(kernel, 2), list[object]()

        async def reader() -> None:
            for _ in range(3):
                item = await queue.get()
                seen.append(item)

        kernel.spawn("reader", reader())
        for number in range(3):
            kernel.call_at(number * 5, lambda: queue.put_nowait(name))
        return kernel.run(), seen, kernel.steps

    def block(self, _: str) -> object:
        """Let an outcome be missing."""
        self.kernel.missing = self.kernel.now + self.dice.choice(SPANS)
        self.kernel.look_out(self.kernel.missing)
        return self.kernel.missing

    # -- the run

    def run(self) -> list[object]:
        """Run the program and return its trace."""
        kernel, dice = self.kernel, self.dice
        for number in range(dice.choice((1, 3, 8, 20, 90))):
            self.spawn(f"a{number}")
        for _ in range(dice.randrange(4)):
            self.act("scenario")
        kernel.current = None
        for _ in range(PAUSES):
            limit = dice.choice((MAX_NS, MAX_NS, kernel.now, kernel.now + 1, kernel.now + dice.choice(SPANS), 2**80))
            try:
                pause: object = kernel.run(limit, dice.choice(BUDGETS))
            except BaseException as error:
                pause = said(error)
                if isinstance(error, LivelockError):  # so that it can go on
                    kernel._max_deltas += 30
            self.trace.append((pause, kernel.now, kernel.delta, self.state()))
            if (pause is Pause.IDLE and dice.random() < 0.7) or kernel.steps > STEPS:
                break
            if pause is Pause.BLOCKED:
                kernel.missing = MAX_NS
            self.interfere()
        self.note("closed")
        kernel.close()
        return self.trace

    def interfere(self) -> None:
        """Do, between two runs, what a host does."""
        kernel, dice = self.kernel, self.dice
        does = dice.choice(("nothing", "nothing", "input", "drain", "advance", "ahead", "act"))
        try:
            if does == "input":
                kernel.apply("act", None)
            elif does == "drain":
                kernel.drain()
            elif does == "advance":
                kernel.advance_to(kernel.now + dice.choice(SPANS))
            elif does == "ahead" and self.actors and kernel.whole():
                actor = dice.choice(self.actors)
                kernel.bring_in(kernel.now, 1, kernel.ahead(kernel.now, 1, actor, lambda: self.note(self.act("ahead"))))
            elif does == "act":
                with kernel.acting_as(kernel.supervisor):
                    self.note(self.act("supervisor"))
        except BaseException as error:
            self.note(does, said(error))


def said(what: object) -> object:
    """Return what an error or an exit says, without the addresses of objects."""
    if isinstance(what, Exit):
        return what.kind, what.value, said(what.error)
    if isinstance(what, BaseException):
        return type(what).__name__, [said(arg) for arg in what.args], said(what.__cause__)
    return what if isinstance(what, int | str | tuple | None) else type(what).__name__


def main(first: int, count: int, show: bool) -> None:
    """Run programs and print a line for each."""
    assert ("compiled" in sys.argv) == COMPILED
    for seed in range(first, first + count):
        program = Program(seed)
        trace = program.run()
        told = "\n".join(map(str, trace))
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        sys.stdout.write(f"{seed} {program.kernel.steps} {len(trace)} {digest}\n" + (told + "\n" if show else ""))


if __name__ == "__main__":
    main(int(sys.argv[2]), int(sys.argv[3]), "--show" in sys.argv)
