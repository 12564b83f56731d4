"""Workers on many machines, as tasks of a Ray cluster (edge). Ray schedules them, and tries lost ones again.

The machines share no files: a job takes along the scenario, or the run whose future it tries, and brings back records.
All machines must have the same code of `sim`, and the packages of the agents.
"""

import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import attrs

from sim.base.cluster import Membership, join
from sim.base.errors import RunError
from sim.experiments.measure import Measured
from sim.experiments.plan import Plan, TrialJob
from sim.experiments.pool import NEVER, Deadline, Ended
from sim.record.answer_book import ANSWERS
from sim.record.files import SCENARIO
from sim.runner.fingerprint import code_hashes
from sim.scenario import load

_TRIES: Final = 3  # after the first, if a machine or a process is lost
_AHEAD: Final = 2  # jobs for each core of the cluster

Files = Mapping[str, bytes]
"""Files by name: those that a job takes with it."""


@attrs.frozen
class Returned:
    """What a task brings back.

    Attributes:
        measured: the measurements.
        records: the files of each run folder, by its name.
    """

    measured: list[Measured]
    records: Mapping[str, Files]


class RayWorkers:
    """The workers of a Ray cluster. See `Workers`.

    Args:
        plan: the plan of the experiment.
        address: the address of the cluster; None: a new one on this machine.
        runs: the folder for the run folders that come back; None: trials are not recorded.
    """

    shared_files: Final = False

    def __init__(self, plan: Plan, address: str | None, runs: Path | None) -> None:
        self._joined = Membership(None)
        self._ray: Any = None
        self._files = _files(plan)
        self._address = address
        self._runs = runs

    def __enter__(self) -> Self:
        self._joined = join(self._address)
        self._ray = self._joined.ray
        return self

    def __exit__(self, *_: object) -> None:
        self._joined.leave()

    @property
    def processes(self) -> int:
        """The number of cores of the cluster."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(
        self, work: Callable[[TrialJob], list[Measured]], jobs: Iterable[TrialJob], /, deadline: Deadline = NEVER
    ) -> Generator[tuple[TrialJob, list[Measured] | Ended]]:
        """Do jobs as Ray tasks, and yield each with its result when it is done. The deadline cancels the others.

        Raises:
            RunError: if a machine has another version of the code.
        """
        ray = self._ray
        task = ray.remote(max_retries=_TRIES)(_task)
        files, code = ray.put(self._files), code_hashes(())
        waiting, running = iter(jobs), dict[Any, TrialJob]()
        most = self.processes * _AHEAD
        try:
            while True:
                for job in islice(waiting, most - len(running)):
                    running[task.remote(work, job, files, code)] = job
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1, timeout=deadline.left)
                if not done:  # the deadline is over
                    return
                for reference in done:
                    yield running.pop(reference), self._result(reference)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def _result(self, reference: Any) -> list[Measured] | Ended:
        try:
            returned: Returned = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise RunError(f"a task of Ray failed: {error.cause or error}") from error
        except self._ray.exceptions.RayError as error:  # the process or machine was lost in each try
            return Ended(f"the process of the run was lost {_TRIES + 1} times: {type(error).__name__}")
        for name, files in returned.records.items():
            assert self._runs is not None, "records come back only if they are wanted"
            draft = self._runs / f".{name}"
            _unpack(files, draft)
            draft.rename(self._runs / name)  # so that a run is there as a whole, or not at all
        return returned.measured


def _files(plan: Plan) -> Files:
    """Return the files that the jobs of a plan need: the scenario, or the run whose futures they try."""
    if plan.past is None:
        files = load(plan.file, plan.overrides, plan.allow).recorded_files()
        return {SCENARIO: Path(plan.file).read_bytes(), **files}
    return _packed(Path(plan.past.run))


def _packed(run: Path) -> Files:
    """Return the files of a run folder, without its report."""
    paths = [path for path in sorted(run.iterdir()) if path.is_file() and path.suffix != ".html"]
    return {path.name: path.read_bytes() for path in paths}


def _unpack(files: Files, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        path.chmod(0o600)


def _task(work: Callable[[TrialJob], list[Measured]], job: TrialJob, files: Files, code: Mapping[str, str]) -> Returned:
    """Do a job on a machine of the cluster."""
    if code_hashes(()) != code:
        raise RunError("a machine of the cluster has another version of sim", hint="install the same one on all")
    folder = Path(tempfile.mkdtemp(prefix="sim-"))
    try:
        _unpack(files, _files_in(folder, job.plan))
        measured = work(_at(job, folder))
        runs = folder / "runs"
        names = [path.name for path in sorted(runs.iterdir())] if runs.exists() else []
        return Returned(measured, {name: _packed(runs / name) for name in names})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _files_in(folder: Path, plan: Plan) -> Path:
    """Return the folder for the files of a plan. A run keeps its name, which its branches give as their origin."""
    return folder / "files" / ("" if plan.past is None else Path(plan.past.run).name)


def _at(job: TrialJob, folder: Path) -> TrialJob:
    """Return a job with the paths of this machine."""
    here, past, hosting = _files_in(folder, job.plan), job.plan.past, job.hosting
    plan = attrs.evolve(
        job.plan,
        file=str(here / SCENARIO),
        past=past and attrs.evolve(past, run=str(here)),
    )
    answers = None if hosting.answers is None else folder / ANSWERS
    runs = None if hosting.runs is None else folder / "runs"
    return attrs.evolve(job, plan=plan, hosting=attrs.evolve(hosting, answers=answers, runs=runs, scratch=None))
