"""The health monitor: reports who has gone silent, once, and leaves alone who is only slow."""

from typing import Any

import pytest

from sim.actors import Agent, AgentState, HealthMonitor
from sim.agents import PolicyAgent, Rulebook, Toolbox
from sim.kernel import Effect, perform, sleep
from sim.llm import ChatMessage, ModelRequest, Models
from sim.resources import Resource
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script
from tests.llm.scenes import Scene

ALERT = "alert.heartbeat_missed"


async def _answer(request: Any, key: str) -> Any:
    return request


async def stuck(agent: Script) -> Action:
    """Hang in the third iteration, and never again."""
    if agent.loop.iteration_count == 3:
        await sleep(1000)
    return NOOP


def _alerts(lab: Lab) -> list[float]:
    return [row[0] / 1e9 for row in lab.rows(topic=ALERT)]


def test_a_silent_agent_is_reported_once() -> None:
    """Silence beyond twice the agent's own delay is one alert, however long it lasts; a second silence is another."""
    lab = Lab()

    async def twice(agent: Script) -> Action:
        if agent.loop.iteration_count in (3, 6):
            await sleep(50)
        return NOOP

    lab.add("a", twice, min_loop_delay=1, started=True)
    lab.add("b", lambda agent: NOOP, min_loop_delay=1, started=True)
    monitor = HealthMonitor(lab.manager, 10**9)
    monitor.start()
    lab.run(200)
    first, second = _alerts(lab)
    assert 4 < first <= 6
    assert 50 < second < 65
    assert monitor.missed == 2


@pytest.mark.parametrize("why", ["effect", "line", "asleep", "paused", "backing off", "delayed"])
def test_who_is_slow_is_left_alone(why: str) -> None:
    """Waiting for an effect, in a line, asleep, paused, backing off or not yet due is no silence."""
    lab = Lab()
    lab.world.pools["desk"] = Resource(lab.kernel, 1)
    effect = Effect("test", {}, _answer, latency_ns=100 * 10**9)

    async def step(agent: Script) -> Action | None:
        if why == "effect":
            await perform(effect)
        if why == "backing off":
            raise ValueError("no luck")
        if why == "asleep":
            return Action("sleep", {"condition": {"for": 100}})
        return Action("acquire", {"pool": "desk"}) if why == "line" else NOOP

    loop = lab.add("a", step, min_loop_delay=1, max_loop_delay=500, max_consecutive_errors=100)
    monitor = HealthMonitor(lab.manager, 10**9, "restart")

    async def scenario() -> None:
        desk = lab.world.pools["desk"]
        assert isinstance(desk, Resource)
        await desk.acquire()
        monitor.start()
        await loop.start(delay=100 if why == "delayed" else 0)
        if why == "paused":
            await sleep(0.5)
            loop.pause()
        await sleep(150)

    lab.main(scenario())
    assert _alerts(lab) == []


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_restart_cures(mode: str) -> None:
    """The cure `restart` cancels the silent iteration and starts the loop anew, in the mode of the run."""
    lab = Lab()
    loop = lab.add("a", stuck, min_loop_delay=1, started=mode == "autonomous")
    monitor = HealthMonitor(lab.manager, 10**9, "restart")
    monitor.start()
    if mode == "tick":
        lab.tick()
    lab.run(30)
    assert len(_alerts(lab)) == 1
    assert loop.state is AgentState.RUNNING
    assert loop.iteration_count >= 20
    assert len(set(lab.script("a").times)) == len(lab.script("a").times)
    assert lab.script("a").greeted == 2


def test_a_restarted_policy_agent_hears_events_again() -> None:
    """Restarted, a policy agent has its subscriptions again."""
    lab = Lab()
    agent = PolicyAgent("p", lab.world, toolbox=Toolbox(lab.world), rulebook=Rulebook(()), subscribe=("rain.*",))
    loop = lab.manager.create_loop(agent)

    async def scenario() -> None:
        await loop.start()
        await sleep(1)
        await loop.stop()
        assert lab.bus.statistics().subscriptions == 0
        await loop.start()
        await sleep(0.05)
        lab.bus.publish("rain.falls", 1)
        await sleep(0.1)
        assert agent.event is not None
        await loop.stop()
        assert lab.bus.statistics().subscriptions == 0

    lab.main(scenario())


class Thinker(Agent):
    """Asks a model in each iteration, with a short pause of its own after the answer."""

    async def decide_action(self) -> Action:
        question = ModelRequest((ChatMessage("user", "Is it raining?"),))
        await Models.of(self.world).complete(self, question)
        self.state["answers"] = self.state.get("answers", 0) + 1
        await sleep(1.5)
        return NOOP


SLOW_MODEL = "  provider: simulated\n  simulated: {first_token: 50, per_token: 0}\n  rules: [{say: it is}]\n"
THINKER = "\n  - {name: a, kind: Thinker, loop: {min_loop_delay: 1s}}\n"


def test_a_slow_model_that_a_class_waits_for_is_no_silence() -> None:
    """An agent of a class that waits for a model in the core is slow, also right after the answer, and is not cured."""
    watched = "until: 200s\nexecution: {health: {every: 1s, cure: restart}}"
    scene = Scene(SLOW_MODEL, THINKER, watched, kinds={"Thinker": Thinker}).run()
    assert scene.events(ALERT) == []
    assert scene.state("a")["answers"] == 3


def test_an_effect_that_a_person_must_decide_about_is_no_silence() -> None:
    """An agent whose effect is in doubt waits for a person; its iteration is not cancelled."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        await perform(Effect("test", {}, _answer, latency_ns=100 * 10**9))
        return NOOP

    loop = lab.add("a", step, min_loop_delay=1)
    HealthMonitor(lab.manager, 10**9, "restart").start()

    async def scenario() -> None:
        await loop.start()
        await sleep(0.5)
        lab.kernel.effects.hold(lab.kernel.effects.in_flight["a", 1])
        await sleep(150)

    lab.main(scenario())
    assert _alerts(lab) == []
    assert loop.iteration_count == 1


def test_who_waits_for_others_at_a_parallel_tick_is_no_silence() -> None:
    """In a parallel tick, an agent that has decided and waits for one that asks a slow service is not silent."""
    lab = Lab()

    async def slow(agent: Script) -> Action:
        await perform(Effect("test", {}, _answer, latency_ns=100 * 10**9))
        return NOOP

    lab.add("fast", lambda agent: NOOP, min_loop_delay=1)
    lab.add("slow", slow, min_loop_delay=1)
    HealthMonitor(lab.manager, 10**9, "restart").start()
    lab.tick(concurrency="parallel")

    async def scenario() -> None:
        await sleep(150)

    lab.main(scenario())
    assert _alerts(lab) == []
