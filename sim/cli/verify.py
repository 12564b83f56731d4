"""`sim verify`: verify the record of a run against its hashes."""

from collections.abc import Callable
from pathlib import Path

import click

from sim.cli.render.output import OUT, common, plain, print_json, say
from sim.errors import RunError, UsageError
from sim.store import StoredRun, find_run, open_run
from sim.store.audit_chain import AuditHead


@click.command(
    "verify",
    epilog="""Examples:

    \b
      sim verify queue
      sim verify queue-1-3f --json
      sim verify support --audit-head 12:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08""",
)
@click.argument("run")
@click.option(
    "--audit-head",
    metavar="N:HASH",
    help="An audit record that an earlier `sim verify` printed as the last; it must still be there, unchanged.",
)
@OUT
@common
def command(run: str, out: Path, *, audit_head: str | None, as_json: bool) -> int:
    """Verify that the record of RUN is complete and unchanged: all events, effects, inputs, figures and audit records.

    The exit code is 1 if a record was changed, removed, added or lost; the first such record is printed.
    """
    known = None if audit_head is None else _parse(audit_head)
    folder = find_run(out, run)
    problems: list[str] = []
    fields: dict[str, object] = {
        "run": str(folder), "status": None, "events": None, "effects": None, "commits": None, "audit": None,
    }  # fmt: skip

    def check_audit(stored: StoredRun) -> None:
        found = stored.audit(known)
        fields["audit"] = {"records": found.head.n, "head": found.head.hash}
        if found.problem is not None:
            problems.append(f"{folder} is damaged: {found.problem}")

    def count(stored: StoredRun) -> None:
        fields.update(stored.counts())

    try:
        with open_run(folder, verify=False) as stored:
            fields["status"] = stored.info.status
            problems += stored.problems()
            for step in (check_audit, StoredRun.verify, count):
                _try(step, stored, problems)
    except RunError as error:
        problems.append(str(error))
    if as_json:
        print_json({**fields, "intact": not problems, "problems": problems})
    elif not problems:
        click.echo(_intact(fields))
    for problem in problems:
        say(f"sim: {plain(problem)}")
    return 1 if problems else 0


def _try(step: Callable[[StoredRun], None], stored: StoredRun, problems: list[str]) -> None:
    """Run one part of the check; damage that it finds must not hide what the other parts find."""
    try:
        step(stored)
    except RunError as error:
        problems.append(str(error))


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
