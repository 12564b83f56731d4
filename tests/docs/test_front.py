"""The README says what `python -m benchmarks.front` has measured, and nothing else in figures."""

import json
import re
from pathlib import Path

import pytest

import sim
from benchmarks import front
from benchmarks.front_page import NAMES, PARTS, render
from sim.base.extras import PACKAGES
from sim.scenario import load
from sim.scenario.loading import json_schema

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = json.loads(front.RESULTS.read_text(encoding="utf-8"))


def test_the_measured_parts_are_what_was_measured():
    """Each part with figures follows from benchmarks/front.json word for word, and the page names the command."""
    assert render(README, RESULTS) == README, "uv run python -m benchmarks.front --render"
    assert set(re.findall(r"<!-- measured: (\w+) -->", README)) == set(PARTS)
    assert "`uv run python -m benchmarks.front`" in README


def test_no_other_part_has_a_figure():
    """Outside of measured parts, code and links, the page has no number but those of versions and of a processor."""
    text = re.sub(r"<!-- measured: .*?<!-- /measured -->|^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)|Python 3\.11 or later|version 0\.1\.0|x86-64|`[^`]*`", "]", text)
    assert re.findall(r".*\d.*", text) == []


def test_what_was_measured_is_this_project():
    """The first scenario has as many agents and days as the figures say, and the tools are those that are pinned."""
    first = load(ROOT / "scenarios" / "ecology.yaml")
    assert RESULTS["first"]["agents"] == sum(int(entry.count) for entry in first.agents)
    assert RESULTS["first"]["days"] == first.end_ns / 86_400e9
    versions = RESULTS["measured"]["versions"]
    assert tuple(versions) == NAMES == tuple(tool.name for tool in front.TOOLS)
    assert versions["sim"] == sim.__version__
    pinned = {tool.name: tool.requirements[0].partition("==")[2] for tool in front.TOOLS if tool.name != "sim"}
    assert {name: versions[name] for name in pinned} == pinned
    assert {row: set(values) for row, values in RESULTS["figures"].items() if row in front.MEASURED} == {
        row: set(peers) for row, (*_, peers) in front.MEASURED.items()
    }


@pytest.mark.slow
def test_a_package_is_used_where_the_page_says():
    """The README says of four packages in which package of `sim` they are used: no other module imports them."""
    told = " ".join(README.split())
    for package, folder in (("openai", "llm"), ("aiolimiter", "llm"), ("prometheus_client", "inspect.telemetry")):
        users = {
            ".".join(path.relative_to(ROOT / "sim").parts[: folder.count(".") + 1])
            for path in (ROOT / "sim").rglob("*.py")
            if re.search(rf"^\s*(?:import|from) {package}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        }
        assert users == {folder}
        assert re.search(rf"`{package.replace('_', '-')}`[^.;]*? \((?:used )?in `sim\.{re.escape(folder)}`", told)
    assert set().union(*PACKAGES.values()) > {"openai", "aiolimiter", "prometheus_client", "trio"}


def test_what_a_scenario_needs_is_what_the_page_says():
    """The page names the keys without a default that a scenario needs."""
    assert json_schema()["required"] == ["name", "agents"]
    assert "It needs a `name` and `agents`; nearly all other keys have a default." in " ".join(README.split())


def test_the_page_names_the_version():
    """The version stands in the text and in the name of the wheel that it builds."""
    assert set(re.findall(r"(?:version |actor_sim-)(\d+\.\d+\.\d+)", README)) == {sim.__version__}
