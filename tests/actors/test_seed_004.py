"""The table of tests of seed 004, each under its own name."""

import itertools

import pytest

from sim.actors import AgentState, PauseReason, WakeCondition
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script

CALL = Action("noop")


def always(agent: Script) -> Action:
    """Act at every iteration."""
    return CALL


def failing(agent: Script) -> Action | None:
    """Raise at every iteration."""
    raise ValueError("no luck")


def test_loop_starts() -> None:
    """A loop that is started goes STOPPED, STARTING, RUNNING, and iterates."""
    lab = Lab()
    loop = lab.add("a", always)
    assert (loop.state, loop.is_running) == (AgentState.STOPPED, False)
    loop.start_now()
    lab.run(1)
    assert loop.state is AgentState.RUNNING
    assert loop.is_running
    assert [state for _, state in lab.states("a")] == ["starting", "running"]
    assert loop.iteration_count == 10


def test_loop_stops() -> None:
    """A loop that is stopped ends as STOPPED, having told the agent once, and acts no more."""
    lab = Lab()
    loop = lab.add("a", always)

    async def scenario() -> None:
        await loop.start()
        await lab.pause_for(0.35)
        await loop.stop()
        assert loop.state is AgentState.STOPPED
        await lab.pause_for(10)

    lab.main(scenario())
    assert loop.iteration_count == 4
    assert lab.script("a").ended == 1
    assert [state for _, state in lab.states("a")] == ["starting", "running", "stopping", "stopped"]


def test_loop_pauses_no_resources() -> None:
    """An agent without capacity is PAUSED for resources and does not decide."""
    lab = Lab()
    lab.limit("llm_calls", 2, 60)
    loop = lab.add("a", lambda agent: NOOP, started=True)
    lab.world.costs.set_price("noop", "llm_calls", "rate", 1)
    lab.run(30)
    assert loop.state is AgentState.PAUSED
    assert loop.pause_reason is PauseReason.RESOURCES
    assert loop.iteration_count == 2
    assert loop.failures == 0


def test_loop_resumes_resources() -> None:
    """When capacity is back the agent is RUNNING again, at that very nanosecond."""
    lab = Lab()
    lab.limit("llm_calls", 1, 60)
    loop = lab.add("a", lambda agent: NOOP, started=True)
    lab.world.costs.set_price("noop", "llm_calls", "rate", 1)
    lab.run(61)
    assert lab.script("a").times == [0.0, 60.0]
    assert lab.states("a")[2:4] == [(0.1, "paused"), (60.0, "running")]
    assert loop.state is AgentState.PAUSED


def test_loop_sleeps() -> None:
    """An agent that goes to sleep with a condition is SLEEPING until it is met."""
    lab = Lab()
    loop = lab.add("a", lambda agent: Action("sleep", {"condition": {"event": "never.happens"}}), started=True)
    lab.run(3600)
    assert loop.state is AgentState.SLEEPING
    assert loop.is_running
    assert loop.iteration_count == 1


def test_loop_wakes_time() -> None:
    """A condition on time wakes exactly then, whatever the delay of the loop."""
    lab = Lab()
    loop = lab.add("a", lambda agent: Action("sleep", {"condition": {"for": 7.5}}), started=True)
    lab.run(16)
    assert lab.script("a").times == [0.0, 7.5, 15.0]
    assert loop.woken_by == "time"


def test_loop_wakes_event() -> None:
    """A matching event wakes at the instant at which it is published; another does not."""
    lab = Lab()
    loop = lab.add("a", lambda agent: Action("sleep", {"condition": {"event": "rain.*"}}), started=True)
    lab.at(3, lambda: lab.bus.publish("sun.shines"))
    lab.at(5, lambda: lab.bus.publish("rain.falls", {"mm": 3}))
    lab.run(6)
    assert lab.script("a").times == [0.0, 5.0]
    assert loop.woken_by == "event"


def test_loop_error_backoff() -> None:
    """The delay doubles with each failure from the least to the greatest, and starts anew after a success."""
    lab = Lab()

    def step(agent: Script) -> Action | None:
        return NOOP if len(agent.times) == 7 else failing(agent)

    lab.add("a", step, min_loop_delay=0.1, max_loop_delay=3, max_consecutive_errors=100, started=True)
    lab.run(13)
    times = lab.script("a").times
    gaps = [round(after - before, 9) for before, after in itertools.pairwise(times)]
    assert gaps == [0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 0.1, 0.2, 0.4, 0.8, 1.6]


def test_loop_error_limit() -> None:
    """At the error limit the agent is PAUSED for errors, and tried again after the cool-down."""
    lab = Lab()
    loop = lab.add("a", failing, max_consecutive_errors=3, cool_down=60, started=True)
    lab.run(60)
    assert loop.state is AgentState.PAUSED
    assert loop.pause_reason is PauseReason.ERRORS
    assert lab.script("a").times == pytest.approx([0, 0.2, 0.6])
    lab.run(61)
    assert lab.script("a").times[3] == pytest.approx(60.6)
    assert loop.consecutive_errors == 2  # counted anew


def test_multiple_agents() -> None:
    """Many agents run side by side, each in its own rhythm."""
    lab = Lab()
    for number in range(1, 51):
        lab.add(f"a{number}", always, min_loop_delay=number / 10, max_loop_delay=10, started=True)
    lab.run(10)
    counts = {name: loop.iteration_count for name, loop in lab.manager.loops.items()}
    assert counts == {f"a{n}": -(-100 // n) for n in range(1, 51)}
    assert lab.manager.running_count == 50


def test_agent_shutdown() -> None:
    """`alive = False` ends the loop cleanly, whoever sets it and however: by `shutdown` or directly."""
    lab = Lab()
    by_itself = lab.add("a", lambda agent: agent.shutdown() if len(agent.times) == 3 else CALL, started=True)
    by_other = lab.add("b", always, started=True)
    lab.at(0.25, lambda: setattr(by_other.agent, "alive", False))
    asleep = lab.add("c", lambda agent: Action("sleep", {"condition": {"event": "never"}}), started=True)
    lab.at(0.5, lambda: setattr(asleep.agent, "alive", False))
    lab.run(2)
    for loop, iterations in ((by_itself, 3), (by_other, 3), (asleep, 1)):
        assert loop.state is AgentState.STOPPED
        assert loop.iteration_count == iterations
        assert lab.script(loop.agent_id).ended == 1
        assert not loop.agent.alive
    assert lab.manager.running_count == 0


def test_conditions_of_the_seed_are_records() -> None:
    """`WakeCondition(condition_type, value)` is the seed's record."""
    condition = WakeCondition("time", 5)
    assert (condition.condition_type, condition.value) == ("time", 5)
