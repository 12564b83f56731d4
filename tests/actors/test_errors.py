"""Errors of agents: backed off, retried, contained; nobody else notices."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.actors import AgentState, PauseReason, WakeCondition
from sim.actors.loop import _plainness, plainness
from sim.actors.supervisor import RestartLimit
from sim.base.errors import Cancelled
from sim.kernel import Signal, sleep
from sim.kernel.codec import encode, json_fault
from sim.world import NOOP, Action, ActionResult
from tests.actors.helpers import Lab, Script

_S = AgentState


def failing(agent: Script) -> Action | None:
    """Raise at every iteration."""
    raise ValueError("no luck")


def test_backoff_goes_from_least_to_greatest() -> None:
    """The recorded delays double from twice the least delay up to the greatest."""
    lab = Lab()
    lab.add("a", failing, min_loop_delay=1, max_loop_delay=20, max_consecutive_errors=8, started=True)
    lab.run(200)
    delays = [row.data["delay_ns"] / 1e9 for row in lab.rows("a", "agent.error")]
    assert delays[:8] == [2, 4, 8, 16, 20, 20, 20, 20]


def test_backoff_without_a_least_delay_does_not_stand_still() -> None:
    """With a least delay of 0 failures still let time pass."""
    lab = Lab()
    loop = lab.add("a", failing, min_loop_delay=0, max_loop_delay=1, max_consecutive_errors=100, started=True)
    lab.run(10)
    assert 30 < loop.failures < 50


def test_a_refused_action_is_a_failure() -> None:
    """An action that is refused backs off like an exception."""
    lab = Lab()
    loop = lab.add("a", lambda agent: Action("read", {"artifact": "none"}), max_consecutive_errors=3, started=True)
    lab.run(5)
    assert loop.pause_reason is PauseReason.ERRORS
    assert lab.rows("a", "agent.error")[0].data["error"] == "there is no artifact 'none'"


def test_restart_intensity() -> None:
    """After more than n pauses for errors within the period the agent is STOPPED as crashed."""
    lab = Lab()
    loop = lab.add(
        "a", failing, max_consecutive_errors=1, cool_down=10, max_restarts=2, restart_period=100, started=True
    )
    lab.run(1000)
    assert lab.script("a").times == [0, 10, 20]
    assert loop.state is _S.STOPPED
    changes = [(row.data["to"], row.data["reason"]) for row in lab.rows("a", "agent.state")][-2:]
    assert changes == [("stopping", "crashed"), ("stopped", "crashed")]
    assert len(lab.rows("a", "agent.crashed")) == 1
    assert lab.script("a").ended == 1


def test_rare_failures_are_retried_for_ever() -> None:
    """Pauses that are further apart than the period allows do not add up."""
    lab = Lab()
    loop = lab.add(
        "a", failing, max_consecutive_errors=1, cool_down=60, max_restarts=1, restart_period=59, started=True
    )
    lab.run(6000)
    assert loop.state is _S.PAUSED
    assert loop.iteration_count == 100


def test_restart_limit_at_the_edge() -> None:
    """At most n restarts in any window of the period; one that lies exactly a period back still counts."""
    limit = RestartLimit(2, 10)
    assert [limit.allow(time) for time in (0, 5, 10, 20, 21, 22)] == [True, True, False, True, True, False]
    assert RestartLimit(0, 10).allow(5) is False


class Hooks(Script):
    """Raises in one of its hooks."""

    where = ""
    error: type[BaseException] = ValueError

    def _maybe(self, where: str) -> None:
        if self.where == where:
            raise self.error("planted")

    async def on_start(self) -> None:
        await sleep(0.1)
        self._maybe("on_start")

    async def decide_action(self) -> Action | None:
        await sleep(0.1)
        self._maybe("decide")
        return NOOP

    async def execute_action(self, action: Action) -> ActionResult:
        await sleep(0.1)
        self._maybe("execute")
        return await super().execute_action(action)

    def on_stop(self) -> None:
        super().on_stop()
        self._maybe("on_stop")


@pytest.mark.parametrize("error", [ValueError, SystemExit, RecursionError, Cancelled, StopIteration, GeneratorExit])
@pytest.mark.parametrize("where", ["on_start", "decide", "execute", "on_stop"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_an_error_in_any_hook_is_contained(where: str, error: type[BaseException], mode: str) -> None:
    """What an agent raises in any hook is recorded, it can still be stopped, and others act on."""
    lab = Lab()
    loop = lab.add("a", None, Hooks, max_consecutive_errors=2)
    agent = loop.agent
    assert isinstance(agent, Hooks)
    agent.where, agent.error = where, error
    other = lab.add("b", lambda agent: NOOP)
    if mode == "tick":
        lab.tick()
    else:
        loop.start_now()
        other.start_now()
    lab.at(30, lambda: loop.request_stop("test"))
    lab.run(40)
    assert loop.state is _S.STOPPED
    assert agent.ended == 1
    assert lab.rows("a", "agent.error")
    assert other.iteration_count >= 40
    assert [row.data["to"] for row in lab.rows("a", "agent.state")][-2:] == ["stopping", "stopped"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_concerns_the_process_ends_the_run(error: type[BaseException]) -> None:
    """KeyboardInterrupt and MemoryError are not an agent's: they end the run."""
    lab = Lab()
    loop = lab.add("a", None, Hooks, started=True)
    agent = loop.agent
    assert isinstance(agent, Hooks)
    agent.where, agent.error = "decide", error
    with pytest.raises(error):
        lab.run(10)


def test_an_agent_that_swallows_its_cancellation() -> None:
    """A bare except makes no agent immortal: it is given up, and the caller of stop answered."""
    lab = Lab()

    async def deaf(agent: Script) -> None:
        for _ in range(1000):
            with contextlib.suppress(Cancelled):
                await sleep(100)

    loop = lab.add("a", deaf, started=True)

    async def scenario() -> float:
        await sleep(1)
        await loop.stop(2)
        return lab.world.now

    assert lab.main(scenario()) == 3.0
    assert loop.state is _S.STOPPED


def test_an_agent_that_swallows_it_once() -> None:
    """An agent that swallows its cancellation once and goes on is cancelled again at its next wait."""
    lab = Lab()

    async def hard_of_hearing(agent: Script) -> Action:
        try:
            await sleep(100)
        except Cancelled:
            agent.state["tidied"] = True
        await sleep(0)
        return Action("write", {"artifact": "x", "content": 1})

    loop = lab.add("a", hard_of_hearing, started=True)

    async def scenario() -> None:
        await sleep(1)
        await loop.stop(0)

    lab.main(scenario())
    assert lab.script("a").state == {"tidied": True}
    assert lab.world.artifacts.ids() == []
    assert loop.state is _S.STOPPED


# -- crash isolation: what the others do is the same as if nothing had happened


def _crowd(count: int, crash: Callable[[Script, str], None], mode: str) -> Lab:
    """Agents that share nothing: each has its own artifact, account, place in time and random stream."""
    lab = Lab(seed=5)

    class Busy(Script):
        async def decide_action(self) -> Action | None:
            crash(self, "decide 1")
            await sleep(0.1)
            crash(self, "decide 2")
            if self.rng.random() < 0.2:
                return Action("sleep", {"condition": {"event": f"{self.agent_id}.never", "timeout": self.rng.random()}})
            if self.rng.random() < 0.2:
                return Action("transfer", {"to": f"{self.agent_id}-bank", "amount": 1})
            return Action("write", {"artifact": self.agent_id, "content": self.rng.random()})

        async def execute_action(self, action: Action) -> ActionResult:
            crash(self, "execute 1")
            await sleep(0)
            crash(self, "execute 2")
            result = await super().execute_action(action)
            crash(self, "execute 3")
            return result

        async def on_start(self) -> None:
            crash(self, "start 1")
            await sleep(0)
            crash(self, "start 2")

        def on_stop(self) -> None:
            crash(self, "stop")

    lab.limit("own", 4, 5)
    lab.world.costs.set_price("write", "own", "rate", 1)
    for index in range(count):
        name = f"a{index}"
        lab.add(name, None, Busy, min_loop_delay=0.5, started=mode == "autonomous")
        lab.world.ledger.open(name, 3_000_000)
        lab.world.ledger.open(f"{name}-bank")
    if mode == "tick":
        lab.tick(0.5)
    return lab


def _rows_of_others(lab: Lab, victim: str) -> dict[str, list[bytes]]:
    """All that makes up the events of the others, to the last counter and cause."""
    rows: dict[str, list[bytes]] = {}
    for row in lab.rows():
        if row.actor != victim:
            rows.setdefault(row.actor, []).append(encode(row))
    return rows


SPOTS = ["start 1", "start 2", "decide 1", "decide 2", "execute 1", "execute 2", "execute 3", "stop"]


@pytest.mark.slow
@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize("error", [ValueError, SystemExit, BaseException])
def test_a_crash_leaves_the_events_of_others_identical(spot: str, error: type[BaseException]) -> None:
    """One of 50 agents crashes at one of its awaits: every event of the others is the same, to the last counter."""

    def crash(agent: Script, where: str) -> None:
        if agent.agent_id == "a7" and where == spot and agent.loop.iteration_count != 2:
            raise error("planted")

    calm = _crowd(50, lambda agent, where: None, "autonomous").run(8)
    troubled = _crowd(50, crash, "autonomous").run(8)
    if spot != "stop":
        assert troubled.rows("a7", "agent.error")
    assert _rows_of_others(troubled, "a7") == _rows_of_others(calm, "a7")


@pytest.mark.proof
def test_a_crash_among_a_thousand() -> None:
    """The same with 1,000 agents, of which one fails at every iteration until it is given up."""

    def crash(agent: Script, where: str) -> None:
        if agent.agent_id == "a500":
            raise ValueError("planted")

    calm = _crowd(1000, lambda agent, where: None, "autonomous").run(4)
    troubled = _crowd(1000, crash, "autonomous").run(4)
    assert _rows_of_others(troubled, "a500") == _rows_of_others(calm, "a500")


def test_a_crash_in_tick_mode_leaves_the_world_of_others() -> None:
    """In tick mode a crash changes no state, artifact or balance of the others either."""

    def crash(agent: Script, where: str) -> None:
        if agent.agent_id == "a7" and where == "decide 2":
            raise ValueError("planted")

    def others(lab: Lab) -> Any:
        digest = lab.world.digest()
        return {
            part: {name: value for name, value in digest[part].items() if not name.startswith("a7")}
            for part in ("agents", "artifacts", "draws")
        }

    calm = _crowd(30, lambda agent, where: None, "tick").run(8)
    troubled = _crowd(30, crash, "tick").run(8)
    assert troubled.manager.loops["a7"].failures > 0
    assert others(troubled) == others(calm)


def test_a_waiter_learns_of_the_crash() -> None:
    """Whoever waits for the end of a loop is answered when it crashes outside an iteration."""
    lab = Lab()
    never = Signal(lab.kernel)

    class Late(Script):
        async def on_start(self) -> None:
            await sleep(3)
            raise ValueError("planted")

    loop = lab.add("a", lambda agent: never.wait(), Late, started=True)

    async def scenario() -> float:
        await sleep(1)
        await loop.when_stopped().wait()
        return lab.world.now

    assert lab.main(scenario()) == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("wake", ["for", "event"])
def test_sleeping_before_a_failure_does_not_lift_the_error_limit(mode: str, wake: str) -> None:
    """An agent that puts itself to sleep and fails then is paused at the error limit, and in the end given up."""
    lab = Lab()

    def step(agent: Script) -> Action | None:
        agent.loop.sleep(WakeCondition.parse({wake: 30 if wake == "for" else "a.b", "timeout": 30}))
        raise ValueError("no luck")

    loop = lab.add("a", step, max_consecutive_errors=5, cool_down=60, max_restarts=2, restart_period=86400)
    if mode == "tick":
        lab.tick()
    else:
        loop.start_now()
    lab.run(86400)
    assert loop.failures == 15
    assert loop.state is _S.STOPPED
    assert [row.data["to"] for row in lab.rows("a", "agent.state") if row.data["to"] == "paused"] == ["paused"] * 2


@pytest.mark.parametrize("kind", ["sleep", "rest"])
def test_a_decision_to_wait_is_no_success(kind: str) -> None:
    """An agent that fails every time it works, and sleeps or rests in between, is paused at the error limit."""
    lab = Lab()

    def step(agent: Script) -> Action:
        if agent.loop.iteration_count % 2:
            raise ValueError("no luck")
        return (
            Action("sleep", {"condition": {"for": 300}})
            if kind == "sleep"
            else Action("rest", {"until": lab.world.now})
        )

    loop = lab.add("a", step, max_consecutive_errors=5, cool_down=10**6, started=True)
    lab.run(86400)
    assert (loop.state, loop.failures) == (_S.PAUSED, 5)


def test_one_iteration_that_works_sets_the_count_of_errors_back() -> None:
    """Only failures in a row count: an action that is done between them starts the count and the backoff again."""
    lab = Lab()

    def step(agent: Script) -> Action:
        if agent.loop.iteration_count % 3:
            raise ValueError("no luck")
        return NOOP

    loop = lab.add("a", step, max_consecutive_errors=3, min_loop_delay=1, started=True)
    lab.run(200)
    assert loop.state is _S.RUNNING
    assert {row.data["delay_ns"] // 10**9 for row in lab.rows("a", "agent.error")} == {2, 4}


class Watching(Script):
    """Notes its failures, and does what the test wants then."""

    def __init__(self, *args: Any, then: Callable[[], object] = lambda: None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.errors: list[str] = []
        self.then = then

    def on_error(self, error: str) -> None:
        self.errors.append(error)
        self.then()


def test_the_agent_is_told_of_each_failed_iteration() -> None:
    """`on_error` is called once for each iteration that raised or whose action was refused, with what failed."""
    steps: list[Callable[[Script], Action | None]] = [failing, lambda _: Action("read", {"artifact": "x"})]
    lab = Lab()
    lab.add("a", lambda agent: steps.pop(0)(agent) if steps else NOOP, kind=Watching, started=True)
    lab.run(60)
    agent = lab.script("a")
    assert isinstance(agent, Watching)
    assert agent.errors == ["ValueError: no luck", "there is no artifact 'x'"]


def test_a_fault_in_on_error_does_not_hide_the_first() -> None:
    """An error in `on_error` is recorded after the first one, which alone counts, and the agent continues."""

    def fault() -> None:
        raise KeyError("another")

    lab = Lab()
    loop = lab.add("a", failing, kind=Watching, then=fault, max_consecutive_errors=2, started=True)
    lab.run(5)
    assert [row.data["error"] for row in lab.rows("a", "agent.error")] == [
        "ValueError: no luck", "on_error: KeyError: 'another'",
    ] * 2  # fmt: skip
    assert (loop.failures, loop.pause_reason) == (2, PauseReason.ERRORS)


def test_an_agent_may_stop_itself_in_on_error() -> None:
    """An agent that shuts down in `on_error` stops after this iteration; it has not crashed."""
    lab = Lab()
    loop = lab.add("a", failing, kind=Watching, started=True)
    agent = lab.script("a")
    assert isinstance(agent, Watching)
    agent.then = agent.shutdown
    lab.run(60)
    assert (loop.state, loop.failures, loop.crash_reason) == (_S.STOPPED, 1, None)


def test_a_loop_says_why_it_crashed() -> None:
    """`crash_reason` is the error with which the loop crashed, in an iteration or outside; a new start clears it."""
    lab = Lab()
    loop = lab.add("a", failing, max_consecutive_errors=1, max_restarts=0, started=True)

    async def fail_at_start(agent: Script) -> None:
        failing(agent)

    outside = lab.add("b", kind=type("Late", (Script,), {"on_start": fail_at_start}), started=True)
    lab.run(5)
    assert (loop.state, loop.crash_reason) == (_S.STOPPED, "ValueError: no luck")
    assert (outside.state, outside.crash_reason) == (_S.STOPPED, "ValueError: no luck")
    lab.script("a").step = None
    with lab.kernel.acting_as(lab.kernel.scenario):
        loop.start_now()
    lab.run(10)
    assert (loop.state, loop.crash_reason) == (_S.RUNNING, None)


@given(
    st.dictionaries(
        st.text(max_size=2),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2)
        | st.sampled_from([[], (1,), {"a": set()}, {1}, 1j, "\ud800"]),
        max_size=3,
    )
)  # fmt: skip
def test_a_plain_state_needs_no_further_look(state: dict[str, Any]) -> None:
    """Compiled and in Python, 2 means that there is no fault at any depth, and 0 that there is one at the top."""
    plain = plainness(state)
    assert plain == _plainness(state)
    fault = json_fault(state, "state")
    assert plain != 2 or fault is None
    assert plain or fault is not None
    assert plainness([state]) == 0
