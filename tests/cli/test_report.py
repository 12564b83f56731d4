import json

import pytest


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

    assert json.loads(first.out) == {"file": "tiny.html", "bytes": (tmp_path / "tiny.html").stat().st_size}
    assert second.code == 2
    assert "tiny.html exists" in second.err
    assert sim("report", "tiny", "--to", "tiny.html", "--force").code == 0


def test_report_of_nothing(sim, run):
    """A run that is not there is wrong usage."""
    assert sim("report", "nothing").code == 2


def test_a_report_is_no_part_of_the_run(sim, run):
    """A run with a report beside it is listed, shown and replayed as before."""
    sim("report", run)

    assert len(json.loads(sim("list", "--json").out)["runs"]) == 1
    assert sim("replay", run).code == 0
