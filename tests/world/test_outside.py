"""What would change a world from outside a run, unrecorded, is refused by one sentence, and changes nothing.

The tables name each public method of what a world consists of: a new one fails here until it is in one of them.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import sim
from sim.actors.mailbox import Mailbox
from sim.base.errors import KernelError
from sim.events import EventBus
from sim.events.bus import Subscription
from sim.kernel import Kernel, Latch, Queue, Signal
from sim.memory import Memories, MemorySettings
from sim.resources import (
    Budgets,
    Container,
    Ledger,
    PreemptiveResource,
    PriorityResource,
    Quotas,
    RateTracker,
    Resource,
    Store,
)
from sim.resources.rates import Limit
from sim.resources.windows import Rate
from sim.tools.audit import Audit
from sim.world import Message, Places
from sim.world.artifact import Artifacts, make
from sim.world.events import TaskRemoved
from sim.world.space import Reach, Space
from sim.world.stocks import Stocks
from sim.world.tasks import Tasks

RATE = Limit(agent=Rate(5, 10**9))


class Parts:
    """A world with one of each of its parts, at the end of a run: what calls them now is outside."""

    def __init__(self) -> None:
        self.world = world = sim.World(seed=1)
        kernel = world.kernel
        self.ledger, self.quotas, self.artifacts, self.tasks = world.ledger, world.quotas, world.artifacts, world.tasks
        self.ledger.open("a", 5)
        self.ledger.open("b", 5)
        self.quotas.define("bytes", 9)
        self.quotas.hold("a", "bytes", 2)
        self.artifacts.put(make("note", "a", 1))
        world.places = self.places = Places(["x", "y"], [("x", "y", 0)])
        self.places.place("a", "x")
        world.space = self.space = Space(Reach(lambda one, other: 0.0, 1, 1), lambda position: True, lambda: 0)
        self.space.enter("a", (0, 0))
        world.stocks = self.stocks = Stocks(kernel, {"x": 3}, 1, 10**9)
        self.rates, self.budgets, self.bus = world.rate_tracker, world.budgets, world.event_bus
        self.rates.set_limit("calls", RATE)
        self.held, self.also_held = (self.rates.reserve("a", "calls", 1) for _ in range(2))
        self.budgets.define("money", 5)
        self.earmark, self.earmarked = (self.budgets.reserve("a", "money", 1) for _ in range(2))
        self.subscription = self.bus.subscribe("x")
        self.bus.publish("x")
        self.queue, self.signal, self.latch, self.unset = Queue(kernel, 9), Signal(kernel), Latch(kernel), Latch(kernel)
        self.queue.put_nowait(1)
        self.latch.set()
        self.store, self.tank = sim.Store[int](kernel, 9), Container(kernel, 9, 5)
        self.store.put_nowait(1)
        self.slots, self.ranked = Resource(kernel, 3), PriorityResource(kernel, 3)
        self.desk, self.mailbox = PreemptiveResource(kernel, 3), Mailbox(kernel, 9, "drop_oldest")
        self.slots.acquire_nowait()
        self.mailbox.offer(self.message)
        world.pools = {"store": self.store, "tank": self.tank, "slots": self.slots, "desk": self.desk}
        self.memories: Memories = Memories(world, MemorySettings())
        self.audit: Audit = Audit(world)
        world.add_service(self.memories)
        world.add_service(self.audit)
        self.memories.add("a", "the first thing")
        self.task: int = self.tasks.create("a", "dig").id
        kernel.run(10**9)

    message = Message("a", "b", "", sim.kernel.codec.freeze(1), 0)

    def look(self) -> str:
        """Return all that could have changed."""
        waits = [self.queue.items, self.latch.is_set, self.unset.is_set, len(self.subscription), len(self.mailbox)]
        return str((self.world.digest(), waits, self.bus.statistics(), self.space.state(), self.budgets.state()))


def first(awaitable: Any) -> None:
    """Let a coroutine run to its first wait, as a host program does that awaits it."""
    with contextlib.suppress(StopIteration):
        awaitable.__await__().send(None)


CHANGES: Mapping[type, Mapping[str, Callable[[Parts], object]]] = {
    Ledger: {
        "open": lambda p: p.ledger.open("c", 5), "transfer": lambda p: p.ledger.transfer("a", "b", 1),
        "issue": lambda p: p.ledger.issue("a", 1, "gift"),
    },
    Quotas: {
        "define": lambda p: p.quotas.define("files", 5), "hold": lambda p: p.quotas.hold("a", "bytes", 1),
        "give_back": lambda p: p.quotas.give_back("a", "bytes", 1),
    },
    Artifacts: {
        "put": lambda p: p.artifacts.put(make("other", "a", 2)), "remove": lambda p: p.artifacts.remove("note"),
    },
    Places: {"place": lambda p: p.places.place("a", "y"), "remove": lambda p: p.places.remove("a")},
    Space: {
        "enter": lambda p: p.space.enter("b", (0, 0)), "leave": lambda p: p.space.leave("a"),
        "show": lambda p: p.space.show("a", (0, 1), "walks"),
    },
    Stocks: {"take": lambda p: p.stocks.take("x", 1)},
    RateTracker: {
        "set_limit": lambda p: p.rates.set_limit("more", RATE), "refresh": lambda p: p.rates.refresh("calls"),
        "set_agent_limit": lambda p: p.rates.set_agent_limit("a", "calls", None),
        "set_group": lambda p: p.rates.set_group("a", "x"), "consume": lambda p: p.rates.consume("a", "calls"),
        "reserve": lambda p: p.rates.reserve("a", "calls", 1), "settle": lambda p: p.rates.settle(p.held, 1),
        "release": lambda p: p.rates.release(p.also_held), "forget": lambda p: p.rates.forget("a"),
        "wait_for_capacity": lambda p: first(p.rates.wait_for_capacity("a", {"calls": 1}, take=True)),
        "on_level": lambda p: p.rates.on_level("a", "calls", 1, lambda: None),
        "divide": lambda p: p.rates.divide(lambda agent: None),
    },
    Budgets: {
        "define": lambda p: p.budgets.define("more", 5), "spend": lambda p: p.budgets.spend("a", "money", 1),
        "reserve": lambda p: p.budgets.reserve("a", "money", 1), "settle": lambda p: p.budgets.settle(p.earmark, 1),
        "release": lambda p: p.budgets.release(p.earmarked),
    },
    EventBus: {
        "publish": lambda p: p.bus.publish("x"), "tell": lambda p: p.bus.tell("x"),
        "report": lambda p: p.bus.report(TaskRemoved(id=1)),
        "unsubscribe": lambda p: p.bus.unsubscribe(p.subscription),
    },
    Subscription: {
        "get": lambda p: first(p.subscription.get()), "cancel": lambda p: p.subscription.cancel(),
    },
    Queue: {
        "take": lambda p: p.queue.take(), "get": lambda p: first(p.queue.get()), "put": lambda p: first(p.queue.put(1)),
        "put_nowait": lambda p: p.queue.put_nowait(1), "close": lambda p: p.queue.close(),
    },
    Signal: {"fire": lambda p: p.signal.fire(), "fail": lambda p: p.signal.fail(ValueError())},
    Latch: {
        "set": lambda p: p.unset.set(), "fail": lambda p: p.unset.fail(ValueError()),
        "clear": lambda p: p.latch.clear(),
    },
    Store: {
        "get": lambda p: first(p.store.get()), "put": lambda p: first(p.store.put(2)),
        "put_nowait": lambda p: p.store.put_nowait(2), "close": lambda p: p.store.close(),
        "getting": lambda p: p.store.getting().take(), "putting": lambda p: p.store.putting(2).take(),
    },
    Container: {
        "get": lambda p: first(p.tank.get(1)), "put": lambda p: first(p.tank.put(1)), "close": lambda p: p.tank.close(),
        "getting": lambda p: p.tank.getting(1).take(), "putting": lambda p: p.tank.putting(1).take(),
    },
    Resource: {
        "acquire": lambda p: first(p.slots.acquire()), "acquire_nowait": lambda p: p.slots.acquire_nowait(),
        "release": lambda p: p.slots.release(holder=p.world.kernel.scenario), "close": lambda p: p.slots.close(),
        "wait": lambda p: p.slots.wait().take(), "slot": lambda p: first(p.slots.slot().__aenter__()),
    },
    PriorityResource: {
        "acquire": lambda p: first(p.ranked.acquire(priority=1)), "acquire_nowait": lambda p: p.ranked.acquire_nowait(),
        "close": lambda p: p.ranked.close(), "wait": lambda p: p.ranked.wait().take(),
        "release": lambda p: p.ranked.release(), "slot": lambda p: first(p.ranked.slot(priority=1).__aenter__()),
    },
    PreemptiveResource: {
        "acquire": lambda p: first(p.desk.acquire()), "wait": lambda p: p.desk.wait(),
        "close": lambda p: p.desk.close(),
        "slot": lambda p: first(p.desk.slot().__aenter__()),
    },
    Mailbox: {
        "take": lambda p: p.mailbox.take(), "get": lambda p: first(p.mailbox.get()),
        "offer": lambda p: p.mailbox.offer(p.message), "close": lambda p: p.mailbox.close(),
    },
    Tasks: {
        "create": lambda p: p.tasks.create("a", "more"), "update": lambda p: p.tasks.update(p.task, "a", status="done"),
        "remove_ended": lambda p: p.tasks.remove_ended("", 0),
    },
    Memories: {
        "add": lambda p: p.memories.add("a", "more"), "forget": lambda p: p.memories.forget("a", 1),
        "archive": lambda p: p.memories.archive(
            "a", "s", [], "nothing", "timeout", started_ns=0, completed_ns=0, token_count=0
        ),
    },
    Audit: {"record": lambda p: p.audit.record("a", "x.y", {})},
}  # fmt: skip
"""The public methods that change something, each with a call of it."""

KEEPS: Mapping[type, str] = {
    Ledger: "balance state",
    Quotas: "held remaining statistics state",
    Artifacts: "ids state",
    Places: "about adjacent all_free around at between free grid is_free named neighbours others_within shipped"
    " straight state travel_ns where within",
    Space: "forget_before look near neighbours state where",
    Stocks: "level richest state total",
    RateTracker: "blocked blocked_by capacity get_remaining get_usage has_capacity lacks_part limits policy state"
    " statistics time_until_capacity total_usage uses",
    Budgets: "amount lacking remaining state statistics until_reset wait_for why_lacking",
    EventBus: "forget has_event missed_event next_number overtaken published statistics subscribe",
    Subscription: "make_room take",  # an observer outside may take the events of its own subscription
    Queue: "arm has leave undo withdraw",
    Signal: "arm leave take undo wait",
    Latch: "arm leave take undo wait",
    Store: "find has put_back reserve serve state statistics take_in withdraw",
    Container: "serve state statistics",
    Resource: "free hand_to held_by hold release_all serve state statistics take",
    PriorityResource: "free hand_to held_by hold release_all serve state statistics take",
    PreemptiveResource: "hand_to hold put_back queue_up release release_all serve state statistics take",
    Mailbox: "counts discard empty has_room hold is_pending notify offer_again pending read recount reopen set_aside"
    " state take wait wait_for_room watch",
    Tasks: "all blockers check_new check_unmanaged define_words get metrics of open records state summary warnings",
    Memories: "add_kinds all get load metrics of prune recall recall_by_meaning relevance relevance_by_meaning search"
    " session_messages sessions state summarise summary warnings",
    Audit: "metrics of state summary warnings",
}
"""The public methods that read, that only the kernel and the waits call, or that define something before a run."""


def cases() -> Iterator[Any]:
    """Yield each method that changes something."""
    for kind, methods in CHANGES.items():
        for name, change in methods.items():
            yield pytest.param(change, id=f"{kind.__name__}.{name}")


@pytest.fixture(scope="module")
def parts() -> Parts:
    """A world whose run has ended."""
    return Parts()


@pytest.mark.parametrize("change", list(cases()))
def test_a_change_from_outside_is_refused(parts: Parts, change: Callable[[Parts], object]) -> None:
    """It raises one error that says what to do instead, and all is as before; so one world serves all cases."""
    before = parts.look()
    with pytest.raises(KernelError, match="cannot be changed from outside") as refused:
        change(parts)
    assert "on_input" in str(refused.value.hint)
    assert parts.look() == before


@pytest.mark.slow
def test_each_public_method_is_known() -> None:
    """A new public method fails here until the tables say whether it changes something."""
    for kind, changing in CHANGES.items():
        keeping = KEEPS[kind].split()
        public = {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
        assert public - set(changing) - set(keeping) == set(), kind.__name__


def test_a_part_that_belongs_to_no_run_can_be_changed_by_all() -> None:
    """A ledger, quotas, artifacts or places without a world are plain data."""
    ledger, quotas, artifacts, places = Ledger(), Quotas(), Artifacts(), Places(["x"], [])
    ledger.open("a", 1)
    quotas.define("bytes", 1)
    artifacts.put(make("x", "a", 1))
    places.place("a", "x")
    assert (ledger.total, quotas.remaining("a", "bytes"), len(artifacts), places.where("a")) == (1, 1, 1, "x")


def test_a_kernel_without_a_world_refuses_as_well() -> None:
    """Pools and queues ask their kernel, whoever made it."""
    kernel = Kernel(1)
    queue = Queue(kernel, 1)
    queue.put_nowait(1)
    kernel.run()
    with pytest.raises(KernelError, match="cannot be changed from outside"):
        queue.take()
