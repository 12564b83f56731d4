"""Every reader of a run judges its record as `sim verify` does: the matrix of verbs, files and damages."""

import random
import shutil
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

import sim as package
from sim.base.errors import RecordWarning, SimError
from sim.cli import main
from sim.record.audit_chain import AUDIT
from sim.record.files import DATABASE, PLACES, SCENARIO
from sim.record.head import HEAD, UNSAFE
from tests.cli.conftest import Done

RECORDS = (HEAD, UNSAFE, AUDIT, SCENARIO, PLACES)
"""The files of a record beside its database."""

MODULE = "tests.cli.payers"
GRAPH = "home work 60\n"
TOWN = """
name: town
seed: 5
until: 6m
places: {file: graph.edgelist, length: weight, travel_time: 1s}
artifacts: [{id: book, owner: desk, readers: [clerk], content: {hours: 9}}]
accounts: {desk: 0}
audit: {}
access: {rules: [{allow: true, tools: [book.look]}]}
tools: {functions: {book.look: {description: Look, artifact: book, returns: content}}}
models: {rules: [{say: "yes"}]}
score: {measures: {moves: {of: run, sql: "SELECT count(*) FROM actions"}}}
agents:
  - name: clerk
    count: 2
    place: home
    loop: {min_loop_delay: 1m}
    rules:
      - {when: "chance(0.3)", do: {move: {to: work}}}
      - {do: {use_tool: {tool: book.look}}}
  - {name: payer, kind: "tests.cli.payers:Payer"}
"""

VERBS = {
    "show": ("show", "RUN"),
    "events": ("show", "RUN", "events", "--last", "2"),
    "report": ("report", "RUN", "--to", "NEW.html"),
    "view": ("view", "RUN", "--to", "NEW.html"),
    "diff": ("diff", "RUN", "OTHER"),
    "diff, right": ("diff", "OTHER", "RUN"),
    "export": ("export", "RUN", "actions", "--to", "NEW.csv"),
    "watch": ("watch", "RUN"),
    "score": ("score", "RUN"),
    "ask": ("ask", "RUN", "Well?", "--yes", "--allow", MODULE),
    "replay": ("replay", "RUN", "--quiet", "--allow", MODULE),
    "branch": ("branch", "RUN", "--at", "3m", "--out", "NEW", "--allow", MODULE),
    "archive": ("archive", "RUN", "--to", "NEW.zip"),
}
"""Every verb that reads a record, whole or in part. `sim list` reads the row of each run only."""


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A folder with two copies of a run that has every file of a record; `RUN` is the one to damage."""
    folder = tmp_path_factory.mktemp("town")
    (folder / "graph.edgelist").write_text(GRAPH)
    (folder / "town.yaml").write_text(TOWN)
    result = package.run(folder / "town.yaml", out=folder / "runs", allow=(MODULE,))
    assert result.run is not None
    return Path(result.run)


def called(capsys: pytest.CaptureFixture[str], *args: object) -> Done:
    """Run a command inside this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    return Done(int(ended.value.code or 0), *capsys.readouterr())


def flipped(path: Path, place: int, bit: int) -> None:
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def judged(capsys: pytest.CaptureFixture[str], run: Path, other: Path, folder: Path) -> tuple[Done, list[str]]:
    """Return what `verify` says of a run, and the verbs that say something else."""
    told = called(capsys, "verify", run)
    problems = [line.removeprefix("sim: ") for line in told.err.splitlines() if line.startswith("sim: ")]
    differ = []
    for name, words in VERBS.items():
        new = folder / name.replace(", ", "-")
        places = {"RUN": str(run), "OTHER": str(other)}
        done = called(capsys, *(places.get(word, word.replace("NEW", str(new))) for word in words))
        said = any(problem in done.err for problem in problems) if problems else "warning" not in done.err
        if bool(done.code) != bool(told.code) or not said:
            differ.append(f"{name}: exit code {done.code}, {done.err}")
    return told, differ


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RECORDS, DATABASE, "report.html"])
def test_every_verb_judges_a_record_as_verify_does(town, tmp_path, capsys, name):
    """After a flipped bit in a file of a run folder, each verb that reads the run ends with an error and names the
    damage exactly if `verify` does; a page beside the record is no part of it.
    """
    run = Path(shutil.copytree(town, tmp_path / town.name))
    (run / "report.html").write_text("<p>derived</p>")
    data = (run / name).read_bytes()
    place = data.index(b"bill.paid" if name == DATABASE else data[len(data) // 2 :])
    flipped(run / name, place, 1)
    told, differ = judged(capsys, run, town, tmp_path)
    assert told.code == (name != "report.html")
    assert not differ


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_random_bits_are_judged_alike(town, tmp_path, capsys):
    """Wherever in the files of a record a bit is flipped, no two verbs judge the run differently."""
    rng = random.Random(7)
    counts = {0: 0, 1: 0, 2: 0}
    for number in range(36):
        run = Path(shutil.copytree(town, tmp_path / str(number) / town.name))
        path = run / (DATABASE if number % 3 else rng.choice(RECORDS))
        place, bit = rng.randrange(path.stat().st_size), rng.randrange(8)
        flipped(path, place, bit)
        told, differ = judged(capsys, run, town, tmp_path / str(number))
        counts[told.code] += 1
        assert not differ, (path.name, place, bit, told.err)
        shutil.rmtree(tmp_path / str(number))
    assert counts[1] > 12


def test_pages_of_a_damaged_run_have_a_red_line(town, tmp_path, capsys):
    """The report and the view of a run whose scenario was edited say so, leave the edited text out, and tell no path of
    this machine.
    """
    run = Path(shutil.copytree(town, tmp_path / town.name))
    scenario = run / SCENARIO
    scenario.write_text(scenario.read_text().replace("chance(0.3)", "chance(0.987)"))
    for verb in ("report", "view"):
        assert called(capsys, verb, run, "--to", tmp_path / f"{verb}.html").code == 1
        page = (tmp_path / f"{verb}.html").read_text()
        line = '<p class="alert" role="alert">scenario.yaml is not the scenario that was run: it was changed</p>'
        assert line in page
        assert "chance(0.987)" not in page
        assert str(tmp_path) not in page.partition('class="alert"')[2].partition("</p>")[0]


def test_python_warns_of_a_record_that_is_not_whole(town, tmp_path):
    """`sim.open` warns of each damage beside the database, `Run.integrity` lists them, and so do `repr` and notebooks;
    a whole run gives no warning.
    """
    with package.open(town) as whole:
        assert whole.integrity.whole
        assert whole.integrity.problems == ()
    run = Path(shutil.copytree(town, tmp_path / town.name))
    flipped(run / SCENARIO, 3, 0)
    flipped(run / AUDIT, 3, 0)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        opened = package.open(run)
    assert [one.category for one in heard] == [RecordWarning, RecordWarning]
    assert opened.integrity.damaged == tuple(str(one.message) for one in heard)
    assert "it was changed" in repr(opened)
    assert "it was changed" in opened._repr_html_()
    calls = (
        lambda: package.replay(run), lambda: package.ask(run, ["Well?"]), lambda: package.branch(run, at="3m"),
        lambda: package.score(run), lambda: package.diff(run, town),
    )  # fmt: skip
    for call in calls:
        with warnings.catch_warnings(record=True) as heard, suppress(SimError):  # without its scenario, most refuse
            warnings.simplefilter("always")
            call()
        assert {str(one.message) for one in heard} == set(opened.integrity.damaged)
    opened.close()


def test_a_list_names_files_that_were_changed(town, tmp_path, capsys):
    """`sim list` checks the row of each run and the files beside its database, and names what was changed."""
    run = Path(shutil.copytree(town, tmp_path / "runs" / town.name))
    flipped(run / SCENARIO, 3, 0)
    listed = called(capsys, "list", "--out", tmp_path / "runs")
    assert "scenario.yaml is not the scenario that was run" in listed.out
