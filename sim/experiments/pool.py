"""Jobs in long-lived worker processes, or in this one (edge)."""

import contextlib
import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Final, Self, TypeVar, cast

import attrs

from sim.kernel import Duration, to_ns, to_seconds

Job = TypeVar("Job")
Result = TypeVar("Result")

_LOADED: Final = ["sim.experiments.measure"]
"""What nearly all jobs need, with what it imports: half a second of CPU for each worker that starts without it."""

_AHEAD = 2
"""Jobs for each process that are handed to the workers, so that no worker waits for its next one."""


@attrs.frozen
class Ended:
    """The outcome of a job whose process ended early: it was killed, or ran out of memory."""

    problem: str = "the process of the run ended early"


@attrs.frozen
class Deadline:
    """When an experiment is interrupted, in real time.

    Attributes:
        at: the time of the monotonic clock, in seconds; None: never.
    """

    at: float | None = None

    @classmethod
    def after(cls, duration: Duration | None) -> "Deadline":
        """Return the deadline after a duration of real time from now on; None: there is none."""
        return cls(None if duration is None else time.monotonic() + to_seconds(to_ns(duration)))

    @property
    def left(self) -> float | None:
        """The seconds that are left; None: there is no deadline."""
        return None if self.at is None else max(0.0, self.at - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return self.left == 0


NEVER: Final = Deadline()
"""No deadline."""


def cores() -> int:
    """Return the number of CPU cores for this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_worker() -> bool:
    """Return whether this process is a worker of another one."""
    return parent_process() is not None


class Inline:
    """Does jobs in this process: for agents that other processes cannot import."""

    shared_files: Final = True
    processes: Final = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def run(
        self, work: Callable[[Job], Result], jobs: Iterable[Job], /, deadline: Deadline = NEVER
    ) -> Generator[tuple[Job, Result | Ended]]:
        """Do jobs one after the other, and yield each with its result. No job begins after the deadline."""
        for job in jobs:
            if deadline.is_over:
                return
            yield job, work(job)


class WorkerPool:
    """Worker processes that do many jobs, one after another, until the `with` block ends.

    If the block is left by an error, the workers are killed. They leave nothing on disk.

    On Linux the first worker takes as long to start as Python and its imports, and all later ones of the program some
    10 ms: they are forks of a process that has imported what they need and has done nothing else. It ends with the
    program. Variables of the environment are those of the moment, but what a module reads when it is imported is what
    it was when the program began its first pool, and so is the standard error. Elsewhere each worker starts from
    nothing: forks are not safe beside the libraries of macOS, and Windows has none.

    Args:
        processes: the number of parallel processes.
    """

    shared_files: Final = True

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(kill=kind is not None)

    def _end(self, *, kill: bool) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        if kill:
            # No others: the program may have begun some. They have no public name, and `shutdown` forgets them.
            workers = list((executor._processes or {}).values())
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()
            for worker in workers:
                worker.join()
        executor.shutdown(cancel_futures=True)

    def run(
        self, work: Callable[[Job], Result], jobs: Iterable[Job], /, deadline: Deadline = NEVER
    ) -> Generator[tuple[Job, Result | Ended]]:
        """Run jobs, and yield each with its result when it is done. The deadline kills those under way.

        If a worker ends early, the jobs that were under way are done again, each in a process of its own, so that only
        the guilty one is lost.

        Args:
            work: a function of a module, called with each job in a worker.
            jobs: the jobs; they are taken as they are needed.
            deadline: when to end.
        """
        waiting, running = iter(jobs), dict[Future[Result], Job]()
        while True:
            for job in () if deadline.is_over else islice(waiting, self.processes * _AHEAD - len(running)):
                future = self._submit(work, job)
                running[future] = job
                if future.done():  # so is that of a job that no worker takes any more
                    break
            if not running:
                return
            suspects = []
            ended = wait(running, timeout=deadline.left, return_when=FIRST_COMPLETED).done
            if not ended:  # the deadline is over
                self._end(kill=True)
                return
            for future in ended:
                job = running.pop(future)
                try:
                    yield job, future.result()
                except BrokenProcessPool:
                    suspects.append(job)
            if suspects:
                suspects += running.values()
                running.clear()
                self._end(kill=True)
                for job in suspects:
                    yield job, _alone(work, job)

    def _submit(self, work: Callable[[Job], Result], job: Job) -> Future[Result]:
        """Hand a job to the workers. If one of them has ended meanwhile, the job has failed with that."""
        executor = self._started()
        try:
            with _no_main_module():
                return executor.submit(_do, work, job)  # it may start a process
        except BrokenProcessPool as error:
            failed: Future[Result] = Future()
            failed.set_exception(error)
            return failed

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            environment = dict(os.environ)  # noqa: TID251 - forks have that of the time when the first pool began
            self._executor = ProcessPoolExecutor(
                self.processes, mp_context=_context(), initializer=_begin, initargs=(environment,)
            )
        return self._executor


def process(work: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Start a worker process that does one thing, and ends with it.

    Args:
        work: a function of a module.
        arguments: what it is called with.
    """
    started = _context().Process(target=work, args=arguments, daemon=True)  # type: ignore[attr-defined]  # each context has it
    with _no_main_module():
        started.start()
    return cast(BaseProcess, started)


@functools.cache
def _context() -> BaseContext:
    """Return how workers start on this system, and start the process of which they are forks.

    The program may have forks of that process, too, so what it has asked it to import stays. It must not import modules
    of the folder that the program happens to run in, as `python -c` does: one can be named as one of Python.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    from multiprocessing import forkserver  # not on all systems

    context, server = get_context("forkserver"), vars(forkserver)["_forkserver"]
    asked = server._preload_modules  # it can be set, but has no public name by which to read it
    context.set_forkserver_preload([*(name for name in asked if name != "__main__"), *_LOADED])
    before = os.environ.get("PYTHONSAFEPATH")  # noqa: TID251 - for that process
    os.environ["PYTHONSAFEPATH"] = "1"  # noqa: TID251
    try:
        with _no_main_module():
            forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]  # noqa: TID251
        else:
            os.environ["PYTHONSAFEPATH"] = before  # noqa: TID251
    return context


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Have processes start without the module `__main__` of this program, which they would run again.

    They need nothing of it, and a program that starts workers without `if __name__ == "__main__"` would start them in
    each worker again.
    """
    own = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = own


def _alone(work: Callable[[Job], Result], job: Job) -> Result | Ended:
    with WorkerPool(1) as pool:
        try:
            return pool._submit(work, job).result()
        except BrokenProcessPool:
            return Ended()


def _do(work: Callable[[Job], Result], job: Job) -> Result:
    """Do a job in a worker. If it ends its process, the process ends: else the error would end the main process."""
    try:
        return work(job)
    except Exception:
        raise
    except BaseException:  # SystemExit after SIGTERM, or whatever an agent raises
        os._exit(1)


def _begin(environment: dict[str, str]) -> None:
    """Prepare a worker: Ctrl-C is for the main process, and output of agents is not part of a result."""
    os.environ.clear()  # noqa: TID251 - see `_started`
    os.environ.update(environment)  # noqa: TID251
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("sim.actors").addHandler(logging.NullHandler())  # results count what fails
    sys.stdout = sys.stderr
    os.dup2(2, 1)  # also that of agents in C, or of programs that they start
    parent = parent_process()
    if parent is not None:  # a worker whose parent was killed would wait for ever
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
