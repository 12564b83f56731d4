"""Mailboxes: bounded, by policy, with every message accounted for."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.actors import AgentState
from sim.base.errors import ClosedError
from sim.kernel import sleep
from sim.world import Action
from tests.actors.helpers import Lab, Script


def once(**arguments: Any) -> Any:
    """A step that sends one message and then nothing."""
    return lambda agent: Action("send", arguments) if len(agent.times) == 1 else None


def _box(lab: Lab, policy: str, size: int = 2) -> Script:
    nap = Action("sleep", {"condition": {"for": "1d"}})
    lab.add("box", lambda agent: nap, mailbox_size=size, mailbox_policy=policy, started=True)
    return lab.script("box")


def _senders(lab: Lab, count: int) -> None:
    for index in range(count):
        lab.add(f"s{index}", once(to="box", data=index), started=True, min_loop_delay=5000, max_loop_delay=5000)


def _data(box: Script) -> list[Any]:
    found = []
    while (message := box.mailbox.take()) is not None:
        found.append(message.data)
    return found


def test_fail_refuses() -> None:
    """`fail`: what does not fit is refused, and the sender told."""
    lab = Lab()
    box = _box(lab, "fail")
    _senders(lab, 4)
    lab.run(1)
    assert [lab.script(f"s{n}").results[0].success for n in range(4)] == [True, True, False, False]
    assert lab.script("s3").results[0].error == "no message was taken: the mailbox of box is full"
    lab.at(1, lambda: box.state.update(got=_data(box)))
    lab.run(2)
    assert box.state["got"] == [0, 1]
    assert (lab.world.messages, len(lab.rows(topic="message.sent"))) == (2, 2)


def test_drop_oldest_makes_room() -> None:
    """`drop_oldest`: the oldest gives way, and is counted."""
    lab = Lab()
    box = _box(lab, "drop_oldest")
    _senders(lab, 5)
    lab.at(1, lambda: box.state.update(got=_data(box)))
    lab.run(2)
    assert box.state["got"] == [3, 4]
    assert box.mailbox.dropped == 3


def test_block_lets_senders_wait_in_order() -> None:
    """`block`: senders wait, and their messages arrive in the order in which they came; none is lost."""
    lab = Lab()
    box = _box(lab, "block", size=1)
    _senders(lab, 5)
    got: list[tuple[float, Any]] = []

    def take() -> None:
        message = box.mailbox.take()
        if message is not None:
            got.append((lab.world.now, message.data))

    for second in range(1, 8):
        lab.at(second, take)
    lab.run(10)
    assert got == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]
    assert all(lab.script(f"s{n}").results[0].success for n in range(5))


def test_dead_letters_are_counted() -> None:
    """What is left when an agent stops, and what comes later, is counted as dead; the late sender is refused."""
    lab = Lab()
    box = _box(lab, "fail", size=10)
    _senders(lab, 3)
    lab.at(1, box.shutdown)
    lab.add("late", once(to="box"))
    lab.manager.loops["late"].start_now(delay_ns=2 * 10**9)
    lab.run(3)
    assert lab.rows("box", "mailbox.dead_letters")[0][7] == {"count": 3}
    assert box.mailbox.dead == 4
    assert lab.script("late").results[0].error == "no message was taken: box has stopped"


def test_an_agent_that_waits_for_mail_is_stopped() -> None:
    """`await self.mailbox.get()` ends when the agent is stopped; others that wait on it get `ClosedError`."""
    lab = Lab()

    async def read(agent: Script) -> None:
        agent.state["got"] = (await agent.mailbox.get()).data

    loop = lab.add("box", read, started=True)
    errors: list[type[BaseException]] = []

    async def spy() -> None:
        try:
            await lab.script("box").mailbox.get()
        except ClosedError as error:
            errors.append(type(error))

    async def scenario() -> None:
        lab.kernel.spawn("spy", spy())
        await sleep(1)
        await loop.stop(3)
        assert lab.world.now == 4

    lab.main(scenario())
    assert errors == [ClosedError]
    assert loop.state is AgentState.STOPPED


def test_a_message_is_frozen_when_it_is_sent() -> None:
    """Neither the sender nor another receiver can change what a message says."""
    lab = Lab()
    letter = {"words": ["hello"]}
    for name in ("r1", "r2"):
        lab.add(name, None, group="readers")
    lab.add("s", once(to="readers", data=letter), started=True)
    lab.run(1)
    letter["words"].append("changed")
    with lab.kernel.acting_as(lab.kernel.scenario):
        first, second = (lab.script(name).mailbox.take() for name in ("r1", "r2"))
    assert first is not None
    assert second is not None
    first.data["words"].append("mine")
    assert first.data == second.data == {"words": ["hello"]}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fail", "drop_oldest"])
def test_a_flood_stays_flat(policy: str) -> None:
    """200,000 messages to a sleeping agent leave no more than its mailbox holds; all are accounted for."""
    lab = Lab()
    box = _box(lab, policy, size=100)
    action = Action("send", {"to": "box"})

    def flood(agent: Script) -> None:
        taken = sum(agent.world.act(agent, Action("noop")).success for _ in range(10))
        assert taken == 10
        for _ in range(20_000):
            agent.receive_all(action)  # type: ignore[attr-defined]

    class Flooder(Script):
        def receive_all(self, action: Action) -> None:
            from sim.kernel.codec import Raw, encode
            from sim.world import Message

            message = Message("s", "box", "", Raw(encode(None)), 0)
            self.state["taken"] = self.state.get("taken", 0) + (box.receive(message) is None)

    lab.add("s", flood, Flooder, started=True, min_loop_delay=1)
    lab.run(10)
    taken = lab.script("s").state["taken"]
    assert len(box.mailbox) == 100
    assert taken == (100 if policy == "fail" else 200_000)
    assert box.mailbox.dropped == (0 if policy == "fail" else 199_900)


@pytest.mark.slow
@given(
    st.sampled_from(["fail", "drop_oldest", "block"]),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["send", "send", "take", "stop", "start"])), max_size=40),
)
@settings(max_examples=80)
def test_every_message_is_accounted_for(policy: str, ops: list[tuple[int, str]]) -> None:
    """Sent = taken + dropped + dead + still there + refused, whatever happens in whatever order."""
    lab = Lab()
    box = _box(lab, policy, size=2)
    loop = lab.manager.loops["box"]
    counts = {"taken": 0, "sent": 0}

    def take() -> None:
        counts["taken"] += box.mailbox.take() is not None

    time = 0.0
    for gap, op in ops:
        time += gap / 10
        match op:
            case "send":
                name = f"s{counts['sent']}"
                counts["sent"] += 1
                lab.add(name, once(to="box"), min_loop_delay=5000, max_loop_delay=5000).start_now(
                    delay_ns=round(time * 1e9)
                )
            case "take":
                lab.at(time, take)
            case "stop":
                lab.at(time, lambda: loop.request_stop("test"))
            case _:
                lab.at(time, loop.start_now)
    lab.at(100, lambda: loop.request_stop("test"))
    lab.run(200)
    results = [lab.script(f"s{n}").results for n in range(counts["sent"])]
    assert all(len(result) == 1 for result in results)
    accepted = sum(result[0].success for result in results)
    mail = box.mailbox
    refused_dead = sum("has stopped" in (result[0].error or "no message was taken") for result in results)
    assert accepted == lab.world.messages
    assert counts["taken"] + mail.dropped + mail.dead - accepted <= refused_dead
    assert counts["taken"] + mail.dropped + mail.dead >= accepted
    assert lab.world.pending == {}


def test_senders_that_wait_go_in_order_of_arrival() -> None:
    """One sender for one message that leaves, the first first; who comes later, even at that instant, waits behind."""
    lab = Lab()
    lab.add("a", mailbox_size=1, mailbox_policy="block")
    sent: list[tuple[str, float]] = []

    async def send(name: str, delay: float) -> None:
        await sleep(delay)
        await lab.world.execute(lab.script(name), Action("send", {"to": "a"}))
        sent.append((name, lab.world.now))

    for name in ("s1", "s2", "s3", "s4"):
        lab.add(name)

    async def scenario() -> None:
        for name, delay in (("s1", 0), ("s2", 1), ("s3", 2), ("s4", 10)):  # the last comes as the first place is free
            lab.kernel.spawn(f"{name}-1", send(name, delay))
        for _ in range(3):
            await sleep(10)
            lab.script("a").mailbox.take()
        await sleep(1)

    lab.main(scenario())
    assert sent == [("s1", 0), ("s2", 10), ("s3", 20), ("s4", 30)]


def test_a_sender_that_is_cancelled_gives_its_place_to_the_next() -> None:
    """A place that was promised to a sender that is cancelled at that instant goes to the one behind it."""
    lab = Lab()
    lab.add("a", mailbox_size=1, mailbox_policy="block")
    lab.add("s")
    sent: list[str] = []

    async def send(name: str) -> None:
        await lab.world.execute(lab.script("s"), Action("send", {"to": "a", "data": name}))
        sent.append(name)

    async def scenario() -> None:
        actors = []
        for name in ("first", "second", "third"):
            actors.append(lab.kernel.spawn(name, send(name)))
            await sleep(1)
        lab.script("a").mailbox.take()
        lab.kernel.cancel(actors[1])  # woken, but it has not run yet
        await sleep(1)

    lab.main(scenario())
    assert sent == ["first", "third"]
