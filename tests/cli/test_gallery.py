"""`sim new --from`: copies of the scenarios that come with the package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sim.cli.gallery import scenario_copy, scenario_names, scenario_text, scenario_title
from sim.scenario import loads

SCENARIOS = Path(__file__).parents[2] / "scenarios"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(SCENARIOS.glob("*.yaml"))}
NAMES = list(TEXTS)


def test_the_gallery_has_the_files_of_the_folder():
    """The package `sim.gallery` has each scenario of the folder, named as its file; each says what it shows."""
    assert scenario_names() == NAMES
    for name in NAMES:
        (declared,) = (line for line in TEXTS[name].splitlines() if line.startswith("name: "))
        assert declared == f"name: {name}"
        assert scenario_text(name) == TEXTS[name]
        assert scenario_copy(name, "mine").count("\n") == TEXTS[name].count("\n")
        assert declared not in scenario_copy(name, "mine").splitlines()
        assert len(scenario_title(name)) > 20


@pytest.mark.slow
def test_editors_find_the_schema_of_the_folder(tmp_path):
    """Each scenario names the schema beside it, which is that of this version; `sim info schema` renews it.

    It is made in a process of its own: what other tests define in this one would be part of it.
    """
    for text in TEXTS.values():
        assert text.startswith("# yaml-language-server: $schema=scenario.schema.json\n")
    made = tmp_path / "made.json"
    subprocess.run([sys.executable, "-m", "sim", "info", "schema", "--to", str(made)], check=True, capture_output=True)
    assert json.loads((SCENARIOS / "scenario.schema.json").read_text(encoding="utf-8")) == json.loads(made.read_text())


@pytest.mark.proof
@pytest.mark.parametrize("name", NAMES)
def test_each_copy_is_a_valid_scenario_under_its_new_name(name):
    """A copy differs from its original in the name only, and is accepted as it stands."""
    copy = loads(scenario_copy(name, "mine"), "mine.yaml")
    original = loads(TEXTS[name], f"{name}.yaml")
    assert copy.name == "mine"
    assert [entry.name for entry in copy.agents] == [entry.name for entry in original.agents]


@pytest.mark.slow
def test_a_copy_names_its_schema_and_runs(sim, tiny):
    """A copy begins with the schema for editors, which lies beside it, and `sim run` takes it."""
    files = json.loads(sim("new", "outbreak", "--from", "contagion", "--json").out)["files"]
    text = (tiny.parent / "outbreak.yaml").read_text(encoding="utf-8")

    assert files == ["outbreak.yaml", "scenario.schema.json"]
    assert text.startswith("# yaml-language-server: $schema=scenario.schema.json\n# An outbreak")
    result = json.loads(sim("run", "outbreak.yaml", "--until", "12h", "--no-record", "--json").out)
    assert result["scenario"] == "outbreak"
    assert sim("new", "--from", "queue").out == "wrote queue.yaml; run it: sim run queue.yaml\n"
    assert sim("new", "--from", "lead-response").out.startswith("wrote lead-response.yaml")


def test_the_list_has_a_line_for_each_scenario(sim, tiny):
    """`--list` prints each name with what it shows, as text and as JSON, and writes nothing."""
    listed = json.loads(sim("new", "--list", "--json").out)["scenarios"]

    assert [one["name"] for one in listed] == NAMES
    lines = sim("new", "--list").out.splitlines()
    assert [line.split()[0] for line in lines[: len(NAMES)]] == NAMES
    assert listed[0]["description"] in lines[0]
    assert [path.name for path in tiny.parent.iterdir()] == [tiny.name]


def test_a_wrong_name_is_refused_with_the_nearest(sim, tiny):
    """A name that the gallery lacks, a path, no name at all, and a list with a name are refused; nothing is written."""
    wrong = sim("new", "--from", "contagon")
    assert (wrong.code, wrong.err) == (
        2,
        "sim: error: there is no scenario 'contagon' in the gallery\nhint: did you mean 'contagion'?\n",
    )
    assert "sim new --list" in sim("new", "--from", "../secrets").err
    assert sim("new").code == sim("new", "--list", "village").code == sim("new", "x", "--from", "y").code == 2
    assert [path.name for path in tiny.parent.iterdir()] == [tiny.name]
