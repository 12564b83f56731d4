"""Jobs in long-lived worker processes (edge)."""

import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

import attrs

Job = TypeVar("Job")
Result = TypeVar("Result")

_SPAWN = get_context("spawn")
_AHEAD = 2
"""Jobs for each process that are handed to the workers, so that no worker waits for its next one."""


@attrs.frozen
class Ended:
    """What came of a job whose process ended early: it was killed, or ran out of memory."""

    problem: str = "the process of the run ended early"


def cores() -> int:
    """Return the number of CPU cores for this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    work: Callable[[Job], Result], jobs: Iterable[Job], processes: int
) -> Generator[tuple[Job, Result | Ended]]:
    """Run jobs in parallel processes, and yield each job with its result when it is done.

    A worker does many jobs, one after another. If one of them ends early, those jobs that were under way are done
    again, each in a process of its own, so that only the guilty one is lost.

    Args:
        work: a function of a module, called with each job in a worker.
        jobs: the jobs; they are taken as they are needed.
        processes: the number of parallel processes.
    """
    waiting = iter(jobs)
    suspects: deque[Job] = deque()
    more = True
    while more or suspects:
        if suspects:
            job = suspects.popleft()
            yield job, _alone(work, job)
            continue
        with _workers(processes) as pool:
            running: dict[Future[Result], Job] = {}
            while True:
                while more and len(running) < processes * _AHEAD:
                    for job in waiting:
                        running[pool.submit(work, job)] = job
                        break
                    else:
                        more = False
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    job = running.pop(future)
                    try:
                        yield job, future.result()
                    except BrokenProcessPool:
                        suspects.append(job)
                if suspects:
                    suspects.extend(running.values())
                    break


def _alone(work: Callable[[Job], Result], job: Job) -> Result | Ended:
    with _workers(1) as pool:
        try:
            return pool.submit(work, job).result()
        except BrokenProcessPool:
            return Ended()


@contextlib.contextmanager
def _workers(processes: int) -> Generator[ProcessPoolExecutor]:
    """Give a pool of workers. If the block is left early, they are killed; they leave nothing on disk."""
    born = _SPAWN.SimpleQueue()
    pool = ProcessPoolExecutor(processes, mp_context=_SPAWN, initializer=_begin, initargs=(born,))
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        while not born.empty():
            with contextlib.suppress(ProcessLookupError):
                os.kill(born.get(), signal.SIGKILL)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        born.close()


def _begin(born: Any) -> None:
    """Prepare a worker: Ctrl-C is for the main process, and output of agents is not part of a result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr
    born.put(os.getpid())
