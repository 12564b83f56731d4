"""The tick mode: one iteration of each agent a tick, in order; nobody who sleeps, waits or is paused holds it up."""

from typing import Any

import pytest

from sim.actors import AgentState, WakeCondition
from sim.kernel import Effect, perform, sleep
from sim.resources import Resource
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script

NS = 10**9


async def _answer(request: Any, key: str) -> Any:
    return request


def effect(seconds: float | None) -> Effect:
    """An effect with modelled latency, or a measured one."""
    return Effect("test", {}, _answer, latency_ns=None if seconds is None else round(seconds * NS))


def count_up(agent: Script) -> Action:
    """Write one more than what is there."""
    found = agent.world.artifacts.get("n")
    agent.state.setdefault("saw", []).append(0 if found is None else found.content)
    return Action("write", {"artifact": "n", "content": agent.state["saw"][-1] + 1, "writers": "all"})


def _counters(concurrency: str, shuffled: bool = False, seed: int = 0) -> Lab:
    lab = Lab(seed)
    for index in range(3):
        lab.add(f"a{index}", count_up)
    lab.tick(concurrency=concurrency, shuffled=shuffled)
    return lab.run(3.5)


def test_sequential_sees_what_predecessors_wrote() -> None:
    """In a sequential tick each agent acts on what those before it left."""
    lab = _counters("sequential")
    assert [lab.script(f"a{n}").state["saw"] for n in range(3)] == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]


def test_parallel_decides_on_the_state_at_the_start() -> None:
    """In a parallel tick all decide on the same state, then their actions apply in order."""
    lab = _counters("parallel")
    assert [lab.script(f"a{n}").state["saw"] for n in range(3)] == [[0, 1, 2, 3]] * 3
    assert [row.actor for row in lab.rows(topic="action.write")] == ["a0", "a1", "a2"] * 4


def test_a_shuffled_order_is_reproducible() -> None:
    """`order: shuffled` draws an order for each tick: the same for a seed, another for another seed."""

    def order(seed: int) -> list[str]:
        return [row.actor for row in _counters("sequential", True, seed).rows(topic="action.write")]

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(6)}) > 1
    assert sorted(order(1)[:3]) == ["a0", "a1", "a2"]


def test_the_least_delay_does_not_apply_but_backoff_does() -> None:
    """Ticks alone set the pace; after a failure an agent is skipped until the first tick at or after its backoff."""
    lab = Lab()

    def step(agent: Script) -> Action:
        if len(agent.times) in (3, 4):
            raise ValueError("no luck")
        return NOOP

    lab.add("a", step, min_loop_delay=1.5, max_loop_delay=100)
    lab.tick()
    lab.run(13)
    assert lab.script("a").times == [0, 1, 2, 5, 11, 12]  # failures at 2 and 5: due at 5 and 11


@pytest.mark.parametrize(("delay", "tick"), [(2, 2), (2.5, 3), (0, 1), (1, 1)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_sleeper_is_back_at_the_first_tick_at_or_after_its_wake(delay: float, tick: float, shuffled: bool) -> None:
    """A sleep that ends at the instant of a tick ends in time for it, whatever the order of ties."""
    for seed in range(4):
        lab = Lab(seed, shuffled=shuffled)
        for index in range(4):
            lab.add(
                f"a{index}",
                lambda agent: Action("sleep", {"condition": {"for": delay}}) if len(agent.times) == 1 else NOOP,
            )
        lab.tick()
        lab.run(6)
        for index in range(4):
            assert lab.script(f"a{index}").times[:2] == [0, tick]


def test_a_sleeper_made_during_the_run_is_not_late() -> None:
    """What holds for the agents of the start holds for those that come later, whose place in the order is another."""
    lab = Lab()

    def parent(agent: Script) -> Action:
        if len(agent.times) == 1:
            lab.manager.start_spawned(lab.add("child", nap), 0)
        return NOOP

    def nap(agent: Script) -> Action:
        return Action("sleep", {"condition": {"for": 2}})

    lab.add("a", parent)
    lab.tick()
    lab.run(8)
    assert lab.script("child").times == [1, 3, 5, 7]


def test_capacity_that_is_back_at_a_tick_is_used_in_it() -> None:
    """An agent paused for resources acts in the tick at whose instant its capacity returns."""
    lab = Lab()
    lab.limit("calls", 1, 2)
    lab.world.costs.set_price("noop", "calls", "rate", 1)
    loop = lab.add("a", lambda agent: NOOP)
    lab.tick()
    lab.run(7)
    assert lab.script("a").times == [0, 2, 4, 6]
    assert loop.failures == 0


def test_skip_leaves_out_ticks() -> None:
    """With policy `skip` an agent without capacity is left out of a tick, and stays RUNNING."""
    lab = Lab()
    lab.limit("calls", 2, 5, "skip")
    lab.world.costs.set_price("noop", "calls", "rate", 1)
    loop = lab.add("a", lambda agent: NOOP)
    lab.tick()
    lab.run(10)
    assert lab.script("a").times == [0, 1, 5, 6]
    assert loop.state is AgentState.RUNNING


def test_an_event_wakes_for_the_same_tick_or_the_next() -> None:
    """Woken by a predecessor an agent acts in the same tick, woken by a successor in the next."""
    lab = Lab()

    def sleeper(agent: Script) -> Action:
        return Action("sleep", {"condition": {"event": "go"}}) if len(agent.times) == 1 else NOOP

    lab.add("before", sleeper)
    lab.add("a", lambda agent: Action("publish", {"topic": "go"}) if len(agent.times) == 3 else NOOP)
    lab.add("after", sleeper)
    lab.tick()
    lab.run(5)
    assert lab.script("before").times == [0, 3, 4]
    assert lab.script("after").times == [0, 2, 3, 4]


# -- effects


@pytest.mark.parametrize(
    ("concurrency", "times", "overruns"),
    [("sequential", [[0, 2, 4], [0.5, 2.5, 4.5], [1, 3, 5]], 0), ("parallel", [[0, 2, 4]] * 3, 0)],
)
def test_modelled_effects_in_turn_or_together(concurrency: str, times: list[list[float]], overruns: int) -> None:
    """Sequential: each effect is awaited before the next agent decides. Parallel: they run side by side."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        await perform(effect(0.5))
        return NOOP

    for index in range(3):
        lab.add(f"a{index}", step)
    driver = lab.tick(2, concurrency)
    lab.main(_wait(5.9))
    assert [lab.script(f"a{n}").times for n in range(3)] == times
    done = sorted({row.time_ns / NS for row in lab.rows(topic="action.noop")})
    assert done == ([0.5, 1, 1.5, 2.5, 3, 3.5, 4.5, 5, 5.5] if concurrency == "sequential" else [0.5, 2.5, 4.5])
    assert driver.overruns == overruns


async def _wait(seconds: float) -> None:
    await sleep(seconds)


def test_overruns_are_counted() -> None:
    """A tick begins when its time has come or the barrier before has been passed, whichever is later."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        if len(agent.times) == 2:
            await perform(effect(2.5))
        return NOOP

    lab.add("a", step)
    driver = lab.tick()
    lab.main(_wait(6.5))
    assert lab.script("a").times == [0, 1, 3.5, 3.5, 4, 5, 6]
    assert driver.overruns == 2


@pytest.mark.parametrize("concurrency", ["sequential", "parallel"])
def test_a_measured_effect_passes_the_barrier(concurrency: str) -> None:
    """An effect whose latency is measured ends while the kernel is paused, and the tick goes on."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        if len(agent.times) == 1:
            agent.state["got"] = (await perform(effect(None))).kind
        return NOOP

    for index in range(2):
        lab.add(f"a{index}", step)
    lab.tick(concurrency=concurrency)
    lab.main(_wait(3.5))
    assert [lab.script(f"a{n}").state for n in range(2)] == [{"got": "ok"}] * 2
    assert len(lab.script("a1").times) >= 3


@pytest.mark.parametrize("concurrency", ["sequential", "parallel"])
def test_an_agent_stopped_in_its_effect_does_not_hold_up_the_tick(concurrency: str) -> None:
    """If the agent that the barrier waits for is stopped, the tick goes on at that instant."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        await perform(effect(1000))
        return NOOP

    loop = lab.add("a", step)
    lab.add("b", lambda agent: NOOP)

    async def scenario() -> None:
        await sleep(2.5)
        await loop.stop(0)
        await sleep(3)

    lab.tick(concurrency=concurrency)
    lab.main(scenario())
    assert loop.state is AgentState.STOPPED
    assert lab.script("b").times[-1] == 5
    assert len(lab.script("b").times) >= 4


# -- who waits for something else


@pytest.mark.parametrize("concurrency", ["sequential", "parallel"])
def test_who_stands_in_line_does_not_hold_up_the_tick(concurrency: str) -> None:
    """An agent that waits in a pool is left out until it is through; the others go on, also the one that holds."""
    lab = Lab()
    lab.world.pools["desk"] = Resource(lab.kernel, 1)

    def holder(agent: Script) -> Action:
        kinds = {1: "acquire", 4: "release"}
        kind = kinds.get(len(agent.times), "noop")
        return Action(kind, {} if kind == "noop" else {"pool": "desk"})

    lab.add("h", holder)
    lab.add("w", lambda agent: Action("acquire", {"pool": "desk"}) if len(agent.times) == 1 else NOOP)
    lab.tick(concurrency=concurrency)
    lab.run(6.5)
    assert lab.script("h").times == [0, 1, 2, 3, 4, 5, 6]
    assert lab.script("w").times == [0, 4, 5, 6] if concurrency == "parallel" else [0, 3, 4, 5, 6]
    assert [(row.time_ns / NS, row.actor) for row in lab.rows(topic="action.acquire")] == [(0, "h"), (3, "w")]


@pytest.mark.parametrize("concurrency", ["sequential", "parallel"])
def test_who_thinks_longer_than_a_tick_is_not_lost(concurrency: str) -> None:
    """A decision that takes simulated time over several ticks is carried out when it is made."""
    lab = Lab()

    async def slow(agent: Script) -> Action:
        await sleep(2.5)
        return NOOP

    lab.add("slow", slow)
    lab.add("b", lambda agent: NOOP)
    lab.tick(concurrency=concurrency)
    lab.run(10)
    assert lab.script("slow").times == [0, 3, 6, 9]
    assert [row.time_ns / NS for row in lab.rows("slow", "action.noop")] == [2.5, 5.5, 8.5]
    assert lab.script("b").times == list(range(10))


@pytest.mark.parametrize("concurrency", ["sequential", "parallel"])
def test_agents_that_end_are_left_out(concurrency: str) -> None:
    """Shut down, dead from the start, stopped between two ticks, or paused: no more iterations, and no hang."""
    lab = Lab()
    lab.add("a", lambda agent: agent.shutdown() if len(agent.times) == 2 else NOOP)
    lab.add("dead", lambda agent: NOOP).agent.alive = False
    lab.add("b", lambda agent: NOOP)
    lab.add("c", lambda agent: NOOP)
    lab.tick(concurrency=concurrency)
    lab.at(1.5, lambda: lab.manager.loops["b"].request_stop("test"))
    lab.at(1.5, lambda: lab.manager.loops["c"].pause())
    lab.at(3.5, lambda: lab.manager.loops["c"].resume())
    lab.run(5.5)
    assert lab.script("a").times == [0, 1]
    assert lab.script("dead").times == []
    assert lab.script("b").times == [0, 1]
    assert lab.script("c").times == [0, 1, 4, 5]
    assert [lab.script(name).ended for name in ("a", "dead", "b", "c")] == [1, 1, 1, 0]


def test_restart_in_tick_mode() -> None:
    """A loop that was stopped can be started again for ticks."""
    lab = Lab()
    loop = lab.add("a", lambda agent: NOOP)
    lab.tick()

    async def scenario() -> None:
        await sleep(1.5)
        await loop.stop()
        await sleep(2)
        loop.start_ticking()
        await sleep(2)

    lab.main(scenario())
    assert lab.script("a").times == [0, 1, 4, 5]
    assert lab.script("a").greeted == 2


@pytest.mark.slow
def test_a_sleeping_crowd_costs_only_the_ticks() -> None:
    """Ticks over sleeping agents wake nobody."""
    lab = Lab()
    for index in range(1000):
        lab.add(f"a{index}", lambda agent: agent.loop.sleep(WakeCondition.never()))
    lab.tick()
    lab.run(1)
    steps = lab.kernel.steps
    lab.run(100)
    assert lab.kernel.steps - steps <= 99 * 3 + 2
    assert lab.manager.totals().wakeups == 0
