"""`sim sweep`: combinations and seeds, intervals, precision, failures, stopping and resuming."""

import contextlib
import csv
import errno
import json
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sim as package
from sim.experiments.experiment import Progress
from sim.experiments.plan import Plan, make_sweep
from sim.experiments.results import Results
from tests.helpers import command

ROOT = Path(__file__).parents[2]
SCENARIO = """
name: dice
until: 10s
agents:
  - name: player
    count: 4
    state: {sides: 6, sum: 0}
    loop: {min_loop_delay: 1s}
    rules: [{do: noop, set: {sum: "=sum + randint(1, sides)"}, record: {thrown: "=sum"}}]
metrics: {every: 5s, values: {points: "total('player', 'sum')"}}
"""
VARY = "agents.player.state.sides=2,6,20"
Told = dict[str, Any]


FULL = """
name: full
until: 1h
agents:
  - name: talker
    count: 2
    state: {reads: false}
    loop: {mailbox_size: 1, min_loop_delay: 1s}
    rules:
      - {when: message is not None and reads, do: noop}
      - do: {send: {to: "='talker-2' if me == 'talker-1' else 'talker-1'"}}
metrics: {every: 1m, values: {sent: "published('x')"}}
"""


@pytest.fixture
def dice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "dice.yaml"
    path.write_text(SCENARIO)
    return path


def sweep(*arguments: object) -> Told:
    """Run a sweep that succeeds, and return what it tells."""
    jobs = () if "--jobs" in arguments else ("--jobs", 1)  # processes take longer to begin than these trials
    code, out, err = command("sweep", *arguments, *jobs, "--json")
    assert code == 0, err
    return dict(json.loads(out))


def table(folder: Path) -> list[dict[str, str]]:
    """Return the lines of the table of a sweep."""
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_all_combinations_and_seeds(dice: Path) -> None:
    """Each trial is what `sim run` gives; table, page, plan and results are there for the owner alone."""
    told = sweep(dice, "--vary", VARY, "--vary", "agents.player.count=2,3", "--seeds", 3)
    folder = Path(told["folder"])
    assert folder == Path("experiments/dice-1")
    assert [row["point"]["agents.player.state.sides"] for row in told["rows"]] == ["2", "2", "6", "6", "20", "20"]
    assert [row["seeds"] for row in told["rows"]] == [3] * 6
    lines = table(folder)
    assert len(lines) == 18
    single = package.run(
        dice, seed=2, overrides=["agents.player.state.sides=20", "agents.player.count=3"], recording="samples"
    )
    (line,) = [one for one in lines if (one["state.sides"], one["player.count"], one["seed"]) == ("20", "3", "2")]
    assert line["hash"] == single.hash
    assert float(line["points"]) == single.metrics["points"][-1]
    assert {path.name for path in folder.iterdir()} == {"plan.json", "results.csv", "results.db", "results.html"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    with contextlib.closing(sqlite3.connect(folder / "results.db")) as database:
        assert database.execute('SELECT count(*), count(DISTINCT "state.sides") FROM results').fetchone() == (18, 3)
    assert "<svg" in (folder / "results.html").read_text()


def test_the_table_of_the_terminal(dice: Path) -> None:
    """One line for each combination, outcomes with their intervals, and how far it is on stderr."""
    code, out, err = command("sweep", dice, "--vary", VARY, "--seeds", 4)
    assert code == 0, err
    heads, *lines = [line.split() for line in out.splitlines()[:4]]
    assert heads == ["state.sides", "seeds", "mean_thrown", "±", "points", "±"]
    assert [line[:2] for line in lines] == [["2", "4"], ["6", "4"], ["20", "4"]]
    assert "12 of 12 trials, about 0 s left" in err


def test_a_plan_can_be_cited_and_carried_out_again(dice: Path, tmp_path: Path) -> None:
    """A plan has an id, which does not depend on where the scenario is; carried out again, the trials are the same."""
    first = sweep(dice, "--vary", VARY, "--seeds", 2)
    copy = tmp_path / "elsewhere" / "copy.yaml"
    copy.parent.mkdir()
    copy.write_text(SCENARIO)
    plan = Path(first["folder"]) / "plan.json"
    plan.write_text(plan.read_text(), encoding="utf-8-sig")  # as some editors save it
    again = sweep(copy, "--plan", plan, "--jobs", 1)
    assert again["id"] == first["id"]
    hashes = [[line["hash"] for line in table(Path(one["folder"]))] for one in (first, again)]
    assert hashes[0] == hashes[1]
    copy.write_text(SCENARIO + "\n")
    code, _, err = command("sweep", copy, "--plan", Path(first["folder"]) / "plan.json")
    assert (code, "its text has changed" in err) == (2, True)


@pytest.mark.slow
def test_designs_that_sample(dice: Path) -> None:
    """A Sobol design has as many combinations as are asked for, the same ones each time."""
    given = ("--vary", "agents.player.state.sides=2..99", "--design", "sobol", "--samples", 8, "--seeds", 1)
    one, other = (sweep(dice, *given) for _ in range(2))
    assert len(one["rows"]) == 8
    assert one["plan"]["points"] == other["plan"]["points"]


def test_seeds_are_added_until_it_is_precise(dice: Path) -> None:
    """Combinations that vary more get more seeds, up to a limit; what never varies gets some to be sure of that."""
    told = sweep(
        dice, "--vary", "agents.player.state.sides=1,2,1000", "--jobs", 1, "--seeds", 3, "--until-precision", "2.7%",
        "--most-seeds", 40, "--outcome", "points",
    )  # fmt: skip
    rows = told["rows"]
    assert [row["seeds"] for row in rows] == [33, 22, 40]
    assert [row["precise"] for row in rows] == [True, True, False]
    for row in rows[:2]:
        estimate = row["outcomes"]["points"]
        assert estimate["half"] <= 0.027 * estimate["mean"]
    assert list(rows[0]["outcomes"]) == ["points"]


def test_failures_are_kept_apart(dice: Path) -> None:
    """A trial that fails has no outcomes, is told with its reason, and can be tried again."""
    dice.write_text(SCENARIO.replace("until: 10s", "until: 10s\nexecution: {max_deltas: 50}"))
    code, out, err = command("sweep", dice, "--vary", "agents.player.loop.min_loop_delay=0,1", "--seeds", 2, "--json")
    told = json.loads(out)
    assert code == 1
    assert [(row["seeds"], row["failed"]) for row in told["rows"]] == [(0, 2), (2, 0)]
    assert "simulated time is stuck" in told["problems"][0]["problem"]
    assert "no result of 2 of 4 trials, first loop.min_loop_delay=0, seed 0: " in err
    assert "2 trials failed" in (Path(told["folder"]) / "results.html").read_text()
    code, out, _ = command("sweep", "--resume", told["folder"], "--again", "--json")
    assert code == 1
    assert json.loads(out)["rows"][0]["failed"] == 2


def test_trials_that_failed_and_were_not_tried_again_are_told(dice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted `--again` says so and how to go on, although all trials have a row."""
    dice.write_text(SCENARIO.replace("until: 10s", "until: 10s\nexecution: {max_deltas: 50}"))
    code, out, _ = command("sweep", dice, "--vary", "agents.player.loop.min_loop_delay=0", "--seeds", 3, "--json")
    folder = json.loads(out)["folder"]
    assert (code, json.loads(out)["complete"]) == (1, True)
    add, added = Results.add, list[object]()

    def interrupted(results: Results, found: Any, _: object = None) -> None:
        if added:
            raise KeyboardInterrupt
        added.append(found)
        add(results, found)

    with monkeypatch.context() as patched:
        patched.setattr(Results, "add", interrupted)
        code, out, err = command("sweep", "--resume", folder, "--again", "--json")
    assert (code, json.loads(out)["complete"]) == (1, False)
    assert f"sim: interrupted; continue with: sim sweep --resume {folder} --again\n" in err
    code, out, err = command("sweep", "--resume", folder, "--again", "--json")
    assert (code, json.loads(out)["complete"], "interrupted" in err) == (1, True, False)


def kept(folder: Path) -> list[dict[str, str]]:
    """Return the lines of the table without what the machine decides."""
    return [{**line, "wall_seconds": "", "cpu_seconds": ""} for line in table(folder)]


def _start(dice: Path, folder: Path) -> "subprocess.Popen[str]":
    arguments = ["sweep", str(dice), "--vary", VARY, "--seeds", "20", "--to", str(folder)]
    return _process(arguments)


def _process(arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "sim", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.proof
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_was_stopped_goes_on(dice: Path, tmp_path: Path, how: signal.Signals) -> None:
    """Killed or interrupted and resumed, a sweep has the same rows as one in one go."""
    whole = sweep(dice, "--vary", VARY, "--seeds", 20, "--to", tmp_path / "whole")
    folder, kills = tmp_path / "killed", 0
    process = _start(dice, folder)
    while process.poll() is None and not (folder / "plan.json").exists():  # a busy machine begins late
        time.sleep(0.01)
    while kills < 3:
        deadline = time.monotonic() + 1.5
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if process.poll() is not None:
            break
        process.send_signal(how)
        _, err = process.communicate()
        kills += 1
        if how == signal.SIGINT and process.returncode == 1:
            assert "interrupted" in err
        process = _process(["sweep", "--resume", str(folder)])
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert kept(tmp_path / "whole") == kept(folder)
    assert sweep("--resume", folder)["rows"] == whole["rows"]  # nothing is left to do


def test_two_processes_cannot_write_one_sweep(dice: Path, tmp_path: Path) -> None:
    """As long as one has the results, another process is refused, and changes nothing; afterwards it is not."""
    folder = tmp_path / "one"
    whole = sweep(dice, "--seeds", 2, "--to", folder)
    with contextlib.closing(Results(folder)):
        code, _, err = command("sweep", "--resume", folder)
    assert (code, "another process writes" in err) == (2, True)
    assert sweep("--resume", folder)["rows"] == whole["rows"]


@pytest.mark.parametrize("name", ["plan.json", "results.db"])
def test_a_folder_that_has_a_plan_or_results_is_refused(dice: Path, name: str) -> None:
    """Each time with the same sentence, because nothing is written into it."""
    folder = dice.parent / "out"
    folder.mkdir()
    (folder / name).write_text("mine")
    for _ in range(2):
        code, _, err = command("sweep", dice, "--seeds", 1, "--to", folder)
        assert (code, f"already contains {name}" in err) == (2, True), err
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine"


@pytest.mark.parametrize("full", ["results.db", "plan.json"])
def test_a_full_disk_at_the_start_leaves_nothing(dice: Path, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    """No part of an experiment that could not begin is left, so the same command works when there is space again."""

    def no_table(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    def no_plan(path: Path, *_: object) -> None:
        path.write_text("{")
        raise OSError(errno.ENOSPC, "No space left on device")

    (dice.parent / "out").mkdir()

    with monkeypatch.context() as patched:
        if full == "results.db":
            patched.setattr("sim.experiments.results._create_tables", no_table)
        else:
            patched.setattr("sim.experiments.folder.private_file", no_plan)
        code, _, err = command("sweep", dice, "--seeds", 1, "--to", "out")
        assert (code, f"{full} cannot be used" in err) == (1, True), err
    assert not list((dice.parent / "out").iterdir())
    sweep(dice, "--seeds", 1, "--to", "out")


Change = Callable[[Told], object]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is no scenario"),
        (["dice.yaml", "--vary", "agents.player.state.sides"], "does not say how to vary"),
        (["dice.yaml", "--vary", "agents.plyer.count=1,2"], "plyer"),
        (["dice.yaml", "--most-seeds", "5"], "the most seeds are given without a precision"),
        (["dice.yaml", "--until-precision", "5"], "is no share"),
        (["dice.yaml", "--until-precision", "x%"], "is no share"),
        (["--resume", "nowhere"], "there is no experiment in nowhere"),
        (["dice.yaml", "--resume", "nowhere"], "leave out all other options"),
        (["--plan", "dice.yaml"], "this is no plan of an experiment"),
        (["--plan", "dice.yaml", "--seeds", "3"], "a plan says everything"),
        (["dice.yaml", "--again"], "--again tries the failed trials of an experiment again"),
        (["dice.yaml", "--vary", f"until=1..9:{'9' * 5000}"], "is no range of numbers"),
        (["--plan", "nowhere"], "nowhere cannot be read: No such file or directory"),
        (["dice.yaml", "--vary", "until=1..20:20", "--seeds", "100000"], "the limit is 1,000,000"),
    ],
)
def test_wrong_usage(dice: Path, arguments: list[str], said: str) -> None:
    """One sentence says what is wrong, the exit code is 2, and nothing is left behind."""
    code, _, err = command("sweep", *arguments)
    assert (code, said in err) == (2, True), err
    assert not (dice.parent / "experiments").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"points": 3}, "no plan of an experiment"),
        ({"extra": 1}, "there is no field 'extra'"),
        ({"precision": {"share": 1}}, "no plan of an experiment"),
        ({"seeds": ["a", 1]}, "no plan of an experiment: Expected `int`"),
        ({"file": None}, "no plan of an experiment"),
        ({"seeds": [-1, 2]}, "no combinations or no seeds"),
        ({"points": []}, "no combinations or no seeds"),
        ({"seeds": [0, 10**9]}, "the limit is 1,000,000"),
        ({"seeds": [2**63, 1]}, "a seed is at most"),
        ({"points": [{"a": "1"}, {"b": "1"}]}, "do not have the same keys"),
        ({"arms": ["baseline"]}, "one name for each of its arms"),
        ({"precision": {"share": -1, "most_seeds": 9}}, "no share of a mean"),
    ],
)
def test_a_plan_that_was_changed_is_refused(dice: Path, change: Told, said: str) -> None:
    """A plan can come from anybody, so it is checked when it is read."""
    plan = json.loads((Path(sweep(dice, "--seeds", 1)["folder"]) / "plan.json").read_text())
    with pytest.raises(package.UsageError, match=said):
        Plan.from_json(json.dumps({**plan, **change}))
    with pytest.raises(package.UsageError, match="nested too deeply"):
        Plan.from_json("[" * 100_000)


def test_a_plan_cannot_choose_its_folder(dice: Path) -> None:
    """The name in a plan becomes a harmless name of a folder below `experiments`."""
    plan = json.loads((Path(sweep(dice, "--seeds", 1)["folder"]) / "plan.json").read_text())
    (dice.parent / "plan.json").write_text(json.dumps({**plan, "name": "../../elsewhere"}))
    assert sweep("--plan", "plan.json")["folder"] == "experiments/elsewhere-1"


def test_modules_of_a_plan_are_allowed_each_time(dice: Path) -> None:
    """A plan from somebody else imports nothing by itself; with `--allow`, a stopped sweep finds its agents again."""
    (dice.parent / "throwers.py").write_text(
        "from sim import Agent\nclass Thrower(Agent):\n    async def decide_action(self): return None\n"
    )
    dice.write_text("name: own\nuntil: 5s\nagents: [{name: a, kind: 'throwers:Thrower'}]\n")
    folder = Path(sweep(dice, "--allow", "throwers", "--seeds", 2)["folder"])
    for given in (("--resume", folder), ("--plan", folder / "plan.json")):
        code, _, err = command("sweep", *given)
        assert (code, "the agents of this plan are in throwers, which is not allowed" in err) == (2, True)
        code, _, err = command("sweep", *given, "--allow", "throwers")
        assert code == 0, err


def test_outcomes_that_are_named_like_columns(dice: Path) -> None:
    """Figures and seeds keep their columns; outcomes of such a name, or that differ in case alone, get a prefix."""
    named = ", ".join(f"{name}: '{value}.0'" for value, name in enumerate(("seed", "Hash", "points", "state.sides"), 7))
    dice.write_text(SCENARIO.replace("values: {points:", f"values: {{{named}, Points:"))
    told = sweep(dice, "--vary", "agents.player.state.sides=2,6", "--seeds", 1)
    assert told["rows"][0]["outcomes"]["seed"]["mean"] == 7
    line = table(Path(told["folder"]))[0]
    assert (line["seed"], line["outcome.seed"], line["outcome.Hash"], line["hash"][:8]) == (
        "0",
        "7.0",
        "8.0",
        "samples:",
    )
    assert (line["outcome.points"], line["state.sides"], line["outcome.state.sides"]) == ("9.0", "2", "10.0")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE outcomes", "has other tables than this version of sim writes"),
        ("ALTER TABLE trials DROP COLUMN calls", "has other tables than this version of sim writes"),
        ("ALTER TABLE trials ADD COLUMN colour", "has other tables than this version of sim writes"),
        ("DELETE FROM plan", "is damaged: it has 0 plans"),
        ("UPDATE plan SET text = '{}'", "no plan of an experiment"),
        (b"nonsense", "it is not a SQLite database"),
        ("UPDATE trials SET events = events + 1", "the trial of combination 0, seed 0 was changed"),
        ("UPDATE outcomes SET value = value + 1", "the trial of combination 0, seed 0 was changed"),
        ("INSERT INTO reached VALUES (0, 0, 'player', 1.0)", "the trial of combination 0, seed 0 was changed"),
        ('UPDATE plan SET text = replace(text, \'"until": null\', \'"until": "9s"\')', "was changed"),
        ("CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM outcomes; END", "has other tables"),
        (b"", "there is no experiment in experiments/dice-1: its creation was cut short"),
    ],
)
def test_results_that_another_version_wrote_or_that_are_damaged(dice: Path, change: str | bytes, said: str) -> None:
    """One sentence says what is wrong with the results of a sweep, and nothing is run."""
    folder = Path(sweep(dice, "--seeds", 1)["folder"])
    if isinstance(change, bytes):
        (folder / "results.db").write_bytes(change)
    else:
        with contextlib.closing(sqlite3.connect(folder / "results.db", isolation_level=None)) as database:
            database.execute("DROP VIEW results")
            database.execute(change)
    code, out, err = command("sweep", "--resume", folder, "--json")
    assert (code in (1, 2), said in json.loads(out)["error"]["message"]) == (True, True), err


@pytest.mark.parametrize("value", ["'many'", "x'00ff'", "9e999", "value + 1"])
def test_an_outcome_that_was_edited_is_told(dice: Path, value: str) -> None:
    """Results that somebody edited are refused in one sentence, which also says how to repair them."""
    folder = Path(sweep(dice, "--seeds", 2)["folder"])
    whole = table(folder)
    with contextlib.closing(sqlite3.connect(folder / "results.db", isolation_level=None)) as database:
        database.execute(f"UPDATE outcomes SET value = {value} WHERE seed = 1 AND name = 'points'")  # noqa: S608
    code, _, err = command("sweep", "--resume", folder)
    said = "is damaged: the trial of combination 0, seed 1 was changed since it was recorded\nhint: remove that line"
    assert (code, said in err) == (1, True), err
    with contextlib.closing(sqlite3.connect(folder / "results.db", isolation_level=None)) as database:
        database.execute("DELETE FROM trials WHERE seed = 1")
    sweep("--resume", folder)
    assert [line["hash"] for line in table(folder)] == [line["hash"] for line in whole]


def test_a_text_of_the_results_that_cannot_be_read_is_told(dice: Path) -> None:
    """Bytes that are no UTF-8, which SQLite finds only while it reads the lines, are an error of the file."""
    folder = Path(sweep(dice, "--seeds", 2)["folder"])
    with contextlib.closing(sqlite3.connect(folder / "results.db", isolation_level=None)) as database:
        database.execute("UPDATE trials SET status = CAST(x'ff' AS TEXT) WHERE seed = 1")
    code, _, err = command("sweep", "--resume", folder)
    assert (code, "results.db cannot be used: Could not decode to UTF-8" in err) == (1, True), err


def test_a_time_of_an_arm_that_was_edited_is_told(dice: Path) -> None:
    """So is a time at which an arm reached an agent."""
    package.run(dice, out="runs")
    change = "few:agents.player.state.sides=2"
    code, out, err = command("branch", "dice", "--at", "1s", "--arm", change, "--seeds", 2, "--json")
    assert code == 0, err
    folder = Path(json.loads(out)["folder"])
    with contextlib.closing(sqlite3.connect(folder / "results.db", isolation_level=None)) as database:
        assert database.execute("UPDATE reached SET seconds = 'late'").rowcount > 0
    code, _, err = command("sweep", "--resume", folder)
    assert (code, "the trial of combination 1, seed 0 was changed since it was recorded" in err) == (1, True), err


def test_a_scenario_that_measures_nothing(tmp_path: Path) -> None:
    """A sweep without outcomes says why its table is empty, and what could be estimated."""
    quiet = tmp_path / "quiet.yaml"
    quiet.write_text("name: quiet\nuntil: 1s\nagents: [{name: a, rules: [{do: stop}]}]\n")
    code, _, err = command("sweep", quiet, "--seeds", 2, "--jobs", 1)
    assert (code, "the scenario defines no outcome" in err, "--outcome agents_" in err) == (0, True, True), err


@pytest.mark.parametrize("arms", [False, True])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ponts", "did you mean 'points'?"),
        ("mean_ponts", "did you mean 'points'?"),
        ("done_pubish", "did you mean 'done_publish'?"),
        ("agents_runing", "did you mean 'agents_running'?"),
        ("zzz", "it has points, "),
    ],
)
def test_a_misspelled_outcome_is_refused_before_any_trial(dice: Path, arms: bool, name: str, hint: str) -> None:
    """What the file defines and what is counted is known, so nothing runs, and nothing is written."""
    options = ("--outcome", "points", "--outcome", name, "--seeds", 2)
    if arms:
        package.run(dice, out="runs")
        code, out, err = command("branch", "dice", "--at", "1s", "--arm", "same:", *options)
    else:
        code, out, err = command("sweep", dice, *options)
    assert (code, out) == (2, "")
    assert f"sim: error: the scenario has no outcome '{name}'\nhint: {hint}" in err
    assert not Path("experiments").exists()


OBSERVER = """
import sim

class Observer(sim.Agent):
    async def decide_action(self):
        self.world.observe(self.agent_id, "luck", 1.0)
        return sim.Action("noop")
"""


def test_an_outcome_of_an_agent_in_python_is_checked_after_the_first_trial(dice: Path) -> None:
    """Such agents can record anything: a name that the first trial does not have ends the experiment there."""
    Path("observer.py").write_text(OBSERVER)
    dice.write_text("name: d\nuntil: 1s\nagents: [{name: a, kind: 'observer:Observer'}]\n")
    given = ("sweep", dice, "--allow", "observer", "--seeds", 5, "--jobs", 1, "--outcome")
    code, _, err = command(*given, "mean_lukc")
    assert (code, "the first trial has no outcome 'mean_lukc'\nhint: did you mean 'mean_luck'?" in err) == (2, True), (
        err
    )
    (results,) = Path("experiments").glob("*/results.db")
    with contextlib.closing(sqlite3.connect(results)) as database:
        assert database.execute("SELECT count(*) FROM trials").fetchone() == (1,)
    assert command(*given, "mean_luck")[0] == 0


def test_a_count_that_no_trial_has_is_zero(dice: Path) -> None:
    """An action that is never done is an outcome like another: it was done 0 times."""
    told = sweep(dice, "--seeds", 2, "--outcome", "refused_publish")
    assert told["rows"][0]["outcomes"]["refused_publish"]["mean"] == 0


def test_counts_are_zero_where_nothing_was_counted(dice: Path) -> None:
    """A seed without a certain action counts as 0, so that the mean over seeds is not that of the others alone."""
    rare = "{when: chance(0.02), do: {publish: {topic: luck}}}, "
    dice.write_text(SCENARIO.replace("rules: [", f"rules: [{rare}"))
    told = sweep(dice, "--seeds", 12, "--outcome", "done_publish")
    with contextlib.closing(sqlite3.connect(Path(told["folder"]) / "results.db")) as database:
        sql = "SELECT count(*), sum(value) FROM outcomes WHERE name = 'done_publish'"
        count, total = database.execute(sql).fetchone()
    assert 0 < count < 12
    assert told["rows"][0]["outcomes"]["done_publish"]["n"] == 12
    assert told["rows"][0]["outcomes"]["done_publish"]["mean"] == pytest.approx(total / 12)


def test_agents_that_fail_are_told(dice: Path) -> None:
    """Trials in which iterations of agents fail are measured, as `sim run` does, but the reader is warned."""
    code, _, err = command("sweep", dice, "--vary", "agents.player.state.sides=0,6", "--seeds", 2)
    assert code == 0
    assert "warning: agents failed in 2 of 4 trials, first state.sides=0, seed 0: 12 iterations failed" in err


def test_agents_that_are_blocked_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials in which agents wait for each other for ever have numbers, and a warning, as a run has."""
    monkeypatch.chdir(tmp_path)
    Path("full.yaml").write_text(FULL)
    code, _, err = command("sweep", "full.yaml", "--seeds", 2, "--jobs", 1)
    assert code == 0
    assert "warning: agents were blocked in 2 of 2 trials, first seed 0: deadlock: 2 agents are blocked" in err


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_two_hundred_trials_killed_five_times(dice: Path, tmp_path: Path) -> None:
    """A sweep of 200 trials, killed five times and resumed, has the rows of one in one go."""
    vary = ("--vary", "agents.player.state.sides=2..21:20", "--seeds", "10", "--set", "until=40s")
    sweep(dice, *vary, "--to", tmp_path / "whole")
    folder = tmp_path / "killed"
    process = _process(["sweep", str(dice), *vary, "--to", str(folder)])
    while not (folder / "plan.json").exists():
        time.sleep(0.01)
    for _ in range(5):
        time.sleep(1.0)
        process.kill()
        process.communicate()
        process = _process(["sweep", "--resume", str(folder)])
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert kept(tmp_path / "whole") == kept(folder)
    assert len(kept(folder)) == 200


def test_a_scenario_that_is_edited_meanwhile_is_not_run(dice: Path) -> None:
    """A trial runs the scenario of the plan, or fails: no results of two scenarios are mixed."""

    def edit(progress: Progress) -> None:
        dice.write_text(SCENARIO.replace("sides", "edges"))

    made = experiment_of(dice, edit)
    assert made.estimates[0].seeds == 1
    assert all("its text has changed" in why for why in made.problems.values())
    assert len(made.problems) == 2


def experiment_of(dice: Path, progress: Callable[[Progress], object]) -> package.Experiment:
    """Return an experiment of three seeds, one after the other."""
    return package.sweep(dice, seeds=3, jobs=1, progress=progress)


def test_a_plan_names_models_and_so_does_who_carries_it_out(dice: Path, tmp_path: Path) -> None:
    """A plan from somebody else asks no model that the operator has not named, with the key of the operator."""
    plan = make_sweep(dice, count=1, models=("openai:costly",))
    file = tmp_path / "stranger.json"
    file.write_text(json.dumps(plan.to_json()))
    for given in ((), ("--model", "openai:cheap")):
        code, _, err = command("sweep", "--plan", file, *given)
        assert (code, "this plan asks openai:costly" in err) == (2, True)
        assert "--model openai:costly" in err


@pytest.mark.parametrize("vary", ["agents.player.state.side=1,2", "agents.0.state.side=1,2"])
def test_a_state_variable_that_no_agent_has_is_not_varied(dice: Path, vary: str) -> None:
    """A misspelled variable would change nothing, and look like a result."""
    code, _, err = command("sweep", dice, "--vary", vary)
    assert (code, "player has no state variable 'side'" in err, "did you mean 'sides'?" in err) == (2, True, True)


def test_what_has_no_effect_is_told(dice: Path) -> None:
    """A varied key with the same runs for all its values is told of; one that changes something is not."""
    vary = ("--vary", "limits.calls.global=500 per 1m,600 per 1m", "--vary", "agents.player.state.sides=2,3")
    code, _, err = command("sweep", dice, *vary, "--seeds", 2)
    assert code == 0, err
    assert "limits.calls.global has no effect" in err
    assert "sides has no effect" not in err


@pytest.mark.parametrize("values", ["[1,2", "1,{a: 1}"])
def test_an_error_in_a_varied_value_names_the_option(dice: Path, values: str) -> None:
    """It comes from --vary, and so the message says, not from --set."""
    code, _, err = command("sweep", dice, "--vary", f"agents.player.count={values}")
    assert (code, "  --vary:1:" in err, "--set" in err) == (2, True, False), err
