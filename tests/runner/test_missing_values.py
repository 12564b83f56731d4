"""No value is not 0: what is computed from nothing has no value, and whoever needs one says so."""

import csv
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import RunError
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError
from sim.cli.render.summary import sparkline
from sim.experiments.estimate import Estimate
from sim.record import open_run
from sim.record.summary import gaps_of
from sim.runner import RunResult
from tests.helpers import command

EXTINCT = """
name: extinct
until: 10s
agents:
  - {name: nest, loop: {min_loop_delay: 4s}, rules: [{when: iteration == 2, do: {spawn: {agent: ant, count: 2}}}]}
  - name: ant
    template: true
    state: {energy: "=1 + index", fat: null}
    loop: {min_loop_delay: 1s}
    rules: [{when: iteration > 1, do: stop, record: {age: "=now"}}]
metrics:
  every: 1s
  values:
    ants: count('ant')
    sum: total('ant', 'energy')
    mean: mean('ant', 'energy')
    median: quantile('ant', 'energy', 0.5)
    gini: gini('ant', 'energy')
    fat: mean('ant', 'fat')
    ratio: total('ant', 'energy') / count('ant')
    rest: 7 % count('ant')
    double: 2 * mean('ant', 'energy')
    rounded: round(max(mean('ant', 'energy'), 0), 2)
    rich: mean('ant', 'energy') > 1
    known: mean('ant', 'energy') is not None
    chosen: mean('ant', 'energy') if count('ant') else 0
    age: mean_of('age')
    oldest: quantile_of('age', 1)
    service: service('nothing', 'calls')
"""
ALWAYS = {"ants", "sum", "known", "chosen"}


@pytest.fixture(scope="module")
def extinct(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """Return a recorded run in which there are ants from 4 s to 5 s only."""
    folder = tmp_path_factory.mktemp("extinct")
    (folder / "extinct.yaml").write_text(EXTINCT)
    return sim.run(folder / "extinct.yaml", out=folder / "runs")


def test_a_metric_of_nothing_is_null(extinct: RunResult) -> None:
    """Means, quantiles and coefficients of nothing are null, and so is what is computed from them, and a quotient by
    zero; counts and sums of nothing are 0. As long as there are numbers, there are values.
    """
    metrics = extinct.metrics
    assert metrics["ants"] == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]
    there = {name: values[5] for name, values in metrics.items()}
    assert (there["mean"], there["ratio"], there["double"], there["rich"]) == (1.5, 1.5, 3, True)
    for name, values in metrics.items():
        if name in ALWAYS or name == "time":
            assert None not in values, name
        elif name in ("age", "oldest"):
            assert values[:5] == [None] * 5
            assert values[-1] == 5
        else:
            assert [value for at, value in enumerate(values) if at != 5] == [None] * 10, name
    assert metrics["fat"] == metrics["service"] == [None] * 11


def test_who_shows_or_reads_a_metric_shows_a_gap(extinct: RunResult, tmp_path: Path) -> None:
    """The record, tables, charts, reports and CSV have a gap where there is no value, and the summary counts it."""
    assert extinct.run is not None
    with open_run(Path(extinct.run)) as stored:
        rows = stored.query("SELECT value FROM samples WHERE name = 'mean' ORDER BY id")
    with sim.open(extinct.run) as run:
        object.__setattr__(run.info, "summary", None)  # as of a run that was killed
        assert [value for (value,) in rows] == extinct.metrics["mean"] == run.metrics["mean"]
    assert gaps_of(extinct.metrics)["mean"] == 10
    assert sparkline(extinct.metrics["mean"]) == "     ▁     "
    assert extinct.plot("mean").svg.count("<circle") == 1
    assert '<td align="left"></td>' in extinct._repr_html_()
    _, printed, _ = command("show", extinct.run)
    assert "mean has no value in 10 of 11 samples" in printed
    code, _, _ = command("export", extinct.run, "samples", "--format", "csv", "--to", tmp_path / "samples.csv")
    assert code == 0
    with (tmp_path / "samples.csv").open(newline="") as file:
        cells = [row["value"] for row in csv.DictReader(file) if row["name"] == "mean"]
    assert cells == ["", "", "", "", "", "1.5", "", "", "", "", ""]
    code, printed, _ = command("report", extinct.run)
    assert code == 0
    code, printed, _ = command("diff", extinct.run, extinct.run, "--json")
    assert code == 0


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("service('tasks', 'finished')", ["'tasks' has no number 'finished'", "there are active, cancelled, done"]),
        ("1 + service('tasks', 'dones')", ["'tasks' has no number 'dones'", "did you mean 'done'?"]),
        ("service('task', 'done')", ["there is no service 'task'", "did you mean 'tasks'?"]),
        ("mean('boss', 'n') if service('tasks', 'done') is None else none", []),
        ("service('tasks', 'done')", []),
    ],
)
def test_a_number_that_no_service_has_is_told(tmp_path: Path, value: str, told: list[str]) -> None:
    """A metric that never has a value since it names no number that exists is a warning, with the nearest name."""
    agents = "[{name: boss, state: {n: null}, rules: [{do: [{create_task: {title: a}}, stop]}]}]"
    (tmp_path / "x.yaml").write_text(f'name: x\nuntil: 1m\nagents: {agents}\nmetrics: {{values: {{m: "{value}"}}}}\n')
    found = sim.run(tmp_path / "x.yaml").warnings
    assert [one["text"] for one in found] == [f"the metric m has no value: {text}" for text in told[:1]]
    assert [one["hint"][: len(told[1])] for one in found] == told[1:]


def test_estimates_leave_out_what_has_no_value_and_count_it(tmp_path: Path) -> None:
    """An outcome without a value in a trial is left out of its estimate; how many trials that are is said."""
    text = """
    name: chances
    until: 2s
    agents:
      - name: a
        state: {x: null}
        rules:
          - {when: now > 99, record: {y: 1}}
          - {when: iteration == 1 and chance(0.5), set: {x: 4}}
    metrics: {every: 1s, values: {x: "mean('a', 'x')", never: "mean_of('y')", n: count('a')}}
    """
    path = tmp_path / "chances.yaml"
    path.write_text(text)
    found = sim.sweep(path, seeds=8, out=tmp_path / "experiments", jobs=1)
    (row,) = found.estimates
    with (Path(found.folder) / "results.csv").open(newline="") as file:
        values = [None if line["x"] == "" else float(line["x"]) for line in csv.DictReader(file)]
    known = [value for value in values if value is not None]
    assert 0 < len(known) < 8
    assert row.outcomes["x"] == Estimate.of(known)
    assert (row.outcomes["x"].n, row.outcomes["x"].mean) == (len(known), 4)
    assert "never" not in row.outcomes
    page = (Path(found.folder) / "results.html").read_text()
    assert f"x has no value in {8 - len(known)} of 8 trials" in page
    assert "never has no value in 8 of 8 trials" in page


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("mean('ant', 'energy') < 1", "mean('ant', 'energy')"),
        ("2 * mean('ant', 'energy') == 3", "mean('ant', 'energy')"),
        ("-gini('ant', 'energy') > 0", "gini('ant', 'energy')"),
        ("round(mean('ant', 'energy')) == 3", "mean('ant', 'energy')"),
        ("mean('ant', 'energy')", "mean('ant', 'energy')"),
    ],
)
def test_a_stop_condition_that_needs_a_value_says_so(tmp_path: Path, text: str, named: str) -> None:
    """A stop condition over no value neither holds nor does not: the run fails, and the error names what has none."""
    path = tmp_path / "stop.yaml"
    path.write_text(f'{EXTINCT}stop: {{when: "{text}"}}\n')
    with pytest.raises(RunError) as raised:
        sim.run(path)
    assert named in str(raised.value)
    assert "has no value (null)" in str(raised.value)
    assert raised.value.hint is not None
    path.write_text(f"{EXTINCT}stop: {{when: \"count('ant') > 0 and {text}\"}}\n".replace("< 1", "> 1"))
    assert sim.run(path).stopped_by if text.endswith("< 1") else True


def test_a_rule_that_needs_a_value_says_so(tmp_path: Path) -> None:
    """An iteration whose rule computes with no value fails, and the error names what has none."""
    path = tmp_path / "rule.yaml"
    path.write_text("name: r\nuntil: 2s\nagents: [{name: a, state: {x: null, y: 0}, rules: [{set: {y: '=x + 1'}}]}]\n")
    result = sim.run(path)
    assert result.errors > 0
    assert "`x` has no value (null)" in str(result.commonest_error)


LENIENT: list[tuple[str, Any]] = [
    ("none / 3", None), ("3 / 0", None), ("3 // 0.0", None), ("7 % 0", None), ("none > 2", None),
    ("1 < none < 3", None),
    ("max(none, 0)", None), ("max([1, none])", None), ("min([])", None), ("sum([none])", None), ("abs(none)", None),
    ("sum([x / 0 for x in [1, 2]])", None), ("-none", None), ("none is None", True), ("0 if none is None else 1", 0),
    ("none == 0", False), ("not none", True), ("first([])", None), ("len([none])", 1), ("2 + 3", 5),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), LENIENT)
def test_null_goes_through_a_metric(text: str, value: Any) -> None:
    """In a metric, what is computed from no value has none; elsewhere it is an error, or the same value."""
    expression = Expression.parse(text)
    found = expression.evaluate({}, PURE_FUNCTIONS, lenient=True)
    assert found == value
    assert type(found) is type(value)
    if value is None and text != "first([])":
        with pytest.raises(ExpressionError):
            expression.evaluate({}, PURE_FUNCTIONS)
    else:
        assert expression.evaluate({}, PURE_FUNCTIONS) == value
