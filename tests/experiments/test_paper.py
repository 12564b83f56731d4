"""Figures and tables of experiments for papers: files, labels, intervals, and what cannot be drawn."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.experiments.estimate import Estimate
from sim.experiments.paper import WIDTHS, save_figure
from sim.experiments.table_files import shown, table_text
from tests.helpers import command

SCENARIO = """
name: line
until: 30s
metrics: {every: 10s, values: {y: "total('a', 'y')"}}
outcomes:
  y: {value: last(y), label: "Sum of a_b, 10 % of $", unit: kg, scale: log}
  late: first_time(y > 2)
agents: [{name: a, state: {y: 0, slope: 1, kind: q}, loop: {min_loop_delay: 10s},
          rules: [{set: {y: '=y + slope * uniform(0.5, 1.5)'}}]}]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> sim.Experiment:
    """A sweep over a number and a text, with a baseline."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "line.yaml").write_text(SCENARIO)
    vary: dict[str, list[Any]] = {"agents.a.state.slope": [0.5, 1, 2], "agents.a.state.kind": ["x_1", "y&z"]}
    baseline = {"slope": 1, "kind": "x_1"}
    return sim.sweep(folder / "line.yaml", vary=vary, seeds=3, jobs=1, out=folder / "study", baseline=baseline)


@pytest.mark.slow
def test_a_figure_has_labels_units_scales_and_single_seeds(study: sim.Experiment) -> None:
    """Those of `outcomes`; a legend only for several lines; faint points for single seeds; the width of a column."""
    figure = study.figure("y")
    (axes,) = figure.axes
    assert axes.get_ylabel().replace("\n", " ") == r"Sum of a_b, 10 % of \$ (kg)"
    assert (axes.get_yscale(), axes.get_xscale(), axes.get_xlabel()) == ("log", "log", "state.slope")
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["state.kind=x_1", "state.kind=y&z"]
    points: list[Any] = [line for line in axes.lines if line.get_marker() == "."]  # their data has any form
    assert sum(len(line.get_xdata()) for line in points) == 18
    low, high = axes.get_ylim()
    assert all(low < value < high for line in points for value in line.get_ydata())
    assert figure.get_size_inches()[0] == pytest.approx(WIDTHS[1])
    assert study.figure("y", columns=2).get_size_inches()[0] == pytest.approx(WIDTHS[2])
    over_time = study.figure("y", over="time").axes[0]
    assert (len(over_time.collections), over_time.get_xlabel()) == (6, "simulated time (s)")
    differences = study.figure("y", differences=True).axes[0]
    assert differences.get_ylabel().startswith("difference in")
    assert differences.get_yscale() == "linear"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"over": "kind"}, "no axis over 'kind'"),
        ({"columns": 3}, "one or two columns"),
        ({"log": "z"}, "logarithmic axes are"),
        ({"log": "y", "differences": True}, "differences cannot be drawn on a logarithmic axis"),
    ],
)
def test_what_cannot_be_drawn_is_refused(study: sim.Experiment, options: dict[str, object], said: str) -> None:
    """One sentence says why."""
    with pytest.raises(UsageError, match=said):
        study.figure("y", **options)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["y.pdf", "y.svg", "y.png"])
def test_the_command_writes_the_figure(study: sim.Experiment, tmp_path: Path, name: str) -> None:
    """As PDF, SVG or PNG, the same bytes each time; a file that exists is kept."""
    first, again = tmp_path / name, tmp_path / f"again{Path(name).suffix}"
    code, _, err = command("export", study.folder, "figure", "y", "--to", first)
    assert code == 0, err
    save_figure(study.figure("y"), again)
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes()[:5] in (b"%PDF-", b"<?xml", b"\x89PNG\r")
    code, _, err = command("export", study.folder, "figure", "y", "--to", first)
    assert (code, "exists already" in err) == (2, True)


def test_the_command_writes_tables(study: sim.Experiment, tmp_path: Path) -> None:
    """LaTeX with the rules of booktabs and escaped names, Markdown, and CSV with all digits."""
    for name in ("t.tex", "t.csv", "t.md", "d.tex"):
        options = ["--differences"] if name == "d.tex" else []
        code, _, err = command("export", study.folder, "table", "--to", tmp_path / name, *options)
        assert code == 0, err
    latex = (tmp_path / "t.tex").read_text()
    assert latex == study.to_latex()
    assert latex.startswith("\\begin{tabular}{llrrr}\n\\toprule\n")
    assert "Sum of a\\_b, 10 \\% of \\$ (kg)" in latex
    assert "y\\&z & 3 & $" in latex
    assert "$ \\\\\n\\bottomrule\n\\end{tabular}\n" in latex
    assert "baseline & difference" in (tmp_path / "d.tex").read_text()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert float(rows[0]["Sum of a_b, 10 % of $ (kg)"]) == study.estimates[0].outcomes["y"].mean
    assert [row["late n"] for row in rows][:2] == ["0", "0"]  # slope 0.5 seldom comes so far
    assert "| ---: |" in (tmp_path / "t.md").read_text()
    assert "x\\_1" in (tmp_path / "t.md").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["figure", "y", "--to", "y.gif"], "a figure is not written as"),
        (["figure", "z", "--to", "y.pdf"], "there is no outcome 'z'"),
        (["table", "--to", "t.txt"], "a table needs a format"),
        (["results", "y", "--to", "t.csv"], "NAME is for a figure or a table"),
        (["table", "z", "--to", "t.tex"], "there is no outcome 'z'"),
        (["figure", "y", "--format", "csv", "--to", "y.pdf"], "--format is for a table"),
    ],
)
def test_usage_errors(study: sim.Experiment, tmp_path: Path, given: list[str], said: str) -> None:
    """What is no figure or table is refused, and nothing is written."""
    code, _, err = command("export", study.folder, *given[:-1], tmp_path / given[-1])
    assert (code, said in err, list(tmp_path.iterdir())) == (2, True, []), err


@pytest.mark.parametrize(
    ("mean", "half", "texts"),
    [
        (1.23456, 0.0456, ("1.235", "0.046")),
        (123.456, 45.6, ("123", "46")),
        (123456.0, 4560.0, ("123500", "4600")),
        (0.5, None, ("0.5", "")),
        (1.5e-12, 2e-13, ("1.5e-12", "2e-13")),
        (3.0, 0.0, ("3", "")),
    ],
)
def test_intervals_have_two_digits(mean: float, half: float | None, texts: tuple[str, str]) -> None:
    """Half the interval has two digits, and the mean as many decimals; n is told if some seeds have no value."""
    assert shown(Estimate(3, mean, half), [3]) == (*texts, "")
    assert shown(Estimate(2, mean, half), [3])[2] == " (n = 2)"


def test_every_sign_of_latex_is_escaped() -> None:
    """No name of a scenario is read as a command."""
    text = table_text(['\\&%$#_{}~^<>|"'], [["a\nb±"], [None]], "latex")
    assert r"\textbackslash{}\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}" in text
    assert "a b$\\pm$ \\\\\n-- \\\\" in text
    assert "$1.5\\times 10^{-12}$" in table_text(["x"], [[Estimate(1, 1.5e-12, None)]], "latex")


STOPS = """
name: stops
until: 60s
metrics: {every: 10s, values: {y: "total('a', 'y')"}}
stop: {when: "total('a', 'y') > 3"}
agents: [{name: a, state: {y: 0}, loop: {min_loop_delay: 10s}, rules: [{set: {y: '=y + uniform(0, 2)'}}]}]
"""


def test_a_figure_over_time_says_over_how_many_seeds(tmp_path: Path, study: sim.Experiment) -> None:
    """Runs that stop early have no later samples: the figure says how many seeds its means have; otherwise nothing."""
    (tmp_path / "stops.yaml").write_text(STOPS)
    swept = sim.sweep(tmp_path / "stops.yaml", seeds=8, jobs=1, out=tmp_path / "study")
    frame = swept.frame("series_estimates")
    counts = [n for n in frame["seeds"] if n >= 4]  # drawn is what at least half of the seeds have
    title = swept.figure("y", over="time").axes[0].get_title(loc="right")
    assert min(counts) < 8
    assert title == f"means over {min(counts)} to 8 seeds"
    assert study.figure("y", over="time").axes[0].get_title(loc="right") == ""


def test_a_table_has_the_outcomes_that_are_named(study: sim.Experiment, tmp_path: Path) -> None:
    """Of the estimates and of the differences, on the command line and in Python; the others are left out."""
    for options, what in (((), "estimates"), (("--differences",), "differences")):
        code, _, err = command("export", study.folder, "table", "late", "--to", tmp_path / f"{what}.md", *options)
        assert code == 0, err
        text = (tmp_path / f"{what}.md").read_text()
        assert "late" in text
        assert "Sum of a" not in text
        assert text == study.table(what, outcomes=["late"])  # type: ignore[arg-type]  # one of two words
