import pytest

from sim.base.errors import ScenarioError, UsageError
from sim.experiments.bench.job import _Setting
from sim.experiments.bench.plan import make_bench
from sim.experiments.modes import modes_of
from sim.experiments.plan import Plan, TrialHosting, TrialJob, jobs_of
from sim.experiments.points import overrides_of
from tests.bench.conftest import SCENARIO


@pytest.fixture
def file(tmp_path):
    """A small scenario with seed 1."""
    path = tmp_path / "made.yaml"
    path.write_text(SCENARIO)
    return path


def test_what_is_run_unless_said_otherwise(file):
    """Four modes, the scenario's own seed and the four after it, and nothing is varied."""
    plan = make_bench(file)
    assert plan.bench is not None
    assert plan.bench.modes == ("tick-sequential", "tick-parallel", "autonomous", "causal")
    assert list(plan.some_seeds(plan.seeds[1])) == [1, 2, 3, 4, 5]
    assert plan.points == tuple({"mode": mode} for mode in plan.bench.modes)
    assert (len(jobs(plan)), plan.bench.named, plan.answers, plan.mode) == (5, False, "fresh", None)


def jobs(plan: Plan) -> list[TrialJob]:
    """Return all jobs of a plan."""
    seeds = plan.some_seeds(plan.seeds[1])
    wanted = [(point, seed) for seed in seeds for point in range(len(plan.points))]
    return list(jobs_of(plan, wanted, TrialHosting(), by_seed=False))


def test_varied_values_are_combined(file):
    """Each value of a key is tried with each of the others, and becomes a change of the scenario."""
    plan = make_bench(file, vary=["agents.a.count=1, 5", "until=1h,2h"], overrides=["seed=9"], count=1)
    made = jobs(plan)
    assert [dict(job.points[number * 4]) for number, job in enumerate(made)] == [
        {"agents.a.count": "1", "until": "1h", "mode": "tick-sequential"},
        {"agents.a.count": "1", "until": "2h", "mode": "tick-sequential"},
        {"agents.a.count": "5", "until": "1h", "mode": "tick-sequential"},
        {"agents.a.count": "5", "until": "2h", "mode": "tick-sequential"},
    ]
    assert overrides_of(made[3].points[12]) == ("agents.a.count=5", "until=2h")
    assert made[3].plan.overrides == ("seed=9",)
    assert {job.seed for job in made} == {9}


def test_each_seed_begins_with_another_mode(file):
    """So that a machine that gets slower, or a first run that is slow, favours no mode."""
    first = ["tick-sequential", "tick-parallel", "autonomous", "causal", "tick-sequential"]
    for options in ({"count": 5}, {"seeds": [20, 7, 3, 9, 11]}):
        orders = [[point["mode"] for point in job.points.values()] for job in jobs(make_bench(file, **options))]
        assert [order[0] for order in orders] == first
        assert {frozenset(order) for order in orders} == {frozenset(first)}


def test_a_mode_is_a_change_of_the_scenario(file):
    """An ordinary scenario changes its mode and concurrency; one with two axes of time only who may go on."""
    ordinary = {mode.name: mode.settings(synchronised=False) for mode in modes_of(())}
    both = {mode.name: mode.settings(synchronised=True) for mode in modes_of(())}
    assert ordinary == {
        "tick-sequential": ("tick", ("execution.tick.concurrency=sequential",)),
        "tick-parallel": ("tick", ("execution.tick.concurrency=parallel",)),
        "autonomous": ("autonomous", ()),
        "causal": ("tick", ("execution.sync=causal",)),
    }
    assert both == {
        "tick-sequential": ("tick", ("execution.sync=sequential",)),
        "tick-parallel": ("tick", ("execution.sync=barrier",)),
        "autonomous": ("tick", ("execution.sync=free",)),
        "causal": ("tick", ("execution.sync=causal",)),
    }


def test_the_kind_of_scenario_is_that_of_the_combination(file):
    """A varied value may turn the second axis of time on."""
    for off in ("null", "~"):
        plan = make_bench(file, vary=[f"execution.sync={off},barrier"], count=1)
        assert [_Setting.of(job).synchronised for job in jobs(plan)] == [False, True]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"modes": ["fast"]}, "unknown mode 'fast'"),
        ({"seeds": [1, 1]}, "given twice"),
        ({"seeds": [1], "count": 2}, "number of seeds"),
        ({"vary": ["until"]}, "does not say how to vary"),
        ({"vary": ["=1,2"]}, "does not say how to vary"),
        ({"vary": ["until="]}, "does not say how to vary"),
        ({"vary": ["until=1h,1h"]}, "twice"),
        ({"vary": ["until=1h,,2h"]}, "an empty one"),
        ({"vary": ["until=1h", "until=2h"]}, "varied twice"),
        ({"vary": ["seed=1,2"]}, "seed cannot be varied"),
        ({"vary": ["mode=tick,autonomous"]}, "the mode is no key of a scenario"),
        ({"seeds": [1, 2**63]}, "one that is too large"),
        ({"seeds": [1, 2], "first_seed": 1}, "and so are a first seed"),
        ({"vary": ["execution.sync=~,barrier,causal"]}, "each mode sets its own"),
        ({"vary": ["execution.tick.concurrency=sequential,parallel"]}, "each mode sets it"),
        ({"overrides": ["agents.a.kind=villagr"]}, "no kind of agent 'villagr'"),
        ({"overrides": ["agents.a.kind=villager"]}, "agents.a are villagers, but there is no town"),
        ({"overrides": ["agents.a.kind=cows:Cow"]}, "is not allowed"),
        ({"overrides": ["agents.a.kind=cows:Cow"], "allow": ["cows"]}, "cannot be imported"),
        ({"overrides": ["agents.a.kind=cow"]}, "no kind of agent 'cow'"),
        ({"count": 2501}, "10,004 runs"),
        ({"vary": ["agents.nobody.count=1,2"]}, "there is no 'nobody'"),
        ({"overrides": [f"seed={2**63 - 1}"]}, "a seed is at most"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(file, options, words):
    """The mistake is named in a sentence."""
    with pytest.raises(UsageError, match=words):
        make_bench(file, **options)


def test_a_wrong_varied_value_is_a_mistake_in_the_scenario(file):
    """All combinations are checked beforehand."""
    with pytest.raises(ScenarioError, match=r"--vary:1:16: agents\[0\].count: expected a whole number"):
        make_bench(file, vary=["agents.a.count=1,many"])
