"""Interrupts of agents: raised in an iteration only, checked for each one when its turn comes."""

from typing import Any

import pytest

from sim.actors.state import AgentState
from sim.actors.wake import WakeCondition
from sim.base.errors import Interrupt
from sim.kernel import sleep
from sim.resources import Preempted, PreemptiveResource
from sim.world import Action
from tests.actors.helpers import Lab, Script
from tests.helpers import named


@pytest.fixture
def lab() -> Lab:
    """Return a world with no agents."""
    return Lab()


def missed(lab: Lab) -> list[Any]:
    """Return the interrupts that came too late, as recorded."""
    lab.recorder.flush()
    rows: list[Any] = [row.data for row in named(lab.recorder.rows) if row.topic == "agent.interrupt_missed"]
    return [data["interrupt"] for data in rows]


@pytest.mark.parametrize("catches", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_interrupts_of_one_instant_do_not_end_an_agent(lab, count, catches):
    """The first is raised in the iteration; the others, whose turn comes after its end, are recorded as missed."""
    caught: list[object] = []

    async def step(agent: Script) -> None:
        try:
            await sleep(10)
        except Interrupt as interrupt:
            caught.append(interrupt.cause)
            if not catches:
                raise

    loop = lab.add("a", step, min_loop_delay=1, started=True)
    lab.at(5, lambda: caught.append([loop.interrupt(number) for number in range(count)]))
    lab.run(40)
    assert caught == [[True] * count, 0]
    assert missed(lab) == [f"Interrupt: interrupted: {number}" for number in range(1, count)]
    assert (loop.state, loop.crash_reason, loop.failures) == (AgentState.RUNNING, None, 0 if catches else 1)
    assert loop.iteration_count > 2


def test_an_iteration_that_goes_on_waiting_gets_them_all(lab):
    """An iteration that waits again after each interrupt gets one after the other, at the instant of the call."""
    caught: list[object] = []

    async def step(agent: Script) -> None:
        for _ in range(3):
            try:
                await sleep(10)
            except Interrupt as interrupt:
                caught.append((interrupt.cause, agent.world.now))

    loop = lab.add("a", step, min_loop_delay=1, started=True)
    lab.at(5, lambda: [loop.interrupt(number) for number in range(2)])
    lab.run(14)
    assert caught == [(0, 5), (1, 5)]
    assert missed(lab) == []


def test_one_that_falls_asleep_is_woken_by_the_next(lab):
    """If the agent has fallen asleep when the turn of an interrupt comes, it wakes the agent, as it always does."""

    async def step(agent: Script) -> None:
        try:
            await sleep(10)
        except Interrupt:
            agent.loop.sleep(WakeCondition.after_delay(3600))

    loop = lab.add("a", step, min_loop_delay=1, started=True)
    lab.at(5, lambda: [loop.interrupt(number) for number in range(2)])
    lab.run(6)
    assert (loop.woken_by, loop.state, missed(lab)) == ("interrupt", AgentState.RUNNING, [])


@pytest.mark.parametrize("when", ["in an iteration", "asleep", "between iterations"])
def test_an_agent_may_lose_several_slots_at_one_instant(lab, when):
    """Preempted from two resources at once, an agent goes on, wherever it is, and knows by its uses."""
    desks = [PreemptiveResource(lab.kernel, 1) for _ in range(2)]
    uses: list[Any] = []
    caught: list[object] = []

    async def step(agent: Script) -> None:
        if not uses:
            uses.extend([await desk.acquire(priority=5) for desk in desks])
        if when == "in an iteration":
            try:
                await sleep(10)
            except Interrupt as interrupt:
                caught.append(interrupt.cause)
        if when == "asleep":
            agent.loop.sleep(WakeCondition.after_delay(3600))

    async def rival(agent: Script) -> Action:
        await sleep(4.5)
        for desk in desks:
            await desk.acquire(priority=1)
        return Action("stop")

    loop = lab.add("a", step, min_loop_delay=1, started=True)
    lab.add("rival", rival, started=True)
    lab.run(30)
    assert [use.held for use in uses] == [False, False]
    assert (loop.state.live, loop.crash_reason) == (True, None)
    assert [type(cause) for cause in caught] == ([Preempted] if when == "in an iteration" else [])
    assert loop.woken_by == ("interrupt" if when == "asleep" else "")
    assert [desk.level for desk in desks] == [1, 1]  # the rival has stopped


def test_interrupts_in_tick_mode_end_with_the_turn(lab):
    """In tick mode an iteration is an actor's whole life: an interrupt that is left does not reach the next turn."""
    caught: list[object] = []

    async def step(agent: Script) -> None:
        try:
            await sleep(0.5)
        except Interrupt as interrupt:
            caught.append((interrupt.cause, agent.world.now))

    loop = lab.add("a", step)
    lab.tick(1.0)
    lab.at(3.25, lambda: [loop.interrupt(number) for number in range(3)])
    lab.run(8)
    assert caught == [(0, 3.25)]
    assert (loop.state, loop.crash_reason) == (AgentState.RUNNING, None)
    assert not lab.kernel._interrupts
