"""Writes the archive of a run or of an experiment. The same run and details give the same bytes."""

import contextlib
import hashlib
import shutil
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from sim.archives.crate import CITATION, METADATA, ArchivedStudy, Details, citation_of, metadata_of
from sim.archives.described import odd_of_plan, odd_of_run
from sim.archives.software import Software, named_software, software_of
from sim.archives.wheels import entry
from sim.base.crashpoints import reach
from sim.base.errors import UsageError
from sim.base.text import plain
from sim.experiments.folder import PLAN, names_of, table_and_page
from sim.experiments.integrity import check_whole
from sim.experiments.plan import Plan, check_scenario
from sim.experiments.recorded import RUNS
from sim.experiments.results import FILE, Results
from sim.kernel.codec import encode
from sim.record import StoredRun, open_run, run_folder
from sim.record.drafts import draft_folder, open_new, sync_folder
from sim.record.files import DATABASE, LOCK, SCENARIO, failure, is_settled, versions
from sim.record.zip_archives import EXPERIMENT, MOST_FILES, RUN_FILES, check_not_archived
from sim.scenario.loading import read_text, recorded_files_of
from sim.scenario.yaml_tree import read_tree

RUN: Final = "run/"
EXPERIMENT_FOLDER: Final = EXPERIMENT.rpartition("/")[0] + "/"
DESCRIPTION: Final = "ODD.md"
PAST: Final = "past/"
"""The folder of the run from which the arms of an experiment branch."""

_OTHER_FILES: Final = 1100  # of an archive: the code of agents, the software, descriptions

Files = Mapping[str, bytes | Path]


@attrs.frozen
class Archive:
    """An archive that was written.

    Attributes:
        path: its file.
        files: the number of files in it.
        size: its size in bytes.
        sha256: the hash of the file, by which it is cited.
        notes: what its readers may miss, one sentence each.
    """

    path: Path
    files: int
    size: int
    sha256: str
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
    details = details or Details()
    _check(target, details, force=force)
    folder = run_folder(run)
    check_not_archived(folder, "it need not be archived again")
    with open_run(folder, verify=False) as stored:
        info = stored.info
        if info.status == "running" or not (is_settled(folder / DATABASE) or info.status == "killed"):
            raise UsageError(f"{folder} is still running", hint="archive it when it has ended: sim stop ends it")
        stored.integrity.check()
        software = software_of(info.versions, info.code)
        text = read_text(folder / SCENARIO)
        study = _study_of_run(stored, text, details)
        odd = odd_of_run(stored, text, software)
        files = _run_files(RUN, folder)
        if info.status == "killed":  # a lock that no process holds: the run is not under way
            files[f"{RUN}{folder.name}/{LOCK}"] = b""
        return _write(target, files, software, odd, study, details)


def archive_experiment(folder: Path, target: Path, details: Details | None = None, *, force: bool = False) -> Archive:
    """Write the archive of an experiment: a sweep, or the arms of a run.

    Args:
        folder: its folder.
        target, details, force: see `archive_run`.

    Raises:
        UsageError: if it is no experiment, trials are missing, its scenario has changed, or the file exists.
        RunError: if it is damaged, or the file cannot be written.
    """
    details = details or Details()
    _check(target, details, force=force)
    with contextlib.closing(Results(folder)) as results:  # which also merges the log of one that was killed
        plan, whole = results.plan, bool(results.written())
    checked = check_whole(folder)
    if checked.missing or not whole:
        raise UsageError(f"{folder} is not complete: {checked.notes[0]}")
    check_scenario(plan, Path(plan.file))
    software = software_of(*named_software(plan.allow))
    text = read_text(Path(plan.file))
    with draft_folder(None, "sim-portable") as draft:
        files: dict[str, bytes | Path] = {f"{EXPERIMENT_FOLDER}{name}": folder / name for name in names_of(plan)}
        files |= _portable(plan, folder, draft)
        files[f"{EXPERIMENT_FOLDER}{SCENARIO}"] = text.encode()
        files |= {
            f"{EXPERIMENT_FOLDER}{name}": data
            for name, data in recorded_files_of(text, plan.file, plan.overrides).items()
        }
        if plan.past is not None:
            files |= _run_files(PAST, Path(plan.past.run))
        files |= _trials(folder)
        study = _study_of_plan(plan, _description(text), folder, details)
        return _write(target, files, software, odd_of_plan(plan, text, software), study, details)


def _portable(plan: Plan, folder: Path, draft: Path) -> dict[str, bytes | Path]:
    """Return the plan and the results without paths of this machine."""
    past = plan.past and attrs.evolve(plan.past, run=f"../{PAST}{Path(plan.past.run).name}")
    moved = encode(attrs.evolve(plan, file=SCENARIO, past=past).to_json())
    copy = draft / FILE
    shutil.copyfile(folder / FILE, copy)
    with contextlib.closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE plan SET text = ?", (moved.decode(),))
    return {f"{EXPERIMENT_FOLDER}{PLAN}": moved + b"\n", f"{EXPERIMENT_FOLDER}{FILE}": copy}


def _trials(folder: Path) -> dict[str, bytes | Path]:
    """Return the files of the runs of recorded trials.

    Raises:
        UsageError: if an archive cannot have as many files.
    """
    with contextlib.closing(Results(folder)) as results:
        names = sorted({figures["run"] for _, _, figures, *_ in results.trials() if figures["run"]})
    files: dict[str, bytes | Path] = {}
    for name in names:
        files |= _run_files(f"{EXPERIMENT_FOLDER}{RUNS}/", folder / RUNS / Path(name).name)
    if len(files) > MOST_FILES - _OTHER_FILES:
        raise UsageError(
            f"{folder} has {len(files):,} files of {len(names):,} recorded trials, and an archive at most"
            f" {MOST_FILES:,} files",
            hint="carry the plan out again without `record`, or in parts",
        )
    return files


def _study_of_run(stored: StoredRun, text: str, details: Details) -> ArchivedStudy:
    info = stored.info
    return ArchivedStudy(
        title=details.title or f"A run of the simulation {info.name} (seed {info.seed})",
        description=_description(text) or f"A recorded run of the scenario {info.name}.",
        date=details.date or info.started_at[:10],
        begun=info.started_at,
        ended=info.ended_at,
        sim=str(info.versions.get("sim", "unknown")),
        python=str(info.versions.get("python", "unknown")),
        scenario=f"{RUN}{info.id}/{SCENARIO}",
        results=[f"{RUN}{info.id}/{DATABASE}"],
        replay={"run": f"{RUN}{info.id}", "allow": list(info.options.get("allow", ()))},
    )


def _study_of_plan(plan: Plan, description: str, folder: Path, details: Details) -> ArchivedStudy:
    own = versions()
    made = datetime.fromtimestamp((folder / PLAN).stat().st_mtime, UTC)
    return ArchivedStudy(
        title=details.title or f"An experiment with the simulation {plan.name}",
        description=description or f"An experiment with the scenario {plan.name}.",
        date=details.date or made.date().isoformat(),
        begun=None,
        ended=None,
        sim=own["sim"],
        python=own["python"],
        scenario=f"{EXPERIMENT_FOLDER}{SCENARIO}",
        results=[f"{EXPERIMENT_FOLDER}{table_and_page(plan)[0]}"],
        replay={"experiment": EXPERIMENT_FOLDER.rstrip("/"), "allow": list(plan.allow), "asks": bool(plan.models)},
    )


def _description(text: str) -> str:
    tree, _ = read_tree(text, SCENARIO)
    description = tree.get("description") if isinstance(tree, dict) else None
    return plain(description) if isinstance(description, str) else ""


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


def _write(
    target: Path, own: Files, software: Software, description: str, study: ArchivedStudy, details: Details
) -> Archive:
    """Write an archive under a hidden name, and rename it when it is complete."""
    files: dict[str, bytes | Path] = {
        **own,
        **software.files,
        DESCRIPTION: description.encode(),
        CITATION: citation_of(study, details),
    }
    try:
        with draft_folder(target.parent, ".archive") as folder:
            draft = folder / target.name
            with open_new(draft) as stream:
                _pack(stream, files, study, details)
            reach("archive.drafted")
            draft.replace(target)
            reach("archive.created")
        sync_folder(target.parent)
        size = target.stat().st_size
        with target.open("rb") as written:
            sha256 = hashlib.file_digest(written, "sha256").hexdigest()
    except OSError as error:
        raise failure(target, error) from error
    missing = (f"it lacks {one}" for one in software.missing)
    unnamed = [] if details.authors else ["it names no author: give --author"]
    unnamed += [] if details.licence else ["it states no licence: give --licence"]
    return Archive(target, len(files) + 1, size, sha256, (*missing, *unnamed))


def _pack(stream: BinaryIO, files: Files, study: ArchivedStudy, details: Details) -> None:
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
