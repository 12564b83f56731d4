import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

TINY = "name: tiny\nuntil: 1m\nagents: [{name: a, count: 2, loop: {min_loop_delay: 1s}}]\n"
FAILING = (
    "name: failing\nexecution: {max_deltas: 10}\nagents: [{name: a, loop: {min_loop_delay: 0, max_loop_delay: 1}}]\n"
)


def test_a_file_is_written_at_the_end(sim, tiny):
    """`--metrics-file` has the counts of the run; stdout stays one JSON object."""
    done = sim("run", tiny, "--no-record", "--json", "--metrics-file", "run.prom", "--metrics-agent", "walker-1")
    text = Path("run.prom").read_text()
    summary = json.loads(done.out)

    assert done.code == 0
    assert 'sim_run_status{status="finished"} 1.0' in text
    assert f'sim_iterations_total{{group="walker"}} {summary["iterations"]}.0' in text
    assert text.count("sim_agent_iterations_total{") == 1


def test_a_failed_run_leaves_its_metrics(sim, tiny):
    """A run that fails writes its metrics as well, with the status that says so; its error is what counts."""
    tiny.write_text(FAILING)
    done = sim("run", tiny, "--no-record", "--metrics-file", "run.prom")

    assert done.code == 1
    assert 'sim_run_status{status="failed"} 1.0' in Path("run.prom").read_text()
    again = sim("run", tiny, "--no-record", "--metrics-file", "nowhere/run.prom")
    assert again.code == 1
    assert "sim: warning: the metrics cannot be written to nowhere/run.prom: No such file" in again.err
    assert "livelock" in again.err.lower() or "sim: error:" in again.err


def test_a_file_that_cannot_be_written_is_an_error(sim, tiny):
    """The run's metrics are a part of what was asked for."""
    done = sim("run", tiny, "--no-record", "--metrics-file", "nowhere/run.prom")

    assert done.code == 1
    assert "sim: error: the metrics cannot be written to nowhere/run.prom: No such file or directory\n" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--linger",), "--linger needs --metrics, because otherwise no metrics are served"),
        (("--metrics-agent", "a"), "--metrics-agent needs --metrics or --metrics-file"),
        (("--metrics", "x\x1b[31m"), "'x\\x1b[31m' is not of the form [HOST:]PORT"),
        (("--metrics", "192.0.2.1:9464"), "metrics cannot be served at http://192.0.2.1:9464: "),
        (("--metrics", "0", *["--metrics-agent", "a"] * 51), "at most 50 patterns for series of agents"),
    ],
)
def test_wrong_usage(sim, tiny, arguments, said):
    """What does not fit together, or cannot be, is said before the run begins."""
    done = sim("run", tiny, "--no-record", *arguments)

    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_an_estimate_serves_nothing(sim, tiny):
    """`--estimate` takes the options of a run, and runs nothing."""
    done = sim("run", tiny, "--estimate", "--metrics", "0")

    assert done.code == 0
    assert "metrics" not in done.err


def test_all_networks_are_warned_of(sim, tiny):
    """An address that others can reach is served, with a warning."""
    done = sim("run", tiny, "--no-record", "--metrics", "0.0.0.0:0")

    assert done.code == 0
    assert "sim: warning: the metrics have no password" in done.err


@pytest.mark.slow
def test_without_the_options_nothing_is_imported(tmp_path):
    """A run without metrics does not pay for the library, nor for a thread."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "look.py").write_text(
        "import sys, threading\nfrom sim.cli import main\n"
        "try:\n    main(['run', 'tiny.yaml', '--no-record', '-q'])\nexcept SystemExit:\n    pass\n"
        "print('prometheus_client' in sys.modules, [t.name for t in threading.enumerate()])\n"
    )
    done = subprocess.run(
        [sys.executable, "look.py"], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )  # fmt: skip
    assert done.stdout == "False ['MainThread']\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_metrics_linger_until_interrupted(start, tmp_path):
    """With `--linger` the metrics of a run that has ended can be scraped until Ctrl-C; the exit code is the run's."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    process = start("run", "tiny.yaml", "--no-record", "--json", "--metrics", "0", "--linger")
    found = re.search(r"http://127\.0\.0\.1:\d+/metrics", process.stderr.readline())
    assert found
    result = json.loads(process.stdout.readline())
    deadline = time.monotonic() + 20
    while "until Ctrl-C" not in process.stderr.readline():
        assert time.monotonic() < deadline
    with urllib.request.urlopen(found[0], timeout=10) as answer:  # noqa: S310  # our own endpoint
        text = answer.read().decode()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert 'sim_run_status{status="finished"} 1.0' in text
    assert f'sim_iterations_total{{group="a"}} {result["iterations"]}.0' in text
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.slow
def test_metrics_are_served_during_the_run(start, tmp_path):
    """A run with the wall clock is seen to get on, and its endpoint goes with it."""
    (tmp_path / "slow.yaml").write_text(TINY.replace("1m", "1h") + "execution: {clock: wall, speed: 10}\n")
    process = start("run", "slow.yaml", "--no-record", "--quiet", "--metrics", "0")
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
    assert found
    seen: list[float] = []
    deadline = time.monotonic() + 30
    while len(set(seen)) < 3 and time.monotonic() < deadline:
        with urllib.request.urlopen(f"{found[0]}/healthz", timeout=10) as answer:  # noqa: S310  # the same
            seen.append(json.loads(answer.read())["simulated_seconds"] or 0.0)
        time.sleep(0.05)

    assert len(set(seen)) >= 3
    assert seen == sorted(seen)
    assert process.poll() is None
