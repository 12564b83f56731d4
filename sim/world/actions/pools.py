"""The actions on pools: acquire and release slots, put into and get from stores and containers.

An agent that waits can give up after a timeout or at an event. The action is then refused, and the refusal does not
count as a failure of the agent.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression
from sim.events import Event
from sim.kernel import Source
from sim.kernel.codec import Raw, decode, freeze
from sim.kernel.duration import to_ns
from sim.kernel.groups import first_of_ns
from sim.kernel.waits import NOTHING, Signal, Wait, receive, wait_for
from sim.resources import Container, Pool, PreemptiveResource, PriorityResource, Resource, Store, Use
from sim.world.action import ItemFilter, Pattern, Refused, SlotPool, StockPool, Time, action
from sim.world.events import SlotPreempted

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World


# -- slots


async def _stand_in_line(
    world: "World",
    agent: "Inhabitant",
    pool: str,
    amount: int = 1,
    priority: float = 0,
    preempt: bool = True,
    timeout: Any = None,
    or_event: Any = None,
) -> int | Use:
    slots = _pool(world, pool)
    if isinstance(slots, PreemptiveResource):
        if amount != 1:
            raise Refused(f"the pool {pool!r} is preemptive: its slots are acquired one by one, not {amount}")
        use: Use = await _within(world, slots.wait(priority=priority, preempt=preempt), timeout, or_event)
        slots.hand_to(_holder(world, agent), use)
        return use
    if not isinstance(slots, Resource | PriorityResource):
        raise Refused(f"nothing can be acquired from the pool {pool!r}: it has no slots")
    if not isinstance(slots, PriorityResource):
        priority = 0  # a pool without priorities serves in order of arrival
    if timeout is None and or_event is None:
        await slots.acquire(amount=amount, priority=priority)
    else:
        await _within(world, slots.wait(amount=amount, priority=priority), timeout, or_event)
    slots.hand_to(_holder(world, agent), amount)
    return amount


def _is_free(
    world: "World",
    agent: "Inhabitant",
    pool: str,
    amount: int = 1,
    priority: float = 0,
    preempt: bool = True,
    timeout: Any = None,
    or_event: Any = None,
) -> Any:
    """Return what the wait returns if a slot is free and no agent waits for one, or NOTHING."""
    slots = world.pools.get(pool)
    if slots.__class__ is not Resource or timeout is not None or or_event is not None:
        return NOTHING
    if not slots.acquire_nowait(amount=amount):
        return NOTHING
    slots.hand_to(_holder(world, agent), amount)
    return amount


def _holder(world: "World", agent: "Inhabitant") -> Source:
    """Return to whom the slots of an agent belong, also if a process acts for the agent."""
    return agent.source or world.kernel.acting()


def _hand_back(world: "World", agent: "Inhabitant", granted: int | Use, pool: str, **arguments: Any) -> None:
    slots = world.pools[pool]
    if isinstance(granted, Use):
        assert isinstance(slots, PreemptiveResource), "a use is one of a preemptive pool"
        slots.release(granted)
    else:
        assert isinstance(slots, Resource | PriorityResource), "only slots are acquired"
        slots.release(amount=granted, holder=_holder(world, agent))


@action("acquire", wait=_stand_in_line, ready=_is_free, undo=_hand_back, draws=False)
def acquire(
    world: "World",
    agent: "Inhabitant",
    granted: int | Use,
    pool: SlotPool,
    amount: int = 1,
    priority: float = 0,
    preempt: bool = True,
    timeout: Time = None,
    or_event: Pattern = None,
) -> None:
    """Acquire slots of a pool; wait until they are free.

    Args:
        pool: the name of the pool.
        amount: the number of slots.
        priority: for a pool with priorities; the lowest number is served first.
        preempt: for a preemptive pool, whether the request can preempt a user of a slot
        timeout: how long to wait before giving up
        or_event: topic patterns of events at which to give up
    """
    if isinstance(granted, Use):
        if not granted.held:
            raise Refused(f"the slot of {pool!r} was preempted at once", skip=True)
        world.uses.setdefault((agent.agent_id, pool), []).append(granted)
    held = world.held.setdefault(agent.agent_id, {})
    held[pool] = held.get(pool, 0) + amount


@action("release", draws=False)
def release(world: "World", agent: "Inhabitant", pool: SlotPool, amount: int = 1) -> None:
    """Release slots of a pool.

    Args:
        pool: the name of the pool.
        amount: the number of slots.
    """
    if not 1 <= amount <= world.held.get(agent.agent_id, {}).get(pool, 0):
        raise Refused(f"{agent.agent_id} does not hold {amount} of {pool!r}")
    give_back(world, agent, pool, amount)


def give_back(world: "World", agent: "Inhabitant", pool: str, amount: int) -> None:
    """Release slots that an agent holds."""
    slots, agent_id = world.pools[pool], agent.agent_id
    if isinstance(slots, PreemptiveResource):
        for _ in range(amount):
            use = world.uses[agent_id, pool].pop()
            _forget(world, agent_id, pool, 1)
            slots.release(use)
        return
    assert isinstance(slots, Resource | PriorityResource), "only slots are held"
    _forget(world, agent_id, pool, amount)
    slots.release(amount=amount, holder=_holder(world, agent))


def preempted(world: "World", pool: str, use: Use, by: str) -> None:
    """Handle a preemption: remove the slot from the slots that the agent holds, and publish `pool.preempted`."""
    assert use.actor is not None, "slots of pools are used by agents"
    agent_id = use.actor.name
    uses = world.uses.get((agent_id, pool), [])
    if use in uses:  # otherwise the slot was granted at this instant, and `acquire` has not been applied yet
        uses.remove(use)
        _forget(world, agent_id, pool, 1)
    world.event_bus.report(SlotPreempted(agent=agent_id, by=by, pool=pool))


def _forget(world: "World", agent_id: str, pool: str, amount: int) -> None:
    held = world.held[agent_id]
    held[pool] -= amount
    if not held[pool]:
        del held[pool]
        world.uses.pop((agent_id, pool), None)
    if not held:
        del world.held[agent_id]


# -- stores and containers


async def _wait_to_put(
    world: "World",
    agent: "Inhabitant",
    pool: str,
    item: Any = None,
    amount: float = 1,
    timeout: Any = None,
    or_event: Any = None,
) -> float:
    match _pool(world, pool):
        case Container() as container:
            wait: Wait = container.putting(amount)
        case Store() as store:
            wait = store.putting(freeze(item))
        case _:
            raise Refused(f"nothing can be put into the pool {pool!r}: it has slots")
    await _within(world, wait, timeout, or_event)
    return amount


@action("put", wait=_wait_to_put, either={"item": "for a store", "amount": "for a container"}, draws=False)
def put(
    world: "World",
    agent: "Inhabitant",
    granted: float,
    pool: StockPool,
    item: Any = None,
    amount: float = 1,
    timeout: Time = None,
    or_event: Pattern = None,
) -> None:
    """Put an item into a store, or an amount into a container.

    Args:
        pool: the name of the pool.
        item: the item to put into a store.
        amount: the amount to put into a container.
        timeout: how long to wait before giving up
        or_event: topic patterns of events at which to give up
    """
    return


async def _wait_to_get(
    world: "World",
    agent: "Inhabitant",
    pool: str,
    amount: float = 1,
    where: Any = None,
    timeout: Any = None,
    or_event: Any = None,
) -> Any:
    match _pool(world, pool):
        case Container() as container:
            if where is not None:
                raise Refused(f"the pool {pool!r} is a container: it has no items among which `where` could choose")
            wait: Wait = container.getting(amount)
        case Store() as store:
            wait = store.getting(None if where is None else _filter(where))
        case _:
            raise Refused(f"nothing can be got from the pool {pool!r}: it has slots")
    return await _within(world, wait, timeout, or_event)


def _put_back(world: "World", agent: "Inhabitant", granted: Any, pool: str, **arguments: Any) -> None:
    match _pool(world, pool):
        case Container() as container:
            container.getting(granted).undo(granted)
        case Store() as store:
            store.put_back(0, granted)
        case _:
            raise AssertionError("nothing is got from slots")


@action("get", wait=_wait_to_get, undo=_put_back, awaits_work=True, draws=False)
def get(
    world: "World",
    agent: "Inhabitant",
    granted: Any,
    pool: StockPool,
    amount: float = 1,
    where: ItemFilter = None,
    timeout: Time = None,
    or_event: Pattern = None,
) -> Any:
    """Take an item out of a store, or an amount out of a container.

    Args:
        pool: the name of the pool.
        amount: the amount to take out of a container.
        where: a condition on the item of a store, which has the name `item`
        timeout: how long to wait before giving up
        or_event: topic patterns of events at which to give up
    """
    return decode(granted) if isinstance(granted, Raw) else granted


def _filter(where: Any) -> Callable[[Any], bool]:
    """Return a predicate on items, from an expression or from `{test: expression, given: further names}`."""
    test, further_names = (where, {}) if isinstance(where, str) else (where["test"], where["given"])
    expression = _parsed(test, tuple(further_names))
    return lambda item: bool(expression.evaluate({**further_names, "item": _plain(item)}, PURE_FUNCTIONS))


@lru_cache(maxsize=4096)
def _parsed(text: str, further_names: tuple[str, ...]) -> Expression:
    return Expression.parse(text, ("item", *further_names), PURE_FUNCTIONS)


def _plain(item: Any) -> Any:
    return decode(item) if isinstance(item, Raw) else item


# -- shared


def _pool(world: "World", name: str) -> Pool:
    pool = world.pools.get(name)
    if pool is None:
        raise Refused(f"there is no pool {name!r}")
    return pool


async def _within(world: "World", wait: Wait, timeout: Any, or_event: Any) -> Any:
    """Wait until the wait is over, the timeout ends, or a matching event is published.

    Raises:
        Refused: with the reason `timeout` or `event TOPIC`, if that came first; nothing has been taken then.
    """
    if timeout is None and or_event is None:
        return await wait_for(wait)
    value = wait.take()
    if value is not NOTHING:
        receive(wait, value)
        return value
    waits, topics = [wait], list[str]()
    subscription = None
    if or_event is not None:
        happened, actor = Signal(world.kernel), world.kernel.acting()

        def on_event(event: Event) -> None:
            topics.append(event.topic)
            with world.kernel.acting_as(actor):
                happened.fire()

        subscription = world.event_bus.subscribe(or_event, callback=on_event)
        waits.append(happened)
    try:
        fired = await first_of_ns(*waits, timeout_ns=None if timeout is None else _timeout(timeout))
    finally:
        if subscription is not None:
            subscription.cancel()
    if fired.index == 0:
        return fired.value
    raise Refused("timeout" if fired.index is None else f"event {topics[0]}", skip=True)


def _timeout(timeout: Any) -> int:
    try:
        return to_ns(timeout)
    except UsageError as error:
        raise Refused(f"the timeout is no duration: {error}") from error
