"""Societies: the scenarios of the feed, of generative agents, of games and of group talk, and their kinds as guests."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sim
from sim.agents.family import FAMILIES
from sim.base.errors import ScenarioError
from sim.llm import Access
from sim.scenario import loads
from sim.scenario.assembly.kind_checks import check_families
from sim.world.section import SECTIONS
from tests.docs.terminals import blocks
from tests.llm.endpoint import Endpoint, Reply, Seen, fitting

ROOT = Path(__file__).parents[2]
KINDS = ("feed", "games", "generative")
SCENARIOS = {
    "propagation": "6h", "herd": "3h", "smallville": "7h30m", "jury": "2m", "asch": "20s", "axelrod": "1s",
    "hawk_dove": "3s",
}  # fmt: skip
"""How long each runs here."""

USED = """
import sys
import sim
from sim.agents.family import FAMILIES
from sim.record.views import VIEWS
from sim.world.section import SECTIONS

for file in sys.argv[1:]:
    sim.load(file)
assert sim.run(sys.argv[1], until="1h", out=None).status == "finished"
for known in (FAMILIES, SECTIONS, VIEWS):
    assert all(known.values())
print(sim.__file__)
"""
"""Loads scenarios, runs one, and imports all that defines a kind, a section or a view."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_society_is_the_same_on_both_loops_in_a_replay_and_resumed(name, tmp_path):
    """Each runs offline with one hash on asyncio and trio; a replay is exact, and a run that was stopped ends alike."""
    file, until = ROOT / "scenarios" / f"{name}.yaml", SCENARIOS[name]
    whole = sim.run(file, until=until, out=tmp_path / "one")
    assert sim.run(file, until=until, backend="trio", out=None).hash == whole.hash
    replayed = sim.replay(whole)
    assert replayed.same, replayed.difference
    cut = sim.run(file, until=until, max_wall="1ms", out=tmp_path / "two")
    assert cut.status == "interrupted"
    assert cut.run is not None
    assert sim.resume(cut.run).hash == whole.hash


def _answer(seen: Seen) -> Reply:
    """Answer as a model that likes the first post once, and plays the first move that it is offered."""
    task = str(seen.body["messages"][-1]["content"])
    offered = {tool["function"]["name"] for tool in seen.body.get("tools", ())}
    if offered:
        name = next(one for one in offered if one.endswith("like_post") and "dis" not in one)
        return fitting(seen, "", calls=[(name, '{"post": 1}')] if "The bridge is closed" in task else [])
    form = re.search(r"one of these, and nothing else: (.+?) /", task)
    return fitting(seen, form[1] if form is not None else "yes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "name", "query", "expected"),
    [
        ("feed", "readers", "SELECT count(*) FROM votes WHERE vote = 1", 3),
        ("games", "wordings", "SELECT avg(move = 'share') FROM plays", 1),
    ],
)
def test_a_scenario_of_a_page_is_the_same_file_at_an_endpoint(page, name, query, expected, tmp_path):
    """What a script answers can be asked of a model over HTTP, with no key of the file changed; a replay needs none."""
    texts = blocks((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), "yaml")
    (text,) = [one for one in texts if one.startswith(f"name: {name}\n")]
    file = tmp_path / f"{name}.yaml"
    file.write_text(text, encoding="utf-8")
    with Endpoint(_answer) as endpoint:
        access = Access(models=("openai:small",), base_url=endpoint.url)
        result = sim.run(file, access=access, out=tmp_path)
        assert endpoint.seen
    with sim.open(str(result.run)) as run:
        assert run.query(query) == [(expected,)]
    assert sim.replay(result).same


def _lines(kind: str) -> tuple[int, int, int]:
    """Return how many lines a kind has: all, those that are not blank, and those of code."""
    counts = [0, 0, 0]
    for file in (ROOT / "sim" / "kinds" / kind).glob("*.py"):
        text = file.read_text(encoding="utf-8")
        nodes = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Expr)]
        described = {
            line
            for one in nodes
            if isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
            for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
        }
        for number, line in enumerate(text.splitlines(), 1):
            counts[0] += 1
            counts[1] += bool(line.strip())
            counts[2] += bool(line.strip()) and number not in described and not line.strip().startswith("#")
    return counts[0], counts[1], counts[2]


def test_the_kinds_have_the_lines_that_the_page_says():
    """docs/kinds.md is right to a thirtieth, and the three have fewer than 3,500 lines that are not blank."""
    page = (ROOT / "docs" / "kinds.md").read_text(encoding="utf-8")
    found = {kind: _lines(kind) for kind in KINDS}
    for kind, counts in found.items():
        row = re.search(rf"^\| `sim/kinds/{kind}` \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
        assert row is not None
        assert [int(one) for one in row.groups()] == [pytest.approx(count, rel=1 / 30) for count in counts]
    assert sum(counts[1] for counts in found.values()) < 3500


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_is_removed_leaves_no_trace(kind, tmp_path):
    """Without its folder and its lines in the list of words, no module of `sim` names it, and all else is found."""
    shutil.copytree(ROOT / "sim", tmp_path / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "sim" / "kinds" / kind)
    words = tmp_path / "sim" / "base" / "words.py"
    kept = [line for line in words.read_text(encoding="utf-8").splitlines(True) if f"sim.kinds.{kind}" not in line]
    words.write_text("".join(kept), encoding="utf-8")
    named = re.compile(rf"\bsim\.kinds\.{kind}\b")
    found = [file for file in (tmp_path / "sim").rglob("*.py") if named.search(file.read_text(encoding="utf-8"))]
    assert found == []
    files = [str(ROOT / "scenarios" / f"{name}.yaml") for name in ("contagion", "schelling")]
    done = subprocess.run(
        [sys.executable, "-c", USED, *files], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "sim" / "__init__.py")


def test_the_gallery_has_the_figures_of_the_pages():
    """Each society that is compared has a row in the one table of published results, with the figures of its page."""
    gallery = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md#[^)]*\) \| [^|]* \| ([^|]*) \| ([^|]*) \|$", gallery, re.MULTILINE)
    assert {name for name, *_ in rows} == SCENARIOS.keys() - {"propagation"}  # of which no published figure is cited
    for _, page, *cells in rows:
        text = " ".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").split())
        for cell in cells:
            for figure in re.findall(r"\d+\.\d+", cell):
                assert figure in text or f"{float(figure):.2f}" in text or figure.rstrip("0") in text, (page, figure)


@pytest.mark.parametrize("kind", [name for name, family in FAMILIES.items() if family.needs])
def test_the_hints_lead_to_a_scenario_with_what_a_kind_needs(kind):
    """A scenario with agents of a kind alone passes the check once what its hints say is added, in this form; and a
    section by name without an entry is refused as one that is not there.
    """
    text = f"name: x\nuntil: 1s\nagents: [{{name: a, kind: {kind}}}]\n"
    for need in FAMILIES[kind].needs:
        for empty in ("", f"{need}: {{}}\n") if need in SECTIONS and SECTIONS[need].by_name else ("",):
            with pytest.raises(ScenarioError, match="which needs") as found:
                check_families(loads(text + empty))
        (problem,) = found.value.problems
        hint = re.fullmatch(r"add `(.*)`", problem.hint or "")
        assert hint is not None
        text += f"{hint[1]}\n"
    check_families(loads(text))
