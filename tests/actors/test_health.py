"""The health monitor: reports who has gone silent, once, and leaves alone who is only slow."""

from collections.abc import Mapping
from typing import Any

import pytest

from sim.actors import Agent, AgentState, HealthMonitor, WakeCondition
from sim.agents import PolicyAgent, RuleSet, Toolbox
from sim.kernel import Effect, perform, sleep
from sim.llm import ChatMessage, ModelRequest, Models
from sim.resources import Resource
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script
from tests.llm.scenes import Scene, data

ALERT = "alert.heartbeat_missed"


async def _answer(request: Any, key: str) -> Any:
    return request


async def stuck(agent: Script) -> Action:
    """Hang in the third iteration, and never again."""
    if agent.loop.iteration_count == 3:
        await sleep(1000)
    return NOOP


def _alerts(lab: Lab) -> list[float]:
    return [row.time_ns / 1e9 for row in lab.rows(topic=ALERT)]


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
    agent = PolicyAgent("p", lab.world, toolbox=Toolbox(lab.world), rule_set=RuleSet(()), subscribe=("rain.*",))
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


class Broken(Script):
    """Fails before its first iteration."""

    async def on_start(self) -> None:
        raise ValueError("no luck")


def _found(lab: Lab, alert: str = ALERT) -> list[Mapping[str, Any]]:
    return [data(row.data) for row in lab.rows(topic=alert)]


@pytest.mark.parametrize(("cure", "starts"), [("none", 1), ("restart", 3)])
def test_a_crashed_agent_is_reported_and_started_as_its_restart_limit_allows(cure: Any, starts: int) -> None:
    """A crash is a missed heartbeat; the cure starts the agent again, at most as often as its restart limit allows."""
    lab = Lab()
    lab.add("a", None, Broken, min_loop_delay=1, max_restarts=2, started=True)
    lab.add("b", lambda agent: NOOP, min_loop_delay=1, started=True)
    HealthMonitor(lab.manager, 10**9, cure).start()
    lab.run(100)
    assert {(found["agent"], found["state"]) for found in _found(lab)} == {("a", "stopped")}
    assert len(_found(lab)) == starts
    assert [found["cure"] for found in _found(lab)] == [*["restart"] * (starts - 1), "none"]


def test_a_crashed_agent_that_was_spawned_is_reported() -> None:
    """The crash of an agent that was made during the run, which is kept no more, is a missed heartbeat too."""
    lab = Lab()
    HealthMonitor(lab.manager, 10**9, "restart").start()
    lab.add("b", lambda agent: NOOP, min_loop_delay=1, started=True)
    loop = lab.add("a", None, Broken)
    lab.at(5, lambda: lab.manager.start_spawned(loop, 0))
    lab.run(100)
    assert [(found["agent"], found["state"], found["cure"]) for found in _found(lab)] == [("a", "stopped", "none")]


@pytest.mark.parametrize(("how", "alerts"), [("stop", 1), ("shutdown", 0), ("never started", 0)])
def test_a_stopped_agent_is_reported_unless_it_ended_itself(how: str, alerts: int) -> None:
    """Who was stopped by others is reported once, and not cured; who has shut down, or never began, is not missed."""
    lab = Lab()
    loop = lab.add("a", lambda agent: NOOP, min_loop_delay=1, started=how != "never started")
    lab.add("b", lambda agent: NOOP, min_loop_delay=1, started=True)
    HealthMonitor(lab.manager, 10**9, "restart").start()
    lab.at(5, lambda: loop.request_stop(how))
    lab.run(100)
    assert len(_found(lab)) == alerts
    assert loop.state is AgentState.STOPPED


@pytest.mark.parametrize("cure", ["none", "restart"])
@pytest.mark.parametrize(
    ("condition", "alerts"),
    [
        ({"event": "rain"}, 1),
        ({"all": [{"for": 5}, {"event": "rain"}]}, 1),
        ({"event": "rain", "timeout": 80}, 0),
        ({"any": [{"for": 80}, {"message": None}]}, 0),
    ],
)
def test_who_sleeps_for_good_is_reported_and_woken(condition: dict[str, Any], alerts: int, cure: Any) -> None:
    """Sleep that no time will end is a missed heartbeat after the limit for it; the cure wakes the agent."""
    lab = Lab()

    def step(agent: Script) -> Action:
        return Action("sleep", {"condition": condition}) if agent.loop.iteration_count == 1 else NOOP

    loop = lab.add("a", step, min_loop_delay=1, started=True)
    monitor = HealthMonitor(lab.manager, 10**9, cure, asleep_ns=30 * 10**9)
    monitor.start()
    lab.run(60)
    done = "wake" if cure == "restart" else "none"
    assert [(found["state"], found["cure"]) for found in _found(lab)] == [("sleeping", done)] * alerts
    assert (loop.state is AgentState.RUNNING) == (alerts == 1 and cure == "restart")
    assert monitor.restarted == 0


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_an_iteration_that_hangs_asleep_or_while_it_stops_is_silent(mode: str) -> None:
    """An iteration that hangs is silent also after it has put its agent to sleep, or while the agent stops."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        if agent.agent_id == "sleeper":
            agent.loop.sleep(WakeCondition.at(500))
        await sleep(1000)
        return NOOP

    for name in ("sleeper", "stopper"):
        lab.add(name, step, min_loop_delay=1, started=mode == "autonomous")
    HealthMonitor(lab.manager, 10**9, "restart").start()
    if mode == "tick":
        lab.tick()
    lab.at(1.5, lambda: lab.manager.loops["stopper"].request_stop("stop"))
    lab.run(3.5)
    found = [(found["agent"], found["state"], found["cure"]) for found in _found(lab)]
    assert sorted(found) == [("sleeper", "sleeping", "restart"), ("stopper", "stopping", "cancel")]
    assert lab.manager.loops["stopper"].state is AgentState.STOPPED


@pytest.mark.parametrize(("cure", "iterations"), [("none", 1), ("restart", 3)])
def test_an_execution_lock_held_too_long_is_reported(cure: Any, iterations: int) -> None:
    """An iteration that beats, and never ends, holds the lock too long: one alert, and the cure restarts it."""
    lab = Lab()

    async def busy(agent: Script) -> Action:
        while True:
            agent.loop.beat()
            await sleep(1)

    loop = lab.add("a", busy, min_loop_delay=1, started=True)
    monitor = HealthMonitor(lab.manager, 10**9, cure, lock_ns=30 * 10**9)
    monitor.start()
    lab.run(80)
    assert _found(lab) == []
    found = _found(lab, "alert.lock_held")
    assert [(alert["state"], alert["cure"]) for alert in found] == [("running", cure)] * max(1, iterations - 1)
    assert monitor.locks == len(found)
    assert loop.iteration_count == iterations


def test_a_long_iteration_that_waits_for_effects_holds_no_lock_too_long() -> None:
    """Symbols waits do not count as holding the lock, however many an iteration has, with short pauses in between."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        for _ in range(10):
            await perform(Effect("test", {}, _answer, latency_ns=20 * 10**9))
            await sleep(1.5)
        return NOOP

    lab.add("a", step, min_loop_delay=1, started=True)
    HealthMonitor(lab.manager, 10**9, "restart", lock_ns=5 * 10**9).start()
    lab.main(lab.pause_for(400))
    assert _found(lab) == []
    assert _found(lab, "alert.lock_held") == []


def test_an_effect_past_its_deadline_is_reported() -> None:
    """An effect without an outcome at its deadline is an alert at that instant; the agent goes on with the timeout."""
    lab = Lab()
    outcomes = []

    async def step(agent: Script) -> Action:
        late = Effect("slow", {}, _answer, latency_ns=100 * 10**9, deadline_ns=10 * 10**9)
        outcomes.append(await perform(late))
        return Action("sleep", {"condition": {"for": 1000}})

    lab.add("a", step, min_loop_delay=1, started=True)
    monitor = HealthMonitor(lab.manager, 60 * 10**9)
    monitor.start()
    lab.main(lab.pause_for(50))
    alert = "alert.effect_overdue"
    assert [row.time_ns for row in lab.rows(topic=alert)] == [10 * 10**9]
    assert _found(lab, alert) == [{"agent": "a", "effect": "slow", "deadline_ns": 10 * 10**9, "cure": "timeout"}]
    assert [outcome.kind for outcome in outcomes] == ["timeout"]
    assert monitor.overdue == 1


def test_a_scenario_sets_the_limits_of_the_monitor() -> None:
    """`execution.health` sets how long an agent may sleep without a time limit, and how long an iteration may last."""
    agents = "\n  - {name: asker, rules: [{do: {sleep: {event: rain}}}]}\n"
    health = "health: {every: 1s, cure: restart, asleep: 20s, lock: 5s}"
    scene = Scene("  rules: [{say: it is}]\n", agents, f"until: 30s\nexecution: {{{health}}}").run()
    assert [(found["state"], found["cure"]) for found in scene.events(ALERT)] == [("sleeping", "wake")]
