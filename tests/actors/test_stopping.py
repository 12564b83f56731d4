"""Starting and stopping: who waits is answered, nothing is left half done."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.actors import AgentState, WakeCondition
from sim.base.errors import KernelError
from sim.kernel import NS, Effect, first_of_ns, perform, sleep
from sim.kernel.codec import Raw, encode
from sim.resources import Container, Limit, Rate, Resource, Store
from sim.world import NOOP, Action, ActionResult, Places
from tests.actors.helpers import Lab, Script

_S = AgentState


async def _slow(request: Any, key: str) -> Any:
    return request


def modelled(seconds: float) -> Effect:
    """An effect that takes simulated time."""
    return Effect("test", {}, _slow, latency_ns=round(seconds * 1e9))


def test_double_start_is_left_alone() -> None:
    """A loop that is not stopped cannot be started again: nothing changes."""
    lab = Lab()
    loop = lab.add("a", lambda agent: NOOP)

    async def scenario() -> None:
        await loop.start()
        await loop.start(delay=3)
        await lab.pause_for(0.05)
        await loop.start()

    lab.main(scenario())
    assert lab.script("a").greeted == 1
    assert [state for _, state in lab.states("a")] == ["starting", "running"]


def test_stop_before_start() -> None:
    """Stopping what never ran returns at once and changes nothing."""
    lab = Lab()
    loop = lab.add("a")
    lab.main(loop.stop())
    assert loop.state is _S.STOPPED
    assert lab.states("a") == []


def test_stop_before_the_first_step() -> None:
    """A loop that is stopped at the instant of its start, or during its delay, never decides."""
    lab = Lab()
    first, second = lab.add("a", lambda agent: NOOP), lab.add("b", lambda agent: NOOP)

    async def scenario() -> None:
        await first.start()
        await first.stop()
        await second.start(delay=10)
        await sleep(5)
        await second.stop()
        await sleep(20)

    lab.main(scenario())
    assert first.iteration_count == second.iteration_count == 0
    assert (lab.script("a").greeted, lab.script("a").ended, lab.script("b").ended) == (0, 1, 1)


def test_restart_after_stop() -> None:
    """A stopped loop can be started again: it greets, acts and ends anew, and its mailbox takes messages."""
    lab = Lab()
    loop = lab.add("a", lambda agent: NOOP)
    sender = lab.add("b", lambda agent: Action("send", {"to": "a"}), min_loop_delay=1)

    async def scenario() -> None:
        for _ in range(3):
            await loop.start()
            await sleep(0.35)
            await loop.stop()
            await sleep(0.65)
        await sender.start()
        await sleep(0.5)
        assert not lab.script("b").results[0].success
        await loop.start()
        await sleep(2)  # the refusal counted as a failure: the sender backs off
        assert lab.script("b").results[1].success

    lab.main(scenario())
    assert lab.script("a").greeted == 4
    assert lab.script("a").ended == 3
    assert loop.iteration_count == 3 * 4 + 21
    assert len(lab.script("a").mailbox) == 1


def test_restart_at_the_instant_of_the_stop() -> None:
    """Stop and start without time between gives a running loop and no second actor."""
    lab = Lab()
    loop = lab.add("a", lambda agent: NOOP)

    async def scenario() -> None:
        await loop.start()
        for _ in range(5):
            await loop.stop()
            await loop.start()
        await sleep(0.95)

    lab.main(scenario())
    assert loop.state is _S.RUNNING
    assert lab.script("a").times == pytest.approx([n / 10 for n in range(10)])


def test_stop_timeout_is_simulated_time() -> None:
    """An iteration under way may end within the timeout; then it is cancelled, at that very instant."""
    lab = Lab()

    async def long(agent: Script) -> Action:
        await sleep(10)
        return NOOP

    for name in ("patient", "hasty"):
        lab.add(name, long, started=True)
    ends: dict[str, float] = {}

    async def stop(name: str, timeout: float) -> None:
        await sleep(1)
        await lab.manager.loops[name].stop(timeout)
        ends[name] = lab.world.now

    async def scenario() -> None:
        lab.kernel.spawn("s1", stop("patient", 60))
        lab.kernel.spawn("s2", stop("hasty", 2.5))
        await sleep(30)

    lab.main(scenario())
    assert ends == {"patient": 10.0, "hasty": 3.5}
    assert len(lab.script("patient").results) == 1
    assert len(lab.script("hasty").results) == 0


def test_stop_by_the_agent_itself() -> None:
    """`await self.loop.stop()` inside an iteration returns at once; the action still happens, then the loop ends."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        await agent.loop.stop()
        assert agent.loop.state is _S.STOPPING
        return Action("write", {"artifact": "will", "content": 1})

    loop = lab.add("a", step, started=True)
    lab.run(10)
    assert loop.state is _S.STOPPED
    assert loop.iteration_count == 1
    assert lab.world.artifacts.ids() == ["will"]


def test_agents_that_stop_each_other() -> None:
    """Two agents that wait for each other's end are both cancelled at the timeout: no deadlock."""
    lab = Lab()

    def other(name: str) -> Callable[[Script], Any]:
        async def step(agent: Script) -> None:
            await sleep(0.5)
            await lab.manager.loops[name].stop(5)

        return step

    a, b = lab.add("a", other("b"), started=True), lab.add("b", other("a"), started=True)
    lab.run(6)
    assert a.state is b.state is _S.STOPPED


def test_stop_all_answers_every_caller() -> None:
    """Any number of callers of `stop` and `stop_all` are answered, at the instant at which the loops end."""
    lab = Lab()
    for index in range(20):
        lab.add(f"a{index}", lambda agent: NOOP if agent.agent_id < "a5" else None, started=True)
    done: list[float] = []

    async def caller() -> None:
        await sleep(1)
        await lab.manager.stop_all()
        done.append(lab.world.now)

    async def scenario() -> None:
        for index in range(7):
            lab.kernel.spawn(f"caller{index}", caller())
        await sleep(100)

    lab.main(scenario())
    assert done == [1.0] * 7
    assert lab.manager.states()["stopped"] == 20


def test_stop_answers_senders_blocked_on_a_full_mailbox() -> None:
    """Who waits for room in the mailbox of an agent that stops is told so: the action is refused, nobody hangs."""
    lab = Lab()
    lab.add("box", lambda agent: Action("sleep", {"condition": {"for": "1d"}}), mailbox_size=1, mailbox_policy="block",
            started=True)  # fmt: skip
    for index in range(5):
        lab.add(f"s{index}", lambda agent: Action("send", {"to": "box"}), min_loop_delay=1000, max_loop_delay=1000,
                started=True)  # fmt: skip
    lab.run(10)
    assert sorted(lab.world.pending) == ["s1", "s2", "s3", "s4"]
    lab.at(20, lambda: lab.script("box").shutdown())
    lab.run(30)
    assert lab.world.pending == {}
    refused = [lab.script(f"s{index}").results[0].error for index in range(1, 5)]
    assert refused == ["the agent that was written to has stopped"] * 4
    assert lab.rows("box", "mailbox.dead_letters")[0][7] == {"count": 1}


def test_stop_answers_who_waits_for_the_agents_slots() -> None:
    """Slots that an agent holds go to those in line when it stops, in order of arrival."""
    lab = Lab()
    lab.world.pools["desk"] = Resource(lab.kernel, 1)
    for index in range(3):
        lab.add(f"a{index}", lambda agent: Action("acquire", {"pool": "desk"}), min_loop_delay=100, max_loop_delay=100,
                started=True)  # fmt: skip
    for index in range(3):
        lab.at(10 + index, lambda index=index: lab.script(f"a{index}").shutdown())  # type: ignore[misc]
    lab.run(20)
    got = [(row.time_ns / 1e9, row.actor) for row in lab.rows(topic="action.acquire")]
    assert got == [(0.0, "a0"), (10.0, "a1"), (11.0, "a2")]
    assert lab.world.held == {}
    assert lab.world.pools["desk"].level == 1


def test_shutdown_lets_the_iteration_end() -> None:
    """A shutdown during `decide_action` is heeded before the action, one during the action after it."""
    lab = Lab()
    lab.world.places = Places(["here", "there"], [("here", "there", 5 * 10**9)])

    async def deciding(agent: Script) -> Action:
        await sleep(2)
        return Action("write", {"artifact": "late", "content": 1})

    lab.add("a", deciding, started=True)
    lab.add("b", lambda agent: Action("move", {"to": "there"}))
    lab.world.places.place("b", "here")
    lab.manager.loops["b"].start_now()
    lab.at(1, lambda: lab.script("a").shutdown())
    lab.at(1, lambda: lab.script("b").shutdown())
    lab.run(10)
    assert lab.world.artifacts.ids() == []
    assert lab.script("b").results[0].success
    assert lab.manager.running_count == 0


# -- nothing half done


def _furnished() -> Lab:
    lab = Lab()
    world = lab.world
    world.places = Places(["here", "there"], [("here", "there", 2 * 10**9)])
    world.pools["desk"] = Resource(lab.kernel, 1)
    world.pools["tank"] = Container(lab.kernel, 10, 5)
    shelf: Store[Raw] = Store(lab.kernel, 2)
    shelf.put_nowait(Raw(encode("book")))
    world.pools["shelf"] = shelf
    for account in ("a", "b"):
        world.ledger.open(account, 10_000_000)
    return lab


_ACTIONS = {
    "write": Action("write", {"artifact": "x", "content": [1]}),
    "transfer": Action("transfer", {"to": "b", "amount": 3}),
    "publish": Action("publish", {"topic": "x.y"}),
    "move": Action("move", {"to": "there"}),
    "acquire": Action("acquire", {"pool": "desk"}),
    "get": Action("get", {"pool": "tank", "amount": 3}),
    "get item": Action("get", {"pool": "shelf"}),
    "put": Action("put", {"pool": "tank", "amount": 3}),
    "put item": Action("put", {"pool": "shelf", "item": 1}),
    "send": Action("send", {"to": "b", "data": 1}),
    "create_task": Action("create_task", {"title": "t", "to": "b"}),
}


def _world_of(lab: Lab) -> Any:
    """Return the digest without what only counts iterations, and the actions that were recorded."""
    digest = {key: value for key, value in lab.world.digest().items() if key not in ("agents", "time")}
    mail = len(lab.script("b").mailbox) if "b" in lab.world.agents else 0
    return digest, mail, dict(lab.world.done), dict(lab.world.refused)


def _run_with_stop(name: str, stop_at: float | None, prelude: int) -> tuple[Any, Lab]:
    lab = _furnished()

    async def step(agent: Script) -> Action | None:
        if len(agent.times) > 1:
            return None
        for _ in range(prelude):
            await sleep(1)
        return _ACTIONS[name]

    class Slow(Script):
        async def execute_action(self, action: Action) -> Any:
            await sleep(1)
            result = await super().execute_action(action)
            await sleep(1)
            return result

    lab.add("a", step, Slow, min_loop_delay=100, max_loop_delay=100, started=True)
    lab.add("b", None, min_loop_delay=100, max_loop_delay=100, started=True)
    assert lab.world.places is not None
    lab.world.places.place("a", "here")
    if stop_at is not None:
        lab.at(stop_at, lambda: lab.script("a").terminate("test"))
    lab.run(9)
    if stop_at is None:  # the map and the slots are given up by a stop: compare after one
        lab.at(9, lambda: lab.script("a").terminate("test"))
        lab.run(10)
    return _world_of(lab), lab


@pytest.mark.parametrize("name", _ACTIONS)
def test_stopped_anywhere_leaves_nothing_half_done(name: str) -> None:
    """Stopped at any await of `decide_action` and `execute_action`, an action has happened whole or not at all."""
    whole, _ = _run_with_stop(name, None, 2)
    nothing, _ = _run_with_stop(name, 0.5, 2)
    outcomes = []
    for tenth in range(0, 80, 5):
        world, lab = _run_with_stop(name, tenth / 10, 2)
        assert lab.manager.loops["a"].state is _S.STOPPED
        assert world in (whole, nothing), f"half done when stopped at {tenth / 10} s"
        outcomes.append(world == whole)
    assert outcomes == sorted(outcomes)
    assert outcomes[0] is False
    assert outcomes[-1] is True


@pytest.mark.parametrize("name", ["acquire", "get", "get item", "send"])
def test_stopped_at_the_instant_of_the_handover(name: str) -> None:
    """What was handed over to an agent that is stopped at that very instant goes to the next, or back."""
    lab = _furnished()
    desk, tank, shelf = (lab.world.pools[name] for name in ("desk", "tank", "shelf"))
    assert isinstance(desk, Resource)
    assert isinstance(tank, Container)
    assert isinstance(shelf, Store)
    lab.add("b", None, mailbox_size=1, mailbox_policy="block", min_loop_delay=100, max_loop_delay=100, started=True)
    step = _ACTIONS[name]
    for agent in ("a", "c"):
        lab.add(agent, lambda agent: step if len(agent.times) == 1 else None)

    async def scenario() -> None:
        await desk.acquire()
        await tank.get(5)
        await shelf.get()
        lab.script("b").mailbox.offer(_message(lab))
        await lab.manager.start_all()
        await sleep(1)
        desk.release()
        await tank.put(3)
        await shelf.put(Raw(encode(1)))
        lab.script("b").mailbox.take()
        lab.script("a").terminate("test")
        await sleep(1)

    lab.main(scenario())
    assert lab.script("a").results == []
    assert [result.success for result in lab.script("c").results] == [True]
    assert lab.manager.loops["a"].state is _S.STOPPED


def _message(lab: Lab) -> Any:
    from sim.world import Message

    return Message("x", "b", "", Raw(encode(None)), lab.kernel.now)


def test_stopped_while_it_waits_for_an_effect() -> None:
    """An effect whose agent is stopped is recorded as abandoned, and its late outcome changes nothing."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        await perform(modelled(10))
        return Action("write", {"artifact": "x", "content": 1})

    loop = lab.add("a", step, started=True)

    async def scenario() -> None:
        await sleep(5)
        await loop.stop(1)
        assert lab.world.now == 6
        await sleep(20)

    lab.main(scenario())
    assert [row.ending for row in lab.recorder.endings] == ["abandoned"]
    assert lab.world.artifacts.ids() == []


def test_control_from_outside_the_run_changes_nothing() -> None:
    """Calls while the run is paused are refused before anything has changed."""
    lab = Lab()
    sleeping = lab.add("a", lambda agent: Action("sleep", {"condition": {"for": 5}}), started=True)
    running = lab.add("b", lambda agent: NOOP, started=True)
    lab.run(1)
    for call in (
        sleeping.wake,
        sleeping.agent.shutdown,
        lambda: sleeping.request_stop("x"),
        lambda: running.sleep(WakeCondition.at(3)),
        running.pause,
    ):
        with pytest.raises(KernelError, match="outside"):
            call()
    assert sleeping.state is _S.SLEEPING
    assert running.state is _S.RUNNING
    assert sleeping.agent.alive
    lab.run(6)
    assert lab.script("a").times == [0.0, 5.0]


# -- found by review


def test_a_stop_reaches_who_waits_for_capacity_before_an_action() -> None:
    """An agent that is paused inside an iteration is stopped at once, and its action never happens."""
    lab = Lab()
    lab.limit("calls", 1, 3600)
    lab.world.costs.set_price("publish", "calls", "rate", 1)
    lab.add("a", lambda agent: Action("publish", {"topic": "done"}), min_loop_delay=1, started=True)
    lab.world.rate_tracker.consume("a", "calls")
    lab.world.rate_tracker.set_limit("calls", Limit(agent=Rate(1, 3600 * NS)))
    lab.at(5, lambda: lab.script("a").shutdown())
    lab.run(10)
    assert lab.manager.running_count == 0
    lab.run(4000)
    assert lab.bus.published("done") == 0


def test_stop_all_takes_one_timeout_for_all() -> None:
    """However many do not end by themselves, `stop_all` returns after its timeout."""
    lab = Lab()

    async def busy(agent: Script) -> Action | None:
        await sleep(1000)
        return None

    for index in range(5):
        lab.add(f"a{index}", busy, started=True)

    async def scenario() -> float:
        await sleep(1)
        await lab.manager.stop_all(10)
        return lab.world.now

    assert lab.main(scenario()) == 11
    assert lab.manager.running_count == 0


def test_a_message_for_one_who_left_is_not_an_error_of_the_sender() -> None:
    """A member of a group that stops while another one is waited for is passed over."""
    lab = Lab()
    lab.add("sender", group="senders")
    lab.add("slow", group="crowd", mailbox_size=1, mailbox_policy="block")
    lab.add("gone", group="crowd")
    results: list[ActionResult] = []

    async def send() -> None:
        results.append(await lab.world.execute(lab.script("sender"), Action("send", {"to": "crowd", "data": 1})))

    async def scenario() -> None:
        await send()  # fills the mailbox of the slow one
        lab.kernel.spawn("sender-2", send())
        await sleep(1)
        lab.world.forget(lab.script("gone"))
        lab.script("slow").mailbox.take()
        await sleep(1)

    lab.main(scenario())
    assert [result.success for result in results] == [True, True]
    assert results[1].data == {"sent": 1, "refused": {"gone": "gone has stopped"}}


def test_who_is_started_anew_stands_where_it_stood() -> None:
    """A restart moves nobody: the agent is put back where it stood when it stopped."""
    lab = Lab()
    places = lab.world.places = Places(["here", "there"], [("here", "there", 5 * 10**9)])
    lab.add("a")
    places.place("a", "there")

    async def scenario() -> None:
        for _ in range(2):
            await lab.manager.loops["a"].start()
            await sleep(1)
            await lab.manager.loops["a"].stop()
            assert places.where("a") is None
        await lab.manager.loops["a"].start()
        assert places.where("a") == "there"
        await lab.manager.loops["a"].stop()

    lab.main(scenario())


def test_first_of_on_mail_lets_senders_go_on() -> None:
    """A message that is taken by `first_of` makes room as one taken by `get` does."""
    lab = Lab()
    lab.add("sender")
    lab.add("a", mailbox_size=1, mailbox_policy="block")
    got: list[float] = []

    async def send() -> None:
        for number in range(3):
            await lab.world.execute(lab.script("sender"), Action("send", {"to": "a", "data": number}))
            got.append(lab.world.now)

    async def scenario() -> None:
        lab.kernel.spawn("sender-1", send())
        for _ in range(3):
            await sleep(2)
            await first_of_ns(lab.script("a").mailbox.queue, timeout_ns=NS)

    lab.main(scenario())
    assert got == [0, 2, 4]
