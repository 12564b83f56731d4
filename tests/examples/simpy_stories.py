"""Seven well-known small models, each told twice: by SimPy and by `sim`, with the same random draws.

They are those of SimPy's documentation ("Examples"): a bank with impatient customers, a carwash, a machine shop, a
cinema, a gas station, processes that communicate, and a cable that takes time. Each function returns the story as a
list of (time in seconds, what happened). Ours use public names of `sim` only. Each process draws from a generator
of its own, so that the order of processes at one instant, which differs between the two, changes no draw.
"""

import random
from collections.abc import Generator
from typing import Any

import simpy

import sim

Story = list[tuple[float, str]]
Process = Generator[Any, Any, Any]


class Dice(random.Random):
    """Draws times in steps of 1/512 s, which both whole nanoseconds and binary fractions can hold: sums are exact."""

    def uniform(self, a: float, b: float) -> float:
        return _in_steps(super().uniform(a, b))

    def expovariate(self, lambd: float = 1.0) -> float:
        return _in_steps(super().expovariate(lambd))

    def normalvariate(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        return _in_steps(super().normalvariate(mu, sigma))


def _in_steps(time: float) -> float:
    return round(time * 512) / 512


def telling(story: Story, now: Any) -> Any:
    """Return a function that appends to a story."""
    return lambda *words: story.append((now(), " ".join(map(str, words))))


# -- Bank Renege: customers join the line of a counter, and leave when they have waited too long


def bank_simpy(seed: int) -> Story:
    """Tell it by SimPy."""
    env, story = simpy.Environment(), Story()
    tell = telling(story, lambda: env.now)
    counter = simpy.Resource(env, capacity=1)

    def customer(number: int) -> Process:
        dice = Dice(f"customer {seed} {number}")
        tell(number, "arrives")
        patience = dice.uniform(1, 3)
        with counter.request() as request:
            outcome = yield request | env.timeout(patience)
            if request not in outcome:
                tell(number, "reneges after", patience)
                return
            tell(number, "is served")
            yield env.timeout(dice.expovariate(1 / 12))
            tell(number, "leaves")

    def door() -> Process:
        dice = Dice(f"door {seed}")
        for number in range(12):
            env.process(customer(number))
            yield env.timeout(dice.expovariate(1 / 10))

    env.process(door())
    env.run()
    return story


def bank_sim(seed: int) -> Story:
    """Tell it by `sim`."""
    kernel, story = sim.Kernel(), Story()
    tell = telling(story, lambda: kernel.seconds)
    counter = sim.Resource(kernel, 1)

    async def customer(number: int) -> None:
        dice = Dice(f"customer {seed} {number}")
        tell(number, "arrives")
        patience = dice.uniform(1, 3)
        got = await sim.first_of(counter.wait(), timeout=patience)
        if got.index is None:
            tell(number, "reneges after", patience)
            return
        tell(number, "is served")
        await sim.sleep(dice.expovariate(1 / 12))
        tell(number, "leaves")
        counter.release()

    async def door() -> None:
        dice = Dice(f"door {seed}")
        for number in range(12):
            kernel.spawn(f"customer {number}", customer(number))
            await sim.sleep(dice.expovariate(1 / 10))

    kernel.spawn("door", door())
    sim.run_until(kernel, "1d")
    return story


# -- Carwash: a few machines, a line of cars, and each wash takes a fixed time


def carwash_simpy(seed: int) -> Story:
    """Tell it by SimPy."""
    env, story = simpy.Environment(), Story()
    tell = telling(story, lambda: env.now)
    machines = simpy.Resource(env, capacity=2)

    def wash(car: int) -> Process:
        dice = Dice(f"wash {seed} {car}")
        yield env.timeout(5)
        tell("washed", dice.randint(50, 99), "% off car", car)

    def drive(car: int) -> Process:
        tell("car", car, "arrives")
        with machines.request() as request:
            yield request
            tell("car", car, "enters")
            yield env.process(wash(car))
            tell("car", car, "leaves")

    def street() -> Process:
        dice = Dice(f"street {seed}")
        for car in range(4):
            env.process(drive(car))
        for car in range(4, 12):
            yield env.timeout(dice.randint(5, 9))
            env.process(drive(car))

    env.process(street())
    env.run(until=60)
    return story


def carwash_sim(seed: int) -> Story:
    """Tell it by `sim`."""
    kernel, story = sim.Kernel(), Story()
    tell = telling(story, lambda: kernel.seconds)
    machines = sim.Resource(kernel, 2)

    async def wash(car: int) -> None:
        dice = Dice(f"wash {seed} {car}")
        await sim.sleep(5)
        tell("washed", dice.randint(50, 99), "% off car", car)

    async def drive(car: int) -> None:
        tell("car", car, "arrives")
        async with machines.slot():
            tell("car", car, "enters")
            await sim.join(kernel.spawn(f"wash {car}", wash(car)))
            tell("car", car, "leaves")

    async def street() -> None:
        dice = Dice(f"street {seed}")
        for car in range(4):
            kernel.spawn(f"car {car}", drive(car))
        for car in range(4, 12):
            await sim.sleep(dice.randint(5, 9))
            kernel.spawn(f"car {car}", drive(car))

    kernel.spawn("street", street())
    sim.run_until(kernel, 60)
    return story


# -- Machine Shop: machines break down while they work; one repairer also has other jobs, and drops them for a machine


def shop_simpy(seed: int) -> Story:
    """Tell it by SimPy."""
    env, story = simpy.Environment(), Story()
    tell = telling(story, lambda: env.now)
    repairer = simpy.PreemptiveResource(env, capacity=1)
    broken: set[int] = set()
    works: dict[int, simpy.Process] = {}

    def work(number: int, dice: Dice) -> Process:
        while True:
            left = max(0.5, dice.normalvariate(10, 2))
            while left:
                start = env.now
                try:
                    yield env.timeout(left)
                    left = 0
                except simpy.Interrupt as interrupt:
                    tell("machine", number, interrupt.cause)
                    left -= env.now - start
                    broken.add(number)
                    with repairer.request(priority=1) as request:
                        yield request
                        tell("machine", number, "is being repaired")
                        yield env.timeout(30)
                    broken.discard(number)
                    tell("machine", number, "works again")
            tell("machine", number, "made a part")

    def fail(number: int, dice: Dice) -> Process:
        while True:
            yield env.timeout(dice.expovariate(1 / 300))
            _ = number in broken or works[number].interrupt("broke down")  # type: ignore[func-returns-value]

    def other_jobs() -> Process:
        while True:
            left = 30.0
            while left:
                with repairer.request(priority=2) as request:
                    yield request
                    start = env.now
                    tell("other job begins")
                    try:
                        yield env.timeout(left)
                        left = 0
                    except simpy.Interrupt as interrupt:
                        left -= env.now - start
                        since = interrupt.cause.usage_since  # type: ignore[union-attr]  # the cause is a Preempted
                        tell("other job is preempted, begun", float(since))
            tell("other job is done")

    for number in range(5):
        works[number] = env.process(work(number, Dice(f"work {seed} {number}")))
        env.process(fail(number, Dice(f"fail {seed} {number}")))
    env.process(other_jobs())
    env.run(until=1500)
    return story


def shop_sim(seed: int) -> Story:
    """Tell it by `sim`."""
    kernel, story = sim.Kernel(), Story()
    tell = telling(story, lambda: kernel.seconds)
    repairer = sim.PreemptiveResource(kernel, 1)
    broken: set[int] = set()
    works: dict[int, sim.Actor] = {}

    async def work(number: int, dice: Dice) -> None:
        while True:
            left = max(0.5, dice.normalvariate(10, 2))
            while left:
                start = kernel.seconds
                try:
                    await sim.sleep(left)
                    left = 0
                except sim.Interrupt as interrupt:
                    tell("machine", number, interrupt.cause)
                    left -= kernel.seconds - start
                    broken.add(number)
                    async with repairer.slot(priority=1):
                        tell("machine", number, "is being repaired")
                        await sim.sleep(30)
                    broken.discard(number)
                    tell("machine", number, "works again")
            tell("machine", number, "made a part")

    async def fail(number: int, dice: Dice) -> None:
        while True:
            await sim.sleep(dice.expovariate(1 / 300))
            _ = number in broken or kernel.interrupt(works[number], "broke down")

    async def other_jobs() -> None:
        while True:
            left = 30.0
            while left:
                try:
                    async with repairer.slot(priority=2):
                        start = kernel.seconds
                        tell("other job begins")
                        await sim.sleep(left)
                        left = 0
                except sim.Interrupt as interrupt:
                    left -= kernel.seconds - start
                    since = interrupt.cause.since  # type: ignore[attr-defined]  # the cause is a Preempted
                    tell("other job is preempted, begun", float(since))
            tell("other job is done")

    for number in range(5):
        works[number] = kernel.spawn(f"machine {number}", work(number, Dice(f"work {seed} {number}")))
        kernel.spawn(f"fault {number}", fail(number, Dice(f"fail {seed} {number}")))
    kernel.spawn("other jobs", other_jobs())
    sim.run_until(kernel, 1500)
    return story


# -- Movie Renege: a ticket counter for several movies; who waits for one that is sold out leaves the line


def cinema_simpy(seed: int) -> Story:
    """Tell it by SimPy."""
    env, story = simpy.Environment(), Story()
    tell = telling(story, lambda: env.now)
    counter = simpy.Resource(env, capacity=1)
    left = dict.fromkeys("abc", 20)
    sold_out = {movie: env.event() for movie in left}

    def moviegoer(number: int, movie: str, tickets: int) -> Process:
        with counter.request() as turn:
            outcome = yield turn | sold_out[movie]
            if turn not in outcome:
                tell(number, "leaves:", movie, "is sold out")
                return
            if left[movie] < tickets:
                tell(number, "argues about", tickets, "tickets for", movie)
                yield env.timeout(0.5)
                return
            left[movie] -= tickets
            tell(number, "buys", tickets, "for", movie)
            if left[movie] < 2:
                left[movie] = 0
                tell(movie, "is sold out")
                sold_out[movie].succeed()
            yield env.timeout(1)

    def arrivals() -> Process:
        dice = Dice(f"arrivals {seed}")
        for number in range(150):
            yield env.timeout(dice.expovariate(2))
            movie, tickets = dice.choice("abc"), dice.randint(1, 6)
            if left[movie]:
                env.process(moviegoer(number, movie, tickets))

    env.process(arrivals())
    env.run(until=120)
    return story


def cinema_sim(seed: int) -> Story:
    """Tell it by `sim`."""
    kernel, story = sim.Kernel(), Story()
    tell = telling(story, lambda: kernel.seconds)
    counter = sim.Resource(kernel, 1)
    left = dict.fromkeys("abc", 20)
    sold_out = {movie: sim.Latch(kernel) for movie in left}

    async def moviegoer(number: int, movie: str, tickets: int) -> None:
        got = await sim.first_of(counter.wait(), sold_out[movie])
        if got.index == 1:
            tell(number, "leaves:", movie, "is sold out")
            return
        try:
            if left[movie] < tickets:
                tell(number, "argues about", tickets, "tickets for", movie)
                await sim.sleep(0.5)
                return
            left[movie] -= tickets
            tell(number, "buys", tickets, "for", movie)
            if left[movie] < 2:
                left[movie] = 0
                tell(movie, "is sold out")
                sold_out[movie].set()
            await sim.sleep(1)
        finally:
            counter.release()

    async def arrivals() -> None:
        dice = Dice(f"arrivals {seed}")
        for number in range(150):
            await sim.sleep(dice.expovariate(2))
            movie, tickets = dice.choice("abc"), dice.randint(1, 6)
            if left[movie]:
                kernel.spawn(f"moviegoer {number}", moviegoer(number, movie, tickets))

    kernel.spawn("arrivals", arrivals())
    sim.run_until(kernel, 120)
    return story


# -- Gas Station Refueling: cars share pumps and a tank; when the tank runs low a truck is called


def station_simpy(seed: int) -> Story:
    """Tell it by SimPy."""
    env, story = simpy.Environment(), Story()
    tell = telling(story, lambda: env.now)
    pumps = simpy.Resource(env, capacity=2)
    tank = simpy.Container(env, 200, init=200)

    def car(number: int) -> Process:
        dice = Dice(f"car {seed} {number}")
        fuel = 50 - dice.randint(5, 25)
        tell("car", number, "arrives")
        with pumps.request() as request:
            yield request
            yield tank.get(fuel)
            yield env.timeout(fuel / 2)
            tell("car", number, "has", fuel, "litres")

    def control() -> Process:
        while True:
            if tank.level / tank.capacity < 0.25:
                tell("truck is called at", tank.level)
                yield env.timeout(300)
                amount = tank.capacity - tank.level
                yield tank.put(amount)
                tell("truck fills in", amount)
            yield env.timeout(10)

    def street() -> Process:
        dice, number = Dice(f"street {seed}"), 0
        while True:
            yield env.timeout(dice.uniform(30, 100))
            env.process(car(number))
            number += 1

    env.process(control())
    env.process(street())
    env.run(until=2000)
    return story


def station_sim(seed: int) -> Story:
    """Tell it by `sim`."""
    kernel, story = sim.Kernel(), Story()
    tell = telling(story, lambda: kernel.seconds)
    pumps = sim.Resource(kernel, 2)
    tank = sim.Container(kernel, 200, level=200)

    async def car(number: int) -> None:
        dice = Dice(f"car {seed} {number}")
        fuel = 50 - dice.randint(5, 25)
        tell("car", number, "arrives")
        async with pumps.slot():
            await tank.get(fuel)
            await sim.sleep(fuel / 2)
            tell("car", number, "has", fuel, "litres")

    async def control() -> None:
        while True:
            if tank.level / tank.capacity < 0.25:
                tell("truck is called at", tank.level)
                await sim.sleep("5m")
                amount = tank.capacity - tank.level
                await tank.put(amount)
                tell("truck fills in", amount)
            await sim.sleep(10)

    async def street() -> None:
        dice, number = Dice(f"street {seed}"), 0
        while True:
            await sim.sleep(dice.uniform(30, 100))
            kernel.spawn(f"car {number}", car(number))
            number += 1

    kernel.spawn("control", control())
    kernel.spawn("street", street())
    sim.run_until(kernel, 2000)
    return story


# -- Process Communication: one sends to another, then to several at once, each with a store of its own


def messages_simpy(seed: int) -> Story:
    """Tell it by SimPy."""
    env, story = simpy.Environment(), Story()
    tell = telling(story, lambda: env.now)
    pipe: simpy.Store = simpy.Store(env)
    boxes: list[simpy.Store] = [simpy.Store(env, capacity=5) for _ in range(2)]

    def send(name: str, out: list[simpy.Store]) -> Process:
        dice = Dice(f"send {seed} {name}")
        while True:
            yield env.timeout(dice.uniform(6, 10))
            yield env.all_of([box.put((env.now, name)) for box in out])

    def receive(name: str, box: simpy.Store) -> Process:
        dice = Dice(f"receive {seed} {name}")
        while True:
            at, sender = yield box.get()
            late = "late" if at < env.now else "in time"
            tell(name, "reads", late, "what", sender, "sent at", float(at))
            yield env.timeout(dice.uniform(4, 8))

    env.process(send("a", [pipe]))
    env.process(receive("b", pipe))
    env.process(send("c", boxes))
    for number, box in enumerate(boxes):
        env.process(receive(f"d{number}", box))
    env.run(until=200)
    return story


def messages_sim(seed: int) -> Story:
    """Tell it by `sim`."""
    kernel, story = sim.Kernel(), Story()
    tell = telling(story, lambda: kernel.seconds)
    pipe: sim.Store[tuple[float, str]] = sim.Store(kernel)
    boxes: list[sim.Store[tuple[float, str]]] = [sim.Store(kernel, 5) for _ in range(2)]

    async def send(name: str, out: list[sim.Store[tuple[float, str]]]) -> None:
        dice = Dice(f"send {seed} {name}")
        while True:
            await sim.sleep(dice.uniform(6, 10))
            await sim.all_of(*(box.putting((kernel.seconds, name)) for box in out))

    async def receive(name: str, box: sim.Store[tuple[float, str]]) -> None:
        dice = Dice(f"receive {seed} {name}")
        while True:
            at, sender = await box.get()
            late = "late" if at < kernel.seconds else "in time"
            tell(name, "reads", late, "what", sender, "sent at", float(at))
            await sim.sleep(dice.uniform(4, 8))

    kernel.spawn("a", send("a", [pipe]))
    kernel.spawn("b", receive("b", pipe))
    kernel.spawn("c", send("c", boxes))
    for number, box in enumerate(boxes):
        kernel.spawn(f"d{number}", receive(f"d{number}", box))
    sim.run_until(kernel, 200)
    return story


# -- Event Latency: what is sent into a cable comes out some time later, without holding up what is sent next


def cable_simpy(seed: int) -> Story:
    """Tell it by SimPy."""
    env, story = simpy.Environment(), Story()
    tell = telling(story, lambda: env.now)
    end: simpy.Store = simpy.Store(env)

    def travel(message: int, delay: float) -> Process:
        yield env.timeout(delay)
        yield end.put((message, env.now - delay))

    def send() -> Process:
        dice = Dice(f"send {seed}")
        for message in range(15):
            yield env.timeout(5)
            env.process(travel(message, dice.uniform(8, 12)))

    def receive() -> Process:
        while True:
            message, sent = yield end.get()
            tell("message", message, "sent at", float(sent), "is here")

    env.process(send())
    env.process(receive())
    env.run(until=100)
    return story


def cable_sim(seed: int) -> Story:
    """Tell it by `sim`."""
    kernel, story = sim.Kernel(), Story()
    tell = telling(story, lambda: kernel.seconds)
    end: sim.Store[tuple[int, float]] = sim.Store(kernel)

    async def travel(message: int, delay: float) -> None:
        await sim.sleep(delay)
        await end.put((message, kernel.seconds - delay))

    async def send() -> None:
        dice = Dice(f"send {seed}")
        for message in range(15):
            await sim.sleep(5)
            kernel.spawn(f"message {message}", travel(message, dice.uniform(8, 12)))

    async def receive() -> None:
        while True:
            message, sent = await end.get()
            tell("message", message, "sent at", float(sent), "is here")

    kernel.spawn("send", send())
    kernel.spawn("receive", receive())
    sim.run_until(kernel, 100)
    return story


STORIES = {
    "Bank Renege": (bank_simpy, bank_sim),
    "Carwash": (carwash_simpy, carwash_sim),
    "Machine Shop": (shop_simpy, shop_sim),
    "Movie Renege": (cinema_simpy, cinema_sim),
    "Gas Station Refueling": (station_simpy, station_sim),
    "Process Communication": (messages_simpy, messages_sim),
    "Event Latency": (cable_simpy, cable_sim),
}
"""By the name of the example: the model by SimPy, and by `sim`."""
