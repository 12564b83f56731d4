import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting
from tests.viewer.conftest import read


@pytest.fixture
def run(sim, tiny):
    """The folder of a run of the small scenario."""
    return sim("run", tiny, "--quiet").out.strip()


def test_report_is_written_beside_the_run(sim, run):
    """`sim report` names the file that it wrote, which is the report of that run."""
    done = sim("report", run)

    assert done.code == 0
    assert done.out.strip() == f"{run}/report.html"
    with open(done.out.strip(), encoding="utf-8") as file:  # noqa: PTH123 - the folder where the command ran
        assert "tiny (seed 3): report" in file.read()


def test_report_goes_where_it_is_told(sim, run, tmp_path):
    """--to names the file, which is replaced only with --force; --json says what was written."""
    first = sim("report", "tiny", "--to", "tiny.html", "--json")
    second = sim("report", "tiny", "--to", "tiny.html")

    size = (tmp_path / "tiny.html").stat().st_size
    assert json.loads(first.out) == {"file": "tiny.html", "bytes": size, "whole": True}
    assert second.code == 2
    assert "tiny.html exists" in second.err
    assert sim("report", "tiny", "--to", "tiny.html", "--force").code == 0


def test_a_report_says_that_it_has_the_overview_alone(sim, run, monkeypatch):
    """If browsers could not open the page with all events, it has the overview alone, and a sentence says so."""
    monkeypatch.setattr("sim.inspect.viewer.blocks.MOST_BYTES", 4_000)
    done = sim("report", run)
    assert (done.code, done.out.strip()) == (0, f"{run}/report.html")
    assert "the page has the overview alone" in done.err
    assert "sim view RUN --serve shows them" in done.err
    refused = sim("view", run)
    assert refused.code == 1
    assert "--serve" in refused.err


def test_report_of_nothing(sim, run):
    """A run that is not there is wrong usage."""
    assert sim("report", "nothing").code == 2


def test_a_report_is_no_part_of_the_run(sim, run):
    """A run with a report beside it is listed, shown and replayed as before."""
    sim("report", run)

    assert len(json.loads(sim("list", "--json").out)["runs"]) == 1
    assert sim("replay", run).code == 0


POLL = """
name: poll
until: 1h
agents: [{name: person, count: 4, rules: [{do: {sleep: {for: 2h}}}]}]
models: {rules: [{say: "5"}]}
interventions:
  - at: 10m
    survey:
      questions: [{ask: How worried are you?, scale: [1, 7]}, {ask: Do you trust them?, options: ["yes", "no"]}]
  - {at: 20m, survey: {questions: [{ask: How worried are you?, scale: [1, 7]}, Why?]}}
"""


def speak(seen: Seen) -> Reply:
    """Answer as one person who evades the first question, one for whom the model fails at the last, and others."""
    first, *rest = (message["content"] for message in seen.body["messages"])
    said = "\n".join(rest)
    if "Why?" in said:
        return error(400, "no") if "person-2" in first else fitting(seen, "Because.")
    if "trust" in said:
        return fitting(seen, "Yes, I do.")
    return fitting(seen, "That is hard to say." if "person-1" in first else "5")


def test_missing_answers_are_said_by_question(sim, tmp_path, monkeypatch):
    """The end of a run, its JSON and its report say the same of each question of its surveys: how often it was asked,
    and how many answers are missing, also of those that failed.
    """
    monkeypatch.chdir(tmp_path)
    Path("poll.yaml").write_text(POLL)
    with Endpoint(speak) as endpoint:
        done = sim("run", "poll.yaml", "--model", "lab:m", "--endpoint", f"lab={endpoint.url}")
    assert done.code == 0, done.err

    expected = {
        "How worried are you?": {"answers": 8, "missing": 2},
        "Do you trust them?": {"answers": 4, "missing": 0},
        "Why?": {"answers": 4, "missing": 1},
    }
    assert json.loads(sim("show", "poll", "--json").out)["models"]["surveys"] == expected
    rows = [re.split(r" {2,}", line.strip()) for line in done.out.splitlines()]
    table = rows[rows.index(["question", "answers", "missing"]) + 1 :][:3]
    assert sorted(table) == sorted([ask, *map(str, counts.values())] for ask, counts in expected.items())
    page = read(Path(sim("report", "poll").out.strip()))
    sections = {one["name"]: one["data"] for one in json.loads(page.blocks[page.about["overview"]])["sections"]}
    shown: dict[str, Counter[str]] = {}
    for asked in sections["surveys"]["questions"]:
        for row in asked["rows"]:
            if row["group"] == "":  # of all agents
                counts = {name: row[name] for name in ("answers", "missing")}
                shown.setdefault(asked["question"], Counter()).update(counts)
    assert shown == expected
