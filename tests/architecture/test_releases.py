"""What a release consists of is consistent: the version, the changelog, and the wheels."""

import re
import tomllib
from pathlib import Path

import pytest

import sim

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SECTIONS = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_version_is_the_same_everywhere():
    """The package, its metadata, the citation and the newest release of the changelog have one version and one date."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version, day = re.findall(r"^(?:version|date-released): (.*)$", citation, re.MULTILINE)
    assert PYPROJECT["project"]["version"] == sim.__version__ == version
    assert SECTIONS[1] == f"[{version}] - {day}"


def test_the_changelog_has_a_section_for_each_release():
    """Unreleased changes come first; each release follows with its date, the newest first."""
    assert SECTIONS[0] == "[Unreleased]"
    releases = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", section) for section in SECTIONS[1:]]
    assert all(releases), SECTIONS
    versions = [tuple(map(int, release.groups())) for release in releases if release]
    assert versions == sorted(set(versions), reverse=True)


def test_wheels_are_built_for_every_supported_python():
    """Wheels are for CPython 3.11 to 3.14, from the oldest version that pip accepts, and each is tested."""
    wheels = PYPROJECT["tool"]["cibuildwheel"]
    assert wheels["build"] == [f"cp3{minor}-*" for minor in range(11, 15)]
    assert PYPROJECT["project"]["requires-python"] == ">=3.11"
    assert {"linux", "macos", "windows"} <= wheels.keys()
    assert wheels["test-command"]
    for command in wheels["test-command"]:
        for path in re.findall(r"\{project\}/(\S+)", command):
            assert (ROOT / path).is_file()


def test_pip_shows_every_supported_python():
    """The classifiers name the versions of Python for which there are wheels."""
    minors = [name.removeprefix("cp3").removesuffix("-*") for name in PYPROJECT["tool"]["cibuildwheel"]["build"]]
    known = [text for text in PYPROJECT["project"]["classifiers"] if text.startswith("Programming Language :: Python")]
    assert known == [f"Programming Language :: Python :: 3.{minor}" for minor in minors]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_pages_name_extras_that_exist(page):
    """What a page tells to install is an extra of the package."""
    named = re.findall(r"actor-sim\[([a-z,]+)\]", page.read_text(encoding="utf-8"))
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert {extra for names in named for extra in names.split(",")} <= set(extras)


def test_the_readme_names_every_extra():
    """Who installs the package learns from the README what there is to add."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [extra for extra in PYPROJECT["project"]["optional-dependencies"] if f"[{extra}]" not in text] == []
