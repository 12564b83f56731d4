"""Random programs that give, take and hold, and are interrupted and cancelled at every kind of moment.

At the end everything must add up: what an actor was told that it put was put once, what it was told that it got is
nowhere else, and what it was told that it did not do has not happened.

`python -m tests.kernel.conservation compiled|plain FIRST COUNT` runs some and prints those that do not add up.
"""

import random
import sys
from collections.abc import Awaitable, Callable
from typing import Any

if __name__ == "__main__" and "plain" in sys.argv:
    sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # so the import fails, as if it were not there

from sim.base.errors import Cancelled, ClosedError, Interrupt
from sim.kernel import COMPILED, Actor, Exit, Kernel, Queue, all_of, first_of
from sim.kernel.waits import sleep_ns
from sim.resources import Container, PreemptiveResource, PriorityResource, Resource, Store, Use

ACTORS = 6
ROUNDS = 12
STEPS = 4000


class Program:
    """One program, told in full by its seed.

    Attributes:
        put: the items of which an actor knows that it has put them.
        got: the items that actors got.
        poured: what actors know to have put into the container, less what they got out of it.
    """

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.kernel = kernel = Kernel(seed, shuffled=dice.random() < 0.2)
        self.queue = Queue(kernel, dice.choice((1, 1, 2)))
        self.store: Store[int] = Store(kernel, dice.choice((1, 1, 2)))
        self.tank = Container(kernel, 6, dice.choice((0, 3, 6)))
        self.slots = [Resource(kernel, dice.choice((1, 2))), PriorityResource(kernel, dice.choice((1, 3)))]
        self.desk = PreemptiveResource(kernel, dice.choice((1, 2)))
        self.put: list[int] = []
        self.got: list[int] = []
        self.poured = self.tank.level
        self.items = 0
        self.actors: list[Actor] = []

    def item(self) -> int:
        """Return a new item. Some are equal objects for Python, so a queue cannot tell them apart by identity."""
        self.items += 1
        return self.items

    # -- what can be waited for: the wait, and what its value means for the account

    def waits(self) -> list[tuple[Any, Callable[[Any], None]]]:
        """Return waits and what is to be done with their values; each wait for one use."""
        dice, item, amount = self.dice, self.item(), self.dice.randrange(1, 5)
        slots, many = dice.choice(self.slots), dice.choice((1, 1, 2))
        wanted = None if dice.random() < 0.6 else lambda item: item % 2 == 0
        return [
            (self.queue, self.got.append),
            (self.store.getting(wanted), self.got.append),
            (self.store.putting(item), lambda _: self.put.append(item)),
            (self.tank.getting(amount), lambda _: self.pour(-amount)),
            (self.tank.putting(amount), lambda _: self.pour(amount)),
            (slots.wait(amount=min(many, int(slots.capacity))), lambda amount: self.hold(slots, amount)),
            (self.desk.wait(priority=dice.randrange(3)), self.use),
        ]

    def pour(self, amount: int) -> None:
        """Note what was put into the container."""
        self.poured += amount

    def hold(self, slots: Any, amount: int) -> None:
        """Give back slots at once, or leave it to the end of the actor."""
        holder = self.kernel.acting()
        assert slots.held_by(holder) >= amount, "an actor does not hold what it was given"
        if self.dice.random() < 0.7:
            slots.release(amount=amount)

    def use(self, use: Use) -> None:
        """Give back the slot at once, or leave it to the end of the actor."""
        if self.dice.random() < 0.7:
            self.desk.release(use)

    # -- what actors do

    async def plain(self) -> None:
        """Wait for one thing."""
        dice, item, amount = self.dice, self.item(), self.dice.randrange(1, 5)
        match dice.randrange(7):
            case 0:
                self.got.append(await self.queue.get())
            case 1:
                await self.queue.put(item)
                self.put.append(item)
            case 2:
                self.got.append(await self.store.get())
            case 3:
                await self.store.put(item)
                self.put.append(item)
            case 4:
                await self.tank.get(amount)
                self.pour(-amount)
            case 5:
                await self.tank.put(amount)
                self.pour(amount)
            case _:
                slots = dice.choice(self.slots)
                await slots.acquire()
                self.hold(slots, 1)

    async def first(self) -> None:
        """Wait for the first of several."""
        chosen = self.dice.sample(self.waits(), self.dice.randrange(1, 4))
        fired = await first_of(*(wait for wait, _ in chosen), timeout=self.limit())
        if fired.index is not None:
            chosen[fired.index][1](fired.value)

    async def every(self) -> None:
        """Wait for all of several."""
        chosen = self.dice.sample(self.waits(), self.dice.randrange(1, 4))
        values = await all_of(*(wait for wait, _ in chosen), timeout=self.limit())
        for (_, note), value in zip(chosen, values or (), strict=bool(values)):
            note(value)

    async def nested(self) -> None:
        """Wait for groups of groups."""
        dice = self.dice
        one, two, three = dice.sample(self.waits(), 3)
        if dice.random() < 0.5:
            fired = await first_of(all_of(one[0], two[0], timeout=self.limit()), three[0], timeout=self.limit())
            if fired.index == 1:
                three[1](fired.value)
            elif fired.index == 0 and fired.value is not None:
                one[1](fired.value[0])
                two[1](fired.value[1])
            return
        values = await all_of(first_of(one[0], two[0], timeout=self.limit()), three[0], timeout=self.limit())
        if values is not None:
            if values[0].index is not None:
                (one, two)[values[0].index][1](values[0].value)
            three[1](values[1])

    def limit(self) -> str | None:
        """Return a timeout, or none."""
        return self.dice.choice((None, "0ns", "1ns", "3ns"))

    def disturb(self) -> None:  # noqa: C901 - a table of what can be done
        """Interrupt or cancel an actor, or take and put without waiting, all in one step."""
        dice = self.dice
        for _ in range(dice.randrange(1, 4)):
            victim = dice.choice(self.actors)
            match dice.randrange(9):
                case 0 | 1 | 2:
                    if victim is not self.kernel.current:
                        self.kernel.interrupt(victim)
                case 3:
                    self.kernel.cancel(victim)
                case 4:
                    item = self.item()
                    if not self.queue.closed and self.queue.put_nowait(item):
                        self.put.append(item)
                case 5:
                    item = self.item()
                    if self.store.put_nowait(item):
                        self.put.append(item)
                case 6:
                    if len(self.queue):
                        self.got.append(self.queue.take())
                case 7:
                    if dice.random() < 0.03:
                        self.got += self.queue.close()
                case _:
                    for slots in self.slots:
                        if slots.acquire_nowait():
                            self.hold(slots, 1)

    async def live(self) -> None:
        """Do this and that."""
        dice = self.dice
        ways: list[Callable[[], Awaitable[None]]] = [self.plain, self.plain, self.first, self.every, self.nested]
        for _ in range(ROUNDS):
            try:
                if dice.random() < 0.3:
                    self.disturb()
                if dice.random() < 0.3:
                    await sleep_ns(dice.choice((0, 1, 1, 2)))
                await dice.choice(ways)()
            except (Interrupt, ClosedError):
                if dice.random() < 0.2:
                    return
            except Cancelled:
                raise

    def ended(self, actor: Actor, end: Exit) -> None:
        """Note that an actor has ended, and so has given back what it held."""
        if end.kind == "crashed":
            assert end.error is not None
            raise end.error

    # -- the run

    def run(self) -> None:
        """Run the program and check that everything adds up."""
        kernel = self.kernel
        for number in range(ACTORS):
            self.actors.append(kernel.spawn(f"a{number}", self.live(), on_exit=self.ended))
        for _ in range(ROUNDS):
            kernel.call_at(self.dice.randrange(30), self.disturb, kernel.supervisor)
        for time in range(60):
            kernel.run(time, STEPS)
            self.check()
        with kernel.acting_as(kernel.host):
            for actor in self.actors:
                kernel.cancel(actor)
        kernel.run(1000, STEPS)
        assert not kernel.actors, "an actor that was cancelled has not ended"
        self.check()
        kernel.close()

    def check(self) -> None:
        """Compare what actors know with what there is."""
        left = [*(self.queue.items or ()), *self.store.state()["items"]]
        actors = self.kernel.actors.values()
        settled = not any(actor.woken or "/" in actor.name for actor in actors)  # a part of `all_of` has a name with /
        if settled:  # else something is on its way, or kept by `all_of`
            assert sorted(self.got + left) == sorted(self.put), "items were lost or doubled"
            assert self.tank.level == self.poured, "the container lost or gained something"
            assert not self.tank._reserved
            assert not self.store._reserved
        assert 0 <= self.tank.level <= self.tank.capacity, "there is more than fits"
        assert self.store.level <= self.store.capacity, "there are more items than fit"
        sources = [*self.actors, self.kernel.host, self.kernel.scenario, self.kernel.supervisor]
        for slots in self.slots:
            held = sum(map(slots.held_by, sources))
            assert slots.level + held <= slots.capacity, "a slot is used twice"
            if settled:
                assert slots.level + held == slots.capacity, "a slot leaked"


def main(first: int, count: int) -> int:
    """Run programs, print those that do not add up, and return their number."""
    assert ("compiled" in sys.argv) == COMPILED
    wrong = 0
    for seed in range(first, first + count):
        try:
            Program(seed).run()
        except Exception as error:
            wrong += 1
            sys.stdout.write(f"{seed} {type(error).__name__}: {error}\n")
    sys.stdout.write(f"{wrong} of {count} do not add up\n")
    return wrong


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[2]), int(sys.argv[3])) > 0)
