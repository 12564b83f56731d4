"""Futures of a moment: forks, runs that are built again, and branches are the same."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.experiments.attribution.analysis import AttributionOptions, session
from sim.experiments.attribution.forks import FORKS, ForkedFutures
from sim.experiments.attribution.processes import RebuiltFutures
from sim.experiments.attribution.target import ExplainedOutcome
from sim.experiments.attribution.task import FutureChange, FuturesTask, RunSetup
from sim.record import open_run
from sim.runner.edited import editable, editable_topics
from sim.runner.options import ReplayOptions
from sim.runner.plain import StepMoment
from tests.sync.sync_agents import KINDS, scene, walkers

NS = 10**9
TEXT = "mean_noise + last('side') * 10 + last('heard') * 100"

forked = pytest.mark.skipif(not FORKS, reason="processes are not forked here")


def setup_of(run: Path, text: str = TEXT) -> RunSetup:
    """Return what futures of a run need."""
    return RunSetup(str(run), ReplayOptions(), ExplainedOutcome.parse(text, sim.load(run / "scenario.yaml")))


def branched(run: Path, text: str, at_ns: int, seed: int, without: tuple[int, ...] = ()) -> float | None:
    """Return the value of a target in a branch."""
    target = ExplainedOutcome.parse(text, sim.load(run / "scenario.yaml"))
    watched = target.watch()
    result = sim.branch(run, at=f"{at_ns}ns", seed=seed, without=without, record=False, begun=watched)
    return target.value(result, watched)


@pytest.mark.slow
@forked
def test_forks_are_what_branches_are(coin):
    """A future that is forked at a time has the outcome of `sim.branch` from this time with the same seed."""
    moments = [StepMoment(0), StepMoment(3 * NS), StepMoment(7 * NS)]
    futures = ForkedFutures(setup_of(coin), moments, 2)
    try:
        seeds = (11, 12)
        tasks = [FuturesTask(StepMoment(time * NS), seeds) for time in (1, 4, 5, 8)]
        found = [[one.value for one in task] for task in futures.values(tasks)]
    finally:
        futures.close()
    assert found == [[branched(coin, TEXT, task.moment.time_ns, seed) for seed in seeds] for task in tasks]
    assert len({value for task in found for value in task}) > 4


@forked
def test_forks_and_runs_that_are_built_again_are_the_same(coin):
    """Without forks, the run is built again for each future, and gives the same; also within an instant, and edited."""
    with open_run(coin) as stored:
        edits = editable(stored, tuple(editable_topics(stored)))
    tasks = [
        FuturesTask(StepMoment(0), (5, None)),
        FuturesTask(StepMoment(5 * NS, 1), (5, 6)),
        FuturesTask(StepMoment(edits[3].time_ns), (None,), FutureChange(without=(edits[3],))),
        FuturesTask(
            StepMoment(0), (None,), FutureChange(values=(("agents.listener-2.state.mood", 1),), paused=("listener-3",))
        ),
    ]
    setup = setup_of(coin, f"{TEXT} + last('mood') * 1000")
    futures, again = ForkedFutures(setup, [StepMoment(0)], 1), RebuiltFutures(setup, 1)
    try:
        forks = futures.values(tasks)
        assert forks == again.values(tasks)
        assert futures.own == again.own
        assert futures.steps(5 * NS) == again.steps(5 * NS) > 1
        assert futures.between(StepMoment(5 * NS), StepMoment(6 * NS)) == again.between(
            StepMoment(5 * NS), StepMoment(6 * NS)
        )
    finally:
        futures.close()
    assert not [one.problem for task in forks for one in task if one.problem]


@forked
def test_events_between_two_moments_have_the_numbers_of_the_record(coin):
    """What happened between two moments are the events of the record, with their numbers, and what they assigned."""
    futures = ForkedFutures(setup_of(coin), [StepMoment(0)], 1)
    try:
        passage = futures.between(StepMoment(5 * NS), StepMoment(6 * NS))
    finally:
        futures.close()
    with open_run(coin) as stored:
        rows = stored.query("SELECT id, topic FROM events WHERE time_ns = ? ORDER BY id", (5 * NS,))
    assert [(one.number, one.topic) for one in passage.events] == rows
    assert ("flipper", "side") in [(one.agent, one.key) for one in passage.assigned]


INPUTS = """
name: inputs
until: 10s
agents:
  - name: ann
    state: {heard: 0, luck: 0.0}
    rules:
      - {when: event is not None, set: {heard: "=heard + 1", luck: "=luck + uniform(0, 1)"}}
      - {do: {sleep: {event: flash}}}
  - name: bob
    loop: {min_loop_delay: 3s}
    rules: [{do: {publish: {topic: flash}}}]
metrics: {every: 1s, values: {luck: "mean('ann', 'luck')", heard: "mean('ann', 'heard')"}}
"""


@forked
def test_calls_from_outside_are_repeated(tmp_path):
    """What came from outside before a moment is repeated in its place; what came after it is not, as in a branch."""

    def begun(runner):
        sim.Control(runner.simulation.manager).publish("flash")

    (tmp_path / "inputs.yaml").write_text(INPUTS, encoding="utf-8")
    run = Path(str(sim.run(tmp_path / "inputs.yaml", out=tmp_path / "runs", begun=begun).run))
    with open_run(run) as stored:
        assert stored.query("SELECT count(*) FROM inputs") == [(1,)]
    futures = ForkedFutures(setup_of(run, "last('luck') + last('heard')"), [StepMoment(0)], 1)
    try:
        ((found,),) = futures.values([FuturesTask(StepMoment(4 * NS), (3,))])
        assert futures.own.problem is None
    finally:
        futures.close()
    assert found.value == branched(run, "last('luck') + last('heard')", 4 * NS, 3)


BROKEN = """
name: broken
until: 5s
agents:
  - {name: a, state: {n: 0}, loop: {min_loop_delay: 1s}, rules: [{set: {n: "=n + (1 if chance(0.5) else 0)"}}]}
metrics: {every: 1s, values: {n: "mean('a', 'n')"}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("fork", [pytest.param(True, marks=forked), False])
def test_what_a_future_does_not_show_is_unknown(tmp_path, fork):
    """A future that does not show the outcome is unknown, and counted; it does not count as false."""
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    made = [sim.run(tmp_path / "broken.yaml", out=tmp_path / "runs", seed=seed) for seed in range(1, 7)]
    run = next(one for one in made if max(one.metrics["n"]) > 3)
    options = AttributionOptions(fork=fork, jobs=1)
    with session(run, "first_time(n > 3) <= 5", options, condition=True) as open_:
        assert open_ is not None
        (found,) = open_.futures.values([FuturesTask(StepMoment(0), tuple(range(8)))])
    assert {one.value for one in found} == {1.0, None}
    assert {one.problem for one in found} == {None, "it does not show the outcome"}


def test_runs_that_have_no_futures_are_refused(tmp_path, coin):
    """A run that has not finished, or whose agents are at different times, is refused in one sentence."""
    (tmp_path / "wall.yaml").write_text(INPUTS.replace("until: 10s", "until: null"), encoding="utf-8")
    run = sim.run(
        tmp_path / "wall.yaml", out=tmp_path / "runs", max_wall=0.2, on_interrupt="return", clock="wall", speed=1
    )
    assert run.status == "interrupted"
    with pytest.raises(RunError, match="has not finished") as caught:
        sim.turning_point(run, "last('luck') > 1", confirm=_never)
    assert caught.value.hint == "sim resume continues it"
    with pytest.raises(UsageError, match="budget is a whole number from 100"):
        sim.turning_point(coin, "last('side') > 0", budget=3)
    with pytest.raises(UsageError, match="there is no metric 'sides'"):
        sim.why(coin, "last('sides')")


def _never(text: str, money: bool) -> bool:
    """Stand for who is asked about a cost, and must not be."""
    raise AssertionError(text)


def test_runs_at_different_times_are_refused_before_any_process(tmp_path, monkeypatch):
    """A run with `execution.sync` is refused with what helps, before a process starts or a cost is named."""
    (tmp_path / "rounds.yaml").write_text(scene(walkers(2), "{name: p}"), encoding="utf-8")
    run = sim.run(tmp_path / "rounds.yaml", out=tmp_path / "runs", overrides=["execution.sync=causal"], kinds=KINDS)
    monkeypatch.setattr("sim.experiments.attribution.analysis._futures", _never)
    with pytest.raises(UsageError, match=r"was run with execution\.sync") as caught:
        sim.turning_point(run, "actions > 1", confirm=_never, kinds=KINDS)
    assert "execution.sync=null" in (caught.value.hint or "")


FAILING = """
name: failing
until: 5s
agents:
  - name: one
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules: [{when: n == 2, set: {n: "=n // 0"}}, {set: {n: "=n + 1"}}]
metrics: {every: 1s, values: {n: "mean('one', 'n')"}}
"""


@pytest.mark.slow
@forked
def test_failures_of_agents_print_nothing(tmp_path):
    """What fails in the agents of a future is not printed: each future would print it again."""
    (tmp_path / "failing.yaml").write_text(FAILING, encoding="utf-8")
    run = sim.run(tmp_path / "failing.yaml", out=tmp_path / "runs")
    arguments = ("branch", str(run.run), "--turning-point", "last('n') > 1", "--budget", "100")
    done = subprocess.run(
        [sys.executable, "-m", "sim", *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "one" not in done.stderr.replace(str(run.run), "").split()


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@forked
def test_nothing_is_left_behind(coin):
    """When futures are closed, all their processes have ended, and the folder of the run is as before."""
    before = sorted(path.name for path in coin.iterdir())
    futures = ForkedFutures(setup_of(coin), [StepMoment(0), StepMoment(5 * NS)], 2)
    futures.values([FuturesTask(StepMoment(0), (1,))])
    group = futures._process.pid
    assert group is not None
    futures.close()
    deadline = time.monotonic() + 60
    while _lives(group):  # who has lost its parent is taken away by the system
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert sorted(path.name for path in coin.iterdir()) == before
