"""Writes the archive of a run or of an experiment. The same run and details give the same bytes."""

import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from sim.archives.crate import CITATION, METADATA, Details, Study, citation_of, metadata_of
from sim.archives.odd import odd_description
from sim.archives.software import Software, named_software, software_of
from sim.archives.wheels import entry
from sim.errors import UsageError
from sim.experiments.folder import PAGE, PLAN, TABLE
from sim.experiments.plan import Plan, check_scenario
from sim.experiments.results import FILE, Results
from sim.kernel.codec import encode
from sim.scenario import load
from sim.scenario.load import read_text
from sim.scenario.yaml_tree import read_tree
from sim.store import StoredRun, open_run, run_folder
from sim.store.archive import EXPERIMENT, RUN_FILES, check_not_archived
from sim.store.files import DATABASE, LOCK, PLACES, SCENARIO, failure, is_settled, versions
from sim.text import plain

RUN: Final = "run/"
EXPERIMENT_FOLDER: Final = EXPERIMENT.rpartition("/")[0] + "/"
DESCRIPTION: Final = "ODD.md"
PAST: Final = "past/"
"""The folder of the run from which the arms of an experiment go on."""

Files = Mapping[str, bytes | Path]


@attrs.frozen
class Archive:
    """An archive that was written.

    Attributes:
        path: its file.
        files: the number of files in it.
        size: its size in bytes.
        notes: what its readers may miss, one sentence each.
    """

    path: Path
    files: int
    size: int
    notes: tuple[str, ...]


def archive_run(run: str | Path, target: Path, details: Details | None = None, *, force: bool = False) -> Archive:
    """Write the archive of a run that has ended.

    Args:
        run: the run, by its name or its folder.
        target: the file, whose name ends with `.zip`.
        details: what its authors say.
        force: whether to replace the file if it exists.

    Raises:
        UsageError: if there is no such run, it has not ended, the code that made it has changed or is not installed, or
            the file exists.
        RunError: if the run is damaged, or the file cannot be written.
    """
    given = details or Details()
    _check(target, given, force=force)
    folder = run_folder(run)
    check_not_archived(folder, "it need not be archived again")
    with open_run(folder) as stored:
        info = stored.info
        if info.status == "running" or not (is_settled(folder / DATABASE) or info.status == "killed"):
            raise UsageError(f"{folder} is still running", hint="archive it when it has ended: sim stop ends it")
        software = software_of(info.versions, info.code)
        text = read_text(folder / SCENARIO)
        study = _study_of_run(stored, text, given)
        facts = {"seed": info.seed, "mode": info.mode, "until": info.options.get("until", "as in the scenario")}
        odd = odd_description(text, tuple(info.options.get("set", ())), facts)
        files = _run_files(RUN, folder)
        if info.status == "killed":  # a lock that nobody holds tells it from a run under way
            files[f"{RUN}{folder.name}/{LOCK}"] = b""
        return _write(target, files, software, odd, study, given)


def archive_experiment(folder: Path, target: Path, details: Details | None = None, *, force: bool = False) -> Archive:
    """Write the archive of an experiment: a sweep, or the arms of a run.

    Args:
        folder: its folder.
        target, details, force: see `archive_run`.

    Raises:
        UsageError: if it is no experiment, trials are missing, its scenario has changed, or the file exists.
        RunError: if it is damaged, or the file cannot be written.
    """
    given = details or Details()
    _check(target, given, force=force)
    with contextlib.closing(Results(folder)) as results:
        plan = results.plan
    for name in (TABLE, PAGE):
        if not (folder / name).is_file():
            raise UsageError(f"{folder} is not complete: it has no {name}", hint=f"go on: sim sweep --resume {folder}")
    check_scenario(plan, Path(plan.file))
    scenario = load(plan.file, plan.overrides)  # without `allow`: no code of agents is run to pack it
    software = software_of(*named_software(plan.allow))
    text = read_text(Path(plan.file))
    with tempfile.TemporaryDirectory(prefix="sim-") as draft:
        files: dict[str, bytes | Path] = {f"{EXPERIMENT_FOLDER}{name}": folder / name for name in (TABLE, PAGE)}
        files |= _portable(plan, folder, Path(draft))
        files[f"{EXPERIMENT_FOLDER}{SCENARIO}"] = text.encode()
        graph = scenario.recorded_places()
        if graph is not None:
            files[f"{EXPERIMENT_FOLDER}{PLACES}"] = graph
        if plan.past is not None:
            files |= _run_files(PAST, Path(plan.past.run))
        study = _study_of_plan(plan, scenario.description, folder, given)
        return _write(target, files, software, odd_description(text, plan.overrides, _facts(plan)), study, given)


def _portable(plan: Plan, folder: Path, draft: Path) -> dict[str, bytes | Path]:
    """Return the plan and the results without paths of this machine."""
    past = plan.past and attrs.evolve(plan.past, run=f"../{PAST}{Path(plan.past.run).name}")
    moved = encode(attrs.evolve(plan, file=SCENARIO, past=past).to_json())
    copy = draft / FILE
    shutil.copyfile(folder / FILE, copy)
    with contextlib.closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE plan SET text = ?", (moved.decode(),))
    return {f"{EXPERIMENT_FOLDER}{PLAN}": moved + b"\n", f"{EXPERIMENT_FOLDER}{FILE}": copy}


def _facts(plan: Plan) -> dict[str, Any]:
    facts: dict[str, Any] = {"seeds": f"{plan.seeds[1]} from {plan.seeds[0]} on, for each combination or arm"}
    facts |= {f"varied: {key.partition('=')[0]}": key.partition("=")[2] for key in plan.vary}
    return facts | {"design": plan.design, "mode": plan.mode}


def _study_of_run(stored: StoredRun, text: str, details: Details) -> Study:
    info = stored.info
    return Study(
        title=details.title or f"A run of the simulation {info.name} (seed {info.seed})",
        description=_description(text) or f"A recorded run of the scenario {info.name}.",
        date=details.date or info.started_at[:10], begun=info.started_at, ended=info.ended_at,
        sim=str(info.versions.get("sim", "unknown")), python=str(info.versions.get("python", "unknown")),
        scenario=f"{RUN}{info.id}/{SCENARIO}", results=[f"{RUN}{info.id}/{DATABASE}"],
        replay={"run": f"{RUN}{info.id}", "allow": list(info.options.get("allow", ()))},
    )  # fmt: skip


def _study_of_plan(plan: Plan, description: str, folder: Path, details: Details) -> Study:
    own = versions()
    made = datetime.fromtimestamp((folder / PLAN).stat().st_mtime, UTC)
    return Study(
        title=details.title or f"An experiment with the simulation {plan.name}",
        description=description or f"An experiment with the scenario {plan.name}.",
        date=details.date or made.date().isoformat(), begun=None, ended=None, sim=own["sim"], python=own["python"],
        scenario=f"{EXPERIMENT_FOLDER}{SCENARIO}", results=[f"{EXPERIMENT_FOLDER}{TABLE}"],
        replay={"experiment": EXPERIMENT_FOLDER.rstrip("/"), "allow": list(plan.allow), "asks": bool(plan.models)},
    )  # fmt: skip


def _description(text: str) -> str:
    tree, _ = read_tree(text, SCENARIO)
    found = tree.get("description") if isinstance(tree, dict) else None
    return plain(found) if isinstance(found, str) else ""


def _run_files(prefix: str, folder: Path) -> dict[str, bytes | Path]:
    """Return the files of a run folder by their path in the archive, in which the run keeps its name."""
    paths = [folder / name for name in RUN_FILES]  # the lock is empty, and is not one of them
    return {f"{prefix}{folder.name}/{path.name}": path for path in paths if path.is_file() and path.stat().st_size > 0}


def _check(target: Path, details: Details, *, force: bool) -> None:
    details.check()
    if target.suffix.lower() != ".zip":
        raise UsageError(f"the name of an archive ends with .zip, and {target} does not")
    if target.exists() and not force:
        raise UsageError(f"{target} exists", hint="choose another name, or replace the file with --force")


def _write(target: Path, own: Files, software: Software, description: str, study: Study, details: Details) -> Archive:
    """Write an archive under a hidden name, and rename it when it is complete."""
    files: dict[str, bytes | Path] = {
        **own, **software.files, DESCRIPTION: description.encode(), CITATION: citation_of(study, details),
    }  # fmt: skip
    try:
        with tempfile.TemporaryDirectory(prefix=".archive-", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            with draft.open("xb") as stream:
                draft.chmod(0o600)
                _pack(stream, files, study, details)
            draft.replace(target)
        size = target.stat().st_size
    except OSError as error:
        raise failure(target, error) from error
    missing = (f"it lacks {one}" for one in software.missing)
    unnamed = [] if details.authors else ["it names no author: give --author"]
    unnamed += [] if details.licence else ["it states no licence: give --licence"]
    return Archive(target, len(files) + 1, size, (*missing, *unnamed))


def _pack(stream: BinaryIO, files: Files, study: Study, details: Details) -> None:
    facts: dict[str, tuple[int, str]] = {}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            size, digest = 0, hashlib.sha256()
            with archive.open(entry(path), "w", force_zip64=True) as member:
                for block in _blocks(files[path]):
                    member.write(block)
                    digest.update(block)
                    size += len(block)
            facts[path] = size, digest.hexdigest()
        archive.writestr(entry(METADATA), metadata_of(study, details, facts))


def _blocks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as stream:
        while block := stream.read(1 << 20):
            yield block
