"""What a fit does, and does not do twice: equal candidates, trials that were read before, and the run that is timed."""

import contextlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.base.errors import UsageError
from sim.experiments.experiment import carry_out, left, missing
from sim.experiments.fit_estimate import size_of_fit
from sim.experiments.fit_plan import make_fit
from sim.experiments.fit_tables import candidates_rows, found_by
from sim.experiments.fitting import Fit
from sim.experiments.folder import begin
from sim.experiments.measure import Measured
from sim.experiments.plan import Plan, TrialHosting
from sim.experiments.pool import Inline
from sim.experiments.results import Results
from sim.experiments.targets import loss_of
from sim.tools.mcp import McpServer
from tests.experiments.fits import RATE, START, carried_out, curve, failed, grown, placed, run, simulated
from tests.helpers import command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario, and data of a plant with the rate 2 and the start 3."""
    return placed(tmp_path_factory.mktemp("fit"))


def plan_of(place: Path, **options: Any) -> Plan:
    """Return the plan of a fit."""
    given: dict[str, Any] = {"vary": (RATE, START), "targets": [place / "data.csv"], "candidates": 12, "batch_size": 4}
    return make_fit(place / "growth.yaml", **given | {"count": 3} | options)


LISTS = ("agents.plant.state.rate=1.0,2.0", "agents.plant.state.start=3.0,5.0")
"""Four combinations."""


def test_equal_candidates_are_run_once(place: Path, tmp_path: Path) -> None:
    """The runs of the first one count for the others, also where a whole batch is equal to earlier ones; it is said."""
    plan = plan_of(place, vary=LISTS, candidates=16, batch_size=2)
    with closing(begin(plan, tmp_path / "e")) as results:
        for _ in carry_out(results, Inline(), TrialHosting()):
            pass
        fit, found = Fit.of(results), found_by(results)
        firsts = [one for one in fit.candidates if one.same_as is None]
        assert len(fit.candidates) == 16
        assert len(firsts) <= 4
        assert {number for number, _ in results.done()} == {one.number for one in firsts}
        assert f"{16 - len(firsts)} candidates are equal to earlier ones, whose runs count for them" in found.notes
        columns, rows = candidates_rows(results)
        at = columns.index("same_as")
        for row in rows:
            assert row[at] is None or row[columns.index("loss")] == rows[row[at]][columns.index("loss")]
        assert all(one.same_as is None for one in (*found.best, *found.agreeing, *found.nearest))


def test_trials_that_share_no_answers_are_repeated(place: Path, tmp_path: Path) -> None:
    """With `--answers fresh` an equal candidate may have other answers of models, so it is run."""
    plan = plan_of(place, vary=LISTS, answers="fresh")
    with closing(carried_out(plan, tmp_path / "e")) as results:
        assert {number for number, _ in results.done()} == set(range(12))


def losses(place: Path, folder: Path, candidates: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many losses a fit works out."""
    counted = [0]

    def counting(*given: Any) -> Any:
        counted[0] += 1
        return loss_of(*given)

    with monkeypatch.context() as patched:
        patched.setattr("sim.experiments.fitting.loss_of", counting)
        carried_out(plan_of(place, candidates=candidates), folder).close()
    return counted[0]


def test_the_work_of_a_fit_grows_with_its_candidates(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses of candidates whose trials have not changed are not worked out again: twice as many take twice as long."""
    few, many = (losses(place, tmp_path / f"e{count}", count, monkeypatch) for count in (24, 48))
    assert few <= 24 * 2 * 3  # of the search and held out; before there are runs, with them, and with held-out ones
    assert many <= 2.1 * few


def test_a_trial_that_was_replaced_is_read_again(place: Path, tmp_path: Path) -> None:
    """What is kept of the trials of a fit is what they show now."""
    with closing(carried_out(plan_of(place), tmp_path / "e")) as results:
        before = Fit.of(results)
        assert Fit.of(results) is before
        first = results.plan.seeds[0]
        results.add([run(0, first, curve(5, 8, 100.0))])
        after = Fit.of(results)
        assert after.candidates[0].losses != before.candidates[0].losses
        assert after.candidates[1:6] == before.candidates[1:6]
        results.add([grown(results, 0, first)])
        assert Fit.of(results).candidates == before.candidates


def sizes(results: Results, hosting: TrialHosting) -> str:
    """Return the size that is said of a fit."""
    return size_of_fit(results, hosting, 1, timed=True)


@pytest.mark.slow
def test_the_timed_run_is_kept_and_not_repeated(place: Path, tmp_path: Path) -> None:
    """It is the first trial of the fit. On resumption the time is that of the runs on record, and none is added."""
    plan = plan_of(place)
    with closing(begin(plan, tmp_path / "e")) as results:
        assert ": at most 39 runs; one takes " in sizes(results, TrialHosting())
        assert results.done() == {(0, plan.seeds[0]): "measured"}
        assert ": at most 38 runs left; one takes " in sizes(results, TrialHosting())
        assert len(results.done()) == 1
        for _ in carry_out(results, Inline(), TrialHosting()):
            pass
        whole = results.hash()
    with closing(begin(plan, tmp_path / "f")) as results:
        for _ in carry_out(results, Inline(), TrialHosting()):
            pass
        assert results.hash() == whole  # the same as without a timed run


@pytest.mark.parametrize(
    "rights", [{"allow_commands": True}, {"mcp": (McpServer("files", ("true",)),)}, {"ceiling_tokens": 0}]
)
def test_no_run_is_timed_that_reaches_outside(place: Path, tmp_path: Path, rights: dict[str, Any]) -> None:
    """A run with commands or MCP servers is not carried out for an estimate, nor one that a ceiling forbids."""
    with closing(begin(plan_of(place), tmp_path / "e")) as results:
        assert sizes(results, TrialHosting(**rights)).endswith(": at most 39 runs")
        assert not results.done()


def test_a_first_run_that_fails_gives_no_time(place: Path, tmp_path: Path) -> None:
    """What a failed run took says nothing about the others."""
    plan = plan_of(place, overrides=("agents.plant.loop.min_loop_delay=0", "execution.max_deltas=50"))
    with closing(begin(plan, tmp_path / "e")) as results:
        assert sizes(results, TrialHosting()).endswith(": at most 39 runs")
        assert set(results.done().values()) == {"failed"}


def test_the_timed_run_of_a_command_is_one_of_its_trials(place: Path, tmp_path: Path) -> None:
    """With `--record`, it has a run folder as all trials have, which is the one in the results."""
    given = ("fit", place / "growth.yaml", "--vary", RATE, "--target", place / "data.csv", "--candidates", 2)
    code, out, err = command(
        *given,
        "--batch-size",
        2,
        "--seeds",
        1,
        "--held-out",
        0,
        "--jobs",
        1,
        "--record",
        "--to",
        tmp_path / "e",
        "--json",
    )
    assert code == 0, err
    assert json.loads(out)["complete"]
    with contextlib.closing(sqlite3.connect(tmp_path / "e" / "results.db")) as database:
        runs = {name for (name,) in database.execute("SELECT run FROM trials")}
    assert runs == {one.name for one in (tmp_path / "e" / "runs").iterdir()}
    assert len(runs) == 2


def test_both_declarations_of_a_fit_are_one() -> None:
    """The command, the plan and Python take the options of the search from one record."""
    from sim.experiments.fit_plan import FitOptions
    from sim.experiments.options import SearchOptions
    from sim.inspect.analysis.experiment_options import FitArguments

    names = {field.name for field in attrs.fields(SearchOptions)}
    for record in (FitOptions, FitArguments):
        assert names <= {field.name for field in attrs.fields(record) if field.inherited}


def test_failed_trials_are_tried_again_while_nothing_follows_from_them(place: Path, tmp_path: Path) -> None:
    """Those of the last batch and of held-out seeds are; others are not, as later candidates would be other ones."""
    plan = plan_of(place)
    first = plan.seeds[0]

    def failing(results: Results, point: int, seed: int) -> Measured:
        return failed(point, seed) if point in (1, 5) and seed == first else grown(results, point, seed)

    with closing(carried_out(plan, tmp_path / "e", batches=1, formula=failing)) as results:
        simulated(results, missing(results), failing)
        assert len(results.plan.points) == 8
        assert missing(results, again=True) == [(5, first)]
        for _ in carry_out(results, Inline(), TrialHosting(), again=True):
            pass
        done = results.done()
        assert (done[1, first], done[5, first]) == ("failed", "measured")
        assert left(results) == 0
        with pytest.raises(UsageError, match="later candidates or held-out seeds follow from them"):
            list(carry_out(results, Inline(), TrialHosting(), again=True))


def test_a_failed_held_out_run_is_tried_again(place: Path, tmp_path: Path) -> None:
    """Nothing follows from it, so the held-out loss can still be known."""
    plan = plan_of(place)
    last = plan.seeds[0] + 5

    def failing(results: Results, point: int, seed: int) -> Measured:
        return failed(point, seed) if seed == last else grown(results, point, seed)

    with closing(carried_out(plan, tmp_path / "e", formula=failing)) as results:
        assert found_by(results).best[0].held_out == (None,)
        for _ in carry_out(results, Inline(), TrialHosting(), again=True):
            pass
        assert not results.problems()
        assert found_by(results).best[0].held_out[0] is not None


@pytest.mark.slow
def test_a_fit_is_archived(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its archive has all of its files, and `sim verify` finds it intact."""
    monkeypatch.chdir(tmp_path)
    given = ("fit", place / "growth.yaml", "--vary", RATE, "--target", place / "data.csv", "--candidates", 4)
    code, _, err = command(*given, "--batch-size", 2, "--seeds", 2, "--jobs", 1, "--to", tmp_path / "e")
    assert code == 0, err
    for words in (("archive", tmp_path / "e", "--to", tmp_path / "fit.zip"), ("verify", tmp_path / "fit.zip")):
        code, out, err = command(*words)
        assert code == 0, (out, err)
