"""One run from its beginning to its result."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from sim.actors import Agent
from sim.base.errors import LivelockError, RunError, UsageError
from sim.kernel import NS, Effect, perform, sleep
from sim.record import HashRecorder
from sim.runner import RunController, RunResult, run, run_async
from sim.runner.result import Distribution
from sim.scenario import Scenario, load
from sim.scenario.assembly.build import Simulation, build
from sim.standalone import World
from sim.tools.rights import Rights
from sim.world import NOOP, Action
from tests.helpers import named

HEAD = "name: test\nuntil: 10s\nexecution: {agent_loop: {min_loop_delay: 1s}}\n"
IDLER = "agents: [{name: a, rules: [{do: {sleep: {event: go}}}]}]\n"


def scenario(tmp_path: Path, text: str) -> Scenario:
    """Load a scenario from text."""
    file = tmp_path / "test.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    return load(file)


def drive(
    tmp_path: Path, text: str, until: float = 10, mode: Any = "autonomous", kinds: Any = None
) -> tuple[RunResult, HashRecorder, Simulation]:
    """Run a scenario with a recorder that keeps its rows."""
    keeper = HashRecorder(keep=True)
    simulation = build(scenario(tmp_path, text), recorder=keeper, rights=Rights(kinds=kinds))
    runner = RunController(simulation, until_ns=round(until * NS), mode=mode)
    status = anyio.run(runner.run)
    result = runner.finish(status, keeper, run=None, backend="asyncio", wall_seconds=0)
    return result, keeper, simulation


def topics(keeper: HashRecorder, topic: str) -> list[float]:
    """When events of a topic were recorded, seconds."""
    return [row.time_ns / NS for row in named(keeper.rows) if row.topic == topic]


def test_until_is_exclusive(tmp_path: Path) -> None:
    """What is due at the end does not happen, and the time at the end is the end."""
    text = "agents: [{name: a, rules: [{do: noop}]}]\n"
    result, keeper, simulation = drive(tmp_path, text)
    assert topics(keeper, "action.noop") == [float(n) for n in range(10)]
    assert result.sim_seconds == 10
    assert (result.iterations, result.actions, result.kinds) == (10, 10, {"noop": 10})
    assert result.status == "finished"
    assert result.states["running"] == 1
    assert simulation.manager.states()["stopped"] == 1
    assert [row.data["to"] for row in named(keeper.rows) if row.topic == "agent.state"][-2:] == ["stopping", "stopped"]


def test_time_passes_when_nothing_happens(tmp_path: Path) -> None:
    """A run in which everybody sleeps lasts to its end."""
    result, _, _ = drive(tmp_path, IDLER)
    assert result.sim_seconds == 10
    assert (result.iterations, result.states["sleeping"], result.wakeups) == (1, 1, 0)


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_injections(tmp_path: Path, mode: str) -> None:
    """`at` once, `every` until the end, `times` at most; none at or after the end; agents are woken by them."""
    text = IDLER + (
        "events:\n  - {at: 2s, topic: once, data: {x: 1}}\n  - {at: 1s, every: 3s, topic: often}\n"
        "  - {at: 0s, every: 1s, times: 4, topic: go}\n  - {at: 10s, topic: late}\n"
    )
    result, keeper, simulation = drive(tmp_path, text, mode=mode)
    assert topics(keeper, "once") == [2]
    assert topics(keeper, "often") == [1, 4, 7]
    assert topics(keeper, "go") == [0, 1, 2, 3]
    assert topics(keeper, "late") == []
    assert result.wakeups >= 3
    assert simulation.world.event_bus.published("go") == 4


def test_samples(tmp_path: Path) -> None:
    """Metrics are sampled from time 0 at their interval, before the agents of the same instant, and at the end."""
    text = (
        "agents: [{name: a, count: 2, state: {n: 0}, rules: [{do: noop, set: {n: '=n + 1'}}]}]\n"
        "metrics: {every: 2s, values: {n: \"total('a', 'n')\", t: now}}\n"
    )
    result, keeper, _ = drive(tmp_path, text)
    assert result.metrics == {"time": [0, 2, 4, 6, 8, 10], "n": [0, 4, 8, 12, 16, 20], "t": [0, 2, 4, 6, 8, 10]}
    assert topics(keeper, "metric.sample") == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("every", [3, 60])
def test_the_final_state_is_sampled(tmp_path: Path, every: int) -> None:
    """The last sample shows the state in which the run ended, whether or not the interval falls on its end."""
    text = (
        "agents: [{name: a, state: {n: 0}, rules: [{do: noop, set: {n: '=n + 1'}}]}]\n"
        f"metrics: {{every: {every}s, values: {{n: \"total('a', 'n')\"}}}}\n"
    )
    result, _, _ = drive(tmp_path, text)
    assert (result.metrics["time"][-1], result.metrics["n"][-1]) == (10, 10)


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_stop_condition(tmp_path: Path, mode: str) -> None:
    """The run ends at the first sample at which the condition holds, after the agents acted, and says which it was."""
    text = (
        "agents: [{name: a, state: {n: 0}, rules: [{do: noop, set: {n: '=n + 1'}}]}]\n"
        "metrics: {every: 2s, values: {}}\nstop: {when: \"total('a', 'n') >= 5\"}\n"
    )
    result, _, _ = drive(tmp_path, text, mode=mode)
    assert result.sim_seconds == 4
    assert result.stopped_by == "total('a', 'n') >= 5"
    assert result.status == "finished"


def test_a_metric_that_cannot_be_computed_fails_the_run(tmp_path: Path) -> None:
    """An error in a metric names it and ends the run as failed."""
    text = IDLER + "metrics: {every: 5s, values: {bad: sqrt(4 - now)}}\n"
    with pytest.raises(RunError, match="bad cannot be evaluated"):
        drive(tmp_path, text)


class Caller(Agent):
    """Calls for something that takes 100 s."""

    async def decide_action(self) -> Action | None:
        await perform(Effect("call", {"n": 1}, _answer, latency_ns=100 * NS))
        return NOOP


async def _answer(request: Any, key: str) -> Any:
    return request


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_effects_in_flight_at_the_end_are_abandoned(tmp_path: Path, mode: str) -> None:
    """At the end what is in flight is recorded as abandoned, before the agents stop."""
    order: list[str] = []

    class RunSink(HashRecorder):
        def event(self, row: Any, /) -> None:
            order.append(row[6])
            super().event(row)

        def closed(self, row: Any, /) -> None:
            order.append(row[2])
            super().closed(row)

    keeper = RunSink(keep=True)
    simulation = build(
        scenario(tmp_path, "agents: [{name: a, kind: caller}]\n"),
        recorder=keeper,
        rights=Rights(kinds={"caller": Caller}),
    )
    runner = RunController(simulation, until_ns=10 * NS, mode=mode)  # type: ignore[arg-type]
    status = anyio.run(runner.run)
    result = runner.finish(status, keeper, run=None, backend="asyncio", wall_seconds=0)
    assert order[-3:] == ["abandoned", "agent.state", "agent.state"]
    assert [row.ending for row in keeper.endings] == ["abandoned"]
    assert (result.iterations, result.actions) == (1, 0)


def test_an_interrupted_run_changes_no_agent(tmp_path: Path) -> None:
    """A run that is suspended is `interrupted`: no agent is stopped, and nothing is recorded for it."""
    keeper = HashRecorder(keep=True)
    simulation = build(scenario(tmp_path, "agents: [{name: a, rules: [{do: noop}]}]\n"), recorder=keeper)
    runner = RunController(simulation, until_ns=10**18, mode="autonomous")
    simulation.world.kernel.call_at(5 * NS, runner.host.suspend, simulation.world.kernel.scenario)
    status = anyio.run(runner.run)
    result = runner.finish(status, keeper, run=None, backend="asyncio", wall_seconds=0)
    assert result.status == "interrupted"
    assert simulation.manager.states()["running"] == 1
    assert [row.data["to"] for row in named(keeper.rows) if row.topic == "agent.state"] == ["starting", "running"]


class Breaker(Agent):
    """Ends the run the hard way."""

    async def decide_action(self) -> Action | None:
        raise MemoryError("planted")


def test_a_failed_run_is_recorded_as_failed(tmp_path: Path) -> None:
    """What ends a run early is raised, and the run folder says `failed`."""
    from sim.record import open_run

    scenario(tmp_path, "agents: [{name: a, kind: breaker}]\n")
    with pytest.raises(MemoryError):
        run(tmp_path / "test.yaml", kinds={"breaker": Breaker}, out=tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()
    with open_run(folder) as opened:
        assert opened.info.status == "failed"


def test_run_inside_a_running_event_loop(tmp_path: Path) -> None:
    """`run` works where a loop runs already (a notebook), `run_async` inside it; all give the same hash."""
    checked = scenario(tmp_path, "agents: [{name: a, rules: [{do: noop}]}]\n")

    async def inside() -> list[str]:
        return [run(checked).hash, (await run_async(checked)).hash]

    plain = run(checked).hash
    assert asyncio.run(inside()) == [plain, plain]
    assert anyio.run(inside, backend="trio") == [plain, plain]


def test_a_run_that_is_kept_needs_a_file(tmp_path: Path) -> None:
    """The text of the scenario is part of the record, so a run folder is made for a file only."""
    with pytest.raises(UsageError, match="needs the text of its scenario"):
        run(scenario(tmp_path, IDLER), out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": 0}, "longer than 0"),
        ({"until": -1}, "between 0"),
        ({"backend": "curio"}, "asyncio or trio"),
        ({"speed": 2}, "wall"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """A wrong option is the caller's error, before anything runs."""
    with pytest.raises(UsageError, match=message):
        run(scenario(tmp_path, IDLER), **options)


def test_an_error_inside_the_thread_reaches_the_caller(tmp_path: Path) -> None:
    """Inside a running loop, too, what ends the run is raised where `run` was called."""
    checked = scenario(tmp_path, "agents: [{name: a, kind: breaker}]\n")

    async def inside() -> None:
        run(checked, kinds={"breaker": Breaker})

    with pytest.raises(MemoryError):
        asyncio.run(inside())


def test_distribution() -> None:
    """Quantiles interpolate linearly (type 7 of Hyndman and Fan); one value has no deviation."""
    from array import array

    found = Distribution.of(array("d", [4, 1, 3, 2]))
    assert (found.n, found.mean, found.minimum, found.median, found.maximum) == (4, 2.5, 1, 2.5, 4)
    assert found.p95 == pytest.approx(3.85)
    assert found.deviation == pytest.approx(1.2909944)
    single = Distribution.of(array("d", [7]))
    assert (single.deviation, single.median, single.p95) == (None, 7, 7)


def test_spawned_agents_are_counted_and_forgotten(tmp_path: Path) -> None:
    """Agents made during the run count in the result after they have stopped, and take no room any more."""
    text = (
        "agents:\n  - {name: door, rules: [{do: {spawn: {agent: guest}}}]}\n"
        "  - {name: guest, template: true, rules: [{do: stop}]}\n"
    )
    result, _, simulation = drive(tmp_path, text)
    assert result.agents == 11
    assert result.iterations == 20
    assert result.states["stopped"] == 10
    assert list(simulation.world.agents) == ["door"]


@pytest.mark.parametrize("options", [{"mode": "ticks"}, {"clock": "real"}, {"backend": "curio"}])
def test_words_that_mean_nothing_are_refused(options, tmp_path):
    """A mode, clock or backend that does not exist is refused, not taken for another one."""
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nagents: [{name: a}]\n")
    with pytest.raises(UsageError, match=" or "):
        run(path, **options)


def test_spawning_is_all_or_nothing(tmp_path):
    """If one of several copies cannot be made, none is: no agent is left behind that nobody started."""
    path = tmp_path / "x.yaml"
    path.write_text(
        "name: x\nuntil: 5s\nagents:\n"
        "  - {name: parent, loop: {min_loop_delay: 1s}, rules: [{do: {spawn: {agent: child, count: 3}}}]}\n"
        "  - {name: child, template: true, balance: '=1 - index'}\n"
        "metrics: {every: 1s, values: {children: count('child')}}\n"
    )
    result = run(path)
    assert set(result.metrics["children"]) == {0}
    assert result.agents == 1
    assert result.refused["spawn"] > 0
    assert "must be at least 0" in (result.commonest_error or "")


@pytest.mark.parametrize(("count", "refused"), [("0", False), ('"=index"', False), ('"=-1"', True), ("100001", True)])
def test_no_copies_are_no_failure(count, refused, tmp_path):
    """A rule may spawn no agents, as when no lamb is born, and no event tells of it; fewer and too many are refused."""
    path = tmp_path / "x.yaml"
    path.write_text(
        "name: x\nuntil: 5s\nexecution: {use_autonomous_loops: false}\nagents:\n"
        f"  - {{name: parent, rules: [{{do: {{spawn: {{agent: child, count: {count}}}}}}}]}}\n"
        "  - {name: child, template: true}\n"
        "metrics: {every: 1s, values: {born: published('agent.spawned')}}\n"
    )
    result = run(path)
    assert result.agents == 1
    assert bool(result.errors) == refused
    assert set(result.metrics["born"]) == {0}
    assert not refused or "expected 0 to 100000: at most 100000 agents more than at the start" in (
        result.commonest_error or ""
    )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_leaving_a_world_whose_run_failed_shows_that_failure(backend):
    """An `async with World` that ends by a failed run raises that failure alone, and leaves no task behind."""

    async def forever() -> None:
        while True:
            await sleep(0)

    async def main() -> None:
        async with World(max_deltas=50) as world:
            world.kernel.spawn("spinner", forever())
            await world.run("1m")

    with pytest.raises(LivelockError, match="spinner"):
        anyio.run(main, backend=backend)
