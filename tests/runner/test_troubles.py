"""What is said while a run goes wrong."""

import pytest

from sim.runner import RunController
from sim.runner.progress import calls
from sim.runner.troubles import CIRCLE_SECONDS, Troubles
from sim.scenario import loads
from sim.scenario.assembly.build import build
from tests.llm.scenes import Scene

PING = """
name: ping
until: 1h
agents:
  - name: ada
    loop: {min_loop_delay: DELAY}
    rules: [{when: message is not None or now < 1, do: {send: {to: bob}}}, {do: {sleep: {message: true}}}]
  - name: bob
    loop: {min_loop_delay: DELAY}
    rules: [{when: message is not None, do: {send: {to: ada}}}, {do: {sleep: {message: true}}}]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "circles"), [("1ms", True), ("1m", False)])
def test_agents_in_circles(delay: str, circles: bool):
    """Agents that answer each other while simulated time almost stands still are named once; slow ones are not."""
    runner = RunController(build(loads(PING.replace("DELAY", delay))), until_ns=3600 * 10**9, mode="autonomous")
    runner.begin()
    troubles = Troubles(0.0)
    runner.simulation.world.kernel.run(5 * 10**9 if circles else 3600 * 10**9)
    said = list(troubles.new(runner, CIRCLE_SECONDS * (1000 if circles else 1)))
    assert len(said) == circles
    if circles:
        assert "answer each other in circles" in said[0]
        assert "ada" in said[0]
        assert "bob" in said[0]
    assert not list(troubles.new(runner, 2 * CIRCLE_SECONDS * 1000))


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        ("timeout", "requests to models timed out"),
        ("reasoning", "spent all tokens on reasoning"),
        ("rate_limit", "retries did not help"),
    ],
)
def test_calls_that_fail(fail: str, words: str):
    """Timeouts, reasoning that uses up all tokens, and retries without effect are said at once, and each only again
    when there are twice as many.
    """
    agents = "\n  - {name: a, count: 6, loop: {min_loop_delay: 1h}, rules: [{do: {ask: {prompt: Well?}}}]}\n"
    scene = Scene(f"  rules: [{{fail: {fail}}}]\n", agents, "until: 30m")
    runner = RunController(scene.simulation, until_ns=1800 * 10**9, mode="autonomous")
    runner.begin()
    scene.world.kernel.run(1800 * 10**9)
    troubles = Troubles(0.0)
    said = list(troubles.new(runner, 1.0))
    assert any(words in one for one in said)
    assert not list(troubles.new(runner, 2.0))
    assert "model calls" in calls(runner)
