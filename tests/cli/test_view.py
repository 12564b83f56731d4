import json
import shutil
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.inbox.helpers import going_on


def test_a_view_is_written_beside_the_run(sim, tiny):
    """`sim view` writes `view.html` in the folder of the run; --to names another file, --force replaces it."""
    folder = sim("run", tiny, "--quiet").out.strip()
    assert sim("view", folder).out.strip() == f"{folder}/view.html"
    told = json.loads(sim("view", "tiny", "--to", "tiny.html", "--json").out)
    assert told["file"] == "tiny.html"
    assert told["chunks"] == 1
    assert told["events"] == json.loads(sim("show", "tiny", "--json").out)["events"]
    again = sim("view", "tiny", "--to", "tiny.html")
    assert again.code == 2
    assert "tiny.html exists" in again.err
    assert sim("view", "tiny", "--to", "tiny.html", "--force").code == 0
    assert Path("tiny.html").stat().st_mode & 0o077 == 0


def test_a_view_of_an_archive_is_written_beside_it(sim, tiny):
    """The run in an archive has its page beside the archive, and `--force` is needed to replace it."""
    shutil.make_archive("tiny", "zip", sim("run", tiny, "--quiet").out.strip())
    assert sim("view", "tiny.zip").out.strip() == "tiny.view.html"
    assert sim("view", "tiny.zip").code == 2
    assert sim("view", "tiny.zip", "--force").code == 0


def test_a_view_with_repeated_prompts(sim, tiny):
    """--repeat replays the run; a run that cannot be served and written at once says so."""
    sim("run", tiny, "--quiet")
    assert sim("view", "tiny", "--repeat").code == 0
    assert "--repeat" in sim("view", "tiny", "--repeat", "--serve", "0").err


def test_wrong_use_of_view(sim, tiny):
    """What cannot be combined, a port that is none, and a run that is not there are wrong usage."""
    sim("run", tiny, "--quiet")
    both = sim("view", "tiny", "--to", "x.html", "--serve", "0")
    assert both.code == 2
    assert "--serve writes no file" in both.err
    assert sim("view", "tiny", "--serve", "70000").code == 2
    assert sim("view", "nothing").code == 2
    unused = sim("view", "tiny", "--allow", "nosuch")
    assert (unused.code, "--allow is for a replay" in unused.err) == (2, True)
    assert "--repeat or --serve" in unused.err


@pytest.mark.slow
def test_a_run_under_way_is_served_so_nothing_is_written(sim, tiny, start, tmp_path):
    """--repeat and --force are about a page that is written; for a run under way they need --to."""
    start("run", tiny, "--clock", "wall", "--speed", "1", "--quiet")
    run = going_on(tmp_path / "runs")
    for option in ("--repeat", "--force"):
        done = sim("view", run, option)
        assert (done.code, "is under way, and its page is served" in done.err) == (2, True)


@pytest.mark.proof
def test_a_finished_run_is_served_until_ctrl_c(sim, tiny, start):
    """`--serve` prints the address of the page, as JSON with --json, and ends with success at Ctrl-C."""
    sim("run", tiny, "--quiet")
    process = start("view", "tiny", "--serve", "--json")
    url = json.loads(process.stdout.readline())["address"]
    with urlopen(url) as answer:  # noqa: S310 - on this machine
        assert b"tiny (seed 3): view" in answer.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
