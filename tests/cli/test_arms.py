"""`sim branch --arm`: several futures of one past, compared with a baseline."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.experiments.estimate import Estimate
from sim.experiments.plan import Plan
from sim.experiments.pool import cores
from tests.experiments.test_arms import SCENARIO
from tests.helpers import command

ROOT = Path(__file__).parents[2]
CONTAGION = ROOT / "scenarios" / "contagion.yaml"


@pytest.fixture
def bees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded run in the present folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bees.yaml").write_text(SCENARIO)
    return Path(sim.run("bees.yaml", out="runs", seed=4).run or "")


def arms(*arguments: object, code: int = 0, jobs: int = 1) -> dict[str, Any]:
    """Return what `sim branch --arm --json` prints. Processes take longer to begin than a few trials."""
    got, out, err = command("branch", *arguments, "--jobs", jobs, "--json")
    assert got == code, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_arms_are_branches_with_the_same_seeds(bees: Path) -> None:
    """Each trial is what `sim branch` gives with the same seed and changes; the baseline has no changes."""
    slower = "agents.bee.rules=[{do: noop}]"
    told = arms("bees", "--at", "4s", "--arm", f"slow:{slower}", "--arm", "same:", "--seeds", 3)
    assert [row["label"] for row in told["rows"]] == ["baseline", "slow", "same"]
    assert told["plan"]["past"]["at"] == "4s"
    folder = Path(told["folder"])
    lines = (folder / "results.csv").read_text().splitlines()
    assert lines[0].split(",")[:4] == ["point", "seed", "arm", "found"]
    (line,) = [line.split(",") for line in lines if line.startswith("1,5,")]
    single = sim.branch(bees, at="4s", seed=5, overrides=[slower])
    assert line[lines[0].split(",").index("hash")] == single.hash
    assert float(line[3]) == single.metrics["found"][-1]
    differences = {(one["arm"], one["outcome"]): one for one in told["differences"]}
    assert differences["same", "found"]["difference"] == {"n": 3, "mean": 0.0, "half": 0.0}
    assert differences["slow", "found"]["difference"]["mean"] < 0
    slow, same = told["reached"]
    assert [one["agent"] for one in slow["agents"]] == ["bee-1", "bee-2", "bee-3"] or len(slow["agents"]) == 3
    assert same["agents"] == []
    assert min(one["median_seconds"] for one in slow["agents"]) >= 4.0


def test_the_tables_and_the_page(bees: Path) -> None:
    """The terminal has arms, differences and whom they reach; the page is a file without a script."""
    code, out, err = command("branch", "bees", "--at", "0", "--arm", "high:agents.bee.state.power=0.9", "--seeds", 4)
    assert code == 0, err
    assert "differences from the baseline, seed by seed" in out
    assert "agents reached" in out
    assert out.splitlines()[-1] == "experiments/bees-1/results.html"
    page = Path("experiments/bees-1/results.html").read_text()
    assert "<script" not in page
    assert "Differences from the baseline" in page


def test_a_run_is_recorded_neither_by_arms_nor_by_a_branch_without_record(bees: Path) -> None:
    """Trials leave no run folder."""
    before = sorted(path.name for path in Path("runs").iterdir())
    arms("bees", "--at", "2s", "--arm", "same:", "--seeds", 2)
    recorded = sim.branch(bees, at="2s", seed=9, out="other")
    assert sim.branch(bees, at="2s", seed=9, record=False).hash == recorded.hash
    assert sim.branch(bees, at="2s", seed=9, record=False).run is None
    assert sorted(path.name for path in Path("runs").iterdir()) == before


def test_trials_can_be_recorded(bees: Path) -> None:
    """With `--record`, each trial is a run that can be shown and replayed."""
    told = arms("bees", "--at", "2s", "--arm", "same:", "--seeds", 2, "--record")
    runs = sorted((Path(told["folder"]) / "runs").iterdir())
    assert len(runs) == 4
    assert all(sim.replay(run).same for run in runs)
    lines = [line.split(",") for line in (Path(told["folder"]) / "results.csv").read_text().splitlines()]
    assert sorted(line[lines[0].index("run")] for line in lines[1:]) == [run.name for run in runs]


@pytest.mark.proof
def test_arms_that_were_killed_go_on(bees: Path) -> None:
    """`sim sweep --resume` goes on with arms, and the results are those of one in one go."""
    given = ["bees", "--at", "3s", "--arm", "same:", "--seeds", "40"]
    whole = arms(*given)
    process = subprocess.Popen(
        [sys.executable, "-m", "sim", "branch", *given, "--to", "killed"], env=None, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, cwd=Path.cwd(),
    )  # fmt: skip
    while not Path("killed/results.db").exists():
        time.sleep(0.01)
    time.sleep(0.7)
    process.send_signal(signal.SIGKILL)
    process.wait()
    code, out, err = command("sweep", "--resume", "killed", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == whole["rows"]
    assert json.loads(out)["id"] == whole["id"]


def test_a_plan_of_arms_is_for_its_run(bees: Path) -> None:
    """A plan is carried out again on the same run only."""
    told = arms("bees", "--at", "3s", "--arm", "same:", "--seeds", 2)
    file = Path(told["folder"]) / "plan.json"
    code, out, err = command("sweep", "--plan", file, "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == told["rows"]
    plan = Plan.from_json(file.read_text())
    assert plan.past is not None
    other = json.loads(file.read_text())
    other["past"]["uid"] = "another"
    file.write_text(json.dumps(other))
    code, _, err = command("sweep", "--plan", file)
    assert (code, "is not the run of this plan" in err) == (2, True)


def test_a_run_that_was_changed_has_arms_only_if_one_insists(bees: Path) -> None:
    """Trials of a run whose scenario has changed fail and say what accepts the change, which `--allow-change` does."""
    with (bees / "scenario.yaml").open("a") as file:
        file.write("# only a remark\n")
    told = arms("bees", "--at", "3s", "--arm", "same:", "--seeds", 2, code=1)
    assert "--allow-change" in told["problems"][0]["problem"]
    told = arms("bees", "--at", "3s", "--arm", "same:", "--seeds", 2, "--allow-change")
    assert [row["seeds"] for row in told["rows"]] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "2s", "--seeds", "3"], "--seeds compares arms"),
        (["--at", "2s", "--arm", "x:", "--seed", "3"], "--seed is for a single branch"),
        (["--at", "2s", "--arm", "x:", "--set", "until=1s"], "--set is for a single branch"),
        (["--at", "2s", "--arm", "x"], "does not say what an arm changes"),
        (["--at", "2s", "--arm", "x:agents.bee.count=9"], "cannot change at 2s"),
        (["--at", "2s", "--arm", "x:", "--most-seeds", "3"], "the most seeds are given without a precision"),
    ],
)
def test_wrong_usage(bees: Path, arguments: list[str], said: str) -> None:
    """One sentence says what is wrong, the exit code is 2, and nothing is left behind."""
    code, _, err = command("branch", "bees", *arguments)
    assert (code, said in err) == (2, True), err
    assert not Path("experiments").exists()


@pytest.mark.proof
def test_seeds_are_added_until_differences_are_precise(bees: Path) -> None:
    """All arms get the same seeds; a difference that is always nothing is precise with 33 seeds, 10 are too few."""
    same = arms("bees", "--at", "0", "--arm", "same:", "--seeds", 2, "--until-precision", "1%", "--outcome", "found")
    assert [row["seeds"] for row in same["rows"]] == [33, 33]
    given = ("--arm", "high:agents.bee.state.power=0.7", "--seeds", 2, "--until-precision", "8%", "--outcome", "found")
    told = arms("bees", "--at", "0", *given, "--most-seeds", 60)
    assert 10 <= told["rows"][0]["seeds"] == told["rows"][1]["seeds"] < 60
    (one,) = told["differences"]
    assert one["difference"]["half"] <= 0.08 * one["baseline"]["mean"]


# -- proofs


def _contagion(beta: float, seed: int) -> float:
    infected = sim.run(CONTAGION, seed=seed, overrides=[f"agents.person.state.beta={beta}"]).metrics["R"][-1]
    assert infected is not None
    return float(infected)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_common_random_numbers_leave_a_third_of_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`contagion`, beta ± 5 %, 50 seeds: the standard error of the paired difference is at most a third."""
    monkeypatch.chdir(tmp_path)
    sim.run(CONTAGION, out="runs")
    beta = "agents.person.state.beta"
    told = arms(
        "contagion",
        "--at",
        "0",
        "--arm",
        f"low:{beta}=0.076",
        "--arm",
        f"high:{beta}=0.084",
        "--seeds",
        50,
        jobs=cores(),
    )
    rows = {row["label"]: row["outcomes"]["R"] for row in told["rows"]}
    values = {label: [] for label in rows}  # type: dict[str, list[float]]
    for line in (Path(told["folder"]) / "results.csv").read_text().splitlines()[1:]:
        cells = line.split(",")
        values[cells[2]].append(float(cells[4]))
    paired = Estimate.of([high - low for high, low in zip(values["high"], values["low"], strict=True)])
    unpaired = (rows["low"]["half"] ** 2 + rows["high"]["half"] ** 2) ** 0.5
    assert paired is not None
    assert paired.half is not None
    assert paired.half <= unpaired / 3


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_a_null_change_makes_no_difference(bees: Path) -> None:
    """Over 1,000 seeds, an arm that sets what is set already differs in no outcome and reaches no agent."""
    told = arms("bees", "--at", "0", "--arm", "same:agents.bee.state.power=0.5", "--seeds", 1000, jobs=cores())
    assert all(one["changed"] == 0 for one in told["differences"])
    assert told["differences"][0]["difference"]["n"] == 1000
    assert [arm["count"] for arm in told["reached"]] == [{"n": 1000, "mean": 0.0, "half": 0.0}]


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_intervals_cover_a_known_effect(bees: Path) -> None:
    """Over 5 seeds each, 1,000 intervals of 95 % cover the effect, which is known, in 93 to 97 of 100 cases."""
    given = ("--arm", "high:agents.bee.state.power=0.8", "--first-seed", 1, "--seeds", 5_000)
    told = arms("bees", "--at", "0", *given, "--outcome", "found", jobs=cores())
    lines = [line.split(",") for line in (Path(told["folder"]) / "results.csv").read_text().splitlines()[1:]]
    found = {(cells[2], int(cells[1])): float(cells[3]) for cells in lines}
    known = 3 * 10 * (0.8 - 0.5)  # three bees look ten times each
    covered = 0
    for first in range(1, 5_001, 5):
        estimate = Estimate.of([found["high", seed] - found["baseline", seed] for seed in range(first, first + 5)])
        assert estimate is not None
        covered += estimate.low <= known <= estimate.high
    assert 930 <= covered <= 970


@pytest.mark.parametrize("option", [("--seed", "3"), ("--tag", "pilot"), ("--quiet",), ("--no-record",)])
def test_what_is_for_a_single_branch_is_refused(bees: Path, option: tuple[str, ...]) -> None:
    """An option that arms would ignore is an error."""
    code, _, err = command("branch", bees, "--at", "4s", "--arm", "same:", *option)
    assert (code, f"sim: error: {option[0]} is for a single branch" in err) == (2, True), err
