"""Archives of runs and experiments: what is in them, what is found wrong with them, and verbs that read them."""

import base64
import hashlib
import io
import json
import re
import shutil
import stat
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import sim
from sim.archives import Author, Details, archive_experiment, archive_run, check_archive, repeat
from sim.archives.described import odd_of_run
from sim.archives.fresh import _Environment
from sim.archives.software import Software, software_of
from sim.archives.wheels import wheel_of
from sim.base.errors import RunError, UsageError
from sim.base.registry import Definitions, using
from sim.cli import main
from sim.cli.archive import command
from sim.experiments.folder import FOLDER
from sim.experiments.results import FILE
from sim.record import open_run
from sim.record.zip_archives import is_known, unpacked_run

ROOT = Path(__file__).parents[2]
SCENARIO = """
# A small crowd <b>walks</b>.
name: crowd
description: "A crowd | that *walks*"
seed: 3
until: 5m
agents:
  - {name: walker, count: 2, kind: "strollers:Walker"}
  - name: rester
    state: {tired: "=uniform(0, 1)"}
    rules: [{name: rests, when: tired > 0.5, do: {publish: {topic: rest.taken}}}]
metrics: {every: 1m, values: {rests: "published('rest.taken')"}}
"""
AGENTS = {
    "strollers.py": """
import sim
from paths.straight import STEP

class Walker(sim.Agent):
    async def decide_action(self):
        self.loop.sleep(sim.WakeCondition.after_delay(STEP))
        return sim.Action("publish", {"topic": "step.made"})
""",
    "paths/__init__.py": "",
    "paths/straight.py": "from .unit import SECONDS\nSTEP = 30 * SECONDS\n",
    "paths/unit.py": "SECONDS = 1.0\n",
    "paths/never.py": "raise AssertionError('nobody imports this')\n",
}
AUTHORS = Details([Author.of("Doe, Jane, 0000-0002-1825-0097"), Author.of("A Laboratory")], "CC-BY-4.0", "2026-11-01")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A folder with a run whose agents are a module beside the scenario, and its archive."""
    folder = tmp_path_factory.mktemp("crowd")
    for name, text in AGENTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "crowd.yaml").write_text(SCENARIO)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        result = sim.run(folder / "crowd.yaml", allow=("strollers",), out=folder / "runs")
        assert result.run is not None
        archive_run(result.run, folder / "crowd.zip", AUTHORS)
        yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("strollers", "paths")]:
        del sys.modules[name]


def run_of(folder: Path) -> Path:
    """Return the one run."""
    (run,) = (folder / "runs").iterdir()
    return run


def rewritten(archive: Path, to: Path, changes: dict[str, bytes | None]) -> Path:
    """Return a copy of an archive in which files are changed, added, or removed (None)."""
    with zipfile.ZipFile(archive) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    files |= {name: data for name, data in changes.items() if data is not None}
    with zipfile.ZipFile(to, "w") as written:
        for name, data in files.items():
            if name not in changes or changes[name] is not None:
                written.writestr(name, data)
    return to


def names(archive: Path) -> list[str]:
    """Return the names of the files in an archive."""
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


@pytest.mark.slow
def test_it_has_the_run_its_code_and_what_describes_it(crowd):
    """An archive has the record, the module of the agents with what it imports, a wheel of sim, and descriptions."""
    run = f"run/{run_of(crowd).name}"
    assert names(crowd / "crowd.zip") == [
        "CITATION.cff", "ODD.md", f"{run}/run.db", f"{run}/run.head", f"{run}/scenario.yaml",
        f"software/actor_sim-{sim.__version__}-py3-none-any.whl", "software/modules/paths/__init__.py",
        "software/modules/paths/straight.py", "software/modules/paths/unit.py", "software/modules/strollers.py",
        "software/versions.txt", "ro-crate-metadata.json",
    ]  # fmt: skip


def test_its_description_is_of_the_run(crowd):
    """The description names the class of agents in code, from the packed source, and the mode and end of the run."""
    with zipfile.ZipFile(crowd / "crowd.zip") as opened:
        page = opened.read("ODD.md").decode()
    assert "**walker** decides in code: `strollers.Walker`" in page
    assert "was not there" not in page
    assert "The run ends after 5m." in page
    assert "| mode | `autonomous` |" in page
    assert "| walker | 0.1s | 10s |" in page


@pytest.mark.usefixtures("measuring")
def test_a_run_whose_scenario_needs_code_is_archived_with_a_description_to_be_written(tmp_path):
    """If the scenario cannot be checked without running code, the description says so, and claims nothing."""
    (tmp_path / "x.yaml").write_text(
        "name: x\nuntil: 2s\nagents: [{name: a, rules: [{do: noop}]}]\n"
        "metrics: {modules: [measuring], values: {n: odd()}}\n"
    )
    with using(Definitions()):
        result = sim.run(tmp_path / "x.yaml", allow=("measuring",), out=tmp_path / "runs")
    assert result.run is not None
    with open_run(result.run) as stored:
        page = odd_of_run(stored, (tmp_path / "x.yaml").read_text(), Software({}))
    assert "which cannot be checked here" in page
    assert "the module 'measuring' is not allowed" in page
    assert "## " not in page


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(crowd, tmp_path):
    """Two archives of one run do not differ in a byte, and nobody else can read them."""
    again = archive_run(run_of(crowd), tmp_path / "again.zip", AUTHORS)
    assert again.path.read_bytes() == (crowd / "crowd.zip").read_bytes()
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600
    assert again.notes == ()


def test_its_metadata_follow_the_specification(crowd):
    """The metadata are an RO-Crate 1.1: a descriptor, a root dataset, each file, people, software, the action."""
    with zipfile.ZipFile(crowd / "crowd.zip") as opened:
        crate = json.loads(opened.read("ro-crate-metadata.json"))
        sizes = {name: len(opened.read(name)) for name in opened.namelist() if name != "ro-crate-metadata.json"}
    assert crate["@context"] == "https://w3id.org/ro/crate/1.1/context"
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"])
    descriptor, root = entities["ro-crate-metadata.json"], entities["./"]
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert (root["@type"], root["datePublished"], root["name"]) == (
        "Dataset", "2026-11-01", "A run of the simulation crowd (seed 3)",
    )  # fmt: skip
    assert {part["@id"] for part in root["hasPart"]} == set(sizes)
    assert all(int(entities[name]["contentSize"]) == size for name, size in sizes.items())
    assert [entities[one["@id"]]["@type"] for one in root["author"]] == ["Person", "Organization"]
    assert entities[root["license"]["@id"]]["name"] == "CC-BY-4.0"
    action = entities["#run"]
    assert action["@type"] == "CreateAction"
    assert entities[action["instrument"]["@id"]]["@type"] == "SoftwareApplication"
    references = re.findall(r'\{"@id": "([^"]+)"\}', json.dumps(crate["@graph"]))
    assert [one for one in references if one not in entities and not one.startswith("https://w3id.org")] == []


def test_its_citation_file_is_valid(crowd):
    """The citation file has what CFF 1.2.0 requires, and names the authors with their ORCID."""
    with zipfile.ZipFile(crowd / "crowd.zip") as opened:
        citation = YAML(typ="safe").load(opened.read("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["authors"] == [
        {"family-names": "Doe", "given-names": "Jane", "orcid": "https://orcid.org/0000-0002-1825-0097"},
        {"name": "A Laboratory"},
    ]
    assert (citation["type"], citation["license"], str(citation["date-released"])) == (
        "dataset", "CC-BY-4.0", "2026-11-01",
    )  # fmt: skip


def test_the_project_can_be_cited():
    """The project has a citation file with its name, licence and version."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert (str(citation["version"]), citation["license"]) == (project["version"], project["license"])
    assert citation["authors"] == [{"name": project["authors"][0]["name"]}]
    assert {"cff-version", "message", "title", "type"} <= citation.keys()


def test_an_unchanged_archive_is_verified(crowd, tmp_path):
    """All files are as the metadata say, and the record is as its hashes say."""
    checked = check_archive(crowd / "crowd.zip", tmp_path)
    assert (checked.problems, checked.files) == ((), 12)
    assert (tmp_path / "software" / "modules" / "strollers.py").read_text() == AGENTS["strollers.py"]


@pytest.mark.slow
def test_any_change_is_named(crowd, tmp_path):
    """A changed file, a missing and an additional one are each named; nothing else is."""
    for number, name in enumerate(names(crowd / "crowd.zip")[:-1]):
        with zipfile.ZipFile(crowd / "crowd.zip") as opened:
            data = opened.read(name)
        changed = bytes([data[0] ^ 1]) + data[1:] if data else b"more"
        broken = rewritten(crowd / "crowd.zip", tmp_path / f"{number}.zip", {name: changed})
        assert check_archive(broken, tmp_path / str(number)).problems == (f"the file {name} was changed",)
    lacking = rewritten(crowd / "crowd.zip", tmp_path / "lacking.zip", {"ODD.md": None, "more.txt": b"?"})
    assert check_archive(lacking, tmp_path / "lacking").problems == (
        "the file ODD.md is missing", "the file more.txt is not in the metadata",
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "../out.txt", "/tmp/out.txt", "a/../../out.txt", "..\\out.txt", "C:out.txt", "x" * 1001,  # noqa: S108
        "run//run.db", "./ODD.md", "run/./a/run.db", "run/a\x07/run.db", "run/a\u202e/run.db",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(crowd, tmp_path, name):
    """Nothing is written outside of the folder into which an archive is unpacked, and all of it is refused."""
    hostile = rewritten(crowd / "crowd.zip", tmp_path / "hostile.zip", {name: b"?"})
    (tmp_path / "in").mkdir()
    for read in (lambda: check_archive(hostile, tmp_path / "in"), lambda: unpacked_run(hostile)):
        with pytest.raises(sim.UsageError, match="would be written outside"):
            read()
    assert list((tmp_path / "in").iterdir()) == []


def test_links_copies_and_bombs_are_refused(crowd, tmp_path, monkeypatch):
    """A symbolic link, two files of one name, too many bytes, and what is no archive are refused in one sentence."""
    link = zipfile.ZipInfo("run/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for file, message in ((link, "is a link"), ("odd.md", "twice"), ("\uff2fDD.md", "twice")):
        path = Path(shutil.copy(crowd / "crowd.zip", tmp_path / "copy.zip"))
        with zipfile.ZipFile(path, "a") as opened:
            opened.writestr(file, "/etc/passwd")
        with pytest.raises(sim.UsageError, match=message):
            check_archive(path, tmp_path / "in")
    with monkeypatch.context() as patch:
        patch.setattr("sim.record.zip_archives.MOST_BYTES", 1000)
        with pytest.raises(sim.UsageError, match="more than 10,000 files, or 1,000 bytes"):
            check_archive(crowd / "crowd.zip", tmp_path / "in")
    with monkeypatch.context() as patch:
        patch.setattr("sim.record.zip_archives._LARGE", 1000)
        with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as opened:
            opened.writestr("run/a/run.db", bytes(10**6))
        for read in (
            lambda: check_archive(tmp_path / "bomb.zip", tmp_path / "in"),
            lambda: unpacked_run(tmp_path / "bomb.zip"),
        ):
            with pytest.raises(sim.UsageError, match="more than 200 times larger"):
                read()
        with zipfile.ZipFile(tmp_path / "many.zip", "w", zipfile.ZIP_DEFLATED) as opened:
            for number in range(20):
                opened.writestr(f"run/{number}/run.db", bytes(1000) + number.to_bytes())
        patch.setattr("sim.record.zip_archives.MOST_RATIO", 5)
        with pytest.raises(sim.UsageError, match=r"more than 5 times larger when unpacked: it has 20,\d+ bytes"):
            check_archive(tmp_path / "many.zip", tmp_path / "in")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(RunError, match="cannot be read as a zip archive"):
        check_archive(tmp_path / "text.zip", tmp_path / "in")
    empty = rewritten(crowd / "crowd.zip", tmp_path / "empty.zip", {"ro-crate-metadata.json": b"{}"})
    with pytest.raises(sim.UsageError, match="cannot be used"):
        check_archive(empty, tmp_path / "other")


@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_a_list_of_too_many_files_is_not_read(crowd, tmp_path, monkeypatch, comment):
    """The list of the files of an archive is not read if it is too long, whichever record at the end says so."""
    path = Path(shutil.copy(crowd / "crowd.zip", tmp_path / "long.zip"))
    with zipfile.ZipFile(path, "a") as opened:
        opened.comment = comment
    with zipfile.ZipFile(path) as opened:
        length = len(opened.infolist()[0].filename) + 46
    large = tmp_path / "large.zip"
    with monkeypatch.context() as patch:
        patch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)  # the list is then described as that of a large archive
        with zipfile.ZipFile(large, "w") as opened:
            for number in range(3):
                opened.writestr(str(number), b"")
    monkeypatch.setattr("sim.record.zip_archives._DIRECTORY", length)
    monkeypatch.setattr("sim.record.zip_archives.zipfile.ZipFile", None)
    for archive in (path, large):
        with pytest.raises(sim.UsageError, match="more than 10,000 files"):
            unpacked_run(archive)


def test_files_of_unknown_names_are_not_unpacked(crowd, tmp_path):
    """A file that no archive has is named, even if the metadata list it, and nothing unpacks it."""
    run = run_of(crowd).name
    strange = ["uv.toml", "environment/bin/python", f"run/{run}/uv.toml", f"run/{run}/deep/run.db", "software/a/b.whl"]
    with zipfile.ZipFile(crowd / "crowd.zip") as opened:
        metadata = json.loads(opened.read("ro-crate-metadata.json"))
    one = {"@type": "File", "name": "x", "contentSize": "1", "sha256": hashlib.sha256(b"?").hexdigest()}
    metadata["@graph"] += [{**one, "@id": name} for name in strange]
    changes: dict[str, bytes | None] = dict.fromkeys(strange, b"?")
    changes["ro-crate-metadata.json"] = json.dumps(metadata).encode()
    archive = rewritten(crowd / "crowd.zip", tmp_path / "strange.zip", changes)
    problems = check_archive(archive, tmp_path / "in").problems
    assert problems == tuple(f"{name} is not the name of a file of an archive" for name in sorted(strange))
    assert not any((tmp_path / "in" / name).exists() for name in strange)
    own = rewritten(crowd / "crowd.zip", tmp_path / "own.zip", {f"run/{run}/uv.toml": b"?"})
    assert not (unpacked_run(own) / "uv.toml").exists()
    assert all(is_known(name) for name in names(crowd / "crowd.zip"))


def test_what_does_not_fit_on_the_disk_is_not_unpacked(crowd, tmp_path, monkeypatch):
    """An archive whose files need more space than there is gives one sentence, and none is written."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1000, 0, 1000))
    (tmp_path / "in").mkdir()
    for read in (
        lambda: check_archive(crowd / "crowd.zip", tmp_path / "in"),
        lambda: unpacked_run(crowd / "crowd.zip"),
    ):
        with pytest.raises(RunError, match=r"bytes are needed to unpack the archive, and .* has 1,000 bytes free"):
            read()
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.slow
def test_an_archive_without_its_record_names_the_missing_file(crowd, tmp_path, capsys):
    """An archive that lacks the record is a failed check that names the file, in text and as JSON."""
    record = next(name for name in names(crowd / "crowd.zip") if name.endswith("run.db"))
    lacking = rewritten(crowd / "crowd.zip", tmp_path / "lacking.zip", {record: None})
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(lacking), "--json"])
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out)["problems"][0] == f"the file {record} is missing"


@pytest.mark.parametrize(
    "line", ["--index-url http://127.0.0.1/", "attrs @ http://127.0.0.1/a.whl", "-r /etc/passwd", "attrs"]
)
def test_versions_are_names_and_versions_alone(crowd, tmp_path, line):
    """An archive can give an installer names and versions alone; all else is refused before anything is installed."""
    changed = rewritten(crowd / "crowd.zip", tmp_path / "changed.zip", {"software/versions.txt": f"{line}\n".encode()})
    checked = check_archive(changed, tmp_path / "in")
    with pytest.raises(sim.UsageError, match="not the name and version of a package"):
        repeat(tmp_path / "in", checked.replay, None, {"PATH": ""})
    assert not (tmp_path / "in" / "environment").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="scripts that begin with #!")
def test_a_version_of_python_is_looked_for_until_one_works(crowd, tmp_path):
    """A program of the right name that does not work, as pyenv leaves one, does not hide the Python of that version."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    broken, home = tmp_path / "broken", tmp_path / "home"
    works = home / ".pyenv" / "versions" / f"{version}.99" / "bin"
    for folder in (broken, works):
        folder.mkdir(parents=True)
    (broken / f"python{version}").write_text("#!/bin/sh\nexit 127\n")
    (broken / f"python{version}").chmod(0o755)
    (works / f"python{version}").symlink_to(sys.executable)
    new = _Environment(tmp_path, {"PATH": str(broken), "HOME": str(home)}, tmp_path / "own")
    assert new._interpreter(version) == str(works / f"python{version}")
    assert new._interpreter("3.999") == "3.999"
    assert new._interpreter("/bin/other") == "/bin/other"


def test_damaged_files_are_named(crowd, tmp_path):
    """A compressed file with bytes that were changed is named as changed, and reading its run is one clear error."""
    with zipfile.ZipFile(crowd / "crowd.zip") as opened:
        member = next(one for one in opened.infolist() if one.filename.endswith("run.db"))
    content = bytearray((crowd / "crowd.zip").read_bytes())
    start = member.header_offset + 30 + len(member.filename) + 60
    content[start : start + 200] = bytes(byte ^ 0xFF for byte in content[start : start + 200])
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(content)
    (tmp_path / "to").mkdir()
    assert check_archive(damaged, tmp_path / "to").problems == (f"the file {member.filename} was changed",)
    with pytest.raises(RunError, match="cannot be read as a zip archive"):
        unpacked_run(damaged)


@pytest.mark.slow
def test_a_run_that_was_killed_is_so_in_its_archive(tmp_path):
    """In an archive, a run that was killed is told from one under way, which could not be replayed."""
    killed = shutil.copytree(ROOT / "tests" / "golden" / "runs" / "killed", tmp_path / "killed")
    archive_run(killed, tmp_path / "killed.zip")
    with sim.open(tmp_path / "killed.zip") as stored:
        assert stored.info.status == "killed"


def test_an_archive_of_nothing_is_not_intact(crowd, tmp_path):
    """An archive from which the run was taken, in its metadata too, is told to have none."""
    with zipfile.ZipFile(crowd / "crowd.zip") as opened:
        names = [name for name in opened.namelist() if name.startswith("run/")]
        metadata = json.loads(opened.read("ro-crate-metadata.json"))
    metadata["@graph"] = [one for one in metadata["@graph"] if one["@id"] not in names]
    changes = dict.fromkeys(names) | {"ro-crate-metadata.json": json.dumps(metadata).encode()}
    archive = rewritten(crowd / "crowd.zip", tmp_path / "none.zip", changes)
    assert check_archive(archive, tmp_path).problems == ("it has neither a run nor an experiment",)


def test_encrypted_files_are_refused(crowd, tmp_path):
    """A file that is encrypted is named, in one sentence."""
    content = bytearray((crowd / "crowd.zip").read_bytes())
    first = content.index(b"PK\x01\x02")
    content[first + 8] |= 1
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(UsageError, match=r"has the file 'CITATION\.cff', which is encrypted"):
        check_archive(tmp_path / "x.zip", tmp_path)


def test_metadata_of_any_kind_give_one_sentence(crowd, tmp_path):
    """Metadata that are nested too deeply are refused as such."""
    archive = rewritten(crowd / "crowd.zip", tmp_path / "deep.zip", {"ro-crate-metadata.json": b"[" * 200_000})
    with pytest.raises(UsageError, match=r"ro-crate-metadata\.json cannot be used: its JSON is nested too deeply"):
        check_archive(archive, tmp_path)


@pytest.mark.slow
def test_a_citation_file_has_signs_of_all_languages(crowd, tmp_path):
    """A title beyond the basic plane of Unicode is read from the citation file, as YAML, as it was given."""
    archive_run(run_of(crowd), tmp_path / "x.zip", Details([Author.of("Ü, 😀")], title='Moods 😀 "é"'))
    with zipfile.ZipFile(tmp_path / "x.zip") as opened:
        cited = YAML(typ="safe").load(opened.read("CITATION.cff"))
    assert (cited["title"], cited["authors"][0]["given-names"]) == ('Moods 😀 "é"', "😀")


def test_days_that_do_not_exist_are_refused():
    """A date is a day of the calendar."""
    with pytest.raises(UsageError, match="'2026-02-31' is no date"):
        Details(date="2026-02-31").check()


@pytest.mark.slow
def test_a_run_in_an_archive_is_read_like_any_other(crowd):
    """Python opens, replays and compares a run in an archive, and knows its name; it cannot be resumed there."""
    archive = crowd / "crowd.zip"
    with sim.open(archive) as opened, sim.open(str(archive)) as again:
        assert opened.info.id == again.info.id == run_of(crowd).name
        assert len(list(opened.events())) > 10
    assert sim.replay(archive, allow=("strollers",)).same
    assert sim.diff(archive, run_of(crowd)).difference is None
    with pytest.raises(sim.UsageError, match=r"crowd\.zip is an archive, and a run that is resumed is written"):
        sim.resume(archive, allow=("strollers",))
    with pytest.raises(sim.UsageError, match="need not be archived again"):
        archive_run(archive, crowd / "more.zip")


def test_a_branch_of_an_archive_is_a_new_run(crowd, tmp_path, monkeypatch):
    """A branch of a run in an archive is written to `runs`, not beside what was unpacked."""
    monkeypatch.chdir(tmp_path)
    result = sim.branch(crowd / "crowd.zip", at="2m", seed=7, allow=("strollers",))
    assert Path(str(result.run)).parent == Path("runs")


@pytest.mark.slow
def test_what_cannot_be_archived_is_said(crowd, tmp_path):
    """A wrong name, an existing file, a missing folder and a changed module give one sentence, and leave no file."""
    (tmp_path / "old.zip").write_text("mine")
    with pytest.raises(sim.UsageError, match=r"ends with \.zip"):
        archive_run(run_of(crowd), tmp_path / "crowd.tar")
    with pytest.raises(sim.UsageError, match="exists"):
        archive_run(run_of(crowd), tmp_path / "old.zip")
    with pytest.raises(RunError, match="none"):
        archive_run(run_of(crowd), tmp_path / "none" / "crowd.zip")
    with pytest.raises(sim.UsageError, match="the module strollers has changed since the run was recorded"):
        software_of({}, {"strollers": "0" * 64})
    with pytest.raises(sim.UsageError, match=r"was made with anyio 0\.1, and .* is installed here"):
        software_of({"anyio": "0.1"}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["old.zip"]
    assert (tmp_path / "old.zip").read_text() == "mine"


@pytest.mark.slow
def test_modules_beside_that_are_no_python_are_packed_as_they_are(tmp_path, monkeypatch):
    """A module that imports a broken one, and can live without it, is packed together with it."""
    (tmp_path / "tolerant.py").write_text("try:\n    import broken_one\nexcept SyntaxError:\n    pass\n")
    (tmp_path / "broken_one.py").write_text("def (")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = software_of({}, {"tolerant": None}).files
    assert {"software/modules/tolerant.py", "software/modules/broken_one.py"} <= files.keys()


@pytest.mark.slow
def test_names_of_modules_lead_to_no_other_file(tmp_path):
    """A path in the name of a module, as a forged record could have it, packs no file of the reader."""
    (tmp_path / "secret.py").write_text("KEY = 1")
    name = f"json.{tmp_path}/secret"
    assert software_of({}, {name: None}).missing == (
        f"the module {name}, which was defined in a program or a notebook",
    )


@pytest.mark.slow
def test_classes_of_a_program_are_told_as_missing():
    """Agents that a program or a notebook defines have no module that could be packed, and the archive says so."""
    assert software_of({}, {"__main__": "0" * 64}).missing == (
        "the module __main__, which was defined in a program or a notebook",
    )


@pytest.mark.parametrize(
    "text", ["Doe", "Doe, Jane", "Doe, Jane, 0000-0002-1825-0097", "Doe, https://orcid.org/0000-0002-1825-0097"]
)
def test_authors_that_are_read(text):
    """An author is a family name and given names, or an organization, with or without an ORCID."""
    assert Author.of(text).family == "Doe"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not of the form"),
        ("a, b, c, d", "not of the form"),
        ("Doe, Jane, 0000-0002-1825-0098", "no ORCID"),
        ("a\nb", "form"),
    ],
)
def test_authors_that_are_refused(text, message):
    """Another form, and an ORCID whose check digit is wrong, are refused."""
    with pytest.raises(sim.UsageError, match=message):
        Author.of(text)


def test_details_are_checked():
    """A date, a licence or a title of another form is refused."""
    twice = Details([Author.of("Doe, Jane"), Author.of("Doe, Jane")])
    for details in (twice, Details(date="1.11.2026"), Details(licence="do what you want"), Details(title="")):
        with pytest.raises(sim.UsageError):
            details.check()


@pytest.mark.slow
def test_a_wheel_names_its_files_with_their_hashes():
    """The list in a wheel has the hash and the size of each of its files, as installers check them."""
    name, data = wheel_of("actor-sim")
    assert name == f"actor_sim-{sim.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        (record,) = (one for one in wheel.namelist() if one.endswith("/RECORD"))
        for line in wheel.read(record).decode().splitlines():
            path, told, size = line.rsplit(",", 2)
            if path != record:
                content = wheel.read(path)
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (told, int(size)) == (f"sha256={found}", len(content))
        assert "sim/kernel/kernel.py" in wheel.namelist()
        assert not [one for one in wheel.namelist() if one.endswith((".so", ".pyd", ".pyc"))]


def test_compiled_packages_are_not_packed():
    """A package with compiled files is no wheel for every machine, and is refused by name."""
    with pytest.raises(RunError, match="msgspec has compiled files"):
        wheel_of("msgspec")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("carry_out", "own"),
    [
        (partial(sim.sweep, vary={"agents.rester.state.tired": [0.2, 0.9]}), ("results.csv", "results.html")),
        (partial(sim.bench, modes=["tick-parallel", "autonomous"]), ("bench.csv", "bench.html", "bench.json")),
    ],
    ids=["sweep", "bench"],
)
def test_an_experiment_is_archived_without_paths_of_this_machine(tmp_path, carry_out, own):
    """The archive of an experiment has its plan, results, table, page and scenario, and opens no run."""
    (tmp_path / "crowd.yaml").write_text(SCENARIO.replace("- {name: walker, count: 2", "# "))
    made = carry_out(tmp_path / "crowd.yaml", seeds=2, out=tmp_path / "study", jobs=1)
    assert made.folder == tmp_path / "study"
    written = archive_experiment(made.folder, tmp_path / "study.zip", AUTHORS)
    assert written.notes == ()
    found = names(written.path)
    assert [one for one in found if one.startswith("experiment/")] == [
        f"experiment/{name}" for name in sorted(("plan.json", "results.db", "scenario.yaml", *own))
    ]
    checked = check_archive(written.path, tmp_path / "in")
    assert checked.problems == ()
    for path in (tmp_path / "in").rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes(), path
    with pytest.raises(sim.UsageError, match="the archive of an experiment, not of a run"):
        sim.open(written.path)
    again = sim.Experiment.open(written.path)
    assert (again.plan.id, again.complete) == (made.plan.id, True)
    assert list(again.frame()["hash"]) == list(made.frame()["hash"])


def test_an_experiment_is_found_by_its_name_in_a_hint(tmp_path, monkeypatch):
    """Whoever gives the name of an experiment without its folder is told the folder."""
    (tmp_path / FOLDER / "crowd-1").mkdir(parents=True)
    (tmp_path / FOLDER / "crowd-1" / FILE).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sim.UsageError) as refused:
        command.main(["crowd-1", "--to", "study.zip"], standalone_mode=False)
    assert refused.value.hint == f"did you mean {FOLDER / 'crowd-1'}?"
