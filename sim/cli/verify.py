"""`sim verify`: verify the record of a run or an experiment against its hashes, and an archive against its metadata."""

import hashlib
import os
from pathlib import Path
from typing import Any

import attrs
import click

from sim import __version__
from sim.base.errors import UsageError
from sim.cli.render.output import OUT, common, plain, print_json, say
from sim.kernel.codec import JsonObject
from sim.record import find_run
from sim.record.audit_chain import AuditHead
from sim.record.drafts import draft_folder
from sim.record.files import DATABASE
from sim.record.integrity import integrity_of
from sim.record.reader import RESULTS, open_run
from sim.record.zip_archives import EXPERIMENT, is_archive


@click.command(
    "verify",
    epilog="""Examples:

    \b
      sim verify queue
      sim verify queue-1-3f --json
      sim verify experiments/contagion-1
      sim verify contagion.zip --replay --python 3.13
      sim verify support --audit-head 12:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08""",
)
@click.argument("run")
@click.option(
    "--audit-head",
    metavar="N:HASH",
    help="An audit record that an earlier `sim verify` printed as the last; it must still be there, unchanged.",
)
@click.option(
    "--replay",
    "again",
    is_flag=True,
    help="Of an archive: also repeat it in a new environment, with the code in the archive. This runs that code.",
)
@click.option(
    "--own", is_flag=True, help="With --replay: with the sim that is installed here, not the one in the archive."
)
@click.option(
    "--python", metavar="VERSION|PATH", help="The Python of this environment, such as 3.13. Default: this one."
)
@OUT
@common
def command(
    run: str, out: Path, *, audit_head: str | None, again: bool, own: bool, python: str | None, as_json: bool
) -> int:
    """Verify that the record of RUN is complete and unchanged: all events, effects, inputs, figures and audit records.

    RUN can also be the folder of an experiment, whose table and page are derived from its results and compared; or an
    archive that `sim archive` has written: all of its files are compared with its metadata, and what is in it is
    verified in the same way. The exit code is 1 if anything was changed, removed, added or lost; it is printed. Events
    that do not have the form of their topic, as in a record of another version of sim, are counted in a note.
    """
    head = None if audit_head is None else _parse(audit_head)
    if is_archive(Path(run)):
        _check_options(again=again, own=own, python=python)
        report = _verify_archive(Path(run), head, again=again, own=own, python=python)
    elif again or own or python is not None:
        raise UsageError("--replay, --own and --python are for archives", hint=f"sim replay {run} replays a run")
    elif (Path(run) / RESULTS).is_file():
        if head is not None:
            raise UsageError(f"{run} is an experiment, and --audit-head is about a run")
        report = _experiment(Path(run))
    else:
        report = _run(find_run(out, run), head)
    if as_json:
        print_json({**report.fields, "intact": not report.problems, "problems": report.problems})
    elif not report.problems:
        for line in report.lines:
            click.echo(line)
    for note in report.notes:
        say(f"sim: note: {plain(note)}")
    for problem in report.problems:
        say(f"sim: {plain(problem)}")
    return 1 if report.problems else 0


@attrs.define
class _Report:
    """What was found: fields for JSON, lines for people, notes, and problems."""

    fields: dict[str, Any] = attrs.field(factory=dict)
    lines: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)

    def take(self, other: "_Report", folder: Path, archive: Path) -> None:
        """Add what was found in an archive that was unpacked into a folder."""
        self.fields |= other.fields
        self.lines += other.lines
        self.notes += [note.replace(str(folder), str(archive)) for note in other.notes]
        self.problems += [problem.replace(str(folder), str(archive)) for problem in other.problems]


def _check_options(*, again: bool, own: bool, python: str | None) -> None:
    if (own or python is not None) and not again:
        which = "--own" if own else "--python"
        raise UsageError(f"{which} is for --replay", hint="add --replay, if you trust the code in the archive")
    if python is not None and (not python or python.startswith("-")):
        raise UsageError(f"{python[:80]!r} is neither a version nor a path of a Python", hint="such as --python 3.13")


def _verify_archive(archive: Path, head: AuditHead | None, *, again: bool, own: bool, python: str | None) -> _Report:
    from sim.archives import check_archive, sim_in  # `sim verify` of a run needs none of it

    with draft_folder(None, "sim-verify") as draft:
        folder = draft / "files"
        folder.mkdir()
        checked = check_archive(archive, folder)
        if head is not None and "experiment" in checked.replay:
            raise UsageError(f"{archive} is the archive of an experiment, and --audit-head is about a run")
        with archive.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        report = _Report({"archive": archive, "title": checked.title, "files": checked.files, "sha256": sha256})
        report.lines = [f"{plain(archive)}: {checked.files} files as in its metadata", f"sha256 {sha256}: cite it"]
        report.problems += checked.problems
        for run in sorted(record.parent for record in folder.glob(f"run/*/{DATABASE}")):
            report.take(_run(run, head), run, archive)
            report.fields["run"] = run.name
        if (folder / EXPERIMENT).is_file() and (folder / EXPERIMENT).with_name(RESULTS).is_file():
            report.take(_experiment((folder / EXPERIMENT).parent), folder, archive)
        if again and not report.problems:
            _repeat(report, folder, checked.replay, own=own, python=python)
        elif not again:
            who = f"; {_vouching(sim_wheel)}" if (sim_wheel := sim_in(folder)) else ""
            report.lines.append(f"not repeated: --replay runs the code in the archive in a new environment{who}")
        return report


def _repeat(report: _Report, folder: Path, replay: JsonObject, *, own: bool, python: str | None) -> None:
    """Repeat the run or the experiment of an archive, and say who vouches for the code that did it."""
    from sim.archives import repeat, sim_in, use_own_sim

    sim_wheel = sim_in(folder)
    if sim_wheel is None:
        raise UsageError("the archive does not have one wheel of sim, so it cannot be repeated")
    if own:
        use_own_sim(folder)
    who = f"by the sim that is installed here ({__version__})" if own else _vouching(sim_wheel)
    trials = report.fields.get("trials", 0)
    much = f" ({trials:,} trials: this takes about as long as the experiment took)" if trials else ""
    say(f"sim: repeating it in a new environment{much}")
    repeated = repeat(folder, replay, python, os.environ)
    report.fields |= {"replayed": repeated.same, "python": repeated.python}
    report.fields |= {"sim": sim_wheel[0], "own": own or sim_wheel[1]}
    if repeated.same:
        report.lines.append(f"repeated on Python {repeated.python}: the same; {plain(who)}")
    else:
        report.problems.append(f"repeated on Python {repeated.python}, it differs: {repeated.difference}; {who}")


def _vouching(sim_wheel: tuple[str, bool]) -> str:
    """Return who vouches for what a repetition says: the one from whom the sim comes that carries it out."""
    wheel, same = sim_wheel
    if same:
        return f"the sim in it ({wheel}) is, byte by byte, the one that is installed here"
    return (
        f"the sim in it ({wheel}) is not the one that is installed here, so the authors of the archive vouch for it;"
        " --replay --own repeats it with the installed one"
    )


def _experiment(folder: Path) -> _Report:
    """Verify the experiment in a folder."""
    from sim.experiments.integrity import check_experiment  # `sim verify` of a run needs none of it

    checked = check_experiment(folder)
    fields: dict[str, Any] = {
        "experiment": checked.id,
        "trials": checked.trials,
        "missing": checked.missing,
        "recorded": checked.runs,
        "results": checked.hash,
        "sealed": checked.sealed,
        "notes": list(checked.notes),
    }
    lines = []
    if checked.id is not None:
        recorded = f", the runs of {checked.runs:,} of them" if checked.runs else ""
        lines = [f"intact: plan {checked.id}, {checked.trials:,} trials{recorded}; results {checked.hash}"]
    return _Report(fields, lines, list(checked.notes), list(checked.integrity.problems))


def _run(folder: Path, head: AuditHead | None) -> _Report:
    """Verify the record in a run folder."""
    integrity, facts = integrity_of(folder, head)
    audit = None if integrity.audit is None else {"records": integrity.audit.n, "head": integrity.audit.hash}
    fields: dict[str, Any] = {"run": str(folder), **facts, "audit": audit, "malformed": None}
    notes: list[str] = []
    if integrity.unusable is None:
        with open_run(folder, verify=False) as stored:
            malformed = stored.malformed()
        fields["malformed"] = malformed.to_json()
        notes += filter(None, [malformed.sentence(stored.info.versions.get("sim"))])
    level = fields["recording"]
    more = [] if level in ("all", None) else [f"recorded at the level `{level}`: the hash covers what it records"]
    return _Report(fields, [_intact(fields), *more] if integrity.whole else [], notes, list(integrity.problems))


def _intact(fields: JsonObject) -> str:
    audit = fields["audit"]
    assert isinstance(audit, dict), "a run without problems has been checked"
    chain = (
        f", {audit['records']:,} audit records (head {audit['records']}:{audit['head']})" if audit["records"] else ""
    )
    return (
        f"intact: {fields['events']:,} events, {fields['effects']:,} effects, {fields['commits']:,} commits{chain};"
        f" status {fields['status']}"
    )


def _parse(text: str) -> AuditHead:
    """Return the audit record that `text` names.

    Raises:
        UsageError: if it is not a number, a colon and a hash.
    """
    number, _, hash = text.partition(":")
    if not (number.isdecimal() and number.isascii() and 0 < len(number) < 16 and len(hash) == 64):
        raise UsageError(
            f"{text[:80]!r} is not an audit record", hint="write its number and its hash, such as 12:9f86..."
        )
    return AuditHead(int(number), hash.lower())
