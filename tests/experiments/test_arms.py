"""Arms: how they are given, what is compared, and whom they reach."""

from pathlib import Path

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.experiments.arms import BASELINE, arms_of, check_past, differences_of, make_arms, reach_of
from sim.experiments.estimate import Estimate, least_effect
from sim.experiments.plan import Plan
from sim.experiments.reach import Trace, TraceRecorder, reached
from sim.kernel import sleep
from sim.record import HashRecorder
from sim.world import World

SCENARIO = """
name: bees
until: 10s
agents:
  - name: bee
    count: 3
    state: {power: 0.5, found: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: chance(power)
        do: {publish: {topic: flower}}
        set: {found: "=found + 1"}
      - do: noop
metrics: {every: 5s, values: {found: "total('bee', 'found')"}}
"""


@pytest.fixture
def bees(tmp_path: Path) -> Path:
    """A recorded run."""
    (tmp_path / "bees.yaml").write_text(SCENARIO)
    return Path(sim.run(tmp_path / "bees.yaml", out=tmp_path / "runs", seed=4).run or "")


def test_arms_are_given_as_texts() -> None:
    """An arm that is named again changes more, and one without a change changes nothing."""
    assert arms_of(["low:a.b=1", "same:", "low:c=x:y"]) == {"low": ("a.b=1", "c=x:y"), "same": ()}
    with pytest.raises(UsageError, match="does not say what an arm changes"):
        arms_of(["low"])


def test_the_plan_of_arms(bees: Path) -> None:
    """The baseline comes first, the seeds begin with that of the run, and a plan is the same after writing."""
    plan = make_arms(bees, at="0", arms={"low": ["agents.bee.state.power=0.2"], "same": []}, count=3)
    assert plan.arms == (BASELINE, "low", "same")
    assert plan.points == ({}, {"agents.bee.state.power": "0.2"}, {})
    assert plan.seeds == (4, 3)
    assert Plan.from_json(sim.kernel.codec.encode(plan.to_json()).decode()) == plan
    assert plan.label(1) == "low"


@pytest.mark.parametrize(
    ("arms", "at", "said"),
    [
        ({}, "0", "1 to 100 arms"),
        ({"a b": []}, "0", "is not the name of an arm"),
        ({BASELINE: ["until=5s"]}, "0", "the baseline changes nothing"),
        ({"x": ["until=5s", "until=6s"]}, "0", "changes a key twice"),
        ({"x": ["agents.bee.count=5"]}, "2s", "cannot change at 2s"),
        ({"x": []}, "11s", "ends at 10s, before 11s"),
        ({"x": ["agents.be.count=5"]}, "0", "the arm x: .*be"),
        ({"x": ["agents.bee.count=-1"]}, "0", "the arm x:1:.*at least 0"),
        ({"x": []}, "10s", "the arm x: it would end at 10s, and begin at 10s"),
        ({"x": ["seed=5"]}, "0", "all have the same seeds"),
    ],
)
def test_arms_that_make_no_sense(bees: Path, arms: dict[str, list[str]], at: str, said: str) -> None:
    """One sentence says what is wrong, before any run."""
    with pytest.raises(UsageError, match=said):
        make_arms(bees, at=at, arms=arms)


def test_arms_of_a_run_that_other_code_recorded(bees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is one sentence before the first run, not a failure of each trial; also when a plan is carried out again."""
    plan = make_arms(bees, at="0", arms={"x": []})
    monkeypatch.setattr("sim.experiments.arms.code_hashes", lambda _: {"sim": "0" * 64})
    for check in (lambda: make_arms(bees, at="0", arms={"x": []}), lambda: check_past(plan)):
        with pytest.raises(RunError, match=r"the code has changed since .* was recorded: sim"):
            check()


def test_differences_are_taken_seed_by_seed(bees: Path) -> None:
    """Seeds that only one side has are left out; the interval is that of the differences."""
    plan = make_arms(bees, at="0", arms={"x": []}, count=3)
    values = {0: {"y": {1: 10.0, 2: 20.0, 3: 30.0}}, 1: {"y": {1: 11.0, 2: 21.5, 4: 9.0}}}
    (found,) = differences_of(plan, values)
    assert found.difference == Estimate.of([1.0, 1.5])
    assert found.baseline == Estimate.of([10.0, 20.0])
    assert found.changed == 2
    assert found.least_effect == least_effect([1.0, 1.5])


def test_an_agent_is_reached_when_its_events_begin_to_differ() -> None:
    """The first difference counts: another event, an event at another time, or one that only one side has."""
    baseline = {"a": [(1, b"x"), (2, b"y")], "b": [(1, b"x")], "c": [(5, b"z")], "d": [(9, b"q")]}
    arm = {"a": [(1, b"x"), (2, b"y")], "b": [(1, b"x"), (7, b"n")], "c": [(3, b"z")], "e": [(4, b"q")]}
    assert list(reached(baseline, arm, (1.0, 1.0)).items()) == [("c", 3e-9), ("e", 4e-9), ("b", 7e-9), ("d", 9e-9)]


def test_what_follows_the_end_of_one_run_reaches_nobody() -> None:
    """After one run has ended, agents of the other go on; that is no difference between what happened to them."""
    baseline = {"a": [(1_000_000_000, b"x"), (4_000_000_000, b"end")], "b": [(2_000_000_000, b"y")]}
    arm = {"a": [(1_000_000_000, b"x"), (3_000_000_000, b"end")], "b": []}
    assert reached(baseline, arm, (4.0, 3.0)) == {"b": 2.0}
    assert reached(baseline, arm, (4.0, 4.0)) == {"b": 2.0, "a": 3.0}


def test_the_place_of_an_event_in_the_order_reaches_nobody() -> None:
    """Only time, topic and data of an event count; those of samples, interventions and surveys are of no agent."""
    traces = []
    for counter in (1, 2):
        recorder = TraceRecorder(HashRecorder())
        recorder.event((5, counter, 0, 16, counter, "a", "x.y", {"n": 1}, None))
        recorder.event((6, 0, 0, 1, counter, "scenario", "metric.sample", {"n": counter}, None))
        recorder.event((6, 0, 0, 18, counter, "intervention", "intervention.applied", {"n": counter}, None))
        recorder.event((6, 0, 0, 19, counter, "survey:a", "survey.answer", {"n": counter}, None))
        traces.append(recorder.trace)
    assert reached(traces[0], traces[1], (1.0, 1.0)) == {}


def worked(before: int, ids: tuple[int, ...] = (0, 1, 0), text: str = "dig") -> Trace:
    """Return the trace of a world in which an agent makes tasks, after others have made some, and changes them."""
    world = World(1, recorder=(recorder := TraceRecorder(HashRecorder())))

    async def other() -> None:
        for _ in range(before):
            world.tasks.create("other", "wait")

    async def agent() -> None:
        await sleep(1)
        made = [world.tasks.create("agent", text).id for _ in range(2)]
        for place in ids:
            world.event_bus.tell(
                "work.done", {"task": made[place], "seen": [{"depends_on": made}], "says": f"#{made[0]}"}
            )
            world.event_bus.publish("work.told", {"text": f'{{"observation":{{"id":{made[place]}}}}}'})

    world.spawn("other", other())
    world.spawn("agent", agent())
    world.kernel.run()
    return {"agent": recorder.trace["agent"]}


def test_numbers_that_a_run_gives_reach_nobody() -> None:
    """A task that another agent has added gives later tasks other numbers; which of its tasks are the same counts, and
    so does all else. The events are those of a real world: its tasks and its bus encode what they record.
    """
    assert reached(worked(0), worked(5), (9.0, 9.0)) == {}
    assert reached(worked(0), worked(5, (0, 1, 1)), (9.0, 9.0)) == {"agent": 1.0}
    assert reached(worked(0), worked(5, text="rest"), (9.0, 9.0)) == {"agent": 1.0}


def test_the_agents_that_an_arm_reached(bees: Path) -> None:
    """Those that are reached in most seeds come first, and seeds in which none is count as none."""
    plan = make_arms(bees, at="0", arms={"x": []}, count=3)
    rows = [(1, 7, "a", 5.0), (1, 7, "b", 1.0), (1, 8, "a", 3.0)]
    (arm,) = reach_of(plan, {0: 3, 1: 3}, rows)
    assert arm.count == Estimate.of([2.0, 1.0, 0.0])
    assert [(one.agent, one.times, one.median) for one in arm.agents] == [("a", (3.0, 5.0), 4.0), ("b", (1.0,), 1.0)]
