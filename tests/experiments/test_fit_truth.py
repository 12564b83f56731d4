"""What a fit says is true: runs without a result, targets that are not reproduced, bounds, and what is left open."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sim.base.errors import RunError, UsageError
from sim.experiments.experiment import left, missing
from sim.experiments.fit_plan import make_fit
from sim.experiments.fit_tables import FitFindings, candidates_rows, fit_to_json, found_by, intervals_table
from sim.experiments.fitting import FIRST_SEEDS, Fit, Searching
from sim.experiments.folder import begin
from sim.experiments.measure import Measured
from sim.experiments.plan import Plan
from sim.experiments.results import Results
from sim.experiments.targets import MOST_BEST, Cell, Target, distance, lack_of, mean_curve, most_by_chance
from tests.experiments.fits import (
    RATE,
    START,
    Formula,
    carried_out,
    curve,
    failed,
    grown,
    noise_of,
    placed,
    run,
    simulated,
    values_of,
)
from tests.helpers import command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario, and data of a plant with the rate 2 and the start 3."""
    return placed(tmp_path_factory.mktemp("fit"))


def plan_of(place: Path, data: Mapping[str, str] | None = None, **options: Any) -> Plan:
    """Return the plan of a fit; data is given as texts by name."""
    for name, text in (data or {}).items():
        (place / f"{name}.csv").write_text(text)
    given: dict[str, Any] = {
        "vary": (RATE, START), "targets": [place / f"{name}.csv" for name in data or ["data"]], "candidates": 30,
        "batch_size": 6, "count": 5,
    }  # fmt: skip
    return make_fit(place / "growth.yaml", **given | options)


def said_of(found: FitFindings) -> str:
    """Return all notes as one text."""
    return "\n".join(found.notes)


def fails_when(is_bad: Any) -> Formula:
    """Return a formula that fails for some candidates and seeds."""
    return lambda results, point, seed: (
        failed(point, seed) if is_bad(values_of(results, point), seed) else grown(results, point, seed)
    )


def noisy(spread: float) -> Formula:
    """Return a formula with more noise, that of the seed."""

    def formula(results: Results, point: int, seed: int) -> Measured:
        rate, start = values_of(results, point)
        return run(point, seed, curve(rate, start, noise_of(point, seed) * spread))

    return formula


def test_a_candidate_with_failed_runs_is_not_ranked(place: Path, tmp_path: Path) -> None:
    """It has no loss, is none of the best, agrees with nothing and bounds no interval; it is said how many failed."""
    plan = plan_of(place)
    first = plan.seeds[0]
    formula = fails_when(lambda values, seed: values[0] < 2.2 and seed == first + 1)
    with closing(carried_out(plan, tmp_path / "e", formula=formula)) as results:
        fit, found = Fit.of(results), found_by(results)
        bad = [one for one in fit.candidates if one.failed]
        assert bad
        for one in bad:
            assert (one.values, one.lack, one.failed) == (None, "failed", 1)
            assert one not in (*found.best, *found.agreeing, *found.nearest)
        assert found.without_loss == len(bad)
        note = said_of(found)
        assert f"{len(bad)} candidates have no loss, and no part in what is found: a run failed" in note
        assert (
            f"({len(results.problems())} of {len(fit.done)} runs failed, first candidate {bad[0].number}, seed" in note
        )
        assert "the plant was eaten" in note
        tried = {float(one.point["agents.plant.state.rate"]) for one in bad}
        assert not tried & {found.intervals[0].low, found.intervals[0].high}
        columns, rows = candidates_rows(results)
        assert sum(row[columns.index("failed")] for row in rows) == len(bad)


def test_a_failed_held_out_run_leaves_no_held_out_loss(place: Path, tmp_path: Path) -> None:
    """The loss of the other held-out runs would be too good. It is said."""
    plan = plan_of(place)
    last = plan.seeds[0] + 2 * plan.seeds[1] - 1
    formula = fails_when(lambda _, seed: seed == last)
    with closing(carried_out(plan, tmp_path / "e", formula=formula)) as results:
        found = found_by(results)
    assert [one.held_out for one in found.best] == [(None,)]
    assert "1 run with a held-out seed failed, so a held-out loss is not known" in said_of(found)


def test_a_first_batch_that_fails_is_not_blamed_on_the_data(place: Path, tmp_path: Path) -> None:
    """The error says that the runs failed, why the first one did, and how to see it."""
    plan = plan_of(place, until="6s")
    formula = fails_when(lambda _, seed: True)
    with pytest.raises(RunError) as caught:
        carried_out(plan, tmp_path / "e", formula=formula).close()
    assert str(caught.value).startswith("30 of 30 runs of the first batch failed, so no candidate has a loss; first ")
    assert "the plant was eaten" in str(caught.value)
    assert caught.value.hint is not None
    assert f"sim run {place / 'growth.yaml'} --seed {plan.seeds[0]} --set agents.plant.state.rate=" in caught.value.hint


def test_a_run_without_a_value_leaves_no_loss(place: Path, tmp_path: Path) -> None:
    """A candidate of which one run has no value is not judged by the others, which may be the better ones."""
    plan = plan_of(place)
    first = plan.seeds[0]

    def formula(results: Results, point: int, seed: int) -> Measured:
        rate, start = values_of(results, point)
        values = curve(rate, start, noise_of(point, seed))
        return run(point, seed, [*values[:4], None if rate > 3 and seed == first else values[4]])

    with closing(carried_out(plan, tmp_path / "e", formula=formula)) as results:
        fit = Fit.of(results)
        lacking = [one for one in fit.candidates if one.lack == "no value"]
        assert lacking
        assert all(one.values is None for one in lacking)
        assert "no part in what is found: a number of the data has no value in a run" in said_of(found_by(results))


@pytest.mark.parametrize(
    ("curves", "loss", "lack"),
    [({0: [1.0, 2.0]}, "rmse", None), ({0: [1.0, None]}, "rmse", "no value"),
     ({0: [1.0, 2.0], 1: [None, 2.0]}, "mae", "no value"), ({0: [-1.0, 2.0]}, "rmsle", "negative"),
     ({0: [-1.0, 2.0]}, "rmse", None), ({0: [1e200, 2.0]}, "rmse", "too large"), ({0: [1e200, 2.0]}, "mae", None),
     ({0: [-1.7e308, 2.0]}, "max", "too large")],
)  # fmt: skip
def test_what_is_no_loss(curves: dict[int, list[float | None]], loss: Any, lack: str | None) -> None:
    """A loss is a finite number, or there is none, and it is known why."""
    target = Target("t", (Cell("a", 1.7e308 if loss == "max" else 1.0, 0.0), Cell("a", 2.0, 1.0)))
    assert lack_of(target, curves, loss) == lack


def test_numbers_below_0_have_no_rmsle(place: Path, tmp_path: Path) -> None:
    """They are not taken as 0: the candidate has no loss, and if all are so, the error says which number it is."""
    plan = plan_of(place, loss="rmsle")

    def formula(results: Results, point: int, seed: int) -> Measured:
        rate, start = values_of(results, point)
        return run(point, seed, curve(rate, start - 3))

    with closing(carried_out(plan, tmp_path / "e", formula=formula)) as results:
        assert {one.lack for one in Fit.of(results).candidates} == {None, "negative"}
        assert "the loss rmsle takes no number below 0, and a run has one" in said_of(found_by(results))
    with pytest.raises(UsageError, match="height at 1s is below 0 in some runs"):
        carried_out(plan, tmp_path / "f", formula=lambda results, point, seed: run(point, seed, [-1.0] * 5)).close()


def test_a_loss_that_is_no_number_is_not_given_to_the_sampler(place: Path, tmp_path: Path) -> None:
    """A candidate whose loss is not finite counts as one without a loss."""
    formula = lambda results, point, seed: run(  # noqa: E731
        point, seed, [1e200] * 5 if values_of(results, point)[0] > 2.5 else [1.0] * 5
    )
    with closing(carried_out(plan_of(place), tmp_path / "e", formula=formula)) as results:
        found = found_by(results)
    assert found.without_loss
    assert "the loss is too large for a number" in said_of(found)


def test_a_fit_that_does_not_reproduce_its_data_says_so(place: Path, tmp_path: Path) -> None:
    """No candidate agrees then, and the intervals are those of the nearest ones; otherwise there are none of these."""
    data = {"high": "time,height\n1,100\n2,100\n3,100\n4,100\n5,100\n"}
    with closing(carried_out(plan_of(place, data), tmp_path / "e")) as results:
        found, told = found_by(results), fit_to_json(results)
    assert (found.reproduced, found.agreeing) == (False, ())
    assert found.best[0] in found.nearest
    assert "does not reproduce high: its loss is" in said_of(found)
    assert "is the 97.5 % bound for its own runs; the model or the ranges may be wrong, or the" in said_of(found)
    assert found.verdict == "none agrees with the data: the fit does not reproduce it"
    assert intervals_table(found)[0][0] == "nearest to the data"
    assert (told["reproduced"], told["agreeing"], bool(told["nearest"])) == (False, [], True)
    with closing(carried_out(plan_of(place), tmp_path / "f", formula=noisy(5))) as results:
        found = found_by(results)
    assert (found.reproduced, found.nearest) == (True, ())
    assert found.best[0] in found.agreeing
    assert intervals_table(found)[0][0] == "agree with the data"


def test_too_few_seeds_show_no_agreement(place: Path, tmp_path: Path) -> None:
    """With two seeds, how far chance goes is not known, so nothing is said to agree, or not to."""
    with closing(carried_out(plan_of(place, count=2), tmp_path / "e")) as results:
        found = found_by(results)
    assert (found.reproduced, found.agreeing, found.nearest, found.intervals) == (None, (), (), ())
    assert found.verdict == "whether they agree with the data is not known"


CONTRARY = {"low": "time,height\n1,1\n", "high": "time,height\n1,7\n"}
"""Two targets that no plant can have both."""


@pytest.mark.slow
def test_targets_that_contradict_each_other_are_not_reproduced(place: Path, tmp_path: Path) -> None:
    """Each is reproduced by some of the front, none has both, and so none agrees with the data."""
    with closing(carried_out(plan_of(place, CONTRARY), tmp_path / "e")) as results:
        found = found_by(results)
    assert (found.reproduced, found.agreeing) == (False, ())
    assert "reproduces all targets at once" in said_of(found) or "of the Pareto front reproduces" in said_of(found)


@pytest.mark.slow
def test_clearly_worse_for_one_of_several_targets_is_no_early_end(place: Path, tmp_path: Path) -> None:
    """With several targets, a candidate ends early only if one of the front is clearly better for each of them."""
    data = {"start": "time,height\n1,3\n", "later": "time,height\n1,3\n5,11\n"}
    with closing(carried_out(plan_of(place, data, candidates=36), tmp_path / "e")) as results:
        fit = Fit.of(results)
        early = [one for one in fit.candidates if one.ended_early]
        assert early
        assert {one.seeds for one in early} == {FIRST_SEEDS}
        for one in early:
            assert any(all(fit.clearly_worse(one, other, FIRST_SEEDS)) for other in fit.candidates[: one.number])
        kept = [one for one in fit.candidates if not one.ended_early]
        assert any(any(fit.clearly_worse(one, other)) for one in kept for other in fit.best)
        for one in found_by(results).agreeing:  # agreement is that with all targets
            assert not one.ended_early
    with closing(carried_out(plan_of(place, CONTRARY), tmp_path / "f")) as results:
        assert not any(one.ended_early for one in Fit.of(results).candidates[:6])


def test_three_seeds_or_fewer_have_no_early_end(place: Path, tmp_path: Path) -> None:
    """There is nothing to save, and an interval of fewer shows nothing."""
    with closing(carried_out(plan_of(place, count=FIRST_SEEDS), tmp_path / "e")) as results:
        fit = Fit.of(results)
    assert not any(one.ended_early for one in fit.candidates)
    assert {one.seeds for one in fit.candidates} == {FIRST_SEEDS}


def test_only_the_first_of_a_long_front_get_held_out_seeds(place: Path, tmp_path: Path) -> None:
    """How many of the front get them is said, and in the size of the fit, too."""
    plan = plan_of(place, CONTRARY, candidates=60, vary=(START,), count=1, held_out=2)

    def formula(results: Results, point: int, seed: int) -> Measured:
        return run(point, seed, curve(0, values_of(results, point)[0]))

    with closing(carried_out(plan, tmp_path / "e", formula=formula)) as results:
        fit, found = Fit.of(results), found_by(results)
    assert len(found.best) > MOST_BEST
    assert sum(one.held_out[0] is not None for one in fit.candidates) == MOST_BEST
    assert f"the first {MOST_BEST} of the {len(found.best)} candidates of the Pareto front get held-out" in said_of(
        found
    )
    assert plan.fit is not None
    assert plan.fit.most_trials(1) == 60 + MOST_BEST * 2


@pytest.mark.parametrize(("data", "count"), [(None, 5), (None, 2), (CONTRARY, 5), (CONTRARY, 1)])
def test_the_number_of_runs_that_are_left_is_never_too_small(
    place: Path, tmp_path: Path, data: dict[str, str] | None, count: int
) -> None:
    """Wherever a fit is, there are at most so many runs to come as it says; at its end there are none."""
    plan, told = plan_of(place, data, count=count, candidates=24), []
    with closing(begin(plan, tmp_path / "e")) as results:
        search = Searching(results)
        while missing(results) or search.advance():
            told.append((left(results), len(results.done())))
            simulated(results, missing(results)[:7])
        whole = len(results.done())
        assert left(results) == 0
    assert all(most >= whole - done for most, done in told)
    assert plan.fit is not None
    assert told[0][0] == plan.fit.most_trials(count)


def test_an_interrupted_fit_judges_whole_candidates_alone(place: Path, tmp_path: Path) -> None:
    """A candidate of which some seeds are missing is none of the best, agrees with nothing and bounds nothing."""
    with closing(carried_out(plan_of(place), tmp_path / "e", batches=2)) as results:
        simulated(results, [(len(results.plan.points) - 1, results.plan.seeds[0])])
        fit = Fit.of(results)
        partial = fit.candidates[-1]
        assert partial.seeds == 1
        assert partial not in fit.judged
        found = found_by(results)
    assert partial not in (*found.best, *found.agreeing, *found.nearest)


def test_samples_that_were_not_kept_are_said(place: Path, tmp_path: Path) -> None:
    """Of long runs not all samples are kept, so that an earlier one may count. Later runs change no earlier loss."""
    plan = plan_of(place)

    def formula(results: Results, point: int, seed: int) -> Measured:
        rate, start = values_of(results, point)
        return run(point, seed, curve(rate, start, noise_of(point, seed)), step=1 if point < 12 else 4)

    with closing(carried_out(plan, tmp_path / "e", formula=formula)) as results:
        fit, found = Fit.of(results), found_by(results)
    with closing(carried_out(plan, tmp_path / "f")) as results:
        assert Fit.of(results).candidates == fit.candidates
        assert "sample is kept" not in said_of(found_by(results))
    assert "trials every 4th sample is kept, at most. At a time of the data, the last one before it" in said_of(found)


@pytest.mark.slow
def test_the_bound_by_chance_is_what_it_is_called() -> None:
    """Of losses of many numbers, 97.5 % are below the bound from six other runs; of single numbers, a little less."""
    from numpy.random import default_rng

    def share(cells: int) -> float:
        random, below, count = default_rng(1), 0, 2000
        target = Target("t", tuple(Cell("a", 0.0, float(place)) for place in range(cells)))
        for _ in range(count):
            values = random.normal(0, 1, (7, cells)).tolist()
            most = most_by_chance(target, dict(enumerate(values[:6])), "rmse")
            own = distance(target, mean_curve(values[:6]), "rmse", values[6])
            assert most is not None
            assert own is not None
            below += own <= most
        return below / count

    assert 0.965 < share(20) < 0.985
    assert 0.92 < share(1) < 0.965


def test_few_candidates_that_agree_say_nothing_about_the_rest(place: Path, tmp_path: Path) -> None:
    """Their intervals are as wide as the gaps, so it is said that more candidates are needed, and nothing else."""
    with closing(carried_out(plan_of(place, candidates=8, batch_size=4), tmp_path / "e", formula=noisy(5))) as results:
        found = found_by(results)
    assert 0 < len(found.agreeing) < 8
    assert "so intervals are as wide as the gaps between candidates: try more candidates" in said_of(found)
    assert "says little" not in said_of(found)


LINKED = "agents.plant.state.rate,agents.plant.state.start=[2.0,3.0],[2.0,8.0],[5.0,3.0],[5.0,0.0]"


def test_values_of_keys_that_change_together_are_lists(place: Path, tmp_path: Path) -> None:
    """What agrees is named by all keys: combinations with the same first value are other ones."""
    plan = plan_of(place, vary=(LINKED,), candidates=12, batch_size=4)
    with closing(carried_out(plan, tmp_path / "e")) as results:
        found = found_by(results)
    (value,) = found.intervals
    assert (value.values, value.of, value.width) == (("[2.0,3.0]",), 4, 0.25)
    assert intervals_table(found)[1] == [["state.rate, state.start", None, None, "[2.0,3.0]", "25%"]]


@pytest.mark.parametrize(("spread", "said"), [(1, False), (40, True)])
def test_one_value_of_two_is_a_decision(place: Path, tmp_path: Path, spread: int, said: bool) -> None:
    """Half of a list of two is one value: the data says little only if several values agree with it."""
    plan = plan_of(place, vary=("agents.plant.state.rate=2.0,5.0", "agents.plant.state.start=2.9..3.1"))
    with closing(carried_out(plan, tmp_path / "e", formula=noisy(spread))) as results:
        found = found_by(results)
    assert (len(found.intervals[0].values) == 2) == said
    assert ("this data says little about state.rate: 2 of its 2 values agree with it" in said_of(found)) == said


def test_wide_intervals_say_how_far_they_reach(place: Path, tmp_path: Path) -> None:
    """The width is that of the interval, between whose ends not all values have to agree."""
    with closing(carried_out(plan_of(place), tmp_path / "e", formula=noisy(30))) as results:
        found = found_by(results)
    wide = [one for one in found.intervals if one.width >= 0.5]
    assert wide
    for one in wide:
        said = f"this data says little about {one.key}: the values that agree with it reach over {one.width:.0%} of its"
        assert said in said_of(found)


def test_the_command_says_what_is_not_reproduced(place: Path, tmp_path: Path) -> None:
    """Of a fit by the command line, too, a target far from all runs is said not to be reproduced."""
    (tmp_path / "far.csv").write_text("time,height\n1,100\n5,100\n")
    given = ("fit", place / "growth.yaml", "--vary", RATE, "--target", tmp_path / "far.csv", "--candidates", 4)
    code, out, err = command(*given, "--batch-size", 4, "--seeds", 3, "--jobs", 1, "--to", tmp_path / "e")
    assert code == 0, err
    assert "none agrees with the data: the fit does not reproduce it" in out
    assert "note: the best candidate does not reproduce far" in out
    assert "none agrees with the data" in (tmp_path / "e" / "results.html").read_text()
    code, out, _ = command("fit", "--resume", tmp_path / "e", "--json")
    assert json.loads(out)["fit"]["reproduced"] is False


STUCK = ("--set", "agents.plant.loop.min_loop_delay=0", "--set", "execution.max_deltas=50")
"""What makes each run fail: its time is stuck."""


def test_runs_that_fail_are_said_on_the_command_line(place: Path, tmp_path: Path) -> None:
    """If all runs of the first batch fail, one sentence says so, with the first reason and a command that shows it."""
    given = ("fit", place / "growth.yaml", "--vary", RATE, "--target", place / "data.csv", "--candidates", 4, *STUCK)
    code, _, err = command(*given, "--batch-size", 2, "--seeds", 2, "--jobs", 1, "--to", tmp_path / "e")
    assert code != 0
    error, hint = err.splitlines()[-2:]
    assert error.startswith(
        "sim: error: 4 of 4 runs of the first batch failed, so no candidate has a loss; first seed "
    )
    assert "simulated time is stuck" in error
    words = hint.removeprefix("hint: see why: sim ").split()
    code, _, err = command(*words, "--no-record")
    assert code != 0
    assert "simulated time is stuck" in err
