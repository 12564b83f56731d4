"""The one judgement of an experiment, as `sim.record.integrity` is that of a run: is all of it unchanged?

The results are sealed trial by trial. What people read is derived from them: the plan, the table and the page are made
once more and compared. The run from which arms branch, and the runs of recorded trials, are judged as any other run.
"""

import hashlib
from pathlib import Path
from typing import Final

import attrs

from sim.base.errors import RunError, SimError, UsageError
from sim.experiments.experiment import evaluate, left
from sim.experiments.folder import PLAN, derived, own_code, plan_problem
from sim.experiments.plan import check_scenario
from sim.experiments.recorded import RUNS
from sim.experiments.results import FILE, Results, is_unsealed
from sim.kernel.codec import Json
from sim.record import open_run
from sim.record.integrity import Integrity, integrity_of

_UNSEALED: Final = (
    "an older version of sim wrote these results, without a seal: whether they were changed, and whether the table and"
    " the page follow from them, is not known; of an archive, --replay compares every value with a repetition"
)


@attrs.frozen
class ExperimentCheck:
    """What a check of an experiment has found.

    Attributes:
        integrity: whether it is complete and unchanged.
        id: the id of its plan; None if it cannot be read.
        hash: the hash of its results, which can be cited; None if they cannot be read.
        trials: the number of trials on record.
        missing: the number of trials that its plan asks for, and that are not done.
        runs: the number of recorded trials whose runs were checked.
        sealed: whether its results are sealed: those of older versions of sim are not.
        notes: what could not be checked, one sentence each.
    """

    integrity: Integrity
    id: str | None = None
    hash: str | None = None
    trials: int = 0
    missing: int = 0
    runs: int = 0
    sealed: bool = True
    notes: tuple[str, ...] = ()


def check_experiment(folder: Path) -> ExperimentCheck:
    """Check the experiment in a folder, of one's own or unpacked from an archive. Nothing is changed, no code is run.

    Raises:
        UsageError: if there is none, or another process writes it.
    """
    if is_unsealed(folder / FILE):
        return ExperimentCheck(Integrity(), sealed=False, notes=(_UNSEALED,))
    try:
        results = Results(folder, read_only=True)
    except RunError as error:
        return ExperimentCheck(Integrity(damaged=(str(error),), unusable=str(error)))
    try:
        return _Check(results).carry_out()
    except RunError as error:
        return ExperimentCheck(Integrity(damaged=(str(error),), unusable=str(error)))
    finally:
        results.close()


@attrs.define
class _Check:
    """One check under way."""

    results: Results
    damaged: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    runs: int = 0

    @property
    def _resume(self) -> str:
        return f"sim {self.results.plan.verb} --resume {self.results.folder}"

    def carry_out(self) -> ExperimentCheck:
        """Check all parts."""
        results = self.results
        absent = left(results)
        trials = len(results.done())
        if not trials and not (results.folder / PLAN).exists():  # its creation was killed
            self.notes.append(f"its plan is not written yet; have it written with: {self._resume}")
        elif (problem := plan_problem(results)) is not None:
            self.damaged.append(problem)
        if results.orphans():
            self.damaged.append(f"{results.folder} is damaged: its results have values of no trial on record")
        if absent:
            self.notes.append(f"{absent} trials are missing; continue with: {self._resume}")
        self._check_derived()
        self._check_scenario()
        self._check_past()
        self._check_runs()
        integrity = Integrity(damaged=tuple(dict.fromkeys(self.damaged)))
        return ExperimentCheck(
            integrity, results.plan.id, results.hash(), trials, absent, self.runs, notes=tuple(self.notes)
        )

    def _check_derived(self) -> None:
        """Compare the table, the page and the view with what follows from the results."""
        results, written = self.results, self.results.written()
        if not written:
            self.notes.append(f"its table and page are not written yet; have them written with: {self._resume}")
            return
        if results.view() != results.select():
            self.damaged.append(f"{results.folder} is damaged: the view `results` does not show its tables")
        own, code = derived(results, evaluate(results)), own_code()
        for name, content in own.items():
            path = results.folder / name
            noted, made_by = written.get(name, ("", code))
            try:
                on_disk = path.read_bytes()
            except OSError as error:
                self.damaged.append(f"{path} cannot be read: {error.strerror}")
                continue
            if hashlib.sha256(on_disk).hexdigest() != noted:
                self.damaged.append(f"{path} is not the one that was written with these results: it was changed")
            elif on_disk != content and made_by == code:
                self.damaged.append(f"{path} does not follow from the results")
            elif on_disk != content:
                self.notes.append(
                    f"another version of sim made {name}: it is as it was written, but whether it follows from the"
                    " results was not checked"
                )

    def _check_scenario(self) -> None:
        """Check the scenario, if it is a part of the experiment, as in an archive."""
        plan, folder = self.results.plan, self.results.folder
        if not Path(plan.file).is_absolute():
            try:
                check_scenario(plan, folder / plan.file)
            except SimError as error:
                self.damaged.append(str(error))

    def _check_past(self) -> None:
        """Check the run from which arms branch."""
        plan = self.results.plan
        if plan.past is None:
            return
        run = self.results.folder / plan.past.run  # an absolute path stays as it is
        self.damaged += _problems_of(run, "the run from which the arms branch", {"uid": plan.past.uid})

    def _check_runs(self) -> None:
        """Check the runs of recorded trials, and that they are those of the results."""
        folder = self.results.folder / RUNS
        named = [(point, seed, figures) for point, seed, figures, *_ in self.results.trials() if figures["run"]]
        if named and not folder.is_dir():
            self.notes.append(f"the runs of its {len(named)} recorded trials are not here, and were not checked")
            return
        for point, seed, figures in named:
            what = f"the run of the trial of combination {point}, seed {seed}"
            expected = {"hash": figures["hash"]} if figures["status"] == "measured" else {}
            if self.results.plan.past is None:
                expected["seed"] = seed
            self.damaged += _problems_of(folder / Path(figures["run"]).name, what, expected)
            self.runs += 1


def _problems_of(run: Path, what: str, expected: dict[str, Json]) -> list[str]:
    """Return what is wrong with a run that an experiment refers to."""
    try:
        problems = list(integrity_of(run)[0].problems)
        if problems:
            return problems
        with open_run(run, verify=False) as stored:
            return [
                f"{run} is not {what}: its {name} is {getattr(stored.info, name)!s:.80}, not {value!s:.80}"
                for name, value in expected.items()
                if getattr(stored.info, name) != value
            ]
    except UsageError as error:
        return [f"{what} cannot be checked: {error}"]


def check_whole(folder: Path) -> ExperimentCheck:
    """Check an experiment, and refuse one that is damaged.

    Raises:
        UsageError, RunError: if it is.
    """
    checked = check_experiment(folder)
    checked.integrity.check()
    return checked
