"""The state machine: which state may follow which, whatever is asked of a loop and when."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.actors import AgentState, PauseReason, WakeCondition
from sim.base.errors import TransitionError
from sim.kernel import sleep
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script

_S = AgentState

LEGAL = {
    ("stopped", "starting"),
    ("starting", "running"),
    ("running", "sleeping"),
    ("sleeping", "running"),
    ("running", "paused"),
    ("paused", "running"),
    ("starting", "stopping"),
    ("running", "stopping"),
    ("sleeping", "stopping"),
    ("paused", "stopping"),
    ("stopping", "stopped"),
}


def test_successors() -> None:
    """The enum knows exactly the transitions of the design; all others raise and name both states."""
    for before, after in itertools.product(AgentState, AgentState):
        if (before, after) in LEGAL:
            before.check(after, "a")
        else:
            with pytest.raises(TransitionError, match=f"a cannot go from {before} to {after}"):
                before.check(after, "a")


OPERATIONS = (
    "start",
    "stop",
    "quick stop",
    "sleep",
    "sleep now",
    "wake",
    "pause",
    "resume",
    "event",
    "shutdown",
    "restart",
)

operations = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.sampled_from([0, 0, 0.05, 0.1, 0.75, 3, 100])), max_size=25
)
behaviours = st.sampled_from(["act", "wait", "fail", "sleep", "limited", "mixed"])


async def _behave(agent: Script) -> Action | None:
    way = agent.state["way"]
    if way == "mixed":
        way = agent.rng.choice(["act", "wait", "fail", "sleep", "limited"])
    if way == "wait":
        await sleep(0.35)
    elif way == "fail":
        raise ValueError("no luck")
    elif way == "sleep":
        return Action("sleep", {"condition": {"event": "go", "timeout": 2}})
    return Action("publish", {"topic": "limited"}) if way == "limited" else NOOP


def _apply(lab: Lab, name: str) -> Any:
    loop = lab.manager.loops["a"]
    match name:
        case "start":
            loop.start_now()
        case "stop" | "quick stop":
            return loop.stop(0 if name == "quick stop" else 5)
        case "sleep":
            loop.sleep(WakeCondition.after_delay(1))
        case "sleep now":
            loop.sleep(WakeCondition.at(0))
        case "wake":
            loop.wake()
        case "pause":
            loop.pause()
        case "resume":
            loop.resume()
        case "event":
            lab.bus.publish("go")
        case "shutdown":
            loop.agent.shutdown()
        case "restart":
            loop.agent.alive = True
            loop.start_now()
        case _:
            raise AssertionError(name)
    return None


@pytest.mark.slow
@given(operations, behaviours)
@settings(max_examples=150)
def test_any_sequence_of_operations(ops: list[tuple[str, float]], way: str) -> None:
    """Whatever is asked in whatever order: no illegal transition, and each one is recorded as it was seen.

    What is illegal raises and changes nothing. In the end the agent can be stopped, and nothing of it is left behind.
    """
    lab = Lab()
    lab.limit("calls", 3, 5)
    lab.world.costs.set_price("publish", "calls", "rate", 1)
    loop = lab.add("a", _behave, max_consecutive_errors=3, cool_down=2, max_restarts=2, max_loop_delay=1)
    lab.script("a").state["way"] = way

    refused: list[tuple[AgentState, AgentState, str]] = []

    async def scenario() -> None:
        for name, delay in ops:
            before = loop.state
            try:
                waiting = _apply(lab, name)
                if waiting is not None:
                    await waiting
                    assert loop.state is _S.STOPPED
            except TransitionError as error:
                refused.append((before, loop.state, str(error)))
            if delay:
                await sleep(delay)
        await loop.stop()
        await sleep(200)
        assert loop.state is _S.STOPPED

    lab.main(scenario())
    assert all(before is after and f"from {before} to " in text for before, after, text in refused)
    seen = ["stopped"] + [state for _, state in lab.states("a")]
    changes = [(str(row.data["from"]), str(row.data["to"])) for row in lab.rows("a", "agent.state")]
    assert set(changes) <= LEGAL
    assert changes == list(itertools.pairwise(seen))
    assert lab.bus.statistics().subscriptions == 0
    assert lab.script("a").ended == seen.count("stopping")
    assert loop.pause_reason is None


def test_sleep_while_paused_is_refused_and_the_pause_still_ends() -> None:
    """A paused agent cannot be put to sleep; its cool-down goes on as if nobody had asked."""
    lab = Lab()
    loop = lab.add("a", _behave, max_consecutive_errors=1, cool_down=5, started=True)
    lab.script("a").state["way"] = "fail"
    errors: list[str] = []

    def ask() -> None:
        try:
            loop.sleep(WakeCondition.never())
        except TransitionError as error:
            errors.append(str(error))

    lab.at(1, ask)
    lab.run(6)
    assert errors == ["a cannot go from paused to sleeping"]
    assert lab.script("a").times == [0.0, 5.0]


def test_resume_ends_a_pause_for_errors_once() -> None:
    """Resumed by hand, an agent is not resumed a second time when the cool-down is over."""
    lab = Lab()
    loop = lab.add("a", _behave, max_consecutive_errors=1, cool_down=5, started=True)
    agent = lab.script("a")
    agent.state["way"] = "fail"

    def resume() -> None:
        agent.state["way"] = "act"
        loop.resume()

    lab.at(1, resume)
    lab.run(20)
    assert loop.state is _S.RUNNING
    assert agent.times[:3] == [0.0, 1.0, 1.1]
    assert loop.wakeups == 1


def test_resume_at_the_instant_of_a_stop() -> None:
    """An agent that is stopping is not resumed."""
    lab = Lab()
    loop = lab.add("a", _behave, max_consecutive_errors=1, started=True)
    lab.script("a").state["way"] = "fail"

    def both() -> None:
        loop.request_stop("test")
        loop.resume()

    lab.at(1, both)
    lab.run(2)
    assert loop.state is _S.STOPPED


@pytest.mark.parametrize("when", ["starting", "inside", "asleep", "without capacity"])
def test_an_operators_pause_is_never_lost(when: str) -> None:
    """An operator's pause takes effect as soon as it can, also behind another pause, and lasts until `resume`."""
    lab = Lab()
    lab.limit("calls", 1, 10)
    lab.world.costs.set_price("publish", "calls", "rate", 1)
    ways = {"starting": "act", "inside": "wait", "asleep": "sleep", "without capacity": "limited"}
    loop = lab.add("a", _behave)
    lab.script("a").state["way"] = ways[when]

    async def scenario() -> None:
        await loop.start(delay=1 if when == "starting" else 0)
        await sleep(0.2)
        loop.pause()
        await sleep(50)
        assert loop.state is _S.PAUSED
        assert loop.pause_reason is PauseReason.OPERATOR
        count = loop.iteration_count
        await sleep(50)
        assert loop.iteration_count == count
        loop.resume()
        await sleep(50)
        assert loop.iteration_count > count

    lab.main(scenario())


def test_a_pause_that_is_wanted_survives_the_error_limit() -> None:
    """An operator's pause during the iteration that hits the error limit holds after the cool-down."""
    lab = Lab()

    async def step(agent: Script) -> None:
        await sleep(1)
        raise ValueError("no luck")

    loop = lab.add("a", step, max_consecutive_errors=1, cool_down=5, started=True)
    lab.at(0.5, loop.pause)
    lab.run(3)
    assert loop.pause_reason is PauseReason.ERRORS
    lab.run(100)
    assert (loop.state, loop.pause_reason) == (_S.PAUSED, PauseReason.OPERATOR)


def test_what_does_not_fit_the_state_of_a_loop_is_refused_with_both_states() -> None:
    """A stopped agent cannot be put to sleep: the error names both states, nothing changes, and it can still start."""
    lab = Lab()
    loop = lab.add("a", lambda agent: NOOP)
    with lab.kernel.acting_as(lab.kernel.scenario):
        for _ in range(2):
            with pytest.raises(TransitionError, match=r"^a cannot go from stopped to sleeping$"):
                loop.sleep(WakeCondition.after_delay(5))
        loop.wake()
        loop.resume()
        loop.pause()
        loop.request_stop("before the start")
        assert (loop.state, lab.rows("a")) == (_S.STOPPED, [])
        loop.start_now()
        loop.start_ticking()
    lab.run(3)
    assert loop.state is _S.RUNNING
    assert lab.script("a").greeted == 1
