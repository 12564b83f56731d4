"""Outcomes that expressions define: one grammar in files, on the command line and in Python, and exact values."""

import contextlib
import json
from pathlib import Path

import pytest

import sim
from sim.agents.outcomes import FUNCTIONS, FunctionCall, Measurement
from sim.base.errors import ScenarioError, UsageError
from sim.base.expressions import ExpressionError
from sim.experiments.estimate import Estimate
from sim.experiments.plan import Plan, make_sweep
from sim.experiments.recorded import SCRATCH
from sim.experiments.results import Results
from sim.experiments.tables import EstimateRow, lines_table
from sim.scenario import loads
from tests.helpers import command

SCENARIO = """
name: shop
until: 100s
pools: {desk: {kind: resource, slots: 2}, shelf: {kind: container, level: 4}}
models:
  tiers: {strict: judge-a, kind: judge-b}
  default: kind
  rules:
    - {use: survey, when: "me == 'client-1'", say: "no idea"}
    - {use: survey, text: "How*", say: "=str(state.mark)"}
    - {use: survey, say: "='yes' if group == 'left' else 'no'"}
    - {use: judge, when: tier == 'strict', say: "3"}
    - {use: judge, say: "5"}
metrics: {every: 10s, values: {queued: queue('desk'), worth: "mean('left', 'worth')", empty: "mean('spare', 'x')"}}
score:
  measures:
    civil: {ask: How civil?, scale: [1, 7], of: run, judges: [strict, kind]}
    acts: {sql: "SELECT agent, count(*) FROM actions WHERE kind = 'acquire' GROUP BY 1", agents: [client]}
interventions:
  - at: 40s
    every: 40s
    name: mood
    survey: {questions: [{ask: How are you?, scale: [1, 7]}, {ask: "Open?", options: ["yes", "no"]}]}
agents:
  - name: client
    count: 4
    group: left
    state: {worth: 1.0, phase: 0, step: 1.0, mark: '=index + 1'}
    start: "=10 * index"
    loop: {min_loop_delay: 0}
    rules:
      - {when: phase == 0, do: {acquire: {pool: desk}}, set: {phase: 1}}
      - {when: phase == 1, do: {sleep: {for: 30s}}, set: {phase: 2}}
      - {when: phase == 2, do: [{release: {pool: desk}}, {get: {pool: shelf}}], set: {phase: 3, worth: "=worth + step"}}
      - {do: {sleep: {for: 1h}}}
  - {name: guest, count: 2, group: right, state: {mark: '=index + 1'}, rules: [{do: {sleep: {for: 1h}}}]}
  - {name: spare, template: true, state: {x: 1}}
"""
NAMED = """
outcomes:
  waited: {value: "wait(desk)", label: Waiting time, unit: s}
  rich: first_time(worth >= 1.5)
  never: first_time(worth > 100)
"""
VALUES = {
    "last(worth)": 2.0,
    "worth": 2.0,
    "mean(worth, from=40s, to=60s)": (1.25 + 1.5 + 1.5) / 3,
    "max(queued)": 1.0,
    "min(worth, from=1m)": 1.5,
    "at(worth, 45s)": 1.25,
    "at(worth, 101s)": None,  # the run ended before
    "first_time(worth > 1.3 and queued == 0)": 50.0,
    "first_time(worth > 1.3, from=60s)": 60.0,
    "first_time(empty > 1)": None,
    "mean(empty)": None,
    "use(desk)": 1.2,
    "utilization(desk)": 0.6,
    "queue(desk)": 0.2,
    "queue(desk, from=25s, to=45s)": 0.75,
    "use(desk, from=25s, to=45s)": 2.0,
    "use(desk, from=90s, to=200s)": 0.0,
    "use(desk, from=200s)": None,
    "wait(desk)": 5.0,
    "wait(desk, from=90s)": None,  # no request came
    "level(shelf)": 2.0,
    "share(mood, yes, question=2)": 3 / 6,  # `no idea` is a no
    "share(mood, yes, question=2, group=right)": 0.0,
    "mean_answer(mood)": (2 + 3 + 4 + 1 + 2) / 5,
    "mean_answer(mood, group=guest)": 1.5,
    "mean_answer(mood, group='client-1')": None,
    "mean_answer(mood, at=10s)": None,
    "missing_answers(mood, group=left)": 1.0,
    "score(civil)": 4.0,
    "score(civil, judge=strict)": 3.0,
    "score(acts)": 1.0,
    "query('SELECT count(*) FROM actions WHERE kind = ''release''')": 4.0,
    "done_acquire / use(desk)": 4 / 1.2,
    "1 / (last(queued) - 0)": None,  # a division by 0
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario that names outcomes."""
    file = tmp_path_factory.mktemp("shop") / "shop.yaml"
    file.write_text(SCENARIO + NAMED)
    return file


def test_each_function_measures_what_it_says(shop: Path, tmp_path: Path) -> None:
    """Samples, windows, times, surveys by group, scores, queries, and figures of pools that are exact at any instant.

    What a run does not show has no value, which is counted.
    """
    texts = [text.replace("''release''", '"release"') for text in VALUES]
    found = sim.sweep(shop, seeds=1, outcomes=texts, jobs=1, out=tmp_path / "x")
    got = {name: one.mean for name, one in found.estimates[0].outcomes.items()}
    assert not found.problems
    assert found.plan.outcomes == tuple(texts)
    wanted = {name: value for name, value in zip(texts, VALUES.values(), strict=True) if value is not None}
    assert got == {name: pytest.approx(value) for name, value in wanted.items()}
    lacking = {name for name, count, of in found.without_value if count == of}
    assert set(texts) - set(wanted) <= lacking
    assert {call.function for text in texts for call in Measurement.parse(text).calls} == {*FUNCTIONS, ""}

    assert not (tmp_path / "x" / SCRATCH).exists(), "the records that only outcomes read are gone"
    (tmp_path / "x" / SCRATCH / "sim-killed" / "shop-0-1").mkdir(parents=True)  # what a killed worker leaves
    assert command("sweep", "--resume", tmp_path / "x", "--jobs", 1)[0] == 0
    assert not (tmp_path / "x" / SCRATCH).exists()


def test_outcomes_change_no_run(shop: Path, tmp_path: Path) -> None:
    """The hash of a run is the same with and without the section, and while pools are watched."""
    plain = tmp_path / "shop.yaml"
    plain.write_text(SCENARIO)
    hashes = {sim.run(file, recording="samples").hash for file in (shop, plain)}
    for number, (file, outcomes) in enumerate(((shop, ()), (plain, ("queue(desk)",)), (plain, ()))):
        found = sim.sweep(file, seeds=1, jobs=1, outcomes=outcomes, out=tmp_path / str(number))
        with contextlib.closing(Results(found.folder)) as results:
            hashes |= {hash for _, _, hash in results.hashes()}
    assert len(hashes) == 1
    assert sim.run(shop).hash == sim.run(plain).hash


@pytest.mark.slow
def test_a_study_measures_what_its_scenario_names(shop: Path, tmp_path: Path) -> None:
    """By default these are its outcomes, in order; those without a value are counted, for sweeps and for arms."""
    code, out, err = command("sweep", shop, "--seeds", 2, "--jobs", 1, "--to", tmp_path / "sweep", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["plan"]["outcomes"] == ["waited", "rich", "never"]
    assert list(told["rows"][0]["outcomes"]) == ["waited", "rich"]
    assert {"outcome": "never", "trials": 2, "of": 2} in told["without_value"]
    assert told["plan"]["definitions"][0] == {
        "name": "waited", "value": "wait(desk)", "label": "Waiting time", "unit": "s", "scale": "linear",
    }  # fmt: skip
    assert Plan.from_json(json.dumps(told["plan"])).id == told["id"]
    run = sim.run(shop, out=tmp_path / "runs")
    arms = {"late": {"agents.client.state.step": 0.1}}
    compared = sim.arms(
        run, at="20s", arms=arms, seeds=2, jobs=1, out=tmp_path / "arms", outcomes=["waited", "max(worth)"]
    )
    changes = {one.outcome: one.difference.mean for one in compared.differences}
    assert changes == {"waited": 0.0, "max(worth)": pytest.approx(-0.9)}


def test_counts_are_checked_in_expressions_too(shop: Path) -> None:
    """A count of an action that does not exist is refused before any trial, also as a part of an expression."""
    with pytest.raises(UsageError, match="no outcome 'done_acquier'") as refused:
        make_sweep(shop, outcomes=("half=done_acquier / 2",))
    assert "acquire" in str(refused.value.hint)
    assert make_sweep(shop, outcomes=("half=done_acquire / 2",)).outcomes == ("half",)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("mean(wort)", "no metric 'wort'", "worth"),
        ("meen(worth)", "no function 'meen'", "mean"),
        ("mean(worth, form=3s)", "no argument 'form'", "from"),
        ("first_time(wort > 1)", "no metric 'wort'", "worth"),
        ("first_time(worth > 5m)", "compares metrics with numbers, and '5m' is none", "300 for 5m"),
        ("mean(worth) / 1" + "0" * 400, "too large", None),
        ("share(moood, yes)", "no survey 'moood'", "mood"),
        ("share(mood, yess, question=2)", "no option 'yess'", "yes"),
        ("share(mood, yes, question=3)", "has 2 questions", None),
        ("mean_answer(mood, question=2)", "not answered with a number", None),
        ("mean_answer(mood, group=lefft)", "no group, entry or agent 'lefft'", "left"),
        ("score(civl)", "no measure 'civl'", "civil"),
        ("queue(dessk)", "no pool 'dessk'", "desk"),
        ("use(shelf)", "shelf is a container", None),
        ("level(desk)", "desk has slots", None),
        ("wurth / use(desk)", "no outcome 'wurth'", "worth"),
        ("a=mean(worth)", None, None),
    ],
)
def test_names_are_checked_before_any_trial(shop: Path, text: str, said: str | None, hint: str | None) -> None:
    """A misspelled name is refused with the nearest one, the same on the command line, in Python and in the file."""
    if said is None:
        assert make_sweep(shop, outcomes=(text,)).outcomes == ("a",)
        return
    with pytest.raises(UsageError, match=said) as refused:
        make_sweep(shop, outcomes=(text,))
    assert hint is None or hint in str(refused.value.hint)
    with pytest.raises(ScenarioError) as in_file:
        loads(f"{SCENARIO}outcomes:\n  x:\n    value: {json.dumps(text)}\n")
    (problem,) = in_file.value.problems
    assert (said in problem.message, problem.message.startswith("outcomes.x.value: ")) == (True, True)
    assert problem.line == SCENARIO.count("\n") + 3


@pytest.mark.parametrize(
    "text",
    ["", "5 + 3", "mean()", "mean(a, b)", "mean(a, from=soon)", "mean(a, from=3, to=2)", "mean(a", "[mean(a)]",
     "__import__('os').x()", "(lambda: 1)()", "query(actions)", "first_time(len(a) > 1)", "share(a, b, question=0)",
     "mean(a, **b)", "a ** 2", "1 if a else 2", "f'{a}'", "(" * 3000, "-" * 3000 + "a", "mean(a)" + " + 1" * 2000],
)  # fmt: skip
def test_other_texts_are_no_outcomes(text: str) -> None:
    """Only calls of the known functions, names, numbers and arithmetic are read; nothing is evaluated."""
    with pytest.raises(ExpressionError) as refused:
        Measurement.parse(text)
    assert len(str(refused.value)) < 300


def test_durations_and_from_are_written_as_in_a_file() -> None:
    """Also several in one expression; text in quotes stays as it is."""
    (call,) = Measurement.parse("mean( a-b ,from = 1h30m, to=5400.5)").calls
    assert (call.what, call.options) == ("a-b", {"from": 5_400_000_000_000, "to": 5_400_500_000_000})
    (call,) = Measurement.parse('query("SELECT 5s,\n from=3")').calls
    assert call.what == "SELECT 5s,  from=3"
    assert isinstance(call, FunctionCall)


def test_what_is_not_recorded_cannot_be_read(shop: Path) -> None:
    """An outcome that reads the record is refused if the record would lack what it may read: 0 would be wrong."""
    with pytest.raises(UsageError, match="reads the record") as refused:
        make_sweep(shop, outcomes=("score(acts)",), recording="samples")
    assert "--recording all" in str(refused.value.hint)


def test_the_reference_has_every_function() -> None:
    """A function of outcomes that scenario.md does not describe fails this test."""
    page = (Path(__file__).parents[2] / "docs/scenario.md").read_text().partition("## Outcomes")[2]
    assert [name for name in FUNCTIONS if f"`{name}(" not in page] == []


def test_tables_say_from_how_many_seeds_an_estimate_is() -> None:
    """An outcome without a value for some seeds has a column `n`; others have none."""
    lines = [
        EstimateRow([1], {"a": Estimate(3, 1.0, 0.5), "b": Estimate(2, 1.0, 0.5)}, 3),
        EstimateRow([2], {"a": Estimate(3, 1.0, 0.5)}, 3),
    ]
    assert lines_table(["x"], lines) == (
        ["x", "a", "±", "b", "±", "n"], [[1, 1.0, 0.5, 1.0, 0.5, 2], [2, 1.0, 0.5, None, None, 0]],
    )  # fmt: skip
