"""Fits: candidates that follow from the plan and the results, seeds in common, and what the data leaves open."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.experiments.estimate import Estimate
from sim.experiments.experiment import left, missing
from sim.experiments.fit_plan import make_fit
from sim.experiments.fit_tables import found_by
from sim.experiments.fitting import FIRST_SEEDS, Fit, Searching
from sim.experiments.plan import Plan
from sim.experiments.results import Results
from sim.experiments.targets import Cell, Target, distance, loss_of, most_by_chance, pseudo_values, read_target
from tests.experiments.fits import RATE, START, carried_out, placed, simulated
from tests.helpers import command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario, and data of a plant with the rate 2 and the start 3."""
    return placed(tmp_path_factory.mktemp("fit"))


@pytest.fixture(scope="module")
def planned(place: Path) -> Plan:
    """The plan of a fit with two keys."""
    return make_fit(
        place / "growth.yaml", vary=(RATE, START), targets=[place / "data.csv"], candidates=30, batch_size=6, count=5
    )


def test_a_target_over_time_or_at_the_end(tmp_path: Path) -> None:
    """A CSV file has a column `time` (seconds, durations) and metrics, or a row of outcomes; empty cells are none."""
    path = tmp_path / "ill.csv"
    path.write_text("time,I,R\n0,1,0\n1d,4,\n36h,6,2\n")
    found = read_target(path)
    assert [(cell.name, cell.seconds, cell.value) for cell in found.cells] == [
        ("I", 0.0, 1.0), ("R", 0.0, 0.0), ("I", 86400.0, 4.0), ("I", 129600.0, 6.0), ("R", 129600.0, 2.0)
    ]  # fmt: skip
    assert (found.name, found.empty) == ("ill", 1)
    path.write_text('"max(I, from=1d)",R\n12,30\n')
    assert [(cell.name, cell.seconds) for cell in read_target(path).cells] == [("max(I, from=1d)", None), ("R", None)]


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "has no numbers"), ("time\n1\n", "has no numbers"), ("time,I\n1,\n", "has no numbers"),
     ("time,\n1,2\n", "a column has no name"),
     ("I\n1\n2\n", "has 2 rows, and no column `time`"), ("time,I\nsoon,1\n", "line 2: 'soon' is no simulated time"),
     ("time,I\n-1,1\n", "'-1' is no simulated time"), ("time,I\n1,x\n", "line 2: I is 'x', which is no number"),
     ("time,I\n1,nan\n", "which is no number"), ("time,I\n1,2,3\n", "line 2: there are 3 cells, and 2 columns"),
     ("time,I,I\n1,2,3\n", "the column 'I' is in the first line twice"),
     ("time,I\n60,2\n1m,3\n", "line 3: the time 1m is that of line 2")],
)  # fmt: skip
def test_data_that_makes_no_sense_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """One sentence says the file, the line and what was expected."""
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"data\.csv") as caught:
        read_target(path)
    assert said in str(caught.value)
    assert caught.value.hint


def test_losses_and_their_intervals() -> None:
    """The loss is that of the mean over seeds; its interval is that of the jackknife; chance has a bound."""
    target = Target("t", (Cell("a", 0.0, 0.0), Cell("a", 3.0, 1.0)))
    assert distance(target, [3.0, 7.0], "rmse") == pytest.approx(12.5**0.5)
    assert distance(target, [3.0, 7.0], "mae") == 3.5
    assert distance(target, [3.0, 7.0], "max") == 4
    assert distance(target, [0.0, None], "rmse") is None
    assert distance(Target("t", (Cell("a", 0.0),)), [1.718281828], "rmsle") == pytest.approx(1)
    two = Target("t", (Cell("a", 0.0, 0.0), Cell("a", 2.0, 1.0), Cell("b", 0.0, 0.0), Cell("b", 200.0, 1.0)))
    assert distance(two, [1.0, 3.0, 100.0, 300.0], "mae") == 1  # each column by its spread
    curves = {seed: [shift, 3.0 + shift] for seed, shift in enumerate((-1.0, 0.0, 1.0, 4.0))}
    told = loss_of(target, curves, "rmse")
    assert told is not None
    assert told.mean == pytest.approx(1)
    single = Estimate.of([-1.0, 0.0, 1.0, 4.0])
    assert single is not None
    assert told.half == pytest.approx(single.half)  # above 0, this loss is the mean of the shifts
    assert sum(pseudo_values(target, curves, "rmse").values()) / 4 == pytest.approx(1)
    assert pseudo_values(target, {0: curves[0]}, "rmse") == {}
    most = most_by_chance(target, curves, "rmse")
    assert most is not None
    assert most > 4


@pytest.mark.parametrize(
    ("given", "said"),
    [({"targets": []}, "a fit needs data"), ({"vary": ()}, "something to vary"), ({"candidates": 1}, "2 candidates"),
     ({"vary": (f"{RATE}:4",)}, "a fit takes any value in the range of agents.plant.state.rate"),
     ({"sampler": "cmaes", "vary": (RATE,)}, "two keys or more"),
     ({"sampler": "cmaes", "vary": (RATE, "agents.plant.count=1,2")}, "agents.plant.count has a list"),
     ({"sampler": "cmaes", "more": "end.csv"}, "takes one target"),
     ({"until": "3s"}, "data goes to 5s, and runs end at 3s"), ({"outcomes": ("height",)}, "the outcomes of its data"),
     ({"candidates": 100_000, "count": 10}, "1,000,010 trials"),
     ({"text": "time,width\n1,2\n"}, "'width' over time, which is no metric"),
     ({"text": "width\n2\n"}, "no outcome 'width'"), ({"design": "sobol"}, "a fit has no design"),
     ({"second_order": True}, "a fit has no design"), ({"loss": "mse"}, "there is no loss 'mse'"),
     ({"sampler": "random"}, "there is no sampler 'random'"), ({"held_out": -1}, "no fewer than 0 seeds"),
     ({"text": "time,height\n1,-2\n", "loss": "rmsle"}, "the loss rmsle takes no number below 0")],
)  # fmt: skip
def test_fits_that_do_not_fit(place: Path, tmp_path: Path, given: dict[str, Any], said: str) -> None:
    """What cannot be fitted is refused before anything runs, and it is said why."""
    targets = [place / "data.csv"]
    if "more" in given:
        targets.append(place / given.pop("more"))
    if "text" in given:
        (tmp_path / "other.csv").write_text(given.pop("text"))
        targets = [tmp_path / "other.csv"]
    with pytest.raises(UsageError) as caught:
        make_fit(place / "growth.yaml", **{"vary": (RATE, START), "targets": targets} | given)
    assert said in str(caught.value)


@pytest.fixture(scope="module")
def fitted(planned: Plan, place: Path) -> Path:
    """The folder of a whole fit."""
    with closing(carried_out(planned, place / "whole")) as results:
        return results.folder


def test_a_fit_finds_the_values_of_the_data(fitted: Path) -> None:
    """The best candidate is near, the intervals have the true values, and the held-out seeds had no part."""
    with closing(Results(fitted)) as results:
        found, fit = found_by(results), Fit.of(results)
        assert left(results) == 0
        best = found.best[0]
        for value, true in zip(found.intervals, (2.0, 3.0), strict=True):
            assert value.low is not None
            assert value.high is not None
            assert value.low <= true <= value.high
        assert [one.held_out[0] is not None for one in fit.candidates].count(True) == 1
        assert best.held_out[0] is not None
        assert best.held_out[0].n == 5
        assert {seed for point, seed in results.done() if point != best.number} == set(range(results.plan.seeds[0], 5))


def test_clearly_worse_candidates_end_early(fitted: Path) -> None:
    """They have the first seeds alone, are none of the best, and each of them has a larger loss than the best then."""
    with closing(Results(fitted)) as results:
        fit = Fit.of(results)
        early = [one for one in fit.candidates if one.ended_early]
        assert early
        assert all(one.number >= fit.plan.fit.batch for one in early if fit.plan.fit)
        assert {one.seeds for one in early} == {FIRST_SEEDS}
        assert all(
            one.losses[0].mean > fit.best[0].losses[0].mean for one in early if one.losses[0] and fit.best[0].losses[0]
        )


def test_a_fit_that_was_stopped_goes_on_to_the_same(planned: Plan, fitted: Path, tmp_path: Path) -> None:
    """Wherever it was stopped, also within a batch, it asks for the same candidates, and has the same hash."""
    with closing(Results(fitted)) as results:
        wanted = results.hash()
    with closing(carried_out(planned, tmp_path / "e", batches=2)) as results:
        assert left(results) > 0
        simulated(results, missing(results)[:4])
    with closing(Results(tmp_path / "e")) as results:
        search = Searching(results)
        while missing(results) or search.advance():
            simulated(results, missing(results)[::-1][:5])  # in another order, and a few at a time
        assert results.hash() == wanted
        assert not search.advance()


def test_a_fit_does_not_go_on_with_other_candidates(planned: Plan, tmp_path: Path) -> None:
    """Candidates that do not follow from the plan and the results are an error that names the version of Optuna."""
    with closing(carried_out(planned, tmp_path / "e", batches=2)) as results:
        results.plan = attrs.evolve(results.plan, vary=(RATE, START.replace("8.0", "9.0")))
        while wanted := missing(results):
            simulated(results, wanted)
        with pytest.raises(RunError, match="not those that follow"):
            Searching(results).advance()


def test_what_the_data_leaves_open_is_said(place: Path, tmp_path: Path) -> None:
    """From the height at the end alone, rate and start cannot be told apart, and both have wide intervals."""
    plan = make_fit(
        place / "growth.yaml", vary=(RATE, START), targets=[place / "end.csv"], candidates=60, batch_size=10, count=4
    )
    with closing(carried_out(plan, tmp_path / "e")) as results:
        notes = " ".join(found_by(results).notes)
    assert (
        "state.rate and state.start cannot be distinguished by this data: one can rise while the other falls" in notes
    )


def test_several_targets_have_a_pareto_front(place: Path, tmp_path: Path) -> None:
    """With targets that contradict each other, no candidate of the front is better in both; none ends early."""
    (tmp_path / "low.csv").write_text("time,height\n1,1\n")
    (tmp_path / "high.csv").write_text("time,height\n1,7\n")
    plan = make_fit(
        place / "growth.yaml", vary=(RATE, START), targets=[tmp_path / "low.csv", tmp_path / "high.csv"], candidates=16,
        batch_size=4, count=3, held_out=0,
    )  # fmt: skip
    with closing(carried_out(plan, tmp_path / "e")) as results:
        found = found_by(results)
    losses = sorted(one.values for one in found.best if one.values)
    assert len(losses) > 1
    assert [second for _, second in losses] == sorted((second for _, second in losses), reverse=True)
    assert found.ended_early == 0


def test_data_before_the_first_sample_is_said(place: Path, tmp_path: Path) -> None:
    """If no candidate has a value for a number of the data, the fit ends after the first batch, and says which."""
    (tmp_path / "d.csv").write_text("time,height\n0.5,1\n")
    plan = make_fit(
        place / "growth.yaml", vary=(RATE,), targets=[tmp_path / "d.csv"], candidates=4, batch_size=2, count=1
    )
    plan = attrs.evolve(plan, vary=(RATE, START))
    with pytest.raises(UsageError, match=r"height at 0\.5s has no value in 2 of 2 runs"):
        carried_out(plan, tmp_path / "e").close()


@pytest.fixture(scope="module")
def ran(place: Path) -> tuple[dict[str, Any], str]:
    """A small fit of real runs from the command line, as JSON, and what it said on stderr."""
    code, out, err = command(
        "fit", place / "growth.yaml", "--vary", RATE, "--target", place / "data.csv", "--candidates", 6,
        "--batch-size", 3, "--seeds", 2, "--held-out", 1, "--jobs", 1, "--to", place / "ran", "--json",
    )  # fmt: skip
    assert code == 0, err
    return json.loads(out), err


def test_a_fit_from_the_command_line(ran: tuple[dict[str, Any], str], place: Path) -> None:
    """It says runs and time first, its folder is that of an experiment, and `sim verify` finds it intact."""
    told, err = ran
    first = err.splitlines()[0]
    assert first.startswith("sim: fit: 6 candidates in batches of 3 × 2 seeds, and 1 held-out seed for the best: ")
    assert ": at most 13 runs; one takes " in first
    assert "s with --jobs 1" in first
    assert told["fit"]["candidates"] == 6
    assert told["complete"]
    folder = place / "ran"
    assert "Fit</h2>" in (folder / "results.html").read_text()
    assert len((folder / "results.csv").read_text().splitlines()) == 14
    assert command("verify", folder)[0] == 0
    experiment = sim.Experiment.open(folder)
    assert experiment.fit is not None
    assert len(experiment.frame("candidates")) == 6
    code, out, _ = command("fit", "--resume", folder)
    assert (code, "best candidate" in out) == (0, True)


def test_the_plan_of_a_fit_is_carried_out_again(ran: tuple[dict[str, Any], str], place: Path, tmp_path: Path) -> None:
    """The plan alone says everything: carried out in another place, in Python, the results have the same hash."""
    told, _ = ran
    again = sim.fit(
        place / "growth.yaml", vary={"agents.plant.state.rate": "0.0..5.0"}, targets=place / "data.csv", candidates=6,
        batch_size=3, seeds=2, held_out=1, jobs=1, out=tmp_path / "again",
    )  # fmt: skip
    assert (again.plan.id, again.hash) == (told["id"], told["hash"])
    assert again.complete
    assert json.loads((tmp_path / "again" / "plan.json").read_text())["points"] == []
