"""Wake conditions: exact, nothing lost, nothing left behind."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.actors import AgentState, WakeCondition
from sim.actors.wake import Written, arm
from sim.base.errors import UsageError
from sim.events.bus import RECENT
from sim.kernel import sleep
from sim.kernel.codec import JsonObject, encode
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script

W = WakeCondition
_S = AgentState


def sleeper(lab: Lab, condition: WakeCondition | dict[str, Any], name: str = "a") -> Any:
    """An agent that sleeps on a condition at its first iteration, and only acts afterwards."""

    def step(agent: Script) -> Action | None:
        if len(agent.times) > 1:
            return NOOP
        if isinstance(condition, dict):
            return Action("sleep", {"condition": condition})
        agent.loop.sleep(condition)
        return None

    return lab.add(name, step, started=True, mailbox_size=5)


def woken(lab: Lab, condition: WakeCondition | dict[str, Any], until: float = 1000) -> tuple[float | None, str]:
    """Return when an agent that sleeps on `condition` from 0 wakes, and what woke it."""
    loop = sleeper(lab, condition)
    lab.run(until)
    times = [time for time, state in lab.states("a") if state == "running"]
    return (times[1] if len(times) > 1 else None), loop.woken_by


def _send(lab: Lab, data: Any = None) -> None:
    letter = Action("send", {"to": "a", "data": data})
    lab.add(f"s{lab.kernel.now}", lambda agent: letter, started=True, min_loop_delay=9999, max_loop_delay=9999)


CASES: list[tuple[Any, float | None, str]] = [
    (W.at(7), 7, "time"),
    (W.at(0), 0, "time"),
    (W.after_delay("1m"), 60, "time"),
    (W.event("rain.*"), 5, "event"),
    (W.event("rain.**"), 5, "event"),
    (W.event("snow.*"), None, ""),
    (W.event("rain.*", where="data.mm > 3"), 8, "event"),
    (W.event("rain.*", where="data.mm > 3", timeout=6), 6, "timeout"),
    (W.event("snow.*", timeout=20), 20, "timeout"),
    (W.event("rain.*", where="data.none.such > 3", timeout=20), 20, "timeout"),
    (W.event("rain.*", where="source == 'scenario' and time > 6"), 8, "event"),
    (W.message(), 6, "message"),
    (W.message(timeout=3), 3, "timeout"),
    (W.resource("calls", 2), 10, "resource"),
    (W.resource("calls", 2, timeout=4), 4, "timeout"),
    (W.resource("calls", 3), None, ""),
    (W.any_of(W.at(9), W.event("rain.*"), W.message()), 5, "event"),
    (W.any_of(W.at(9), W.at(4)), 4, "time"),
    (W.all_of(W.at(9), W.event("rain.*"), W.message()), 9, "time"),
    (W.all_of(W.at(2), W.message()), 6, "message"),
    (W.all_of(W.at(2), W.event("snow.*"), timeout=30), 30, "timeout"),
    (W.all_of(W.at(2), W.event("snow.*", timeout=12)), 12, "timeout"),
    (W.all_of(W.message(), W.any_of(W.message(), W.at(500))), 6, "message"),
    (W.any_of(W.all_of(W.message(), W.at(100)), W.all_of(W.event("rain.*"), W.at(50))), 50, "time"),
    (W.all_of(W.any_of(W.at(3), W.at(4)), W.any_of(W.event("snow.*"), W.event("rain.*"))), 5, "event"),
    (W.never(), None, ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("condition", "time", "cause"), CASES)
def test_when_a_condition_is_met(condition: WakeCondition, time: float | None, cause: str) -> None:
    """Each condition wakes at exactly its time, by what met it, and leaves no subscription, watch or timer behind."""
    lab = Lab()
    lab.limit("calls", 2, 10)
    lab.world.rate_tracker.consume("a", "calls", 1)
    lab.at(5, lambda: lab.bus.publish("rain.falls", {"mm": 1}))
    lab.at(6, lambda: _send(lab))
    lab.at(8, lambda: lab.bus.publish("rain.falls", {"mm": 4}))
    assert woken(lab, condition) == (time, cause)
    if time is not None:
        assert lab.bus.statistics().subscriptions == 0
    else:
        lab.at(1000, lab.manager.loops["a"].wake)
        lab.run(1001)
        assert lab.bus.statistics().subscriptions == 0
    window = lab.world.rate_tracker._agent_windows["calls", "a"]
    assert not window.watches


@pytest.mark.parametrize(("condition", "time", "cause"), CASES)
def test_disarming_leaves_nothing_behind(condition: WakeCondition, time: float | None, cause: str) -> None:
    """A condition that is taken back never fires, and neither subscription, watch nor mailbox knows of it."""
    lab = Lab()
    lab.limit("calls", 2, 10)
    lab.world.rate_tracker.consume("a", "calls", 1)
    loop = lab.add("a")
    fired: list[str] = []
    armed = arm(condition, lab.world, loop.agent, fired.append)
    armed.cancel()
    armed.cancel()
    assert lab.bus.statistics().subscriptions == 0
    assert not lab.world.rate_tracker._agent_windows["calls", "a"].watches
    lab.at(5, lambda: lab.bus.publish("rain.falls", {"mm": 9}))
    lab.at(6, lambda: _send(lab))
    lab.run(600)
    assert fired == []


def test_what_is_there_already_wakes_at_once() -> None:
    """A message in the mailbox, or a level that is reached, wakes in the same instant."""
    lab = Lab()
    lab.limit("calls", 2, 10)
    assert woken(lab, W.resource("calls", 2)) == (0, "resource")
    lab = Lab()
    lab.at(1, lambda: _send(lab))

    async def late(agent: Script) -> Action:
        await sleep(2)
        return Action("sleep", {"condition": {"message": True}})

    loop = lab.add("a", late, started=True)
    lab.run(2.05)
    assert loop.woken_by == "message"
    assert loop.wakeups == 1


def test_the_event_that_woke() -> None:
    """The agent finds the event that woke it, and none after another cause."""
    lab = Lab()
    loop = sleeper(lab, W.event("rain.*", timeout=50))
    lab.at(5, lambda: lab.bus.publish("rain.falls", {"mm": 1}))
    lab.run(5.05)
    event = loop.agent.woken_event
    assert event is not None
    assert (event.topic, event.data, event.source) == ("rain.falls", {"mm": 1}, "scenario")
    lab.at(6, lambda: loop.sleep(W.at(7)))
    lab.run(7.05)
    assert loop.agent.woken_event is None


def test_a_new_condition_replaces_the_old() -> None:
    """A sleeping agent gets the new condition in place of the old one, without waking."""
    lab = Lab()
    loop = sleeper(lab, W.event("rain.*"))
    lab.at(1, lambda: loop.sleep(W.at(9)))
    lab.at(5, lambda: lab.bus.publish("rain.falls"))
    lab.run(20)
    assert [time for time, state in lab.states("a") if state == "running"] == [0, 9]
    assert lab.bus.statistics().subscriptions == 0


# -- no wake-up is lost


@pytest.mark.parametrize("awaits", [0, 1, 3])
@pytest.mark.parametrize("crowd", [1, 7, RECENT + 10])
def test_an_event_between_deciding_and_sleeping_wakes(awaits: int, crowd: int) -> None:
    """An event published while the agent still decides wakes it, though it is not asleep yet.

    Also if more was published meanwhile than the bus remembers.
    """
    lab = Lab()

    async def step(agent: Script) -> Action | None:
        if len(agent.times) > 1:
            return None
        condition = {"event": "rain.*"}  # decided here
        for _ in range(awaits):
            await sleep(0)
        await sleep(1)
        return Action("sleep", {"condition": condition})

    loop = lab.add("a", step, started=True)

    def flood() -> None:
        lab.bus.publish("rain.falls")
        for _ in range(crowd - 1):
            lab.bus.publish("noise")

    lab.at(0.5, flood)
    lab.run(5)
    assert loop.state is _S.RUNNING
    assert loop.woken_by == "event"
    assert lab.script("a").times[1] < 1.2
    found = loop.agent.woken_event
    assert found is None or found.topic == "rain.falls"


def test_events_before_the_iteration_do_not_wake() -> None:
    """What happened before the present iteration, or by the agent itself, does not wake."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        agent.world.event_bus.publish("rain.falls", "mine")
        await sleep(1)
        return Action("sleep", {"condition": {"event": "rain.*"}})

    loop = lab.add("a", step)
    lab.bus.publish("rain.falls")
    loop.start_now(delay_ns=5 * 10**9)
    lab.run(100)
    assert loop.state is _S.SLEEPING
    assert loop.iteration_count == 1


@pytest.mark.parametrize("concurrency", ["sequential", "parallel"])
def test_no_event_is_lost_in_tick_mode(concurrency: str) -> None:
    """In tick mode, too, an event between deciding and sleeping wakes: in parallel all decide before anybody acts."""
    lab = Lab()

    def first(agent: Script) -> Action:
        return Action("publish", {"topic": "rain.falls"}) if len(agent.times) == 1 else NOOP

    def second(agent: Script) -> Action:
        return Action("sleep", {"condition": {"event": "rain.*"}}) if len(agent.times) == 1 else NOOP

    lab.add("a", first)
    loop = lab.add("b", second)
    lab.tick(concurrency=concurrency)
    lab.run(5)
    assert loop.state is (_S.RUNNING if concurrency == "parallel" else _S.SLEEPING)
    assert lab.script("b").times == ([0, 1, 2, 3, 4] if concurrency == "parallel" else [0])


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["go", "other"])), max_size=30), st.integers(0, 3))
@settings(max_examples=60)
def test_every_event_is_answered(events: list[tuple[int, str]], awaits: int) -> None:
    """An agent that counts what it was woken for misses no event, whenever it is published."""
    lab = Lab()

    async def step(agent: Script) -> Action:
        agent.state["seen"] = agent.world.event_bus.published("go")
        for _ in range(awaits):
            await sleep(0.2)
        return Action("sleep", {"condition": {"event": "go"}})

    loop = lab.add("a", step, started=True, min_loop_delay=0.3, max_loop_delay=1)
    for tenth, topic in events:
        lab.at(tenth / 10, lambda topic=topic: lab.bus.publish(topic))  # type: ignore[misc]
    lab.run(60)
    assert loop.agent.state["seen"] == sum(topic == "go" for _, topic in events)
    assert loop.state is _S.SLEEPING


# -- what waiting costs


def test_a_paused_agent_costs_nothing() -> None:
    """Until capacity returns a paused agent causes no step at all; then it wakes at that nanosecond, once."""
    lab = Lab()
    lab.limit("calls", 1, 1000)
    lab.world.costs.set_price("noop", "calls", "rate", 1)
    loop = lab.add("a", lambda agent: NOOP, started=True)
    lab.run(1)
    steps = lab.kernel.steps
    lab.run(999.999)
    assert (lab.kernel.steps, loop.wakeups) == (steps, 0)
    lab.run(1000.05)
    assert loop.wakeups == 1
    assert lab.script("a").times == [0.0, 1000.0]


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.proof)])
def test_sleepers_cost_nothing(count: int) -> None:
    """Thousands of agents that wait for an event that never comes cause no step, however long the run."""
    lab = Lab()
    for index in range(count):
        lab.add(f"a{index}", lambda agent: Action("sleep", {"condition": {"event": "never.comes"}}), started=True)
    lab.run(1)
    steps = lab.kernel.steps
    lab.run(1_000_000)
    assert lab.kernel.steps - steps <= 2
    assert lab.manager.totals().wakeups == 0
    assert lab.manager.states()["sleeping"] == count


def test_what_never_fits_does_not_trap_the_agent() -> None:
    """An action that costs more than its limit fails; a limit of nothing pauses until it is raised, and no crash."""
    lab = Lab()
    lab.limit("calls", 2, 10)
    lab.world.costs.set_price("noop", "calls", "rate", 3)
    loop = lab.add("a", lambda agent: NOOP, started=True, max_consecutive_errors=1000)
    lab.run(30)
    assert loop.state is _S.RUNNING
    assert loop.failures > 3

    lab = Lab()
    lab.limit("calls", 0, 10)
    lab.world.costs.set_price("noop", "calls", "rate", 1)
    loop = lab.add("a", lambda agent: NOOP, started=True)
    lab.at(50, lambda: lab.limit("calls", 1, 10))
    lab.run(49)
    assert loop.state is _S.PAUSED
    lab.run(55)
    assert lab.script("a").times == [50.0]


# -- as JSON


def conditions() -> st.SearchStrategy[dict[str, Any]]:
    """Conditions as actions give them."""
    time = st.integers(0, 10**6) | st.sampled_from(["5m", "1h30m", 0.25])
    names = st.sampled_from(["rain.*", "a.b.c", "**", "x.**"])
    base = (
        st.builds(lambda t: {"for": t}, time)
        | st.builds(lambda t: {"until": t}, time)
        | st.builds(lambda n: {"event": n}, names)
        | st.builds(lambda n: {"event": n, "where": "data.x > 1"}, names)
        | st.builds(lambda v: {"resource": "llm_calls", "at_least": v}, st.integers(0, 50))
        | st.just({"message": True})
    )
    timed = st.builds(lambda c, t: {**c, "timeout": t}, base, time) | base
    return st.recursive(
        timed,
        lambda inner: st.builds(
            lambda kind, parts: {kind: parts}, st.sampled_from(["any", "all"]), st.lists(inner, min_size=1, max_size=3)
        ),
        max_leaves=5,
    )


@given(conditions())
def test_parse_keeps_all_of_it(given_: dict[str, Any]) -> None:
    """Parsing keeps everything that is written: two conditions are equal exactly if what is parsed is."""
    first, second = W.parse(given_), W.parse(dict(given_))
    assert first == second
    changed = W.parse({"any": [given_, {"for": 12345}]})
    assert changed.value[0] == first
    assert changed != first


NONSENSE: list[Any] = [
    {},
    {"for": -1},
    {"for": float("nan")},
    {"for": None},
    {"for": "soon"},
    {"for": 1, "until": 2},
    {"for": 1, "where": "x"},
    {"event": 5},
    {"event": None},
    {"event": ""},
    {"event": "a..b"},
    {"event": "a", "where": 5},
    {"event": "a", "where": ["x"]},
    {"event": "a", "where": "__import__('os')"},
    {"event": "a", "where": "("},
    {"event": "a", "timeout": "never"},
    {"resource": "x", "at_least": "many"},
    {"resource": "x", "at_least": float("nan")},
    {"resource": "x", "at_least": float("inf")},
    {"resource": 5},
    {"any": []},
    {"all": {}},
    {"any": [{"for": 1}, 5]},
    {"any": [{"all": []}]},
    {"sleep": 5},
    {"event": "a", "extra": 1},
]


@pytest.mark.parametrize("given_", NONSENSE)
def test_nonsense_is_refused(given_: Any) -> None:
    """What is no condition is refused with a sentence, as an action it is refused, and the agent does not sleep."""
    with pytest.raises(UsageError):
        W.parse(given_)
    lab = Lab()
    loop = lab.add("a", lambda agent: Action("sleep", {"condition": given_}), started=True)
    lab.run(0.05)
    assert loop.state is _S.RUNNING
    assert not lab.script("a").results[0].success
    assert lab.bus.statistics().subscriptions == 0


@pytest.mark.parametrize(
    ("kind", "value"),
    [("time", -1), ("time", "soon"), ("event", "a b"), ("resource", ("x", float("nan"))), ("any", ()), ("all", (5,))],
)
def test_a_record_with_nonsense_cannot_be_made(kind: Any, value: Any) -> None:
    """The seed's record is checked when it is made, not when the agent falls asleep with it."""
    with pytest.raises(UsageError):
        W(kind, value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: W("evnt", "rain.*"), "did you mean"),
        (lambda: W("resource", "calls"), "resource"),
        (lambda: W("resource", ("calls", 1, 2)), "cannot have"),
        (lambda: W("event", 7), "event"),
        (lambda: W("event", "rain.*", where="data.mm > 3"), "expression"),  # type: ignore[arg-type]
        (lambda: W("time", -5), "between 0"),
        (lambda: W("time", None), "duration"),
        (lambda: W("never", timeout_ns=-1), "timeout_ns"),
        (lambda: W("message", "x"), "message"),
    ],
)
def test_a_condition_that_cannot_be_met_is_refused_when_it_is_made(make: Any, words: str) -> None:
    """A wrong type, value, filter or timeout raises `UsageError` when the condition is made, before an agent sleeps."""
    with pytest.raises(UsageError) as caught:
        make()
    assert words in f"{caught.value} {caught.value.hint}"


def test_a_time_condition_counts_in_seconds() -> None:
    """`WakeCondition("time", 5)` wakes 5 simulated seconds after the start."""
    assert woken(Lab(), W("time", 5)) == (5, "time")


@pytest.mark.parametrize("nested", [False, True])
def test_a_resource_that_has_no_limit_is_refused_before_the_state_changes(nested: bool) -> None:
    """A wake condition on an unknown resource names the nearest one, and the agent stays awake."""
    lab = Lab()
    lab.limit("calls", 2, 10)
    found = list[UsageError]()

    def step(agent: Script) -> Action:
        condition = W.resource("cals", 1)
        try:
            agent.loop.sleep(W.any_of(W.at(5), condition) if nested else condition)
        except UsageError as error:
            found.append(error)
        assert agent.loop.state is _S.RUNNING
        return NOOP

    loop = lab.add("a", step, started=True).agent.loop
    lab.run(1)
    assert "did you mean" in f"{found[0]} {found[0].hint}"
    assert loop.iteration_count > 5
    assert lab.bus.statistics().subscriptions == 0


def test_an_agents_own_publication_does_not_wake_it() -> None:
    """What an agent publishes after it put itself to sleep does not wake it; the same event of another agent does."""
    lab = Lab()

    def step(agent: Script) -> Action:
        agent.loop.sleep(W.event("rain.*"))
        return Action("publish", {"topic": "rain.falls"})

    loop = lab.add("a", step, started=True)
    lab.run(5)
    assert (loop.state, loop.iteration_count) == (_S.SLEEPING, 1)
    lab.at(7, lambda: lab.bus.publish("rain.falls"))
    lab.run(7.05)
    assert loop.woken_by == "event"


def test_a_condition_can_be_copied() -> None:
    """A deep copy of a condition is equal to it."""
    condition = WakeCondition.after_delay(5)
    assert copy.deepcopy(condition) == condition


def test_a_written_condition_is_parsed_once() -> None:
    """A mapping that is never changed gives the same condition at each use, and one that is wrong fails each time."""
    said: JsonObject = {"any": [{"event": "bell.rang", "where": "data > 1"}, {"for": "10s"}], "timeout": 60}
    written = Written(said)
    condition = WakeCondition.parse(written)
    assert condition == WakeCondition.parse(said)
    assert WakeCondition.parse(written) is condition
    assert encode(written) == encode(said)
    for _ in range(2):
        with pytest.raises(UsageError, match="wake condition"):
            WakeCondition.parse(Written({"nothing": 1}))
