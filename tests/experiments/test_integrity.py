"""Experiments are verified like runs: results, what is derived from them, and the runs that they refer to."""

import contextlib
import hashlib
import json
import shutil
import sqlite3
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import sim
from sim.archives import archive_experiment, check_archive
from sim.archives.compare import results_difference
from sim.base.errors import RecordWarning, RunError, UsageError
from sim.cli import main
from sim.experiments.integrity import check_experiment
from sim.experiments.pool import Inline
from sim.experiments.results import Results, create_results, is_half_made

SCENARIO = """
name: tiny
until: 5m
agents:
  - name: gull
    count: 3
    state: {fish: 0}
    loop: {min_loop_delay: 1m}
    rules: [{when: chance(0.5), do: {publish: {topic: fish.caught}}, set: {fish: "=fish + 1"}}]
metrics: {every: 1m, values: {caught: "total('gull', 'fish')"}}
"""


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep whose trials are recorded, the arms of a run, and the archives of both."""
    folder = tmp_path_factory.mktemp("studies")
    (folder / "tiny.yaml").write_text(SCENARIO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sim.inspect.analysis.experiment_options.workers_of", lambda *_: Inline())
        sim.sweep(folder / "tiny.yaml", vary={"agents.gull.count": [2, 3]}, seeds=2, record=True, out=folder / "sweep")
        run = sim.run(folder / "tiny.yaml", out=folder / "runs").run
        assert run is not None
        sim.arms(Path(run), at="2m", arms={"two": {"agents.gull.state.fish": 2}}, seeds=2, out=folder / "arms")
    for name in ("sweep", "arms"):
        archive_experiment(folder / name, folder / f"{name}.zip")
    return folder


@pytest.fixture
def study(studies: Path, tmp_path: Path) -> Path:
    """A copy of the sweep."""
    return Path(shutil.copytree(studies / "sweep", tmp_path / "sweep"))


def sql(folder: Path, statement: str) -> None:
    """Change the results of an experiment as anybody can."""
    with contextlib.closing(sqlite3.connect(folder / "results.db", isolation_level=None)) as database:
        database.execute(statement)


def flipped(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def run_of(folder: Path) -> Path:
    """Return the run of the first recorded trial."""
    return sorted((folder / "runs").iterdir())[0]


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an outcome": (lambda at: sql(at, "UPDATE outcomes SET value = 999 WHERE point = 0"), "combination 0, seed 0 was"),
    "a figure": (lambda at: sql(at, "UPDATE trials SET wall_seconds = 0"), "combination 0, seed 0 was changed"),
    "a trial": (lambda at: sql(at, "DELETE FROM trials WHERE seed = 1"), "values of no trial on record"),
    "a combination": (lambda at: sql(at, "UPDATE points SET value = 9"), "are not those of its plan"),
    "the view": (lambda at: sql(at, "DROP VIEW results"), "the view `results` does not show its tables"),
    "a trigger": (
        lambda at: sql(at, "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM plan; END"), "has other tables",
    ),
    "the table": (lambda at: flipped(at / "results.csv"), "results.csv is not the one that was written"),
    "the page": (lambda at: flipped(at / "results.html"), "results.html is not the one that was written"),
    "no page": (lambda at: (at / "results.html").unlink(), "results.html cannot be read"),
    "the plan": (lambda at: flipped(at / "plan.json"), "plan.json is not the plan of results.db"),
    "a run": (lambda at: flipped(run_of(at) / "scenario.yaml"), "is not the scenario that was run"),
    "no run": (lambda at: shutil.rmtree(run_of(at)), "cannot be checked"),
    "another run": (
        lambda at: shutil.copytree(sorted((at / "runs").iterdir())[1], run_of(at), dirs_exist_ok=True),
        "is not the run",
    ),
}  # fmt: skip


def verified(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    """Return the exit code of `sim verify`, and what it said on stderr."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["verify", *map(str, args)])
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.slow
def test_a_whole_experiment_is_intact(studies, capsys):
    """A sweep with recorded trials, arms, and the archives of both are verified; the results have a hash that a
    repetition has, too.
    """
    for name in ("sweep", "arms", "sweep.zip", "arms.zip"):
        assert verified(capsys, studies / name) == (0, "")
    opened = sim.Experiment.open(studies / "sweep.zip")
    assert opened.integrity.whole
    assert opened.hash == sim.Experiment.open(studies / "sweep").hash == check_experiment(studies / "sweep").hash
    assert check_experiment(studies / "sweep").runs == 4


@pytest.mark.slow
@pytest.mark.parametrize("what", CHANGES)
def test_each_change_is_named_by_each_reader(study, tmp_path, capsys, what):
    """Whatever was changed in the folder of an experiment, `verify` names it, `sim archive` refuses it, and Python
    refuses it or warns.
    """
    change, said = CHANGES[what]
    change(study)
    code, err = verified(capsys, study)
    assert (code, said in err) == (1, True), err
    with pytest.raises(RunError):
        archive_experiment(study, tmp_path / "forged.zip")
    assert not (tmp_path / "forged.zip").exists()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        told = []
        try:
            sim.Experiment.open(study)
        except RunError as error:
            told.append(str(error))
    told += [str(one.message) for one in heard if one.category is RecordWarning]
    assert said in " ".join(told)


def test_the_run_of_arms_is_a_part_of_them(studies, tmp_path, capsys):
    """Arms whose past was changed are neither intact nor resumed nor archived."""
    copy = Path(shutil.copytree(studies, tmp_path / "copy"))
    (run,) = (copy / "runs").iterdir()
    (copy / "arms" / "results.db").write_bytes((studies / "arms" / "results.db").read_bytes())
    with contextlib.closing(sqlite3.connect(copy / "arms" / "results.db", isolation_level=None)) as database:
        ((text,),) = database.execute("SELECT text FROM plan").fetchall()
        moved = text.replace(str(studies), str(copy))
        database.execute("UPDATE plan SET text = ?", (moved,))
    (copy / "arms" / "plan.json").write_bytes(
        (copy / "arms" / "plan.json").read_bytes().replace(str(studies).encode(), str(copy).encode())
    )
    assert verified(capsys, copy / "arms") == (0, "")
    flipped(run / "run.head")
    code, err = verified(capsys, copy / "arms")
    assert (code, "run.head is damaged" in err) == (1, True)
    with pytest.raises(RunError, match=r"run.head is damaged"):
        archive_experiment(copy / "arms", copy / "forged.zip")


def unpacked(archive: Path, to: Path) -> Path:
    """Unpack an archive without a check."""
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(to)
    return to


def packed(folder: Path, to: Path) -> Path:
    """Pack a folder, and make its metadata fit, as a forger does."""
    path = folder / "ro-crate-metadata.json"
    metadata = json.loads(path.read_text())
    for one in metadata["@graph"]:
        if one["@type"] == "File":
            data = (folder / one["@id"]).read_bytes()
            one["contentSize"], one["sha256"] = str(len(data)), hashlib.sha256(data).hexdigest()
    path.write_text(json.dumps(metadata))
    with zipfile.ZipFile(to, "w") as written:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                written.write(file, file.relative_to(folder))
    return to


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["an outcome", "a figure", "a combination", "the view", "the table", "the page", "a run"]
)
def test_a_forged_archive_is_not_intact(studies, tmp_path, capsys, what):
    """An archive of an experiment that was changed, with metadata that fit, is found out without running its code."""
    change, said = CHANGES[what]
    folder = unpacked(studies / "sweep.zip", tmp_path / "files")
    change(folder / "experiment")
    code, err = verified(capsys, packed(folder, tmp_path / "forged.zip"))
    assert (code, said in err) == (1, True), err


@pytest.mark.slow
def test_a_forged_past_is_found(studies, tmp_path, capsys):
    """So is one whose arms go on from another past."""
    folder = unpacked(studies / "arms.zip", tmp_path / "files")
    (run,) = (folder / "past").iterdir()
    data = (run / "run.db").read_bytes()
    assert b'"gull-2"' in data
    (run / "run.db").write_bytes(data.replace(b'"gull-2"', b'"gull-9"', 1))
    code, err = verified(capsys, packed(folder, tmp_path / "forged.zip"))
    assert (code, "is damaged" in err) == (1, True), err


def test_a_repetition_is_compared_in_every_value(studies, study):
    """Results that were forged with fitting seals, table and page differ from a repetition in the value that was
    changed, whichever it is; what no two repetitions have in common does not count.
    """
    assert results_difference(studies / "sweep", study) is None
    sql(study, "UPDATE trials SET wall_seconds = 7, cpu_seconds = 8, run = 'other', seal = 'x'")
    assert results_difference(studies / "sweep", study) is None
    for statement, said in (
        ("UPDATE outcomes SET value = 999 WHERE name = 'caught' AND point = 1 AND seed = 1", "is 999.0, and was"),
        ("UPDATE trials SET events = 1 WHERE seed = 0", "events of point 0, seed 0 is 1, and was"),
        ("DELETE FROM trials WHERE seed = 1", "the row with point 0, seed 1 is not there any more"),
        ("INSERT INTO reached VALUES (0, 0, 'gull-1', 1.0)", "gull-1 was not there"),
        ("ALTER TABLE trials ADD COLUMN colour", "the table trials of results.db has the columns"),
    ):
        copy = Path(shutil.copytree(study, study.with_name("forged"), dirs_exist_ok=True))
        sql(copy, statement)
        assert said in (results_difference(studies / "sweep", copy) or "")
        shutil.rmtree(copy)
    (study / "results.html").write_text("other")
    assert results_difference(studies / "sweep", study) == "the values are the same, but results.html is another one"


def test_another_version_of_sim_makes_another_page(study, monkeypatch):
    """The page of another version of sim is compared with the hash that was noted with it, and that is said."""
    monkeypatch.setattr("sim.experiments.integrity.own_code", lambda: "another")
    monkeypatch.setattr("sim.experiments.folder.render", lambda *_: "another page")
    found = check_experiment(study)
    assert found.integrity.whole
    assert any("another version of sim made results.html" in note for note in found.notes)
    flipped(study / "results.html")
    assert not check_experiment(study).integrity.whole


@pytest.mark.slow
def test_older_archives_are_said_to_have_no_seal(studies, tmp_path, capsys):
    """Results of an older version of sim, without seals, are compared with the metadata alone, and that is said."""
    folder = unpacked(studies / "arms.zip", tmp_path / "files")
    for statement in ("DROP VIEW results", "ALTER TABLE trials DROP COLUMN seal", "DROP TABLE written"):
        sql(folder / "experiment", statement)
    older = packed(folder, tmp_path / "older.zip")
    code, err = verified(capsys, older)
    assert (code, "without a seal" in err) == (0, True), err
    assert results_difference(folder / "experiment", studies / "arms") is None
    (tmp_path / "to").mkdir()
    assert check_archive(older, tmp_path / "to").problems == ()


def test_an_experiment_that_is_not_complete_is_said_to_be(study, tmp_path, capsys):
    """Trials that are missing are no damage: they are told, and keep the experiment out of an archive."""
    for table in ("trials", "outcomes", "reached", "series"):
        sql(study, f"DELETE FROM {table} WHERE seed = 1")  # noqa: S608 - constants
    sql(study, "DELETE FROM written")
    code, err = verified(capsys, study)
    assert (code, "2 trials are missing" in err) == (0, True), err
    with pytest.raises(UsageError, match="2 trials are missing"):
        archive_experiment(study, tmp_path / "study.zip")


def test_results_that_are_half_made_are_none(study, tmp_path, monkeypatch, capsys):
    """What a kill between the first two steps of SQLite left is neither resumed nor in the way, and no other version of
    sim is blamed.
    """
    with contextlib.closing(Results(study)) as results:
        plan = results.plan
    half = tmp_path / "half"
    half.mkdir()
    with contextlib.closing(sqlite3.connect(half / "results.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
    assert is_half_made(half / "results.db")
    with pytest.raises(UsageError, match="its creation was cut short"):
        Results(half)
    monkeypatch.setattr("sim.inspect.analysis.experiment_options.workers_of", lambda *_: Inline())
    sim.sweep(plan.file, vary={"agents.gull.count": [2]}, seeds=1, out=half)
    assert verified(capsys, half) == (0, "")


def test_the_plan_is_written_again_if_a_kill_took_it(study):
    """The plan beside the results follows from them, so that a kill between the two names is mended by a resume."""
    plan = (study / "plan.json").read_bytes()
    (study / "plan.json").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        sim.Experiment.open(study).resume()
    assert (study / "plan.json").read_bytes() == plan


def test_results_are_created_once(study):
    """A file of results is never written over."""
    with contextlib.closing(Results(study, read_only=True)) as results:
        plan = results.plan
        with pytest.raises(RunError, match=r"results.db cannot be used"):
            create_results(study / "results.db", plan)
