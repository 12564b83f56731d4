"""Metrics over time: all samples of all trials, means over seeds with bands, and paired differences of arms."""

import contextlib
from pathlib import Path

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.experiments.estimate import Estimate
from sim.experiments.plan import make_sweep
from sim.experiments.results import Results
from sim.experiments.samples import MOST, Samples
from sim.experiments.series import Band, bands

SCENARIO = """
name: walk
until: 60s
metrics: {every: 20s, values: {x: "mean('walker', 'x')", sure: "now", rare: "mean('late', 'x')"}}
stop: {when: "mean('walker', 'x') > 6.5"}
agents:
  - name: walker
    state: {x: 0.0, step: 1.0}
    loop: {min_loop_delay: 10s}
    rules: [{set: {x: "=x + step * uniform(0.5, 1.5)"}}]
  - {name: late, template: true, state: {x: 1.0}}
"""


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario with a metric that has no value, in runs of which some stop early."""
    file = tmp_path_factory.mktemp("walk") / "walk.yaml"
    file.write_text(SCENARIO)
    return file


@pytest.fixture(scope="module")
def swept(walk: Path) -> sim.Experiment:
    """Two combinations with five seeds."""
    return sim.sweep(walk, vary={"agents.walker.state.step": [0.5, 2]}, seeds=5, jobs=1, out=walk.parent / "swept")


def test_each_sample_of_each_trial_is_kept(walk: Path, swept: sim.Experiment) -> None:
    """They are those of a run with the same values and seed. What had no value has none."""
    with contextlib.closing(Results(swept.folder)) as results:
        found = {(point, seed): samples for point, seed, samples in results.series()}
    assert len(found) == 10
    alone = sim.run(walk, seed=3, overrides=["agents.walker.state.step=2"]).metrics
    assert found[1, 3].times == tuple(alone["time"])
    assert found[1, 3].values["x"] == tuple(alone["x"])
    assert set(found[1, 3].values["rare"]) == {None}
    rows = swept.frame("series", as_="pandas")
    assert list(rows.columns) == ["agents.walker.state.step", "seed", "time", "rare", "sure", "x"]
    assert len(rows) == sum(len(one.times) for one in found.values())


def test_means_over_seeds_say_from_how_many(swept: sim.Experiment) -> None:
    """Runs that stopped early are no part of later means, and a time that one run alone has is left out."""
    rows = swept.frame("series_estimates", as_="pandas")
    own = rows[(rows["metric"] == "sure") & (rows["agents.walker.state.step"] == 0.5)]
    assert list(own["time"]) == list(own["mean"]) == [0, 20, 40, 60]
    assert set(own["seeds"]) == {5}
    fast = rows[(rows["metric"] == "x") & (rows["agents.walker.state.step"] == 2)]
    assert fast["seeds"].is_monotonic_decreasing
    assert 2 <= fast["seeds"].min() < 5
    assert "rare" not in set(rows["metric"])


def test_bands_are_intervals_of_student_at_each_time() -> None:
    """The estimate of a time is that of its values; values that are missing do not count as 0."""
    plan = make_sweep(Path("scenarios/ecology.yaml"), count=1)
    trials = {0: {1: Samples((0.0, 1.0), {"m": (1.0, None)}), 2: Samples((0.0, 1.0), {"m": (3.0, 5.0)}),
                  3: Samples((0.0, 1.0, 1.5), {"m": (5.0, 7.0, 9.0)})}}  # fmt: skip
    (band,) = bands(plan, trials, ["m"])
    assert band.moments == ((0.0, Estimate.of([1.0, 3.0, 5.0])), (1.0, Estimate.of([5.0, 7.0])))
    assert len(band.drawn(2).moments) == 2
    alone = Band(0, "m", (*band.moments, (2.0, Estimate(1, 9.0, None))))
    assert alone.drawn().moments == band.moments  # charts leave out what fewer than half of the seeds have


def test_the_page_and_plots_show_them(swept: sim.Experiment) -> None:
    """The page has a section with bands, which says over how many seeds means are; `plot` returns the same charts."""
    page = swept.page.read_text()
    section = page.partition("Over time")[2].partition("<section>")[0]
    assert "polygon" in section
    assert "to 5 seeds" in section
    assert swept.plot("x", over="time").svg.count("<polygon") == 2
    with pytest.raises(UsageError, match="no metric 'y' was sampled") as refused:
        swept.plot("y", over="time")
    assert "there are" in str(refused.value.hint)


def test_arms_are_compared_over_time(walk: Path, tmp_path: Path) -> None:
    """Differences are taken seed by seed at each time; before the arms begin there are none."""
    run = sim.run(walk, out=tmp_path / "runs", overrides=["stop=null"])
    arms = {"fast": {"agents.walker.state.step": 2.0}}
    found = sim.arms(run, at="20s", arms=arms, seeds=3, jobs=1, out=tmp_path / "arms")
    rows = found.frame("series_differences", as_="pandas")
    own = rows[rows["metric"] == "x"].set_index("time")
    assert own.loc[20.0, "mean"] == 0
    assert own.loc[60.0, "mean"] > 1
    (x,) = [one for one in found.differences if one.outcome == "x"]
    assert own.loc[60.0, "mean"] == pytest.approx(x.difference.mean)
    assert found.plot_differences("x", over="time").svg.count('stroke-opacity="0.5"') == 3  # the seeds of one arm


def test_long_series_keep_times_in_common() -> None:
    """Of more samples than are kept, each second, fourth, ... one is, with the last; that is said."""
    found = Samples.of({"time": list(range(3 * MOST)), "m": [float("nan")] * (3 * MOST)})
    assert (found.step, len(found.times), found.times[-1]) == (4, 3 * MOST // 4 + 1, 3 * MOST - 1)
    assert set(found.values["m"]) == {None}
    other = Samples.of({"time": list(range(MOST + 1)), "m": [1] * (MOST + 1)})
    assert len(set(found.times) & set(other.times)) > MOST / 4


def test_a_changed_sample_is_noticed(swept: sim.Experiment, tmp_path: Path) -> None:
    """Samples are under the seal of their trial."""
    import shutil
    import sqlite3

    shutil.copy(swept.folder / "results.db", tmp_path / "results.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "results.db")) as database, database:
        database.execute("UPDATE series SET samples = '[1, 2, 3, 4]' WHERE name = 'x' AND seed = 2")
    with pytest.raises(RunError, match="seed 2 was changed"):
        Results(tmp_path)
