"""`sim verify`: verify the record of a run against its hashes, and an archive against its metadata."""

import os
import tempfile
from pathlib import Path

import click

from sim.cli.render.output import OUT, common, plain, print_json, say, tidy_at_sigterm
from sim.errors import UsageError
from sim.store import find_run
from sim.store.archive import is_archive
from sim.store.audit_chain import AuditHead
from sim.store.files import DATABASE
from sim.store.integrity import integrity_of


@click.command(
    "verify",
    epilog="""Examples:

    \b
      sim verify queue
      sim verify queue-1-3f --json
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
    "--replay", "again", is_flag=True,
    help="Of an archive: also repeat the run in a new environment, with the code in the archive. This runs that code.",
)  # fmt: skip
@click.option(
    "--python", metavar="VERSION|PATH", help="The Python of this environment, such as 3.13. Default: this one."
)
@OUT
@common
def command(run: str, out: Path, *, audit_head: str | None, again: bool, python: str | None, as_json: bool) -> int:
    """Verify that the record of RUN is complete and unchanged: all events, effects, inputs, figures and audit records.

    RUN can also be an archive that `sim archive` has written: all of its files are compared with its metadata. The exit
    code is 1 if a record or a file was changed, removed, added or lost; the first such record is printed.
    """
    known = None if audit_head is None else _parse(audit_head)
    if is_archive(Path(run)):
        return _verify_archive(Path(run), known, again=again, python=python, as_json=as_json)
    if again or python is not None:
        raise UsageError("--replay and --python are for archives", hint=f"sim replay {run} replays a run")
    fields, problems = _verified(find_run(out, run), known)
    if as_json:
        print_json({**fields, "intact": not problems, "problems": problems})
    elif not problems:
        click.echo(_intact(fields))
    _say(problems)
    return 1 if problems else 0


def _verify_archive(archive: Path, known: AuditHead | None, *, again: bool, python: str | None, as_json: bool) -> int:
    from sim.archives import check_archive, repeat  # `sim verify` of a run needs none of it

    if python is not None and not again:
        raise UsageError("--python is for --replay", hint="add --replay, if you trust the code in the archive")
    if python is not None and (not python or python.startswith("-")):
        raise UsageError(f"{python[:80]!r} is neither a version nor a path of a Python", hint="such as --python 3.13")
    with tidy_at_sigterm(), tempfile.TemporaryDirectory(prefix="sim-verify-") as folder:
        checked = check_archive(archive, Path(folder))
        problems = list(checked.problems)
        if known is not None and "experiment" in checked.replay:
            raise UsageError(f"{archive} is the archive of an experiment, and --audit-head is about a run")
        fields: dict[str, object] = {"archive": archive, "title": checked.title, "files": checked.files}
        for run in sorted(record.parent for record in Path(folder).glob(f"run/*/{DATABASE}")):
            record, found = _verified(run, known)
            fields |= {**record, "run": run.name}
            problems += [problem.replace(str(run), str(archive)) for problem in found]
        if again and not problems:
            trials = _trials(Path(folder))
            much = f" ({trials:,} trials: this takes about as long as the experiment took)" if trials else ""
            say(f"sim: repeating it in a new environment{much}")
            repeated = repeat(Path(folder), checked.replay, python, os.environ)
            fields |= {"replayed": repeated.same, "python": repeated.python}
            if not repeated.same:
                problems.append(f"repeated on Python {repeated.python}, it differs: {repeated.difference}")
    if as_json:
        print_json({**fields, "intact": not problems, "problems": problems})
    elif not problems:
        click.echo(f"{plain(archive)}: {checked.files} files as in its metadata")
        if "events" in fields:
            click.echo(_intact(fields))
        click.echo(
            f"repeated on Python {fields['python']}: the same" if again else
            "not repeated: --replay runs the code in the archive in a new environment"
        )  # fmt: skip
    _say(problems)
    return 1 if problems else 0


def _trials(folder: Path) -> int:
    """Return how many trials the experiment of an unpacked archive has; 0 if it has a run."""
    tables = list(folder.glob("experiment/results.csv"))
    return sum(table.read_bytes().count(b"\n") - 1 for table in tables)


def _say(problems: list[str]) -> None:
    for problem in problems:
        say(f"sim: {plain(problem)}")


def _verified(folder: Path, known: AuditHead | None) -> tuple[dict[str, object], list[str]]:
    """Verify the record in a run folder, and return what was found, and the problems."""
    found, facts = integrity_of(folder, known)
    head = found.audit
    audit = None if head is None else {"records": head.n, "head": head.hash}
    return {"run": str(folder), **facts, "audit": audit}, list(found.problems)


def _intact(fields: dict[str, object]) -> str:
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
