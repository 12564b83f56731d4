"""Descriptions in archives of sweeps, arms, branches and tables: each statement is of what was run, in all variants."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.archives import archive_experiment, archive_run, described
from sim.archives.software import Software
from sim.base.errors import UsageError
from sim.base.registry import Definitions, using
from sim.experiments.bench.plan import make_bench
from sim.experiments.fit_plan import make_fit
from sim.experiments.options import Precision
from sim.experiments.plan import make_sweep
from sim.record import open_run
from sim.scenario.loading import ScenarioSource

PLAIN = """
name: tiny
until: 4s
execution: {tick: {period: 1s}}
models: {rules: [{say: "Yes."}]}
agents: [{name: one, state: {x: 1, y: 2}, rules: [{do: {ask: {prompt: Hello}}}]}]
"""


def page_of(made: sim.Experiment | sim.RunResult, folder: Path) -> str:
    """Return the description in the archive of an experiment or a run."""
    target = folder / "archive.zip"
    if isinstance(made, sim.RunResult):
        assert made.run is not None
        archive_run(made.run, target, force=True)
    else:
        archive_experiment(made.folder, target, force=True)
    with zipfile.ZipFile(target) as opened:
        return opened.read("ODD.md").decode()


@pytest.fixture
def tiny(tmp_path):
    """The file of a scenario in which nothing is drawn."""
    file = tmp_path / "tiny.yaml"
    file.write_text(PLAIN)
    return file


@pytest.mark.slow
def test_statements_about_a_sweep_hold_in_all_of_its_combinations(tiny, tmp_path):
    """What a varied value decides is told for each value, and what is random in any combination is told as random."""
    varied: dict[str, list[Any]] = {
        "execution.ties": ["fixed", "shuffled"],
        "until": ["2s", "3s"],
        "agents.one.count": [1, 2],
        "agents.one.state.x": [5, "=randint(6, 9)"],
    }
    page = page_of(sim.sweep(tiny, vary=varied, seeds=1, out=tmp_path / "study", jobs=1), tmp_path)
    assert "Nothing is drawn at random" not in page
    assert "- the order of what happens at one instant (with `execution.ties=shuffled`)\n" in page
    assert '- the value at the start of `x` of one: `randint` (with `agents.one.state.x="=randint(6, 9)"`)\n' in page
    assert "With `execution.ties=fixed`:\n\nWhat happens at one instant happens in a fixed order" in page
    assert page.count("What happens at one instant happens in a fixed order") == 1
    assert "With `until=2s`:\n\nThe run ends after 2s." in page
    assert "The run ends after 3s." in page
    assert "The run ends after 4s." not in page
    assert "With `agents.one.count=2`:\n\n**one** (2 agents;" in page
    assert '| x | `varied: 5, "=randint(6, 9)"` |\n| y | `2` |' in page
    assert "derived from all 16 combinations" in page


@pytest.mark.slow
def test_the_order_of_turns_and_the_models_of_a_sweep_can_vary(tiny, tmp_path):
    """The order of turns in ticks, and what language models do, are told for each combination."""
    varied = {"execution.tick.order": ["fixed", "shuffled"], "models.provider": ["scripted", "simulated"]}
    made = sim.sweep(tiny, vary=varied, seeds=1, mode="tick", out=tmp_path / "study", jobs=1)
    page = page_of(made, tmp_path)
    assert "Nothing is drawn at random" not in page
    assert "have their turns, drawn again for each tick (with `execution.tick.order=shuffled`)" in page
    assert "the time until an answer begins (with `models.provider=simulated`)" in page
    assert "With `execution.tick.order=fixed`:" in page
    assert "anew" not in page


@pytest.mark.slow
def test_combinations_that_were_not_read_are_counted(tiny, tmp_path, monkeypatch):
    """Of too many combinations, those are read that show each value, and nothing is stated about the others."""
    monkeypatch.setattr("sim.archives.described._MOST_POINTS", 2)
    made = sim.sweep(tiny, vary={"agents.one.state.x": [1, 2, 3]}, seeds=1, out=tmp_path / "study", jobs=1)
    page = page_of(made, tmp_path)
    assert "derived from 2 of 3 combinations" in page
    assert "in the others, that is not known" in page
    assert "Nothing is drawn at random" not in page


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """A run with options: a value, an end, and a seed."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "tiny.yaml").write_text(PLAIN)
    overrides = ["agents.one.state.y=7"]
    return sim.run(folder / "tiny.yaml", overrides=overrides, until="6s", seed=41, out=folder / "runs").run


@pytest.mark.slow
@pytest.mark.parametrize("at", ["0s", "3s"])
def test_arms_are_described_with_the_run_that_they_begin_from(past, tmp_path, at):
    """The values, end and seed of the run are in the description, and each change with its arm and its time."""
    change = "agents.one.state.x==randint(3, 5)"
    arms = {"high": [change], "slow": ["agents.one.loop.min_loop_delay=2s"]}
    page = page_of(sim.arms(past, at=at, arms=arms, seeds=1, out=tmp_path / "study", jobs=1), tmp_path)
    assert "| y | `7` |" in page
    assert "The run ends after 6s." in page
    assert "The run ends after 4s." not in page
    assert "| seed of the run from which the arms begin | `41` |" in page
    assert f"| time at which they begin | `{at}` |" in page
    assert f"- At {at}, in the arm high: `{change}`" in page
    assert "Nothing is drawn at random" not in page
    if at == "0s":
        assert "`x` of one: `randint` (in the arm high)" in page
        assert "In the arm slow:\n\nEach agent runs a loop" in page
    else:
        assert "what `agents.one.state.x` is set to at 3s, in the arm high: `randint`" in page
        assert "From 3s on in the arm slow:\n\nEach agent runs a loop" in page
        assert "| x | `1` |" in page


@pytest.mark.slow
def test_a_branch_is_described_with_all_that_changes_and_when(past, tmp_path):
    """A new seed, models and values are told with their time; before it, the scenario is as it was."""
    overrides = ["agents.one.loop.min_loop_delay=2s", "agents.one.state.x=9"]
    first = sim.branch(past, at="3s", seed=77, models=["simulated:quick"], overrides=overrides, out=tmp_path / "runs")
    assert first.run is not None
    page = page_of(first, tmp_path)
    assert (
        "- At 3s: `agents.one.loop.min_loop_delay=2s`, `agents.one.state.x=9`, the seed becomes 77,"
        " the language models become simulated:quick\n"
    ) in page
    assert "| x | `1` |\n| y | `7` |" in page
    assert "Until 3s:\n\nEach agent runs a loop" in page
    assert "From 3s on:\n\nEach agent runs a loop" in page
    assert "| one | 2s |" in page
    assert "the time until an answer begins (from 3s on)" in page
    second = sim.branch(first.run, at="4s", overrides=["agents.one.loop.min_loop_delay=1s"], out=tmp_path / "runs")
    page = page_of(second, tmp_path)
    assert "From 3s until 4s:" in page
    assert "- At 3s: `agents.one.loop.min_loop_delay=2s`" in page
    assert "- At 4s: `agents.one.loop.min_loop_delay=1s`\n" in page


@pytest.mark.slow
def test_the_values_of_a_table_hide_those_of_the_scenario(tmp_path):
    """A state variable that is a column of the table begins with the value of the row, whatever the scenario says."""
    (tmp_path / "people.csv").write_text("x\n30\n40\n")
    file = tmp_path / "people.yaml"
    file.write_text(PLAIN.replace("name: one,", "name: one, table: people.csv,"))
    result = sim.run(file, out=tmp_path / "runs")
    assert "| x | from the table |\n| y | `2` |" in page_of(result, tmp_path)


@pytest.mark.usefixtures("measuring")
@pytest.mark.slow
def test_an_experiment_whose_scenario_needs_code_is_archived(tmp_path):
    """As of a run, its description says why nothing is derived, and the archive has the data beside the scenario."""
    (tmp_path / "people.csv").write_text("x\n30\n40\n")
    file = tmp_path / "people.yaml"
    metrics = "metrics: {modules: [measuring], values: {n: odd()}}\n"
    file.write_text(PLAIN.replace("name: one,", "name: one, table: people.csv,") + metrics)
    with using(Definitions()):
        made = sim.sweep(file, vary={"until": ["2s"]}, seeds=1, allow=("measuring",), out=tmp_path / "study", jobs=1)
        page = page_of(made, tmp_path)
    assert "which cannot be checked here" in page
    assert "the module 'measuring' is not allowed" in page
    with zipfile.ZipFile(tmp_path / "archive.zip") as opened:
        names = opened.namelist()
    assert "experiment/tables.json" in names
    assert "software/modules/measuring.py" in names


# -- seeds


def test_the_seeds_of_a_plan_are_in_words(tiny):
    """Named seeds, those that a precision adds, and those of a fit are not called a number of seeds from the first."""
    (tiny.parent / "data.csv").write_text("n\n1\n")
    tiny.write_text(PLAIN + "metrics: {every: 1s, values: {n: \"total('one', 'x')\"}}\noutcomes: {n: mean(n)}\n")
    vary = ["agents.one.state.x=1..3"]
    sweep = make_sweep(tiny, count=3, first_seed=4)
    assert sweep.seeds_text == "4 to 6 for each combination"
    assert make_sweep(tiny, count=1, first_seed=4).seeds_text == "4 for each combination"
    precise = make_sweep(tiny, count=3, first_seed=4, precision=Precision(0.1, 50))
    assert precise.seeds_text == (
        "4 to 6 for each combination, and those after them until its outcomes are precise: at most 4 to 53"
    )
    assert make_sweep(tiny, count=3, precision=Precision(0.1, 3)).seeds_text == "0 to 2 for each combination"
    assert make_bench(tiny, seeds=[9, 2]).seeds_text == "9, 2 for each combination in each mode"
    fit = make_fit(tiny, vary=vary, targets=[tiny.parent / "data.csv"], count=4, first_seed=1, held_out=2)
    assert fit.seeds_text == (
        "1 to 4 for each candidate, fewer for one that the first of them show to be clearly worse;"
        " 5 to 6 for the best of them alone"
    )


@pytest.mark.slow
def test_the_seeds_of_an_experiment_are_those_that_it_ran(tiny, tmp_path):
    """Each seed that the trials of a bench with named seeds had is in its description, and no other one is."""
    made = sim.bench(tiny, seed_list=[9, 2], modes=["autonomous", "tick-sequential"], out=tmp_path / "study", jobs=1)
    assert "| seeds | `9, 2 for each combination in each mode` |" in page_of(made, tmp_path)
    assert set(made.frame()["seed"]) == {9, 2}


@pytest.mark.slow
def test_a_fit_is_described_by_its_data_and_its_search(tiny, tmp_path):
    """The page of a fit has its data, loss, sampler and held-out seeds, and how many candidates it tries."""
    (tmp_path / "data.csv").write_text("time,n\n1,2\n2,2\n")
    tiny.write_text(PLAIN + "metrics: {every: 1s, values: {n: \"total('one', 'x')\"}}\n")
    made = sim.fit(
        tiny, targets=[tmp_path / "data.csv"], vary={"agents.one.state.x": "1..3"}, candidates=4, batch_size=2, seeds=2,
        out=tmp_path / "study", jobs=1,
    )  # fmt: skip
    page = page_of(made, tmp_path)
    assert "2 to 3 for the best of them alone" in page
    for row in ("fitted to | `data`", "loss | `rmse`", "candidates | `4 in batches of 2`", "design | `fit`"):
        assert f"| {row} |" in page
    assert "| sampler | `tpe, of Optuna " in page


# -- what was not checked, or is not described


@pytest.mark.slow
def test_a_list_of_combinations_is_described_as_one(tiny, tmp_path):
    """Combinations that are listed, and not varied by a key, are counted, and their keys are named."""
    points = [{"agents.one.state.x": "1"}, {"agents.one.state.x": "4"}]
    page = page_of(sim.sweep(tiny, points=points, seeds=1, out=tmp_path / "study", jobs=1), tmp_path)
    assert "derived from all 2 combinations" in page
    assert "| varied: agents.one.state.x | `in a list of combinations` |" in page


@pytest.mark.usefixtures("measuring")
@pytest.mark.slow
def test_a_combination_that_cannot_be_checked_is_named(tiny, tmp_path):
    """Which combinations are not described is said, with the reason; the statements of the others stay."""
    tiny.write_text(PLAIN + "metrics: {every: 1s, modules: [], values: {n: count('one')}}\n")
    varied: dict[str, list[Any]] = {"metrics.modules": [[], ["measuring"]]}
    with using(Definitions()):
        made = sim.sweep(tiny, vary=varied, seeds=1, allow=("measuring",), out=tmp_path / "study", jobs=1)
        page = page_of(made, tmp_path)
    assert "derived from 1 of 2 combinations" in page
    assert "What is true of the others only is missing." in page
    assert "Not described, because it cannot be checked here: the combination metrics.modules=" in page
    assert "the module 'measuring' is not allowed" in page


def test_an_error_of_something_else_is_not_called_one_of_the_scenario(past, tmp_path, monkeypatch):
    """Only a scenario that cannot be checked leaves a description to its author; another error is not swallowed."""

    def fails(subject):
        raise UsageError("a fault of the description")

    monkeypatch.setattr(described, "odd_description", fails)
    with open_run(past) as stored, pytest.raises(UsageError, match="a fault of the description"):
        described.odd_of_run(stored, PLAIN, Software({}))


def changed_from_outside(folder: Path, changes: list[dict[str, Any]]) -> sim.RunResult:
    """Return a recorded run in which somebody outside changed parameters, at its beginning."""
    (folder / "tiny.yaml").write_text(PLAIN)

    def begin(runner):
        for values in changes:
            runner.host.submit("parameters", {"set": values})

    return sim.run(folder / "tiny.yaml", out=folder / "runs", begun=begin)


@pytest.mark.slow
def test_a_change_from_outside_is_told_as_requested(tmp_path):
    """The record does not have whether it was refused, so that the page does not say that it held."""
    changes: list[dict[str, Any]] = [{"agents.one.state.x": 7}, {"agents.one.loop.min_loop_delay": "never"}]
    page = page_of(changed_from_outside(tmp_path, changes), tmp_path)
    assert "`agents.one.state.x=7` (requested from outside; whether it was refused is not in the record)" in page
    assert "`agents.one.loop.min_loop_delay=never` (requested from outside; " in page
    assert "its effect is not described, because it cannot be checked here: " in page
    assert page.count("Each agent runs a loop") == 1


@pytest.mark.slow
def test_each_scenario_of_a_run_is_read_once(tmp_path, monkeypatch):
    """Changes can alternate, or be of state alone: a scenario is loaded once, and only what differs is described."""
    changes: list[dict[str, Any]] = [{"agents.one.loop.min_loop_delay": one} for one in ["1s", "2s"] * 20]
    changes += [{"agents.one.state.x": number} for number in range(20)]
    run = changed_from_outside(tmp_path, changes)
    loaded: list[object] = []
    load = ScenarioSource.load

    def counted(self, changes=(), **options):
        loaded.append(changes)
        return load(self, changes, **options)

    monkeypatch.setattr(ScenarioSource, "load", counted)
    page = page_of(run, tmp_path)
    assert len([one for one in loaded if one]) == 2
    assert page.count("requested from outside") == 60


@pytest.mark.slow
def test_many_changes_are_counted(tmp_path):
    """Of very many changes, the first ones are described; the others are counted, and what they draw is not known."""
    changes = [{"agents.one.state.x": number} for number in range(103)]
    page = page_of(changed_from_outside(tmp_path, changes), tmp_path)
    assert page.count("requested from outside") == 100
    assert "- After these, there are 3 more changes, which are not described." in page
    assert "- what the 3 changes of the run that are not described draw\n" in page
    assert "Nothing is drawn at random" not in page


@pytest.mark.slow
def test_a_drawn_state_that_is_set_from_outside_is_random(tmp_path):
    """What is drawn by a change of state alone is named, and a text that looks like a call is a text."""
    page = page_of(changed_from_outside(tmp_path, [{"agents.one.state.x": "=randint(3, 5)"}]), tmp_path)
    assert "- what `agents.one.state.x` is set to at 0s: `randint`\n" in page
    page = page_of(changed_from_outside(tmp_path, [{"agents.one.state.x": "chance(0.5)"}]), tmp_path)
    assert "Nothing is drawn at random" in page
