"""A program for test_rates.py: random uses of a rate tracker. It writes each answer, and what counts in the end.

Its argument is `plain` or `compiled`.
"""

import random
import sys
from typing import Any

if sys.argv[1] == "plain":
    sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # as if it were not there

from sim.base.errors import SimError
from sim.kernel import Kernel
from sim.kernel.waits import sleep_ns
from sim.resources import Limit, Rate, RateTracker

AGENTS, RESOURCES = ("a", "b", "c"), ("ink", "air", "sand")
RATES = (None, Rate(3, 10), Rate(7, 25), Rate(2**61, 5), Rate(0, 9))
AMOUNTS = (1, 1, 1, 1, 2, 0, True, 1.0, -1, 2**70)


def use(tracker: RateTracker, draw: random.Random) -> Any:
    """Do one thing with a tracker, and return its answer."""
    agent, resource, amount = draw.choice(AGENTS), draw.choice(RESOURCES), draw.choice(AMOUNTS)
    what = draw.randrange(40)
    if what < 12:
        return tracker.consume(agent, resource) if amount == 2 else tracker.consume(agent, resource, amount)  # type: ignore[arg-type]
    if what < 20:
        return tracker.blocked(agent)
    if what < 32:
        other = draw.choice(RESOURCES)
        return tracker.blocked_by(agent, {resource: amount, other: 1})  # type: ignore[dict-item]
    if what < 34:
        reservation = tracker.reserve(agent, resource, 2)
        return tracker.settle(reservation, draw.choice((0, 1, 3)))
    if what < 36:
        return tracker.get_remaining(agent, resource)
    if what == 36:
        return tracker.set_group(agent, draw.choice(("north", "south", None)))
    if what == 37:
        return tracker.forget(agent)
    if what == 38:
        return tracker.set_agent_limit(agent, resource, draw.choice(RATES))
    return tracker.set_limit(resource, Limit(draw.choice(RATES), draw.choice(RATES), draw.choice(RATES)))


async def course(kernel: Kernel, tracker: RateTracker, draw: random.Random) -> None:
    """Use a tracker at many moments, and write what it says."""
    for _ in range(400):
        try:
            answer = use(tracker, draw)
        except (SimError, TypeError) as error:
            answer = f"{type(error).__name__}: {error}"
        sys.stdout.write(f"{kernel.now} {answer}\n")
        if draw.random() < 0.4:
            await sleep_ns(draw.choice((1, 1, 2, 9)))


async def waiter(kernel: Kernel, tracker: RateTracker, draw: random.Random) -> None:
    """Wait for capacity, again and again."""
    for _ in range(40):
        try:
            await tracker.wait_for_capacity(draw.choice(AGENTS), {draw.choice(RESOURCES): draw.choice((1, 2))})
        except SimError as error:
            sys.stdout.write(f"{kernel.now} {error}\n")
        sys.stdout.write(f"{kernel.now} woken\n")
        await sleep_ns(5)


for seed in range(40):
    kernel = Kernel()
    tracker = RateTracker(kernel)
    draw = random.Random(seed)
    if seed % 4:
        kernel.spawn("waiter", waiter(kernel, tracker, random.Random(-seed)))
    kernel.spawn("course", course(kernel, tracker, draw))
    kernel.run(3000)
    sys.stdout.write(f"{tracker.state()} {tracker.statistics()}\n")
