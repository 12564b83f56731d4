import json
import math
import re

import pytest

from sim.cli.render.summary import BLOCKS, sparkline
from sim.record.summary import ends_of


@pytest.mark.slow
def test_new_scenario_runs(sim, tiny):
    """What `sim new` writes is accepted by `sim check` and can be run."""
    written = sim("new", "village")

    assert written.code == 0
    assert sim("check", "village.yaml").out == "village.yaml: ok: 25 agents, until 1d\n"
    result = json.loads(sim("run", "village.yaml", "--no-record", "--json").out)
    assert (result["status"], result["errors"], result["refused"]) == ("finished", 0, {})
    assert result["metrics"]["informed"][-1] == 25


@pytest.mark.slow
def test_new_brings_the_schema(sim, tiny):
    """The starter names its schema in the way of editors, and the schema lies beside it."""
    files = json.loads(sim("new", "village", "--json").out)["files"]
    folder = tiny.parent

    assert files == ["village.yaml", "scenario.schema.json"]
    assert (folder / "village.yaml").read_text().startswith("# yaml-language-server: $schema=scenario.schema.json\n")
    assert json.loads((folder / "scenario.schema.json").read_text()) == json.loads(sim("info", "schema", "--json").out)
    assert json.loads(sim("new", "town", "--json").out)["files"] == ["town.yaml"]


def test_new_replaces_nothing(sim, tiny):
    """A file that exists is not touched, and a name that no scenario can have is refused."""
    before = tiny.read_text()
    done = sim("new", "tiny")

    assert done.code == 2
    assert "tiny.yaml exists" in done.err
    assert tiny.read_text() == before
    assert sim("new", "../up").code == 2
    assert sim("new", "fine", "--dir", "nowhere").code == 2


@pytest.mark.slow
def test_schema(sim, tiny):
    """The schema goes to stdout or to a new file."""
    assert json.loads(sim("info", "schema").out)["$schema"].startswith("https://json-schema.org/")
    assert sim("info", "schema", "--to", "s.json").code == 0
    assert sim("info", "schema", "--to", "s.json").code == 2
    assert "agents" in json.loads((tiny.parent / "s.json").read_text())["properties"]


def test_check_names_all_problems(sim, tiny):
    """Every problem of every file is listed; one file that is not valid makes the exit code 2."""
    bad = tiny.with_name("bad.yaml")
    bad.write_text("name: bad\nsede: 3\nagents: [{name: a, knid: policy}]\n")
    done = sim("check", tiny, bad)
    both = json.loads(sim("check", tiny, bad, "--json").out)

    assert done.code == 2
    assert f"{tiny}: ok: 3 agents, until 10m" in done.out
    assert f"  {bad}:2:1: sede: unknown key 'sede'\n    hint: did you mean 'seed'?" in done.out
    assert f"  {bad}:3:20: " in done.out
    assert [file["ok"] for file in both["scenarios"]] == [True, False]
    assert len(both["scenarios"][1]["problems"]) == 2
    assert sim("check", tiny).code == 0


def test_check_computes_start_values(sim, tiny):
    """A start value that is well formed but cannot be computed is found without a run."""
    tiny.write_text("name: tiny\nagents: [{name: a, state: {x: '=1 / index'}}]\n")

    assert sim("check", tiny).code == 2


@pytest.mark.parametrize(
    ("kind", "said", "hint"),
    [
        ("mine:Worker", "'mine:Worker' names a module, which is not allowed", "--allow mine"),
        ("polcy", "there is no kind of agent 'polcy'", "policy"),
    ],
)
def test_check_says_what_it_did_not_check(sim, tiny, kind, said, hint):
    """A kind that is not known has settings of which nothing is known: that is a warning, with what to do."""
    tiny.write_text(f"name: tiny\nagents:\n  - {{name: a, kind: '{kind}', settings: {{wrong: 1}}}}\n")
    found = json.loads(sim("check", tiny, "--json").out)["scenarios"][0]
    (warning,) = found["warnings"]
    assert (found["ok"], warning["line"]) == (True, 3)
    assert said in warning["message"]
    assert warning["message"].endswith("; so its settings were not checked")
    assert hint in warning["hint"]


def test_sparkline():
    """A series becomes blocks from its minimum to its maximum; a long one is averaged, a flat one is low."""
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == BLOCKS
    assert sparkline([5, 5, 5]) == BLOCKS[0] * 3
    assert len(sparkline([float(n) for n in range(1000)])) == 40


def test_sparkline_of_numbers_without_end():
    """What is not finite has no block, as a missing value has none; finite numbers have one, however far apart."""
    nan, inf = math.nan, math.inf
    assert sparkline([0, nan, 7, inf, -inf, None]) == f"{BLOCKS[0]} {BLOCKS[-1]}   "
    assert sparkline([nan, inf]) == ""
    assert sparkline([-1.7e308, 0.0, 1.7e308]) == f"{BLOCKS[0]}{BLOCKS[4]}{BLOCKS[-1]}"
    assert sparkline([1.7e308] * 999) == BLOCKS[0] * 40
    assert ends_of([nan, 2.0, inf, 1.0])[1:] == (1.0, 1.0, inf)


@pytest.mark.slow
def test_a_metric_that_is_not_finite_leaves_the_summary_whole(sim, tiny):
    """A run with such a metric is summed up as any other: the table has the value, and what follows it is printed."""
    tiny.write_text(
        "name: tiny\nuntil: 3s\nagents:\n"
        "  - {name: a, state: {x: 0}, loop: {min_loop_delay: 1s}, "
        "rules: [{do: noop, set: {x: =remaining('a' + 'b')}}]}\n"
        "metrics: {every: 1s, values: {most: \"total('a', 'x')\"}}\n"
    )
    shown = sim("run", tiny)
    assert shown.code == 0
    assert re.search(r"^most +0 +inf +0 +inf +▁$", shown.out, re.MULTILINE), shown.out
    assert "sim view" in shown.out
