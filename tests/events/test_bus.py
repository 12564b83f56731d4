"""The bus: who gets what, in which order, and what happens when somebody does not keep up."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.base.errors import ActorError, ClosedError, UsageError
from sim.events import Event, EventBus, matches
from sim.kernel import sleep
from tests.actors.helpers import Lab


def drain(subscription: Any) -> list[Any]:
    """Return the data of all events that a subscription holds."""
    found = []
    while (event := subscription.take()) is not None:
        found.append(event.data)
    return found


def test_an_event_is_a_frozen_record() -> None:
    """An event has sequence, time, source, topic, data and identity, and cannot be changed."""
    lab = Lab()
    subscription = lab.bus.subscribe("**")
    lab.at(2, lambda: lab.bus.publish("rain.falls", {"mm": [1]}))
    lab.run(3)
    event = subscription.take()
    assert event is not None
    assert (event.sequence, event.time, event.source, event.topic) == (1, 2 * 10**9, "scenario", "rain.falls")
    with pytest.raises(AttributeError):
        event.topic = "x"  # type: ignore[misc]
    row = lab.rows(topic="rain.falls")[0]
    assert (row[3], row[4]) == event.identity


def test_a_receiver_cannot_change_what_another_gets() -> None:
    """Each look at the data is a new copy, and the publisher's own object is not in it."""
    lab = Lab()
    one, two = lab.bus.subscribe("a.*"), lab.bus.subscribe("a.*")
    data = {"list": [1]}
    lab.bus.publish("a.b", data)
    data["list"].append(2)
    first, second = one.take(), two.take()
    assert first is not None
    assert second is not None
    first.data["list"].append(3)
    assert first.data == second.data == {"list": [1]}


@pytest.mark.parametrize("data", [object(), {"x": object()}, float, [lambda: 1]])
def test_what_is_not_json_is_refused(data: Any) -> None:
    """Data that is not JSON-like is refused before anything is recorded or delivered."""
    lab = Lab()
    subscription = lab.bus.subscribe("**")
    with pytest.raises(ActorError):
        lab.bus.publish("a.b", data)
    assert len(subscription) == 0
    assert lab.rows() == []
    assert lab.bus.statistics().published == 0


def test_a_publisher_never_runs_a_subscriber() -> None:
    """Who waits is woken at the same instant, but in a later round than the publisher's step."""
    lab = Lab()
    order: list[str] = []
    subscription = lab.bus.subscribe("a")

    async def receiver() -> None:
        await subscription.get()
        order.append(f"received {lab.kernel.now} {lab.kernel.delta}")

    async def publisher() -> None:
        await sleep(1)
        lab.bus.publish("a")
        order.append(f"published {lab.kernel.now} {lab.kernel.delta}")

    lab.kernel.spawn("r", receiver())
    lab.kernel.spawn("p", publisher())
    lab.run(2)
    assert order == ["published 1000000000 0", "received 1000000000 1"]


def test_delivery_is_in_the_order_of_subscription() -> None:
    """Whatever their patterns, subscribers are woken in the order in which they subscribed."""
    lab = Lab()
    order: list[str] = []
    for pattern in ("a.*", "a.b", "**", "a.b", "*.b", "a.**", "a.b"):
        subscription = lab.bus.subscribe(pattern)

        async def receiver(subscription: Any = subscription, name: str = f"{pattern} {len(order)}") -> None:
            await subscription.get()
            order.append(name)

        lab.kernel.spawn(pattern, receiver())
    lab.at(1, lambda: lab.bus.publish("a.b"))
    lab.run(2)
    assert [name.split()[0] for name in order] == ["a.*", "a.b", "**", "a.b", "*.b", "a.**", "a.b"]


@pytest.mark.parametrize(("policy", "kept"), [("drop_oldest", [7, 8, 9]), ("drop_newest", [0, 1, 2])])
def test_a_full_subscription_drops_and_counts(policy: Any, kept: list[int]) -> None:
    """A subscription is bounded; what gives way is a matter of policy, and is counted."""
    lab = Lab()
    subscription = lab.bus.subscribe("a", limit=3, policy=policy)
    other = lab.bus.subscribe("a")
    for number in range(10):
        lab.bus.publish("a", number)
    assert drain(subscription) == kept
    assert subscription.dropped == 7
    statistics = lab.bus.statistics()
    assert (statistics.published, statistics.delivered, statistics.dropped) == (10, 20, 7)
    assert drain(other) == list(range(10))


def test_a_filter_that_raises_counts_as_no() -> None:
    """A subscriber's fault reaches neither the publisher nor the others, and is counted."""
    lab = Lab()

    def faulty(event: Event) -> bool:
        raise RuntimeError("planted")

    bad = lab.bus.subscribe("a", filter=faulty)
    good = lab.bus.subscribe("a", filter=lambda event: event.data > 1)
    for number in range(4):
        lab.bus.publish("a", number)
    assert (len(bad), drain(good)) == (0, [2, 3])
    assert lab.bus.statistics().failed_filters == 4


def test_a_cancelled_subscription() -> None:
    """Who waits on it is answered with `ClosedError`; ending it twice is allowed; it gets nothing more."""
    lab = Lab()
    subscription = lab.bus.subscribe("a")
    answers: list[str] = []

    async def receiver() -> None:
        try:
            await subscription.get()
        except ClosedError:
            answers.append("closed")

    async def scenario() -> None:
        lab.kernel.spawn("r", receiver())
        await sleep(1)
        subscription.cancel()
        subscription.cancel()
        lab.bus.publish("a")
        await sleep(1)

    lab.main(scenario())
    assert answers == ["closed"]
    assert lab.bus.statistics().subscriptions == 0


def test_a_callback_may_end_other_subscriptions() -> None:
    """Ended by an earlier subscriber of the same event, a subscription gets it no more."""
    lab = Lab()
    later: list[Any] = []
    lab.bus.subscribe("a", callback=lambda event: later[0].cancel())
    later.append(lab.bus.subscribe("*"))
    lab.bus.publish("a")
    assert len(later[0]) == 0
    assert lab.bus.statistics().delivered == 1


def test_a_subscription_made_by_a_subscriber_does_not_get_that_event() -> None:
    """Who subscribes while an event is delivered gets the next one."""
    lab = Lab()
    made: list[Any] = []
    first = lab.bus.subscribe("a", callback=lambda event: made.append(lab.bus.subscribe("a")))
    lab.bus.publish("a", 1)
    first.cancel()
    lab.bus.publish("a", 2)
    assert drain(made[0]) == [2]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_subscription_holds_at_least_one(limit: int) -> None:
    """A limit below 1 is refused."""
    with pytest.raises(UsageError, match="at least 1"):
        Lab().bus.subscribe("a", limit=limit)


class Oracle:
    """The bus, written without any cleverness."""

    def __init__(self) -> None:
        self.held: list[tuple[str, int, str, list[int]]] = []
        self.dropped = 0

    def publish(self, topic: str, number: int) -> None:
        for pattern, limit, policy, queue in self.held:
            if not matches(pattern, topic):
                continue
            queue.append(number)
            if len(queue) > limit:
                self.dropped += 1
                queue.pop(0 if policy == "drop_oldest" else -1)


topics = st.sampled_from(["a", "b", "a.b", "a.c", "a.b.c", "b.b"])
patterns = st.sampled_from(["a", "a.*", "**", "*", "a.**", "*.b", "a.b", "a.b.**"])


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.just("subscribe"), patterns, st.integers(1, 3), st.sampled_from(["drop_oldest", "drop_newest"]))
        | st.tuples(st.just("publish"), topics)
        | st.tuples(st.just("cancel"), st.integers(0, 9))
        | st.tuples(st.just("take"), st.integers(0, 9)),
        max_size=60,
    )
)
@settings(max_examples=150)
def test_against_an_oracle(ops: list[Any]) -> None:
    """Any mixture of subscriptions, events and cancellations delivers what a naive bus would."""
    lab = Lab()
    bus: EventBus = lab.bus
    oracle = Oracle()
    real: list[Any] = []
    for number, (op, *rest) in enumerate(ops):
        match op:
            case "subscribe":
                real.append(bus.subscribe(rest[0], limit=rest[1], policy=rest[2]))
                oracle.held.append((rest[0], rest[1], rest[2], []))
            case "publish":
                bus.publish(rest[0], number)
                oracle.publish(rest[0], number)
            case "cancel" if rest[0] < len(real):
                real.pop(rest[0]).cancel()
                oracle.held.pop(rest[0])
            case "take" if rest[0] < len(real):
                event = real[rest[0]].take()
                queue = oracle.held[rest[0]][3]
                assert (event.data if event else None) == (queue.pop(0) if queue else None)
    assert [drain(subscription) for subscription in real] == [queue for *_, queue in oracle.held]
    assert bus.statistics().dropped == oracle.dropped
    assert bus.statistics().subscriptions == len(real)
    count = sum(op[0] == "publish" for op in ops)
    assert bus.published("**") == bus.statistics().published == count
