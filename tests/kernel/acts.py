"""What the actors of random programs do with limits, the event bus and the arguments of actions."""

import random
from typing import Any

from sim.base.errors import LimitError, SimError
from sim.events import Event, EventBus
from sim.kernel import Kernel, first_of_ns
from sim.kernel.codec import Record
from sim.resources import Limit, Rate, RateTracker, Reservation
from sim.world.action import ActionHandler, Refused

NAMES = ("calls", "tokens", "bytes", "other", "calls-own")
TOPICS = ("a", "a.b", "a.c", "b", "b.b.c")
PATTERNS = ("a", "a.*", "**", "b.**", "a.b")


class Told(Record, frozen=True, gc=False):
    """Data of an event, as the built-in actions have it."""

    what: str
    number: int


class Text(str):
    """Text that is not exactly text."""

    __slots__ = ()


class Acts:
    """Limits, a bus and a handler of one kernel, and what can be done with them in one step.

    Args:
        kernel: of the program.
        dice: what it draws from.
    """

    def __init__(self, kernel: Kernel, dice: random.Random) -> None:
        self.dice = dice
        self.kernel = kernel
        self.tracker = RateTracker(kernel)
        self.bus = EventBus(kernel)
        self.heard: list[object] = []
        self.held: list[Reservation] = []
        self.subscriptions: list[Any] = []
        self.handler = ActionHandler("do", _apply)
        rates = [None, Rate(2, 1000), Rate(3, 2), Rate(5, 2**27), Rate(0, 10), Rate(2**70, 5)]
        for name in NAMES[:-2]:
            agent, group, total = (dice.choice(rates) for _ in range(3))
            self.tracker.set_limit(name, Limit(agent, group, total, dice.choice(("block", "skip"))))
        for pattern in dice.sample(PATTERNS, dice.choice((0, 0, 1, 2))):
            self.subscriptions.append(self.bus.subscribe(pattern, callback=self.hear))

    def state(self) -> object:
        """Return all that tells how they stand."""
        windows = [
            (resource, scope, window.used, window.limit, [*(window.entries or ())])
            for resource, scope, window in self.tracker._scoped()
        ]
        counts, marks = [*self.bus.counts.items()], [past[:3] + past[4:] for past in self.bus._recent]
        return windows, self.tracker.statistics(), self.bus.statistics(), counts, marks, self.heard[-3:]

    def spend(self, name: str) -> object:
        """Ask for units, or take some, or change what there is, some times."""
        return [self._spend(name) for _ in range(self.dice.choice((1, 3, 9)))]

    def _spend(self, name: str) -> object:
        dice, tracker = self.dice, self.tracker
        agent = dice.choice((name[:2], "a1", Text("a1")))
        resource = dice.choice((*NAMES, "cal" + "ls"[dice.randrange(2) :], Text("calls")))
        amount: Any = dice.choice((1, 1, 1, 1, 1, 2, 2, 0, 3, dice.choice((2**70, True, -1, 1.0))))
        does = dice.randrange(22)
        if does < 11:
            return tracker.consume(agent, resource) if does < 8 else tracker.consume(agent, resource, amount)
        if does < 14:
            return tracker.blocked(agent), tracker.get_remaining(agent, resource)
        if does < 18:
            costs = {one: dice.choice((1, 1, 2, 0)) for one in dice.sample(NAMES, dice.randrange(3))}
            return tracker.blocked_by(agent, costs), tracker.blocked_by(agent_id=agent, costs={resource: amount})
        if does == 18:
            self.held.append(tracker.reserve(agent, resource, amount))
        elif does == 19 and self.held:
            tracker.settle(self.held.pop(dice.randrange(len(self.held))), dice.randrange(4))
        elif does == 20 and self.held:
            tracker.release(self.held.pop())
        else:
            self.change(agent, resource)
        return tracker.consume(agent_id=agent, resource=resource, amount=amount)

    def change(self, agent: str, resource: str) -> None:
        """Change what applies."""
        tracker, dice = self.tracker, self.dice
        match dice.randrange(4):
            case 0:
                tracker.set_limit(resource, Limit(Rate(dice.randrange(5), 1000), None, dice.choice((None, Rate(9, 3)))))
            case 1:
                tracker.set_agent_limit(agent, resource, dice.choice((None, Rate(dice.randrange(4), 2**20))))
            case 2:
                tracker.set_group(agent, dice.choice((None, "g", "h")))
            case _:
                tracker.forget(agent)

    async def trade(self, name: str) -> object:
        """Do several of these."""
        done: list[object] = []
        for does in self.dice.sample((self.spend, self.spend, self.say, self.say, self.check), 3):
            try:
                done.append(does(name))
            except SimError as error:
                done.append(str(error))
        return done

    async def afford(self, name: str) -> object:
        """Wait for capacity, not for ever."""
        costs = {one: self.dice.randrange(1, 3) for one in self.dice.sample(NAMES, 2)}
        try:
            wait = self.tracker.capacity(name[:2], costs, take=self.dice.random() < 0.5)
            got = await first_of_ns(wait, timeout_ns=self.dice.choice((0, 5, 1000, 2**28)))
        except LimitError as error:
            return str(error)
        if got.index is None:
            wait.leave()
        return got.index, got.value is None

    def say(self, name: str) -> object:
        """Tell of something, publish it, or change who hears of it, some times."""
        return [self._say(name) for _ in range(self.dice.choice((1, 3)))]

    def _say(self, name: str) -> object:
        dice, bus, topic = self.dice, self.bus, self.dice.choice(TOPICS)
        data: Any = dice.choice((None, 5, {"b": 1, "a": [2]}, Told("x", 3), "text", object(), float("nan")))
        does = dice.randrange(14)
        if does < 7:
            bus.tell(topic, data) if does < 6 else bus.tell(topic=topic, data=data)
        elif does < 9:
            bus.tell(topic)
            bus.tell(Text(topic), Told(name, does))
        elif does == 9:
            return bus.publish(topic, data).identity
        if does == 10:
            self.subscriptions.append(bus.subscribe(dice.choice(PATTERNS), callback=self.hear))
        elif self.subscriptions:
            self.subscriptions.pop(dice.randrange(len(self.subscriptions))).cancel()
        return [bus.has_event(name, pattern) for pattern in PATTERNS]

    def hear(self, event: Event) -> None:
        """Note an event."""
        self.heard.append((event.sequence, event.topic, event.source, bytes(event.raw), event.identity))

    def check(self, _: str) -> object:
        """Check arguments, right and wrong ones."""
        values: list[Any] = [1, 1.5, True, "x", Text("x"), None, [1], (1,), {"a": 1}, 2**70, object()]
        names = ["number", "whole", "text", "flag", "many", "things", "thing", "wrong", Text("text"), 5]
        arguments: Any = {name: self.dice.choice(values) for name in self.dice.sample(names, self.dice.randrange(5))}
        if self.dice.random() < 0.5:
            arguments |= {"text": "x", "thing": None}
        try:
            self.handler.check(arguments)
        except Refused as refusal:
            return str(refusal)
        return None


def _apply(
    world: Any, agent: Any, text: str, thing: Any, number: float = 0.0, whole: int = 0, flag: bool = False,
    many: list = (), things: dict = {},  # type: ignore[type-arg, assignment]  # noqa: B006 - the schema has bare types
) -> None:  # fmt: skip
    """Do nothing: its signature is what counts."""
