"""The one judgement of the record of a run: is it whole, has it lost its end, was it changed?

Whoever reads a run asks it here, so that no two readers judge differently. What is checked: the database (its pages,
chunks of events, effects, what came from outside, the row of the run, the seal over all rows), and the files beside it
(`run.head`, `run.unsafe`, `run.audit`, the scenario, the graph of its places). Pages, scores, answers to surveys and
messages from people are no part of the record: they are made from it, or can be asked for again.
"""

import os
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

from sim.base.errors import RecordWarning, RunError
from sim.kernel.codec import Json
from sim.kernel.levels import level_of
from sim.record.audit_chain import AuditHead

if TYPE_CHECKING:
    from pathlib import Path

    from sim.record.hashing import Written
    from sim.record.reader import StoredRun


@attrs.frozen
class Integrity:
    """Whether a record is complete and unchanged.

    Attributes:
        lost: one sentence about records that are missing at its end; None if none are.
        damaged: what was changed, removed or added, one sentence each.
        unusable: the sentence of `damaged` that says why its events cannot be trusted; None if they are as recorded.
        audit: the last audit record up to which the chain is intact; None if the chain cannot be read.
    """

    lost: str | None = None
    damaged: tuple[str, ...] = ()
    unusable: str | None = None
    audit: AuditHead | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is lost or damaged."""
        return self.lost is None and not self.damaged

    @property
    def problems(self) -> tuple[str, ...]:
        """What is lost and what is damaged, one sentence each."""
        return self.damaged if self.lost is None else (self.lost, *self.damaged)

    def told_in(self, folder: "Path") -> list[str]:
        """Return the problems without the path of the folder of the run, for a page that is handed on."""
        return [problem.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name) for problem in self.problems]

    def warn(self) -> None:
        """Warn of each problem."""
        for problem in self.problems:
            warnings.warn(problem, RecordWarning, stacklevel=3)

    def check(self) -> None:
        """Refuse a record that is not whole.

        Raises:
            RunError: if it is not. The message has the first problem.
        """
        if not self.whole:
            first, *others = self.problems
            more = f"; and {len(others)} more problems" if others else ""
            raise RunError(f"{first}{more}", hint="use a whole copy of it, or make it again; `sim verify` lists all")


def judge(stored: "StoredRun", noted: AuditHead | None = None, written: "Written | None" = None) -> Integrity:
    """Check all parts of the record of a run.

    Args:
        stored: the run.
        noted: an audit record that the caller has noted before; None if there is none.
        written: the hashes that the caller, which has just written the record, has computed; None if it has not.
    """
    damaged = list(stored.damage_beside())
    audit: list[AuditHead] = []

    def check_audit() -> None:
        report = stored.audit(noted)
        audit.append(report.head)
        if report.problem is not None:
            damaged.append(f"{stored.path} is damaged: {report.problem}")

    _note(check_audit, damaged)
    unusable = _note(lambda: stored.verify(written), damaged)
    return Integrity(stored.info.lost, tuple(_once(damaged)), unusable, audit[0] if audit else None)


def _note(step: Callable[[], Any], damaged: list[str]) -> str | None:
    """Make one part of the check, and return the damage that it raises: it must not hide what other parts find."""
    try:
        step()
    except RunError as error:
        damaged.append(str(error))
        return str(error)
    return None


def _once(problems: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(problems)


def integrity_of(folder: "Path", noted: AuditHead | None = None) -> tuple[Integrity, "dict[str, Json]"]:
    """Return the judgement of the run in a folder, also if it cannot even be opened, and what is known of it.

    Args:
        folder: the run folder.
        noted: as in `judge`.

    Returns:
        The judgement; and `status`, `recording` (its level), and the numbers of `events`, `effects` and `commits`, each
        None if it is not known.

    Raises:
        UsageError: if there is no run.
    """
    from sim.record.reader import open_run  # which asks this module for each run that it opens

    facts: dict[str, Json] = {"status": None, "recording": None, "events": None, "effects": None, "commits": None}
    try:
        with open_run(folder, verify=False) as stored:
            facts["status"], facts["recording"] = stored.info.status, level_of(stored.info.options)
            integrity = judge(stored, noted)
            _note(lambda: facts.update(stored.counts()), [])
            return integrity, facts
    except RunError as error:
        return Integrity(damaged=(str(error),), unusable=str(error)), facts
